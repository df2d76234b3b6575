"""What the sections of a recommendation are written from."""

import dataclasses
import math

from bandits.advice.plan import Plan
from bandits.advice.stages import Advice


@dataclasses.dataclass(frozen=True)
class Context:
    """What sentences need beside what was found.

    Attributes:
      found: What was found.
      plan: What was run.
      full: The plan with nothing left out.
      minutes: The budget, `--minutes`.
      minutes_of_all: Minutes that the full plan needs.
      clients: Clients that train.
      cohort: Clients of a round.
      held_out: Which clients or rows are held out, in words.
      unit: What a guarantee protects, in words.
      where: Where the guarantees hold, a sentence.
      command: The command to paste; empty for none.
      rows: Training rows of a table or log; 0 where they are not counted.
      reward_width: Between the smallest and the largest reward.
      overrun: By how much it took longer than its budget, a sentence; empty where it did not.
      rewards: Where rewards come from, if nobody paid them, in sentences; empty for real ones.
    """

    found: Advice
    plan: Plan
    full: Plan
    minutes: float
    minutes_of_all: int
    clients: int
    cohort: int
    held_out: str
    unit: str
    where: str
    command: str
    rows: int = 0
    reward_width: float = math.inf
    overrun: str = ""
    rewards: str = ""
