"""What a recommendation leaves: `advice.json`, `advice.md`, `advice.html` in its folder, and text in the terminal."""

import html
import json
import math
import os
import pathlib
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits import metrics
from bandits.advice import amounts, arms, costs, findings, sentences, simulated
from bandits.advice import plan as planning
from bandits.advice.context import Context
from bandits.advice.findings import Arm, plain
from bandits.advice.plan import GREEDY
from bandits.advice.privacy import Deployment
from bandits.advice.session import ADVICE_FILE, Session
from bandits.advice.stages import Advice, mean
from bandits.results import runs, words
from data import files
from optimization.study import cli, run_folder

_MARKDOWN, _PAGE = "advice.md", "advice.html"
_ENVIRONMENT = re.compile(r"^(?:\w+=\S+ )+")


def content(session: Session, found: Advice, where: Deployment, base: Sequence[str], data: Any) -> dict[str, Any]:
    """Returns `advice.json`.

    Args:
      session: What played the runs.
      found: What they gave.
      where: Where the model would be trained.
      base: Flags of all runs.
      data: What is known of the data.
    """
    recommended = found.verdict.recommended
    name = f"--experiment_name={session.folder.name}_recommended"  # A run of the default name may be there.
    command = arms.command(base, recommended, found.arms[recommended].point, name) if recommended else ""
    spent, most = session.state.spent, session.state.values["minutes"]
    asked = session.state.values["identity"]
    context = Context(
        found=found,
        plan=session.plan,
        full=session.full,
        minutes=most,
        minutes_of_all=planning.minutes_of_all(session.full, session.pace),
        clients=data.clients,
        cohort=data.cohort,
        held_out=data.held_out,
        unit=data.unit,
        where=_where(where),
        command=command,
        rows=data.rows,
        reward_width=data.reward_width,
        rewards=simulated.in_words(data.scores) if data.scores else "",
        overrun=f"It took {spent - 60 * most:.0f} s longer than --minutes={most:g}." if spent > 60 * most + 1 else "",
    )
    values = {name: arm.reward for name, arm in found.often.items()}
    noisy = {costs.noise_name(one): arm.reward for one, arm in found.noise if arm.reward}
    return plain(
        {
            "format": run_folder.FORMAT,
            "sentences": sentences.write(context),
            "recommended": recommended,
            "command": command,
            "advice_command": cli.command_line(),
            "initial_model_varies": not session.state.values["identity"].get("--initial_model_path"),
            "metric": findings.REWARD,
            "model_metric": found.measured,
            "task": asked.get("--task_type"),
            "clients": data.clients,
            "held_out": data.held_out,
            "clients_per_round": data.cohort,
            "actions": data.num_actions,
            "data_report": data.report,
            "minutes": most,
            "seconds": round(session.state.earlier + spent, 1),
            "pace": session.pace,
            "plan": session.plan,
            "left_out": planning.left_out(session.full, session.plan, arms.NAMES),
            "failed": session.failed,
            "machine": _machine(),
            "versions": run_folder.versions(),
            "searches": found.searches,
            "arms": {name: _arm(arm) for name, arm in found.arms.items()},
            "chance": found.chance,
            "constant": found.constant,
            "verdict": found.verdict,
            "confirmed": {
                "arms": {name: _arm(arm) for name, arm in found.confirmed.items()},
                "against_greedy": findings.compared(
                    {name: arm.reward for name, arm in found.confirmed.items()}, GREEDY
                ),
            },
            "more_often": {
                "bandits_deploy_freq": session.plan.often,
                "arms": {name: _arm(arm) for name, arm in found.often.items()},
                "against_greedy": findings.compared(values, GREEDY),
                "against_planned": _against_planned(found.arms, found.often),
                "confirmed": {
                    "arms": {name: _arm(arm) for name, arm in found.often_confirmed.items()},
                    "against_planned": _against_planned(found.confirmed, found.often_confirmed),
                },
            },
            "models_against_greedy": findings.models(found.arms),
            "privacy": {
                "why_not": found.no_noise,
                "deployment": where,
                "strategy": found.noisy,
                "noise": [one | {"arm": _arm(arm)} for one, arm in found.noise],
                "against_no_noise": findings.compared(noisy, costs.NO_NOISE),
            },
        }
    )


def _against_planned(planned: Mapping[str, Arm], often: Mapping[str, Arm]) -> dict[str, Any]:
    """Returns each strategy that is deployed more often against itself as planned."""
    return {
        name: findings.compared({findings.PLANNED: planned[name].reward, findings.OFTEN: arm.reward}, findings.PLANNED)
        for name, arm in often.items()
    }


def _arm(arm: Arm) -> dict[str, Any]:
    return {
        "name": arms.label(arm.name, arm.point),
        "flags": dict(arm.point),
        "reward": arm.reward,
        "reward_mean": mean(arm.reward),
        "recent_reward": arm.recent,
        "model": arm.model,
        "worst_tenth": arm.worst_tenth,
        "jain_index": arm.jain_index,
        "diverged": arm.diverged,
        "notes": arm.notes,
    }


def _where(where: Deployment) -> str:
    """Returns where the guarantees hold, in sentences."""
    if where.is_table:
        return (
            f"Guarantees hold for training on the {where.population:,} training clients, about {where.cohort:,} a "
            "round."
        )
    return (
        f"Guarantees hold for training on {where.population:,} clients, about {where.cohort:,} a round. The data is "
        "taken for a sample of them, and the runs' noise on the mean is that of such cohorts."
    )


def _machine() -> str:
    """Returns what the runs were played on."""
    model = ""
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{len(os.sched_getaffinity(0))} cores, {model or platform.machine()}"


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


def write(advice: Mapping[str, Any], folder: pathlib.Path) -> None:
    """Writes all files; `advice.json` last, which says that they are there.

    Raises:
      Failure: If one cannot be written.
    """
    from bandits.results import page

    files.replace(folder / _MARKDOWN, markdown(advice).encode())
    found = page.read([path for path in (folder / "compare", folder / "noise") if path.is_dir()])
    names = {round(one["run_noise_multiplier"], 9): costs.noise_name(one) for one in advice["privacy"]["noise"]}
    text = page.page(
        found, f"Recommendation: {folder.name}", top=_top(advice), is_judged=False, named=lambda run: _named(run, names)
    )
    files.replace(folder / _PAGE, text.encode())
    files.replace(folder / ADVICE_FILE, json.dumps(advice, indent=2).encode() + b"\n")


def _top(advice: Mapping[str, Any]) -> str:
    """Returns the sentences, and the reward against epsilon, as the page's first section."""
    from bandits.results import tables

    parts = []
    for name, text in advice["sentences"].items():
        shown = ""
        for paragraph, items in sentences.paragraphs(text):
            line = html.escape(paragraph)
            if command := advice["command"]:
                line = line.replace(html.escape(command), f"<code>{html.escape(command)}</code>")
            shown += f"<p>{line}</p>"
            shown += f"<ul>{''.join(f'<li>{html.escape(one)}</li>' for one in items)}</ul>" * bool(items)
        parts.append(f"<dt>{html.escape(sentences.TITLES[name])}</dt><dd>{shown}</dd>")
    note = (
        "Only the test above decides: the average reward of all rounds against greedy, adjusted by Holm. Below are the "
        f"runs of the comparison and those with noise, as estimates. All numbers are in {ADVICE_FILE}."
    )
    shown_tables = ""
    for heads, rows in (_comparison(advice), *([_noise(advice["privacy"])] if advice["privacy"]["noise"] else [])):
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
        shown_tables += tables.table(heads, [f"<tr>{row}</tr>" for row in cells], text=heads)
    return f'<dl>{"".join(parts)}</dl>{shown_tables}<p class="note">{html.escape(note)}</p>'


def _named(run: runs.Run, names: Mapping[float, str]) -> str:
    """Returns what a run with a noise multiplier of its own is called on the page; empty for others."""
    if run.flags.get("aggregator_type") != "dpsgd":
        return ""
    epsilon = names.get(round(float(run.flags.get("noise_multiplier") or 0.0), 9))
    return f"{arms.NAMES.get(str(run.flags['bandits_type']), run.flags['bandits_type'])}, {epsilon}" * bool(epsilon)


def markdown(advice: Mapping[str, Any]) -> str:
    """Returns a recommendation as Markdown."""
    lines = _block(advice["advice_command"])
    for name, text in advice["sentences"].items():
        is_followed = bool(advice["command"]) and text.endswith(advice["command"])
        lines += [f"**{sentences.TITLES[name]}**", ""]
        for paragraph, items in sentences.paragraphs(text.removesuffix(advice["command"] or " ")):
            lines += [paragraph, "", *(f"- {one}" for one in items), *[""] * bool(items)]
        lines += _block(advice["command"]) if is_followed else []
    lines += _table(*_comparison(advice))
    if advice["privacy"]["noise"]:
        lines += ["", *_table(*_noise(advice["privacy"]))]
    pace = advice["pace"]
    under_noise = _seeds([one["arm"] for one in advice["privacy"]["noise"] if "arm" in one])
    over = [_seeds(advice["arms"].values()) or "no seed", *[f"with noise {under_noise}"] * bool(under_noise)]
    lines += [
        "",
        f"Means and 95% intervals over {', '.join(over)}. "
        f"{words.what_seeds_vary(initial_model=advice['initial_model_varies'], noise=bool(under_noise))} "
        f"{words.what_intervals_are_over()} {advice['clients']:,} clients train, {advice['clients_per_round']:,} a "
        f"round; {advice['actions']} actions. It took {advice['seconds'] / 60:.0f} minutes on {advice['machine']} (a "
        f"round {pace['round_seconds']:.2g} s, {planning.at_a_time(pace['workers'])}).",
    ]
    return "\n".join(lines) + "\n"


def _comparison(advice: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Returns the table of the comparison: its heads and rows."""
    often = advice["more_often"]
    heads = ["configuration", "average reward", "minus greedy", "Holm-adjusted p", "reward, last tenth of the rounds"]
    what = "accuracy" if advice["model_metric"] == metrics.ACCURACY else "reward"
    heads += [f"held-out {what} of the model", "its reward, worst tenth of clients"]
    every = "round" if often["bandits_deploy_freq"] == 1 else f"{often['bandits_deploy_freq']} rounds"
    heads += [f"deployed every {every}"] * bool(often["arms"])
    rows = []
    for name, arm in advice["arms"].items():
        one = advice["verdict"]["against_greedy"].get(name)
        row = [
            arm["name"],
            _interval(arm["reward"]),
            _difference(one),
            words.p_value(one["adjusted_p"]) if one and one["adjusted_p"] is not None else "",
            _interval(arm["recent_reward"]),
            _interval(arm["model"]),
            _interval(arm["worst_tenth"]),
        ]
        row += [_interval(often["arms"][name]["reward"]) if name in often["arms"] else ""] * bool(often["arms"])
        rows.append(row)
    return heads, rows


def _seeds(some: Iterable[Mapping[str, Any]]) -> str:
    """Returns which seeds arms were played with, in words; empty for none."""
    seeds = sorted({int(seed) for arm in some for seed in arm["reward"]})
    if len(seeds) < 2:
        return "".join(f"seed {seed}" for seed in seeds)
    return f"seeds {seeds[0]} to {seeds[-1]}"


def _block(command: str) -> list[str]:
    """Returns a command, as it stands from the repository's root, as a block."""
    return ["```sh", _ENVIRONMENT.sub("", command), "```", ""]


def _noise(privacy: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Returns the table of reward against epsilon: its heads and rows."""
    heads = ["epsilon", "noise multiplier", "in the runs", "average reward", "minus no noise"]
    rows = []
    for one in privacy["noise"]:
        if "error" in one:
            continue
        report = one.get("guarantee")
        against = privacy["against_no_noise"].get(f"epsilon {one['target_epsilon']:g}") if report else None
        rows.append(
            [
                f"{one['target_epsilon']:g}" if report else "no noise, clipped",
                f"{one['noise_multiplier']:g}",
                f"{one['run_noise_multiplier']:.3g}",
                _interval(one["arm"]["reward"]),
                _difference(against),
            ]
        )
    return heads, rows


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


def _interval(values: Mapping[str, float | None]) -> str:
    finite = {seed: math.nan if value is None else value for seed, value in values.items()}
    one = mean(finite)  # type: ignore[arg-type]
    if math.isnan(one.mean):
        return "diverged" if values else ""
    lost = sum(math.isnan(value) for value in finite.values())
    return amounts.estimate(one).replace("95% CI ", "") + (f", {lost} diverged" if lost else "")


def _difference(one: Mapping[str, Any] | None) -> str:
    if one is None or one["difference"] is None:
        return ""
    if one["low"] is None:
        return amounts.number(one["difference"], sign="+")
    digits = amounts.decimals(one["low"], one["high"])
    difference, low, high = (amounts.number(one[name], digits, "+") for name in ("difference", "low", "high"))
    return f"{difference} ({low} to {high})"
