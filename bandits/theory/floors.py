"""The whole regret: what exploring costs for ever, schedules that let it end, and what an inexact oracle leaves."""

from collections.abc import Callable

import numpy as np

from bandits import policies, schedules
from bandits.results.tables import markdown
from bandits.theory import bounds, environments, findings, oracles, regret, simulation
from bandits.theory.findings import Curve, Findings, Scale
from bandits.theory.rates import DELTA

_ACTIONS = 5
_PERIODS = 8
_EDGE = 0.5


def _falcon(
    environment: environments.FiniteEnvironment, samples: int, fed_opt: float = 0.0, periods: int = _PERIODS
) -> Callable[[int], policies.Policy]:
    """FALCON with the schedule of its proof; mu is K."""
    term = schedules.complexity(environment.log_class_size, DELTA, periods)

    def policy(period: int) -> policies.Policy:
        gamma = schedules.falcon_gamma(environment.num_actions, term, samples * (period - 1), fed_opt)
        return policies.InverseGapWeighting(environment.num_actions, gamma)

    return policy


def schedules_end_it(scale: Scale) -> Findings:
    """Measures the whole regret of constant and falling epsilons, and of FALCON, at their worst gaps."""
    generator, runs = scale.draws_of(10), scale.runs(100)
    totals = np.array([2**power for power in range(12, 24, 2)])
    measured: dict[str, list[np.ndarray]] = {"epsilon = 0.1": [], "epsilon = (K ln(.)/(nI))^(1/3)": [], "FALCON": []}
    for total in totals:
        samples = int(total) // _PERIODS
        term = schedules.complexity(environments.costly_exploration(_ACTIONS, 0.1).log_class_size, DELTA, _PERIODS)
        third = bounds.third_root_epsilon(_ACTIONS, term, float(total))
        gaps = [_EDGE * np.sqrt(_ACTIONS / (seen * total)) for seen in (0.1, third, 1.0)]
        for regrets, epsilon in zip(measured.values(), (0.1, third, None), strict=True):
            by_gap = []
            for gap in gaps:
                environment = environments.costly_exploration(_ACTIONS, gap)
                acting: simulation.Policies
                acting = policies.EpsilonGreedy(epsilon) if epsilon else _falcon(environment, samples)
                whole = simulation.simulate(environment, acting, samples, _PERIODS, runs, generator).whole[-1]
                by_gap.append(findings.by_seed(whole))
            regrets.append(max(by_gap, key=np.mean))
    rows, curves = [], []
    for name, regrets in measured.items():
        together = np.array(regrets)
        curves.append(Curve(findings.WHOLE, name, totals.astype(float), together))
        fitted = findings.slope(findings.loglog(totals.astype(float), together.T))
        rows.append([name, *(findings.mean(regrets[at], 2) for at in (0, -1)), fitted])
    floor = 0.1 * environments.costly_exploration(_ACTIONS, 0.0).exploration_cost
    curves.append(Curve(findings.WHOLE, "floor of epsilon = 0.1", totals.astype(float), np.full(len(totals), floor)))
    head = ["exploration", f"regret, nI = {totals[0]:,}", f"nI = {totals[-1]:,}", "slope"]
    return Findings({"schedules": markdown(head, rows), "fixed_floor": f"{floor:.4f}"}, curves)


def constant_parameters(scale: Scale) -> Findings:
    """Measures what constant parameters lose once all is learnt, beside what they must."""
    generator, runs = scale.draws_of(11), scale.runs(20)
    rows = []
    for actions in (10, 50):
        rewards = np.eye(actions)[:1] * 0.9 + 0.05  # As in classification: one action is right.
        environment = environments.one_client(rewards, np.eye(actions)[None] * 0.9 + 0.05)
        settings: list[tuple[str, policies.Policy, float, str]] = [
            ("epsilon-greedy, epsilon 0.05", policies.EpsilonGreedy(0.05), 0.05 * environment.exploration_cost, "")
        ]
        for gamma in (100, 1000, 5000):
            floor = bounds.inverse_gap_floor(environment.rewards, environment.contexts, actions, gamma)
            falcon = policies.InverseGapWeighting(actions, gamma)
            settings.append((f"FALCON, mu {actions}, gamma {gamma}", falcon, floor, f"{(actions - 1) / gamma:.4f}"))
        for name, policy, floor, limit in settings:
            whole = simulation.simulate(environment, policy, 20000, _PERIODS, runs, generator).whole[-1]
            rows.append([str(actions), name, findings.mean(whole), f"{floor:.4f}", limit])
    head = ["K", "exploration", "regret measured", "calculated", "(K - 1) / gamma"]
    return Findings({"constants": markdown(head, rows)})


def inexact_oracle(scale: Scale) -> Findings:
    """Measures the greedy part's floor under an oracle that stops early, and FALCON's whole, beside the bounds."""
    # So many samples that no run is right by luck: a floor is what is left then.
    generator, runs, samples, periods = scale.draws_of(12), scale.runs(4), 100_000_000, 6
    actions, epsilon = 4, 0.1
    errors = [10.0**power for power in (-5, -4.5, -4, -3.5, -3)]
    greedy, other, worst = "epsilon-greedy at its worst gap", "FALCON at epsilon-greedy's", "FALCON at its worst gap"
    measured: dict[str, list[np.ndarray]] = {greedy: [], other: [], worst: []}
    whole: list[np.ndarray] = []  # FALCON's at its worst gap.
    rows, curves = [], []
    for fed_opt in errors:
        for name, seen in ((greedy, epsilon), (other, epsilon), (worst, 1.0)):
            # The gap just below what the rarest action's estimate may be wrong by.
            environment = environments.hidden_best(actions, 0.9 * np.sqrt(actions * fed_opt / seen))
            falcon = _falcon(environment, samples, fed_opt, periods)
            regrets = simulation.simulate(
                environment,
                policies.EpsilonGreedy(epsilon) if name == greedy else falcon,
                samples,
                periods,
                runs,
                generator,
                oracle=oracles.StoppedEarly(fed_opt),
                # The first model predicts 0 of the best action alone.
                first=environment.rewards * (environment.rewards < environment.rewards.max()),
            )
            measured[name].append(findings.by_seed(regrets.after[-1]))
        whole.append(findings.by_seed(regrets.whole[-1]))
        rows.append(
            [
                f"{fed_opt:.1e}",
                findings.mean(measured[greedy][-1]),
                f"{bounds.greedy_regret(actions, epsilon, fed_opt):.4f}",
                *(findings.mean(regret[-1]) for regret in (measured[other], measured[worst], whole)),
                f"{bounds.falcon_regret(actions, fed_opt, np.sqrt(2)):.4f}",
            ]
        )
    for name in (greedy, worst):
        curves.append(Curve(findings.LEFT, name, errors, np.array(measured[name])))
    limits = [bounds.greedy_regret(actions, epsilon, one) for one in errors]
    curves.append(Curve(findings.LEFT, "bound sqrt(2K epsilon_fed-opt / epsilon)", errors, limits))
    head = ["epsilon_fed-opt", greedy, "its bound", other, worst, "its whole regret there", "sqrt(2K epsilon_fed-opt)"]
    fitted = findings.loglog(np.array(errors), np.array(measured[greedy]).T)
    constant = max(
        regrets.mean() / bounds.falcon_regret(actions, fed_opt, 1)
        for regrets, fed_opt in zip(whole, errors, strict=True)
    )
    words = {
        "inexact": markdown(head, rows),
        "inexact_slope": findings.slope(fitted),
        "falcon_constant": f"{constant:.2f}",
    }
    return Findings(words, curves)


def regret_of_parts(scale: Scale) -> Findings:
    """Checks that the whole regret is (1 - epsilon) of the greedy part's and epsilon E[max f* - mean f*]."""
    generator, epsilon = scale.draws_of(13), 0.1
    environment = environments.spread_gaps(8, _ACTIONS, 0.4)
    predicted = generator.random((100, *environment.rewards.shape))
    whole = regret.of_policy(environment, regret.probabilities(policies.EpsilonGreedy(epsilon), predicted))
    parts = (1 - epsilon) * regret.of_greedy(environment, predicted) + epsilon * environment.exploration_cost
    return Findings({"parts_apart": f"{np.abs(whole - parts).max():.0e}"})
