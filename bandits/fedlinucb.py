"""Simulates the synthetic experiment of He, Wang, Min and Gu 2022, and compares it with the published results.

M clients share theta = (1, ..., 1) / sqrt(d). In each step, a uniformly sampled client is offered K new actions with
features that are uniform on [-1, 1] / sqrt(d), and the reward has normal noise. The published code differs from the
paper's Algorithm 1 in one respect, which changes the number of messages; see `Experiment.starts_empty`.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import tensorflow as tf

from bandits import event_triggered
from bandits.event_triggered import ClientState, FedLinUcb, Sums
from data import keys

LEVEL = 0.01  # Significance level of the joint test.
_PLACE = 3  # Distinguishes this experiment's random numbers from others'.
_SAMPLES = 4000  # Number of samples that approximate the null distribution.
_REFERENCE = pathlib.Path(__file__).parent / "papers" / "published" / "fedlinucb_synthetic.csv"
_PUBLISHED_RUNS = 20


class Progress(NamedTuple):
    """State of the simulation.

    Attributes:
      step: int32, number of finished steps.
      clients: States of the clients, with a first axis for clients.
      totals: Sums of all uploads.
      regret: float64, the sum over steps of the best expected reward minus the expected reward of the chosen action.
      messages: int32, number of uploads and downloads.
    """

    step: Any
    clients: ClientState
    totals: Sums
    regret: Any
    messages: Any


@dataclasses.dataclass(frozen=True)
class Experiment:
    """An algorithm in the synthetic environment.

    Attributes:
      learner: How clients act and when they upload.
      num_clients: M.
      num_features: d.
      num_actions: K.
      noise: Standard deviation of the noise in rewards.
      receivers: Number of downloads that are counted for each upload.
      starts_empty: Whether clients start as in the published code, with V = 0 in place of V = lambda I. Before its
        first download, a client then chooses the first of its random actions, because all upper bounds are 0. It
        uploads if the determinant of a singular matrix is above 0, which depends on rounding. In 10 of the 20
        published runs, the first step ends with an upload, so a fair coin decides here.
    """

    learner: FedLinUcb = dataclasses.field(default_factory=FedLinUcb)
    num_clients: int = 15
    num_features: int = 15
    num_actions: int = 25
    noise: float = 0.3
    receivers: int = 1
    starts_empty: bool = False

    def initial(self) -> Progress:
        """Returns the state before the first step."""
        none = event_triggered.empty_sums(self.num_features)
        one = ClientState(none, none)
        clients = tf.nest.map_structure(lambda part: np.zeros((self.num_clients, *part.shape)), one)
        return Progress(np.int32(0), clients, none, np.float64(0), np.int32(0))

    def draw(self, key: tf.Tensor, step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Samples the random variables of a step.

        Args:
          key: int32 [2], key of the run.
          step: int32, the step, from 0.

        Returns:
          The active client, int32; its actions, float64 [actions, features]; the noise of the chosen action's reward,
          float64; and a fair coin, bool.
        """
        own = tf.random.experimental.stateless_split(tf.random.experimental.stateless_fold_in(key, step), 4)
        bound, shape = self.num_features**-0.5, [self.num_actions, self.num_features]
        return (
            tf.random.stateless_uniform([], own[0], 0, self.num_clients, tf.int32),
            tf.random.stateless_uniform(shape, own[1], -bound, bound, tf.float64),
            self.noise * tf.random.stateless_normal([], own[2], dtype=tf.float64),
            tf.random.stateless_uniform([], own[3]) < 0.5,
        )

    def advance(self, key: tf.Tensor, before: Progress) -> Progress:
        """Simulates one step."""
        client, actions, noise, coin = self.draw(key, before.step)
        downloaded, local = tf.nest.map_structure(lambda part: part[client], before.clients)
        # This sum is 0 only before a client's first download, because a sampled feature is never exactly 0.
        is_empty = tf.equal(downloaded.outer[0, 0], 0) & self.starts_empty
        action = tf.where(is_empty, 0, self.learner.choose(downloaded, actions[tf.newaxis])[0])
        expected = tf.reduce_sum(actions, axis=-1) * self.num_features**-0.5  # x' theta.
        new = event_triggered.sums_of(actions[action][tf.newaxis], (expected[action] + noise)[tf.newaxis])
        local = event_triggered.added(local, new)
        uploads = tf.where(is_empty, coin, self.learner.uploads(downloaded, local))

        def if_uploads(then: Any, otherwise: Any) -> Any:
            return tf.nest.map_structure(functools.partial(tf.where, uploads), then, otherwise)

        totals = if_uploads(event_triggered.added(before.totals, local), before.totals)
        none = tf.nest.map_structure(tf.zeros_like, local)
        after = ClientState(if_uploads(totals, downloaded), if_uploads(none, local))
        update = functools.partial(tf.tensor_scatter_nd_update, indices=[[client]])
        clients = tf.nest.map_structure(lambda whole, part: update(whole, updates=[part]), before.clients, after)
        regret = before.regret + tf.reduce_max(expected) - expected[action]
        return Progress(
            before.step + 1, clients, totals, regret, before.messages + tf.where(uploads, 1 + self.receivers, 0)
        )

    @tf.function(autograph=False)
    def advance_to(self, key: tf.Tensor, progress: Progress, last: tf.Tensor) -> Progress:
        """Simulates steps in one compiled loop until `last` steps, int32, are finished."""
        return tf.while_loop(lambda step, *_: step < last, lambda *parts: self.advance(key, Progress(*parts)), progress)

    def run(self, seed: int, times: Sequence[int]) -> np.ndarray:
        """Simulates a run.

        Args:
          seed: Random seed.
          times: Numbers of steps, in increasing order.

        Returns:
          float64 [2, times], the cumulative regret and the number of messages after these steps.
        """
        key, progress = keys.tensorflow_key(seed, keys.Purpose.LABORATORY, _PLACE), self.initial()
        seen = []
        for time in times:
            progress = self.advance_to(key, progress, np.int32(time))
            seen.append((float(progress.regret), float(progress.messages)))
        return np.array(seen).T


# For each algorithm: its name in the published results, and the experiment.
EXPERIMENTS = {
    "FedLinUCB, start of the published code": ("fedlinucb", Experiment(starts_empty=True)),
    "FedLinUCB, Algorithm 1": ("fedlinucb", Experiment()),
    "OFUL with full communication": (
        "oful_central",
        Experiment(FedLinUcb(threshold=0.0), num_clients=1, receivers=Experiment.num_clients),
    ),
}


def largest_difference(own: np.ndarray, means: np.ndarray, deviations: np.ndarray, num_runs: int) -> np.ndarray:
    """Largest absolute Welch statistic over several measures, float64 [...].

    A measure that has no variance in either group counts only if its means differ, as an infinite statistic.

    Args:
      own: float64 [..., runs, measures], values of the first group.
      means: float64 [..., measures], means of the other group.
      deviations: float64 [..., measures], standard deviations of the other group.
      num_runs: Number of runs of the other group.
    """
    variances = own.var(axis=-2, ddof=1) / own.shape[-2] + deviations**2 / num_runs
    differences = np.abs(own.mean(axis=-2) - means)
    scaled = differences / np.sqrt(np.where(variances > 0, variances, 1.0))
    return np.where(variances > 0, scaled, np.where(differences > 0, np.inf, 0.0)).max(axis=-1)


def joint_test(own: np.ndarray, means: np.ndarray, deviations: np.ndarray, num_runs: int) -> tuple[float, float]:
    """Tests whether all measures have the same means in two groups of runs, given only a summary of the other group.

    The statistic is the largest absolute Welch statistic. Its distribution under equal means is simulated with normal
    samples of both sizes, which have each group's standard deviations and the correlations of `own`; the other group's
    correlations are not known. A Bonferroni correction would have less power, because the measures are correlated.

    Args:
      own: float64 [runs, measures], values of the first group.
      means: float64 [measures], means of the other group.
      deviations: float64 [measures], standard deviations of the other group.
      num_runs: Number of runs of the other group.

    Returns:
      The statistic and its p value.
    """
    statistic = float(largest_difference(own, means, deviations, num_runs))
    centred, deviation = own - own.mean(axis=0), own.std(axis=0, ddof=1)
    # Rows of independent normal numbers times `correlated` have the correlations of `own`.
    correlated = centred / np.where(deviation > 0, deviation, 1.0) / np.sqrt(len(own) - 1)
    generator, exceeds = keys.generator(0, keys.Purpose.LABORATORY, _PLACE), 0
    for _ in range(_SAMPLES):
        first, second = (generator.normal(size=(count, len(own))) @ correlated for count in (len(own), num_runs))
        second *= deviations
        sampled = largest_difference(first * deviation, second.mean(axis=0), second.std(axis=0, ddof=1), num_runs)
        exceeds += bool(sampled >= statistic)
    return statistic, (1 + exceeds) / (1 + _SAMPLES)


def compare(name: str, seed: int, repeat: int) -> tuple[pd.DataFrame, str]:
    """Runs an experiment, and compares it with the published results.

    Args:
      name: A key of `EXPERIMENTS`.
      seed: First random seed.
      repeat: Number of seeds, at least 2.

    Returns:
      A table with a row for each published time, and the result of the joint test as a sentence.
    """
    algorithm, experiment = EXPERIMENTS[name]
    published = pd.read_csv(_REFERENCE)
    published = published[published["algorithm"] == algorithm]
    times = published["interactions"].tolist()
    own = np.stack([experiment.run(seed + number, times) for number in range(repeat)])
    columns, measures = {"interactions": published["interactions"]}, ("regret", "messages")
    for measure, values in zip(measures, own.swapaxes(0, 1), strict=True):
        columns[measure] = _texts(values.mean(axis=0), values.std(axis=0, ddof=1))
        columns[f"{measure}, published"] = _texts(published[f"{measure}_mean"], published[f"{measure}_sd"])
    means, deviations = (np.concatenate([published[f"{one}_{of}"] for one in measures]) for of in ("mean", "sd"))
    statistic, p_value = joint_test(own.reshape(repeat, -1), means, deviations, _PUBLISHED_RUNS)
    verdict = "Significantly different from" if p_value < LEVEL else "No significant difference from"
    test = f"largest Welch statistic of {len(means)}: {statistic:.2f}, joint p = {p_value:.2g}, level {LEVEL:g}"
    return pd.DataFrame(columns), f"{verdict} the published results ({test})."


def _texts(means: Sequence[float], deviations: Sequence[float]) -> list[str]:
    return [f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in zip(means, deviations, strict=True)]
