"""Sections of a report: results, comparisons, dynamic regret, flags and single runs."""

import dataclasses
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bandits import environment_flags, metrics, options, references
from bandits.results import baselines, comparison, phrases, runs, tables
from bandits.results.comparison import Comparison
from bandits.results.configuration import Baseline, Configuration, of_values
from bandits.results.configurations import ComparableRuns
from bandits.results.tables import Cell, Section
from optimization.privacy.mechanisms import digits
from optimization.study import cli, divergence
from optimization.study.intervals import Interval
from optimization.study.metrics import Metric

SHOWN = 12  # Number of configurations that are drawn initially; more curves would hide each other.
ROWS = 250  # Maximum number of rows per table, so that the page stays small. The table of all results is unlimited.
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
_IN_TERMINAL = (*COMPARED[:4], "Verdict")  # Columns of comparisons that fit a terminal.
VERDICT, _BASELINES = "Verdict", "Against the baselines"
_WHAT_IT_IS = (
    "Normalized scores are 0 at the uniform policy's mean reward on a task and 1 at that of the full-feedback "
    "baseline. The table shows the interquartile mean over all tasks and seeds. Its 95% interval is a bootstrap "
    "over the seeds of each task, so it generalizes to other seeds, not to other tasks."
)
_DYNAMIC_REGRET = (
    "In each round: the final reward (mean of the last tenth of its rounds) of the full-feedback baseline that was "
    "trained in that round's environment alone, minus the configuration's reward. The baseline is trained, so dynamic "
    "regret can be negative. In a transition between two environments, the mixture of their baselines is the "
    "reference. No policy can earn more than this reference on the mixture, so during a transition the regret is an "
    "upper bound."
)
_REWARD = "reward"
_REGRET_HEADS = ("Configuration", "Rounds", "Seeds", "Total", "Per round")

FullFeedback = Mapping[int, Configuration]  # Full-feedback baselines by environment.
# Maps rounds to the mean weight of each environment over them, float64 [environments].
Shares = Callable[[npt.NDArray[np.int_]], np.ndarray]
Compared = Sequence[tuple[Configuration, Configuration, Comparison]]
Styles = Mapping[Configuration, Mapping[str, Any]]


def summary(part: ComparableRuns, styles: Styles, compared: Compared) -> Section:
    """The main table: the metric that ranks, means over the last tenth of the rounds, and differences from references.

    Args:
      part: The configurations, which have at least one known metric.
      styles: Their styles.
      compared: Their comparisons.
    """
    shown = [part.columns[0], *(metric for metric in part.columns[1:] if metric.recent)]
    comparisons = {configuration: each for configuration, _, each in compared}
    references = list(dict.fromkeys(reference.name for _, reference, _ in compared))
    rows = []
    for configuration in part.ranked()[:ROWS]:
        name = Cell(configuration.name, configuration.name, look=styles[configuration])
        row: list[Any] = [name, *(tables.estimate(configuration.estimate(one)) for one in shown)]
        if compared:
            each = comparisons.get(configuration)
            word = "baseline" if configuration.role else "not compared"
            word = "reference" if configuration.name in references else word
            row.append(tables.estimate(each.interval if each else None, signed=True))
            row.append(phrases.short_verdict(each) if each else word)
        rows.append(row)
    difference = f"Difference from {references[0] if len(references) == 1 else 'reference'}"
    heads = ["Configuration", *map(_title, shown), *([difference, VERDICT] if compared else [])]
    return Section("", heads, rows, left=[VERDICT], kind="main")


def finding(part: ComparableRuns, compared: Compared) -> str:
    """The main result of a part's runs, in one sentence."""
    column = part.columns[0]
    best = min(part.ranked(), key=lambda each: bool(each.role))  # Not a baseline, if possible.
    judged = [each for *_, each in compared if each.is_judged]
    what, mean = phrases.lower(_title(column)), best.estimate(column)
    if not judged:
        earned = phrases.estimate(mean) if mean else "unknown"
        highest = "lowest" if column.better == "down" else "highest"
        if len(part.configurations) == 1:
            return f"{best.name}: {what} {earned}."
        reasons = dict.fromkeys(phrases.why_no_test(each) for *_, each in compared if each.pairs != 1)
        why = "differences are tested only with several seeds (--repeat=8)"
        why = f"there is no test: {', '.join(reasons)}" if reasons else why
        return f"{best.name} has the {highest} {what}, {earned}; {why}."
    sign = -1 if column.better == "down" else 1
    lead = max(judged, key=lambda each: (each.wins, sign * each.difference))
    shown = f"{phrases.lower(column.about)} {phrases.effect(lead)}"
    if lead.wins:
        return f"{lead.configuration} is significantly better than {lead.reference}: {shown}."
    if all(each.loses for each in judged):
        others = "every other configuration, the next being " * (len(judged) > 1)
        return f"{lead.reference} is significantly better than {others}{lead.configuration}: {shown}."
    if len(judged) == 1:
        return f"No significant difference between {lead.configuration} and {lead.reference}: {shown}."
    return f"No configuration is significantly better than {lead.reference}; the best is {lead.configuration}: {shown}."


def notices(part: ComparableRuns) -> list[str]:
    """Warnings about configurations that earned no more than simple policies, one per configuration."""
    lines = []
    for one in part.configurations if metrics.AVERAGE_REWARD in part.columns else ():
        is_uniform = one.role is Baseline.uniform_policy
        texts = {run: references.notice(run.metrics, run.bounds, explores_only=is_uniform) for run in one.runs}
        if concerned := [run for run in one.runs if texts[run]]:
            first, seeds = concerned[0], phrases.seeds(len(one.runs))
            which = f" ({len(concerned)} of {seeds}; seed {first.flags.get('seed')} shown)" * (len(one.runs) > 1)
            lines.append(f"{one.name}{which}: {texts[first]}")
    return lines


def results(part: ComparableRuns, styles: Styles) -> Section:
    """Table of all results of the configurations, best first, with their baselines, regret and epsilon."""
    columns, ranked = part.columns, part.ranked()
    spent = {each: _privacy(each) for each in ranked}
    has_epsilon = any(cell.kind for cell in spent.values())
    summaries = {each: part.baseline_summary(each) for each in ranked}
    has_notes = any(summaries.values())
    regrets = {each: regret(part, each) for each in ranked}
    has_regret = any(regrets.values())
    heads = ["Configuration", "Seeds", *(_title(column) for column in columns), *[_BASELINES] * has_notes]
    heads += ["Regret relative to full feedback"] * has_regret + ["Epsilon"] * has_epsilon + ["Rounds"]
    rows = []
    for each in ranked:
        cells = [Cell(each.name, each.name, look=styles[each]), len(each.runs)]
        cells += [tables.estimate(each.estimate(column)) for column in columns]
        cells += [Cell(summaries[each], kind="text")] * has_notes
        cells += [tables.estimate(regrets[each])] * has_regret
        rows.append(cells + [spent[each]] * has_epsilon + [_rounds(each)])
    return Section("", heads, rows, left=[_BASELINES], kind="results")


def regret(part: ComparableRuns, configuration: Configuration) -> Interval | None:
    """A configuration's regret relative to its full-feedback baseline, on the first metric; None without a baseline."""
    standing = part.against_baselines.get(configuration.name)
    against = standing.full_feedback if standing else None
    return baselines.regret(against, part.columns[0].better or "up") if against else None


def comparisons(part: ComparableRuns, compared: Compared, *, is_narrow: bool = False) -> Section | None:
    """Comparisons of a part's configurations with their references; None if there is nothing to compare.

    Args:
      part: The configurations.
      compared: Their comparisons; see `ComparableRuns.compared`.
      is_narrow: Whether to include only the columns that fit a terminal.
    """
    if not compared:
        return None
    if not any(each.is_judged for *_, each in compared):
        reasons = list(dict.fromkeys(phrases.why_no_test(each) for *_, each in compared))
        is_one_seed = all(each.pairs == 1 for *_, each in compared)
        note = phrases.ONE_SEED if is_one_seed else f"There is no test: {', '.join(reasons)}."
        return Section("Comparisons", notes=[note])
    section = comparison_table("Comparisons", [each for *_, each in compared])
    section = section._replace(notes=[_about(part, compared)])
    return section.narrow(_IN_TERMINAL) if is_narrow else section


def comparison_table(title: str, compared: Sequence[Comparison]) -> Section:
    """Table of a family of comparisons."""
    rows = []
    for each in compared:
        needed = f"{each.seeds_needed:,}" if math.isfinite(each.seeds_needed) else "many"
        cells = [
            each.configuration,
            each.reference,
            each.pairs,
            tables.estimate(each.interval, signed=True),
            tables.number(each.adjusted_p, phrases.p_value(each.adjusted_p)),
            tables.number(each.superiority, f"{each.superiority:.0%}"),
            tables.number(each.detectable, f"{each.detectable:.2g}"),
            tables.number(each.seeds_needed, needed),
        ]
        rows.append([*cells, Cell(phrases.short_verdict(each), notes=each.notes, kind="text notes")])
    return Section(title, [*COMPARED, VERDICT], rows, left=(COMPARED[1], VERDICT))


def _about(part: ComparableRuns, compared: Compared) -> str:
    """Note on the metric, the tests, and the variation that the intervals cover."""
    some = [run for configuration, *_ in compared for run in configuration.runs]
    notes = [
        f"Metric: {phrases.lower(part.columns[0].about)}.",
        phrases.family(each for *_, each in compared),
        phrases.what_seeds_vary(
            partition=any(run.flags.get("resplit") for run in some),
            initial_model=not all(run.flags.get("initial_model_path") for run in some),
            noise=runs.has_noise(some),
        ),
        phrases.WHAT_INTERVALS_ARE_OVER,
    ]
    shown = {each.name for *both, _ in compared for each in both}
    if left := [each.name for each in part.configurations if not each.role and each.name not in shown]:
        names = ", ".join(left) if len(left) <= SHOWN else f"{len(left)} configurations"
        notes.append(f"Not compared, because data, rewards, rounds or cohorts differ: {names}.")
    return " ".join(notes)


def flags(part: ComparableRuns) -> Section | None:
    """Flags in which configurations differ, one row per configuration; None if there are none."""
    names = phrases.differing_flags([each.flags for each in part.configurations])
    rows = [[each.name, *(each.flags.get(name) for name in names)] for each in part.configurations[:ROWS]]
    return Section("", ["Configuration", *(f"--{name}" for name in names)], rows, kind="flags") if names else None


def single(part: ComparableRuns) -> Section:
    """Table with one row per run: its results, and its folder relative to the common parent, which is the title."""
    some = [(configuration, run) for configuration in part.configurations for run in configuration.runs]
    base = os.path.commonpath([run.folder.parent for _, run in some])
    titles = list(map(_title, part.columns))
    rows = []
    for configuration, run in some[:ROWS]:
        values = [runs.final_value(run, column) for column in part.columns]
        cells = [configuration.name, run.flags.get("seed"), int(run.metrics["round_num"].iloc[-1])]
        cells += [tables.number(value, f"{value or 0:.4g}") for value in values]
        rows.append([*cells, os.path.relpath(run.folder, base)])
    return Section(base, ["Configuration", "Seed", "Rounds", *titles, "Folder"], rows, left=["Folder"])


def _title(column: Metric) -> str:
    return phrases.capital(column.about) + ", last tenth of the rounds" * column.recent


def _privacy(configuration: Configuration) -> Cell:
    """Cell with a configuration's largest epsilon: the proven value, and below it the one that needs assumptions."""
    records = [run.privacy for run in configuration.runs if isinstance(run.privacy.get("epsilon"), int | float)]
    if not records:
        return Cell("none", "")
    spent = max(records, key=lambda each: each["epsilon"])
    notes = [f"delta {spent['delta']:.2g}"] if spent.get("delta") else []
    shown, assumed = digits(spent["epsilon"]), list(spent.get("epsilon_assumes", ()))
    is_poisson = any(each["sampling_assumed"] for each in spent.get("guarantees", ())[:1])
    if is_poisson and (proven := spent.get("epsilon_proven")):
        notes.append(f"{shown} if {assumed.pop(0)}")
        shown = digits(proven)
    if assumed:
        notes.append(f"assumes {'; '.join(assumed)}")
    return Cell(shown, spent["epsilon"], notes, "epsilon", is_strong=True)


def _rounds(configuration: Configuration) -> Cell:
    counts = sorted({int(run.metrics["round_num"].iloc[-1]) for run in configuration.runs})
    planned = configuration.flags.get("total_rounds")
    shown = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    is_short = isinstance(planned, int) and counts[0] < planned
    return Cell(shown, counts[-1], [f"of {planned:,}"] if is_short else [])


def over_tasks(groups: Sequence[ComparableRuns]) -> list[Section]:
    """Scores over tasks for a report's configurations, on the metric that ranks them."""
    titles = Counter(group.title for group in groups)
    results: dict[Metric, list[baselines.Result]] = {}
    for number, group in enumerate(groups, 1):
        # Tables with different content can share a name.
        task = group.title if titles[group.title] == 1 else f"{group.title}, {number}"
        for one in group.configurations if group.columns else ():
            known = group.baselines(one)
            if {Baseline.uniform_policy, Baseline.full_feedback} <= known.keys() and not one.role:
                results.setdefault(group.columns[0], []).append((task, one, known))
    scores = ((metric, baselines.over_tasks(some, metric)) for metric, some in results.items())
    return [over_tasks_section(metric.about, one) for metric, one in scores if one]


def over_tasks_section(metric: str, found: baselines.OverTasks) -> Section:
    """Section on scores over tasks; it has no rows if there are no scores."""
    rows = [[name, found.seeds[name], tables.estimate(score)] for name, score in found.scores.items()]
    notes = [f"Metric: {metric}. {_WHAT_IT_IS}"] if rows else []
    notes += [f"Left out: {'; '.join(found.left_out)}."] if found.left_out else []
    title = f"Over {len(found.tasks)} tasks ({'; '.join(found.tasks)})" if rows else "No interquartile mean over tasks"
    return Section(title, ("Configuration", "Seeds of each task", "Normalized score"), rows, notes)


def dynamic_regret(part: ComparableRuns) -> list[Section]:
    """Section "Dynamic regret": how much less reward is earned than with the best known policy for each environment.

    It is empty in stationary environments. Besbes, Gur and Zeevi, "Stochastic multi-armed bandit problem with
    non-stationary rewards", 2014, section 2: the comparator of a round is the best policy for its rewards. Here
    it is the full-feedback baseline that was trained in that round's environment alone.
    """
    shown, missing = [], []
    for one in part.configurations if metrics.ROUND_REWARD in part.columns else ():
        if (shares := environment_shares(one)) is None:
            continue
        full_feedback, needed = part.full_feedback_by_environment(one), environments(one, shares)
        if regret := regret_per_round(one, metrics.ROUND_REWARD, shares, full_feedback):
            shown.append((one, regret))
        elif lacking := [environment for environment in needed if environment not in full_feedback]:
            numbers = " and ".join(f"environment {environment}" for environment in lacking)
            flags = ", ".join(f"--drift_environment={environment}" for environment in lacking)
            missing.append(
                f"The dynamic regret of {one.name} needs the full-feedback baseline of {numbers}: run the same command "
                f"with --bandits_type=supervised_mse, once with each of these flags: {flags}."
            )
        else:
            missing.append(
                f"{one.name} has no dynamic regret: all of its runs diverged, or it shares no seed with the "
                "full-feedback baselines."
            )
    rows: list[tables.Row] = []
    for one, regret in sorted(shown, key=lambda pair: pair[1].mean):
        rounds = one.finished_rounds
        name = f"{one.name} ({one.role.value})" if one.role else one.name
        rows.append([name, rounds, regret.size, tables.estimate(regret.scaled(rounds)), tables.estimate(regret)])
    notes = [*[_DYNAMIC_REGRET] * bool(rows), *missing]
    return [Section("Dynamic regret", _REGRET_HEADS, rows, notes)] if notes else []


def environments(one: Configuration, shares: Shares) -> list[int]:
    """Numbers of the environments in a configuration's finished rounds."""
    return np.flatnonzero(shares(np.arange(1, one.finished_rounds + 1))).tolist()


def regret_per_round(one: Configuration, metric: str, shares: Shares, full_feedback: FullFeedback) -> Interval | None:
    """Mean dynamic regret per round; None without the needed baselines or a common seed, or if all runs diverged.

    A round without a reward counts as the mean of the other rounds.

    Args:
      one: The configuration.
      metric: The reward per round.
      shares: Maps rounds to the mean weights of the environments; see `environment_shares`.
      full_feedback: Full-feedback baselines of all environments in these rounds.
    """
    needed, last = environments(one, shares), one.finished_rounds
    if not set(needed) <= set(full_feedback):
        return None
    earned = {}  # For each seed, the rewards by round. A diverged run has none.
    for seed, run in runs.seeds(one.runs).items():
        table = run.metrics.set_index("round_num").reindex(columns=[metric])[metric].loc[:last]
        is_lost = divergence.is_lost(run.metrics, run.columns, run.flags)
        earned[seed] = table[np.isfinite(table) & (not is_lost)]
    rounds_of_all = np.concatenate([rewards.index for rewards in earned.values()])
    if not len(rounds_of_all):
        return None
    is_unpaired = one.unpaired or any(full_feedback[environment].unpaired for environment in needed)
    finals = {environment: full_feedback[environment].by_seed(metric) for environment in needed}
    best = {}
    for seed in sorted(set.intersection(*map(set, finals.values()))):
        # A paired seed is compared over its own rounds, an unpaired one over those of all seeds.
        is_alone = seed in earned and len(earned[seed]) and not is_unpaired
        weights = shares(earned[seed].index.to_numpy() if is_alone else rounds_of_all)
        best[seed] = float(sum(weights[environment] * finals[environment][seed] for environment in needed))
    means = {seed: float(rewards.mean()) if len(rewards) else math.nan for seed, rewards in earned.items()}
    configuration, reference = (
        dataclasses.replace(of_values(name, _REWARD, values), unpaired=is_unpaired)
        for name, values in (("configuration", means), (baselines.FULL_FEEDBACK, best))
    )
    better = comparison.direction(metric)
    (against,) = comparison.compare([(configuration, reference)], _REWARD, better)
    return baselines.regret(against, better)


def environment_shares(one: Configuration) -> Shares | None:
    """Maps rounds to the mean weights of a configuration's environments; None in a stationary environment."""
    flags = one.runs[0].flags
    if not flags.get("reward_drift"):
        return None
    drift = environment_flags.drift_of(cli.Settings(flags, frozenset()))
    if drift.kind == "none" or drift.only is not None:
        return None
    every = int(flags.get("bandits_deploy_freq") or 1) if flags.get("cache") == "persistent" else 1
    # The environment of the round in which a client acted determines its rewards.
    return lambda rounds: drift.shares(options.acted_in(rounds, every), None)
