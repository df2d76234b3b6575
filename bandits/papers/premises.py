"""What must be true for a claim to be judged.

- A claim about a strong initial model needs a model that beats the best fixed action (`Claim.premises`).
- A comparison with Greedy needs one of the two to beat the best fixed action: below it, both are failures.
- Where the worse of two was searched, its best point lies on no edge of its grid: beyond it, it could be the better.

"Beats" means with the whole 95% interval. Where the best fixed action is unknown, so is the premise: `inconclusive`.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

from bandits.papers.plan import Figure, Measure
from bandits.papers.results import Value, number
from bandits.plans.plan import Configuration
from bandits.results import phrases as words
from bandits.results.comparison import Comparison
from optimization.study.intervals import Interval

CERTAIN_PAIRS = 6  # From this many seeds on, equal differences have p < 5% by the sign test.
_GREEDY = "Greedy"  # The label of the strategy that does not explore.

Known = Mapping[tuple[str, str], Value]  # By arm and measure.


@dataclasses.dataclass(frozen=True)
class Premise:
    """Whether a comparison may be judged: `holds` is None where that is unknown, and `why` says what is wrong."""

    holds: bool | None = True
    why: str = ""


MET = Premise()


def learned(alternatives: Sequence[Value]) -> Premise:
    """Premise that one of several configurations beats the best fixed action with its whole interval."""
    compared = [(value, value.baselines.fixed if value.baselines else None) for value in alternatives]
    if any(constant and _beats(constant) for _, constant in compared):
        return MET
    unknown = [value.configuration for value, constant in compared if constant is None]
    if unknown:
        return Premise(None, f"the best fixed action of {' and '.join(unknown)} is not recorded")
    if not all(constant and constant.is_judged for _, constant in compared):
        return Premise(None, "one seed, or a run that diverged, against the best fixed action")
    verb = f"{compared[0][0].configuration} does not beat" if len(compared) == 1 else "neither beats"
    fixed = dict.fromkeys(number(constant.reference_mean) for _, constant in compared if constant)
    return Premise(False, f"{verb} the best fixed action, {words.listed([*fixed])}")


def _beats(constant: Comparison) -> bool:
    if not constant.is_judged or not constant.is_better:
        return False
    if math.isfinite(constant.low):
        return not constant.low <= 0 <= constant.high
    return constant.pairs >= CERTAIN_PAIRS


def _tuned(loser: Value, figure: Figure, known: Known) -> Premise:
    """Premise that the best point of the worse configuration, if it was searched, lies on no edge of its grid."""
    found = edges(figure, known.values(), loser.configuration)
    why = f"the best point of {loser.configuration} lies on the edge of its grid ({', '.join(found)})"
    return Premise(False, why) if found else MET


def edges(figure: Figure, rows: Iterable[Value], label: str) -> list[str]:
    """Flags of a configuration's best point that lie on an edge of its grid, with their values.

    The grid is the one that ran. Where records do not say whether a pick was on its edge, it is the declared one.
    """
    configuration = _configuration(figure, label)
    picked = {row.measure: row for row in rows if row.is_picked and row.configuration == label}
    declared = configuration.edges({flag: row.mean for flag, row in picked.items()}) if configuration else []
    on_edge = {flag: flag in declared if row.is_edge is None else row.is_edge for flag, row in picked.items()}
    return [f"{flag.replace('_', ' ')} {number(picked[flag].mean)}" for flag, is_edge in on_edge.items() if is_edge]


def _configuration(figure: Figure, label: str) -> Configuration | None:
    return next((configuration for configuration in figure.configurations if configuration.label == label), None)


def of_comparison(
    one: Value, other: Value, difference: Interval, measure: Measure, figure: Figure, known: Known
) -> Premise:
    """Premise of a comparison of two configurations; see the module's docstring."""
    arms = [_configuration(figure, value.configuration) for value in (one, other)]
    if (
        any(configuration and _GREEDY in configuration.label.replace(",", "").split() for configuration in arms)
        and one.configuration != other.configuration
    ):
        premise = learned([one, other])
        if not premise.holds:
            return premise
    is_first_worse = difference.mean > 0 if measure.smallest else difference.mean < 0
    return _tuned(one if is_first_worse else other, figure, known)
