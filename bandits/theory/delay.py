"""What deploying less often costs: equations (9) and (10), and what is measured."""

import numpy as np

from bandits import policies
from bandits.results.tables import markdown
from bandits.theory import bounds, environments, findings, simulation
from bandits.theory.findings import Curve, Findings, Scale

_SQUARED_RATE = 20.0  # (2K / epsilon) ln(.)
_PERIODS = (1, 2, 10, 100)
_EPSILON = 0.5
_ENVIRONMENT = environments.spread_gaps(10, 2, 0.4)


def bounds_and_regret(scale: Scale) -> Findings:
    """Sets (9) and (10), divided by n I, beside the regret of deploying every n samples and after each."""
    generator, samples, runs = scale.draws_of(20), 1000, scale.runs(2)
    policy = policies.EpsilonGreedy(_EPSILON)
    every = simulation.simulate(_ENVIRONMENT, policy, samples, _PERIODS[-1], runs, generator).greedy
    at_once = simulation.fitted_after_each(_ENVIRONMENT, _EPSILON, samples * _PERIODS[-1], runs, generator)
    ignorance = every[0].mean()
    rows = []
    for periods in _PERIODS:
        total = samples * periods
        limits = bounds.delayed(samples, periods, _SQUARED_RATE), bounds.delayed(1, total, _SQUARED_RATE)
        measured = every[:periods], at_once[:total]
        calculated = [f"{value:.3f}" for value in (limits[0] / total, limits[1] / total, 1 / periods)]
        rows.append(
            [str(periods), *calculated, *(findings.mean(regret.mean(axis=0) / ignorance) for regret in measured)]
        )
    head = ["I", "(9) / nI", "(10) / nI", "of (9), its n", "measured, every 1000", "measured, after each"]
    return Findings({"delay": markdown(head, rows)})


def half_as_often(scale: Scale) -> Findings:
    """Measures the regret of as many samples in ever fewer periods."""
    generator, total, runs = scale.draws_of(21), 64_000, scale.runs(10)
    rows, places, limits = [], [], []
    means: list[float] = []
    measured = []
    for periods in (2**power for power in range(10)):
        samples = total // periods
        policy = policies.EpsilonGreedy(_EPSILON)
        greedy = simulation.simulate(_ENVIRONMENT, policy, samples, periods, runs, generator).greedy * samples
        regret = greedy.sum(axis=0)
        places.append(float(samples))
        limits.append(bounds.delayed(samples, periods, _SQUARED_RATE))
        means.append(float(regret.mean()))
        measured.append(findings.by_seed(regret))
        rows.append(
            [
                f"{samples:,}",
                str(periods),
                findings.mean(regret),
                f"{means[-2] / means[-1]:.2f}" if periods > 1 else "",
                f"{greedy[0].mean() / means[-1]:.0%}",
                f"{limits[-1]:,.0f}",
            ]
        )
    head = [
        "n, samples of a deployment",
        "I",
        "regret of all samples",
        "half as often costs, times",
        "lost in the first period",
        "(9), C = 20",
    ]
    return Findings(
        {"half": markdown(head, rows)},
        [
            Curve(findings.ALL, "measured, epsilon-greedy", places, np.array(measured)),
            Curve(findings.ALL, "bound (9), C = 20", places, limits),
        ],
    )
