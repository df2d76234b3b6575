"""Results tables of one metric and run folders for tests."""

import json
import math
import pathlib

import numpy as np
import pandas as pd

from bandits import metrics
from bandits.results.configuration import Configuration
from optimization.study import run_folder

REWARD = metrics.AVERAGE_REWARD


def configuration(name, values, **more) -> Configuration:
    """Configuration with these rewards, by seed or in the order of the seeds; NaN where training diverged."""
    by_seed = values if isinstance(values, dict) else dict(enumerate(values))
    lost = frozenset(seed for seed, value in by_seed.items() if math.isnan(value))
    table = pd.DataFrame({str(REWARD): pd.Series(by_seed, dtype=float)})
    return Configuration(name, table, **{"diverged": lost, **more})


def rewards_table(rewards) -> pd.DataFrame:
    """Metrics of a run with a reward for each round."""
    table = pd.DataFrame({"round_num": range(1, len(rewards) + 1), metrics.ROUND_REWARD: rewards})
    return table.assign(**{metrics.AVERAGE_REWARD: table[metrics.ROUND_REWARD].expanding().mean()})


def write_run(folder: pathlib.Path, rewards, **flags) -> None:
    """Writes the folder of a run with a reward for each round and these flags."""
    folder.mkdir(parents=True)
    others = {metrics.EPSILON: np.inf, "other/constant": 4, "other/metric": np.square(rewards), "seconds": 0.5}
    rewards_table(rewards).assign(**others).to_csv(folder / "metrics.csv", index=False)
    flags = {"common": 1, "experiment_name": folder.name, **flags}
    config = {"format": run_folder.FORMAT, "flags": flags, "command": f"run --x={folder.name}"}
    (folder / "config.json").write_text(json.dumps(config))
