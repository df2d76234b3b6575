"""How long a run is."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Length:
    """How long a run is, and what comes between its rounds.

    Attributes:
      total_rounds: Rounds in all, those of earlier starts included.
      rounds_per_eval: Rounds between evaluations; 0 for only the last.
      rounds_per_checkpoint: Rounds between checkpoints; 0 for only the last.
    """

    total_rounds: int
    rounds_per_eval: int
    rounds_per_checkpoint: int

    def ends_in_evaluation(self, round_num: int) -> bool:
        """Returns whether a round does."""
        every = self.rounds_per_eval
        return round_num == self.total_rounds or bool(every and round_num % every == 0)
