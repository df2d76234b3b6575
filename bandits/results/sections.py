"""Sections of a page about runs: results, comparisons, flags, single runs, data and commands."""

import html
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bandits.results import configurations, plots, runs, tables, words
from bandits.results import names as naming
from bandits.results.comparison import Comparison
from bandits.results.configurations import ConfigurationResults, Part
from bandits.results.plots import DASHES, capital
from bandits.results.tables import Cell, Section
from optimization.privacy.mechanisms import digits
from optimization.study.intervals import Interval
from optimization.study.metrics import SECONDS, Metric
from optimization.study.results import Run

_ROWS = 1000  # Of single runs and of commands, so that the page stays small.
COMPARED = (
    "Configuration",
    "Compared with",
    "Seeds",
    "Difference",
    "Holm-adjusted p",
    "Win rate",
    "Minimum detectable difference (80% power)",
    "Seeds required",
)
_IN_TERMINAL = (*COMPARED[:4], "Verdict")  # Columns of comparisons that fit.
_CLIENTS, VERDICT, _BASELINES = "Greedy policy, over clients", "Verdict", "Against the baselines"


def summary(part: Part, looks: Sequence[Mapping[str, Any]], wanted: str | None) -> str:
    """Opening of a part: its finding in one sentence, the differences to the reference as a plot, and a table.

    Args:
      part: The configurations.
      looks: Their styles.
      wanted: The reference; see `Part.compared`.
    """
    if not part.columns:
        return "<p>No metric of these runs is known.</p>"
    column, compared = part.columns[0], part.compared(wanted)
    of = {id(configuration): one for configuration, _, one in compared}
    references = list(dict.fromkeys(reference.name for _, reference, _ in compared))
    difference = f"Difference to {references[0] if len(references) == 1 else 'reference'}"
    ranked, rows, drawn = part.ranked(), [], []
    look = {id(configuration): one for configuration, one in zip(part.configurations, looks, strict=True)}
    for configuration in ranked:
        row: list[Any] = [_name(configuration, look[id(configuration)])]
        row.append(tables.estimate(configuration.estimate(column)))
        if compared:
            one = of.get(id(configuration))
            interval = one.interval if one else None
            word = "baseline" if configuration.role else "not compared"
            word = "reference" if configuration.name in references else word
            row += [tables.estimate(interval, signed=True), words.short_verdict(one) if one else word]
            if interval and math.isfinite(interval.mean):
                drawn.append((configuration.name, interval, look[id(configuration)]["colour"]))
        rows.append(row)
    heads = ["Configuration", _title(part, column), *([difference, VERDICT] if compared else [])]
    title = f"{difference}: {_lower(column.about)}, 95% CI"
    picture = plots.forest(title, drawn[: plots.SHOWN]) if drawn else ""
    table = tables.html(heads, rows, "main", [VERDICT])
    return f'<p class="lead">{html.escape(finding(part, compared))}</p>{picture}{table}'


def finding(part: Part, compared: Sequence[tuple[ConfigurationResults, ConfigurationResults, Comparison]]) -> str:
    """What a part's runs show, in one sentence."""
    column = part.columns[0]
    best = min(part.ranked(), key=lambda one: bool(one.role))  # The first without a role, if there is one.
    judged = [one for *_, one in compared if one.is_judged]
    what, mean = _lower(_title(part, column)), best.estimate(column)
    if not judged:
        earned = words.estimate(mean) if mean else "unknown"
        highest = "lowest" if column.better == "down" else "highest"
        if len(part.configurations) == 1:
            return f"{best.name}: {what} {earned}."
        return f"{best.name} has the {highest} {what}, {earned}; without several seeds there is no test (--repeat=8)."
    sign = -1 if column.better == "down" else 1
    lead = max(judged, key=lambda one: (one.wins, sign * one.difference))
    shown = f"{_lower(column.about)} {words.effect(lead)}"
    if lead.wins:
        return f"{lead.configuration} is significantly better than {lead.reference}: {shown}."
    if all(one.loses for one in judged):
        others = "every other configuration, the next being " * (len(judged) > 1)
        return f"{lead.reference} is significantly better than {others}{lead.configuration}: {shown}."
    if len(judged) == 1:
        return f"No significant difference between {lead.configuration} and {lead.reference}: {shown}."
    return f"No configuration is significantly better than {lead.reference}; the best is {lead.configuration}: {shown}."


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _name(configuration: ConfigurationResults, look: Mapping[str, Any]) -> Cell:
    """Cell of a configuration's name, with a sample of its line."""
    badge = f' <span class="badge">{configurations.ROLES[configuration.role]}</span>' if configuration.role else ""
    name = f'{_sample(look)}<span class="name">{_breakable(configuration.name)}</span>{badge}'
    return Cell(configuration.name, configuration.name, markup=name)


def results(part: Part, looks: Sequence[Mapping[str, Any]], *, has_regret: bool = False) -> str:
    """Table of all results of the configurations, the best first, with their baselines.

    With `has_regret` it has the regret to the full-feedback baseline.
    """
    columns, ranked = part.columns, part.ranked()
    look = {id(configuration): one for configuration, one in zip(part.configurations, looks, strict=True)}
    spent = {id(configuration): _privacy(configuration) for configuration in ranked}
    has_epsilon = any(cell.kind for cell in spent.values())
    notes = {
        id(configuration): [*filter(None, (part.baseline_summary(configuration), part.deployment_note(configuration)))]
        for configuration in ranked
    }
    has_notes = any(notes.values())
    heads = ["Configuration", "Seeds", *(_title(part, column) for column in columns), *[_BASELINES] * has_notes]
    heads += ["Regret to full feedback"] * has_regret + ["Epsilon"] * has_epsilon + ["Rounds"]
    rows = []
    for configuration in ranked:
        cells = [_name(configuration, look[id(configuration)]), len(configuration.runs)]
        cells += [tables.estimate(configuration.estimate(column)) for column in columns]
        cells += [Cell("", notes=notes[id(configuration)], kind="text")] * has_notes
        cells += [tables.estimate(regret(part, configuration))] * has_regret
        rows.append(cells + [spent[id(configuration)]] * has_epsilon + [_rounds(configuration)])
    return tables.html(heads, rows, "results", [_BASELINES])


def regret(part: Part, configuration: ConfigurationResults) -> Interval | None:
    """A configuration's regret to its full-feedback baseline, by the first result; None without a baseline."""
    standing = part.against_baselines.get(configuration)
    return standing.regret(part.columns[0].better or "up") if standing else None


def comparisons(part: Part, wanted: str | None, *, is_narrow: bool = False) -> Section | None:
    """Comparisons of a part's configurations with one of them; None if there is nothing to compare.

    Args:
      part: The configurations.
      wanted: The reference; see `Part.compared`.
      is_narrow: Whether only the columns that fit a terminal are there.
    """
    compared = part.compared(wanted)
    if not compared:
        return None
    if not any(one.is_judged for *_, one in compared):
        return Section("Comparisons", notes=[words.ONE_SEED])
    clients = [
        None if is_narrow else runs.difference_over_clients(configuration.runs, other.runs)
        for configuration, other, _ in compared
    ]
    has_interval = any(one and math.isfinite(one.low) for one in clients)
    section = comparison_table("Comparisons", [one for *_, one in compared], clients)
    section = section._replace(notes=[_about(part, compared, has_interval)])
    return section.narrow(_IN_TERMINAL) if is_narrow else section


def comparison_table(title: str, compared: Sequence[Comparison], clients: Sequence[Interval | None] = ()) -> Section:
    """Table of a family of comparisons.

    Args:
      title: Its heading.
      compared: The comparisons.
      clients: Difference of each over clients; None where it is unknown.
    """
    rows = []
    for one, over_clients in zip(compared, clients or [None] * len(compared), strict=True):
        few = f"{over_clients.size} clients: too few for an interval" if over_clients else ""
        needed = f"{one.seeds_needed:,}" if math.isfinite(one.seeds_needed) else "many"
        cells = [
            one.configuration,
            one.reference,
            one.pairs,
            tables.estimate(one.interval, signed=True),
            tables.number(one.adjusted_p, words.p_value(one.adjusted_p)),
            tables.number(one.superiority, f"{one.superiority:.0%}"),
            tables.number(one.detectable, f"{one.detectable:.2g}"),
            tables.number(one.seeds_needed, needed),
        ]
        cells += [tables.estimate(over_clients, signed=True, without=few)] * any(clients)
        rows.append([*cells, Cell(words.short_verdict(one), notes=one.notes, kind="text notes")])
    heads = [*COMPARED, *[_CLIENTS] * any(clients), VERDICT]
    return Section(title, heads, rows, left=(COMPARED[1], VERDICT))


def _about(
    part: Part, compared: Sequence[tuple[ConfigurationResults, ConfigurationResults, Comparison]], has_interval: bool
) -> str:
    """Metric of the comparisons, tests, and what intervals are over."""
    some = [run for configuration, *_ in compared for run in configuration.runs]
    notes = [
        f"Metric: {_lower(part.columns[0].about)}.",
        words.family(one for *_, one in compared),
        configurations.what_seeds_vary(some),
        words.what_intervals_are_over(runs.evaluated_clients(some) if has_interval else ""),
    ]
    both_sides = {id(one): one for *both, _ in compared for one in both}.values()
    if missing := [run for one in both_sides for run in runs.without_client_rewards(one.runs)]:
        folders = ", ".join(str(run.folder) for run in missing)
        notes.append(f"Without rewards by client, and so not in that interval: {folders}. Their commands write them.")
    shown = {one.name for one in both_sides}
    if left := [one.name for one in part.configurations if not one.role and one.name not in shown]:
        names = ", ".join(left) if len(left) <= plots.SHOWN else f"{len(left)} configurations"
        notes.append(f"Not compared, because data, rewards, rounds or cohorts differ: {names}.")
    return " ".join(notes)


def flags(part: Part) -> str:
    """Flags in which configurations differ, one row per configuration; empty without any."""
    names = naming.differing([configuration.flags for configuration in part.configurations])
    rows = [
        [configuration.name, *(configuration.flags.get(name) for name in names)]
        for configuration in part.configurations
    ]
    return tables.html(["Configuration", *(f"--{name}" for name in names)], rows, "flags") if names else ""


def single(part: Part) -> str:
    """Table with one row per run: its results and its folder."""
    columns, found = (
        part.columns,
        [(configuration, run) for configuration in part.configurations for run in configuration.runs],
    )
    base = os.path.commonpath([run.folder.parent for _, run in found])
    titles = [*(_title(part, column) for column in columns), "Median seconds a round"]
    values = [[*(runs.final_value(run, column) for column in columns), _seconds(run)] for _, run in found[:_ROWS]]
    rows = []
    for (configuration, run), numbers in zip(found, values, strict=False):
        cells = [configuration.name, run.flags.get("seed"), int(run.metrics["round_num"].iloc[-1])]
        cells += [tables.number(value, f"{value or 0:.4g}") for value in numbers]
        rows.append([*cells, os.path.relpath(run.folder, base)])
    listed = tables.html(["Configuration", "Seed", "Rounds", *titles, "Folder"], rows, left=("Folder",))
    return f"<p>Folders lie in {html.escape(base)}.</p>{listed}{_more(len(found))}"


def _seconds(run: Run) -> float | None:
    return float(run.metrics[SECONDS].median()) if SECONDS in run.metrics else None


def data(part: Part) -> str:
    """Data reports, each once for all configurations that share it; empty without any."""
    together: dict[str, tuple[Mapping[str, Any], list[str]]] = {}
    for configuration in part.configurations:
        if report := configuration.runs[0].data_report:
            # Reports on files describe the file format; reports on data frames do not.
            key = str(report.get(configurations.CONTENT) or json.dumps(report))
            together.setdefault(key, (report, []))[1].append(configuration.name)
    heads = [f"<h4>{html.escape(', '.join(names))}</h4>" * (len(together) > 1) for _, names in together.values()]
    return "".join(head + _nested(report) for head, (report, _) in zip(heads, together.values(), strict=True))


def commands(part: Part) -> str:
    """Command of each configuration, of its first seed."""
    items = []
    for configuration in part.configurations[:_ROWS]:
        first, *others = configuration.runs
        seeds = ", ".join(str(run.flags.get("seed")) for run in others if run.command != first.command)
        more = f"<p>The same with seed {html.escape(seeds)}.</p>" if seeds else ""
        command = f"<code>{html.escape(first.command)}</code>"
        items.append(f"<div><dt>{html.escape(configuration.name)}</dt><dd>{command}{more}</dd></div>")
    return f"<dl>{''.join(items)}</dl>" + _more(len(part.configurations))


def _more(count: int) -> str:
    return f"<p>The first {_ROWS:,} of {count:,}.</p>" if count > _ROWS else ""


def _title(part: Part, column: Metric) -> str:
    title = capital(column.about)
    if not column.recent:
        return title
    found = [
        run.metrics[column].count()
        for configuration in part.configurations
        for run in configuration.runs
        if column in run.metrics
    ]
    windows = {runs.trailing_window(int(count)) for count in found}
    if len(windows) > 1:
        return f"{title}, last tenth of the rounds"
    return f"{title}, last {count} rounds" if (count := windows.pop()) > 1 else f"{title}, last round"


def _sample(look: Mapping[str, Any]) -> str:
    """Sample of a configuration's line style."""
    line = f'<line x2="28" y1="4" y2="4" stroke="{look["colour"]}" stroke-dasharray="{DASHES[look["dash"]]}"/>'
    return f'<svg class="sample" aria-hidden="true">{line}</svg>'


def _breakable(name: str) -> str:
    """Name as HTML that may wrap after `_` and `/`."""
    return html.escape(name).replace("_", "_<wbr>").replace("/", "/<wbr>")


def _privacy(configuration: ConfigurationResults) -> Cell:
    """Cell of a configuration's largest epsilon: the proven value, with the one that rests on assumptions below it."""
    records = [run.privacy for run in configuration.runs if isinstance(run.privacy.get("epsilon"), int | float)]
    if not records:
        return Cell("none", "")
    spent = max(records, key=lambda one: one["epsilon"])
    notes = [f"delta {spent['delta']:.2g}"] if spent.get("delta") else []
    shown, assumed = digits(spent["epsilon"]), list(spent.get("epsilon_assumes", ()))
    is_poisson = any(one["sampling_assumed"] for one in spent.get("guarantees", ())[:1])
    if is_poisson and (proven := spent.get("epsilon_proven")):
        notes.append(f"{shown} if {assumed.pop(0)}")
        shown = digits(proven)
    if assumed:
        notes.append(f"assumes {'; '.join(assumed)}")
    return Cell(shown, spent["epsilon"], notes, f"<b>{shown}</b>", "epsilon")


def _rounds(configuration: ConfigurationResults) -> Cell:
    counts = sorted({int(run.metrics["round_num"].iloc[-1]) for run in configuration.runs})
    planned = configuration.flags.get("total_rounds")
    shown = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    is_short = isinstance(planned, int) and counts[0] < planned
    return Cell(shown, counts[-1], [f"of {planned:,}"] if is_short else [])


def _nested(value: Any) -> str:
    """Value of a JSON file as nested lists; a list of objects as a table."""
    if not value and isinstance(value, Mapping | list):
        return tables.MISSING
    if isinstance(value, Mapping):
        items = (f"<div><dt>{html.escape(str(name))}</dt><dd>{_nested(one)}</dd></div>" for name, one in value.items())
        return f'<dl class="nested">{"".join(items)}</dl>'
    if isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
        heads = list(dict.fromkeys(name for one in value for name in one))
        return tables.html(heads, [[one.get(name) for name in heads] for one in value])
    if isinstance(value, list):
        return html.escape(", ".join(one if isinstance(one, str) else json.dumps(one) for one in value))
    return html.escape(value if isinstance(value, str) else json.dumps(value))
