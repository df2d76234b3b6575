"""Flags of client selectors and availability, for every binary that selects clients. Nothing here needs TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from data.errors import UsageError
from data.settings import Count, Fraction, Setting, make_options, setting
from optimization.selection import selectors
from optimization.selection.availability import ALWAYS, Availability
from optimization.study import cli


class SelectorEntry(NamedTuple):
    """A value of `--client_selection`.

    Attributes:
      target: The selector's class.
      help: Description in one line.
    """

    target: type[selectors.Selector]
    help: str


SELECTORS: Mapping[str, SelectorEntry] = {
    "uniform": SelectorEntry(selectors.Uniform, "uniformly, without replacement"),
    "rand": SelectorEntry(
        selectors.Rand, "in proportion to the clients' data, with replacement and equal weights in the mean"
    ),
    "pow_d": SelectorEntry(selectors.PowD, "power of choice: candidates with the largest polled losses"),
    "rpow_d": SelectorEntry(selectors.RpowD, "power of choice with the losses that candidates reported last"),
    "ucb_cs": SelectorEntry(selectors.UcbCs, "upper confidence bounds on discounted losses"),
    "active_fl": SelectorEntry(selectors.ActiveFl, "active federated learning: random, favouring high losses"),
}
_TAKE_CANDIDATES = ("pow_d", "rpow_d")


@dataclasses.dataclass(frozen=True)
class SelectorSettings:
    """Settings of client selectors."""

    selection_gamma: Fraction = setting(
        0.7, "Factor by which losses are discounted from round to round", only={"client_selection": ("ucb_cs",)}
    )
    selection_candidates: Count = setting(
        None, "Number of candidates, d (default: twice the cohort)", only={"client_selection": _TAKE_CANDIDATES}
    )
    ucb_variant: str = setting(
        "equations",
        "Update rule of the upper confidence bounds",
        {
            "equations": "the paper's equations: all clients get a new index in every round",
            "algorithm_listing": "the paper's listing: only reporting clients get a new index; the indices "
            "of others shrink by gamma",
        },
        only={"client_selection": ("ucb_cs",)},
    )


SELECTION = Setting(
    "client_selection", {name: one.help for name, one in SELECTORS.items()}, "Selection of a round's clients", "uniform"
)


def check_privacy(settings: cli.Settings, name: str, is_private: bool) -> None:
    """Refuses selectors that break a run's differential privacy.

    Args:
      settings: Flags, with `non_private_selection`.
      name: Value of `--client_selection`.
      is_private: Whether the run adds noise for privacy.

    Raises:
      UsageError: If the run is private and the selector may select a client twice in a round, or uses losses without
        `--non_private_selection`; or if that flag has no effect.
    """
    target = SELECTORS[name].target
    if settings.non_private_selection and not (is_private and target.uses_losses):
        raise UsageError("--non_private_selection needs privacy noise and a --client_selection that uses losses.")
    if is_private and target.repeats:
        raise UsageError(f"--client_selection={name} can repeat a client, which no accountant covers: use uniform.")
    if is_private and target.uses_losses and not settings.non_private_selection:
        raise UsageError(
            f"--client_selection={name} uses private losses: use uniform, or accept it with --non_private_selection."
        )


def voids(selection: selectors.Selection) -> str:
    """Why noise guarantees nothing with this selection, in words that follow "because"; empty if there is no reason."""
    if not selection.selector.uses_losses:
        return ""
    return "clients are chosen by their losses (--non_private_selection), and the privacy cost of this is not known"


def options(settings: Mapping[str, Any]) -> selectors.Selection:
    """Builds the options of client selection from flags; `--client_selection` must name a single selector."""
    name = settings["client_selection"]
    values = {}
    if name == "ucb_cs":
        is_listing = settings["ucb_variant"] == "algorithm_listing"
        values = {"gamma": settings["selection_gamma"], "algorithm_listing": is_listing}
    if name in _TAKE_CANDIDATES:
        values["num_candidates"] = settings["selection_candidates"]
    return selectors.Selection(name, SELECTORS[name].target, tuple(values.items()))


def check_population(selection: selectors.Selection, population: int, cohort_size: int) -> None:
    """Refuses a selection that does not fit the clients.

    Raises:
      UsageError: If the sizes of cohort, candidates and population are incompatible.
    """
    selection.build([1] * population, cohort_size)


def availability(settings: cli.Settings) -> Availability:
    """Builds the options of availability from flags, which must include `--environment_seed`."""
    if not settings.availability and not settings.drop_out:
        return ALWAYS
    return make_options(Availability, settings, seed=settings.environment_seed or 0)
