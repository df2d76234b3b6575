"""Privacy accounting of the phases of a bandit run, and the clients that their models were trained on.

A run's `privacy.json` records the mechanism, a digest of the clients, and which of them trained the model. If another
run starts from that model, these records show whether both runs have the same clients.
"""

import dataclasses
import functools
import hashlib
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from bandits.options import BanditOptions, Phase
from data import tasks
from data.errors import UsageError
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.privacy import calibration, mechanisms
from optimization.study import aggregation_flags, run_folder, selector_flags

# Task options that do not define the clients: options of the model, for example, and paths of files, whose contents the
# checksum covers.
_NOT_OF_CLIENTS = {"data_file", "missing_values", "public_statistics", "model", "hidden", "norm", "init_labels"}
_NOT_OF_CLIENTS |= {"ignore_columns", "category_columns", "text_columns", "action_prices", "reward_bounds"}
_NOT_OF_CLIENTS |= {"decimal", "max_table_rows", "data", "eval_data", "actions"}


@dataclasses.dataclass(frozen=True)
class Trained:
    """The private training behind a model.

    Attributes:
      mechanism: The accounted mechanism.
      rounds: Number of rounds.
      checksum: Digest of the population; empty if unknown.
      clients: Ranges [start, end) of the training clients in that population.
      simulated: Mechanism of the planned population, if the run simulates training on it; otherwise None.
    """

    mechanism: mechanisms.Mechanism
    rounds: int
    checksum: str = ""
    clients: tuple[tuple[int, int], ...] = ()
    simulated: mechanisms.Mechanism | None = None

    def is_apart(self, checksum: str, clients: range) -> bool:
        """Whether none of these clients of a population trained the model; False if this is not known."""
        if not self.clients or self.checksum != checksum:
            return False
        return all(end <= clients.start or clients.stop <= start for start, end in self.clients)

    def report(self, rounds: int) -> dict[str, Any]:
        """Contents of `privacy.json` after some rounds."""
        report = self.mechanism.report(rounds) | {"population": {"checksum": self.checksum, "clients": self.clients}}
        if self.simulated:
            planned = self.simulated.report(rounds)
            there = planned["summary"].removeprefix("Privacy: ")
            summary = (
                f"{report['summary']}\nIn the planned population of {self.simulated.population:,} clients: {there}"
            )
            report |= {"planned_population": planned, "summary": summary}
        return report


def population_checksum(options: TaskOptions, task: tasks.Task) -> str:
    """Digest of the clients, which are defined by the data and by the flags that partition it."""
    read = registry.TASKS[options.task_type].options - _NOT_OF_CLIENTS
    if options.task_type == "tabular":  # Digests of earlier runs do not cover these options.
        read -= {"vocabulary_size", "max_words", "text_normalisation"}
        read -= set() if options.partition_column else {"partition_column", "partition_alpha"}
    made_by = {name: getattr(options, name) for name in sorted(read)}
    described = [options.task_type, task.checksum, made_by, list(task.clients.client_ids)]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]


def of_initial_model(chosen: BanditOptions) -> Trained | None:
    """Private training behind an initial model from another run; None without such a model, or if it is public."""
    if not chosen.initial_model_path or chosen.is_initial_model_public:
        return None
    path = run_folder.find_model(chosen.initial_model_path).parent.parent / run_folder.PRIVACY_FILE
    return Trained(*mechanisms.load(path), *_recorded_clients(path))


def _recorded_clients(path: pathlib.Path) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The checksum and the clients that `Trained.report` recorded; empty if unknown."""
    try:
        population = json.loads(path.read_text())["population"]
        ranges = tuple((int(start), int(end)) for start, end in population["clients"])
        return str(population["checksum"]), ranges
    except (OSError, ValueError, KeyError, TypeError):
        return "", ()


@functools.lru_cache(maxsize=1024)
def mechanism(phase: Phase) -> mechanisms.Mechanism:
    """Mechanism that accounts for a phase's noise, for a model with one parameter and without an earlier phase.

    Raises:
      UsageError: If the flags do not fit the population.
    """
    count = len(phase.population)
    own = aggregation_flags.mechanism(phase.aggregation, phase.cohorts, count, 1, voided=_voids(phase))
    return dataclasses.replace(own, voided="the server has the clients' logs") if phase.is_pooled else own


def _voids(phase: Phase) -> str:
    return phase.reset.voids or selector_flags.voids(phase.selection)


def plan(phase: Phase, dimension: int) -> calibration.Plan | None:
    """Plan for the privacy of a phase; None if it releases nothing, or the flags already determine the noise.

    Args:
      phase: The phase.
      dimension: Number of parameters of the model.

    Raises:
      UsageError: If no noise can reach the target epsilon, or if the flags do not fit the population.
    """
    if not phase.releases:
        return None
    if phase.aggregation.target_epsilon is not None and (reason := _voids(phase)):
        raise UsageError(f"--target_epsilon cannot be reached with any noise, because {reason}.")
    return aggregation_flags.plan(
        phase.aggregation, phase.cohorts, len(phase.population), dimension, phase.total_rounds
    )


def with_planned_noise(phase: Phase, mechanism: mechanisms.Mechanism) -> Phase:
    """Copy of a phase with the noise and cohorts of its plan."""
    aggregation, cohorts = aggregation_flags.planned(phase.aggregation, phase.cohorts, len(phase.population), mechanism)
    return dataclasses.replace(phase, aggregation=aggregation, cohorts=cohorts)


def of_phase(
    options: TaskOptions,
    task: tasks.Task,
    phase: Phase,
    dimension: int,
    before: Trained | None,
    apart_from: Sequence[str] = (),
) -> Trained:
    """Returns the private training behind a phase's model after all of the phase's rounds.

    Args:
      options: Options of the task.
      task: The task.
      phase: The phase.
      dimension: Number of parameters of the model.
      before: The private training behind the initial model; None if no private clients trained it.
      apart_from: Descriptions of other information about these clients that the run reveals without noise.

    Raises:
      UsageError: If the flags do not fit the population.
    """
    count = len(phase.population)
    if not phase.releases:
        if before is None:
            return Trained(mechanisms.Mechanism("none", 0.0, population=count, cohort=phase.cohorts.size), 0)
        shown = (*before.mechanism.apart_from, *apart_from)
        return dataclasses.replace(before, mechanism=dataclasses.replace(before.mechanism, apart_from=shown))
    checksum, own_mechanism = population_checksum(options, task), mechanism(phase)
    try:
        accounted = dataclasses.replace(
            own_mechanism,
            pretraining=before.mechanism if before else None,
            pretraining_rounds=before.rounds if before else 0,
            pretraining_disjoint=before is not None and before.is_apart(checksum, phase.population),
            apart_from=(*task.private_statistics, *apart_from, *phase.cohorts.availability.revealed),
            dimension=dimension if own_mechanism.kind == "ddp" else own_mechanism.dimension,
        )
        accounted.epsilon(1)  # Some invalid combinations of flags are only detected here.
    except ValueError as error:
        raise UsageError(f"The privacy loss of {phase.label} and its initial model: {error}") from error
    participants = (phase.population.start, phase.population.stop)
    if before is None:
        ranges: tuple[tuple[int, int], ...] = (participants,)
    else:  # Without a common population, there is no way to tell which clients are the same.
        ranges = (*before.clients, participants) if before.clients and before.checksum == checksum else ()
    is_simulated = aggregation_flags.simulated(phase.aggregation, count, phase.cohorts.size)
    planned = phase.aggregation.plan if is_simulated else None
    if planned:
        planned = dataclasses.replace(planned, apart_from=accounted.apart_from)
    return Trained(accounted, phase.total_rounds, checksum, ranges, planned)
