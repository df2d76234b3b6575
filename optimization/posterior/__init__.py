"""Posterior aggregation; `run` starts it from Python."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimization.study import results


def run(**flags: Any) -> "results.Run | results.Runs":
    """Runs run_posterior with keywords instead of flags; see `optimization.study.python.run`."""
    from optimization.posterior import run_posterior
    from optimization.study import python

    return python.run(run_posterior.STUDY, flags)
