"""Where clients differ: what the exact oracle does not notice, and what local steps and few clients cost."""

import numpy as np

from bandits import policies
from bandits.results.tables import markdown
from bandits.theory import federated, findings, oracles, simulation, worlds
from bandits.theory.findings import SEEDS, Findings, Scale
from optimization import client_work

_HETEROGENEITIES = (0.0, 0.5, 1.0)


def few_clients(scale: Scale) -> Findings:
    """Measures regret after n samples of m clients, n / m each: of so many clients alike, and ever less alike."""
    generator, runs, samples = scale.draws_of(30), scale.runs(50), 4000
    base = worlds.spread_gaps(40, 5, 0.4)
    rows = []
    for clients in (None, 400, 100, 20, 4, 1):
        row = []
        for heterogeneity in _HETEROGENEITIES:
            world, policy = worlds.split(base, 40, heterogeneity), policies.EpsilonGreedy(0.2)
            regrets = simulation.simulate(world, policy, samples, 1, runs, generator, clients=clients)
            row.append(findings.mean(regrets.after[-1]))
        rows.append([f"{clients:,}" if clients else "n, each sample a client's of its own", *row])
    head = ["m", "clients alike", "half of their contexts their own", "disjoint supports"]
    return Findings({"few": markdown(head, rows)})


def local_steps(scale: Scale) -> Findings:
    """Measures epsilon_fed-opt of federated averaging against local steps and heterogeneity."""
    generator, runs, rate, clients, samples = scale.draws_of(31), scale.runs(5), 0.1, 10, 60
    fan = worlds.fan(3)
    words, logs = {}, []
    for heterogeneity in _HETEROGENEITIES:
        world = worlds.LinearWorld(fan.coefficients, clients, heterogeneity)
        log = federated.clients_samples(world, samples, runs, generator)
        logs.append((log, oracles.Moments.of(*log, 3)))
    start = np.zeros((runs, *fan.coefficients.shape))
    for name, rounds in (("steps", 30), ("steps_long", 3000)):
        rows = []
        for steps in (1, 4, 16, 64):
            averaging = federated.Averaging(rounds, steps, rate)
            left = [federated.fed_opt(moments, averaging(moments, start)) for _, moments in logs]
            rows.append([str(steps), *(findings.mean(fed_opt, 2) for fed_opt in left)])
        words[name] = markdown(["local steps", "clients alike", "half their own", "disjoint supports"], rows)
    # The studies' own training, on the same samples: the same numbers but for 32 bits.
    (features, actions, rewards), moments = logs[-1]
    fit = federated.Trained((30,), client_work.LocalSgd(rate, samples, epochs=4)).build(3, 3)
    averaged = federated.Averaging(30, 4, rate)(moments, start)
    apart = [
        np.abs(fit(features[run], actions[run], rewards[run], scale.seed)[0] - averaged[run]).max() for run in range(2)
    ]
    return Findings(words | {"trained_apart": f"{max(apart):.0e}"})


def own_training(scale: Scale) -> Findings:
    """Measures our own training, with mini-batches, as the oracle: what it leaves, and the greedy part's regret."""
    generator, clients, samples = scale.draws_of(32), 10, 60
    fan, rows, stops = worlds.fan(3), [], (5,) if scale.quick else (5, 10, 20, 40)
    fit = federated.Trained(stops, client_work.LocalSgd(0.1, 16, epochs=1)).build(3, 3)
    for name, heterogeneity in (("alike", 0.0), ("disjoint supports", 1.0)):
        world = worlds.LinearWorld(fan.coefficients, clients, heterogeneity)
        features, actions, rewards = federated.clients_samples(world, samples, SEEDS, generator)
        moments = oracles.Moments.of(features, actions, rewards, 3)
        fresh = fan.features(np.zeros(20000, int), generator)
        fitted = np.stack([fit(features[run], actions[run], rewards[run], run) for run in range(SEEDS)], axis=1)
        models = dict(zip(map(str, stops), fitted, strict=True)) | {"exact": oracles.least_squares(moments.pooled())}
        for rounds, coefficients in models.items():
            measured = federated.fed_opt(moments, coefficients), fan.greedy_regret(fresh, coefficients)
            rows.append([name, rounds, *(findings.mean(values, 2) for values in measured)])
    return Findings({"own": markdown(["clients", "rounds", "epsilon_fed-opt", "regret"], rows)})
