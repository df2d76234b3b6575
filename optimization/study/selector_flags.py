"""Client selectors by name, with their flags, for every binary that selects clients; needs no TensorFlow."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from data.errors import UsageError
from optimization.selection import selectors
from optimization.study import cli
from optimization.study.settings import Parameter


@dataclasses.dataclass(frozen=True)
class SelectorEntry:
    """A value of `--client_selection`.

    Attributes:
      target: The class.
      help: One line.
      parameters: Its arguments that are numbers; their flags begin with `selection_`.
    """

    target: type[selectors.Selector]
    help: str
    parameters: Mapping[str, Parameter] = dataclasses.field(default_factory=dict)


SELECTORS: Mapping[str, SelectorEntry] = {
    "uniform": SelectorEntry(selectors.Uniform, "every client alike, without replacement"),
    "rand": SelectorEntry(
        selectors.Rand, "in proportion to the clients' data, with replacement; all places weigh the same in the mean"
    ),
    "pow_d": SelectorEntry(selectors.PowD, "power of choice: the largest losses of candidates that are polled"),
    "rpow_d": SelectorEntry(selectors.RpowD, "power of choice by the losses that candidates reported last"),
    "ucb_cs": SelectorEntry(
        selectors.UcbCs,
        "upper confidence bounds of discounted losses",
        {"gamma": Parameter(0.7, "discount of a round's losses in the next round", high=1.0)},
    ),
    "active_fl": SelectorEntry(
        selectors.ActiveFl,
        "active federated learning: random, in favour of high losses",
        {
            "alpha_1": Parameter(0.75, "part of the clients, of low valuation, left out", high=1.0, below=True),
            "alpha_2": Parameter(0.01, "weight of a valuation in the exponent"),
            "alpha_3": Parameter(0.1, "part of the cohort that is drawn uniformly", high=1.0),
        },
    ),
}
_TAKE_CANDIDATES = ("pow_d", "rpow_d")


def define(flags: cli.FlagSet, *, with_privacy: bool = False) -> None:
    """Defines the selectors' parameters in the current group.

    Args:
      flags: Where to.
      with_privacy: Whether the binary can train with differential privacy; see `check_privacy`.
    """
    flags.integer("selection_candidates", None, "candidates, d (default: twice the cohort)", low=1)
    flags.belong("selection_candidates", client_selection=_TAKE_CANDIDATES)
    flags.choice(
        "ucb_variant",
        "equations",
        {
            "equations": "every client's index anew in each round",
            "algorithm_listing": "only reporting clients' indices; the others' are multiplied by gamma",
        },
        "whether the study's equations or its listing counts",
    )
    flags.belong("ucb_variant", client_selection=("ucb_cs",))
    own = {name: entry.parameters for name, entry in SELECTORS.items()}
    flags.parameters("selection_", "client_selection", own)
    if with_privacy:
        flags.switch(
            "non_private_selection",
            False,
            "with differential privacy, select by losses all the same: the privacy that this spends is not counted",
        )


def check_privacy(settings: cli.Settings, name: str, is_private: bool) -> None:
    """Refuses selectors that break a run's differential privacy. Needs `--non_private_selection`.

    Args:
      settings: Flags.
      name: The selector.
      is_private: Whether the run adds noise for privacy.

    Raises:
      UsageError: If the selector reads losses, or lets a client take part twice in a round, with privacy on and without
        leave to; or if the leave has no effect.
    """
    target = SELECTORS[name].target
    if settings.non_private_selection and not (is_private and target.uses_losses):
        raise UsageError(
            "--non_private_selection has an effect only with differential privacy and a --client_selection by losses."
        )
    if is_private and target.repeats:
        raise UsageError(
            f"--client_selection={name} may take a client twice in a round, and so doubles its part in the sum, which "
            "differential privacy bounds: use uniform."
        )
    if is_private and target.uses_losses and not settings.non_private_selection:
        raise UsageError(
            f"--client_selection={name} chooses by the clients' losses, which spends privacy that the accountant does "
            "not see: the reported epsilon would be too small. Use uniform, or accept it with --non_private_selection."
        )


def weighting(name: str, client_weighting: str) -> str:
    """Returns how clients weigh in a mean: who is drawn in proportion to its examples is not weighted by them again.

    Args:
      name: The selector.
      client_weighting: What was asked for, `uniform` or `num_examples`.
    """
    return "uniform" if SELECTORS[name].target.repeats else client_weighting


def voids(name: str) -> str:
    """Returns why noise guarantees nothing under this selector, as the words after "because"; empty if it does."""
    if not SELECTORS[name].target.uses_losses:
        return ""
    return "clients are chosen by their losses (--non_private_selection), and the privacy that this spends is not known"


def build(settings: Mapping[str, Any], name: str, sizes: Sequence[int], cohort_size: int) -> selectors.Selector:
    """Returns a selector.

    Args:
      settings: Flags of `define`.
      name: Its name.
      sizes: int [clients], examples of each client.
      cohort_size: Clients of a round.

    Raises:
      UsageError: If cohort, candidates and population do not go together.
    """
    values = {argument: settings[f"selection_{argument}"] for argument in SELECTORS[name].parameters}
    if name == "ucb_cs":
        values["algorithm_listing"] = settings["ucb_variant"] == "algorithm_listing"
    if name in _TAKE_CANDIDATES:
        candidates = settings["selection_candidates"]
        if candidates is not None and not cohort_size <= candidates <= len(sizes):
            raise UsageError(
                f"--selection_candidates={candidates} must lie between the cohort of {cohort_size} and the population "
                f"of {len(sizes)}."
            )
        values["num_candidates"] = candidates or min(2 * cohort_size, len(sizes))
    try:
        return SELECTORS[name].target(sizes, cohort_size, **values)
    except ValueError as error:
        raise UsageError(f"--client_selection={name}: {error}") from error
