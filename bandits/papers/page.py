"""The page of results, generated from the records alone: verdicts, tables and the scoreboard."""

import collections
import dataclasses
import itertools
import math
import pathlib
import string
from collections.abc import Hashable, Mapping, Sequence

from bandits.papers import claims, figure_baselines, records, results, scoreboard, texts
from bandits.papers.plan import Figure
from bandits.papers.scoreboard import Judged
from bandits.plans.plan import Configuration
from bandits.results import baselines, over_tasks, runs, sections, tables, words

_PAPERS_DATA = "The paper's data."
_TESTS = (*sections.COMPARED[:2], *sections.COMPARED[4:], sections.VERDICT)  # Differences are in the other table.
_HEAD = pathlib.Path(__file__).with_name("page_head.md")


def made(folder: pathlib.Path) -> str:
    """The page in Markdown.

    Args:
      folder: Folder of the records; pictures that lie beside a figure's records are shown.

    Raises:
      UsageError: If a file holds no records.
    """
    paper, small = ({name: _read(one, folder) for name, one in texts.load(scale).items()} for scale in texts.SCALES)
    own = [one for one in paper.values() if one.figure.own]
    of_texts = [chosen for one in paper.values() if not one.figure.own for chosen in _chosen(one, small)]
    notes = "\n".join(f"  - **{word}**: {meaning}." for word, meaning in scoreboard.notes().items())
    parts = [string.Template(_HEAD.read_text(encoding="utf-8")).substitute(words=notes), "## For practitioners\n"]
    parts += [_own_figure(one, folder) for one in own if one.table is not None]
    parts += [over_tasks.section(_spaced(name), found).markdown() for name, found in _scores(own).items()]
    if missing := [f"- {one.figure.about}" for one in own if one.table is None]:
        parts.append("### Not run yet\n\n" + "\n".join(missing) + "\n")
    parts += ["## The five papers\n", _summary(of_texts)]
    by_text = runs.grouped(of_texts, lambda one: one.figure.text)
    return "\n".join([*parts, *(_text(name, some) for name, some in by_text.items())])


def strays(folder: pathlib.Path) -> list[str]:
    """Files and rows of records that the page does not show, in words."""
    found: list[str] = []
    left = {path for scale in texts.SCALES for path in folder.glob(f"{scale}/*.csv")}
    for scale in texts.SCALES:
        for figure in texts.load(scale).values():
            path = records.path_of(figure, folder)
            left.discard(path)
            table = records.read(path)
            name = path.relative_to(folder)
            found += [] if table is None else [f"{name}: {word}" for word in records.strays(figure, table)]
    return found + [f"{path.relative_to(folder)} is of no figure" for path in sorted(left)]


def _read(figure: Figure, folder: pathlib.Path) -> Judged:
    return Judged.of(figure, records.read(records.path_of(figure, folder)))


def _chosen(paper: Judged, small: Mapping[str, Judged]) -> list[Judged]:
    """A figure at the paper's scale; if not all of it was run, also at the small scale."""
    if paper.table is not None and {configuration.label for configuration in paper.figure.configurations} <= set(
        paper.table["arm"]
    ):
        return [paper]
    both = [paper, *filter(None, [small.get(paper.figure.name)])]
    return [each for each in both if each.table is not None] or both[-1:]


def _own_figure(one: Judged, folder: pathlib.Path) -> str:
    """Section of one of this project's figures."""
    figure = one.figure
    parts = [f"### {figure.about}\n", _about(one), _numbers(one), *_tests(one)]
    picture = records.path_of(figure, folder).with_suffix(".png")
    if picture.exists():
        parts.append(f"![{figure.about}]({folder.name}/{figure.scale}/{picture.name})\n")
    if run := [line for line in one.lines if line.status != claims.NOT_RUN]:
        head = ("claim", "verdict (data)", "our numbers", "what it means")
        rows = [(f"{line.says} ({line.place})", f"**{line.verdict}**", line.result.why, line.means) for line in run]
        columns = 4 if any(line.means for line in run) else 3
        parts.append(_table(head[:columns], [row[:columns] for row in rows]))
    if left := len(one.lines) - len(run):
        parts.append(f"{words.count(left, 'claim')} more: not run.\n")
    return "\n".join(parts)


def scores_over_tasks(folder: pathlib.Path) -> Mapping[str, over_tasks.OverTasks]:
    """Scores of strategies over this project's figures, by measure.

    Args:
      folder: Folder of the records.
    """
    paper = texts.load(texts.PAPER).values()
    return _scores([_read(one, folder) for one in paper if one.own])


def _scores(own: Sequence[Judged]) -> dict[str, over_tasks.OverTasks]:
    """By measure, scores over the figures that have both baselines; none with a single task."""
    scores = {}
    by_measure = runs.grouped(own, lambda one: (one.figure.measures[0].name, one.figure.measures[0].smallest))
    for (name, smallest), some in by_measure.items():
        scales, lacking = (list(itertools.chain(*found)) for found in zip(*map(_scales, some), strict=True))
        labels_of_task: dict[str, set[str]] = {}
        for scale in scales:
            labels_of_task.setdefault(scale.task, set()).update(scale.values)
        counts = collections.Counter(itertools.chain(*labels_of_task.values()))
        most = max(sorted(counts), key=counts.__getitem__, default="")
        without = [task for task, labels in labels_of_task.items() if most not in labels]
        lacking += [f"{task}: it has no configuration {most}" for task in without]
        found = over_tasks.over([scale for scale in scales if scale.task not in without], "down" if smallest else "up")
        if found and found.scores:
            scores[name] = dataclasses.replace(found, left_out=(*lacking, *found.left_out))
    return scores


def _scales(one: Judged) -> tuple[list[over_tasks.Scale], list[str]]:
    """A figure's configurations with their baselines, and which configurations have none, in words.

    A label's words after the first, where all of a kind share them, name the task: strategies are what is compared.
    """
    task = one.figure.about.partition(":")[0]
    first = one.figure.measures[0]
    values = {row.configuration: row.sound for row in one.rows if row.measure == first.name}
    full_feedback = figure_baselines.full_feedback_rewards(one.figure, values)
    together: dict[Hashable, list[Configuration]] = {}
    if figure_baselines.UNIFORM not in values or not full_feedback:
        return [], []
    for configuration in one.figure.configurations:
        if configuration.label in values and not figure_baselines.is_baseline(configuration):
            together.setdefault(figure_baselines.baseline_key(one.figure, configuration), []).append(configuration)
    scales, lacking, again = [], [], []
    counted: set[str] = set()
    for kind, group in together.items():
        if kind not in full_feedback:
            lacking += [configuration.label for configuration in group]
            continue
        shared_words, *others = {configuration.words[1:] for configuration in group}
        name = task if others else ", ".join((task, *shared_words))
        by_name = {
            configuration.label if others else configuration.words[0]: values[configuration.label]
            for configuration in group
        }
        if counted & set(by_name):  # Equal seeds do not make another task.
            again += [configuration.label for configuration in group]
            continue
        counted |= set(by_name)
        scales.append(over_tasks.Scale(name, by_name, values[figure_baselines.UNIFORM], full_feedback[kind]))
    left_out = [
        f"{task}: {', '.join(lacking)}: no full-feedback baseline with their deployment period and environment was run"
    ] * bool(lacking)
    left_out += [f"{task}: {', '.join(again)}: their seeds are already counted"] * bool(again)
    return scales, left_out


def _about(one: Judged) -> str:
    """Data, seeds, rounds, machine and command of a figure."""
    figure, table = one.figure, one.table
    assert table is not None
    seeds = sorted(set(table["seed"].astype(int)))
    missing = [
        configuration.label for configuration in figure.configurations if configuration.label not in set(table["arm"])
    ]
    few = [f"{label} ({count})" for label, count in table["arm"].value_counts(sort=False).items() if count < len(seeds)]
    about = [
        f"{results.data_note(figure) or _PAPERS_DATA} {words.seeds(len(seeds)).capitalize()} ({_range(seeds)}), "
        f"{_range(sorted(set(table['rounds'].astype(int))))} rounds",
        f"recorded on {', '.join(records.distinct([table], 'machine'))}",
        f"run at {', '.join(records.distinct([table], 'commit'))}",
    ]
    lines = [f"{'; '.join(about)}.\n"]
    if missing:
        lines.append(f"**Not run yet:** {', '.join(missing)}.\n")
    if few:
        lines.append(f"**Fewer seeds so far:** {', '.join(few)}.\n")
    if edges := scoreboard.edges(figure, one.rows):
        lines.append(f"**{edges.replace(':', ':**', 1)}\n")
    return "\n".join([*lines, f"```sh\n{scoreboard.command(figure, seeds[-1] + 1)}\n```\n"])


def _range(values: Sequence[int]) -> str:
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _numbers(one: Judged) -> str:
    """Table of an own figure: each configuration's measures, and their differences to the reference."""
    figure = one.figure
    known = {(row.configuration, row.measure): row for row in one.rows}
    names = [one.name for one in figure.measures if any(name == one.name for _, name in known)]
    if not names:
        return ""
    picked = list(dict.fromkeys(row.measure for row in one.rows if row.is_picked))
    compared = names if figure.reference else []
    drawn = [configuration for configuration in figure.configurations if (configuration.label, names[0]) in known]
    stands = {
        configuration.label: against.summary
        for configuration in drawn
        if (against := known[configuration.label, names[0]].baselines)
    }
    rows = []
    for configuration in drawn:
        cells = [
            figure_baselines.display_name(configuration),
            *(known[configuration.label, name].interval.text() for name in names),
        ]
        for name in compared:
            second = known.get((claims.reference_of(figure, configuration), name))
            cells.append(claims.minus(known[configuration.label, name], second) if second else "")
        cells += [stands.get(configuration.label, "")] * bool(stands)
        cells += [f"{row.mean:g}" if (row := known.get((configuration.label, flag))) else "" for flag in picked]
        rows.append(cells)
    head = ["", *map(_spaced, names), *(f"{_spaced(name)} minus {figure.reference}" for name in compared)]
    head += [*["compared with bounds"] * bool(stands), *map(_spaced, picked)]
    best_fixed = figure_baselines.best_fixed_rewards(one.rows)
    for earned, labels in best_fixed.items():
        name = baselines.FIXED + f", of {'; '.join(labels)}" * (len(best_fixed) > 1)
        rows.append([name, earned, *[""] * (len(head) - 2)])
    return _table(head, rows)


def _tests(one: Judged) -> list[str]:
    """Table of the tests of an own figure's first measure against the reference; empty without a reference."""
    title = f"{_spaced(one.figure.measures[0].name)}: tests"
    return [sections.comparison_table(title, one.tests).narrow(_TESTS).markdown("####")] if one.tests else []


def _summary(some: Sequence[Judged]) -> str:
    # The paper's own scale comes first.
    once = {one.figure.name: one for one in reversed(some)}
    lines = [line for one in some if once[one.figure.name] is one for line in one.lines]
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
    lacking = [f"{name} has no small scale: {why}" for name, why in texts.without_small().items()]
    parts = [start, _table(["", "data", *claims.STATUSES], rows)]
    parts += [f"{part}\n" for part in ("\n\n".join(lacking),) if part]
    return "\n".join(parts)


def _text(name: str, some: Sequence[Judged]) -> str:
    """Section of a paper."""
    parts = [f"### {name}\n"]
    if left_open := dict.fromkeys(itertools.chain(*(one.figure.left_open for one in some))):
        parts.append(f"The paper leaves open, and this project chose: {'; '.join(left_open)}. That is no difference.\n")
    for one in some:
        if one.table is not None:
            parts += _text_figure(one)
    if missing := [one for one in some if one.table is None]:
        parts.append(f"Not run: {', '.join(one.figure.name for one in missing)}.\n")
    if left := [(line.says, line.place, line.result.why) for one in missing for line in one.lines if line.claim]:
        parts.append(_table(("claims that are not run", "section", "why"), left))
    return "\n".join(parts)


def _text_figure(one: Judged) -> list[str]:
    """Section of a paper's figure that was run."""
    parts = [f"**{one.figure.name}**: {one.figure.about}\n", _about(one)]
    if one.lines:
        head = ("the paper", "section", "published", "ours (95% interval)", "seeds", "verdict (data)")
        rows = [
            (
                line.says,
                line.place,
                line.published,
                line.result.why,
                str(line.result.seeds or ""),
                f"**{line.verdict}**",
            )
            for line in one.lines
        ]
        parts.append(_table(head, rows))
    else:
        parts.append("No claim or number of it is compared.\n")
    parts += _not_compared(one)
    scores = [f"{row.configuration} {row.baselines.summary}" for row in one.rows if row.baselines]
    if scores and any(figure_baselines.is_baseline(configuration) for configuration in one.figure.configurations):
        best_fixed = figure_baselines.best_fixed_rewards(one.rows)
        best = [f"{earned} of {', '.join(labels)}" for earned, labels in best_fixed.items()]
        fixed = "; ".join(best if len(best) > 1 else best_fixed)
        known = f" ({baselines.FIXED}: {fixed})" if fixed else ""
        parts.append(f"Compared with bounds{known}: {'; '.join(scores)}.\n")
    return parts


def _not_compared(one: Judged) -> list[str]:
    """Table of the measures without a number or tested claim of the paper; empty without any."""
    figure = one.figure
    compared = {published.measure for published in figure.published}
    for claim in (line.claim for line in one.lines if line.claim and line.status != claims.NOT_RUN):
        compared |= {claims.measure_of(figure, operand).name for group in claim.operands for operand in group}
    measured = {row.measure for row in one.rows if math.isfinite(row.mean)}
    names = [measure.name for measure in figure.measures if measure.name in measured - compared]
    if not names:
        return []
    known = {(row.configuration, row.measure): row.interval.text() for row in one.rows}
    labels = dict.fromkeys(row.configuration for row in one.rows)
    rows = [[label, *(known.get((label, name), "") for name in names)] for label in labels]
    head = ["not compared with the paper (mean, 95% interval)", *map(_spaced, names)]
    return [_table(head, [row for row in rows if any(row[1:])])]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return f"{tables.markdown(head, rows)}\n"
