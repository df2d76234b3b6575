"""What privacy costs: `python -m scripts.privacy_budget --population=N --cohort=C --rounds=T --noise_multiplier=Z`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization import interruption

    interruption.install()

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from data.errors import UsageError
from optimization import calibration, cli, cohorts, files, privacy

_USAGE = """
Says what differential privacy a training gives its clients, or which noise gives a wanted one.

  privacy_budget --population=342477 --cohort=64 --rounds=1600 --noise_multiplier=0.7 --delta=1e-6
  privacy_budget --population=342477 --cohort=64 --rounds=1600 --target_epsilon=2
  privacy_budget --population=340000 --cohort=64 --rounds=800 --delta=1e-6 --target_epsilon=4.14 --tolerated_noise=0.01
"""
_MECHANISM_OF = {
    "restart_frequency": "dpftrl",
    "bands": "mf_dpftrl",
    "dimension": "ddp",
}
_TABLE_FACTORS = (0.25, 0.5, 1, 2, 4)
_GROWTH_FACTORS = (10, 100)
_PICTURES = (".png", ".svg", ".pdf")


def define() -> cli.FlagSet:
    """Returns the flags of `privacy_budget`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("The training")
    flags.integer("population", None, "clients", low=1)
    flags.integer("cohort", None, "clients of a round; the expected number under Poisson sampling", low=1)
    flags.integer("rounds", None, "rounds", low=1)
    flags.number(
        "delta",
        None,
        "probability that the guarantee fails (default: 1 / population^1.1)",
        high=1,
        above=True,
        below=True,
    )
    mechanisms = {name: help_text for name, help_text in privacy.KINDS.items() if name != "none"}
    flags.choice("mechanism", "dpsgd", mechanisms, "where the noise comes from")
    flags.choice("sampling", "fixed", cohorts.SAMPLINGS, "how cohorts are drawn")
    flags.integer("restart_frequency", 0, "dpftrl: rounds of one tree; 0 for a single tree")
    flags.integer("bands", 1, "mf_dpftrl: bands of the factor", low=1)
    flags.integer("dimension", None, "ddp: parameters of the model", low=1)
    flags.group("What is given: one of the two")
    flags.number("noise_multiplier", None, "standard deviation of the noise on a round's sum, in clip norms")
    flags.number(
        "target_epsilon", None, "epsilon that may be spent; the smallest noise multiplier is looked for", above=True
    )
    flags.group("Output")
    flags.number(
        "tolerated_noise",
        None,
        "with --target_epsilon: noise multiplier at which training still works with --cohort; looks for the larger "
        "cohort that reaches the target when its noise multiplier grows with it",
        above=True,
    )
    flags.text("plot", None, "picture of epsilon against rounds to write: .png, .svg or .pdf")
    return flags


def build(settings: cli.Settings) -> privacy.Mechanism:
    """Returns the mechanism that the flags describe, with noise multiplier 0 if that is looked for.

    Raises:
      UsageError: If the flags do not fit together.
    """
    for name in ("population", "cohort", "rounds"):
        if settings[name] is None:
            raise UsageError(f"--{name} is missing: give --population, --cohort and --rounds.")
    if (settings.noise_multiplier is None) == (settings.target_epsilon is None):
        given = "neither" if settings.noise_multiplier is None else "both"
        raise UsageError(f"Give one of --noise_multiplier and --target_epsilon, not {given}.")
    if settings.tolerated_noise is not None and settings.target_epsilon is None:
        raise UsageError("--tolerated_noise has no effect without --target_epsilon.")
    if settings.cohort > settings.population:
        raise UsageError(f"--cohort={settings.cohort} is more than --population={settings.population}.")
    for name, mechanism in _MECHANISM_OF.items():
        if name in settings.given and settings.mechanism != mechanism:
            raise UsageError(f"--{name} has no effect with --mechanism={settings.mechanism}, only with {mechanism}.")
    if settings.mechanism == "ddp":
        if settings.dimension is None:
            raise UsageError("--dimension is missing: --mechanism=ddp depends on the number of parameters.")
        if settings.sampling == "poisson":
            raise UsageError(
                "--sampling=poisson does not fit --mechanism=ddp: small cohorts would add too little noise."
            )
    if settings.plot:
        picture = pathlib.Path(cli.user_path(settings.plot))
        if picture.suffix not in _PICTURES:
            raise UsageError(f"--plot={settings.plot} must end in {', '.join(_PICTURES)}.")
        files.check_output("plot", picture)
    return privacy.Mechanism(
        kind=settings.mechanism,
        noise_multiplier=settings.noise_multiplier or 0.0,
        population=settings.population,
        cohort=settings.cohort,
        sampling=settings.sampling,
        delta=settings.delta,
        restart_frequency=settings.restart_frequency,
        bands=settings.bands,
        dimension=settings.dimension or 1,
    )


def program(settings: cli.Settings) -> None:
    """Prints the budget."""
    mechanism = build(settings)
    rounds = settings.rounds
    if settings.target_epsilon is not None:
        mechanism = _calibrated(mechanism, settings)
    report = mechanism.report(rounds)
    print(report["summary"])
    if not report["guarantees"]:
        return
    print()
    _print_rows([("neighbours", "sampling", "RDP", "order", "PLD", ""), *map(_guarantee_row, report["guarantees"])])
    _print_tables(mechanism, rounds)
    if settings.plot:
        output = cli.user_path(settings.plot)
        _draw(mechanism, rounds, output)
        print(f"\n{output}")


def _calibrated(mechanism: privacy.Mechanism, settings: cli.Settings) -> privacy.Mechanism:
    """Returns the mechanism with the smallest noise multiplier for `--target_epsilon`, and prints what it found."""
    rounds, target = settings.rounds, settings.target_epsilon
    try:
        noise_multiplier = calibration.calibrate(mechanism, rounds, target)
        grown = None
        if settings.tolerated_noise is not None:
            tolerated = dataclasses.replace(mechanism, noise_multiplier=settings.tolerated_noise)
            grown = calibration.scale_cohort(tolerated, rounds, target)
    except ValueError as error:
        raise UsageError(f"--target_epsilon={target:g} is out of reach: {error}.") from error
    noise_multiplier = _round_up(noise_multiplier)
    print(
        f"Smallest noise multiplier for epsilon {target:g} with a cohort of {mechanism.cohort:,}: {noise_multiplier:g}"
    )
    if grown:
        print(
            f"With a cohort of {grown.cohort:,} and a noise multiplier of {grown.noise_multiplier:.4g}, epsilon is "
            f"{grown.epsilon(rounds):.4g} and the noise on the mean update is that of "
            f"{settings.tolerated_noise:g} with {mechanism.cohort:,}."
        )
    print()
    return dataclasses.replace(mechanism, noise_multiplier=noise_multiplier)


def _round_up(value: float) -> float:
    """Returns a number of five digits that is not smaller."""
    step = 10.0 ** (math.floor(math.log10(value)) - 4)
    return float(f"{math.ceil(value / step) * step:.5g}")


def _guarantee_row(guarantee: Mapping[str, Any]) -> Sequence[str]:
    loss = guarantee["epsilon_pld"]
    return (
        guarantee["neighbours"],
        _sampling(guarantee["sampling"], guarantee["sampling_assumed"]),
        f"{guarantee['epsilon_rdp']:.3g}",
        f"{guarantee['rdp_order']:g}",
        "-" if loss is None else f"{loss:.3g}",
        guarantee["note"],
    )


def _sampling(sampling: str, assumed: bool) -> str:
    return f"{sampling} (assumed)" if assumed else sampling


def _print_tables(mechanism: privacy.Mechanism, rounds: int) -> None:
    """Prints the headline's epsilon against rounds and cohort, and for cohorts whose noise multiplier grows too."""
    cohorts = sorted({min(max(1, round(mechanism.cohort * factor)), mechanism.population) for factor in _TABLE_FACTORS})
    columns = [dataclasses.replace(mechanism, cohort=cohort) for cohort in cohorts]
    print("\nEpsilon by RDP, for other rounds and cohorts:")
    table = [("rounds", *(f"cohort {cohort:,}" for cohort in cohorts))]
    for count in sorted({max(1, round(rounds * factor)) for factor in _TABLE_FACTORS}):
        table.append((f"{count:,}", *(f"{column.epsilon(count):.3g}" for column in columns)))
    _print_rows(table)
    grown = [
        dataclasses.replace(
            mechanism, cohort=mechanism.cohort * factor, noise_multiplier=mechanism.noise_multiplier * factor
        )
        for factor in _GROWTH_FACTORS
        if mechanism.cohort * factor <= mechanism.population
    ]
    if grown:
        print(f"\nCohort and noise grown together (same noise on the mean update), {rounds:,} rounds:")
        table = [
            (f"{one.cohort:,}", f"{one.noise_multiplier:.4g}", f"{one.epsilon(rounds):.3g}")
            for one in (mechanism, *grown)
        ]
        _print_rows([("cohort", "noise multiplier", "epsilon"), *table])


def _print_rows(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _draw(mechanism: privacy.Mechanism, rounds: int, output: str) -> None:
    """Draws epsilon by RDP against rounds, a line for each way of accounting."""
    import matplotlib.figure
    import numpy as np

    figure = matplotlib.figure.Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    shown = np.unique(np.linspace(1, rounds, 200).round().astype(int))
    for analysis in mechanism.analyses:
        epsilons = [analysis.epsilon(int(count), mechanism.delta)[0] for count in shown]
        label = f"{analysis.neighbours}; sampling: {_sampling(analysis.sampling, analysis.assumed)}"
        axes.plot(shown, epsilons, label=label)
    axes.set(
        title=f"{mechanism.kind}, noise multiplier {mechanism.noise_multiplier:g}, cohort {mechanism.cohort:,} of "
        f"{mechanism.population:,}",
        xlabel="round",
        ylabel=f"epsilon at delta {mechanism.delta:.3g} (RDP)",
        yscale="log",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    files.save_picture(figure, output, dpi=120)


if __name__ == "__main__":
    cli.main(define(), program)
