"""What a recommendation leaves: `advice.json`, `advice.md`, `advice.html` in its folder, and text in the terminal."""

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
from bandits.results import runs, tables, words
from data import files
from optimization.study import cli, run_folder
from optimization.study.intervals import Interval

_MARKDOWN, _PAGE = "advice.md", "advice.html"
_ENVIRONMENT = re.compile(r"^(?:\w+=\S+ )+")

Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # Heads and rows.


def write(
    session: Session, found: findings.Findings, data: Data, where: Deployment, base: Sequence[str]
) -> dict[str, Any]:
    """Writes all files; returns `advice.json`.

    Args:
      session: What ran all.
      found: What it gave.
      data: What is known of the data.
      where: Where the model would be trained.
      base: Flags of all runs, as the command to paste has them.

    Raises:
      Failure: If one cannot be written.
    """
    command, best = "", found.verdict.recommended
    if best:
        name = f"--experiment_name={session.folder.name}_recommended"  # A run of the default name may be there.
        command = strategies.command(base, best, found.compared[best].point, name)
    context = Context(
        found=found,
        plan=session.plan,
        full=session.full,
        minutes=session.state.minutes,
        data=data,
        where=where,
        command=command,
        pace=session.pace,
        seconds=session.state.spent,
    )
    advice = content(context, session)
    save(advice, shown_tables(context), session.folder)
    return advice


def content(context: Context, session: Session) -> dict[str, Any]:
    """Returns `advice.json`.

    Args:
      context: What was asked and found.
      session: What ran it.
    """
    found, data, asked = context.found, context.data, session.state.identity
    return plain(
        {
            "format": run_folder.FORMAT,
            "sentences": sentences.write(context),
            "recommended": found.verdict.recommended,
            "command": context.command,
            "advice_command": cli.command_line(),
            "initial_model_varies": not asked.get("--initial_model_path"),
            "metric": findings.REWARD,
            "model_metric": found.measured,
            "task": asked.get("--task_type"),
            "clients": data.clients,
            "held_out": data.held_out,
            "clients_per_round": data.cohort,
            "actions": data.num_actions,
            "data_report": data.report,
            "minutes": context.minutes,
            "seconds": round(session.state.earlier + context.seconds, 1),
            "pace": context.pace,
            "plan": context.plan,
            "left_out": planning.left_out(context.full, context.plan, NAMES),
            "failed": session.failed,
            "machine": runs.machine(),
            "versions": run_folder.versions(),
            "searches": found.searches,
            "arms": found.compared,
            "chance": found.chance,
            "constant": found.constant,
            "verdict": found.verdict,
            "confirmed": {
                "arms": found.confirmed,
                "against_greedy": findings.compared(found.confirmed, GREEDY),
            },
            "more_often": {
                "bandits_deploy_freq": context.plan.often,
                "arms": found.often,
                "against_greedy": findings.compared(found.often, GREEDY),
                "against_planned": findings.against_planned(found.compared, found.often),
                "confirmed": {
                    "arms": found.often_confirmed,
                    "against_planned": findings.against_planned(found.confirmed, found.often_confirmed),
                },
            },
            "models_against_greedy": findings.compared(found.compared, GREEDY, "model"),
            "privacy": {
                "why_not": found.no_noise,
                "deployment": context.where,
                "strategy": found.noisy,
                "noise": found.noise,
                "against_no_noise": findings.compared(found.by_noise, findings.NO_NOISE),
            },
        }
    )


def shown_tables(context: Context) -> list[Table]:
    """Returns the table of the comparison and, where there was noise, that of the reward against epsilon."""
    return [_comparison(context), *[_noise(context.found)] * bool(context.found.noise)]


def _comparison(context: Context) -> Table:
    found, often = context.found, context.plan.often
    what = "accuracy" if found.measured == metrics.ACCURACY else "reward"
    heads = ["configuration", "average reward", "minus greedy", "Holm-adjusted p", "reward, last tenth of the rounds"]
    heads += [f"held-out {what} of the model", "its reward, worst tenth of clients"]
    heads += [f"deployed {planning.every(often)}"] * bool(found.often)
    rows = []
    for name, one in found.compared.items():
        against = found.verdict.against_greedy.get(name)
        row = [one.label, _mean(one), _difference(against)]
        row += [words.p_value(against.adjusted_p) if against and math.isfinite(against.adjusted_p) else ""]
        row += [_mean(one, what) for what in ("recent", "model", "worst_tenth")]
        row += [_mean(found.often[name]) if name in found.often else ""] * bool(found.often)
        rows.append(row)
    return heads, rows


def _noise(found: findings.Findings) -> Table:
    against = findings.compared(found.by_noise, findings.NO_NOISE)
    heads = ["epsilon", "mechanism", "noise multiplier", "in the runs", "average reward", "minus no noise"]
    rows = []
    for one in found.noise:
        if "error" not in one:
            epsilon = f"{one['target_epsilon']:g}" if "guarantee" in one else "no noise, clipped"
            multipliers = [
                one.get("mechanism", ""),
                f"{one['noise_multiplier']:g}",
                f"{one['run_noise_multiplier']:.3g}",
            ]
            difference = _difference(against.get(findings.noise_name(one)))
            rows.append([epsilon, *multipliers, _mean(one["arm"]), difference])
    return heads, rows


def _mean(one: StrategyResults, what: str = "reward") -> str:
    values, mean = getattr(one, what), one.mean(what)
    if math.isnan(mean.mean):
        return "diverged" if values else ""
    lost = len(values) - mean.size
    return words.estimate(mean, label="") + (f", {lost} diverged" if lost else "")


def _difference(one: findings.Comparison | None) -> str:
    if one is None or math.isnan(one.difference):
        return ""
    return words.estimate(Interval(one.difference, one.low, one.high, one.pairs), signed=True, label="")


def told(advice: Mapping[str, Any], folder: pathlib.Path) -> str:
    """Returns what is printed in the end: the sections, and where the pages are."""
    parts = []
    for name, text in advice["sentences"].items():
        parts.append(sentences.TITLES[name])
        for paragraph, items in sentences.paragraphs(text):
            parts += [f"  {paragraph}", *(f"    - {one}" for one in items)]
        parts.append("")
    shown = cli.shown_path(str(folder))
    return "\n".join([*parts, f"Pages and numbers in {shown}: {_PAGE}, {_MARKDOWN}, {ADVICE_FILE}"])


def save(advice: Mapping[str, Any], shown: Sequence[Table], folder: pathlib.Path) -> None:
    """Writes all files; `advice.json` last, which says that they are there.

    Args:
      advice: `advice.json`.
      shown: The tables.
      folder: The recommendation's folder.

    Raises:
      Failure: If one cannot be written.
    """
    from bandits.results import page

    files.replace(folder / _MARKDOWN, markdown(advice, shown).encode())
    found = page.read([path for path in (folder / "compare", folder / "noise") if path.is_dir()])
    names = {
        round(one["run_noise_multiplier"], 9): findings.noise_name(one)
        for one in advice["privacy"]["noise"]
        if "error" not in one
    }

    def named(run: runs.Run) -> str:
        """Returns what a run with a noise multiplier of its own is called on the page; empty for others."""
        epsilon = names.get(round(float(run.flags.get("noise_multiplier") or 0.0), 9))
        if run.flags.get("aggregator_type") not in ("dpsgd", "mf_dpftrl") or not epsilon:
            return ""
        return f"{NAMES.get(str(run.flags['bandits_type']), run.flags['bandits_type'])}, {epsilon}"

    text = page.page(found, f"Recommendation: {folder.name}", top=_top(advice, shown), is_judged=False, named=named)
    files.replace(folder / _PAGE, text.encode())
    files.replace(folder / ADVICE_FILE, json.dumps(advice, indent=2).encode() + b"\n")


def _top(advice: Mapping[str, Any], shown: Sequence[Table]) -> str:
    """Returns the sentences, and the tables, as the page's first section."""
    parts = []
    for name, text in advice["sentences"].items():
        section = ""
        for paragraph, items in sentences.paragraphs(text):
            line = html.escape(paragraph)
            if command := html.escape(advice["command"]):
                line = line.replace(command, f"<code>{command}</code>")
            section += f"<p>{line}</p>"
            section += f"<ul>{''.join(f'<li>{html.escape(one)}</li>' for one in items)}</ul>" * bool(items)
        parts.append(f"<dt>{html.escape(sentences.TITLES[name])}</dt><dd>{section}</dd>")
    note = (
        "Only the test above decides: the average reward of all rounds against greedy, adjusted by Holm. Below are the "
        f"runs of the comparison and those with noise, as estimates. All numbers are in {ADVICE_FILE}."
    )
    drawn = "".join(tables.html(heads, rows, left=heads) for heads, rows in shown)
    return f'<dl>{"".join(parts)}</dl>{drawn}<p class="note">{html.escape(note)}</p>'


def markdown(advice: Mapping[str, Any], shown: Sequence[Table]) -> str:
    """Returns a recommendation as Markdown."""
    lines = _block(advice["advice_command"])
    for name, text in advice["sentences"].items():
        is_followed = bool(advice["command"]) and text.endswith(advice["command"])
        lines += [f"**{sentences.TITLES[name]}**", ""]
        for paragraph, items in sentences.paragraphs(text.removesuffix(advice["command"] or " ")):
            lines += [paragraph, "", *(f"- {one}" for one in items), *[""] * bool(items)]
        lines += _block(advice["command"]) if is_followed else []
    for heads, rows in shown:
        lines += [tables.markdown(heads, rows), ""]
    under_noise = _seeds([one["arm"] for one in advice["privacy"]["noise"] if "arm" in one])
    over = [_seeds(advice["arms"].values()) or "no seed", *[f"with noise {under_noise}"] * bool(under_noise)]
    pace = advice["pace"]
    lines.append(
        f"Means and 95% intervals over {', '.join(over)}. "
        f"{words.what_seeds_vary(initial_model=advice['initial_model_varies'], noise=bool(under_noise))} "
        f"{words.what_intervals_are_over()} {advice['clients']:,} clients train, {advice['clients_per_round']:,} a "
        f"round; {advice['actions']} actions. It took {advice['seconds'] / 60:.0f} minutes on {advice['machine']} (a "
        f"round {pace['round_seconds']:.2g} s, {planning.at_a_time(pace['workers'])})."
    )
    return "\n".join(lines) + "\n"


def _seeds(some: Iterable[Mapping[str, Any]]) -> str:
    """Returns over which seeds results are, in words; empty for none."""
    seeds = sorted({int(seed) for one in some for seed in one["reward"]})
    if len(seeds) < 2:
        return "".join(f"seed {seed}" for seed in seeds)
    return f"seeds {seeds[0]} to {seeds[-1]}"


def _block(command: str) -> list[str]:
    """Returns a command, as it stands from the repository's root, as a block."""
    return ["```sh", _ENVIRONMENT.sub("", command), "```", ""]
