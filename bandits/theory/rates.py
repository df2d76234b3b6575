"""How fast the greedy part learns: the exact inequality, rates in n, I, K and epsilon, and bounds with constants."""

import numpy as np

from bandits import policies, schedules
from bandits.results.tables import markdown
from bandits.theory import bounds, environments, findings, regret, simulation
from bandits.theory.findings import SEEDS, Curve, Findings, Scale

DELTA = 0.05
_EDGE = 0.5  # The gap at the edge of what samples can show, in units of sqrt(K ln |F| / (epsilon n I)).


def exact_property(scale: Scale) -> Findings:
    """Looks for a model and a log that violate the inequality behind eq. 8; and shows its middle term with noisy r."""
    generator = scale.draws_of(1)
    tried = violated = 0
    closest = 0.0
    for _ in range(100 if scale.quick else 500):
        contexts, actions = generator.integers(1, 5), generator.integers(2, 8)
        rewards = generator.random((contexts, actions)) ** generator.choice([0.2, 1, 5])
        environment = environments.one_client(rewards, rewards[:, None], generator.dirichlet(np.ones(contexts)))
        epsilon = float(generator.uniform(0.01, 1))
        noise = generator.normal(size=(200, contexts, actions)) * 10 ** generator.uniform(-3, 0, (200, 1, 1))
        predicted = np.float32(np.clip(rewards + noise, 0, 1)).astype(float)
        logged = regret.probabilities(policies.EpsilonGreedy(epsilon), generator.permuted(predicted, axis=2))
        ratios = regret.of_greedy(environment, predicted) / regret.bound_by_error(
            environment, predicted, logged, epsilon
        )
        tried, violated = tried + len(ratios), violated + int((ratios > 1).sum())
        closest = max(closest, float(ratios.max()))
    # Two actions half a gap off each, towards each other, where the log favours a third.
    gap, epsilon = 0.25, 0.125
    tight = environments.one_client(np.array([[0.5, 0.5 + gap, 0.0]]), np.array([[[0.5, 0.5 + gap, 0.0]]]))
    log = np.array([[epsilon / 3, epsilon / 3, 1 - 2 * epsilon / 3]])
    wrong = np.array([[[0.5 + gap / 2, 0.5 + gap / 2 - 2**-20, 0.0]]])
    touching = float((regret.of_greedy(tight, wrong) / regret.bound_by_error(tight, wrong, log, epsilon))[0])
    return Findings(
        {
            "tried": f"{tried:,}",
            "violated": str(violated),
            "closest": f"{closest:.3f}",
            "touching": f"{touching:.4f}",
        }
        | _middle_term()
    )


def _middle_term() -> dict[str, str]:
    """Table of eq. 8's three terms in an environment of two nearly equal actions."""
    rewards, epsilon = np.array([[0.50, 0.49]]), 0.1
    environment = environments.one_client(rewards, rewards[:, None])
    predicted = np.array([[[0.49, 0.50]]])
    logged = regret.probabilities(policies.EpsilonGreedy(epsilon), predicted)
    terms = {
        "regret, E[f\\*(pi\\*) - f\\*(pi)]": regret.of_greedy(environment, predicted),
        "middle term with f\\* in the place of r": regret.squared_difference(environment, predicted, noisy=False),
        "middle term as it stands, with rewards 0 or 1": regret.squared_difference(environment, predicted, noisy=True),
        "right side, sqrt((2K/epsilon) E(f - f\\*)^2)": regret.bound_by_error(environment, predicted, logged, epsilon),
    }
    return {"middle": markdown(["term", "value"], [[name, f"{value[0]:.4f}"] for name, value in terms.items()])}


def _edge_of_knowledge(
    actions: int, epsilon: float, samples: int, periods: int, runs: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """Regret and error after I periods, at a gap that n I samples barely detect, and ln(|F| I / delta)."""
    environment = environments.hidden_best(
        actions, _EDGE * np.sqrt(actions * np.log(actions) / (epsilon * samples * periods))
    )
    regrets = simulation.simulate(environment, policies.EpsilonGreedy(epsilon), samples, periods, runs, generator)
    return regrets.after[-1], regrets.error[-1], schedules.complexity(environment.log_class_size, DELTA, periods)


_GRIDS = {
    "n, samples of a period": [(5, 0.2, 2**power, 1) for power in range(10, 18)],
    "I, periods": [(5, 0.2, 2000, 2**power) for power in range(6)],
    "K, actions": [(4 * 2**power, 0.2, 2**16, 1) for power in range(5)],
    "epsilon": [(5, 0.05 * 2**power, 2**16, 1) for power in range(5)],
}
_VARIED = {"n, samples of a period": 2, "I, periods": 3, "K, actions": 0, "epsilon": 1}


def shrinking_gaps(scale: Scale) -> Findings:
    """Measures the greedy part's regret where the gap is always at the edge of what the samples can tell."""
    generator, runs = scale.draws_of(2), SEEDS * 400
    measured = {
        name: [_edge_of_knowledge(*setting, runs, generator) for setting in grid] for name, grid in _GRIDS.items()
    }
    constant = max(
        bounds.measured_constant(errors, term, samples * periods, DELTA)
        for name, grid in _GRIDS.items()
        for (*_, samples, periods), (_, errors, term) in zip(grid, measured[name], strict=True)
    )
    rows, curves, worst = [], [], 0.0
    for name, grid in _GRIDS.items():
        regrets = np.array([findings.by_seed(regret) for regret, _, _ in measured[name]])
        limits = np.array(
            [
                bounds.greedy_regret(actions, epsilon, bounds.error(term, samples * periods, constant=constant))
                for (actions, epsilon, samples, periods), (_, _, term) in zip(grid, measured[name], strict=True)
            ]
        )
        places = np.array([setting[_VARIED[name]] for setting in grid], float)
        worst = max(worst, float((regrets.mean(axis=1) / limits).max()))
        rows.append(
            [
                name,
                f"{places[0]:g} to {places[-1]:g}",
                findings.slope(findings.loglog(places, regrets.T)),
                f"{findings.loglog(places, np.tile(limits, (2, 1))).mean:.2f}",
                " to ".join(findings.mean(regrets[at]) for at in (0, -1)),
            ]
        )
        if name.startswith("n,"):
            curves = [
                Curve(findings.GREEDY, "gaps shrink with n", places, regrets),
                Curve(findings.GREEDY, "bound (8), its constant measured", places, limits),
            ]
    head = ["against", "from, to", "slope measured", "slope of (8)", "regret"]
    words = {"rates": markdown(head, rows), "constant": f"{constant:.2f}", "largest_share": f"{worst:.2f}"}
    return Findings(words, curves)


def other_gaps(scale: Scale) -> Findings:
    """Measures regret where gaps do not shrink with n: linear rewards, and finite classes with a hard gap."""
    generator, periods = scale.draws_of(3), [4, 8, 16, 32, 64]
    samples = 500
    linear = simulation.simulate_linear(
        environments.fan(3), 0.5, samples, periods[-1], periods, scale.runs(3), generator, evaluated=8000
    )
    linear = findings.by_seed(linear).T
    places = samples * np.array(periods, float)
    sizes = np.arange(400, 1601, 200)
    environment = environments.hidden_best(3, 0.15)
    runs = max(scale.runs(5000), 1000 * SEEDS)  # Fewer can be without a mistake, whose logarithm is minus infinity.
    hard = [
        findings.by_seed(
            simulation.simulate(environment, policies.EpsilonGreedy(0.2), int(size), 1, runs, generator).after[-1]
        )
        for size in sizes
    ]
    rate = findings.semilog(sizes.astype(float), np.array(hard).T)
    halves = np.log(2) / -rate.mean
    straight = np.corrcoef(sizes, np.log(np.mean(hard, axis=1)))[0, 1] ** 2
    rows = [[f"{size:,}", findings.mean(found)] for size, found in zip(sizes, hard, strict=True)]
    return Findings(
        {
            "linear_slope": findings.slope(findings.loglog(places, linear)),
            "linear_from": f"{places[0]:,.0f}",
            "linear_to": f"{places[-1]:,.0f}",
            "hard": markdown(["n", "regret"], rows),
            "hard_half": f"{halves:.0f}",
            "hard_rate": f"{1000 * rate.mean:.2f} ({1000 * rate.low:.2f} to {1000 * rate.high:.2f})",
            "hard_straight": f"{straight:.3f}",
        },
        [
            Curve(findings.GREEDY, "linear rewards", places, linear.T),
            Curve(findings.GREEDY, "a hard gap", sizes.astype(float), np.array(hard)),
        ],
    )


def bounds_beside(scale: Scale) -> Findings:
    """Sets (7) and (8) beside what is measured after each of many periods."""
    generator, epsilon, samples, periods = scale.draws_of(4), 0.2, 1000, 64
    environment = environments.spread_gaps(10, 5, 0.4)
    regrets = simulation.simulate(
        environment, policies.EpsilonGreedy(epsilon), samples, periods, scale.runs(20), generator
    )
    shown = [1, 2, 4, 8, 16, 32, 64]
    terms = {period: schedules.complexity(environment.log_class_size, DELTA, period) for period in shown}
    constant = max(
        bounds.measured_constant(regrets.error[period - 1], term, samples * period, DELTA)
        for period, term in terms.items()
    )
    rows = []
    for period, term in terms.items():
        limit = bounds.error(term, samples * period, constant=constant)
        error, after = findings.mean(regrets.error[period - 1], 2), findings.mean(regrets.after[period - 1], 2)
        bound = bounds.greedy_regret(environment.num_actions, epsilon, limit)
        rows.append([str(period), error, f"{limit:.2g}", after, f"{bound:.2g}"])
    head = ["i", "error measured", "(7)", "regret measured", "(8)"]
    return Findings({"beside": markdown(head, rows), "beside_constant": f"{constant:.2f}"})
