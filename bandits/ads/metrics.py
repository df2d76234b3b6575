"""Metrics of an ad run: each of METRICS for each of LEARNERS, and the privacy spent."""

from bandits.metrics import EPSILON
from optimization.study.metrics import Better, Metric

AVERAGE_CLICKS = "average_clicks"
OPTIMAL_SHARE = "optimal_share"
TOTAL_REWARD = "total_reward"
REGRET = "regret"

LEARNERS = ("federated", "centralised")
METRICS = (AVERAGE_CLICKS, OPTIMAL_SHARE, TOTAL_REWARD, REGRET)
_ABOUT: dict[str, tuple[str, Better, bool]] = {
    AVERAGE_CLICKS: ("clicks an impression", "up", True),
    OPTIMAL_SHARE: ("share of the best ad", "up", False),
    TOTAL_REWARD: ("clicks so far", "up", False),
    REGRET: ("regret so far", "down", True),
}


def column(learner: str, metric: str) -> Metric:
    """Returns a learner's column."""
    about, better, told = _ABOUT[metric]
    told = told and learner == LEARNERS[0]
    former = f"{learner}_{metric}"
    return Metric(f"{learner}/{metric}", f"{about}, {learner}", better=better, told=told, formerly=former)


COLUMNS = (*(column(learner, metric) for learner in LEARNERS for metric in METRICS), EPSILON)
