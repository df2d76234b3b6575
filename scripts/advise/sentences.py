"""The five sentences of an advice, from what its runs gave. They claim no more than the seeds tell."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from bandits import metrics
from scripts.advise import arms, findings
from scripts.advise import plan as planning
from scripts.advise.amounts import amount, capital, difference, ends, number, over_seeds, signed, sure
from scripts.advise.findings import Arm
from scripts.advise.plan import CEILING, CHANCE, GREEDY, Plan
from scripts.advise.stages import Advice, mean
from scripts.verdicts import landmarks, words
from scripts.verdicts.comparison import Comparison, Sampled

TITLES: Mapping[str, str] = {
    "exploration": "Does exploration pay?",
    "strategy": "Which strategy?",
    "frequency": "What is deploying more often worth?",
    "privacy": "What does each epsilon cost?",
    "not_tried": "What was not tried?",
}
NO_NOISE = "no noise"
_ALWAYS = "always choosing the action that is best in hindsight"
_BY_DESIGN = (
    "other models, losses and sizes of cohorts",
    "rates outside the searched ranges, and rates of their own for more frequent deployment and under noise",
    "real users, whose answers may change with what they are shown",
)


@dataclasses.dataclass(frozen=True)
class Context:
    """What sentences need beside what was found.

    Attributes:
      found: What was found.
      plan: What was played.
      full: The plan with nothing left out.
      minutes: Minutes that whole runs need.
      where: Where the guarantees hold, in words.
      command: The command to paste; empty for none.
      reward_width: Between the smallest and the largest reward.
      overrun: What is to say where it took longer than it might; empty where it did not.
      rewards: What is to say of rewards that nobody paid; empty for real ones.
    """

    found: Advice
    plan: Plan
    full: Plan
    minutes: int
    where: str
    command: str
    reward_width: float = math.inf
    overrun: str = ""
    rewards: str = ""


def write(context: Context) -> dict[str, str]:
    """Returns the sentences by the keys of `TITLES`."""
    return {
        "exploration": exploration(context),
        "strategy": strategy(context),
        "frequency": frequency(context),
        "privacy": privacy(context),
        "not_tried": not_tried(context),
    }


def exploration(context: Context) -> str:
    """Returns whether exploration pays, by how much, and how sure that is."""
    found = context.found
    verdict = found.verdict
    one = verdict.against_greedy.get(verdict.best or "")
    if one is None or math.isnan(one.difference):
        return f"Cannot be told: {_why_not(found)}."
    best = arms.label(one.arm, found.arms[one.arm].point)
    p = f"; p {words.p_value(one.adjusted_p)} by Holm" * one.is_judged
    lead = f"{amount(one)} than greedy ({over_seeds(one)}{p})"
    earns = f"{best} earns {number(one.mean)} on average {_over(context)}, {lead}"
    if verdict.recommended is None:
        stand = verdict.stands[one.arm]
        told = [f"Cannot be told: no strategy is told above chance {_over(context)}"]
        if stand.chance and math.isfinite(stand.chance.difference):
            holm = f"; p {words.p_value(stand.chance.adjusted_p)} by Holm" * stand.chance.is_judged
            lead = f"{amount(stand.chance)} than chance ({over_seeds(stand.chance)}{holm})"
            told.append(f"Of those that explore, the best, {best}, earns {number(one.mean)}, {lead}")
        told += _found_by(stand.chance, context)
    elif not one.is_judged:
        told = [f"Cannot be told: {'; '.join(one.notes) or words.seeds(one.pairs)}. {capital(earns)}"]
    elif verdict.pays:
        constant = verdict.stands[one.arm].constant
        but = ""
        if constant and constant.loses:
            but = f", but {_ALWAYS} would earn more, {number(constant.reference_mean)}"
        told = [f"Exploration pays{but}: {earns}"]
    elif verdict.costs:
        told = [f"Exploration costs: every strategy that explores{_unjudged(context)} is told below greedy"]
        told.append(f"The best of them, {earns}")
    else:
        judged = [other for other in verdict.against_greedy.values() if other.is_judged]
        above = "the best constant action" if findings.beats(verdict.stands, GREEDY) else "chance"
        is_first = all(other.difference <= one.difference for other in judged)
        which = "the best" if is_first else f"the best of those told above {above}"
        told = [
            f"Exploration was not shown to pay: of the strategies that explore, {which}, {earns}",
            *_found_by(one, context),
        ]
    others = [arms.NAMES[name] for name, other in verdict.against_greedy.items() if other.loses]
    if others and not verdict.costs:
        told.append(f"Told below greedy: {', '.join(others)}")
    told += [*_confirmation(found), *_place(found), *_model(found), *_lost(context)]
    return " ".join(f"{text.rstrip('.')}." for text in told)


def _unjudged(context: Context) -> str:
    """Returns which strategies that explore were not judged, as they diverged, failed or were left out."""
    against = context.found.verdict.against_greedy
    known = {GREEDY, *(name for name, one in against.items() if one.is_judged)}
    names = [arms.NAMES[name] for name in context.full.strategies if name not in known]
    return f" and was judged (not {', '.join(names)})" if names else ""


def _why_not(found: Advice) -> str:
    if GREEDY not in found.arms or not found.arms[GREEDY].reward:
        return "greedy, with which the others are compared, diverged at all rates that were tried, or failed"
    if found.arms[GREEDY].diverged:
        return "greedy, with which the others are compared, diverged"
    if found.verdict.best:
        return "the best and greedy have no seed in common, as runs failed"
    return "every strategy that explores diverged, or failed"


def _confirmation(found: Advice) -> list[str]:
    """Returns what seeds say that did not pick the best."""
    against = findings.compared({name: arm.reward for name, arm in found.confirmed.items()}, GREEDY)
    told = []
    for one in against.values():
        if math.isfinite(one.difference):
            doubt = ""
            if found.verdict.pays and not one.wins:
                doubt = ": alone, they would not show it" if one.is_better else ": they do not confirm it"
            earns = f"{arms.NAMES[one.arm]} earns {number(one.mean)}, {amount(one)} than greedy ({sure(one)})"
            told.append(f"On {words.seeds(one.pairs)} that did not pick it, {earns}{doubt}")
    return told


def _place(found: Advice) -> list[str]:
    """Returns where the recommended strategy stands, or greedy if there is none."""
    name = found.verdict.recommended or GREEDY
    stand = found.verdict.stands.get(name)
    if stand is None or not stand.word:
        return []
    known = [
        f"{what} {_landmark(value)}"
        for what, value in (("chance", found.chance), ("the best constant action", found.constant))
        if value is not None
    ]
    if CEILING in found.arms and math.isfinite(mean(found.arms[CEILING].reward).mean):
        known.append(f"the ceiling, which sees all rewards, {_ceiling(found)}")
    word = landmarks.NOT_JUDGED if stand.word == landmarks.ONE_SEED else stand.word
    return [f"{capital(arms.NAMES[name])} is {word} ({', '.join(known)})"]


def _ceiling(found: Advice) -> str:
    """Returns what the model earns that sees all rewards, and which strategies' means are above it."""
    own = found.arms[CEILING].reward
    ceiling = mean(own).mean
    values = {name: arm.reward for name, arm in found.arms.items() if arm.reward}
    above = [arms.NAMES[name] for name, one in findings.compared(values, CEILING).items() if one.difference > 0]
    told = f"{number(ceiling)}, and here no bound: {words.listed(above)} earned more" if above else number(ceiling)
    constant = landmarks.stand({CEILING: own}, constant=found.constant)[CEILING].constant
    if constant is None or not constant.loses:
        return told
    return (
        f"{told}; it is told below the best constant action, as the model is deployed too late, takes too many rounds "
        "to learn, or cannot fit the rewards at its rates"
    )


def _landmark(value: landmarks.Landmark) -> str:
    """Returns a landmark's mean; of a sample of the clients with its interval."""
    one = landmarks.interval(value)
    if not isinstance(value, Sampled):
        return number(one.mean)
    interval = f"{number(one.low)} to {number(one.high)}"
    return f"{number(one.mean)} ({interval} by a sample of {value.clients:,} clients)"


def _model(found: Advice) -> list[str]:
    """Returns whether a model that was trained on uniform exploration is the better one."""
    if CHANCE not in found.arms or GREEDY not in found.arms:
        return []
    against = findings.models(found.arms)
    if CHANCE not in against or not against[CHANCE].is_judged:
        return []
    one = against[CHANCE]
    what = "accuracy" if found.measured == metrics.ACCURACY else "reward"
    others = "".join(
        f"; {arms.NAMES[name]}'s has {number(other.mean)}, {amount(other)} than greedy's ({sure(other)}: "
        f"{_side(other)})"
        for name, other in against.items()
        if name == found.verdict.best
    )
    return [
        f"On held-out data, a model trained on uniform exploration has a mean {what} of {number(one.mean)}, "
        f"{_side(one)} {number(one.reference_mean)} ({sure(one)}){others}"
    ]


def _side(one: Comparison) -> str:
    """Returns the verdict on one model against another's."""
    return words.verdict(one).replace(f" {one.reference}", f" {arms.NAMES.get(one.reference, one.reference)}'s")


def _lost(context: Context) -> list[str]:
    """Returns which arms diverged, or failed."""
    compared, planned = context.found.arms.items(), context.plan.seeds
    lost = [
        f"{arms.NAMES[name]} diverged on {len(arm.diverged)} of {words.seeds(len(arm.reward))}"
        for name, arm in compared
        if arm.diverged
    ]
    failed: dict[int, list[str]] = {}
    for name, arm in compared:
        if not arm.diverged and (count := planned - len(arm.reward)) > 0:
            failed.setdefault(count, []).append(arms.NAMES[name])
    lost += [f"{', '.join(names)} failed on {count} of {words.seeds(planned)}" for count, names in failed.items()]
    return [capital("; ".join(lost))] if lost else []


def strategy(context: Context) -> str:
    """Returns what to deploy, and the command that plays it."""
    found = context.found
    name = found.verdict.recommended
    if name is None:
        if found.verdict.all_diverged:
            return (
                "None: every strategy that was played diverged, or failed. Lower rates may learn: give them as flags."
            )
        told = "None: no strategy is told above chance, so that which of them comes first may be luck."
        against = {one: stand.constant for one, stand in found.verdict.stands.items() if stand.constant}
        constants = [one.reference_mean for one in against.values()]
        is_judged = any(one.is_judged for one in against.values())
        if not is_judged or max(one.mean for one in against.values()) >= max(constants):
            return told
        below = [arms.NAMES[one] for one, other in against.items() if other.loses]
        which = "all of them" if len(below) == len(against) else words.listed(below) or "none of them"
        return f"{told} {capital(_ALWAYS)} would earn {number(max(constants))}, told above {which}."
    arm = found.arms[name]
    stand = found.verdict.stands[name]
    above = "told above chance" if stand.beats_chance else "chance is not known"
    why = f"{above}, as greedy is not, though the two are not told apart"
    if findings.beats(found.verdict.stands, GREEDY):
        why = "told above the best constant action, as greedy is not, though the two are not told apart"
    if GREEDY not in found.arms or found.arms[GREEDY].diverged or not found.arms[GREEDY].reward:
        why = f"the best of those that explore: {above}, while greedy diverged, or failed, and is not compared"
    elif found.verdict.pays:
        why = f"the best of those that are told above greedy{_second(found, name)}"
    elif name == GREEDY:
        why = "the simplest, and no strategy that explores is told above it"
    values = ", ".join(f"{flag.removeprefix('bandits_').replace('_', ' ')} {value}" for flag, value in arm.point)
    notes = "".join(f" {capital(note)}." for note in arm.notes)
    return f"{capital(arms.NAMES[name])}, {why}: {values}.{_constant(found, name)}{notes} To play it: {context.command}"


def _second(found: Advice, name: str) -> str:
    """Returns what the same seeds tell of the best and the second of those that explore; empty without a second."""
    others = {one.arm: one.mean for one in found.verdict.against_greedy.values() if one.is_judged and one.arm != name}
    if not others:
        return ""
    second = max(others, key=others.__getitem__)
    one = findings.compared({arm: found.arms[arm].reward for arm in (name, second)}, second)[name]
    side = "" if one.is_told_apart else "not "
    return f", {side}told from {arms.NAMES[second]} ({signed(one.difference)}, {sure(one)})"


def _constant(found: Advice, name: str) -> str:
    """Returns what is to say where always choosing one action may earn as much; empty where it earns less."""
    one = found.verdict.stands[name].constant if name in found.verdict.stands else None
    if one is None or one.wins:
        return ""
    told = "told below it" if one.loses else "not told from it"
    return (
        f" But it earns {number(one.mean)}, and {_ALWAYS} {number(one.reference_mean)}: {told} "
        f"({signed(one.difference)}, {sure(one)})."
    )


def frequency(context: Context) -> str:
    """Returns what deploying more often is worth."""
    found, plan = context.found, context.plan
    if not plan.often:
        return "A model is deployed after every round already."
    often = f"Deploying {planning.every(plan.often)} instead of {planning.every(plan.deploy_every)}"
    told = _gains(found, found.arms, found.often)
    if not told:
        return f"{often} was not played{' without divergence' if found.often else ': there was no time for it'}."
    text = f"{often} is worth {' and '.join(told)}"
    lead = findings.compared({name: arm.reward for name, arm in found.often.items()}, GREEDY).get(
        found.verdict.best or ""
    )
    if lead and lead.is_judged:
        text += f". Then {arms.NAMES[lead.arm]} earns {amount(lead)} than greedy ({sure(lead)}: {words.verdict(lead)})"
    if again := _gains(found, found.confirmed, found.often_confirmed):
        text += f". On seeds that did not pick the best, it is worth {' and '.join(again)}"
    return f"{text}."


def _gains(found: Advice, planned: Mapping[str, Arm], often: Mapping[str, Arm]) -> list[str]:
    """Returns what more frequent deployment is worth to the best and to greedy, those that were played both ways."""
    told = []
    for name in dict.fromkeys(filter(None, (found.verdict.best, GREEDY))):
        if name in often and name in planned:
            values = {findings.PLANNED: planned[name].reward, findings.OFTEN: often[name].reward}
            one = findings.compared(values, findings.PLANNED)[findings.OFTEN]
            if math.isfinite(one.difference):
                doubt = "" if one.is_told_apart else ", not told from nothing"
                told.append(f"{signed(one.difference)} to {arms.NAMES[name]} ({sure(one)}{doubt})")
    return told


def privacy(context: Context) -> str:
    """Returns what each epsilon costs."""
    found = context.found
    if found.no_noise:
        return f"Not played: {found.no_noise.rstrip('.')}."
    if not found.noise or not found.noise[0][1].reward:
        return "Not played: there was no time for noise."
    values = {noise_name(one): arm.reward for one, arm in found.noise if arm.reward}
    against, stands = findings.compared(values, NO_NOISE), findings.stands(values, found.chance)
    clipped, unnoised = found.noise[0]
    told, reports = [], []
    for one, _ in found.noise[1:]:
        target, compared = f"epsilon {one['target_epsilon']:g}", against.get(noise_name(one))
        if "error" in one:
            told.append(f"{target} was not played ({one['error'].rstrip('.')})")
        elif compared is None or not math.isfinite(compared.difference):
            told.append(f"at {target} it diverged")
        else:
            told.append(_cost(f"{target} (noise multiplier {one['noise_multiplier']:g})", compared, stands))
        reports += [one["guarantee"]] if "guarantee" in one else []
    name = arms.NAMES[found.noisy]
    if not math.isfinite(mean(unnoised.reward).mean):
        return f"Cannot be told: without noise {name} diverged when it clips to {clipped['clip_norm']:.3g}."
    clips = f"{name} earns when it clips to {clipped['clip_norm']:.3g}{_clipping(found, unnoised)}"
    start = f"Of the {number(mean(unnoised.reward).mean)} that {clips},"
    beside = stands[NO_NOISE].chance
    if beside and beside.is_judged and not beside.wins:
        earned = number(mean(unnoised.reward).mean)
        start = f"The {earned} that {clips} is not told above chance, so that a cost of noise says little:"
    return (
        f"{start} {'; '.join(told)} ({words.seeds(len(unnoised.reward))}). {context.where}"
        f"{_guarantee(reports[0]) if reports else ''}. The runs' own noise is seeded and guarantees nothing; no "
        "guarantee covers the runs without noise, which chose all this."
    )


def _clipping(found: Advice, unnoised: Arm) -> str:
    """Returns what one fixed norm and Poisson cohorts cost before any noise, by the same seeds; empty if unknown."""
    usual = found.confirmed.get(found.noisy)
    if usual is None or not usual.reward:
        return ""
    one = findings.compared({NO_NOISE: unnoised.reward, findings.PLANNED: usual.reward}, findings.PLANNED)[NO_NOISE]
    if not one.is_judged or not one.difference:
        return ""
    told = "" if one.is_told_apart else ", not told from nothing"
    usual_earns = f"the {number(one.reference_mean)} of the same seeds as they were compared"
    return f" without noise, with Poisson cohorts ({amount(one)} than {usual_earns}, {over_seeds(one)}{told})"


def _cost(target: str, one: Comparison, stands: Mapping[str, landmarks.Stand]) -> str:
    """Returns what an epsilon costs: a cost where the seeds tell one, else what it earned more or less."""
    stand = stands[one.arm]
    is_lost = one.is_judged and stand.chance and not stand.beats_chance and findings.beats(stands, NO_NOISE)
    lost = f", which leaves it {stand.word}" if is_lost else ""
    if one.loses and math.isfinite(one.low):
        interval = f"95% interval {signed(-one.high)} to {signed(-one.low)}"
        return f"{target} costs {difference(one.difference)} ({interval}){lost}"
    earns = f"earns {amount(one)} ({ends(one)})"
    if one.is_told_apart:
        return f"{target} {earns}{lost}"
    if not one.is_judged:
        return f"{target} {earns}: {'; '.join(one.notes) or 'not judged'}{lost}"
    return f"no cost of {target} could be seen: it {earns}{lost}"


def _guarantee(report: Mapping[str, Any]) -> str:
    """Returns what epsilons are accounted under."""
    first = next(iter(report["guarantees"]), {"neighbours": "one client"})
    by = "PLD" if report["mechanism"]["accountant"] == "pld" else "RDP"
    assumed = f". They assume {' and '.join(report['epsilon_assumes'])}" if report["epsilon_assumes"] else ""
    # Several warnings can end with the same sentence.
    warned = dict.fromkeys(capital(part) for one in report["warnings"] for part in re.split(r"(?<=[.]) ", one))
    told = f". Warning: {' '.join(warned)}" if warned else ""
    return (
        f": delta {report['delta']:.2g} after {report['rounds']:,} rounds, by {by}, for {first['neighbours']}, with a "
        f"Poisson sample of the clients in each round{assumed}{told}"
    ).rstrip(".")


def not_tried(context: Context) -> str:
    """Returns what was left out, for want of time and by design."""
    left = planning.left_out(context.full, context.plan, arms.NAMES)
    told = f"Left out, to keep to the time: {'; '.join(left)}." if left else "Nothing was left out for want of time."
    if context.plan.rounds < context.full.rounds:
        told += f" For whole runs of all strategies, give --minutes={context.minutes}."
    if context.overrun:
        told += f" {context.overrun}"
    if context.rewards:
        told += f" {context.rewards}"
    return f"{told} Never tried here: {'; '.join(_BY_DESIGN)}."


def noise_name(one: Mapping[str, Any]) -> str:
    """Returns what an arm under noise is called."""
    return f"epsilon {one['target_epsilon']:g}" if "target_epsilon" in one else NO_NOISE


def _found_by(one: Comparison | None, context: Context) -> list[str]:
    """Returns what so many seeds could have found."""
    if one is None or not (told := words.found_by(one)):
        return []
    if one.detectable > context.reward_width:
        seeds = capital(words.seeds(one.pairs))
        return [f"{seeds} that differ so much would miss even the largest difference of rewards"]
    return [told]


def _over(context: Context) -> str:
    plan, total = context.plan, context.full.rounds
    rounds = f"the first {plan.rounds:,} of {total:,} rounds" if plan.rounds < total else f"{total:,} rounds"
    if plan.rounds <= plan.deploy_every:  # What is deployed after the last round acts in none.
        return f"over {rounds}, none of which comes after a deployment ({planning.every(plan.deploy_every)})"
    return f"over {rounds}, deployed {planning.every(plan.deploy_every)}"


__all__ = ("NO_NOISE", "TITLES", "Arm", "Context", "noise_name", "write")
