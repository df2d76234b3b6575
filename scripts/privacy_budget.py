"""Computes the privacy loss of a run from its flags or folder: `python -m scripts.privacy_budget`; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bandits.results import tables
from bandits.results.budget import build, define
from data import files
from data.errors import UsageError
from optimization.privacy import calibration, mechanisms, sensitivities
from optimization.study import cli

_EPSILON_FACTORS = (0.25, 0.5, 1, 2, 4)


def program(settings: cli.Settings) -> None:
    """Prints the privacy loss for each neighbouring relation and, with `--target_epsilon`, the noise for it."""
    mechanism, rounds = build(settings)
    if settings.target_epsilon is not None:
        mechanism = _calibrated(mechanism, rounds, settings)
    report = mechanism.report(rounds)
    print(report["summary"])
    if not report["guarantees"]:
        return
    print()
    heads = ("neighbours", "sampling", "RDP", "order", "PLD", "")
    print(tables.text(heads, [*map(_guarantee_row, report["guarantees"])], "  "))
    noise = f"{report['prefix_noise']:.3g} clip norms"
    print(f"\nNoise on the sum of all updates so far (root mean square over rounds): {noise}")
    if settings.target_epsilon is not None:
        _print_alternatives(mechanism, rounds, settings)
    if settings.plot:
        _draw(mechanism, rounds, settings)
        print(f"\n{settings.plot}")


def _calibrated(mechanism: mechanisms.Mechanism, rounds: int, settings: cli.Settings) -> mechanisms.Mechanism:
    """Returns the mechanism with the smallest noise multiplier for `--target_epsilon`, and prints it."""
    target = settings.target_epsilon
    if mechanism.voided or mechanism.kind == "none":
        reason = mechanism.voided or "the training adds no noise"
        raise UsageError(f"--target_epsilon={target:g} is out of reach: no noise is enough, because {reason}.")
    try:
        noise_multiplier = calibration.calibrate(mechanism, rounds, target)
        larger = None
        if settings.tolerated_noise is not None:
            tolerated = dataclasses.replace(mechanism, noise_multiplier=settings.tolerated_noise)
            larger = calibration.scale_cohort(tolerated, rounds, target)
    except ValueError as error:
        raise UsageError(f"--target_epsilon={target:g} {error}.".replace("..", ".")) from error
    if settings.adaptive_clipping and mechanism.kind == "dpsgd":
        try:
            sensitivities.split_noise(noise_multiplier, sensitivities.COUNT_NOISE_SHARE * mechanism.cohort)
        except ValueError as error:
            raise UsageError(f"--target_epsilon={target:g}: {error}") from error
    rounded = dataclasses.replace(mechanism, noise_multiplier=calibration.round_up(noise_multiplier))
    smallest = f"Smallest noise multiplier for epsilon {target:g}, with a cohort of {mechanism.cohort:,}"
    if rounded.analyses[0].assumed:
        proven = "none"
        with contextlib.suppress(ValueError):
            proven = f"{calibration.round_up(calibration.calibrate(mechanism, rounds, target, proven=True)):g}"
        print(f"{smallest}, proven for cohorts of a fixed size: {proven}")
        print(f"If Poisson: {rounded.noise_multiplier:g}, as below. It is proven with --cohort_sampling=poisson.")
    else:
        print(f"{smallest}: {rounded.noise_multiplier:g}")
    if larger:
        print(
            f"With a cohort of {larger.cohort:,} and a noise multiplier of {larger.noise_multiplier:.4g}, epsilon is "
            f"{mechanisms.digits(larger.epsilon(rounds))} and the mean update has the same noise as with a noise "
            f"multiplier of {settings.tolerated_noise:g} and a cohort of {mechanism.cohort:,}."
        )
    print()
    return rounded


def _print_alternatives(mechanism: mechanisms.Mechanism, rounds: int, settings: cli.Settings) -> None:
    """Prints the noise of each mechanism at the target epsilon, in increasing order."""
    target = settings.target_epsilon
    plans = calibration.alternatives(mechanism, rounds, target, settings.dimension or 1)
    rows = [
        (each.name, each.analyses[0].neighbours, f"{each.noise_multiplier:g}", f"{each.prefix_noise(rounds):.3g}")
        for each in (plan.mechanism for plan in plans)
    ]
    print(f"\nMechanisms at epsilon {target:g} after {rounds:,} rounds, least noise first:")
    print(tables.text(("mechanism", "neighbours", "noise multiplier", "noise on prefix sums"), rows, "  "))


def _guarantee_row(guarantee: Mapping[str, Any]) -> Sequence[str]:
    loss = guarantee["epsilon_pld"]
    return (
        guarantee["neighbours"],
        guarantee["sampling"] + " (assumed)" * guarantee["sampling_assumed"],
        mechanisms.digits(guarantee["epsilon_rdp"]),
        f"{guarantee['rdp_order']:g}",
        "-" if loss is None else mechanisms.digits(loss),
        guarantee["note"],
    )


def _draw(mechanism: mechanisms.Mechanism, rounds: int, settings: cli.Settings) -> None:
    """Plots the noise on the prefix sums against epsilon for each mechanism."""
    from optimization.study import curves, panels

    title = f"{rounds:,} rounds, cohort {mechanism.cohort:,} of {mechanism.population:,}"
    figure, ((axes,),) = panels.grid(1, 1, (7, 4.2), title)
    lines: dict[str, list[tuple[float, float]]] = {}
    for epsilon in (settings.target_epsilon * factor for factor in _EPSILON_FACTORS):
        for plan in calibration.alternatives(mechanism, rounds, epsilon, settings.dimension or 1):
            label = f"{plan.mechanism.kind}, {plan.mechanism.sampling}"
            lines.setdefault(label, []).append((epsilon, plan.mechanism.prefix_noise(rounds)))
    for (label, points), style in zip(lines.items(), curves.styles(list(lines)), strict=True):
        axes.plot(*zip(*points, strict=True), label=label, color=style.colour, linestyle=style.dash)
    epsilon = f"epsilon at delta {mechanism.delta:.3g} ({mechanism.accountant.upper()})"
    panels.label(axes, xlabel=epsilon, ylabel="noise on prefix sums (clip norms)", xscale="log", yscale="log")
    panels.add_legend(figure)
    files.save_picture(figure, settings.plot, dpi=120)


if __name__ == "__main__":
    cli.main(define(), program)
