"""MAB-FL, in which a bandit chooses whose models to average. `run` starts this study from Python."""

from bandits import running

__getattr__ = running("bandits.mab_fl.run_mab_fl")
