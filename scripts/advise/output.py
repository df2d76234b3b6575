"""What an advice leaves: `advice.json`, `advice.md` and `advice.html` in its folder, and sentences in the terminal."""

import html
import json
import math
import os
import pathlib
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits import logged_flags, metrics
from data.tasks import logged
from optimization.study import cli, files, run_folder
from scripts.advise import arms, findings, sentences
from scripts.advise import plan as planning
from scripts.advise.amounts import number, signed
from scripts.advise.findings import Arm, plain
from scripts.advise.plan import GREEDY
from scripts.advise.privacy import Deployment
from scripts.advise.session import ADVICE_FILE, Session
from scripts.advise.stages import Advice, mean
from scripts.verdicts import words

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
    is_simulated = asked.get("--task_type") == "logged" and asked.get("--learn_from") == logged.SIMULATOR
    context = sentences.Context(
        found=found,
        plan=session.plan,
        full=session.full,
        minutes=planning.enough(session.full, session.pace),
        where=_where(where),
        command=command,
        reward_width=data.reward_width,
        rewards=logged_flags.ADVISED if is_simulated else "",
        overrun=f"It took {spent - 60 * most:.0f} s longer than --minutes={most:g}." if spent > 60 * most + 1 else "",
    )
    values = {name: arm.reward for name, arm in found.often.items()}
    noisy = {sentences.noise_name(one): arm.reward for one, arm in found.noise if arm.reward}
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
                "against_no_noise": findings.compared(noisy, sentences.NO_NOISE),
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
    """Returns where the guarantees hold, as the start of a sentence."""
    if where.is_table:
        return (
            f"The guarantees are for training on the {where.population:,} clients of the data themselves, about "
            f"{where.cohort:,} a round"
        )
    return (
        f"The guarantees are for training on {where.population:,} clients, about {where.cohort:,} a round, of whom the "
        "data is taken for a sample; the runs' noise on the mean is what such cohorts would leave"
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
    """Returns what is printed in the end: five sentences, and where all of it lies."""
    parts = [f"{sentences.TITLES[name]}\n  {text}\n" for name, text in advice["sentences"].items()]
    shown = cli.shown_path(str(folder))
    return "\n".join([*parts, f"All of it in {shown}: {ADVICE_FILE}, {_PAGE}, {_MARKDOWN}; runs in its folders"])


def write(advice: Mapping[str, Any], folder: pathlib.Path) -> None:
    """Writes all files; `advice.json` last, which says that they are there.

    Raises:
      Failure: If one cannot be written.
    """
    from scripts.report import page

    files.replace(folder / _MARKDOWN, markdown(advice).encode())
    found = page.read([path for path in (folder / "compare", folder / "noise") if path.is_dir()])
    files.replace(folder / _PAGE, page.page(found, f"Advice: {folder.name}", top=_top(advice)).encode())
    files.replace(folder / ADVICE_FILE, json.dumps(advice, indent=2).encode() + b"\n")


def _top(advice: Mapping[str, Any]) -> str:
    """Returns the sentences, and the reward against epsilon, as the page's first section."""
    from scripts.report import tables

    parts = []
    for name, text in advice["sentences"].items():
        shown = html.escape(text)
        if command := advice["command"]:
            shown = shown.replace(html.escape(command), f"<code>{html.escape(command)}</code>")
        parts.append(f"<dt>{html.escape(sentences.TITLES[name])}</dt><dd>{shown}</dd>")
    note = (
        "Below are the runs of the comparison and those under noise; searches and the seeds that did not pick the best "
        f"are in the folder, numbers in {ADVICE_FILE}. Above, the average reward of all rounds is judged; below, what "
        "the seeds say is about the last rounds, and may tell other arms apart."
    )
    noise = ""
    if advice["privacy"]["noise"]:
        heads, rows = _noise(advice["privacy"])
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
        noise = tables.table(heads, [f"<tr>{row}</tr>" for row in cells], text=heads)
    return f'<dl>{"".join(parts)}</dl>{noise}<p class="note">{html.escape(note)}</p>'


def markdown(advice: Mapping[str, Any]) -> str:
    """Returns an advice as a part of a page."""
    lines = _block(advice["advice_command"])
    for name, text in advice["sentences"].items():
        is_followed = bool(advice["command"]) and text.endswith(advice["command"])
        lines += [f"**{sentences.TITLES[name]}** {text.removesuffix(advice['command']).rstrip()}", ""]
        lines += _block(advice["command"]) if is_followed else []
    often = advice["more_often"]
    heads = ["arm", "average reward", "against greedy", "last tenth of the rounds"]
    heads += [advice["model_metric"], metrics.WORST_TENTH]
    every = "round" if often["bandits_deploy_freq"] == 1 else f"{often['bandits_deploy_freq']} rounds"
    heads += [f"deployed every {every}"] * bool(often["arms"])
    rows = []
    for name, arm in advice["arms"].items():
        one = advice["verdict"]["against_greedy"].get(name)
        row = [
            arm["name"],
            _interval(arm["reward"]),
            _difference(one),
            _interval(arm["recent_reward"]),
            _interval(arm["model"]),
            _interval(arm["worst_tenth"]),
        ]
        row += [_interval(often["arms"][name]["reward"]) if name in often["arms"] else ""] * bool(often["arms"])
        rows.append(row)
    lines += _table(heads, rows)
    if advice["privacy"]["noise"]:
        lines += ["", *_table(*_noise(advice["privacy"]))]
    pace = advice["pace"]
    under_noise = _seeds([one["arm"] for one in advice["privacy"]["noise"] if "arm" in one])
    over = [_seeds(advice["arms"].values()) or "no seed", *[f"under noise {under_noise}"] * bool(under_noise)]
    lines += [
        "",
        f"Means and 95% intervals over {', '.join(over)}. "
        f"{words.what_seeds_vary(initial_model=advice['initial_model_varies'], noise=bool(under_noise))} "
        f"{words.what_intervals_are_over()} {advice['clients']:,} clients, {advice['clients_per_round']:,} a round, "
        f"{advice['actions']} actions; {advice['seconds'] / 60:.0f} minutes on {advice['machine']} (a round "
        f"{pace['round_seconds']:.2g} s, {planning.at_a_time(pace['workers'])}).",
    ]
    return "\n".join(lines) + "\n"


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
    heads = ["epsilon", "noise multiplier", "in the runs", "average reward", "against no noise"]
    rows = []
    for one in privacy["noise"]:
        if "error" in one:
            continue
        report = one.get("guarantee")
        against = privacy["against_no_noise"].get(f"epsilon {one['target_epsilon']:g}") if report else None
        rows.append(
            [
                f"{one['target_epsilon']:g}" if report else "none: clipped alone",
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
    ends = f" ({number(one.low)} to {number(one.high)})" if one.size > 1 else ""
    lost = sum(math.isnan(value) for value in finite.values())
    return f"{number(one.mean)}{ends}" + (f", {lost} diverged" if lost else "")


def _difference(one: Mapping[str, Any] | None) -> str:
    if one is None or one["difference"] is None:
        return ""
    ends = f" ({signed(one['low'])} to {signed(one['high'])})" if one["low"] is not None else ""
    return f"{signed(one['difference'])}{ends}"
