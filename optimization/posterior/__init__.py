"""Posterior aggregation; `run` starts it from Python."""

from optimization.study import running

__getattr__ = running("optimization.posterior.run_posterior")
