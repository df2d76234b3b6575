"""Names of the columns of a bandit run's `metrics.csv`."""

ROUND_REWARD = "bandits/round_rewards"  # Mean reward of the round's actions.
AVERAGE_REWARD = "bandits/average_rewards"  # Mean of the round rewards so far.
ROUND_PROBABILITY = "bandits/round_prob"  # Mean probability of the chosen actions.
DEPLOYED = "bandits/deployed"  # 1 if the round ended with a deployment.
LOSS = "train/loss"  # Mean training loss per example and epoch, before each step.
UPDATE_NORM = "train/update_norm"  # L2 norm of the aggregated update.
CLIP_NORM = "train/clip_norm"  # L2 norm that the round clipped to.
CLIPPED_CLIENTS = "train/clipped_clients"
# Spent so far, by --accountant (with pld at evaluations only); infinite where nothing is guaranteed. With dpsgd and
# cohorts of a fixed size it holds if they were Poisson samples: privacy.json has the proven figure beside it.
EPSILON = "privacy/epsilon"
EXAMPLES = "train/examples"
EMPTY_CLIENTS = "train/empty_clients"
NONFINITE_CLIENTS = "train/nonfinite_clients"
ACCURACY = "eval/accuracy"  # Of the trained model's greedy policy on held-out data.
HELD_OUT_REWARD = "eval/reward"  # The same policy's mean reward there.

COLUMNS = (
    ROUND_REWARD,
    AVERAGE_REWARD,
    ROUND_PROBABILITY,
    DEPLOYED,
    LOSS,
    UPDATE_NORM,
    CLIP_NORM,
    CLIPPED_CLIENTS,
    EPSILON,
    EXAMPLES,
    EMPTY_CLIENTS,
    NONFINITE_CLIENTS,
    ACCURACY,
    HELD_OUT_REWARD,
)
