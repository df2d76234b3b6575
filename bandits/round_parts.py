"""The clients and the optional parts of a round.

`experiment.BanditRounds` runs a round. Optional features are implemented as parts, which `process_factory.parts` lists:
drifting and delayed rewards, resets, reports, and accounting. A part can change the server's state before a round,
change the input of each client, and add metrics after the round. The state of a part is stored in checkpoints.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits import metrics, object_flags, policies, process, resets
from bandits.options import REPLAY_ROWS, Phase
from data import clients, files, keys
from data.errors import Failure
from data.reward_bounds import RewardBounds
from optimization import aggregators, fed_avg, robust
from optimization.privacy import mechanisms
from optimization.selection import selectors
from optimization.study import payloads, run_folder
from optimization.study.loggers import Callback
from optimization.study.metrics import Metric, mean

_MOST_ZEROS = 0.5  # A warning is printed if a larger share of a robust aggregate is 0.


class Participation(NamedTuple):
    """A client's participation in a round.

    Attributes:
      inputs: The client's input.
      client: The client's position among the task's clients.
      rows: int64 [examples], indices of the examples in the client's data.
    """

    inputs: process.ClientInput
    client: int
    rows: np.ndarray

    def with_inputs(self, **changes: Any) -> "Participation":
        """Returns a copy in which some fields of `inputs` are replaced."""
        return self._replace(inputs=self.inputs._replace(**changes))


class Cohort(NamedTuple):
    """The clients of a round, and how many messages they exchange with the server.

    Attributes:
      participations: The clients that participate.
      inputs: The clients' input to the round, as `FederatedRounds.prepared` returns it.
      downloads: Number of clients that receive models, including those that drop out or are only polled.
      uploads: Number of clients that send an update.
      reports: Number of losses that polled clients report.
    """

    participations: Sequence[Participation]
    inputs: Any
    downloads: int
    uploads: int
    reports: int = 0


Read = Callable[[np.ndarray, int], list[Participation]]  # (positions in the population, round) -> participations.
Prepare = Callable[[list[Participation], int], Any]  # (participations, round) -> their input to the round.


def period(phase: Phase, round_num: int) -> int:
    """Deployment period of a round, from 0."""
    return (round_num - 1) // phase.deploy_every


class FederatedRounds:
    """Rounds that are computed by TFF. Subclasses call TFF differently.

    Attributes:
      loggers: Additional callbacks of a run, which write files of the rounds.
      numbers_clients: Whether `next` takes pairs of a client's input and its number, instead of inputs alone.
      process_of, definition: See `__init__`.
    """

    loggers: Sequence[Callback] = ()
    numbers_clients = False

    def __init__(self, process_of: Callable[[int], Any], definition: Any):
        """Stores the function from a round number to its process, and the definition, a `process.BanditProcess`."""
        self.process_of, self.definition = process_of, definition

    def initialize(self) -> fed_avg.State:
        """Returns the server's state before round 1."""
        return self.process_of(1).initialize()

    def prepared(self, participations: Sequence[Participation], round_num: int) -> Any:
        """Prepares a cohort's input to `next`, possibly while the previous round is still being computed."""
        del round_num
        return [each[:2] if self.numbers_clients else each.inputs for each in participations]

    def next(self, server: Any, inputs: Any, round_num: int) -> tuple[Any, fed_avg.RoundMetrics]:
        """Runs a round: (state, inputs) -> (state, metrics)."""
        return self.process_of(round_num).next(server, inputs)

    def finish(self, server: Any, folder: run_folder.RunFolder) -> Sequence[str]:
        """Returns lines to print after the run."""
        del server
        return run_folder.private_notices(folder.path)


class Round(NamedTuple):
    """A round that was run.

    Attributes:
      round_num: The round, from 1.
      before: The server's state before the round.
      cohort: The clients of the round.
      counts: Measurements of the round.
      row: Metrics of the round so far.
    """

    round_num: int
    before: fed_avg.State
    cohort: Cohort
    counts: fed_avg.RoundMetrics
    row: Mapping[str, Any]


class Part:
    """An optional part of a round. By default, its methods change nothing.

    Attributes:
      columns: Metrics that only runs with this part have.
    """

    columns: Sequence[Metric] = ()

    def initial_state(self) -> Any:
        """Returns the part's state before round 1: arrays whose shapes never change."""
        return ()

    def before(self, own: Any, server: fed_avg.State, round_num: int) -> tuple[Any, fed_avg.State]:
        """Returns the part's state and the server's state at the start of a round."""
        del round_num
        return own, server

    def inputs(self, participation: Participation, round_num: int) -> Participation:
        """Changes a client's participation. May run in another thread before the previous round has ended."""
        del round_num
        return participation

    def started(self, own: Any, participations: Sequence[Participation], round_num: int) -> Sequence[Participation]:
        """Returns the participations of a round that starts, if the part's state changes them; otherwise none."""
        del own, participations, round_num
        return ()

    def after(self, own: Any, ended: Round) -> tuple[Any, Mapping[str, Any]]:
        """Returns the part's state after a round, and the metrics that it adds."""
        del ended
        return own, {}

    def served(self, own: Any, server: fed_avg.State) -> fed_avg.State:
        """Returns the server's state with the model that is evaluated and saved."""
        del own
        return server

    def finish(self, own: Any, server: fed_avg.State, folder: run_folder.RunFolder) -> Sequence[str]:
        """Writes the part's files after the run, and returns lines to print."""
        del own, server, folder
        return ()


@dataclasses.dataclass
class _OfPhase(Part):
    phase: Phase


class Replay(_OfPhase):
    """Rounds that replay a log in order. Each row is used once, so no policy is evaluated on rows it was trained on."""

    def inputs(self, participation: Participation, round_num: int) -> Participation:
        (features, labels), rows = participation.inputs[:2], participation.rows
        offered = np.arange(len(rows))[(round_num - 1) * REPLAY_ROWS : round_num * REPLAY_ROWS]
        features, labels = clients.Examples(features, labels).take(offered)
        return participation.with_inputs(features=features, labels=labels)._replace(rows=rows[offered])


class StaleModels(_OfPhase):
    """Clients that act with the model of a randomly chosen deployment: the latest, or one of those before."""

    def inputs(self, participation: Participation, round_num: int) -> Participation:
        deployment_period = period(self.phase, round_num)
        draw = keys.generator(self.phase.seed, keys.Purpose.DELAY, deployment_period, participation.client)
        return participation.with_inputs(delay=np.int32(draw.integers(self.phase.max_delay + 1)))


@dataclasses.dataclass
class ScheduledExploration(_OfPhase):
    """A policy parameter that changes from one deployment to the next.

    A client with a stale model also uses the policy that was deployed with that model.
    """

    num_actions: int

    def inputs(self, participation: Participation, round_num: int) -> Participation:
        deployment = max(0, period(self.phase, round_num) - int(participation.inputs.delay))
        value = self.phase.scheduled_value(self.num_actions, deployment)
        return participation.with_inputs(scheduled=np.float32(value))


class DriftingRewards(_OfPhase):
    """Rewards that depend on the round in which a client acts."""

    def inputs(self, participation: Participation, round_num: int) -> Participation:
        position = self.phase.drift.at(self.phase.acted_in(round_num), participation.client)
        return participation.with_inputs(environment_position=np.float32(position))


class DelayedRewards(_OfPhase):
    """Rewards that are observed some rounds after the action."""

    def inputs(self, participation: Participation, round_num: int) -> Participation:
        place = period(self.phase, round_num), participation.client, len(participation.rows)
        waited = round_num - self.phase.acted_in(round_num)
        return participation.with_inputs(observed=self.phase.delay.observed(self.phase.seed, *place, waited))


class Halves(_OfPhase):
    """Expected rewards on two halves of each client's examples."""

    def inputs(self, participation: Participation, round_num: int) -> Participation:
        half = clients.second_half(self.phase.seed, participation.client, participation.rows)
        return participation.with_inputs(half=half)

    def after(self, own: Any, ended: Round) -> tuple[Any, Mapping[str, Any]]:
        names = (metrics.HALF_A_REWARD, metrics.HALF_B_REWARD)
        pairs = zip(names, ended.counts.half_rewards, ended.counts.half_examples, strict=True)
        return own, {
            name: mean(np.sum(rewards, dtype=float), int(np.sum(examples))) for name, rewards, examples in pairs
        }


class OwnMetrics(_OfPhase):
    """The user's metrics: sums over the cohort, or quotients of such sums, which are not finite if divided by 0."""

    @property
    def columns(self) -> Sequence[Metric]:  # type: ignore[override]
        return object_flags.metric_columns(self.phase.own_metrics)

    def after(self, own: Any, ended: Round) -> tuple[Any, Mapping[str, Any]]:
        numerators, denominators = np.asarray(ended.counts.own, float).T
        with np.errstate(divide="ignore", invalid="ignore"):
            values = numerators / np.where(np.isnan(denominators), 1, denominators)
        return own, dict(zip(self.columns, values.tolist(), strict=True))


class OwnPolicyState(NamedTuple):
    """Server state for a policy that depends on sums over clients or on the round.

    Attributes:
      pending: Sums since the last deployment, float64 by name.
      deployed: Sums that clients act with, float64 by name.
      counted_in: int64 [clients], the last round in which each client took part; 0 for none.
    """

    pending: dict[str, np.ndarray]
    deployed: dict[str, np.ndarray]
    counted_in: np.ndarray


@dataclasses.dataclass
class OwnPolicy(_OfPhase):
    """The round and the sums over clients that a policy depends on.

    Attributes:
      definition: Definition of the rounds.
      num_clients: Number of the task's clients.
      mechanism: The mechanism that adds noise to the sums, if any.
    """

    definition: process.BanditProcess
    num_clients: int
    mechanism: mechanisms.Mechanism

    def initial_state(self) -> OwnPolicyState:
        zeros = {name: np.zeros(spec.shape) for name, spec in self.definition.sums_spec.items()}
        return OwnPolicyState(zeros, zeros, np.zeros(self.num_clients, np.int64))

    def started(self, own: Any, participations: Sequence[Participation], round_num: int) -> Sequence[Participation]:
        before = period(self.phase, round_num) * self.phase.deploy_every  # Number of rounds before this period.
        summed = (before, round_num - 1) if self.definition.policy.at_deployment == policies.WITHIN else (0, before)
        sums = {name: total.astype(np.float32) for name, total in {**own.deployed, **self._noise(*summed)}.items()}
        state = {policies.ROUND: np.int32(self.phase.acted_in(round_num)), **sums}
        return [
            each.with_inputs(policy_state=state, counted=self._counted(own, each, round_num)) for each in participations
        ]

    def _noise(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Standard deviation of the noise on the sums of rounds first + 1 to last; empty if no noise is added."""
        if self.definition.joint_clip_norm is None:
            return {}
        return {policies.NOISE: np.asarray(self.mechanism.clip_norm * self.mechanism.sum_noise(first, last))}

    def _counted(self, own: OwnPolicyState, participation: Participation, round_num: int) -> np.ndarray:
        """Whether each of a client's interactions is observed for the first time, bool [examples]."""
        phase, client, count = self.phase, participation.client, len(participation.rows)
        acted_in, last = phase.acted_in(round_num), int(own.counted_in[client])

        def observed(at: int) -> np.ndarray:
            if phase.delay.kind == "none":
                return np.ones(count, bool)
            return phase.delay.observed(phase.seed, period(phase, round_num), client, count, at - acted_in)

        new = observed(round_num) & ~(observed(last) & (last >= acted_in))
        return new if own.deployed else np.zeros(0, bool)

    def after(self, own: OwnPolicyState, ended: Round) -> tuple[OwnPolicyState, Mapping[str, Any]]:
        counts, policy = ended.counts, self.definition.policy
        if clipped := sum(int(each) for name, each in dict(counts.statistics_clipped).items() if "count" in name):
            raise Failure(
                f"policy {policy.name}: a secure sum would clip the statistics of {clipped} clients, which exceed "
                f"bound={policy.bound:g}: give the policy a larger bound."
            )
        counted_in, deployed = own.counted_in.copy(), own.deployed
        counted_in[[each.client for each in ended.cohort.participations]] = ended.round_num
        sums = counts.statistics
        if self.definition.joint_clip_norm is not None:  # Means, which are NaN in a round without clients or noise.
            sums = {name: np.nan_to_num(self.mechanism.cohort * mean, nan=0.0) for name, mean in sums.items()}
        pending = {name: total + sums[name] for name, total in own.pending.items()}
        if policy.at_deployment == policies.WITHIN:
            pending = self.initial_state().pending if counts.deployed else pending
            return OwnPolicyState(pending, pending, counted_in), {}
        if counts.deployed:
            kept = deployed if policy.at_deployment != policies.RESTART else {policies.COUNT: deployed[policies.COUNT]}
            deployed = {name: total + kept.get(name, 0) for name, total in pending.items()}
            pending = {name: np.zeros_like(total) for name, total in pending.items()}
        return OwnPolicyState(pending, deployed, counted_in), {}

    def _served(self, own: OwnPolicyState, server: fed_avg.State) -> tuple[Sequence[np.ndarray], policies.Sums]:
        total = {name: sums + own.pending[name] for name, sums in own.deployed.items()}
        total |= self._noise(0, int(server.round_num))
        return self.definition.policy.served(server.weights, own.deployed, total)

    def served(self, own: OwnPolicyState, server: fed_avg.State) -> fed_avg.State:
        return server._replace(weights=tuple(self._served(own, server)[0]))

    def finish(self, own: OwnPolicyState, server: fed_avg.State, folder: run_folder.RunFolder) -> Sequence[str]:
        if own.deployed:
            path = folder.path / run_folder.POLICY_FILE
            path.parent.mkdir(exist_ok=True)  # A run that was stopped has no model yet.
            files.save_arrays(path, dict(self._served(own, server)[1]))
        return ()


class Resets(Part):
    """Restarts the training between two rounds, but keeps the deployed model and the aggregator's state.

    The state holds the losses since the last reset, float64 [resets.MOST_LOSSES]; it is empty without a detector.
    """

    def __init__(self, reset: resets.Reset, bounds: RewardBounds | None, initialize: Callable[[], fed_avg.State]):
        """Stores the options of resets.

        Args:
          reset: Kind and times of the resets.
          bounds: Bounds that map rewards to [0, 1] for detectors; None to use the rewards as they are.
          initialize: Function that returns the server's initial state.
        """
        self._reset, self._bounds, self._initialize = reset, bounds, initialize
        self._watch, self._is_due = resets.Watch(reset), False

    def initial_state(self) -> Any:
        return self._reset.no_losses()

    def before(self, own: Any, server: fed_avg.State, round_num: int) -> tuple[Any, fed_avg.State]:
        self._is_due = self._watch.is_due(round_num, own)
        if not self._is_due:
            return own, server
        first = self._initialize()
        weights = first.weights if self._reset.what == "model" else server.weights
        return self._reset.no_losses(), server._replace(weights=weights, optimizer=first.optimizer)

    def after(self, own: Any, ended: Round) -> tuple[Any, Mapping[str, Any]]:
        reward = ended.row[metrics.ROUND_REWARD]
        reward = float(self._bounds.to_unit(reward)) if self._bounds else reward
        loss = self._reset.loss_of(ended.row[metrics.LOSS], reward)
        return self._watch.noted(own, loss), {metrics.RESET: int(self._is_due)}


@dataclasses.dataclass
class ClientReports(Part):
    """A report of the rewards of each client.

    The state is float64 [clients, 5]: the number of participations; then, for half A and for half B, the number of
    examples and the sum of expected rewards.

    Attributes:
      client_ids: Names of the task's clients, up to the last one that participates.
    """

    client_ids: Sequence[str]

    def initial_state(self) -> np.ndarray:
        return np.zeros((len(self.client_ids), 5))

    def after(self, own: np.ndarray, ended: Round) -> tuple[np.ndarray, Mapping[str, Any]]:
        own = own.copy()
        for inputs, client, _ in ended.cohort.participations:
            halves = zip(ended.counts.half_examples, ended.counts.half_rewards, strict=True)
            own[client] += [1, *(part[inputs.position] for half in halves for part in half)]
        return own, {}

    def finish(self, own: np.ndarray, server: fed_avg.State, folder: run_folder.RunFolder) -> Sequence[str]:
        del server
        folder.write_json(run_folder.CLIENT_REPORT_FILE, self.content(own))
        shown = f"{folder.path / run_folder.CLIENT_REPORT_FILE} and {folder.path / 'checkpoints'}"
        return [f"Keep {shown} private: they hold what each client earned."]

    def content(self, own: np.ndarray) -> dict[str, list]:
        """Content of `private_client_rewards.json`: participants, with mean rewards that are None without examples."""
        took_part = np.flatnonzero(own[:, 0])
        times, examples_a, rewards_a, examples_b, rewards_b = own[took_part].T
        halves = {"half_a": (rewards_a, examples_a), "half_b": (rewards_b, examples_b)}
        return {
            "clients": [self.client_ids[client] for client in took_part],
            "participations": times.astype(int).tolist(),
            "examples": ((examples_a + examples_b) / times).tolist(),
            **{
                half: [total / count if count else None for total, count in zip(rewards.tolist(), counts, strict=True)]
                for half, (rewards, counts) in halves.items()
            },
        }


@dataclasses.dataclass
class Payloads(Part):
    """Sizes of the messages between server and clients.

    Attributes:
      down: Number of bytes that a client receives.
      up: Number of bytes that a client sends; None if it sends its log.
    """

    down: int
    up: int | None

    def after(self, own: Any, ended: Round) -> tuple[Any, Mapping[str, Any]]:
        cohort, up = ended.cohort, self.up
        uploads = cohort.uploads
        if up is None:
            up, uploads = sum(payloads.of_log(each.inputs.features) for each in cohort.participations), 1
        return own, payloads.row(self.down, up, cohort.downloads, uploads, cohort.reports)


@dataclasses.dataclass
class EventTriggered(Part):
    """Number of messages of `size` bytes each, if only some clients of a cohort exchange sums."""

    size: int
    columns = (metrics.MESSAGES,)

    def after(self, own: Any, ended: Round) -> tuple[Any, Mapping[str, Any]]:
        exchanges = int(ended.counts.aggregator) // 2  # Each is an upload and a download.
        return own, {**payloads.row(self.size, self.size, exchanges, exchanges), metrics.MESSAGES: 2 * exchanges}


class Clipping(_OfPhase):
    """The clip norm of a round, and the number of updates that exceeded it."""

    def after(self, own: Any, ended: Round) -> tuple[Any, Mapping[str, Any]]:
        norm = aggregators.clip_norm(self.phase.aggregation, ended.before.aggregator, ended.counts.aggregator)
        clipped = aggregators.clipped_clients(ended.counts.aggregator)
        return own, {metrics.CLIP_NORM: norm, metrics.CLIPPED_CLIENTS: clipped}


class RobustAggregation(Part):
    """The share of the model's coordinates that the cohort's median or trimmed mean leaves unchanged.

    The state is float64 [2]: the sum of the shares, and the number of rounds with clients.
    """

    columns = (metrics.ZERO_SHARE,)

    def initial_state(self) -> np.ndarray:
        return np.zeros(2)

    def after(self, own: np.ndarray, ended: Round) -> tuple[np.ndarray, Mapping[str, Any]]:
        share = float(ended.counts.aggregator[robust.ZERO_SHARE])
        has_clients = bool(ended.cohort.participations)
        return own + np.array([share, 1]) if has_clients else own, {metrics.ZERO_SHARE: share}

    def finish(self, own: np.ndarray, server: fed_avg.State, folder: run_folder.RunFolder) -> Sequence[str]:
        del server, folder
        share = mean(*own)
        line = f"The aggregate was 0 in {share:.1%} of the coordinates (mean over rounds), so these learned nothing."
        cause = "With sparse features or many actions, most clients change only a few coordinates: try the mean."
        return [f"Warning: {line} {cause}" if share > _MOST_ZEROS else line]


@dataclasses.dataclass
class PrivacySpent(_OfPhase):
    """The epsilon spent so far. PLD accounting is as slow as a short round, so it runs only in rounds with evaluations.

    Attributes:
      mechanism: The mechanism that is accounted for.
      length: The phase's `options.Length`, which says when evaluations run.
    """

    mechanism: mechanisms.Mechanism
    length: Any

    def after(self, own: Any, ended: Round) -> tuple[Any, Mapping[str, Any]]:
        if self.mechanism.accountant != "rdp" and not self.length.ends_in_evaluation(ended.round_num):
            return own, {}
        return own, {metrics.EPSILON: self.mechanism.epsilon(self.phase.accounted(ended.round_num))}


class SelectedClients:
    """Cohorts that a client selector chooses by loss. The state is that of the selector."""

    secrets: Sequence[str] = ()

    def __init__(
        self, phase: Phase, population: clients.ClientData, read: Read, prepare: Prepare, losses_of: Callable[..., Any]
    ):
        """Reads each client once, to count its examples.

        Args:
          phase: The phase.
          population: The task's clients, with capped examples.
          read: Function that reads clients.
          prepare: Function that prepares their input.
          losses_of: Function that maps the server's state and clients' inputs to the clients' losses.
        """
        selector = phase.selection.build(clients.sizes(population, phase.population), phase.cohorts.size)
        self._cohorts = selectors.SelectedCohorts(selector, phase.seed)
        self._read, self._prepare, self._losses_of = read, prepare, losses_of
        self._sampled = np.zeros(0, np.int64)

    def initial_state(self) -> Any:
        """Returns the state before round 1."""
        return self._cohorts.selector.initial_state()

    def next(self, selection: Any, server: fed_avg.State, round_num: int) -> tuple[Cohort, Any]:
        """Returns the cohort of a round and the new state, after polling clients if the selector needs it."""

        def poll(positions: np.ndarray) -> np.ndarray:
            return self._losses_of(server, [each.inputs for each in self._read(positions, round_num)])

        self._sampled, polled, selection = self._cohorts.choose(selection, round_num, poll)
        members = np.unique(self._sampled)
        participations = self._read(self._sampled, round_num)
        inputs = self._prepare(participations, round_num)
        return Cohort(participations, inputs, len(np.union1d(polled, members)), len(members), len(polled)), selection

    def observe(self, selection: Any, counts: fed_avg.RoundMetrics) -> Any:
        """Updates the state after a round with the losses that clients reported."""
        return self._cohorts.observe(selection, self._sampled, counts.client_losses, counts.client_deviations)
