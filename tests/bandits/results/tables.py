"""Results tables of one metric for tests."""

import math

import pandas as pd

from bandits import metrics
from bandits.results.configuration import Configuration

REWARD = metrics.AVERAGE_REWARD


def configuration(name, values, **more) -> Configuration:
    """Configuration with these rewards, by seed or in the order of the seeds; NaN where training diverged."""
    by_seed = values if isinstance(values, dict) else dict(enumerate(values))
    lost = frozenset(seed for seed, value in by_seed.items() if math.isnan(value))
    table = pd.DataFrame({str(REWARD): pd.Series(by_seed, dtype=float)})
    return Configuration(name, table, **{"diverged": lost, **more})
