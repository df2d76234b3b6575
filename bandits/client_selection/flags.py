"""Flags of `run_client_selection`, and every check that needs no data and no TensorFlow."""

import itertools
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from data.errors import UsageError
from data.tasks import registry
from optimization.study import cli, presets, run_folder, selector_flags, server_flags, task_flags, worker_flags

_USAGE = """
Which clients should train? Federated training whose clients are chosen at random or by their losses.

  run_client_selection                                    # Synthetic(1,1), UCB-CS
  run_client_selection --client_selection=rand,pow_d,ucb_cs --clients_per_round=1,2 --repeat=3
  run_client_selection --preset=figure_1                  # a published study, with its figures and table

Several selectors or cohort sizes, separated by commas, are compared: each runs in a folder of its own, and all are
drawn together. Where a default is missing here, it is the task's own; config.json in a run's folder records all values.
"""

PRESETS = pathlib.Path(__file__).parent / "presets"


class Plan(NamedTuple):
    """What a command plays.

    Attributes:
      runs: Flags of each selector's, cohort size's and seed's run.
      folder: Folder of all of them.
    """

    runs: Sequence[cli.Settings]
    folder: str


def define() -> cli.FlagSet:
    """Returns the flags of `run_client_selection`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("What is studied")
    presets.define(flags)
    task_flags.define_choice(flags, default="synthetic")
    flags.choice(
        "variant",
        "paper",
        ["paper", "reference_code"],
        "for tasks of the contextual bandits' study: whose text counts where it and its program differ",
    )
    flags.integer("seed", 0, "seed of every draw", high=2**32 - 1)

    flags.group("Client selection")
    known = "; ".join(f"{name}, {entry.help}" for name, entry in selector_flags.SELECTORS.items())
    flags.text("client_selection", "ucb_cs", f"how a round's clients are chosen, one or several of: {known}")
    flags.text("clients_per_round", "3", "clients in a cohort, m, one or several")
    selector_flags.define(flags)

    flags.group("Training")  # Cho et al. 2020, section IV: logistic regression on Synthetic(1,1).
    flags.integer("total_rounds", 800, "rounds", low=1)
    flags.integer("client_batch_size", 50, "examples of a mini-batch, b", low=1)
    flags.integer("client_steps_per_round", 30, "mini-batch steps of a client in a round, tau", low=1)
    flags.number("client_learning_rate", 0.05, "learning rate on the client, eta", above=True)
    flags.text("learning_rate_drops", None, "rounds, separated by commas, after which it is multiplied")
    flags.number("learning_rate_factor", 0.5, "by this number", high=1.0, above=True)
    flags.belong("learning_rate_factor", learning_rate_drops=True)
    flags.choice("client_weighting", "uniform", ["uniform", "num_examples"], "weight of a client in the mean")
    takes_mean = "its learning rate; sgd with 1 takes the mean model"
    server_flags.define(flags, "sgd", learning_rate=1.0, learning_rate_help=takes_mean, above=True)
    flags.integer("max_examples_per_client", None, "cap on a client's examples, a seeded choice; 0 for none")

    task_flags.define_data(flags)
    flags.switch("resplit", False, "make the clients anew for each seed: --partition_seed is then --seed")
    flags.belong("partition_seed", resplit=False)

    flags.group("Output")
    flags.path("root_output_dir", "runs", "folder of all runs")
    flags.folder("experiment_name", "name of this run's folder (default: client_selection_task_selector)")
    flags.integer("repeat", 1, "runs with consecutive seeds, in folders NAME/seed_N", low=1)
    flags.integer("rounds_per_eval", 5, "rounds between evaluations; 0 for only the last")
    flags.integer("eval_batch_size", 4096, "examples of an evaluation batch", low=1)
    flags.integer("max_eval_clients", 1000, "most clients whose losses are evaluated, a seeded choice; 0 for all")
    flags.integer("max_validation_samples", 10000, "most held-out examples; 0 for all")
    flags.integer("rounds_per_checkpoint", 100, "rounds between checkpoints; 0 for only the last")
    run_folder.define(flags)
    worker_flags.define(flags)
    return flags


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in the task's defaults and checks flags against each other.

    Raises:
      UsageError: On a flag without effect, or values that do not go together.
    """
    names = _words("client_selection", settings.client_selection)
    for name in names:
        if name not in selector_flags.SELECTORS:
            raise UsageError(f"--client_selection={name} is not among {', '.join(selector_flags.SELECTORS)}.")
    settings = settings.settled()
    worker_flags.addresses(settings)
    if settings.resplit and "partition_seed" not in registry.TASKS[settings.task_type].options:
        raise UsageError(f"--resplit has no effect with --task_type={settings.task_type}, whose clients are given.")
    settings = task_flags.resolve(settings)
    numbers("clients_per_round", settings.clients_per_round)
    numbers("learning_rate_drops", settings.learning_rate_drops)
    top = settings.preset or f"client_selection_{settings.task_type}_{'_'.join(names)}"
    return settings.filled({"experiment_name": top})


def plan(settings: cli.Settings) -> Plan:
    """Returns the runs to play.

    Raises:
      UsageError: See `resolve`.
    """
    settings = resolve(settings)
    names = _words("client_selection", settings.client_selection)
    cohorts = numbers("clients_per_round", settings.clients_per_round)
    top = settings.experiment_name
    runs = []
    for cohort, name in itertools.product(cohorts, names):
        for seed in cli.seeds(settings):
            folder = top
            folder += f"/m_{cohort}" if len(cohorts) > 1 else ""
            folder += f"/{name}" if len(names) > 1 else ""
            folder += f"/seed_{seed}" if settings.repeat > 1 else ""
            one = {"client_selection": name, "clients_per_round": cohort, "seed": seed, "repeat": 1}
            if settings.resplit:
                one["partition_seed"] = seed
            runs.append(settings.replace(**one, experiment_name=folder).with_own_defaults())
    return Plan(runs, f"{settings.root_output_dir}/{top}")


def numbers(flag: str, text: str | None) -> list[int]:
    """Returns the whole numbers of a flag, separated by commas.

    Raises:
      UsageError: If one is none, or below 1.
    """
    if text is None:
        return []
    _words(flag, text)
    return cli.whole_numbers(flag, text)


def _words(flag: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if len(set(words)) < len(words) or "" in words:
        raise UsageError(f"--{flag}={text} must be different values, separated by commas.")
    return words
