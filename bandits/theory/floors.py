"""The whole regret: what exploring costs for ever, schedules that let it end, and what an inexact oracle leaves."""

from collections.abc import Callable

import numpy as np

from bandits import policies, schedules
from bandits.results.tables import markdown
from bandits.theory import bounds, findings, oracles, regret, simulation, worlds
from bandits.theory.findings import SEEDS, Curve, Found, Scale, over_seeds, slope, told
from bandits.theory.rates import DELTA
from optimization.study import intervals

_ACTIONS = 5
_PERIODS = 8
_EDGE = 0.5


def _falcon(
    world: worlds.FiniteWorld, samples: int, fed_opt: float = 0.0, periods: int = _PERIODS
) -> Callable[[int], policies.Policy]:
    """Returns FALCON with the schedule that it was proven with; mu is K."""
    term = schedules.complexity(world.log_class_size, DELTA, periods)

    def policy(period: int) -> policies.Policy:
        gamma = schedules.falcon_gamma(world.num_actions, term, samples * (period - 1), fed_opt)
        return policies.InverseGapWeighting(world.num_actions, gamma)

    return policy


def _constant(policy: policies.Policy) -> Callable[[int], policies.Policy]:
    return lambda period: policy


def _last(
    world: worlds.FiniteWorld,
    policy: Callable[[int], policies.Policy],
    samples: int,
    runs: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Returns the whole regret of the last of all periods, float64 [runs]."""
    first = world.candidates[:, 0]
    oracle = simulation.exact_oracle(world)
    sampling = simulation.Sampling(samples)
    return simulation.play(world, policy, oracle, first, sampling, _PERIODS, runs, generator).whole[-1]


def schedules_end_it(scale: Scale) -> Found:
    """Measures the whole regret of constant and falling epsilons, and of FALCON, at their worst gaps."""
    generator, runs = scale.draws_of(10), scale.runs(100)
    totals = np.array([2**power for power in range(12, 24, 2)])
    measured: dict[str, list[np.ndarray]] = {"epsilon = 0.1": [], "epsilon = (K ln(.)/(nI))^(1/3)": [], "FALCON": []}
    for total in totals:
        samples = int(total) // _PERIODS
        term = schedules.complexity(worlds.costly_exploration(_ACTIONS, 0.1).log_class_size, DELTA, _PERIODS)
        third = bounds.third_root_epsilon(_ACTIONS, term, float(total))
        gaps = [_EDGE * np.sqrt(_ACTIONS / (seen * total)) for seen in (0.1, third, 1.0)]
        for name in measured:
            found = []
            for gap in gaps:
                world = worlds.costly_exploration(_ACTIONS, gap)
                if name == "FALCON":
                    policy = _falcon(world, samples)
                else:
                    epsilon = 0.1 if name.endswith("0.1") else third
                    policy = _constant(policies.EpsilonGreedy(epsilon))
                found.append(findings.by_seed(_last(world, policy, samples, runs, generator), SEEDS))
            measured[name].append(max(found, key=np.mean))
    rows, curves = [], []
    panel = "whole regret against samples"
    for name, values in measured.items():
        together = np.array(values)
        curves.append(Curve(panel, name, totals.astype(float), together.mean(axis=1)))
        fitted = slope(findings.loglog(totals.astype(float), together.T))
        rows.append([name, *(told(intervals.of_mean(list(values[at])), 2) for at in (0, -1)), fitted])
    floor = 0.1 * worlds.costly_exploration(_ACTIONS, 0.0).exploration_cost
    curves.append(Curve(panel, "floor of epsilon = 0.1", totals.astype(float), np.full(len(totals), floor), True))
    head = ["exploration", f"regret, nI = {totals[0]:,}", f"nI = {totals[-1]:,}", "slope"]
    return Found({"schedules": markdown(head, rows), "fixed_floor": f"{floor:.4f}"}, curves)


def constant_parameters(scale: Scale) -> Found:
    """Measures what constant parameters lose once all is learnt, beside what they must."""
    generator, runs = scale.draws_of(11), scale.runs(20)
    rows = []
    for actions in (10, 50):
        rewards = np.eye(actions)[:1] * 0.9 + 0.05  # As in classification: one action is right.
        candidates = np.eye(actions)[None] * 0.9 + 0.05
        world = worlds.one_client(rewards, candidates)
        for name, policy, loses, limit in (
            ("epsilon-greedy, epsilon 0.05", policies.EpsilonGreedy(0.05), 0.05 * world.exploration_cost, ""),
            *(
                (
                    f"FALCON, mu {mu}, gamma {gamma}",
                    policies.InverseGapWeighting(mu, gamma),
                    bounds.inverse_gap_floor(world.rewards, world.contexts, mu, gamma),
                    f"{(actions - 1) / gamma:.4f}",
                )
                for mu, gamma in ((actions, 100), (actions, 1000), (actions, 5000))
            ),
        ):
            played = _last(world, _constant(policy), 20000, runs, generator)
            rows.append([str(actions), name, told(over_seeds(played)), f"{loses:.4f}", limit])
    head = ["K", "exploration", "regret measured", "calculated", "(K - 1) / gamma"]
    return Found({"constants": markdown(head, rows)})


def inexact_oracle(scale: Scale) -> Found:
    """Measures the greedy part's floor under an oracle that stops early, and FALCON's whole, beside the bounds."""
    # So many samples that no run is right by luck: a floor is what is left then.
    generator, runs, samples, periods = scale.draws_of(12), scale.runs(4), 100_000_000, 6
    actions, epsilon = 4, 0.1
    rows, curves = [], []
    errors = [10.0**power for power in (-5, -4.5, -4, -3.5, -3)]
    ways = ("epsilon-greedy at its worst gap", "FALCON at epsilon-greedy's", "FALCON at its worst gap")
    measured: dict[str, list[np.ndarray]] = {name: [] for name in ways}
    whole: list[np.ndarray] = []
    for fed_opt in errors:
        for name in ways:
            # The gap just below what the rarest action's estimate may be wrong by.
            seen = epsilon if name.startswith("eps") or name.endswith("greedy's") else 1.0
            world = worlds.hidden_best(actions, 0.9 * np.sqrt(actions * fed_opt / seen))
            policy = (
                _constant(policies.EpsilonGreedy(epsilon))
                if name.startswith("eps")
                else _falcon(world, samples, fed_opt, periods)
            )
            # Of the best action alone, the first model thinks nothing.
            first = world.rewards * (world.rewards < world.rewards.max())
            played = simulation.play(
                world,
                policy,
                oracles.StoppedEarly(fed_opt),
                first,
                simulation.Sampling(samples),
                periods,
                runs,
                generator,
            )
            measured[name].append(findings.by_seed(played.after[-1], SEEDS))
        whole.append(findings.by_seed(played.whole[-1], SEEDS))  # Of the last way.
    for at, fed_opt in enumerate(errors):
        rows.append(
            [
                f"{fed_opt:.1e}",
                told(intervals.of_mean(list(measured[ways[0]][at]))),
                f"{bounds.greedy_regret(actions, epsilon, fed_opt):.4f}",
                *(told(intervals.of_mean(list(found[at]))) for found in (measured[ways[1]], measured[ways[2]], whole)),
                f"{bounds.falcon_regret(actions, fed_opt, np.sqrt(2)):.4f}",
            ]
        )
    panel = "what an inexact oracle leaves, against epsilon_fed-opt"
    for name in (ways[0], ways[2]):
        curves.append(Curve(panel, name, errors, np.mean(measured[name], axis=1)))
    limits = [bounds.greedy_regret(actions, epsilon, one) for one in errors]
    curves.append(Curve(panel, "bound sqrt(2K epsilon_fed-opt / epsilon)", errors, limits, is_bound=True))
    head = ["epsilon_fed-opt", ways[0], "its bound", *ways[1:], "its whole regret there", "sqrt(2K epsilon_fed-opt)"]
    fitted = findings.loglog(np.array(errors), np.array(measured[ways[0]]).T)
    constant = max(
        found.mean() / bounds.falcon_regret(actions, one, 1) for found, one in zip(whole, errors, strict=True)
    )
    words = {"inexact": markdown(head, rows), "inexact_slope": slope(fitted), "falcon_constant": f"{constant:.2f}"}
    return Found(words, curves)


def regret_of_parts(scale: Scale) -> Found:
    """Checks that the whole regret is (1 - epsilon) of the greedy part's and epsilon E[max f* - mean f*]."""
    generator, epsilon = scale.draws_of(13), 0.1
    world = worlds.spread_gaps(8, _ACTIONS, 0.4)
    predicted = generator.random((100, *world.rewards.shape))
    whole = regret.of_policy(world, regret.probabilities(policies.EpsilonGreedy(epsilon), predicted))
    parts = (1 - epsilon) * regret.of_greedy(world, predicted) + epsilon * world.exploration_cost
    return Found({"parts_apart": f"{np.abs(whole - parts).max():.0e}"})
