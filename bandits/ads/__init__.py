"""The bandits on ads; `run` starts it from Python."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimization.study import results

    def run(**settings: Any) -> "results.Run | results.Runs":
        """Runs run_ads with keywords instead of flags; see `optimization.study.python.run`."""


def __getattr__(name: str) -> Any:
    if name != "run":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bandits.ads import run_ads
    from optimization.study import python

    return python.function(run_ads.STUDY)
