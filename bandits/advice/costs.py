"""The section on privacy: its unit, what each epsilon costs, and what the epsilons rest on."""

import math
import re
from collections.abc import Mapping
from typing import Any

from bandits.advice import amounts, arms, findings
from bandits.advice.amounts import capital, effect
from bandits.advice.context import Context
from bandits.advice.findings import Arm
from bandits.advice.stages import Advice, mean
from bandits.results import landmarks
from bandits.results.comparison import Comparison

NO_NOISE = "no noise"


def privacy(context: Context) -> str:
    """Returns the unit of privacy, and what each epsilon costs."""
    found = context.found
    unit = f"The unit of privacy is {context.unit}."
    if found.no_noise:
        return f"{unit} Not run: {found.no_noise.rstrip('.')}."
    if not found.noise or not found.noise[0][1].reward:
        return f"{unit} Not run: --minutes={context.minutes:g} left no time for noise."
    values = {noise_name(one): arm.reward for one, arm in found.noise if arm.reward}
    against, stands = findings.compared(values, NO_NOISE), findings.stands(values, found.chance)
    clipped, unnoised = found.noise[0]
    name = arms.NAMES[found.noisy]
    if not math.isfinite(mean(unnoised.reward).mean):
        return f"{unit} Inconclusive: {name} diverged without noise, at clip norm {clipped['clip_norm']:.3g}."
    clips = f"{capital(name)}, clipped to norm {clipped['clip_norm']:.3g} without noise, earns"
    told = [f"{unit} {context.where} {clips} {amounts.estimate(mean(unnoised.reward))}.{_clipping(found, unnoised)}"]
    beside = stands[NO_NOISE].chance
    if beside and beside.is_judged and not beside.wins:
        told[0] += " That is not significantly more than the uniform policy, so costs of noise say little."
    told.append("Average reward with noise, minus that without:")
    reports = []
    for one, _ in found.noise[1:]:
        target, compared = noise_name(one), against.get(noise_name(one))
        if "error" in one:
            told.append(f"- {target}: not run ({one['error'].rstrip('.')})")
        elif compared is None or not math.isfinite(compared.difference):
            told.append(f"- {target}: diverged")
        else:
            told.append(f"- {_cost(f'{target} (noise multiplier {_noise(one)})', compared, stands)}")
        reports += [one["guarantee"]] if "guarantee" in one else []
    told += [_guarantee(reports[0])] if reports else []
    told.append(
        "The runs themselves have no guarantee: their noise is seeded, and tuning and comparison ran without noise."
    )
    return "\n".join(told)


def _noise(one: Mapping[str, Any]) -> str:
    return f"{one['noise_multiplier']:.3g}"


def _clipping(found: Advice, unnoised: Arm) -> str:
    """Returns what one fixed norm and Poisson cohorts change before any noise, by the same seeds; empty if unknown."""
    usual = found.confirmed.get(found.noisy)
    if usual is None or not usual.reward:
        return ""
    one = findings.compared({NO_NOISE: unnoised.reward, findings.PLANNED: usual.reward}, findings.PLANNED)[NO_NOISE]
    if not one.is_judged or not one.difference:
        return ""
    return f" Fixed clipping and Poisson cohorts change it by {effect(one)}."


def _cost(target: str, one: Comparison, stands: Mapping[str, landmarks.Stand]) -> str:
    """Returns the difference that an epsilon makes."""
    stand = stands[one.arm]
    is_lost = one.is_judged and stand.chance and not stand.beats_chance and findings.beats(stands, NO_NOISE)
    lost = ", and no significant gain over the uniform policy is left" if is_lost else ""
    doubt = "" if one.is_judged else f", not tested: {amounts.not_judged(one)}"
    return f"{target}: {effect(one)}{doubt}{lost}"


def _guarantee(report: Mapping[str, Any]) -> str:
    """Returns what epsilons are accounted under."""
    first = next(iter(report["guarantees"]), {"neighbours": "one client added or removed"})
    by = "PLD" if report["mechanism"]["accountant"] == "pld" else "RDP"
    told = [
        f"Guarantee: delta {report['delta']:.2g} after {amounts.count(report['rounds'], 'round')}, by {by}.",
        f"Neighbours: {first['neighbours']}, with Poisson sampling of each round's clients.",
    ]
    if report["epsilon_assumes"]:
        told.append(f"Epsilon assumes {' and '.join(report['epsilon_assumes'])}.")
    # Several warnings can end with the same sentence.
    warned = dict.fromkeys(capital(part) for one in report["warnings"] for part in re.split(r"(?<=[.]) ", one))
    return " ".join([*told, *(f"Warning: {part}" for part in warned)])


def noise_name(one: Mapping[str, Any]) -> str:
    """Returns what a configuration with noise is called: its epsilon."""
    return f"epsilon {one['target_epsilon']:g}" if "target_epsilon" in one else NO_NOISE
