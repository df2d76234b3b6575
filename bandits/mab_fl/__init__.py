"""MAB-FL; `run` starts it from Python."""

from bandits import running

__getattr__ = running("bandits.mab_fl.run_mab_fl")
