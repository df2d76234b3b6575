"""The sections of a recommendation: what the runs found, in words. They claim no more than the seeds support.

One test decides: each strategy's average reward against greedy's, a family by Holm. All else is an estimate with its
interval. A line that begins with a dash is an item of a list.
"""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bandits import metrics
from bandits.advice import findings, inputs
from bandits.advice import plan as planning
from bandits.advice.findings import NO_NOISE, OFTEN, PLANNED, Findings, Results
from bandits.advice.inputs import Data
from bandits.advice.plan import CEILING, CHANCE, GREEDY, Plan
from bandits.advice.privacy import Deployment
from bandits.advice.strategies import NAMES
from bandits.plans.estimate import Pace
from bandits.results import baselines, words
from bandits.results.comparison import Comparison, Sampled
from bandits.results.plots import capital
from bandits.results.words import count, effect, estimate

TITLES: Mapping[str, str] = {
    "scope": "What does this answer hold for?",
    "exploration": "Does exploration pay?",
    "strategy": "Which strategy?",
    "privacy": "What does each epsilon cost?",
    "frequency": "What does more frequent deployment change?",
    "not_tried": "What was not tried?",
}
_BY_DESIGN = (
    "other models, losses and cohort sizes",
    "learning rates outside the searched ranges, and tuning under noise or at another deployment period",
    "real users, who may react to what they are shown",
)


@dataclasses.dataclass(frozen=True)
class Context:
    """What sentences are written from.

    Attributes:
      found: What was found.
      plan: What was run.
      full: The plan with nothing left out.
      minutes: The budget, `--minutes`.
      data: What is known of the data.
      where: Where the model would be trained.
      command: The command to paste; empty for none.
      pace: How fast this machine runs.
      seconds: How long it took within this budget.
    """

    found: Findings
    plan: Plan
    full: Plan
    minutes: float
    data: Data
    where: Deployment
    command: str
    pace: Pace
    seconds: float = 0.0


def write(context: Context) -> dict[str, str]:
    """Returns the sections by the keys of `TITLES`."""
    sections = (scope, exploration, strategy, privacy, frequency, not_tried)
    return {section.__name__: section(context) for section in sections}


def scope(context: Context) -> str:
    """Returns the horizon, the clients, and where rewards come from."""
    plan, data, greedy = context.plan, context.data, context.found.compared.get(GREEDY)
    horizon = f"One run is {count(plan.rounds, 'round')}"
    decisions = greedy.mean("decisions").mean if greedy else math.nan
    if math.isfinite(decisions):
        horizon += f" = {decisions:,.0f} decisions"
        if data.rows:
            horizon += f", your {data.rows:,} training rows {decisions / data.rows:.3g} times"
    told = [*filter(None, [inputs.simulated(data.scores)]), f"{horizon}."]
    if plan.rounds < context.full.rounds:
        told.append(
            f"These are the first {plan.rounds:,} of {context.full.rounds:,} planned rounds, to keep to the time."
        )
    told.append("Whether exploration pays depends on this horizon.")
    told.append(f"A new model is deployed {planning.every(plan.deploy_every)}.")
    if plan.rounds <= plan.deploy_every:  # What is deployed after the last round acts in none.
        told.append("No round follows a deployment, so every strategy acts with the initial model.")
    told.append(f"{count(data.clients, 'client')} train, {data.cohort:,} a round; {data.held_out}.")
    told.append("All rewards below are averages per decision over a run, unless stated otherwise.")
    return " ".join(told)


def exploration(context: Context) -> str:
    """Returns whether exploration pays, by how much, and how sure that is."""
    found, verdict = context.found, context.found.verdict
    one = verdict.against_greedy.get(verdict.best or "")
    if one is None or math.isnan(one.difference):
        return f"Inconclusive: {_why_not(found)}."
    name = found.compared[one.arm].label
    stand = verdict.stands[one.arm]
    judged = [other for other in verdict.against_greedy.values() if other.is_judged]
    difference = f"{capital(name)} differs from greedy by {_effect_and_p(one)}."
    if verdict.recommended is None:
        told = ["Inconclusive: no strategy earns significantly more than the uniform policy."]
        if stand.uniform and math.isfinite(stand.uniform.difference):
            told.append(f"{capital(name)} differs from the uniform policy by {_effect_and_p(stand.uniform)}.")
        told += _power(stand.uniform, context)
    elif not one.is_judged:
        told = [f"Inconclusive: {_not_judged(one)}.", difference]
    elif verdict.pays:
        told = [f"Exploration pays: {name} significantly beats greedy. The difference is {_effect_and_p(one)}."]
        if stand.fixed and stand.fixed.loses:
            told.append(f"But the best fixed action earns significantly more: {stand.fixed.reference_mean:.3g}.")
        if not found.confirmed:
            told.append("No independent seeds confirm this: give more --minutes before you rely on it.")
    elif verdict.costs:
        known = {GREEDY, *(other.arm for other in judged)}
        left = ", ".join(NAMES[other] for other in context.full.strategies if other not in known)
        among = f" and was compared (not {left})" if left else ""
        told = [f"Exploration costs reward: every strategy that explores{among} is significantly worse than greedy."]
        told.append(difference)
    else:
        told = ["Inconclusive: no strategy that explores is significantly better than greedy.", difference]
        told += _power(one, context)
    sides = {
        "better": [NAMES[other.arm] for other in judged if other.wins and other is not one],
        "worse": [NAMES[other.arm] for other in judged if other.loses and not verdict.costs],
    }
    told += [f"Significantly {side} than greedy: {words.listed(names)}." for side, names in sides.items() if names]
    return " ".join([*told, *_confirmation(found), *_baselines(found), *_models(found), *_lost(context)])


def _effect_and_p(one: Comparison) -> str:
    """Returns a difference with Holm's p, where there is a test."""
    if not one.is_judged:
        return effect(one)
    p = words.p_value(one.adjusted_p)
    return f"{effect(one)[:-1]}; Holm-adjusted p {p if p.startswith('<') else f'= {p}'})"


def _not_judged(one: Comparison) -> str:
    return "one seed gives no interval and no test" if one.pairs < 2 else "a run that is compared diverged"


def _power(one: Comparison | None, context: Context) -> list[str]:
    """Returns the minimum detectable difference, and the seeds that the observed one requires."""
    if one is None or math.isnan(one.detectable):
        return []
    seeds = words.seeds(one.pairs)
    if one.detectable > context.data.reward_width:
        return [f"With {seeds} that vary so much, even the largest possible difference would be missed."]
    told = [f"Minimum detectable difference: {one.detectable:.2g} (80% power, {seeds})."]
    if needed := words.seeds_needed(one):
        told.append(f"Seeds required for the observed difference: {needed}.")
    return told


def _why_not(found: Findings) -> str:
    """Returns why no strategy is compared with greedy."""
    if not _is_sound(found, GREEDY):
        return "greedy, the reference, diverged or failed"
    if found.verdict.best:
        return "the best strategy and greedy have no seed in common, as runs failed"
    return "every strategy that explores diverged, or failed"


def _is_sound(found: Findings, name: str) -> bool:
    """Returns whether a strategy has runs, none of which diverged."""
    return name in found.compared and bool(found.compared[name].reward) and not found.compared[name].diverged


def _confirmation(found: Findings) -> list[str]:
    """Returns the difference over the independent seeds, which did not select the best."""
    return [
        f"Independent seeds, which did not select {NAMES[one.arm]}, give {effect(one)}."
        + " They do not confirm the gain." * (found.verdict.pays and not one.low > 0)
        for one in findings.compared(found.confirmed, GREEDY).values()
        if math.isfinite(one.difference)
    ]


def _baselines(found: Findings) -> list[str]:
    """Returns what the strategies and the baselines earn, and where full feedback is no upper bound."""
    name = found.verdict.recommended or found.verdict.best or GREEDY
    known = [
        f"{NAMES[one]} {estimate(found.compared[one].mean())}"
        for one in dict.fromkeys((name, found.verdict.best, GREEDY))
        if one in found.compared and found.compared[one].reward
    ]
    for what, value in (("uniform policy", found.chance), ("best fixed action", found.constant)):
        if value is not None:
            sample = f", over a sample of {value.clients:,} clients" if isinstance(value, Sampled) else ""
            known.append(f"{what} {estimate(baselines.interval(value))}{sample}")
    told = []
    stand = found.verdict.stands.get(name)
    if stand and math.isfinite(stand.score):
        told.append(f"Normalized score of {NAMES[name]}: {stand.score:.2f} (0 = uniform policy, 1 = full feedback).")
    if CEILING in found.compared and math.isfinite(found.compared[CEILING].mean().mean):
        known.append(f"full-feedback baseline {estimate(found.compared[CEILING].mean())}")
        others = {one: results for one, results in found.compared.items() if one != CHANCE}
        if above := [NAMES[one] for one, it in findings.compared(others, CEILING).items() if it.difference > 0]:
            told.append(f"{capital(words.listed(above))} earned more than the full-feedback baseline on average.")
        own = {CEILING: found.compared[CEILING].reward}
        constant = baselines.compare(own, fixed=found.constant)[CEILING].fixed
        if constant and constant.loses:
            told.append(
                "Even full feedback earns significantly less than the best fixed action: the model is deployed too "
                "late, learns too slowly, or cannot fit these rewards."
            )
    return [_list("Average rewards:", known), *told]


def _list(head: str, items: list[str]) -> str:
    """Returns a paragraph and its list, apart from the sentences before and after it."""
    return "\n" + "\n".join([head, *(f"- {one}" for one in items)]) + "\n"


def _models(found: Findings) -> list[str]:
    """Returns what the trained models reach on held-out data, as estimates."""
    against = findings.compared(found.compared, GREEDY, "model")
    told = [
        f"trained by {NAMES[name]}: {effect(against[name])}"
        for name in (found.verdict.best, CHANCE)
        if name in against and against[name].is_judged
    ]
    if not told:
        return []
    what = "accuracy" if found.measured == metrics.ACCURACY else "reward"
    reference = estimate(found.compared[GREEDY].mean("model"))
    return [_list(f"Held-out {what} of the trained model, against greedy's {reference}:", told)]


def _lost(context: Context) -> list[str]:
    """Returns which configurations diverged, or failed."""
    planned, told = context.plan.seeds, []
    for name, one in context.found.compared.items():
        if one.diverged:
            told.append(f"{capital(NAMES[name])} diverged on {len(one.diverged)} of {words.seeds(len(one.reward))}.")
        elif len(one.reward) < planned:
            told.append(f"{capital(NAMES[name])} failed on {planned - len(one.reward)} of {words.seeds(planned)}.")
    return told


def strategy(context: Context) -> str:
    """Returns what to deploy, and the command that runs it."""
    found = context.found
    name = found.verdict.recommended
    if name is None:
        return _no_strategy(found)
    one = found.compared[name]
    told = [f"{capital(NAMES[name])}: {_why(found, name)}."]
    others = [other for other in found.verdict.against_greedy.values() if other.is_judged and other.arm != name]
    if found.verdict.pays and others:
        second = max(others, key=lambda other: other.mean).arm
        lead = findings.compared({arm: found.compared[arm] for arm in (name, second)}, second)[name]
        told.append(f"Its lead over {NAMES[second]}, the next that explores, is {effect(lead)}.")
    constant = found.verdict.stands[name].fixed if name in found.verdict.stands else None
    if constant and not constant.wins:
        than = "earns significantly more" if constant.loses else "does not differ significantly"
        told.append(f"But the best fixed action {than}: {NAMES[name]} minus that action is {effect(constant)}.")
    values = ", ".join(f"{flag.removeprefix('bandits_').replace('_', ' ')} {value}" for flag, value in one.point)
    told += [f"Settings: {values}.", *(f"{capital(note)}." for note in one.notes)]
    return f"{' '.join(told)} Command: {context.command}"


def _why(found: Findings, name: str) -> str:
    """Returns why a strategy is recommended."""
    if not _is_sound(found, GREEDY):
        return "the best that explores; greedy diverged or failed, so there is no comparison"
    if found.verdict.pays:
        return "the highest mean of the strategies that are significantly better than greedy"
    if name == GREEDY:
        return "the simplest, and no strategy that explores is significantly better"
    baseline = "best fixed action" if findings.beats(found.verdict.stands, GREEDY) else "uniform policy"
    return f"it significantly beats the {baseline} and greedy does not, though the two do not differ significantly"


def _no_strategy(found: Findings) -> str:
    """Returns why no strategy is recommended, and whether one fixed action earns more."""
    if found.verdict.all_diverged:
        return "None: every strategy diverged, or failed. Give lower learning rates as flags."
    told = "None: no strategy earns significantly more than the uniform policy, so their order may be luck."
    against = [stand.fixed for stand in found.verdict.stands.values() if stand.fixed]
    if below := [NAMES[one.arm] for one in against if one.loses]:
        earns = f"{max(one.reference_mean for one in against):.3g}"
        told += f" The best fixed action earns {earns}, significantly more than {words.listed(below)}."
    return told


def privacy(context: Context) -> str:
    """Returns the unit of privacy, what each epsilon costs, and what epsilons rest on."""
    found, values = context.found, context.found.by_noise
    unit = f"The unit of privacy is {context.data.unit}."
    if found.no_noise or NO_NOISE not in values:
        why = found.no_noise.rstrip(".") or f"--minutes={context.minutes:g} left no time for noise"
        return f"{unit} Not run: {why}."
    unnoised, clip_norm, name = values[NO_NOISE], found.noise[0]["clip_norm"], NAMES[found.noisy]
    if not math.isfinite(unnoised.mean().mean):
        return f"{unit} Inconclusive: {name} diverged without noise, at clip norm {clip_norm:.3g}."
    clips = f"{capital(name)}, clipped to norm {clip_norm:.3g} without noise, earns {estimate(unnoised.mean())}."
    head = [unit, context.where.words, clips]
    if found.noisy in found.confirmed:  # By the same seeds.
        both = {NO_NOISE: unnoised, PLANNED: found.confirmed[found.noisy]}
        change = findings.compared(both, PLANNED).get(NO_NOISE)
        if change and change.is_judged and change.difference:
            head.append(f"Fixed clipping and Poisson cohorts change it by {effect(change)}.")
    # Where chance is by seed, it is by other seeds than these.
    unpaired = list(values) if isinstance(found.chance, Mapping) else []
    rewards = {target: one.reward for target, one in values.items()}
    stands = baselines.compare(rewards, uniform=found.chance, unpaired=unpaired)
    if (beside := stands[NO_NOISE].uniform) and beside.is_judged and not beside.wins:
        head.append("That is not significantly more than the uniform policy, so costs of noise say little.")
    told = [" ".join(head), "Average reward with noise, minus that without:"]
    against = findings.compared(values, NO_NOISE)
    told += [f"- {findings.noise_name(one)}{_cost(one, against, stands)}" for one in found.noise[1:]]
    guarantees = [one["guarantee"] for one in found.noise if "guarantee" in one]
    told += [_guarantee(guarantees)] * bool(guarantees)
    told.append(
        "The runs themselves have no guarantee: their noise is seeded, and tuning and comparison ran without noise."
    )
    return "\n".join(told)


def _cost(one: Mapping[str, Any], against: Mapping[str, Comparison], stands: Mapping[str, baselines.Standing]) -> str:
    """Returns what the noise of an epsilon costs."""
    target = findings.noise_name(one)
    if "error" in one:
        return f": not run ({one['error'].rstrip('.')})"
    if target not in against or not math.isfinite(against[target].difference):
        return ": diverged"
    told = f" ({one['mechanism']}, noise multiplier {one['noise_multiplier']:.3g}): {effect(against[target])}"
    if not against[target].is_judged:
        return f"{told}, not tested: {_not_judged(against[target])}"
    if stands[target].beats_uniform is False and findings.beats(stands, NO_NOISE):
        told += ", and no significant gain over the uniform policy is left"
    return told


def _guarantee(reports: Sequence[Mapping[str, Any]]) -> str:
    """Returns what epsilons are accounted under."""
    report = reports[0]
    firsts = [one["guarantees"][0] for one in reports if one["guarantees"]]
    pairs = dict.fromkeys(f"{one['neighbours']} (sampling: {one['sampling']})" for one in firsts)
    by = report["mechanism"]["accountant"].upper()
    told = [
        f"Guarantee: delta {report['delta']:.2g} after {count(report['rounds'], 'round')}, by {by}.",
        f"Neighbours: {'; '.join(pairs)}.",
    ]
    if report["epsilon_assumes"]:
        told.append(f"Epsilon assumes {' and '.join(report['epsilon_assumes'])}.")
    # Several warnings can end with the same sentence.
    warned = dict.fromkeys(capital(part) for one in report["warnings"] for part in re.split(r"(?<=[.]) ", one))
    return " ".join([*told, *(f"Warning: {part}" for part in warned)])


def frequency(context: Context) -> str:
    """Returns what deploying more often is worth."""
    found, plan = context.found, context.plan
    if not plan.often:
        return "Nothing: a model is deployed after every round already."
    often = f"deployment {planning.every(plan.often)} instead of {planning.every(plan.deploy_every)}"
    told = _gains(found, found.compared, found.often)
    if not told:
        why = "it diverged" if found.often else f"--minutes={context.minutes:g} went to the questions above"
        return f"Not known: {often} ({why})."
    lines = [f"Average reward with {often}, minus that as planned:", *told]
    if again := _gains(found, found.confirmed, found.often_confirmed):
        lines += ["The same over independent seeds:", *again]
    lead = findings.compared(found.often, GREEDY).get(found.verdict.best or "")
    if lead and lead.is_judged:
        lines.append(f"Then {NAMES[lead.arm]} minus greedy is {effect(lead)}.")
    return "\n".join(lines)


def _gains(found: Findings, planned: Results, often: Results) -> list[str]:
    """Returns what more frequent deployment adds to the best and to greedy, an item each."""
    against = findings.against_planned(planned, often)
    names = dict.fromkeys((found.verdict.best or GREEDY, GREEDY))
    gains = {name: against[name][OFTEN] for name in names if OFTEN in against.get(name, {})}
    return [f"- {NAMES[name]}: {effect(one)}" for name, one in gains.items() if math.isfinite(one.difference)]


def not_tried(context: Context) -> str:
    """Returns what was left out for lack of time, with the minutes that it needs, and what is never tried."""
    lines = ["Nothing was left out for lack of time."]
    if left := planning.left_out(context.full, context.plan, NAMES):
        whole = planning.minutes_of_all(context.full, context.pace)
        more = count(max(1, math.ceil(whole - context.minutes)), "more minute")
        lines = [
            f"Left out, to keep to --minutes={context.minutes:g}:",
            *(f"- {one}" for one in left),
            f"All this needs about {more}: repeat the command with --minutes={whole}; it continues from these runs.",
        ]
    over = context.seconds - 60 * context.minutes
    if over > 1:
        lines.append(f"It took {over:.0f} s longer than --minutes={context.minutes:g}.")
    return "\n".join([*lines, "A recommendation never tries:", *(f"- {one}" for one in _BY_DESIGN)])


def paragraphs(text: str) -> list[tuple[str, list[str]]]:
    """Returns a section's paragraphs and, after each, the items of its list."""
    found: list[tuple[str, list[str]]] = []
    for line in filter(None, (line.strip() for line in text.split("\n"))):
        if line.startswith("- ") and found:
            found[-1][1].append(line.removeprefix("- "))
        else:
            found.append((line, []))
    return found
