"""Federated bandits on ads. `run` starts this study from Python."""

from bandits import running

__getattr__ = running("bandits.ads.run_ads")
