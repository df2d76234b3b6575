"""Answers of a recommendation, each of at most 40 words, and the details that its pages show below them.

One family of tests decides: each strategy's average reward against greedy's, adjusted by Holm. All other differences
are estimates with their intervals. A line that begins with a dash is an item of a list.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from bandits import metrics
from bandits.advice import findings, inputs
from bandits.advice import plan as planning
from bandits.advice.findings import NO_NOISE, OFTEN, PLANNED, Findings, Results
from bandits.advice.inputs import Data
from bandits.advice.plan import FULL_FEEDBACK, GREEDY, UNIFORM, Plan
from bandits.advice.privacy import Deployment
from bandits.advice.strategies import NAMES
from bandits.plans.estimate import Pace
from bandits.results import baselines, words
from bandits.results import federating as reports
from bandits.results.comparison import Comparison, Sampled
from bandits.results.plots import capital
from bandits.results.words import count, effect, estimate
from optimization.study import intervals, payloads

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
MAX_WORDS = 40  # Of an answer, without the command.
_MAX_EPSILONS = 3  # In an answer; the details have all.
_BY_DESIGN = (
    "other models, losses and cohort sizes",
    "learning rates outside the searched ranges, and tuning under noise or at another deployment period",
    "real users, who may react to what they are shown",
)
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
    deployment: Deployment
    command: str
    pace: Pace
    seconds: float = 0.0


def write(context: Context) -> dict[str, str]:
    """Answers by the keys of `TITLES`, each of at most `MAX_WORDS` words."""
    sections = (scope, exploration, strategy, references, privacy, frequency, federating, not_tried)
    return {section.__name__: text for section in sections if (text := section(context))}


def details(context: Context) -> dict[str, str]:
    """Details by the keys of `TITLES`; a section without any is missing."""
    sections = {
        "scope": _scope_details(context),
        "exploration": _exploration_details(context),
        "strategy": _strategy_details(context),
        "privacy": _privacy_details(context),
        "frequency": _frequency_details(context),
        "federating": _federating_details(context),
        "not_tried": _not_tried_details(context),
    }
    return {name: text for name, text in sections.items() if text}


def scope(context: Context) -> str:
    """The horizon, the deployment period and the clients."""
    plan, data, greedy = context.plan, context.data, context.results.compared.get(GREEDY)
    rounds = count(plan.rounds, "round")
    if plan.rounds < context.full.rounds:
        rounds = f"{plan.rounds:,} of {context.full.rounds:,} planned rounds"
    horizon = f"One run has {rounds}"
    decisions = greedy.mean("decisions").mean if greedy else math.nan
    if math.isfinite(decisions):
        horizon += f" and {decisions:,.0f} decisions"
        if data.rows:
            horizon += f" (your {data.rows:,} training rows, {decisions / data.rows:.3g} times each)"
    deployed = f"A new model is deployed {planning.every(plan.deploy_every)}."
    if plan.rounds <= plan.deploy_every:
        deployed = "No round follows a deployment, so every strategy acts with the initial model."
    parts = [*["Rewards are simulated."] * bool(data.scores), f"{horizon}.", deployed]
    return " ".join([*parts, f"{count(data.clients, 'client')} train, {data.cohort:,} a round."])


def _scope_details(context: Context) -> str:
    parts = [
        *filter(None, [inputs.simulated(context.data.scores)]),
        "Whether exploration pays depends on this horizon.",
        f"{capital(context.data.held_out)}.",
        "All rewards are averages per decision over a run, unless stated otherwise.",
    ]
    if context.plan.rounds < context.full.rounds:
        parts.append(f"Rounds were left out to keep to --minutes={context.minutes:g}.")
    return " ".join(parts)


def exploration(context: Context) -> str:
    """Whether exploration pays, the difference to greedy, and the power of the test."""
    results, verdict = context.results, context.results.verdict
    best = verdict.against_greedy.get(verdict.best or "")
    if best is None or math.isnan(best.difference):
        return f"Inconclusive: {_why_not(results)}."
    name = results.compared[best.configuration].label
    baseline = verdict.against_baselines[best.configuration]
    difference = f"{capital(name)} minus greedy: {_effect_and_p(best)}."
    if verdict.recommended is None:
        parts = ["Inconclusive: no strategy earns significantly more than the uniform policy."]
        if baseline.uniform and math.isfinite(baseline.uniform.difference):
            parts.append(f"{capital(name)} minus the uniform policy: {_effect_and_p(baseline.uniform)}.")
        parts += _power(baseline.uniform, context)
    elif not best.is_judged:
        parts = [f"Inconclusive: {_not_judged(best)}.", difference]
    elif verdict.pays:
        unconfirmed = [one for one in _on_independent_seeds(results) if not one.low > 0]
        pays = "pays" if results.confirmed and not unconfirmed else "may pay"
        parts = [f"Exploration {pays}: {NAMES[best.configuration]} significantly beats greedy: {_effect_and_p(best)}."]
        if baseline.fixed and baseline.fixed.loses:
            parts.append(f"The best fixed action earns significantly more: {baseline.fixed.reference_mean:.3g}.")
        parts += [f"Not confirmed on independent seeds: {effect(one)}." for one in unconfirmed]
        if not results.confirmed:
            parts.append(_UNCHECKED)
    elif verdict.costs:
        worse = "is significantly worse than greedy"
        independent = _on_independent_seeds(results)
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


def _exploration_details(context: Context) -> str:
    results, verdict = context.results, context.results.verdict
    best = verdict.against_greedy.get(verdict.best or "")
    if best is None or math.isnan(best.difference):
        return " ".join(_lost(context))
    sides = {
        "better": [NAMES[other.configuration] for other in _tested(results) if other.wins and other is not best],
        "worse": [NAMES[other.configuration] for other in _tested(results) if other.loses and not verdict.costs],
    }
    parts = [f"Significantly {side} than greedy: {words.listed(names)}." for side, names in sides.items() if names]
    parts += [
        f"Independent seeds, which did not select {NAMES[one.configuration]}, give {effect(one)}."
        for one in _on_independent_seeds(results)
        if one.low > 0 or not verdict.pays
    ]
    return " ".join([*parts, *_baselines(results), *_models(results), *_lost(context)])


def _not_compared(context: Context) -> str:
    """The planned strategies that were left out or failed, in parentheses."""
    tested = {GREEDY, *(one.configuration for one in _tested(context.results))}
    left = [NAMES[one] for one in context.full.strategies if one not in tested]
    return f" (not compared: {', '.join(left)})" if left else ""


def _tested(results: Findings) -> list[Comparison]:
    return [one for one in results.verdict.against_greedy.values() if one.is_judged]


def _on_independent_seeds(results: Findings) -> list[Comparison]:
    compared = findings.compared(results.confirmed, GREEDY).values()
    return [one for one in compared if math.isfinite(one.difference)]


def _effect_and_p(comparison: Comparison) -> str:
    """A difference with Holm's p, where there is a test."""
    if not comparison.is_judged:
        return effect(comparison)
    p = words.p_value(comparison.adjusted_p)
    return f"{effect(comparison)[:-1]}; Holm-adjusted p {p if p.startswith('<') else f'= {p}'})"


def _not_judged(comparison: Comparison) -> str:
    return "one seed gives no interval and no test" if comparison.pairs < 2 else "a run that is compared diverged"


def _power(comparison: Comparison | None, context: Context) -> list[str]:
    """The minimum detectable difference, and the seeds that the observed one requires."""
    if comparison is None or math.isnan(comparison.detectable):
        return []
    if comparison.detectable > context.data.reward_width:
        return [f"{words.seeds(comparison.pairs)} cannot detect even the largest possible difference."]
    text = f"{capital(words.seeds(comparison.pairs))} can detect {comparison.detectable:.2g} (80% power)"
    needed = words.seeds_needed(comparison)
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
    return name in results.compared and bool(results.compared[name].reward) and not results.compared[name].diverged


def _baselines(results: Findings) -> list[str]:
    """Rewards of the strategies and the baselines, and strategies that exceed full feedback."""
    name = results.verdict.recommended or results.verdict.best or GREEDY
    rewards = [
        f"{NAMES[one]} {estimate(results.compared[one].mean())}"
        for one in dict.fromkeys((name, results.verdict.best, GREEDY))
        if one in results.compared and results.compared[one].reward
    ]
    for baseline, value in (("uniform policy", results.uniform), ("best fixed action", results.best_fixed)):
        if value is not None:
            sample = f", over a sample of {value.clients:,} clients" if isinstance(value, Sampled) else ""
            rewards.append(f"{baseline} {estimate(baselines.interval(value))}{sample}")
    parts = []
    against = results.verdict.against_baselines.get(name)
    if against and math.isfinite(against.score):
        parts.append(f"Normalized score of {NAMES[name]}: {against.score:.2f} (0 = uniform policy, 1 = full feedback).")
    if FULL_FEEDBACK in results.compared and math.isfinite(results.compared[FULL_FEEDBACK].mean().mean):
        rewards.append(f"full-feedback baseline {estimate(results.compared[FULL_FEEDBACK].mean())}")
        others = {one: it for one, it in results.compared.items() if one != UNIFORM}
        compared = findings.compared(others, FULL_FEEDBACK)
        if above := [NAMES[one] for one, it in compared.items() if it.difference > 0]:
            parts.append(f"{capital(words.listed(above))} earned more than the full-feedback baseline on average.")
        reward = {FULL_FEEDBACK: results.compared[FULL_FEEDBACK].reward}
        fixed = baselines.compare(reward, fixed=results.best_fixed)[FULL_FEEDBACK].fixed
        if fixed and fixed.loses:
            parts.append(
                "Even full feedback earns significantly less than the best fixed action: the model is deployed too "
                "late, learns too slowly, or cannot fit these rewards."
            )
    return [_list("Average rewards:", rewards), *parts]


def _list(head: str, items: list[str]) -> str:
    """A paragraph and its list, apart from the sentences before and after it."""
    return "\n" + "\n".join([head, *(f"- {item}" for item in items)]) + "\n"


def _models(results: Findings) -> list[str]:
    """Held-out performance of the trained models, as estimates."""
    against = findings.compared(results.compared, GREEDY, "model")
    items = [
        f"trained by {NAMES[name]}: {effect(against[name])}"
        for name in (results.verdict.best, UNIFORM)
        if name in against and against[name].is_judged
    ]
    if not items:
        return []
    measure = "accuracy" if results.measured == metrics.ACCURACY else "reward"
    reference = estimate(results.compared[GREEDY].mean("model"))
    return [_list(f"Held-out {measure} of the trained model, against greedy's {reference}:", items)]


def _lost(context: Context) -> list[str]:
    """Configurations that diverged, or failed."""
    planned, parts = context.plan.seeds, []
    for name, one in context.results.compared.items():
        if one.diverged:
            parts.append(f"{capital(NAMES[name])} diverged on {len(one.diverged)} of {words.seeds(len(one.reward))}.")
        elif len(one.reward) < planned:
            parts.append(f"{capital(NAMES[name])} failed on {planned - len(one.reward)} of {words.seeds(planned)}.")
    return parts


def strategy(context: Context) -> str:
    """The strategy to deploy, and the command that runs it."""
    results = context.results
    name = results.verdict.recommended
    if name is None:
        return _no_strategy(context)
    parts = [f"{capital(NAMES[name])}: {_why(context, name)}."]
    against = results.verdict.against_baselines.get(name)
    if against and against.fixed and not against.fixed.wins:
        verdict = "earns significantly more" if against.fixed.loses else "does not differ significantly"
        difference = f"{NAMES[name]} minus that action is {effect(against.fixed)}"
        parts.append(f"But the best fixed action {verdict}: {difference}.")
    return f"{' '.join(parts)} Command: {context.command}"


def _strategy_details(context: Context) -> str:
    results = context.results
    name = results.verdict.recommended
    if name is None:
        return ""
    one, parts = results.compared[name], []
    others = [other for other in _tested(results) if other.configuration != name]
    if results.verdict.pays and others:
        second = max(others, key=lambda other: other.mean).configuration
        pair = {each: results.compared[each] for each in (name, second)}
        lead = findings.compared(pair, second)[name]
        parts.append(f"{capital(NAMES[name])} minus {NAMES[second]}, the next that explores, is {effect(lead)}.")
    return " ".join([*parts, *(f"{capital(note)}." for note in one.notes)])


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
        if results.verdict.against_greedy and not results.verdict.costs:
            return "the simplest, until more seeds show that a strategy that explores is better"
        return "the simplest, and no strategy that explores is significantly better"
    is_above = findings.beats(results.verdict.against_baselines, GREEDY)
    baseline = "best fixed action" if is_above else "uniform policy"
    return f"it significantly beats the {baseline} and greedy does not, though the two do not differ significantly"


def references(context: Context) -> str:
    """Held-out rewards of the best fixed action and a linear model; empty for data without them."""
    return of_references(context.data)


def of_references(data: Data) -> str:
    """`references` of some data."""
    values = [f"{name} {estimate(value)}" for name, value in rewards_of(data).items()]
    by = ", estimated from the log (doubly robust)" if data.scores else ""
    return f"On held-out clients{by}: {words.listed(values)}." if values else ""


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
        text += f" Best model {learned:.3g}, central linear model {linear:.3g}, uniform policy {uniform:.3g}."
    if references and references.linear_gain.low > 0 and context.command:
        how = "on the log itself" if context.data.scores else "on the rewards of all actions"
        return f"{text} Train {how}, without acting, and deploy that. Command: {context.command}"
    if references and not is_cut_short:
        text += " A linear model fitted centrally does not earn significantly more either."
    fixed = [against.fixed for against in results.verdict.against_baselines.values() if against.fixed]
    if below := [NAMES[one.configuration] for one in fixed if one.loses]:
        reward = f"{max(one.reference_mean for one in fixed):.3g}"
        text += f" The best fixed action earns {reward}, significantly more than {words.listed(below)}."
    return text


def privacy(context: Context) -> str:
    """Whom epsilon protects, and the cost of each epsilon."""
    results, values = context.results, context.results.by_noise
    if results.no_noise or NO_NOISE not in values:
        why = results.no_noise.rstrip(".") or f"--minutes={context.minutes:g} left too little time for noise"
        return f"Not run: {why}."
    protected = context.deployment.protected(context.data.clients)
    if not math.isfinite(values[NO_NOISE].mean().mean):
        clip_norm = results.noise[0]["clip_norm"]
        return f"{protected} Inconclusive: {NAMES[results.noisy]} diverged without noise, at clip norm {clip_norm:.3g}."
    against = findings.compared(values, NO_NOISE)
    lines = [f"{protected} Average reward with noise, minus that without (95% CI):"]
    lines += [f"- {findings.noise_name(one)}: {_short_cost(one, against)}" for one in results.noise[1:][:_MAX_EPSILONS]]
    return "\n".join(lines)


def _short_cost(entry: Mapping[str, Any], against: Mapping[str, Comparison]) -> str:
    target = findings.noise_name(entry)
    if "error" in entry:
        return "not run"
    if target not in against or not math.isfinite(against[target].difference):
        return "diverged"
    return estimate(against[target].interval, signed=True, label="")


def _privacy_details(context: Context) -> str:
    results, values = context.results, context.results.by_noise
    unit = f"The unit of privacy is {context.data.unit}."
    if results.no_noise or NO_NOISE not in values or not math.isfinite(values[NO_NOISE].mean().mean):
        return unit
    unnoised, clip_norm, name = values[NO_NOISE], results.noise[0]["clip_norm"], NAMES[results.noisy]
    clips = f"{capital(name)}, clipped to norm {clip_norm:.3g} without noise, earns {estimate(unnoised.mean())}."
    head = [unit, context.deployment.words, clips]
    if results.noisy in results.confirmed:  # With the same seeds.
        both = {NO_NOISE: unnoised, PLANNED: results.confirmed[results.noisy]}
        change = findings.compared(both, PLANNED).get(NO_NOISE)
        if change and change.is_judged and change.difference:
            head.append(f"Fixed clipping and Poisson cohorts change it by {effect(change)}.")
    # A uniform policy's reward by seed was measured with other seeds than these.
    unpaired = list(values) if isinstance(results.uniform, Mapping) else []
    rewards = {target: one.reward for target, one in values.items()}
    against_baselines = baselines.compare(rewards, uniform=results.uniform, unpaired=unpaired)
    unnoised_gain = against_baselines[NO_NOISE].uniform
    if unnoised_gain and unnoised_gain.is_judged and not unnoised_gain.wins:
        head.append("That is not significantly more than the uniform policy, so the costs of noise mean little.")
    lines = [" ".join(head), "Average reward with noise, minus that without:"]
    against = findings.compared(values, NO_NOISE)
    lines += [f"- {findings.noise_name(one)}{_cost(one, against, against_baselines)}" for one in results.noise[1:]]
    guarantees = [one["guarantee"] for one in results.noise if "guarantee" in one]
    lines += [_guarantee(guarantees)] * bool(guarantees)
    lines.append(
        "The runs themselves have no guarantee: their noise is seeded, and tuning and comparison ran without noise."
    )
    return "\n".join(lines)


def _cost(
    entry: Mapping[str, Any],
    against: Mapping[str, Comparison],
    against_baselines: Mapping[str, baselines.BaselineComparison],
) -> str:
    """The cost of an epsilon's noise, with the noise multiplier and the number of seeds."""
    target = findings.noise_name(entry)
    if "error" in entry:
        return f": not run ({entry['error'].rstrip('.')})"
    if target not in against or not math.isfinite(against[target].difference):
        return ": diverged"
    text = f" ({entry['mechanism']}, noise multiplier {entry['noise_multiplier']:.3g}): {effect(against[target])}"
    if not against[target].is_judged:
        return f"{text}, not tested: {_not_judged(against[target])}"
    if against_baselines[target].beats_uniform is False and findings.beats(against_baselines, NO_NOISE):
        text += ", and no significant gain over the uniform policy is left"
    return text


def _guarantee(reports: Sequence[Mapping[str, Any]]) -> str:
    """Delta, accountant, neighbouring relations and assumptions of the epsilons."""
    report = reports[0]
    firsts = [one["guarantees"][0] for one in reports if one["guarantees"]]
    pairs = dict.fromkeys(f"{one['neighbours']} (sampling: {one['sampling']})" for one in firsts)
    by = report["mechanism"]["accountant"].upper()
    parts = [
        f"Guarantee: delta {report['delta']:.2g} after {count(report['rounds'], 'round')}, by {by}.",
        f"Neighbours: {'; '.join(pairs)}.",
    ]
    if report["epsilon_assumes"]:
        parts.append(f"Epsilon assumes {' and '.join(report['epsilon_assumes'])}.")
    return " ".join([*parts, *(f"Warning: {one}" for one in report["warnings"])])


def frequency(context: Context) -> str:
    """The gain of more frequent deployment."""
    results, plan = context.results, context.plan
    if not plan.often:
        return "Nothing: a model is deployed after every round already."
    often, planned = (f"deployed {planning.every(period)}" for period in (plan.often, plan.deploy_every))
    items = _gains(results, results.compared, results.often)
    if not items:
        if results.often:
            return f"Not known: runs {often} instead of {planning.every(plan.deploy_every)} diverged."
        less = f"runs that deploy {planning.every(plan.often)} instead of {planning.every(plan.deploy_every)}"
        return f"Not known: --minutes={context.minutes:g} left too little time for {less}."
    return "\n".join([f"Average reward if {often}, minus that if {planned}:", *items])


def _frequency_details(context: Context) -> str:
    results, lines = context.results, []
    if items := _gains(results, results.confirmed, results.often_confirmed):
        lines += ["The same over independent seeds:", *items]
    lead = findings.compared(results.often, GREEDY).get(results.verdict.best or "")
    if lead and lead.is_judged:
        lines.append(f"With more frequent deployment, {NAMES[lead.configuration]} minus greedy is {effect(lead)}.")
    greedy, plan = results.compared.get(GREEDY), context.plan
    if greedy and greedy.payload and plan.often:
        # The initial model is sent, too; that of the last round is not.
        sent = [1 + (plan.rounds - 1) // period for period in (plan.often, plan.deploy_every)]
        each = payloads.of_model([(results.parameters,)]) * context.data.clients / 1e6
        lines.append(
            "In these runs, more frequent deployment adds no payload: each client of a round downloads the deployed "
            f"model anyway, new or not ({greedy.mean('payload').mean / 1e6:.3g} MB a round, down and up). If instead "
            f"each deployed model is sent once to all {count(context.data.clients, 'client')}, {sent[0]:,} models take "
            f"{sent[0] * each:.3g} MB, and as planned {sent[1]:,} take {sent[1] * each:.3g} MB."
        )
    return "\n".join(lines)


def _gains(results: Findings, planned: Results, often: Results) -> list[str]:
    """Gain of the best strategy and of greedy from more frequent deployment, an item each."""
    against = findings.against_planned(planned, often)
    names = dict.fromkeys((results.verdict.best or GREEDY, GREEDY))
    gains = {name: against[name][OFTEN] for name in names if OFTEN in against.get(name, {})}
    return [f"- {NAMES[name]}: {effect(one)}" for name, one in gains.items() if math.isfinite(one.difference)]


def federating(context: Context) -> str:
    """The gain over clients that train alone, and the shares of clients that it helps and hurts."""
    results = context.results
    if results.no_federation:
        return f"Not known: no client can train alone ({results.no_federation.partition(':')[0]})."
    compared = findings.compared(results.federation, reports.ALONE).get(reports.FEDERATED)
    if compared is None or not math.isfinite(compared.difference) or not results.by_client:
        why = f"--minutes={context.minutes:g} left too little time to train each client alone"
        return f"Not known: {'a run diverged or failed' if results.federation else why}."
    own, noise = (results.by_client[name] for name in ("shares", "between_seeds"))
    text = f"Average reward, federated minus alone: {effect(compared)}. "
    text += f"Federating helps {own['helped']:.0%} of clients and hurts {own['hurt']:.0%}"
    if math.isfinite(noise["helped"]):
        text += f"; between two federated seeds, chance gives {noise['helped']:.0%} and {noise['hurt']:.0%}"
    return f"{text}."


def _federating_details(context: Context) -> str:
    lines = [line.strip() for line in context.results.by_client.get("lines", ())]
    return "\n".join([*lines[:1], *(f"- {line}" for line in lines[1:])])


def not_tried(context: Context) -> str:
    """What was left out for lack of time, in one line, and the minutes that it needs."""
    return _left_out(context)[0]


def _left_out(context: Context) -> tuple[str, list[str]]:
    """The answer, and the items that do not fit into it."""
    left = planning.left_out(context.full, context.plan, NAMES)
    if not left:
        return "Nothing was left out for lack of time.", []
    minutes = max(planning.minutes_of_all(context.full, context.pace), int(context.minutes) + 1)
    end = f"To run all, repeat the command with --minutes={minutes}."
    shown = len(left)
    while True:
        items = [*left[:shown], *[count(len(left) - shown, "other part")] * (shown < len(left))]
        text = f"Left out, to keep to --minutes={context.minutes:g}: {'; '.join(items)}. {end}"
        if len(text.split()) <= MAX_WORDS:
            return text, left[shown:]
        shown -= 1


def _not_tried_details(context: Context) -> str:
    _, hidden = _left_out(context)
    lines = [f"Also left out: {'; '.join(hidden)}."] if hidden else []
    over = context.seconds - 60 * context.minutes
    if over > 1:
        lines.append(f"It took {over:.0f} s longer than --minutes={context.minutes:g}.")
    return "\n".join([*lines, "A recommendation never tries:", *(f"- {item}" for item in _BY_DESIGN)])


def paragraphs(text: str) -> list[tuple[str, list[str]]]:
    """A section's paragraphs, each with the items of its list."""
    parsed: list[tuple[str, list[str]]] = []
    for line in filter(None, (line.strip() for line in text.split("\n"))):
        if line.startswith("- ") and parsed:
            parsed[-1][1].append(line.removeprefix("- "))
        else:
            parsed.append((line, []))
    return parsed
