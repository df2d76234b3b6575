"""What a grid's runs say beyond their ranking: how sure it is, and what the search itself is worth."""

import math
from collections.abc import Mapping, Sequence

from bandits.plans import arms, results
from bandits.plans.arms import Arm, Arms
from bandits.plans.results import Outcome, Point
from bandits.results import arms as report_arms
from bandits.results import of_runs, tuning, words
from bandits.results.significance import Better

_ROUNDS = "total_rounds"  # Points are ranked by them before all else.
_MARKS = {
    of_runs.CHANCE: "chance earns",
    of_runs.CONSTANT: "the best constant action",
    report_arms.CEILING: "the ceiling",
}


def text(
    points: Arms,
    best: Arms,
    ranked: Mapping[str, Sequence[Point]],
    reported: Mapping[str, Sequence[Outcome]],
    reference: str | None = None,
) -> str:
    """Returns it for the terminal.

    Args:
      points: All points, with the seeds that rank them.
      best: The best of each configuration; with fresh seeds, where there are some.
      ranked: The points of each configuration, the best first.
      reported: What the best of each gave with fresh seeds; empty without such.
      reference: What the best are compared with; see `report.arms.Part.compared`.
    """
    better = points.metric.better or "up"
    is_picked = any(len(several) > 1 for several in ranked.values())
    parts = [_expected(ranked, better)] if is_picked else []
    if reported:
        parts.append(_reported(reported))
    elif is_picked:
        parts.append(
            "These values come from the seeds that picked the points, and are too good by that: --reporting_repeat=8 "
            "plays the best of each configuration with fresh seeds."
        )
    compared = [] if is_picked and not reported else _compared(best, reference)
    told = best if reported else points
    parts += [*compared, _seeds(told, has_intervals=bool(compared or reported)), *_firsts(told)]
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
        lines.append(f"  {arms.short(name)}: {told or '-'} ({len(points)} points)")
    return "\n".join(["Expected best of points drawn at random, the same number of each configuration:", *lines])


def _reported(reported: Mapping[str, Sequence[Outcome]]) -> str:
    seeds = [one.run.seed for one in next(iter(reported.values()))]
    lines = [f"The best point of each configuration with fresh seeds, {seeds[0]} to {seeds[-1]}:"]
    for name, outcomes in reported.items():
        found = words.interval(words.of_values([one.value for one in outcomes]))
        lines.append(f"  {arms.short(name)}: {found}; {results.label(outcomes[0].run.point)}")
    return "\n".join(lines)


def _compared(best: Arms, reference: str | None) -> list[str]:
    """Returns the comparison of configurations with one of them, and which cannot be compared with it."""
    if reference and not best.named(reference):
        return [f"--reference={reference} has no finished run: nothing is compared."]
    beside = best.beside(reference)
    found = beside.compared(reference)
    lines = []
    if found and not any(one.is_judged for *_, one in found):
        lines.append(words.ONE_SEED)
    elif found:
        if not (reference or best.named(report_arms.GREEDY)):
            lines.append(f"Compared with {found[0][1].name}, the first: there is no greedy arm, and no --reference.")
        lines += [words.of(one) for *_, one in found]
        lines.append(words.family(one for *_, one in found))
        lines += [f"{one.arm}: {told}" for *_, one in found if not one.is_told_apart and (told := words.found_by(one))]
    if left := [arm.name for arm in best.arms if not arm.role and arm not in beside.arms]:
        lines.append(f"Not compared, of other data, rewards, rounds or cohorts: {', '.join(left)}.")
    return lines


def _seeds(told: Arms, *, has_intervals: bool) -> str:
    """Returns what differs between seeds, and what intervals are over; nothing of single seeds."""
    if all(len(arm.runs) < 2 for arm in told.arms):
        return ""
    varied = report_arms.what_seeds_vary([run for arm in told.arms for run in arm.runs])
    return " ".join([varied, *[words.what_intervals_are_over()] * has_intervals])


def _firsts(told: Arms) -> list[str]:
    """Returns whether the first is told from chance, as one of all: the first of equal data, rewards and cohorts."""
    groups: dict[str, list[Arm]] = {}
    for arm in told.arms:
        if not arm.role:
            groups.setdefault(str(report_arms.environment(arm.flags, _ROUNDS)), []).append(arm)
    lines = [_first(told, max(some, key=lambda arm: _goodness(arm, told))) for some in groups.values()]
    if len(groups) > 1:
        lines.insert(0, "Values of other data, rewards or cohorts are not compared: each has a first of its own.")
    return lines


def _first(told: Arms, leader: Arm) -> str:
    """Returns whether it is told from chance, and what that, the best constant action and the ceiling earn."""
    stand = told.stands[leader]
    if stand.chance is None:
        return ""
    marks = told.marks(leader)
    what = ", ".join(f"{name} {marks[one]:.4g}" for one, name in _MARKS.items() if one in marks)
    if report_arms.CEILING not in marks:
        what += _without_ceiling(leader)
    if stand.beats_chance:
        return f"First: {leader.label}, {stand.word} ({what})."
    return f"No winner: {leader.label} is first, but {_reason(stand.word)} ({what})."


def _without_ceiling(arm: Arm) -> str:
    """Returns what is to say of an arm that has none; empty where there can be none."""
    from bandits.results import ceiling_command

    if "bandits_type" not in arm.flags:
        return ""
    return f"; no ceiling of its data, rewards and rounds: add bandits_type={ceiling_command.CEILING} to --sweep"


def _reason(word: str) -> str:
    return f"it was played with {word}" if word.startswith("one seed") else f"it is {word}"


def _goodness(arm: Arm, told: Arms) -> tuple[int, float]:
    values = list(arm.values(told.metric).values())
    rounds = min(one.rounds for one in arm.outcomes)
    return rounds, results.goodness(values, smallest=told.metric.better == "down")
