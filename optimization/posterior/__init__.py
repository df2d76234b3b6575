"""Posterior aggregation. From Python, `run` starts the study."""

from optimization.study import running

__getattr__ = running("optimization.posterior.run_posterior")
