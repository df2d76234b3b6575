"""What deploying less often costs: equations (9) and (10), and what is measured."""

from bandits import policies
from bandits.results.tables import markdown
from bandits.theory import bounds, findings, simulation, worlds
from bandits.theory.findings import SEEDS, Curve, Found, Scale, told
from optimization.study import intervals

_SQUARED_RATE = 20.0  # (2K / epsilon) ln(.)
_PERIODS = (1, 2, 10, 100)
_EPSILON = 0.5


def _world() -> worlds.FiniteWorld:
    return worlds.spread_gaps(10, 2, 0.4)


def bounds_and_regret(scale: Scale) -> Found:
    """Sets (9) and (10), divided by n I, beside the regret of deploying every n samples and after each."""
    generator, samples, runs = scale.draws_of(20), 1000, scale.runs(2)
    world, first = _world(), _world().candidates[:, 0]
    played = simulation.play(
        world,
        lambda period: policies.EpsilonGreedy(_EPSILON),
        simulation.exact_oracle(world),
        first,
        simulation.Sampling(samples),
        _PERIODS[-1],
        runs,
        generator,
    )
    at_once = simulation.fitted_after_each(world, _EPSILON, first, samples * _PERIODS[-1], runs, generator)
    ignorance = played.greedy[0].mean()
    rows = []
    for periods in _PERIODS:
        total = samples * periods
        first_term = 1 / periods
        both = (bounds.delayed(samples, periods, _SQUARED_RATE), bounds.immediate(total, _SQUARED_RATE))
        shares = (played.greedy[:periods], at_once[:total])
        rows.append(
            [
                str(periods),
                *(f"{one / total:.3f}" for one in both),
                f"{first_term:.3f}",
                *(told(intervals.of_mean(list(findings.by_seed(s.mean(axis=0) / ignorance, SEEDS)))) for s in shares),
            ]
        )
    head = ["I", "(9) / nI", "(10) / nI", "of (9), its n", "measured, every 1000", "measured, after each"]
    return Found({"delay": markdown(head, rows)})


def half_as_often(scale: Scale) -> Found:
    """Measures the regret of as many samples in ever fewer periods."""
    generator, total, runs = scale.draws_of(21), 64_000, scale.runs(10)
    world, first = _world(), _world().candidates[:, 0]
    rows, places, limits = [], [], []
    means: list[float] = []
    for power in range(10):
        periods = 2**power
        played = simulation.play(
            world,
            lambda period: policies.EpsilonGreedy(_EPSILON),
            simulation.exact_oracle(world),
            first,
            simulation.Sampling(total // periods),
            periods,
            runs,
            generator,
        )
        found = findings.by_seed(played.greedy.sum(axis=0) * (total // periods), SEEDS)
        rows.append(
            [
                f"{total // periods:,}",
                str(periods),
                told(intervals.of_mean(list(found))),
                f"{means[-1] / found.mean():.2f}" if means else "",
                f"{played.greedy[0].mean() * (total // periods) / found.mean():.0%}",
                f"{bounds.delayed(total // periods, periods, _SQUARED_RATE):,.0f}",
            ]
        )
        means.append(found.mean())
        places.append(float(total // periods))
        limits.append(bounds.delayed(total // periods, periods, _SQUARED_RATE))
    head = [
        "n, samples of a deployment",
        "I",
        "regret of all samples",
        "half as often costs, times",
        "lost in the first period",
        "(9), C = 20",
    ]
    panel = "regret of 64,000 samples against a deployment's"
    return Found(
        {"half": markdown(head, rows)},
        [
            Curve(panel, "measured", places, means),
            Curve(panel, "bound (9), C = 20", places, limits, is_bound=True),
        ],
    )
