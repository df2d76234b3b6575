"""Names of the columns in an ad run's `metrics.csv`: each of METRICS for each of LEARNERS, and the privacy spent."""

from bandits.metrics import EPSILON

AVERAGE_CLICKS = "average_clicks"
OPTIMAL_SHARE = "optimal_share"
TOTAL_REWARD = "total_reward"
REGRET = "regret"

LEARNERS = ("federated", "centralised")
METRICS = (AVERAGE_CLICKS, OPTIMAL_SHARE, TOTAL_REWARD, REGRET)


def column(learner: str, metric: str) -> str:
    """Returns the name of a learner's column."""
    return f"{learner}_{metric}"


COLUMNS = (*(column(learner, metric) for learner in LEARNERS for metric in METRICS), EPSILON)
