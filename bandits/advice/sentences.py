"""The sections of a recommendation: what the runs found, in words. They claim no more than the seeds support.

One test decides: each strategy's average reward against greedy's, a family by Holm. All else is an estimate with its
interval. A line that begins with a dash is an item of a list.
"""

import math
from collections.abc import Mapping

from bandits import metrics
from bandits.advice import amounts, arms, costs, findings
from bandits.advice import plan as planning
from bandits.advice.amounts import capital, effect
from bandits.advice.context import Context
from bandits.advice.findings import Arm
from bandits.advice.plan import CEILING, CHANCE, GREEDY
from bandits.advice.stages import Advice, mean
from bandits.results import landmarks, words
from bandits.results.comparison import Comparison, Sampled

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


def write(context: Context) -> dict[str, str]:
    """Returns the sections by the keys of `TITLES`."""
    return {
        "scope": scope(context),
        "exploration": exploration(context),
        "strategy": strategy(context),
        "privacy": costs.privacy(context),
        "frequency": frequency(context),
        "not_tried": not_tried(context),
    }


def scope(context: Context) -> str:
    """Returns the horizon, the clients, and where rewards come from."""
    plan, total = context.plan, context.full.rounds
    decisions = _decisions(context.found)
    told = [context.rewards] if context.rewards else []
    horizon = f"One run is {amounts.count(plan.rounds, 'round')}"
    if decisions:
        horizon += f" = {decisions:,.0f} decisions"
        if context.rows:
            horizon += f", your {context.rows:,} training rows {_times(decisions / context.rows)}"
    told.append(f"{horizon}.")
    if plan.rounds < total:
        told.append(f"These are the first {plan.rounds:,} of {total:,} planned rounds, to keep to the time.")
    told.append("Whether exploration pays depends on this horizon.")
    told.append(f"A new model is deployed {planning.every(plan.deploy_every)}.")
    if plan.rounds <= plan.deploy_every:  # What is deployed after the last round acts in none.
        told.append("No round follows a deployment, so every strategy acts with the initial model.")
    told.append(f"{amounts.count(context.clients, 'client')} train, {context.cohort:,} a round; {context.held_out}.")
    told.append("All rewards below are averages per decision over a run, unless stated otherwise.")
    return " ".join(told)


def _decisions(found: Advice) -> float:
    """Returns the decisions of a run, as greedy's runs count them; 0 where none did."""
    every = [mean(arm.decisions).mean for name, arm in found.arms.items() if name == GREEDY and arm.decisions]
    return every[0] if every and math.isfinite(every[0]) else 0.0


def _times(times: float) -> str:
    if abs(times - 1) < 0.05:
        return "once"
    return f"{times:.0f} times" if times >= 10 else f"{times:.2g} times"


def exploration(context: Context) -> str:
    """Returns whether exploration pays, by how much, and how sure that is."""
    found = context.found
    verdict = found.verdict
    one = verdict.against_greedy.get(verdict.best or "")
    if one is None or math.isnan(one.difference):
        return f"Inconclusive: {_why_not(found)}."
    name = arms.label(one.arm, found.arms[one.arm].point)
    lead = f"{_effect_and_p(one)}"
    if verdict.recommended is None:
        told = ["Inconclusive: no strategy earns significantly more than the uniform policy."]
        chance = verdict.stands[one.arm].chance
        if chance and math.isfinite(chance.difference):
            told.append(f"The best that explores, {name}, differs from the uniform policy by {_effect_and_p(chance)}.")
        told += _power(chance, context)
    elif not one.is_judged:
        told = [
            f"Inconclusive: {amounts.not_judged(one)}.",
            f"{capital(name)} differs from greedy by {effect(one)}.",
        ]
    elif verdict.pays:
        constant = verdict.stands[one.arm].constant
        told = [f"Exploration pays: {name} significantly beats greedy. The difference is {lead}."]
        if constant and constant.loses:
            told.append(
                f"But the best fixed action earns significantly more: {amounts.number(constant.reference_mean)}."
            )
        if not found.confirmed:
            told.append("No independent seeds confirm this: give more --minutes before you rely on it.")
    elif verdict.costs:
        told = [
            f"Exploration costs reward: every strategy that explores{_unjudged(context)} is significantly worse than "
            f"greedy.",
            f"The best of them, {name}, differs from greedy by {lead}.",
        ]
    else:
        judged = [other for other in verdict.against_greedy.values() if other.is_judged]
        is_first = all(other.difference <= one.difference for other in judged)
        which = "the best that explores" if is_first else "the recommended strategy"
        told = [
            "Inconclusive: no strategy that explores is significantly better than greedy.",
            f"{capital(name)}, {which}, differs from greedy by {lead}.",
            *_power(one, context),
        ]
    for side, others in (
        ("better", [name for name, other in verdict.against_greedy.items() if other.wins and name != one.arm]),
        ("worse", [name for name, other in verdict.against_greedy.items() if other.loses and not verdict.costs]),
    ):
        if others:
            told.append(f"Significantly {side} than greedy: {words.listed([arms.NAMES[name] for name in others])}.")
    told += [*_confirmation(found), *_baselines(found), *_model(found), *_lost(context)]
    return " ".join(told)


def _effect_and_p(one: Comparison) -> str:
    """Returns a difference with Holm's p, where there is a test."""
    p = f"; Holm-adjusted p {_equal(words.p_value(one.adjusted_p))}" * one.is_judged
    return f"{effect(one)[:-1]}{p})"


def _equal(p: str) -> str:
    return p if p.startswith("<") else f"= {p}"


def _power(one: Comparison | None, context: Context) -> list[str]:
    """Returns the minimum detectable difference, and the seeds that the observed one requires."""
    if one is None or math.isnan(one.detectable):
        return []
    if one.detectable > context.reward_width:
        return [
            f"With {words.seeds(one.pairs)} that vary so much, even the largest possible difference would be missed."
        ]
    told = [f"Minimum detectable difference: {one.detectable:.2g} (80% power, {words.seeds(one.pairs)})."]
    if needed := words.seeds_needed(one):
        told.append(f"Seeds required for the observed difference: {needed}.")
    return told


def _unjudged(context: Context) -> str:
    """Returns which strategies that explore were not judged, as they diverged, failed or were left out."""
    against = context.found.verdict.against_greedy
    known = {GREEDY, *(name for name, one in against.items() if one.is_judged)}
    names = [arms.NAMES[name] for name in context.full.strategies if name not in known]
    return f" and was compared (not {', '.join(names)})" if names else ""


def _why_not(found: Advice) -> str:
    if GREEDY not in found.arms or not found.arms[GREEDY].reward:
        return "greedy, the reference, diverged at all learning rates that were tried, or failed"
    if found.arms[GREEDY].diverged:
        return "greedy, the reference, diverged"
    if found.verdict.best:
        return "the best strategy and greedy have no seed in common, as runs failed"
    return "every strategy that explores diverged, or failed"


def _confirmation(found: Advice) -> list[str]:
    """Returns the difference over the independent seeds, which did not select the best."""
    against = findings.compared({name: arm.reward for name, arm in found.confirmed.items()}, GREEDY)
    return [
        f"Independent seeds, which did not select {arms.NAMES[one.arm]}, give {effect(one)}."
        + " They do not confirm the gain." * (found.verdict.pays and not one.low > 0)
        for one in against.values()
        if math.isfinite(one.difference)
    ]


def _baselines(found: Advice) -> list[str]:
    """Returns what greedy, the recommended strategy and the baselines earn, and the normalized score."""
    name = found.verdict.recommended or found.verdict.best or GREEDY
    known = [
        f"{arms.NAMES[one]} {amounts.estimate(mean(found.arms[one].reward))}"
        for one in dict.fromkeys((name, found.verdict.best, GREEDY))
        if one in found.arms and found.arms[one].reward
    ]
    known += [
        f"{what} {_landmark(value)}"
        for what, value in (("uniform policy", found.chance), ("best fixed action", found.constant))
        if value is not None
    ]
    has_ceiling = CEILING in found.arms and math.isfinite(mean(found.arms[CEILING].reward).mean)
    if has_ceiling:
        known.append(f"full-feedback baseline {amounts.estimate(mean(found.arms[CEILING].reward))}")
    told = ["\n" + "\n".join(["Average rewards:", *(f"- {one}" for one in known)]) + "\n"]
    stand = found.verdict.stands.get(name)
    if stand and math.isfinite(stand.share):
        told.append(
            f"Normalized score of {arms.NAMES[name]}: {stand.share:.2f} (0 = uniform policy, 1 = full feedback)."
        )
    return told + (_ceiling(found) if has_ceiling else [])


def _ceiling(found: Advice) -> list[str]:
    """Returns where the full-feedback baseline is no upper bound."""
    own = found.arms[CEILING].reward
    values = {name: arm.reward for name, arm in found.arms.items() if arm.reward and name != CHANCE}
    above = [arms.NAMES[name] for name, one in findings.compared(values, CEILING).items() if one.difference > 0]
    told = []
    if above:
        told.append(f"{capital(words.listed(above))} earned more than the full-feedback baseline on average.")
    constant = landmarks.stand({CEILING: own}, constant=found.constant)[CEILING].constant
    if constant and constant.loses:
        told.append(
            "Even full feedback earns significantly less than the best fixed action: the model is deployed too late, "
            "learns too slowly, or cannot fit these rewards."
        )
    return told


def _landmark(value: landmarks.Landmark) -> str:
    """Returns a baseline's mean; of a sample of the clients with its interval."""
    one = landmarks.interval(value)
    if isinstance(value, Sampled):
        return f"{amounts.estimate(one)}, over a sample of {value.clients:,} clients"
    return amounts.estimate(one)


def _model(found: Advice) -> list[str]:
    """Returns what the trained models reach on held-out data, as estimates."""
    against = findings.models(found.arms)
    what = "accuracy" if found.measured == metrics.ACCURACY else "reward"
    named = [(name, arms.NAMES[name]) for name in (found.verdict.best, CHANCE) if name in against]
    told = [
        f"- trained by {'the uniform policy' if name == CHANCE else label}: {effect(against[name])}"
        for name, label in named
        if against[name].is_judged
    ]
    if not told:
        return []
    head = f"Held-out {what} of the trained model, against greedy's {amounts.estimate(mean(found.arms[GREEDY].model))}:"
    return ["\n" + "\n".join([head, *told]) + "\n"]


def _lost(context: Context) -> list[str]:
    """Returns which configurations diverged, or failed."""
    compared, planned = context.found.arms.items(), context.plan.seeds
    lost = [
        f"{capital(arms.NAMES[name])} diverged on {len(arm.diverged)} of {words.seeds(len(arm.reward))}."
        for name, arm in compared
        if arm.diverged
    ]
    failed: dict[int, list[str]] = {}
    for name, arm in compared:
        if not arm.diverged and (count := planned - len(arm.reward)) > 0:
            failed.setdefault(count, []).append(arms.NAMES[name])
    lost += [
        f"{capital(words.listed(names))} failed on {count} of {words.seeds(planned)}."
        for count, names in failed.items()
    ]
    return lost


def strategy(context: Context) -> str:
    """Returns what to deploy, and the command that runs it."""
    found = context.found
    name = found.verdict.recommended
    if name is None:
        return _no_strategy(found)
    arm = found.arms[name]
    told = [f"{capital(arms.NAMES[name])}: {_why(found, name)}."]
    if found.verdict.pays:
        told += _second(found, name)
    told += _constant(found, name)
    values = ", ".join(f"{flag.removeprefix('bandits_').replace('_', ' ')} {value}" for flag, value in arm.point)
    told.append(f"Settings: {values}.")
    told += [f"{capital(note)}." for note in arm.notes]
    return f"{' '.join(told)} Command: {context.command}"


def _why(found: Advice, name: str) -> str:
    """Returns why a strategy is recommended."""
    if GREEDY not in found.arms or found.arms[GREEDY].diverged or not found.arms[GREEDY].reward:
        return "the best that explores; greedy diverged or failed, so there is no comparison"
    if found.verdict.pays:
        return "the highest mean of the strategies that are significantly better than greedy"
    if name == GREEDY:
        return "the simplest, and no strategy that explores is significantly better"
    baseline = "best fixed action" if findings.beats(found.verdict.stands, GREEDY) else "uniform policy"
    return f"it significantly beats the {baseline} and greedy does not, though the two do not differ significantly"


def _no_strategy(found: Advice) -> str:
    """Returns why no strategy is recommended, and whether one fixed action earns more."""
    if found.verdict.all_diverged:
        return "None: every strategy diverged, or failed. Give lower learning rates as flags."
    told = "None: no strategy earns significantly more than the uniform policy, so their order may be luck."
    against = {one: stand.constant for one, stand in found.verdict.stands.items() if stand.constant}
    below = [arms.NAMES[one] for one, other in against.items() if other.loses]
    if not below:
        return told
    earns = amounts.number(max(one.reference_mean for one in against.values()))
    return f"{told} The best fixed action earns {earns}, significantly more than {words.listed(below)}."


def _second(found: Advice, name: str) -> list[str]:
    """Returns the lead of the best over the second of those that explore; empty without a second."""
    others = {one.arm: one.mean for one in found.verdict.against_greedy.values() if one.is_judged and one.arm != name}
    if not others:
        return []
    second = max(others, key=others.__getitem__)
    one = findings.compared({arm: found.arms[arm].reward for arm in (name, second)}, second)[name]
    return [f"Its lead over {arms.NAMES[second]}, the next that explores, is {effect(one)}."]


def _constant(found: Advice, name: str) -> list[str]:
    """Returns what is to say where the best fixed action may earn as much; empty where it earns less."""
    one = found.verdict.stands[name].constant if name in found.verdict.stands else None
    if one is None or one.wins:
        return []
    told = "earns significantly more" if one.loses else "does not differ significantly"
    return [f"But the best fixed action {told}: {arms.NAMES[name]} minus that action is {effect(one)}."]


def frequency(context: Context) -> str:
    """Returns what deploying more often is worth."""
    found, plan = context.found, context.plan
    if not plan.often:
        return "Nothing: a model is deployed after every round already."
    often = f"deployment {planning.every(plan.often)} instead of {planning.every(plan.deploy_every)}"
    told = _gains(found, found.arms, found.often)
    if not told:
        why = "it diverged" if found.often else f"--minutes={context.minutes:g} went to the questions above"
        return f"Not known: {often} ({why})."
    lines = [f"Average reward with {often}, minus that as planned:", *told]
    if again := _gains(found, found.confirmed, found.often_confirmed):
        lines += ["The same over independent seeds:", *again]
    lead = findings.compared({name: arm.reward for name, arm in found.often.items()}, GREEDY).get(
        found.verdict.best or ""
    )
    if lead and lead.is_judged:
        lines.append(f"Then {arms.NAMES[lead.arm]} minus greedy is {effect(lead)}.")
    return "\n".join(lines)


def _gains(found: Advice, planned: Mapping[str, Arm], often: Mapping[str, Arm]) -> list[str]:
    """Returns what more frequent deployment adds to the best and to greedy, an item each."""
    told = []
    for name in dict.fromkeys(filter(None, (found.verdict.best, GREEDY))):
        if name in often and name in planned:
            values = {findings.PLANNED: planned[name].reward, findings.OFTEN: often[name].reward}
            one = findings.compared(values, findings.PLANNED)[findings.OFTEN]
            if math.isfinite(one.difference):
                told.append(f"- {arms.NAMES[name]}: {effect(one)}")
    return told


def not_tried(context: Context) -> str:
    """Returns what was left out for lack of time, with the minutes that it needs, and what is never tried."""
    left = planning.left_out(context.full, context.plan, arms.NAMES)
    lines = []
    if left:
        more = max(1, math.ceil(context.minutes_of_all - context.minutes))
        lines.append(f"Left out, to keep to --minutes={context.minutes:g}:")
        lines += [f"- {one}" for one in left]
        lines.append(
            f"All this needs about {amounts.count(more, 'more minute')}: repeat the command with "
            f"--minutes={context.minutes_of_all}, and it continues from these runs."
        )
    else:
        lines.append("Nothing was left out for lack of time.")
    lines += [context.overrun] if context.overrun else []
    lines += ["A recommendation never tries:", *(f"- {one}" for one in _BY_DESIGN)]
    return "\n".join(lines)


def paragraphs(text: str) -> list[tuple[str, list[str]]]:
    """Returns a section's paragraphs and, after each, the items of its list."""
    found: list[tuple[str, list[str]]] = []
    for line in filter(None, (line.strip() for line in text.split("\n"))):
        if line.startswith("- ") and found:
            found[-1][1].append(line.removeprefix("- "))
        else:
            found.append((line, []))
    return found
