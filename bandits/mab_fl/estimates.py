"""`estimates.csv`: each combination's estimated reward after every round (Lundahl 2021, Figures 24, 26 and 28)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optimization.study import loggers, run_folder

if TYPE_CHECKING:
    from bandits.mab_fl import experiment

FILE = "estimates.csv"


class EstimatesFile(loggers.CsvFile):
    """Logger of the estimates."""

    def __init__(self, rounds: "experiment.MabFlRounds", folder: run_folder.RunFolder, first_round: int):
        """Opens the file for the rounds after `first_round`."""
        self._rounds = rounds
        columns = ["round_num", *rounds.choices]
        super().__init__(folder.path / FILE, columns, first_round)

    def write(self, row: Mapping[str, Any]) -> None:
        """Appends the estimates after the round of this row."""
        estimates = dict(zip(self._rounds.choices, self._rounds.estimates.tolist(), strict=True))
        super().write({"round_num": row["round_num"], **estimates})
