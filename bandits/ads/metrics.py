"""Metrics of an ad run: METRICS and LEARNED for each of LEARNERS, and clients, bytes and privacy loss per round."""

from bandits.metrics import EPSILON
from optimization.study.metrics import BYTES_DOWN, BYTES_UP, Better, Metric

AVERAGE_CLICKS = "average_clicks"
OPTIMAL_SHARE = "optimal_share"
TOTAL_REWARD = "total_reward"
REGRET = "regret"
EXPLORATION_RATE = "exploration_rate"
UPPER_INTERVAL = "upper_interval"
CLIENTS = Metric("clients", "Clients that participated")

LEARNERS = ("federated", "centralised")
METRICS = (AVERAGE_CLICKS, OPTIMAL_SHARE, TOTAL_REWARD, REGRET)
# Quantities that some rules learn besides the action values; empty for all other rules.
LEARNED = (EXPLORATION_RATE, UPPER_INTERVAL)
_ABOUT: dict[str, tuple[str, Better | None, bool]] = {
    AVERAGE_CLICKS: ("clicks per impression", "up", True),
    OPTIMAL_SHARE: ("share of pulls of the best ad", "up", False),
    TOTAL_REWARD: ("total clicks so far", "up", False),
    REGRET: ("total regret so far", "down", True),
    EXPLORATION_RATE: ("learned exploration rate after the round", None, False),
    UPPER_INTERVAL: ("learned upper interval after the round, mean over ads", None, False),
}


def column(learner: str, metric: str) -> Metric:
    """A learner's metric, as a column of `metrics.csv`."""
    about, better, in_summary = _ABOUT[metric]
    in_summary = in_summary and learner == LEARNERS[0]
    share = metric in (AVERAGE_CLICKS, OPTIMAL_SHARE)
    return Metric(f"{learner}/{metric}", f"{about}, {learner}", better=better, in_summary=in_summary, share=share)


COLUMNS = (
    *(column(learner, metric) for learner in LEARNERS for metric in (*METRICS, *LEARNED)),
    CLIENTS,
    BYTES_DOWN,
    BYTES_UP,
    EPSILON,
)
