"""The comparison of client selection; `run` runs it from Python."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimization.study import results


def run(**flags: Any) -> "results.Run | results.Runs":
    """Does by keywords what run_client_selection does by flags; see `optimization.study.python.run`."""
    from bandits.client_selection import run_client_selection
    from optimization.study import python

    return python.run(run_client_selection.STUDY, flags)
