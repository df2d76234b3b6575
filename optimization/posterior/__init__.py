"""Posterior aggregation; `run` starts it from Python."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimization.study import results

    def run(**settings: Any) -> "results.Run | results.Runs":
        """Runs run_posterior with keywords instead of flags; see `optimization.study.python.run`."""


def __getattr__(name: str) -> Any:
    if name != "run":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from optimization.posterior import run_posterior
    from optimization.study import python

    return python.function(run_posterior.STUDY)
