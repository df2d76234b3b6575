"""Metrics of a bandit run."""

from optimization.study.metrics import Metric, declared

ROUND_REWARD = Metric("bandits/round_rewards", "Round reward", better="up", drawn=True)
AVERAGE_REWARD = Metric("bandits/average_rewards", "Running average reward", better="up", drawn=True, told=True)
ROUND_PROBABILITY = Metric("bandits/round_prob", "Exploration: probability of the chosen actions", drawn=True)
DEPLOYED = Metric("bandits/deployed", "Whether the round ended with a deployment", marks=True)
LOSS = Metric("train/loss", "Training loss per example and epoch, before each step", better="down")
UPDATE_NORM = Metric("train/update_norm", "L2 norm of the aggregated update")
CLIP_NORM = Metric("train/clip_norm", "Clip norm", drawn=True)
CLIPPED_CLIENTS = Metric("train/clipped_clients", "Clients whose update was clipped")
# By --accountant (with pld at evaluations only); infinite where nothing is guaranteed. With dpsgd and cohorts of a
# fixed size it holds if they were Poisson samples: privacy.json has the proven figure beside it.
EPSILON = Metric("privacy/epsilon", "Privacy: epsilon spent", better="down", drawn=True)
EXAMPLES = Metric("train/examples", "Examples of the cohort")
EMPTY_CLIENTS = Metric("train/empty_clients", "Clients without an example")
NONFINITE_CLIENTS = Metric("train/nonfinite_clients", "Clients whose training diverged")
ACCURACY = Metric("eval/accuracy", "Held-out accuracy of the greedy policy", better="up", evaluated=True, told=True)
HELD_OUT_REWARD = Metric(
    "eval/reward", "Held-out reward of the greedy policy", better="up", evaluated=True, drawn=True, told=True
)

COLUMNS = declared(vars())
