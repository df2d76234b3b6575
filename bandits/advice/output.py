"""Output of a recommendation: `advice.json`, `advice.md`, `advice.html`, and text for the terminal."""

import html
import json
import math
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits import metrics
from bandits.advice import findings, sentences, strategies
from bandits.advice import plan as planning
from bandits.advice.findings import StrategyResults, plain
from bandits.advice.inputs import Data
from bandits.advice.plan import GREEDY
from bandits.advice.privacy import Deployment
from bandits.advice.sentences import Context
from bandits.advice.session import ADVICE_FILE, Session
from bandits.advice.strategies import NAMES
from bandits.results import federating, runs, tables, words
from data import files
from optimization.study import cli, run_folder

_MARKDOWN, _PAGE = "advice.md", "advice.html"
_ENVIRONMENT = re.compile(r"^(?:\w+=\S+ )+")

Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # Heads and rows.


def write(
    session: Session, results: findings.Findings, data: Data, deployment: Deployment, base: Sequence[str]
) -> dict[str, Any]:
    """Writes all files; returns `advice.json`.

    Args:
      session: The session of all runs.
      results: Results of all stages.
      data: Facts about the data.
      deployment: Where the model would be trained.
      base: Flags of all runs, for the command to paste.

    Raises:
      Failure: If a file cannot be written.
    """
    command, best = "", results.verdict.recommended
    more = [f"--experiment_name={session.folder.name}_recommended"]  # A run with the default name may exist.
    more += [f"--total_rounds={session.plan.rounds}"] * bool(session.plan.doublings)
    if best:
        command = strategies.command(base, best, results.compared[best].point, *more)
    elif data.references and results.compared:  # Training without acting, which uses all rewards there are.
        points = {name: one.point for name, one in results.compared.items()}
        command = strategies.offline_command(base, points, bool(data.scores), *more)
    context = Context(
        results=results,
        plan=session.plan,
        full=session.full,
        minutes=session.state.minutes,
        data=data,
        deployment=deployment,
        command=command,
        pace=session.pace,
        seconds=session.state.spent,
    )
    advice = content(context, session)
    save(advice, shown_tables(context), session.folder)
    return advice


def content(context: Context, session: Session) -> dict[str, Any]:
    """Content of `advice.json`.

    Args:
      context: The question and the results.
      session: The session of all runs.
    """
    results, data, flags = context.results, context.data, session.state.identity
    return plain(
        {
            "format": run_folder.FORMAT,
            "sentences": sentences.write(context),
            "details": sentences.details(context),
            "recommended": results.verdict.recommended,
            "command": context.command,
            "advice_command": session.state.command,
            "initial_model_varies": not flags.get("--initial_model_path"),
            "metric": findings.REWARD,
            "model_metric": results.measured,
            "task": flags.get("--task_type"),
            "clients": data.clients,
            "held_out": data.held_out,
            "clients_per_round": data.cohort,
            "actions": data.num_actions,
            "data_report": data.report,
            "references": {name: value._asdict() for name, value in sentences.rewards_of(data).items()},
            "learned_in_search": results.learned,
            "minutes": context.minutes,
            "seconds": round(session.state.earlier + context.seconds, 1),
            "pace": context.pace,
            "plan": context.plan,
            "left_out": planning.left_out(context.full, context.plan, NAMES),
            "failed": session.failed,
            "machine": runs.machine(),
            "versions": run_folder.versions(),
            "searches": results.searches,
            "configurations": results.compared,
            "uniform": results.uniform,
            "best_fixed": results.best_fixed,
            "verdict": results.verdict,
            "confirmed": {
                "configurations": results.confirmed,
                "against_greedy": findings.compared(results.confirmed, GREEDY),
            },
            "more_often": {
                "bandits_deploy_freq": context.plan.often,
                "configurations": results.often,
                "against_greedy": findings.compared(results.often, GREEDY),
                "against_planned": findings.against_planned(results.compared, results.often),
                "confirmed": {
                    "configurations": results.often_confirmed,
                    "against_planned": findings.against_planned(results.confirmed, results.often_confirmed),
                },
            },
            "federation": {
                "why_not": results.no_federation,
                "configurations": results.federation,
                "against_alone": findings.compared(results.federation, federating.ALONE),
                **results.by_client,
            },
            "models_against_greedy": findings.compared(results.compared, GREEDY, "model"),
            "privacy": {
                "why_not": results.no_noise,
                "deployment": context.deployment,
                "strategy": results.noisy,
                "noise": results.noise,
                "against_no_noise": findings.compared(results.by_noise, findings.NO_NOISE),
            },
        }
    )


def shown_tables(context: Context) -> list[Table]:
    """The table of the comparison and, after runs with noise, that of the reward by epsilon."""
    return [_comparison(context), *[_noise(context.results)] * bool(context.results.noise)]


def _comparison(context: Context) -> Table:
    results, often = context.results, context.plan.often
    measure = "accuracy" if results.measured == metrics.ACCURACY else "reward"
    heads = ["configuration", "average reward", "minus greedy's", "Holm-adjusted p", "reward, last tenth of the rounds"]
    heads += [f"held-out {measure} of the model", "held-out reward, worst tenth of clients"]
    heads += [f"average reward if deployed {planning.every(often)}"] * bool(results.often)
    rows = []
    for name, one in results.compared.items():
        against = results.verdict.against_greedy.get(name)
        row = [one.label, _mean(one), _difference(against)]
        row += [words.p_value(against.adjusted_p) if against and math.isfinite(against.adjusted_p) else ""]
        row += [_mean(one, attribute) for attribute in ("recent", "model", "worst_tenth")]
        row += [_mean(results.often[name]) if name in results.often else ""] * bool(results.often)
        rows.append(row)
    return heads, rows


def _noise(results: findings.Findings) -> Table:
    against = findings.compared(results.by_noise, findings.NO_NOISE)
    heads = [
        "epsilon",
        "mechanism",
        "noise multiplier",
        "noise multiplier of the runs",
        "average reward",
        "minus that without noise",
    ]
    rows = []
    for one in results.noise:
        if "error" not in one:
            epsilon = f"{one['target_epsilon']:g}" if "guarantee" in one else "no noise, clipped"
            multipliers = [
                one.get("mechanism", ""),
                f"{one['noise_multiplier']:g}",
                f"{one['run_noise_multiplier']:.3g}",
            ]
            difference = _difference(against.get(findings.noise_name(one)))
            rows.append([epsilon, *multipliers, _mean(one["results"]), difference])
    return heads, rows


def _mean(one: StrategyResults, attribute: str = "reward") -> str:
    values, mean = getattr(one, attribute), one.mean(attribute)
    if math.isnan(mean.mean):
        return "diverged" if values else ""
    lost = len(values) - mean.size
    return words.estimate(mean, label="") + (f", {lost} diverged" if lost else "")


def _difference(comparison: findings.Comparison | None) -> str:
    if comparison is None or math.isnan(comparison.difference):
        return ""
    return words.estimate(comparison.interval, signed=True, label="")


def text(advice: Mapping[str, Any], folder: pathlib.Path) -> str:
    """Text for the terminal: the answers, and the paths of the pages."""
    parts = []
    for name, answer in advice["sentences"].items():
        parts.append(sentences.TITLES[name])
        for paragraph, items in sentences.paragraphs(answer):
            parts += [f"  {paragraph}", *(f"    - {one}" for one in items)]
        parts.append("")
    shown = cli.shown_path(str(folder))
    return "\n".join([*parts, f"Details, curves and numbers in {shown}: {_PAGE}, {_MARKDOWN}, {ADVICE_FILE}"])


def save(advice: Mapping[str, Any], shown: Sequence[Table], folder: pathlib.Path) -> None:
    """Writes all files; `advice.json` last, which marks them as complete.

    Args:
      advice: Content of `advice.json`.
      shown: The tables.
      folder: The recommendation's folder.

    Raises:
      Failure: If a file cannot be written.
    """
    from bandits.results import page

    files.replace(folder / _MARKDOWN, markdown(advice, shown).encode())
    read = page.read([path for path in (folder / "compare", folder / "noise") if path.is_dir()])
    names = {
        round(one["run_noise_multiplier"], 9): findings.noise_name(one)
        for one in advice["privacy"]["noise"]
        if "error" not in one
    }

    def named(run: runs.Run) -> str:
        """Name of a run with noise on the page; empty for others."""
        epsilon = names.get(round(float(run.flags.get("noise_multiplier") or 0.0), 9))
        if run.flags.get("aggregator_type") not in ("dpsgd", "mf_dpftrl") or not epsilon:
            return ""
        return f"{NAMES.get(str(run.flags['bandits_type']), run.flags['bandits_type'])}, {epsilon}"

    content = page.page(read, f"Recommendation: {folder.name}", top=_top(advice, shown), is_judged=False, named=named)
    files.replace(folder / _PAGE, content.encode())
    files.replace(folder / ADVICE_FILE, json.dumps(advice, indent=2).encode() + b"\n")


def _top(advice: Mapping[str, Any], shown: Sequence[Table]) -> str:
    """The answers, their details in folds, and the tables, as the page's first section."""
    parts = []
    for name, answer in advice["sentences"].items():
        section = _paragraphs(answer, advice["command"])
        if name in advice["details"]:
            section += f"<details><summary>Details</summary>{_paragraphs(advice['details'][name])}</details>"
        parts.append(f"<dt>{html.escape(sentences.TITLES[name])}</dt><dd>{section}</dd>")
    note = (
        "The p values are Holm-adjusted for all strategies that are compared with greedy. All other differences are "
        f"estimates without a test. All numbers are in {ADVICE_FILE}."
    )
    tables_html = "".join(tables.html(heads, rows, "wrapped", heads) for heads, rows in shown)
    return f'<dl>{"".join(parts)}</dl>{tables_html}<p class="note">{html.escape(note)}</p>'


def _paragraphs(text: str, command: str = "") -> str:
    """Paragraphs and lists as HTML."""
    shown, code = "", html.escape(command)
    for paragraph, items in sentences.paragraphs(text):
        line = html.escape(paragraph)
        shown += f"<p>{line.replace(code, f'<code>{code}</code>') if code else line}</p>"
        shown += f"<ul>{''.join(f'<li>{html.escape(item)}</li>' for item in items)}</ul>" * bool(items)
    return shown


def markdown(advice: Mapping[str, Any], shown: Sequence[Table]) -> str:
    """A recommendation as Markdown."""
    lines = _block(advice["advice_command"])
    for name, answer in advice["sentences"].items():
        has_command = bool(advice["command"]) and answer.endswith(advice["command"])
        lines += [f"**{sentences.TITLES[name]}**", ""]
        lines += _markdown_paragraphs(answer.removesuffix(advice["command"] or " "))
        lines += _block(advice["command"]) if has_command else []
        lines += _markdown_paragraphs(advice["details"].get(name, ""))
    for heads, rows in shown:
        lines += [tables.markdown(heads, rows), ""]
    noise_seeds = _seeds([one["results"] for one in advice["privacy"]["noise"]])
    over = [_seeds(advice["configurations"].values()) or "no seed", *[f"with noise {noise_seeds}"] * bool(noise_seeds)]
    pace = advice["pace"]
    lines.append(
        f"Means and 95% intervals over {', '.join(over)}. "
        f"{words.what_seeds_vary(initial_model=advice['initial_model_varies'], noise=bool(noise_seeds))} "
        f"{words.what_intervals_are_over()} {advice['clients']:,} clients train, {advice['clients_per_round']:,} a "
        f"round; {advice['actions']} actions. It took {advice['seconds'] / 60:.0f} minutes on {advice['machine']} (a "
        f"round {pace['round_seconds']:.2g} s, {planning.at_a_time(pace['workers'])})."
    )
    return "\n".join(lines) + "\n"


def _markdown_paragraphs(text: str) -> list[str]:
    lines = []
    for paragraph, items in sentences.paragraphs(text):
        lines += [paragraph, "", *(f"- {item}" for item in items), *[""] * bool(items)]
    return lines


def _seeds(results: Iterable[Mapping[str, Any]]) -> str:
    """Seeds of results, in words; empty for none."""
    seeds = sorted({int(seed) for one in results for seed in one["reward"]})
    if len(seeds) < 2:
        return "".join(f"seed {seed}" for seed in seeds)
    return f"seeds {seeds[0]} to {seeds[-1]}"


def _block(command: str) -> list[str]:
    """A command for the repository's root, as a block."""
    return ["```sh", _ENVIRONMENT.sub("", command), "```", ""]
