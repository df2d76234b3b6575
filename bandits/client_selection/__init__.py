"""The comparison of client selection; `run` starts it from Python."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimization.study import results

    def run(**settings: Any) -> "results.Run | results.Runs":
        """Runs run_client_selection with keywords instead of flags; see `optimization.study.python.run`."""


def __getattr__(name: str) -> Any:
    if name != "run":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bandits.client_selection import run_client_selection
    from optimization.study import python

    return python.function(run_client_selection.STUDY)
