"""What takes the rows of a run as they come."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optimization.study import run_folder


class Logger(abc.ABC):
    """Takes a row a round, from the round after the one that the run continues from."""

    @abc.abstractmethod
    def write(self, row: Mapping[str, Any]) -> None:
        """Takes the metrics of a round by name, with `round_num` and `seconds`; None is no value."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Puts all rows on the disk: a checkpoint of the last of them follows."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends."""


# (opened folder of the run, names of its metrics, round that it continues from) -> its logger.
MakeLogger = Callable[[run_folder.RunFolder, Sequence[str], int], Logger]
