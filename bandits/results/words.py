"""Verdicts in words, the same in the terminal, on pages and in advice."""

import math
from collections.abc import Iterable, Sequence

from bandits.results import power
from bandits.results.comparison import UNPAIRED, Comparison
from optimization.study.intervals import Interval

ONE_SEED = "One seed has no test of a difference: run several, --repeat=8."


def listed(names: Sequence[str]) -> str:
    """Returns names as a sentence has them: commas between them, and before the last one an `and`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def verdict(one: Comparison) -> str:
    """Returns the verdict and its side, such as "better than greedy" or "not significantly different from greedy"."""
    if one.is_significant:
        return f"{'better' if one.is_better else 'worse'} than {one.reference}"
    return f"{one.word} from {one.reference}"


def seeds_needed(one: Comparison) -> str:
    """Returns the seeds required to find the observed difference; empty where it is significant, or that is unknown."""
    if one.is_significant or math.isnan(one.seeds_needed):
        return ""
    return f"about {one.seeds_needed:,}" if math.isfinite(one.seeds_needed) else f"more than {power.MOST_SEEDS:,}"


def seeds(count: int) -> str:
    """Returns a number of seeds as text."""
    return f"{count} seed{'s' * (count != 1)}"


def p_value(p: float) -> str:
    """Returns a p value as text; never a rounded 0."""
    if math.isnan(p):
        return "-"
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def estimate(one: Interval, *, signed: bool = False, label: str = "95% CI ") -> str:
    """Returns a mean and its interval, such as `0.359 (95% CI 0.341 to 0.378)`; the mean alone where it has none."""
    return one.text(signed=signed, label=label) if one.high > one.low else f"{one.mean:{'+' * signed}.3g}"


def effect(one: Comparison) -> str:
    """Returns a difference, such as `+0.136 (95% CI +0.119 to +0.153, 8 seeds)`."""
    mean, _, ends = estimate(Interval(one.difference, one.low, one.high, one.pairs), signed=True).partition(" (")
    return f"{mean} ({', '.join(filter(None, [ends.removesuffix(')'), seeds(one.pairs)]))})"


def count(size: int, what: str) -> str:
    """Returns a number of things, such as `1 round`."""
    return f"{size:,} {what}{'s' * (size != 1)}"


def what_seeds_vary(*, partition: bool = False, initial_model: bool = True, noise: bool = False) -> str:
    """Returns what differs between seeds.

    Args:
      partition: Whether the clients' shares of the data do (`--resplit`).
      initial_model: Whether the model's first weights do; not those that were read from a file.
      noise: Whether noise for privacy is drawn.
    """
    varied = ["the cohorts", *["the first weights"] * initial_model, "the clients' draws"]
    varied += [*["the noise"] * noise, *["which client holds which examples"] * partition]
    return f"Seeds vary {', '.join(varied[:-1])} and {varied[-1]}."


def what_intervals_are_over(clients: str = "") -> str:
    """Returns what the intervals say, and what they do not.

    Args:
      clients: Whose, if an interval over evaluated clients stands beside them: `held-out` or `participating`.
    """
    about = "Intervals over seeds say what other seeds would give on this data, not what other clients would"
    if not clients:
        return f"{about}."
    return (
        f"{about}; that over {clients} clients, of the greedy policy at the last evaluation, says what other clients "
        "would earn with these seeds' models."
    )


def family(comparisons: Iterable[Comparison]) -> str:
    """Returns which tests were used; empty where there was none."""
    judged = [one for one in comparisons if one.is_judged]
    if not judged:
        return ""
    tests = " and ".join(
        ["a paired t test"] * any(one.kind != UNPAIRED for one in judged)
        + ["Welch's for configurations whose runs no seed determines"] * any(one.kind == UNPAIRED for one in judged)
    )
    many = f", adjusted by Holm for {len(judged)} configurations" if len(judged) > 1 else ""
    return f"Significant: p below 5% by {tests}{many}."
