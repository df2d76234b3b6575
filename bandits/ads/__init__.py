"""The bandits on ads; `run` runs it from Python."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimization.study import results


def run(**flags: Any) -> "results.Run | results.Runs":
    """Does by keywords what run_ads does by flags; see `optimization.study.python.run`."""
    from bandits.ads import run_ads
    from optimization.study import python

    return python.run(run_ads.STUDY, flags)
