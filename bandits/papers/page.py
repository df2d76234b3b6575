"""The page of results, generated from the records alone: verdicts, tables and the scoreboard."""

import collections
import dataclasses
import itertools
import math
import pathlib
import string
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from bandits.papers import judging, records, results, scoreboard, standing, texts
from bandits.papers.plan import Figure
from bandits.papers.results import Value, number
from bandits.papers.scoreboard import Line
from bandits.plans.plan import Configuration
from bandits.results import comparison, landmarks, tasks, words

if TYPE_CHECKING:
    import pandas as pd

_PAPERS_DATA = "The paper's data."
_HEAD, _EARLIER = (pathlib.Path(__file__).with_name(name) for name in ("page_head.md", "page_earlier.md"))


@dataclasses.dataclass(frozen=True)
class _Played:
    """A figure and its records.

    Attributes:
      figure: The figure.
      table: Its records; None if there are none.
      rows: Its numbers.
      lines: Its lines of the scoreboard.
    """

    figure: Figure
    table: "pd.DataFrame | None"
    rows: Sequence[Value]
    lines: Sequence[Line]


def made(folder: pathlib.Path) -> str:
    """Returns the page.

    Args:
      folder: Folder of the records; pictures that lie beside a figure's records are shown.

    Raises:
      UsageError: If a file holds no records.
    """
    played = [_read(figure, folder) for figure in texts.load(texts.PAPER).values()]
    small = [_read(figure, folder) for figure in texts.load(texts.SMALL).values()]
    own = [one for one in played if one.figure.own]
    of_texts = _chosen([one for one in played if not one.figure.own], small)
    notes = "\n".join(f"  - **{word}**: {meaning}." for word, meaning in scoreboard.notes().items())
    head = string.Template(_HEAD.read_text(encoding="utf-8")).substitute(words=notes)
    parts = [head, "## For practitioners\n"]
    parts += [_figure(one, folder) for one in own if one.table is not None]
    if found := scoreboard.by_chance([line for one in own for line in one.lines]):
        parts.append(f"{found}\n")
    parts += _over_tasks(own)
    missing = [f"- {one.figure.about}" for one in own if one.table is None]
    if missing:
        parts.append("### Not run yet\n\n" + "\n".join(missing) + "\n")
    parts.append("## The five papers\n")
    parts.append(_summary(of_texts))
    by_text: dict[str, list[_Played]] = {}
    for one in of_texts:
        by_text.setdefault(one.figure.text, []).append(one)
    parts += [_text(name, some) for name, some in by_text.items()]
    return "\n".join([*parts, _EARLIER.read_text(encoding="utf-8")])


def strays(folder: pathlib.Path) -> list[str]:
    """Returns what lies beside the records that the page is made of, and is not in it, in words with its file."""
    told: list[str] = []
    left = {path for scale in texts.SCALES for path in folder.glob(f"{scale}/*.csv")}
    for scale in texts.SCALES:
        for figure in texts.load(scale).values():
            path = records.path_of(figure, folder)
            left.discard(path)
            table = records.read(path)
            name = path.relative_to(folder)
            told += [] if table is None else [f"{name}: {word}" for word in records.strays(figure, table)]
    return told + [f"{path.relative_to(folder)} is of no figure" for path in sorted(left)]


def _read(figure: Figure, folder: pathlib.Path) -> _Played:
    table = records.read(records.path_of(figure, folder))
    rows = [] if table is None else records.values(figure, table)
    return _Played(figure, table, rows, scoreboard.lines(figure, rows))


def _chosen(paper: Sequence[_Played], small: Sequence[_Played]) -> list[_Played]:
    """Returns each figure at the paper's scale if all of it was run, else at the small scale, too, if it has one."""
    by_name = {one.figure.name: one for one in small}
    found = []
    for one in paper:
        if one.table is not None and {arm.label for arm in one.figure.arms} <= set(one.table["arm"]):
            found.append(one)
            continue
        both = [one, *filter(None, [by_name.get(one.figure.name)])]
        found += [each for each in both if each.table is not None] or both[-1:]
    return found


def _figure(one: _Played, folder: pathlib.Path) -> str:
    """Returns the part of one of this project's figures."""
    figure, table = one.figure, one.table
    assert table is not None
    parts = [f"### {figure.about}\n", _about(one), _numbers(one), *_tests(one)]
    picture = records.path_of(figure, folder).with_suffix(".png")
    if picture.exists():
        parts.append(f"![{figure.about}]({folder.name}/{figure.scale}/{picture.name})\n")
    run = [line for line in one.lines if line.status != judging.NOT_RUN]
    rows = [[f"{line.says} ({line.place})", f"**{line.verdict}**", line.ours, line.means] for line in run]
    head = ["claim", "verdict (data)", "our numbers", "what it means"]
    if not any(line.means for line in run):
        head, rows = head[:-1], [row[:-1] for row in rows]
    if run:
        parts.append(_table(head, rows))
    if left := len(one.lines) - len(run):
        parts.append(f"{_counted(left, 'claim')} more: not run.\n")
    return "\n".join(parts)


def _over_tasks(own: Sequence[_Played]) -> list[str]:
    """Returns what arms reach over the figures of one measure that have a chance and a ceiling; nothing of one task."""
    parts: list[str] = []
    by_measure: dict[tuple[str, bool], list[_Played]] = {}
    for one in own:
        by_measure.setdefault((one.figure.measures[0].name, one.figure.measures[0].smallest), []).append(one)
    for (name, smallest), some in by_measure.items():
        scales, lacking = [list(itertools.chain(*found)) for found in zip(*map(_scales, some), strict=True)]
        scales, others = _of_common_arms(scales)
        lacking += others
        found = tasks.over(scales, "down" if smallest else "up")
        if found is None or not found.scores:
            continue
        parts.append(f"### Interquartile mean over tasks: {name.replace('_', ' ')}\n")
        parts.append(f"{'; '.join(found.tasks)}. {tasks.WHAT_IT_IS}\n")
        rows = [(arm, str(found.seeds[arm]), words.interval(score)) for arm, score in found.scores.items()]
        parts.append(_table(("", "seeds of each task", "normalized score"), rows))
        if left_out := [*lacking, *found.left_out]:
            parts.append(f"Left out: {'; '.join(left_out)}.\n")
    return parts


def _of_common_arms(scales: Sequence[tasks.Scale]) -> tuple[list[tasks.Scale], list[str]]:
    """Returns the tasks that have the arm which most of them have, and in words those that do not."""
    by_task: dict[str, set[str]] = {}
    for scale in scales:
        by_task.setdefault(scale.task, set()).update(scale.values)
    counts = collections.Counter(itertools.chain(*by_task.values()))
    most = max(sorted(counts), key=counts.__getitem__, default="")
    others = [f"{task}: it has no configuration {most}" for task, arms in by_task.items() if most not in arms]
    return [scale for scale in scales if most in by_task[scale.task]], others


def _scales(one: _Played) -> tuple[list[tasks.Scale], list[str]]:
    """Returns a figure's arms between chance and the ceiling of their kind, and which have none, in words.

    A label's words after the first, where all of a kind share them, name the task: strategies are what is compared.
    """
    task = one.figure.about.partition(":")[0]
    first = one.figure.measures[0]
    values = {row.arm: row.sound for row in one.rows if row.measure == first.name}
    ceilings = standing.ceilings(one.figure, values)
    together: dict[Hashable, list[Configuration]] = {}
    if standing.CHANCE not in values or not ceilings:
        return [], []
    for arm in one.figure.arms:
        if arm.label in values and not standing.is_landmark(arm):
            together.setdefault(standing.kind(one.figure, arm), []).append(arm)
    scales, lacking, again = [], [], []
    counted: set[str] = set()
    for kind, arms in together.items():
        if kind not in ceilings:
            lacking += [arm.label for arm in arms]
            continue
        where, *others = {arm.words[1:] for arm in arms}
        name = task if others else ", ".join((task, *where))
        by_name = {arm.label if others else arm.words[0]: values[arm.label] for arm in arms}
        if counted & set(by_name):  # Of the same seeds, so that it is no task of its own.
            again += [arm.label for arm in arms]
            continue
        counted |= set(by_name)
        scales.append(tasks.Scale(name, by_name, values[standing.CHANCE], ceilings[kind]))
    left_out = [
        f"{task}: {', '.join(lacking)}: no full-feedback baseline with their deployment period and environment was run"
    ] * bool(lacking)
    left_out += [f"{task}: {', '.join(again)}: their seeds are already counted"] * bool(again)
    return scales, left_out


def _about(one: _Played) -> str:
    """Returns what was played, on what."""
    figure, table = one.figure, one.table
    assert table is not None
    seeds = sorted(set(table["seed"].astype(int)))
    missing = [arm.label for arm in figure.arms if arm.label not in set(table["arm"])]
    few = [f"{label} ({count})" for label, count in table["arm"].value_counts(sort=False).items() if count < len(seeds)]
    about = [
        f"{results.data_note(figure) or _PAPERS_DATA} {_counted(len(seeds), 'seed').capitalize()} ({_range(seeds)}), "
        f"{_range(sorted(set(table['rounds'].astype(int))))} rounds",
        f"recorded on {', '.join(records.told([table], 'machine'))}",
        f"run at {', '.join(records.told([table], 'commit'))}",
    ]
    lines = [f"{'; '.join(about)}.\n"]
    if missing:
        lines.append(f"**Not run yet:** {', '.join(missing)}.\n")
    if few:
        lines.append(f"**Fewer seeds so far:** {', '.join(few)}.\n")
    if edges := scoreboard.edges(figure, one.rows):
        lines.append(f"**{edges.replace(':', ':**', 1)}\n")
    return "\n".join([*lines, f"```sh\n{scoreboard.command(figure, seeds[-1] + 1)}\n```\n"])


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def _range(values: Sequence[int]) -> str:
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))


def _numbers(one: _Played) -> str:
    """Returns the table of an own figure: each arm's measures, and their differences to the reference."""
    figure = one.figure
    known = {(row.arm, row.measure): row for row in one.rows}
    names = [one.name for one in figure.measures if any(name == one.name for _, name in known)]
    if not names:
        return ""
    picked = list(dict.fromkeys(row.measure for row in one.rows if row.is_picked))
    head = ["", *(name.replace("_", " ") for name in names)]
    head += [f"{name.replace('_', ' ')} minus {figure.reference}" for name in names if figure.reference]
    stands = {
        arm.label: row.stand.word for arm in figure.arms if (row := known.get((arm.label, names[0]))) and row.stand
    }
    head += ["compared with bounds"] * bool(stands)
    rows = []
    for arm in figure.arms:
        if (arm.label, names[0]) not in known:
            continue
        cells = [words.interval(known[arm.label, name].interval) for name in names]
        other = _reference(figure, arm)
        for name in names if figure.reference else ():
            second = known.get((other, name)) if other else None
            cells.append(judging.minus(known[arm.label, name], second) if second else "")
        cells += [stands.get(arm.label, "")] * bool(stands)
        cells += [_picked(known.get((arm.label, flag))) for flag in picked]
        rows.append((standing.shown(arm), *cells))
    constants = standing.constants(one.rows)
    for earned, labels in constants.items():
        name = landmarks.CONSTANT + f", of {'; '.join(labels)}" * (len(constants) > 1)
        rows.append((name, earned, *[""] * (len(head) - 2 + len(picked))))
    return _table([*head, *(flag.replace("_", " ") for flag in picked)], rows)


def _tests(one: _Played) -> list[str]:
    """Returns the tests of an own figure's first measure against the reference, one family; empty without one."""
    figure, first = one.figure, one.figure.measures[0]
    known = {row.arm: row for row in one.rows if row.measure == first.name}
    pairs = []
    for arm in figure.arms:
        mine, other = known.get(arm.label), known.get(_reference(figure, arm) or "")
        if mine and other:
            is_paired = not (mine.is_unpaired or other.is_unpaired)
            pairs.append(comparison.Pair(arm.label, mine.sound, other.arm, other.sound, is_paired))
    found = comparison.family(pairs, "down" if first.smallest else "up")
    if not any(tested.is_judged for tested in found):
        return []
    rows = []
    for tested in found:
        if not tested.is_judged:
            rows.append((tested.arm, "; ".join(["inconclusive", *tested.notes]), *[""] * 5))
            continue
        signs, least = tested.sign_flip_adjusted_p, tested.sign_flip_least_p
        rows.append(
            (
                tested.arm,
                words.verdict(tested),
                words.p_value(tested.adjusted_p),
                "cannot be significant" if least > comparison.LEVEL else words.p_value(signs),
                f"{tested.superiority:.0%}",
                number(tested.detectable),
                words.seeds_needed(tested),
            )
        )
    name = first.name.replace("_", " ")
    head = (
        f"{name}: tests",
        "against the reference",
        "t test, p by Holm",
        "sign-flip test, p by Holm",
        "win rate",
        "minimum detectable difference (80% power)",
        "seeds required",
    )
    return [_table(head, rows)]


def _picked(value: Value | None) -> str:
    return "" if value is None else f"{value.mean:g}"


def _reference(figure: Figure, arm: Configuration) -> str | None:
    """Returns the arm that an arm is compared with: the reference with the same words of the other axes."""
    drawn = [other for other in figure.arms if other.is_drawn]
    axis = next((axis for other in drawn for axis, word in enumerate(other.words) if word == figure.reference), None)
    if axis is None or not arm.is_drawn or arm.words[axis] == figure.reference:
        return None
    return ", ".join((*arm.words[:axis], str(figure.reference), *arm.words[axis + 1 :]))


def _summary(some: Sequence[_Played]) -> str:
    once: dict[str, _Played] = {}
    for one in some:  # The paper's own scale comes first.
        once.setdefault(one.figure.name, one)
    lines = [line for one in once.values() for line in one.lines]
    rows = [
        (paper, kind, *map(str, scoreboard.counts(own).values()))
        for (paper, kind), own in scoreboard.by_data(lines).items()
    ]
    start = (
        "The scoreboard counts listed claims and numbers once each, or once a reading where the paper allows two:\n"
        "at the paper's scale if that was run, else at the small scale, which takes minutes a figure. "
        "Kinds of data are counted apart. Their sum would mean nothing: "
        "results on stand-in data are no reproduction.\n\n"
        "```sh\n./scripts/python -m scripts.reproduce --figure=all --scale=small --repeat=8 "
        "--records=docs/evidence\n```\n"
    )
    chance = scoreboard.by_chance(lines)
    lacking = [f"{name} has no small scale: {why}" for name, why in texts.without_small().items()]
    parts = [start, _table(["", "data", *judging.STATUSES], rows)]
    parts += [f"{part}\n" for part in (chance, "\n\n".join(lacking)) if part]
    return "\n".join(parts)


def _text(name: str, some: Sequence[_Played]) -> str:
    """Returns the part of a paper."""
    parts = [f"### {name}\n"]
    left_open = list(dict.fromkeys(itertools.chain(*(one.figure.left_open for one in some))))
    if left_open:
        parts.append(f"The paper leaves open, and this project chose: {'; '.join(left_open)}. That is no difference.\n")
    for one in some:
        figure = one.figure
        if one.table is None:
            continue
        parts.append(f"**{figure.name}**: {figure.about}\n")
        parts.append(_about(one))
        rows = [
            (line.says, line.place, line.published, line.ours, str(line.seeds or ""), f"**{line.verdict}**")
            for line in one.lines
        ]
        if rows:
            head = ("the paper", "section", "published", "ours (95% interval)", "seeds", "verdict (data)")
            parts.append(_table(head, rows))
        else:
            parts.append("No claim or number of it is compared.\n")
        parts += _not_compared(one)
        scores = [f"{row.arm} {row.stand.word}" for row in one.rows if row.stand]
        if scores and any(standing.is_landmark(arm) for arm in figure.arms):
            constants = standing.constants(one.rows)
            best = [f"{earned} of {', '.join(labels)}" for earned, labels in constants.items()]
            fixed = "; ".join(best if len(best) > 1 else constants)
            known = f" ({landmarks.CONSTANT}: {fixed})" if fixed else ""
            parts.append(f"Compared with bounds{known}: {'; '.join(scores)}.\n")
    missing = [one for one in some if one.table is None]
    if missing:
        parts.append(f"Not run: {', '.join(one.figure.name for one in missing)}.\n")
    left = [
        (line.says, line.place, line.ours) for one in missing for line in one.lines if line.kind == scoreboard.CLAIM
    ]
    if left:
        parts.append(_table(("claims that are not run", "section", "why"), left))
    return "\n".join(parts)


def _not_compared(one: _Played) -> list[str]:
    """Returns the table of the measures that no number of the paper and no claim that was run names; empty without."""
    figure = one.figure
    known = {(row.arm, row.measure): row for row in one.rows}
    compared = {published.measure for published in figure.published}
    run = [verdict.claim for verdict in judging.check(figure, one.rows) if verdict.status != judging.NOT_RUN]
    for claim in run:
        compared |= {judging.measure_of(figure, operand).name for group in claim.operands for operand in group}
    names = [measure.name for measure in figure.measures if measure.name not in compared]
    names = [name for name in names if any(row.measure == name and math.isfinite(row.mean) for row in one.rows)]
    if not names:
        return []
    rows = []
    for arm in figure.arms:
        found = [known.get((arm.label, name)) for name in names]
        if any(found):
            rows.append([arm.label, *(words.interval(value.interval) if value else "" for value in found)])
    head = ["not compared with the paper (mean, 95% interval)", *(name.replace("_", " ") for name in names)]
    return [_table(head, rows)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines) + "\n"
