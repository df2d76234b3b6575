"""The bandits on ads; `run` starts it from Python."""

from bandits import running

__getattr__ = running("bandits.ads.run_ads")
