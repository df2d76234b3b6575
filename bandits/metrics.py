"""Metrics of a bandit run, and measures of how equally clients benefit."""

import math

import numpy as np

from optimization.study import metrics
from optimization.study.metrics import Metric, declared

ROUND_REWARD = Metric(
    "bandits/round_rewards",
    "Round reward",
    better="up",
    drawn=True,
    deployed=True,
    recent=True,
    reward=True,
    bounds="participating",
)
AVERAGE_REWARD = Metric(
    "bandits/average_rewards",
    "Average reward over all rounds",
    better="up",
    drawn=True,
    in_summary=True,
    reward=True,
    bounds="participating",
)
HALF_A_REWARD = Metric("bandits/half_a_rewards", "Expected reward on half A of clients' examples", better="up")
HALF_B_REWARD = Metric("bandits/half_b_rewards", "Expected reward on half B of clients' examples", better="up")
ROUND_PROBABILITY = Metric(
    "bandits/round_prob", "Exploration: mean probability of the chosen actions", drawn=True, deployed=True
)
DEPLOYED = Metric("bandits/deployed", "Whether the round ended with a deployment")
LOSS = metrics.LOSS
RESET = Metric("train/reset", "Whether the round began with a reset")
UPDATE_NORM = metrics.UPDATE_NORM
CLIP_NORM = Metric("train/clip_norm", "Clip norm", drawn=True)
CLIPPED_CLIENTS = Metric("train/clipped_clients", "Clients whose update was clipped")
# Computed by --accountant (with pld, only at evaluations); infinite without a guarantee. With dpsgd and cohorts of a
# fixed size, this value assumes Poisson sampling; privacy.json also has a proven value.
EPSILON = Metric("privacy/epsilon", "Privacy: epsilon spent so far", better="down", drawn=True)
EXAMPLES = metrics.EXAMPLES
EMPTY_CLIENTS = metrics.EMPTY_CLIENTS
NONFINITE_CLIENTS = metrics.NONFINITE_CLIENTS
BYTES_DOWN = metrics.BYTES_DOWN
BYTES_UP = metrics.BYTES_UP
ACCURACY = Metric(
    "eval/accuracy", "Accuracy on held-out examples", better="up", evaluated=True, in_summary=True, share=True
)
HELD_OUT_REWARD = Metric(
    "eval/reward",
    "Held-out reward of the greedy policy",
    better="up",
    evaluated=True,
    drawn=True,
    in_summary=True,
    reward=True,
    bounds="held_out",
)
# The same policy on held-out clients, or on participating clients if held-out examples do not belong to clients.
WORST_TENTH = Metric(
    "eval/worst_tenth_reward",
    "Reward of the worst tenth of clients, greedy policy",
    better="up",
    evaluated=True,
    in_summary=True,
    reward=True,
)
# Reward of the adapted policy, for clients chosen as above.
PERSONALIZED_REWARD = Metric(
    "eval/personalized_reward",
    "Expected reward on half B, after adaptation on half A",
    better="up",
    evaluated=True,
    in_summary=True,
)
JAIN_INDEX = Metric(
    "eval/reward_jain_index", "Jain's index of clients' rewards, greedy policy", better="up", evaluated=True, share=True
)

COLUMNS = declared(vars())

# Only in runs with event-triggered communication.
MESSAGES = Metric("communication/messages", "Uploads and downloads of sums", better="down")
# Only in runs with a median or a trimmed mean.
ZERO_SHARE = Metric("train/zero_share", "Share of the coordinates whose aggregate is 0", share=True)


def last_tenth(values: np.ndarray) -> float:
    """Mean over the last tenth of the rounds, at least one round; NaN without rounds.

    Args:
      values: float [rounds], such as rewards.
    """
    return float(np.mean(values[-max(1, len(values) // 10) :])) if len(values) else math.nan


def worst_tenth(values: np.ndarray, *, largest: bool = False) -> float:
    """Mean over the worst tenth of clients, rounded up to whole clients; NaN without clients.

    Args:
      values: float [clients], such as rewards.
      largest: Whether the largest values are the worst, as for losses.
    """
    ordered, count = np.sort(np.asarray(values, float)), math.ceil(len(values) / 10)
    return float((ordered[-count:] if largest else ordered[:count]).mean()) if len(ordered) else math.nan


def jain_index(values: np.ndarray, *, of_zeros: float = math.nan) -> float:
    """Jain's index, (sum x)^2 / (n sum x^2): 1 for equal values, 1 / n if one client has everything.

    Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination", 1984, equation 1. Cho et
    al. 2020, equation 3, use it for losses. NaN without values. Also NaN if a value is negative, because the index is
    not defined then.

    Args:
      values: float [clients], such as rewards.
      of_zeros: Value of the index if all values are 0.
    """
    values = np.asarray(values, float)
    if not len(values) or values.min() < 0:
        return math.nan
    squares = len(values) * float(np.sum(values**2))
    return float(values.sum()) ** 2 / squares if squares else of_zeros
