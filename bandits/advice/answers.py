"""Answers of a recommendation, each at most 40 words long, with their details and tables.

The conclusions rest on one family of tests with Holm's adjustment, which compares each strategy's average reward with
that of greedy, of the uniform policy and of the best fixed action. All other differences are reported as estimates with
intervals. A line that begins with a dash is a list item.
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2

from bandits import metrics
from bandits.advice import findings
from bandits.advice import plan as planning
from bandits.advice.findings import BEST_FIXED, NO_NOISE, REWARD, UNIFORM_POLICY, Findings
from bandits.advice.inputs import Data
from bandits.advice.plan import GREEDY, NAMES, UNIFORM
from bandits.advice.session import Session
from bandits.results import baselines, federating, phrases
from bandits.results.comparison import Comparison
from bandits.results.configuration import Configuration, ReferenceValue
from bandits.results.phrases import capital, effect, estimate
from data.errors import counted
from optimization.privacy.mechanisms import Mechanism

TITLES: Mapping[str, str] = {
    "scope": "What does this answer hold for?",
    "exploration": "Does exploration pay?",
    "strategy": "Which strategy?",
    "references": "What do simple references earn?",
    "privacy": "What does privacy cost?",
    "federating": "Does federating pay?",
    "not_tried": "What was not tried?",
}
_MAX_EPSILONS = 3  # Maximum number of epsilons in an answer; the details list all of them.
_SHOWN = 2  # Omitted parts that an answer lists; the details list the rest.

Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # Column headings and rows.


@dataclasses.dataclass(frozen=True)
class Context:
    """Facts that the answers report.

    Attributes:
      session: The session that executed all runs.
      results: Results of all stages.
      data: Facts about the data.
      deployment: Mechanism of the deployment.
      command: The command for the user to copy; empty for none.
    """

    session: Session
    results: Findings
    data: Data
    deployment: Mechanism
    command: str


def write(context: Context) -> dict[str, str]:
    """Answers by the keys of `TITLES`, each at most 40 words long without the command; some keys have no answer."""
    answers = {
        "scope": scope(context),
        "exploration": exploration(context),
        "strategy": strategy(context),
        "references": references(context.data),
        "privacy": privacy(context),
        "federating": federated(context),
        "not_tried": not_tried(context.session),
    }
    return {name: text for name, text in answers.items() if text}


def details(context: Context) -> dict[str, str]:
    """Details by the keys of `TITLES`; sections without details are omitted."""
    macros: Any = templates().get_template("details.jinja").module
    sections = {name: str(getattr(macros, name)(context)).strip() for name in TITLES if hasattr(macros, name)}
    return {name: text for name, text in sections.items() if text}


@functools.cache
def templates() -> jinja2.Environment:
    """The templates in this folder; only HTML templates escape inserted values."""
    loader = jinja2.FileSystemLoader(pathlib.Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=jinja2.select_autoescape(["html.jinja"]), trim_blocks=True, lstrip_blocks=True
    )
    helpers = (capital, effect, estimate, on_independent_seeds, paragraphs, parts_left_out)
    environment.globals |= {helper.__name__: helper for helper in helpers} | {"NAMES": NAMES}
    return environment


def paragraphs(text: str) -> list[tuple[str, list[str]]]:
    """A section's paragraphs, each with its list items."""
    parsed: list[tuple[str, list[str]]] = []
    for line in filter(None, (line.strip() for line in text.split("\n"))):
        if line.startswith("- ") and parsed:
            parsed[-1][1].append(line.removeprefix("- "))
        else:
            parsed.append((line, []))
    return parsed


def scope(context: Context) -> str:
    """Number of rounds and decisions, deployment period, and number of clients."""
    plan, data, greedy = context.session.plan, context.data, context.results.configurations.get(GREEDY)
    rounds = counted(plan.rounds, "round")
    if plan.rounds < context.session.full.rounds:
        rounds = f"{plan.rounds:,} of {context.session.full.rounds:,} planned rounds"
    horizon = f"One run has {rounds}"
    decisions = greedy.estimate(findings.DECISIONS).mean if greedy else math.nan
    if math.isfinite(decisions):
        horizon += f" and {decisions:,.0f} decisions"
        if rows := data.report.get("training_rows"):
            horizon += f" (your {rows:,} training rows, {decisions / rows:.3g} times each)"
    every = "every round" if plan.deploy_every == 1 else f"every {plan.deploy_every:,} rounds"
    deployed = f"A new model is deployed {every}."
    if plan.rounds <= plan.deploy_every:
        deployed = "No round comes after a deployment, so every strategy acts with the initial model."
    parts = [*["Rewards are simulated."] * bool(data.scores), f"{horizon}.", deployed]
    return " ".join([*parts, f"{counted(data.clients, 'client')} train, {data.cohort:,} per round."])


def exploration(context: Context) -> str:
    """Whether exploration pays, the gain over greedy, and the power of the test."""
    results, verdict = context.results, context.results.verdict
    best = verdict.than(verdict.best, GREEDY)
    if best is None or math.isnan(best.difference):
        return f"Inconclusive: {_why_not(results)}."
    name = capital(planning.label(results.configurations[best.configuration]))
    difference = f"{name} minus greedy: {_effect_and_p(best)}."
    uniform, fixed = (verdict.than(verdict.best, baseline) for baseline in (UNIFORM_POLICY, BEST_FIXED))
    if verdict.recommended is None:
        parts = ["Inconclusive: no strategy earns significantly more than the uniform policy."]
        if uniform and math.isfinite(uniform.difference):
            parts.append(f"{name} minus the uniform policy: {_effect_and_p(uniform)}.")
        parts += _power(uniform, context)
    elif not best.is_judged:
        why = "a single seed gives no interval and no test" if best.pairs < 2 else "one of the compared runs diverged"
        parts = [f"Inconclusive: {why}.", difference]
    elif not (verdict.pays or verdict.costs):
        corrected = "after correction for several comparisons, " if best.low > 0 else ""
        parts = [f"Inconclusive: {corrected}no exploring strategy beats greedy significantly.", difference]
        parts += _power(best, context)
    else:
        other = on_independent_seeds(results)
        is_confirmed = other is not None and (other.low > 0 if verdict.pays else other.high < 0)
        if verdict.pays:
            pays, winner = "pays" if is_confirmed else "may pay", NAMES[best.configuration]
            parts = [f"Exploration {pays}: {winner} significantly beats greedy: {_effect_and_p(best)}."]
            if fixed and fixed.loses:
                parts.append(f"The best fixed action earns significantly more: {fixed.reference_mean:.3g}.")
        else:
            costs, left_out = "costs" if is_confirmed else "may cost", _not_compared(context)
            shown = f"every strategy that explores{left_out} is significantly worse than greedy"
            parts = [f"Exploration {costs} reward: {shown}.", difference]
        if other is None:
            parts.append("Not yet checked on independent seeds: give more --minutes.")
        elif not is_confirmed:
            parts.append("Not confirmed on independent seeds.")
    return " ".join(parts)


def _not_compared(context: Context) -> str:
    """The planned strategies that were omitted or failed, in parentheses."""
    tested = {GREEDY, *(comparison.configuration for comparison in context.results.verdict.tested)}
    planned = [name for name in context.session.full.configurations if name in planning.STRATEGIES]
    left = [NAMES[name] for name in planned if name not in tested]
    return f" (not compared: {', '.join(left)})" if left else ""


def on_independent_seeds(results: Findings) -> Comparison | None:
    """The best strategy compared with greedy on seeds that were not used to select it; None without such runs."""
    compared = findings.compared(results.confirmed, GREEDY).values()
    return next((comparison for comparison in compared if math.isfinite(comparison.difference)), None)


def _effect_and_p(comparison: Comparison) -> str:
    """A difference, with its Holm-adjusted p-value if it was tested."""
    if not comparison.is_judged:
        return effect(comparison)
    p = phrases.p_value(comparison.adjusted_p)
    return f"{effect(comparison)[:-1]}; Holm-adjusted p {p if p.startswith('<') else f'= {p}'})"


def _power(comparison: Comparison | None, context: Context) -> list[str]:
    """The minimum detectable difference, and the seeds required for the observed difference."""
    if comparison is None or math.isnan(comparison.detectable):
        return []
    if comparison.detectable > context.data.reward_width:
        return [f"{phrases.seeds(comparison.pairs)} cannot detect even the largest possible difference."]
    text = f"{capital(phrases.seeds(comparison.pairs))} can detect {comparison.detectable:.2g} (80% power)"
    needed = phrases.seeds_needed(comparison)
    return [f"{text}; {comparison.difference:+.2g} needs {needed}." if needed else f"{text}."]


def _why_not(results: Findings) -> str:
    """Why no strategy is compared with greedy."""
    if not _is_complete(results, GREEDY):
        return "greedy, the reference, diverged or failed"
    if results.verdict.best:
        return "the best strategy and greedy have no seed in common, as runs failed"
    return "every strategy that explores diverged or failed"


def _is_complete(results: Findings, name: str) -> bool:
    """Whether a strategy has runs and none of them diverged."""
    finished = results.configurations.get(name)
    return finished is not None and len(finished.values) > 0 and not finished.diverged


def strategy(context: Context) -> str:
    """The strategy to deploy, and the command that runs it."""
    verdict, name = context.results.verdict, context.results.verdict.recommended
    if name is None:
        return _no_strategy(context)
    parts = [f"{capital(NAMES[name])}: {_why(context, name)}."]
    fixed = verdict.than(name, BEST_FIXED)
    if fixed and not fixed.wins:
        differs = "earns significantly more" if fixed.loses else "does not differ significantly"
        parts.append(f"But the best fixed action {differs}: {NAMES[name]} minus that action is {effect(fixed)}.")
    return f"{' '.join(parts)} Command: {context.command}"


def _why(context: Context, name: str) -> str:
    """Why a strategy is recommended."""
    verdict = context.results.verdict
    if not _is_complete(context.results, GREEDY):
        return "the best exploring strategy; greedy diverged or failed, so there is no comparison"
    if verdict.pays:
        is_selected = len(verdict.tested) > 1
        first = "the highest mean of the strategies that are" if is_selected else "the only strategy compared, and"
        return f"{first} significantly better than greedy{_not_compared(context)}"
    if name == GREEDY:
        if verdict.tested and not verdict.costs:
            return "the simplest, until more seeds show that a strategy that explores is better"
        return "the simplest, and no strategy that explores is significantly better"
    baseline = "best fixed action" if verdict.beats(GREEDY, UNIFORM_POLICY) else "uniform policy"
    return f"it significantly beats the {baseline} and greedy does not, though the two do not differ significantly"


def _no_strategy(context: Context) -> str:
    """Why no strategy is recommended, and whether a fixed action earns more."""
    results, plan, full = context.results, context.session.plan, context.session.full
    if results.verdict.all_diverged:
        return "None: every strategy diverged or failed. Set lower learning rates."
    rounds, is_cut_short = counted(plan.rounds, "round"), plan.is_cut_short(full)
    if is_cut_short:
        text = f"Undecided: the search was cut short at {plan.points} of {full.points} settings and {rounds}."
    else:
        why = "no strategy earns significantly more than the uniform policy, so their order may be due to luck"
        text = f"None: {why} ({rounds})."
    simple, is_log = context.data.references, bool(context.data.scores)
    learned = [best.estimate(metrics.HELD_OUT_REWARD).mean for best in results.searched.values()]
    learned = [*filter(math.isfinite, learned)]
    if simple and learned:
        uniform, linear = simple.measured
        text += f" {'Simulated' if is_log else 'Held-out'} rewards: best model {max(learned):.3g}, "
        text += f"central linear model {linear:.3g}, uniform policy {uniform:.3g}."
    if simple and simple.linear_gain.low > 0 and context.command:
        how = "on the log itself" if is_log else "on the rewards of all actions"
        return f"{text} Train offline {how}, and deploy that model. Command: {context.command}"
    if simple and not is_cut_short:
        text += " A linear model fitted centrally does not earn significantly more either."
    fixed = results.verdict.against.get(BEST_FIXED, {})
    if below := [NAMES[name] for name, comparison in fixed.items() if comparison.loses]:
        reward = max(comparison.reference_mean for comparison in fixed.values())
        text += f" The best fixed action earns {reward:.3g}, significantly more than {phrases.listed(below)}."
    return text


def references(data: Data) -> str:
    """Held-out rewards of the data's reference policies; empty if there are none."""
    if not data.references:
        return ""
    values = phrases.listed([f"{name} {estimate(reward)}" for name, reward in data.references.rewards.items()])
    return f"On held-out clients{', estimated from the log (doubly robust)' if data.scores else ''}: {values}."


def privacy(context: Context) -> str:
    """The clients that epsilon protects, and the cost of each epsilon."""
    results, earned, clients = context.results, context.results.with_noise, context.data.clients
    if results.why_no_noise or not earned:
        too_short = f"--minutes={context.session.state.minutes:g} left too little time for noise"
        return f"Not run: {results.why_no_noise.rstrip('.') or too_short}."
    population = context.deployment.population
    protected = f"Epsilon protects {population:,} clients; your data has {clients:,} of them."
    if population == clients:
        protected = f"Epsilon protects the {clients:,} training clients of your data."
    if not math.isfinite(earned[NO_NOISE].estimate(REWARD).mean):
        lost = f"{NAMES[results.verdict.recommended or '']} diverged or failed without noise"
        return f"{protected} Inconclusive: {lost}, at clip norm {results.clip_norm:.3g}."
    against = findings.compared(earned, NO_NOISE)
    lines = [f"{protected} Average reward with noise, minus that without (95% CI):"]
    for name in [*results.noise][1:][:_MAX_EPSILONS]:
        is_run = "error" not in results.noise[name]
        lines.append(f"- {name}: {(_difference(against.get(name)) or 'diverged or failed') if is_run else 'not run'}")
    return "\n".join(lines)


def federated(context: Context) -> str:
    """The gain over clients that train alone, and the fractions of clients that federated training helps and hurts."""
    results = context.results
    if results.why_no_federation:
        return f"Not known: no client can train alone ({results.why_no_federation.partition(':')[0]})."
    compared = findings.compared(results.federation, federating.ALONE).get(federating.FEDERATED)
    if compared is None or not math.isfinite(compared.difference) or not results.by_client:
        why = f"--minutes={context.session.state.minutes:g} left too little time for clients that train alone"
        return f"Not known: {'a run diverged or failed' if results.federation else why}."
    shares, noise = results.by_client["shares"], results.by_client["between_seeds"]
    text = f"Average reward, federated minus alone: {effect(compared)}. "
    text += f"Federating helps {shares['helped']:.0%} of clients and hurts {shares['hurt']:.0%}"
    if math.isfinite(noise["helped"]):
        text += f"; two federated runs with different seeds give {noise['helped']:.0%} and {noise['hurt']:.0%}"
    return f"{text}."


def not_tried(session: Session) -> str:
    """The first parts that were omitted for lack of time, and the minutes that the full plan would take."""
    shown, others = parts_left_out(session)
    if not shown:
        return "Nothing was left out for lack of time."
    items = "; ".join([*shown, *[counted(len(others), "other part")] * bool(others)])
    minutes = max(math.ceil(session.full.seconds(session.pace) / 60), int(session.state.minutes)) + 1
    text = f"Left out, to keep to --minutes={session.state.minutes:g}: {items}."
    return f"{text} To run all, repeat the command with --minutes={minutes}."


def parts_left_out(session: Session) -> tuple[list[str], list[str]]:
    """Parts that were omitted for lack of time: those that the answer lists, and those in the details."""
    parts = planning.left_out(session.full, session.plan)
    return parts[:_SHOWN], parts[_SHOWN:]


def tables(results: Findings) -> list[Table]:
    """The comparison table and, if there were runs with noise, the table of rewards by epsilon."""
    heads = ["configuration", "seeds", "average reward", "minus greedy's", "Holm-adjusted p"]
    heads += ["last tenth of the rounds", "held-out reward of the model", "held-out reward, worst tenth of clients"]
    rows = []
    for name, runs in results.configurations.items():
        against = results.verdict.than(name, GREEDY)
        p = phrases.p_value(against.adjusted_p) if against and math.isfinite(against.adjusted_p) else ""
        row = [planning.label(runs), f"{len(runs.values)}", _mean(runs), _difference(against), p]
        rows.append([*row, *(_mean(runs, metric) for metric in findings.MEASURED[1:4])])
    for baseline, reference in results.baselines.items():
        if reference.name != UNIFORM:
            name = baseline.value
            if isinstance(reference, ReferenceValue) and reference.clients:
                name += f", over a sample of {reference.clients:,} clients"
            shown = estimate(baselines.interval(reference, REWARD), label="")
            rows.append([name, "", shown, *[""] * (len(heads) - 3)])
    return [(heads, rows), *[_noise(results)] * bool(results.with_noise)]


def _noise(results: Findings) -> Table:
    against = findings.compared(results.with_noise, NO_NOISE)
    heads = ["noise", "mechanism", "noise multiplier", "noise multiplier in the runs", "average reward"]
    rows = []
    for name, runs in results.with_noise.items():
        noise = results.noise[name]
        multipliers = [f"{noise['noise_multiplier']:g}", f"{noise['run_noise_multiplier']:.3g}"]
        rows.append([name, noise.get("mechanism", ""), *multipliers, _mean(runs), _difference(against.get(name))])
    return [*heads, "minus that without noise"], rows


def _mean(runs: Configuration, metric: str = REWARD) -> str:
    mean = runs.estimate(metric)
    if math.isnan(mean.mean):
        return "diverged" if runs.diverged else ""
    return estimate(mean, label="") + (f", {len(runs.diverged)} diverged" if runs.diverged else "")


def _difference(comparison: Comparison | None) -> str:
    if comparison is None or math.isnan(comparison.difference):
        return ""
    return estimate(comparison.interval, signed=True, label="")
