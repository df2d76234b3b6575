"""Which command plays the ceiling of a world that an arm met."""

import itertools
import shlex
from collections.abc import Sequence

from bandits import studies, world_flags
from bandits.results.arms import Arm
from data.errors import UsageError

CEILING = "supervised_mse"
_OF_WORLD = "drift_world"
_MOST_TOGETHER = 3  # Flags that need each other.


def of_world(arm: Arm, world: int) -> str | None:
    """Returns a command that plays the ceiling of a world with an arm's seeds; None if none can.

    It has what of the arm's own command goes with a supervised learner.

    Args:
      arm: The arm.
      world: Number of the world.
    """
    words = shlex.split(arm.runs[0].command)
    if "-m" not in words[:-1]:
        return None
    start = words.index("-m") + 2
    module, flags = words[start - 1], arm.runs[0].flags
    seeds = sorted(int(run.flags.get("seed") or 0) for run in arm.runs)
    name = str(flags.get("experiment_name") or "run").removesuffix(f"/seed_{flags.get('seed')}")
    own = [f"--bandits_type={CEILING}", f"--{_OF_WORLD}={world}", f"--experiment_name={name}_world_{world}"]
    own += [f"--seed={seeds[0]}"] + [f"--repeat={seeds[-1] - seeds[0] + 1}"] * (len(seeds) > 1)
    kept = _kept(module, words[start:], own)
    try:
        settings = studies.resolve(module, [*kept, *own[:3]])
    except UsageError:
        return None
    if any(settings.get(one) != flags.get(one) for one in world_flags.NAMES if one != _OF_WORLD):
        return None
    kept += ["--reset=none"] * bool(settings.get("reset"))  # A --config's.
    return shlex.join([*words[:start], *kept, *own])


def _kept(module: str, words: Sequence[str], own: Sequence[str]) -> list[str]:
    """Returns which of a command's flags go with a ceiling's own, the other ones of which they replace."""
    left: list[str] = []
    for word in words:
        if word.startswith("-"):
            left.append(word)
        elif left:  # --flag value
            left[-1] += f"={word}"
    replaced = {word.partition("=")[0].lstrip("-") for word in own} | {_OF_WORLD, "repeat", "restart"}
    replaced |= {*world_flags.RESET_NAMES}  # In one world there is no change that a ceiling should learn anew for.
    left = [word for word in left if word.partition("=")[0].lstrip("-") not in replaced]
    kept: list[str] = []
    while some := _more(module, [own[0], *kept], left):
        kept += some
        left = [word for word in left if word not in some]
    return kept


def _more(module: str, kept: Sequence[str], left: Sequence[str]) -> Sequence[str]:
    """Returns flags of those left that go with what is kept: one, or a few that go together alone, as noise's do."""
    for count in range(1, _MOST_TOGETHER + 1):
        for some in itertools.combinations(left, count):
            if _goes(module, [*kept, *some]):
                return some
    return ()


def _goes(module: str, words: Sequence[str]) -> bool:
    try:
        studies.resolve(module, words)
    except UsageError:
        return False
    return True
