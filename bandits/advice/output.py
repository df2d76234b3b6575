"""Output of a recommendation: `advice.json`, `advice.md`, `advice.html`, and text for the terminal."""

import dataclasses
import json
import math
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bandits import metrics
from bandits.advice import answers, findings, inputs
from bandits.advice import plan as planning
from bandits.advice.answers import Context
from bandits.advice.findings import BEST_FIXED, NO_NOISE, PLANNED, REWARD, Findings, plain
from bandits.advice.inputs import Data
from bandits.advice.plan import FULL_FEEDBACK, GREEDY, NAMES, UNIFORM, every
from bandits.advice.session import ADVICE_FILE, Session
from bandits.results import baselines, comparison, federating, phrases, runs, tables
from bandits.results.comparison import Comparison
from bandits.results.configuration import Baseline, Configuration, ReferenceValue
from bandits.results.phrases import capital, count, effect, estimate
from data import files
from optimization.privacy.mechanisms import Mechanism
from optimization.study import cli, intervals, run_folder

if TYPE_CHECKING:
    import jinja2

_MARKDOWN, _PAGE = "advice.md", "advice.html"
_ENVIRONMENT = re.compile(r"^(?:\w+=\S+ )+")

Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # Heads and rows.


def write(
    session: Session, results: Findings, data: Data, deployment: Mechanism, base: Sequence[str]
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
        command = planning.command(base, best, findings.point(results.configurations[best]), *more)
    elif data.references and results.configurations:  # Training without acting, which uses all rewards there are.
        points = {name: findings.point(one) for name, one in results.configurations.items()}
        command = planning.offline_command(base, points, bool(data.scores), *more)
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
    compared = findings.compared
    return plain(
        vars(results)
        | {name: getattr(context, name) for name in ("command", "minutes", "pace", "plan", "deployment")}
        | {name: getattr(data, name) for name in ("clients", "held_out")}
        | {
            "format": run_folder.FORMAT,
            "sentences": answers.write(context),
            "details": details(context),
            "recommended": results.verdict.recommended,
            "advice_command": session.state.command,
            "initial_model_varies": not flags.get("--initial_model_path"),
            "metric": REWARD,
            "task": flags.get("--task_type"),
            "clients_per_round": data.cohort,
            "actions": data.num_actions,
            "data_report": data.report,
            "references": {name: value._asdict() for name, value in answers.rewards_of(data).items()},
            "baselines": {one.name: baselines.interval(it, REWARD)._asdict() for one, it in results.baselines.items()},
            "seconds": round(session.state.earlier + context.seconds, 1),
            "left_out": planning.left_out(context.full, context.plan),
            "failed": session.failed,
            "machine": runs.machine(),
            "versions": run_folder.versions(),
            "models_against_greedy": compared(results.configurations, GREEDY, results.measured),
            "confirmed_against_greedy": compared(results.confirmed, GREEDY),
            "more_often_against_planned": findings.against_planned(results.configurations, results.more_often),
            "federated_against_alone": compared(results.federation, federating.ALONE),
            "noise_against_no_noise": compared(results.by_noise, NO_NOISE),
        }
    )


def details(context: Context) -> dict[str, str]:
    """Details by the keys of `TITLES`; a section without any is missing."""
    results, data = context.results, context.data
    helped = [line.strip() for line in results.by_client.get("lines", ())]
    macros: Any = template("details.jinja").module
    population = inputs.guarantees_hold_for(context.deployment, data.clients)
    hidden = planning.left_out(context.full, context.plan)[answers.SHOWN :]
    scores = [inputs.score_text(score) for score in data.scores]
    checks = [score for score in data.scores if math.isfinite(score.difference.low)]
    sections = {
        "scope": macros.scope(context, scores, checks),
        "exploration": _exploration_details(context),
        "strategy": _notes(results),
        "privacy": macros.privacy(context, population, *_privacy_values(results)),
        "federating": "\n".join([*helped[:1], *(f"- {line}" for line in helped[1:])]),
        "not_tried": macros.not_tried(context, hidden, context.seconds - 60 * context.minutes),
    }
    return {name: str(text).strip() for name, text in sections.items() if text}


def template(name: str) -> "jinja2.Template":
    """A template of this folder."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        autoescape=name.endswith(".html.jinja"),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {one.__name__: one for one in (capital, count, effect, estimate, neighbours, paragraphs)}
    return environment.get_template(name)


def neighbours(reports: Sequence[Mapping[str, Any]]) -> str:
    """Neighbouring relations of guarantees, each once."""
    firsts = [one["guarantees"][0] for one in reports if one["guarantees"]]
    return "; ".join(dict.fromkeys(f"{one['neighbours']} (sampling: {one['sampling']})" for one in firsts))


def paragraphs(text: str) -> list[tuple[str, list[str]]]:
    """A section's paragraphs, each with the items of its list."""
    parsed: list[tuple[str, list[str]]] = []
    for line in filter(None, (line.strip() for line in text.split("\n"))):
        if line.startswith("- ") and parsed:
            parsed[-1][1].append(line.removeprefix("- "))
        else:
            parsed.append((line, []))
    return parsed


def _exploration_details(context: Context) -> str:
    results, verdict = context.results, context.results.verdict
    best = verdict.than(verdict.best, GREEDY)
    if best is None or math.isnan(best.difference):
        return " ".join(_lost(context))
    parts = [
        f"Independent seeds, which did not select {NAMES[one.configuration]}, give {effect(one)}."
        for one in answers.on_independent_seeds(results)
        if one.low > 0 or not verdict.pays
    ]
    return " ".join([*parts, *_baselines(results), *_lost(context)])


def _baselines(results: Findings) -> list[str]:
    """The normalized score, and how the full-feedback baseline compares with the strategies and a fixed action."""
    name = results.verdict.recommended or results.verdict.best or GREEDY
    parts, score = [], results.verdict.scores.get(name)
    if score is not None:
        parts.append(f"Normalized score of {NAMES[name]}: {score:.2f} (0 = uniform policy, 1 = full feedback).")
    others = {one: it for one, it in results.configurations.items() if one != UNIFORM}
    against = findings.compared(others, FULL_FEEDBACK)
    if above := [NAMES[one] for one, it in against.items() if it.difference > 0]:
        parts.append(f"{capital(phrases.listed(above))} earned more than the full-feedback baseline on average.")
    fixed = results.verdict.than(FULL_FEEDBACK, BEST_FIXED)
    if fixed and fixed.loses:
        parts.append(
            "Even full feedback earns significantly less than the best fixed action: the model is deployed too late, "
            "learns too slowly, or cannot fit these rewards."
        )
    return parts


def _lost(context: Context) -> list[str]:
    """Configurations that diverged, or failed."""
    planned, parts = context.plan.seeds, []
    for name, one in context.results.configurations.items():
        if one.diverged:
            parts.append(f"{capital(NAMES[name])} diverged on {len(one.diverged)} of {phrases.seeds(len(one.values))}.")
        elif len(one.values) < planned:
            parts.append(f"{capital(NAMES[name])} failed on {planned - len(one.values)} of {phrases.seeds(planned)}.")
    return parts


def _notes(results: Findings) -> str:
    return " ".join(f"{capital(note)}." for note in results.notes.get(results.verdict.recommended or "", ()))


def _privacy_values(results: Findings) -> tuple[str, intervals.Interval | None, Comparison | None, str]:
    """The strategy with noise, its reward without, the change by clipping, and what may earn no more than uniform."""
    values, name = results.by_noise, results.strategy_with_noise
    if results.why_no_noise or NO_NOISE not in values or not math.isfinite(values[NO_NOISE].estimate(REWARD).mean):
        return "", None, None, ""
    clipping = None
    if name in results.confirmed:  # With the same seeds.
        both = {NO_NOISE: values[NO_NOISE], PLANNED: results.confirmed[name]}
        change = findings.compared(both, PLANNED).get(NO_NOISE)
        clipping = change if change and change.is_judged and change.difference else None
    without = []
    if uniform := results.baselines.get(Baseline.uniform_policy):
        # A uniform policy's reward by seed was measured with other seeds than these.
        named = (dataclasses.replace(one, name=name, unpaired=True) for name, one in values.items())
        against = comparison.compare([(one, uniform) for one in named], REWARD)
        without = [one.configuration for one in against if one.is_judged and one.low <= 0]
    return capital(NAMES[name]), values[NO_NOISE].estimate(REWARD), clipping, phrases.listed(without)


def shown_tables(context: Context) -> list[Table]:
    """The table of the comparison and, after runs with noise, that of the reward by epsilon."""
    return [_comparison(context), *[_noise(context.results)] * bool(context.results.noise)]


def _comparison(context: Context) -> Table:
    results, often = context.results, context.plan.often
    measure = "accuracy" if results.measured == metrics.ACCURACY else "reward"
    heads = ["configuration", "average reward", "minus greedy's", "Holm-adjusted p", "reward, last tenth of the rounds"]
    heads += [f"held-out {measure} of the model", "held-out reward, worst tenth of clients"]
    heads += [f"average reward if deployed {every(often)}"] * bool(results.more_often)
    rows = []
    for name, one in results.configurations.items():
        against = results.verdict.than(name, GREEDY)
        p = phrases.p_value(against.adjusted_p) if against and math.isfinite(against.adjusted_p) else ""
        row = [findings.label(one), _mean(one), _difference(against), p]
        row += [_mean(one, metric) for metric in (metrics.ROUND_REWARD, results.measured, metrics.WORST_TENTH)]
        row += [_mean(results.more_often[name]) if name in results.more_often else ""] * bool(results.more_often)
        rows.append(row)
    for baseline, reference in results.baselines.items():
        if reference is not results.configurations.get(UNIFORM):
            name = baseline.value + ", expected" * (baseline is Baseline.uniform_policy)
            if isinstance(reference, ReferenceValue) and reference.clients:
                name += f", over a sample of {reference.clients:,} clients"
            shown = estimate(baselines.interval(reference, REWARD), label="")
            rows.append([name, shown, *[""] * (len(heads) - 2)])
    return heads, rows


def _noise(results: Findings) -> Table:
    against = findings.compared(results.by_noise, NO_NOISE)
    heads = ["epsilon", "mechanism", "noise multiplier", "noise multiplier of the runs", "average reward"]
    rows = []
    for one in results.noise:
        if "error" in one:
            continue
        row = [f"{one['target_epsilon']:g}" if "guarantee" in one else "no noise, clipped", one.get("mechanism", "")]
        row += [f"{one['noise_multiplier']:g}", f"{one['run_noise_multiplier']:.3g}", _mean(one["results"])]
        rows.append([*row, _difference(against.get(findings.noise_name(one)))])
    return [*heads, "minus that without noise"], rows


def _mean(one: Configuration, metric: str = REWARD) -> str:
    mean = one.estimate(metric)
    if math.isnan(mean.mean):
        return "diverged" if one.diverged else ""
    return estimate(mean, label="") + (f", {len(one.diverged)} diverged" if one.diverged else "")


def _difference(comparison: Comparison | None) -> str:
    if comparison is None or math.isnan(comparison.difference):
        return ""
    return estimate(comparison.interval, signed=True, label="")


def text(advice: Mapping[str, Any], folder: pathlib.Path) -> str:
    """Text for the terminal: the answers, and the paths of the pages."""
    parts = []
    for name, answer in advice["sentences"].items():
        parts.append(answers.TITLES[name])
        for paragraph, items in paragraphs(answer):
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
    read = runs.read_all([path for path in (folder / "compare", folder / "noise") if path.is_dir()])
    noise = [one for one in advice["noise"] if "error" not in one]
    names = {round(one["run_noise_multiplier"], 9): findings.noise_name(one) for one in noise}

    def named(run: runs.Run) -> str:
        """Name of a run with noise on the page; empty for others."""
        epsilon = names.get(round(float(run.flags.get("noise_multiplier") or 0.0), 9))
        if run.flags.get("aggregator_type") not in ("dpsgd", "mf_dpftrl") or not epsilon:
            return ""
        return f"{NAMES.get(str(run.flags['bandits_type']), run.flags['bandits_type'])}, {epsilon}"

    top = template("top.html.jinja").render(
        advice=advice,
        titles=answers.TITLES,
        tables=[tables.html(heads, rows, "wrapped", heads) for heads, rows in shown],
        file=ADVICE_FILE,
    )
    content = page.page(read, f"Recommendation: {folder.name}", top=top, is_judged=False, named=named)
    files.replace(folder / _PAGE, content.encode())
    files.replace(folder / ADVICE_FILE, json.dumps(advice, indent=2).encode() + b"\n")


def markdown(advice: Mapping[str, Any], shown: Sequence[Table]) -> str:
    """A recommendation as Markdown."""
    noise_seeds = _seeds([one["results"] for one in advice["noise"]])
    over = [_seeds(advice["configurations"].values()) or "no seed", *[f"with noise {noise_seeds}"] * bool(noise_seeds)]
    return template("advice.md.jinja").render(
        advice=advice,
        titles=answers.TITLES,
        advice_command=_ENVIRONMENT.sub("", advice["advice_command"]),
        tables=[tables.markdown(heads, rows) for heads, rows in shown],
        seeds=", ".join(over),
        what_seeds_vary=phrases.what_seeds_vary(initial_model=advice["initial_model_varies"], noise=bool(noise_seeds)),
        what_intervals_are_over=phrases.what_intervals_are_over(),
        at_a_time=planning.at_a_time(advice["pace"]["workers"]),
    )


def _seeds(results: Iterable[Mapping[str, Any]]) -> str:
    """Seeds of results, in words; empty for none."""
    seeds = sorted({int(seed) for one in results for seed in one["reward"]})
    if len(seeds) < 2:
        return "".join(f"seed {seed}" for seed in seeds)
    return f"seeds {seeds[0]} to {seeds[-1]}"
