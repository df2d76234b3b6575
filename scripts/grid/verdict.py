"""What a grid's runs say beyond their ranking: how sure it is, and what the search itself is worth."""

import math
import pathlib
from collections.abc import Mapping, Sequence

from optimization.study.metrics import Metric
from scripts import runs
from scripts.grid.results import Outcome, Point
from scripts.verdicts import comparison, landmarks, of_runs, tuning, words
from scripts.verdicts.comparison import Comparison, Pair
from scripts.verdicts.significance import Better

_GREEDY = "greedy"  # What configurations are compared with, where there is one.


def text(
    ranked: Mapping[str, Sequence[Point]],
    reported: Mapping[str, Sequence[Outcome]],
    folder: pathlib.Path,
    metric: Metric,
    *,
    smallest: bool,
) -> str:
    """Returns it for the terminal.

    Args:
      ranked: The points of each configuration, the best first, by the seeds that rank them.
      reported: What the best of each gave with fresh seeds; empty without such.
      folder: Folder of all runs.
      metric: What ranks.
      smallest: Whether less of it is better.
    """
    better: Better = "down" if smallest else "up"
    is_picked = any(len(points) > 1 for points in ranked.values())
    parts = [_expected(ranked, better)] if is_picked else []
    best = {name: reported.get(name) or points[0].outcomes for name, points in ranked.items()}
    names = {name: _short(name) for name in best}
    if reported:
        parts.append(_reported(names, reported))
    elif is_picked:
        parts.append(
            "These values come from the seeds that picked the points, and are too good by that: --reporting_repeat=8 "
            "plays the best of each configuration with fresh seeds."
        )
    parts.append(_compared(names, best, folder, better, is_picked=is_picked and not reported))
    arms = {names[name]: found for name, found in best.items()} if reported else _points(ranked)
    leader = max(
        ((arm, found) for arm, found in arms.items()),
        key=lambda one: _goodness(one[1], smallest=smallest),
        default=None,
    )
    if leader:
        parts.append(_told_from_chance(arms, leader[0], folder, metric, better))
    return "\n".join(filter(None, parts))


def _expected(ranked: Mapping[str, Sequence[Point]], better: Better) -> str:
    """Returns the expected best of so many points of each configuration: more parameters give no advantage there.

    Nothing, where points were stopped early: values after other numbers of rounds are no draws of one search.
    """
    if len({point.rounds for points in ranked.values() for point in points if math.isfinite(point.mean)}) > 1:
        return ""
    least = min(len(points) for points in ranked.values())
    budgets = sorted({*(2**power for power in range(least.bit_length())), least} if least > 1 else {1})
    lines = []
    for name, points in ranked.items():
        values = [point.mean for point in points]
        found = [(budget, tuning.expected_best(values, budget, better=better)) for budget in budgets]
        told = ", ".join(f"{value:.4f} of {budget}" for budget, value in found if math.isfinite(value))
        lines.append(f"  {_short(name)}: {told or '-'} ({len(points)} points)")
    return "\n".join(["Expected best of points drawn at random, the same number of each configuration:", *lines])


def _reported(names: Mapping[str, str], reported: Mapping[str, Sequence[Outcome]]) -> str:
    seeds = [one.run.seed for one in next(iter(reported.values()))]
    lines = [f"The best point of each configuration with fresh seeds, {seeds[0]} to {seeds[-1]}:"]
    for name, outcomes in reported.items():
        found = words.interval(words.of_values([one.value for one in outcomes]))
        lines.append(f"  {names[name]}: {found}; {_named(outcomes[0])}")
    return "\n".join(lines)


def _compared(
    names: Mapping[str, str],
    best: Mapping[str, Sequence[Outcome]],
    folder: pathlib.Path,
    better: Better,
    *,
    is_picked: bool,
) -> str:
    """Returns the comparison of configurations with one of them; nothing of values that picked themselves."""
    if len(best) < 2 or is_picked:
        return ""
    reference = next((name for name in best if names[name] == _GREEDY), next(iter(best)))
    values = {name: _values(outcomes) for name, outcomes in best.items()}
    unpaired = {name for name, outcomes in best.items() if of_runs.is_unpaired(_read(outcomes, folder))}
    pairs = [
        Pair(names[name], values[name], names[reference], values[reference], not {name, reference} & unpaired)
        for name in best
        if name != reference
    ]
    found: list[Comparison] = comparison.family(pairs, better)
    if not any(one.is_judged for one in found):
        return words.ONE_SEED
    lines = [words.of(one) for one in found]
    lines.append(words.family(found))
    lines += [f"{one.arm}: {told}" for one in found if not one.is_told_apart and (told := words.found_by(one))]
    return "\n".join([*lines, words.what_intervals_are_over()])


def _told_from_chance(
    arms: Mapping[str, Sequence[Outcome]], leader: str, folder: pathlib.Path, metric: Metric, better: Better
) -> str:
    """Returns whether the first is told from chance, as one of all that are ranked; empty where chance is not known."""
    found = {arm: _read(outcomes, folder) for arm, outcomes in arms.items()}
    chance = of_runs.bound(found[leader], metric, of_runs.CHANCE)
    if chance is None:
        return ""
    values = {arm: _values(outcomes) for arm, outcomes in arms.items()}
    stand = of_runs.stands(found, metric, better, values)[leader]
    what = f"chance earns {landmarks.interval(chance).mean:.4g}"
    constant = of_runs.bound(found[leader], metric, of_runs.CONSTANT)
    if constant is not None:
        what += f", the best constant action {landmarks.interval(constant).mean:.4g}"
    if stand.beats_chance:
        return f"First: {leader}, {stand.word} ({what})."
    return f"No winner: {leader} is first, but {_reason(stand.word)} ({what})."


def _reason(word: str) -> str:
    return f"it was played with {word}" if word.startswith("one seed") else f"it is {word}"


def _points(ranked: Mapping[str, Sequence[Point]]) -> dict[str, Sequence[Outcome]]:
    return {_named(point.outcomes[0]): point.outcomes for points in ranked.values() for point in points}


def _named(outcome: Outcome) -> str:
    """Returns the name of a point, without the key of its flags."""
    return outcome.run.point.rpartition("-")[0]


def _values(outcomes: Sequence[Outcome]) -> dict[int, float]:
    return {one.run.seed: one.value for one in outcomes}


def _goodness(outcomes: Sequence[Outcome], *, smallest: bool) -> tuple[int, float]:
    mean = sum(one.value for one in outcomes) / len(outcomes)
    rounds = min(one.rounds for one in outcomes)
    return rounds, -math.inf if math.isnan(mean) else -mean if smallest else mean


def _read(outcomes: Sequence[Outcome], folder: pathlib.Path) -> list[runs.Run]:
    """Returns the runs of a point, those that are finished."""
    return [runs.read(folder / one.run.name) for one in outcomes if one.rounds]


def _short(configuration: str) -> str:
    """Returns what a configuration is called: its words."""
    return " ".join(word.partition("=")[2] for word in configuration.split()) or "the grid"
