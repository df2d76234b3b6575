"""Verdicts in words, the same in the terminal, on pages and in advice."""

import math
from collections.abc import Iterable, Sequence

from bandits.results import power
from bandits.results.comparison import UNPAIRED, Comparison
from optimization.study.intervals import Interval

ONE_SEED = "One seed has no test of a difference: run several, --repeat=8."


def listed(names: Sequence[str]) -> str:
    """Names as an enumeration in a sentence: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def short_verdict(comparison: Comparison) -> str:
    """Verdict for a column whose title names the reference."""
    if not comparison.is_judged:
        return "one seed: no test" if comparison.pairs < 2 else "diverged: no test"
    return ("better" if comparison.is_better else "worse") if comparison.is_significant else "no significant difference"


def seeds_needed(comparison: Comparison) -> str:
    """Seeds required to detect the observed difference; empty if it is significant, or the number is unknown."""
    if comparison.is_significant or math.isnan(comparison.seeds_needed):
        return ""
    return (
        f"about {comparison.seeds_needed:,}"
        if math.isfinite(comparison.seeds_needed)
        else f"more than {power.MOST_SEEDS:,}"
    )


def seeds(number: int) -> str:
    """Number of seeds as text."""
    return count(number, "seed")


def p_value(p: float) -> str:
    """P value as text; never a rounded 0."""
    if math.isnan(p):
        return "-"
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def estimate(one: Interval, *, signed: bool = False, label: str = "95% CI ") -> str:
    """Mean and interval, such as `0.359 (95% CI 0.341 to 0.378)`; the mean alone without an interval."""
    return one.text(signed=signed, label=label) if one.high > one.low else f"{one.mean:{'+' * signed}.3g}"


def effect(comparison: Comparison) -> str:
    """Difference as text, such as `+0.136 (95% CI +0.119 to +0.153, 8 seeds)`."""
    mean, _, bounds = estimate(comparison.interval, signed=True).partition(" (")
    return f"{mean} ({', '.join(filter(None, [bounds.removesuffix(')'), seeds(comparison.pairs)]))})"


def count(size: int, what: str) -> str:
    """Count with its noun, such as `1 round`."""
    return f"{size:,} {what}{'s' * (size != 1)}"


def what_seeds_vary(*, partition: bool = False, initial_model: bool = True, noise: bool = False) -> str:
    """Sentence that says what differs between seeds.

    Args:
      partition: Whether the assignment of examples to clients differs (`--resplit`).
      initial_model: Whether the initial weights differ; weights from a file do not.
      noise: Whether noise for privacy is sampled.
    """
    varied = ["the cohorts", *["the initial weights"] * initial_model, "the clients' samples"]
    varied += [*["the noise"] * noise, *["which client holds which examples"] * partition]
    return f"Seeds vary {', '.join(varied[:-1])} and {varied[-1]}."


def what_intervals_are_over(clients: str = "") -> str:
    """Sentences that say what the intervals are over.

    Args:
      clients: Kind of clients, if there is an interval over evaluated clients: `held-out` or `participating`.
    """
    about = "Intervals over seeds are about other seeds on this data, not about other clients."
    if not clients:
        return about
    return (
        f"{about} The interval over {clients} clients is about other clients with these seeds' models: it compares "
        "greedy policies at the last evaluation."
        + " These clients were seen in training, so others may earn less."
        * (clients == "participating")
    )


def family(comparisons: Iterable[Comparison]) -> str:
    """Sentence that names the tests; empty without any."""
    judged = [comparison for comparison in comparisons if comparison.is_judged]
    if not judged:
        return ""
    tests = " and ".join(
        ["a paired t test"] * any(comparison.kind != UNPAIRED for comparison in judged)
        + ["Welch's for configurations whose runs no seed determines"]
        * any(comparison.kind == UNPAIRED for comparison in judged)
    )
    many = f", adjusted by Holm for {len(judged)} configurations" if len(judged) > 1 else ""
    return f"Significant: p below 5% by {tests}{many}."
