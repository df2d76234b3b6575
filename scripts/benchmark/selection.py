"""Measures client selection: rounds, the same steps in plain TensorFlow, and selectors of a large population.

Data is generated in the shapes of Synthetic(1,1) and Fashion-MNIST, so no file is needed. Times are medians of
alternating rounds, so that a drift of the machine's speed affects both.
"""

import concurrent.futures
import os
import statistics
from typing import Any

from data.errors import UsageError
from optimization.study import cli, frame
from scripts.benchmark import measuring


def measure(settings: cli.Settings) -> dict[str, Any]:
    """Measures selectors, and rounds with them.

    Raises:
      UsageError: If the cohort is larger than the population.
    """
    if settings.cohort > settings.population:
        raise UsageError(f"--cohort={settings.cohort} clients cannot be chosen from {settings.population}.")
    selection = _selection(settings.population, settings.cohort, settings.rounds)

    from optimization.runtime import worker

    worker.start()
    return {
        "selection_milliseconds": selection,
        "synthetic": _synthetic(settings.rounds),
        "fashion_mnist": _fashion_mnist(settings.rounds),
    }


def _selection(population: int, cohort: int, rounds: int) -> dict[str, float]:
    """Median milliseconds of `candidates` and `select` together, by selector, after losses were observed."""
    import numpy as np

    from bandits.client_selection import run_client_selection
    from optimization.selection.selectors import LocalLosses
    from optimization.study import selector_flags

    study = run_client_selection.STUDY
    settings = frame.flag_set(study).parse(["benchmark"])
    sizes = np.random.default_rng(0).lognormal(4, 2, population).astype(int) + 50
    measured = {}
    for name in selector_flags.SELECTORS:
        selector = selector_flags.options(settings.replace(client_selection=name)).build(sizes, cohort)
        state = selector.initial_state()
        polls: list[float] = []
        selections: list[float] = []
        for round_num in range(rounds):
            generator = np.random.default_rng(round_num)
            polled = measuring.timed(polls, selector.candidates, state, generator)
            if len(polled):
                state = selector.observe_poll(state, polled, np.ones(len(polled)))
            chosen = np.unique(measuring.timed(selections, selector.select, state, generator))
            ones = np.ones(len(chosen))
            state = selector.observe(state, chosen, LocalLosses(ones, ones))
        measured[name] = round(1000 * statistics.median(map(sum, zip(polls, selections, strict=True))), 1)
    return measured


def _rounds(*flags: str):
    """Task and rounds of a run of the study with these flags."""
    from bandits.client_selection import experiment, run_client_selection

    study = run_client_selection.STUDY
    (settings,) = frame.plan(study, frame.flag_set(study).parse(["benchmark", *flags]))
    options = study.options(settings)
    task = study.open(options)
    return task, experiment.SelectionRounds(options, task)


def _synthetic(rounds: int) -> dict[str, float]:
    """Median seconds of a round of Synthetic(1,1) with three clients, and of an evaluation."""
    measured = {}
    for name in ("ucb_cs", "pow_d"):
        _, run = _rounds(f"--client_selection={name}", "--partition_seed=1")
        progress, _ = run.run_round(run.initial_state(), 1)
        run.evaluate(progress)
        times: list[float] = []
        evaluations: list[float] = []
        for round_num in range(2, rounds + 2):
            progress, _ = measuring.timed(times, run.run_round, progress, round_num)
            measuring.timed(evaluations, run.evaluate, progress)
        measured[f"{name}_seconds_per_round"] = round(statistics.median(times), 4)
        measured["seconds_per_evaluation"] = round(statistics.median(evaluations), 4)
    return measured


def _fashion_mnist(rounds: int) -> dict[str, float]:
    """Median seconds of a round of three clients and 100 steps, and of the same steps without TFF."""
    import numpy as np
    import tensorflow as tf

    from optimization import supervised

    cores = len(os.sched_getaffinity(0))
    flags = ("--task_type=fashion_mnist", "--random_data", "--partition_examples=600")
    task, run = _rounds(*flags, "--client_batch_size=64", "--client_steps_per_round=100")
    work = run.work
    examples = [one._replace(features=task.normalize(one.features)) for one in map(task.clients.load, range(3))]
    inputs = supervised.inputs(examples, np.arange(3), 0, 1, 0.005, weighs_examples=False)
    definition, rounds_of_three = run.definition(work, 3), run.mean_rounds(work, 3)
    state = rounds_of_three.initialize()
    weights = tuple(tf.constant(weight) for weight in state.weights)
    trainers = [tf.function(definition.client_round()) for _ in range(cores)]
    tensors = [tf.nest.map_structure(tf.constant, one) for one in inputs]

    def one_after_another() -> None:
        for one in tensors:
            trainers[0]((), weights, one)

    with concurrent.futures.ThreadPoolExecutor(cores) as pool:

        def as_many_as_cores() -> None:
            shares = [tensors[core::cores] for core in range(cores)]
            list(pool.map(lambda core: [trainers[core]((), weights, one) for one in shares[core]], range(cores)))

        ways = {
            "seconds_per_round": lambda: rounds_of_three.next(state, inputs),
            "plain_tensorflow_one_client_after_another": one_after_another,
            "plain_tensorflow_as_many_clients_as_cores": as_many_as_cores,
        }
        return measuring.seconds_in_turns(ways, rounds)
