"""MAB-FL; `run` runs it from Python."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimization.study import results


def run(**flags: Any) -> "results.Run | results.Runs":
    """Does by keywords what run_mab_fl does by flags; see `optimization.study.python.run`."""
    from bandits.mab_fl import run_mab_fl
    from optimization.study import python

    return python.run(run_mab_fl.STUDY, flags)
