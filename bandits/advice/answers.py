"""Answers of a recommendation, each of at most 40 words.

One family of tests decides, adjusted by Holm: each strategy's average reward against that of greedy, of the uniform
policy and of the best fixed action. All other differences are estimates with their intervals. A line that begins with a
dash is an item of a list.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from bandits.advice import findings, inputs
from bandits.advice import plan as planning
from bandits.advice.findings import BEST_FIXED, NO_NOISE, OFTEN, REWARD, UNIFORM_POLICY, Findings
from bandits.advice.inputs import Data
from bandits.advice.plan import FULL_FEEDBACK, GREEDY, NAMES, Plan
from bandits.plans.estimate import Pace
from bandits.results import federating as reports
from bandits.results import phrases
from bandits.results.comparison import Comparison
from bandits.results.phrases import capital, count, effect, estimate
from optimization.privacy.mechanisms import Mechanism
from optimization.study import intervals

TITLES: Mapping[str, str] = {
    "scope": "What does this answer hold for?",
    "exploration": "Does exploration pay?",
    "strategy": "Which strategy?",
    "references": "What do simple references earn?",
    "privacy": "What does privacy cost?",
    "frequency": "What does more frequent deployment change?",
    "federating": "Does federating pay?",
    "not_tried": "What was not tried?",
}
MAX_WORDS = 40  # Longest answer, not counting the command.
_MAX_EPSILONS = 3  # In an answer; the details have all.
SHOWN = 2  # Parts that were left out; the details have the others.
_UNCHECKED = "Not yet checked on independent seeds: give more --minutes."


@dataclasses.dataclass(frozen=True)
class Context:
    """Inputs of the sentences.

    Attributes:
      results: Results of all stages.
      plan: The executed plan.
      full: The plan with nothing left out.
      minutes: The time budget, `--minutes`.
      data: Facts about the data.
      deployment: Where the model would be trained.
      command: The command to paste; empty for none.
      pace: Speed of this machine.
      seconds: Seconds that the stages took within this budget.
    """

    results: Findings
    plan: Plan
    full: Plan
    minutes: float
    data: Data
    deployment: Mechanism
    command: str
    pace: Pace
    seconds: float = 0.0


def write(context: Context) -> dict[str, str]:
    """Answers by the keys of `TITLES`, each of at most `MAX_WORDS` words without the command; some have none."""
    answers = {
        "scope": scope(context),
        "exploration": exploration(context),
        "strategy": strategy(context),
        "references": of_references(context.data),
        "privacy": privacy(context),
        "frequency": frequency(context),
        "federating": federating(context),
        "not_tried": not_tried(context),
    }
    return {name: text for name, text in answers.items() if text}


def scope(context: Context) -> str:
    """The horizon, the deployment period and the clients."""
    plan, data, greedy = context.plan, context.data, context.results.configurations.get(GREEDY)
    rounds = count(plan.rounds, "round")
    if plan.rounds < context.full.rounds:
        rounds = f"{plan.rounds:,} of {context.full.rounds:,} planned rounds"
    horizon = f"One run has {rounds}"
    decisions = greedy.estimate(findings.DECISIONS).mean if greedy else math.nan
    if math.isfinite(decisions):
        horizon += f" and {decisions:,.0f} decisions"
        if data.rows:
            horizon += f" (your {data.rows:,} training rows, {decisions / data.rows:.3g} times each)"
    deployed = f"A new model is deployed {planning.every(plan.deploy_every)}."
    if plan.rounds <= plan.deploy_every:
        deployed = "No round follows a deployment, so every strategy acts with the initial model."
    parts = [*["Rewards are simulated."] * bool(data.scores), f"{horizon}.", deployed]
    return " ".join([*parts, f"{count(data.clients, 'client')} train, {data.cohort:,} a round."])


def exploration(context: Context) -> str:
    """Whether exploration pays, the difference to greedy, and the power of the test."""
    results, verdict = context.results, context.results.verdict
    best = verdict.than(verdict.best, GREEDY)
    if best is None or math.isnan(best.difference):
        return f"Inconclusive: {_why_not(results)}."
    name = findings.label(results.configurations[best.configuration])
    uniform, fixed = (verdict.than(verdict.best, baseline) for baseline in (UNIFORM_POLICY, BEST_FIXED))
    difference = f"{capital(name)} minus greedy: {_effect_and_p(best)}."
    if verdict.recommended is None:
        parts = ["Inconclusive: no strategy earns significantly more than the uniform policy."]
        if uniform and math.isfinite(uniform.difference):
            parts.append(f"{capital(name)} minus the uniform policy: {_effect_and_p(uniform)}.")
        parts += _power(uniform, context)
    elif not best.is_judged:
        parts = [f"Inconclusive: {_not_judged(best)}.", difference]
    elif verdict.pays:
        unconfirmed = [one for one in on_independent_seeds(results) if not one.low > 0]
        pays = "pays" if results.confirmed and not unconfirmed else "may pay"
        parts = [f"Exploration {pays}: {NAMES[best.configuration]} significantly beats greedy: {_effect_and_p(best)}."]
        if fixed and fixed.loses:
            parts.append(f"The best fixed action earns significantly more: {fixed.reference_mean:.3g}.")
        parts += [f"Not confirmed on independent seeds: {effect(one)}." for one in unconfirmed]
        if not results.confirmed:
            parts.append(_UNCHECKED)
    elif verdict.costs:
        worse = "is significantly worse than greedy"
        independent = on_independent_seeds(results)
        unconfirmed = [one for one in independent if not one.high < 0]
        if unconfirmed:
            shown = f"every strategy that explores {worse}, but not on independent seeds: {effect(unconfirmed[0])}"
            parts = [f"Inconclusive: {shown}.", difference]
        elif independent:
            left_out = _not_compared(context)
            parts = [f"Exploration costs reward: every strategy that explores{left_out} {worse}.", difference]
        else:
            parts = [f"Exploration may cost reward: every strategy that explores {worse}.", difference, _UNCHECKED]
    else:
        corrected = "after correction for several comparisons, " if best.low > 0 else ""
        parts = [f"Inconclusive: {corrected}no exploring strategy beats greedy significantly.", difference]
        parts += _power(best, context)
    return " ".join(parts)


def _not_compared(context: Context) -> str:
    """The planned strategies that were left out or failed, in parentheses."""
    tested = {GREEDY, *(one.configuration for one in _tested(context.results))}
    left = [NAMES[one] for one in context.full.strategies if one not in tested]
    return f" (not compared: {', '.join(left)})" if left else ""


def _tested(results: Findings) -> list[Comparison]:
    return [one for one in results.verdict.against.get(GREEDY, {}).values() if one.is_judged]


def on_independent_seeds(results: Findings) -> list[Comparison]:
    """The best strategy against greedy on seeds that did not select it; empty if it was not run on them."""
    compared = findings.compared(results.confirmed, GREEDY).values()
    return [one for one in compared if math.isfinite(one.difference)]


def _effect_and_p(comparison: Comparison) -> str:
    """A difference with Holm's p, where there is a test."""
    if not comparison.is_judged:
        return effect(comparison)
    p = phrases.p_value(comparison.adjusted_p)
    return f"{effect(comparison)[:-1]}; Holm-adjusted p {p if p.startswith('<') else f'= {p}'})"


def _not_judged(comparison: Comparison) -> str:
    return "one seed gives no interval and no test" if comparison.pairs < 2 else "a run that is compared diverged"


def _power(comparison: Comparison | None, context: Context) -> list[str]:
    """The minimum detectable difference, and the seeds that the observed one requires."""
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
    return "every strategy that explores diverged, or failed"


def _is_complete(results: Findings, name: str) -> bool:
    """Whether a strategy has runs, none of which diverged."""
    one = results.configurations.get(name)
    return one is not None and len(one.values) > 0 and not one.diverged


def strategy(context: Context) -> str:
    """The strategy to deploy, and the command that runs it."""
    results = context.results
    name = results.verdict.recommended
    if name is None:
        return _no_strategy(context)
    parts = [f"{capital(NAMES[name])}: {_why(context, name)}."]
    fixed = results.verdict.than(name, BEST_FIXED)
    if fixed and not fixed.wins:
        verdict = "earns significantly more" if fixed.loses else "does not differ significantly"
        difference = f"{NAMES[name]} minus that action is {effect(fixed)}"
        parts.append(f"But the best fixed action {verdict}: {difference}.")
    return f"{' '.join(parts)} Command: {context.command}"


def _why(context: Context, name: str) -> str:
    """Why a strategy is recommended."""
    results = context.results
    if not _is_complete(results, GREEDY):
        return "the best that explores; greedy diverged or failed, so there is no comparison"
    if results.verdict.pays:
        first = (
            "the highest mean of the strategies that are" if len(_tested(results)) > 1 else "the only one compared, and"
        )
        return f"{first} significantly better than greedy{_not_compared(context)}"
    if name == GREEDY:
        if results.verdict.against.get(GREEDY) and not results.verdict.costs:
            return "the simplest, until more seeds show that a strategy that explores is better"
        return "the simplest, and no strategy that explores is significantly better"
    baseline = "best fixed action" if results.verdict.beats(GREEDY, UNIFORM_POLICY) else "uniform policy"
    return f"it significantly beats the {baseline} and greedy does not, though the two do not differ significantly"


def of_references(data: Data) -> str:
    """Held-out rewards of the references of some data; empty without any."""
    values = [f"{name} {estimate(value)}" for name, value in rewards_of(data).items()]
    by = ", estimated from the log (doubly robust)" if data.scores else ""
    return f"On held-out clients{by}: {phrases.listed(values)}." if values else ""


def rewards_of(data: Data) -> Mapping[str, intervals.Interval]:
    """Held-out rewards of the references; empty for data without them."""
    return data.references.rewards if data.references else {}


def _no_strategy(context: Context) -> str:
    """Why no strategy is recommended, and whether one fixed action earns more."""
    results = context.results
    if results.verdict.all_diverged:
        return "None: every strategy diverged, or failed. Give lower learning rates as flags."
    references, plan = context.data.references, context.plan
    is_cut_short = plan.is_cut_short(context.full)
    if is_cut_short:
        points, rounds = f"{plan.points} of {context.full.points} settings", count(plan.rounds, "round")
        text = f"Undecided: the search was cut short, at {points} and {rounds}."
    else:
        text = (
            "None: no strategy earns significantly more than the uniform policy, so their order may be luck "
            f"({count(plan.rounds, 'round')})."
        )
    learned = max(filter(math.isfinite, results.learned.values()), default=math.nan)
    if references and math.isfinite(learned):
        uniform, linear = references.measured
        text += f" {'Simulated' if context.data.scores else 'Held-out'} rewards: best model {learned:.3g}, "
        text += f"central linear model {linear:.3g}, uniform policy {uniform:.3g}."
    if references and references.linear_gain.low > 0 and context.command:
        how = "on the log itself" if context.data.scores else "on the rewards of all actions"
        return f"{text} Train {how}, without acting, and deploy that. Command: {context.command}"
    if references and not is_cut_short:
        text += " A linear model fitted centrally does not earn significantly more either."
    fixed = results.verdict.against.get(BEST_FIXED, {})
    if below := [NAMES[name] for name, one in fixed.items() if one.loses and name != FULL_FEEDBACK]:
        reward = f"{max(one.reference_mean for one in fixed.values()):.3g}"
        text += f" The best fixed action earns {reward}, significantly more than {phrases.listed(below)}."
    return text


def privacy(context: Context) -> str:
    """Whom epsilon protects, and the cost of each epsilon."""
    results, values = context.results, context.results.by_noise
    if results.why_no_noise or NO_NOISE not in values:
        why = results.why_no_noise.rstrip(".") or _too_little(context, "noise")
        return f"Not run: {why}."
    protected = inputs.protected(context.deployment, context.data.clients)
    if not math.isfinite(values[NO_NOISE].estimate(REWARD).mean):
        clip_norm = results.noise[0]["clip_norm"]
        diverged = f"{NAMES[results.strategy_with_noise]} diverged without noise, at clip norm {clip_norm:.3g}."
        return f"{protected} Inconclusive: {diverged}"
    against = findings.compared(values, NO_NOISE)
    lines = [f"{protected} Average reward with noise, minus that without (95% CI):"]
    lines += [f"- {findings.noise_name(one)}: {_cost(one, against)}" for one in results.noise[1:][:_MAX_EPSILONS]]
    return "\n".join(lines)


def _cost(entry: Mapping[str, Any], against: Mapping[str, Comparison]) -> str:
    target = findings.noise_name(entry)
    if "error" in entry:
        return "not run"
    if target not in against or not math.isfinite(against[target].difference):
        return "diverged"
    return estimate(against[target].interval, signed=True, label="")


def frequency(context: Context) -> str:
    """The gain of more frequent deployment."""
    results, plan = context.results, context.plan
    if not plan.often:
        return "Nothing: a model is deployed after every round already."
    often, planned = (f"deployed {planning.every(period)}" for period in (plan.often, plan.deploy_every))
    against = findings.against_planned(results.configurations, results.more_often)
    gains = {name: one[OFTEN] for name, one in against.items() if OFTEN in one and math.isfinite(one[OFTEN].difference)}
    if not gains:
        if results.more_often:
            return f"Not known: runs {often} instead of {planning.every(plan.deploy_every)} diverged."
        less = f"runs that deploy {planning.every(plan.often)} instead of {planning.every(plan.deploy_every)}"
        return f"Not known: {_too_little(context, less)}."
    items = [f"- {NAMES[name]}: {effect(gain)}" for name, gain in gains.items()]
    return "\n".join([f"Average reward if {often}, minus that if {planned}:", *items])


def _too_little(context: Context, what: str) -> str:
    return f"--minutes={context.minutes:g} left too little time for {what}"


def federating(context: Context) -> str:
    """The gain over clients that train alone, and the shares of clients that it helps and hurts."""
    results = context.results
    if results.why_no_federation:
        return f"Not known: no client can train alone ({results.why_no_federation.partition(':')[0]})."
    compared = findings.compared(results.federation, reports.ALONE).get(reports.FEDERATED)
    if compared is None or not math.isfinite(compared.difference) or not results.by_client:
        why = _too_little(context, "clients that train alone")
        return f"Not known: {'a run diverged or failed' if results.federation else why}."
    own, noise = (results.by_client[name] for name in ("shares", "between_seeds"))
    text = f"Average reward, federated minus alone: {effect(compared)}. "
    text += f"Federating helps {own['helped']:.0%} of clients and hurts {own['hurt']:.0%}"
    if math.isfinite(noise["helped"]):
        text += f"; between two federated seeds, chance gives {noise['helped']:.0%} and {noise['hurt']:.0%}"
    return f"{text}."


def not_tried(context: Context) -> str:
    """The first parts that were left out for lack of time, and the minutes that all need."""
    left = planning.left_out(context.full, context.plan)
    if not left:
        return "Nothing was left out for lack of time."
    items = [*left[:SHOWN], *[count(len(left) - SHOWN, "other part")] * (len(left) > SHOWN)]
    minutes = max(planning.minutes_of_all(context.full, context.pace), int(context.minutes) + 1)
    text = f"Left out, to keep to --minutes={context.minutes:g}: {'; '.join(items)}."
    return f"{text} To run all, repeat the command with --minutes={minutes}."
