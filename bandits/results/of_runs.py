"""What runs' folders say of arms: their results by seed, what pairs them, and what chance earns there."""

import math
import pathlib
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from bandits.results import bootstrap, landmarks
from bandits.results.comparison import Landmark, Sampled, Values
from bandits.results.landmarks import Stand
from bandits.results.significance import Better
from optimization.study import divergence, run_folder
from optimization.study.metrics import Metric
from optimization.study.results import Run

CHANCE, CONSTANT = "chance", "constant"  # In `bounds.json`.
_SAME = 1e-9  # Relative: what floating point makes of equal numbers.


def outcome(run: Run, column: str) -> float | None:
    """Returns a run's last finite value of a column; of a recent one, the mean of the last tenth of its rounds."""
    import numpy as np

    if column not in run.metrics:
        return None
    values = run.metrics[column].to_numpy(float)
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    is_recent = isinstance(column, Metric) and column.recent
    return float(values[-tenth(len(values)) :].mean()) if is_recent else float(values[-1])


def tenth(rounds: int) -> int:
    """Returns a tenth of the rounds, one at least."""
    return max(1, rounds // 10)


def by_seed(found: Sequence[Run], column: str) -> dict[int, float]:
    """Returns what runs of one arm gave, by seed; not a number where training diverged, or gave nothing."""
    values = {}
    for seed, run in seeds(found).items():
        value = None if divergence.is_lost(run.metrics, run.columns, run.flags) else outcome(run, column)
        values[seed] = math.nan if value is None else value
    return values


def seeds(found: Sequence[Run]) -> dict[int, Run]:
    """Returns the runs of one arm by seed; by place, where none is recorded."""
    return {_seed(run, place): run for place, run in enumerate(found)}


def is_unpaired(found: Sequence[Run]) -> bool:
    """Returns whether no seed determines these runs: they draw noise for privacy, or cohorts that are secret for it.

    Of noise that `--insecure_seeded_noise` seeds nothing is secret: a seed determines such runs.
    """
    return any(
        run.privacy.get("epsilon") is not None or (has_noise([run]) and not run.flags.get("insecure_seeded_noise"))
        for run in found
    )


def has_noise(found: Sequence[Run]) -> bool:
    """Returns whether these runs draw noise for privacy, seeded or not."""
    return any(run.flags.get("noise_multiplier") for run in found)


def bound(found: Sequence[Run], column: str, which: str) -> Landmark | None:
    """Returns what the runs of one arm recorded of chance, or of the best constant action; None if they did not.

    It is by seed, where seeds have data of their own. Of a sample of the clients it has an error; where an
    earlier version recorded none of such a sample, it is not known.

    Args:
      found: The runs.
      column: What it is compared with; one that says which clients' rewards it is about.
      which: `CHANCE` or `CONSTANT`.
    """
    clients = column.bounds if isinstance(column, Metric) else ""
    records = [run.bounds.get(clients, {}) for run in found]
    values = [_number(one.get(which)) for one in records]
    errors = [_number(one.get(f"{which}_error", math.nan if _is_sample(one) else 0.0)) for one in records]
    if not found or not all(map(math.isfinite, [*values, *errors])):
        return None
    one = of_seeds({_seed(run, place): value for place, (run, value) in enumerate(zip(found, values, strict=True))})
    if isinstance(one, float) and (error := max(errors)) > _SAME * abs(one):
        return Sampled(one, error, int(records[0]["clients"]))
    return one


def of_seeds(values: Mapping[int, float]) -> float | Mapping[int, float]:
    """Returns the number that all seeds recorded; where seeds have data of their own, all of them."""
    mean = statistics.mean(values.values())
    return values if max(abs(value - mean) for value in values.values()) > _SAME * abs(mean) else mean


def key(landmark: Landmark | None) -> Hashable:
    """Returns what equal landmarks have in common."""
    return tuple(sorted(landmark.items())) if isinstance(landmark, Mapping) else landmark


def _seed(run: Run, place: int) -> int:
    seed = run.flags.get("seed")
    return place if seed is None else int(seed)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _is_sample(record: Mapping[str, Any]) -> bool:
    return record.get("clients", 0) < record.get("population", 0)


def stands(
    arms: Mapping[str, Sequence[Run]], column: str, better: Better = "up", values: Values | None = None
) -> dict[str, Stand]:
    """Returns where arms stand by what their runs recorded of chance and the best constant action.

    Args:
      arms: Runs by arm.
      column: The result.
      better: Whether more or less of it is better.
      values: The results by arm and seed; `by_seed`'s, if left out.

    Returns:
      By arm; one family of all arms that recorded the same.
    """
    groups: dict[Hashable, tuple[Landmark | None, Landmark | None, list[str]]] = {}
    for arm, found in arms.items():
        chance, constant = bound(found, column, CHANCE), bound(found, column, CONSTANT)
        groups.setdefault((key(chance), key(constant)), (chance, constant, []))[2].append(arm)
    told: dict[str, Stand] = {}
    for chance, constant, names in groups.values():
        some = {name: values[name] if values else by_seed(arms[name], column) for name in names}
        told |= landmarks.stand(some, chance=chance, constant=constant, better=better)
    return {arm: told[arm] for arm in arms}


def chance_note(stand: Stand) -> str:
    """Returns the words that a name in a picture has after it, if its arm is not told from chance; else none."""
    chance = stand.chance
    return f" ({stand.word})" if chance and chance.is_judged and not chance.wins else ""


def chance_notes(
    folders: Mapping[str, Sequence[pathlib.Path]], column: str, read: Callable[[pathlib.Path], Run]
) -> dict[str, str]:
    """Returns what names in a picture of a column have after them, see `chance_note`: of arms that recorded chance.

    Args:
      folders: Folders of each arm's runs.
      column: What is drawn.
      read: Reads one.
    """
    if not isinstance(column, Metric) or not column.bounds:
        return {}
    known = {
        arm: [read(path) for path in paths]
        for arm, paths in folders.items()
        if all((path / run_folder.BOUNDS_FILE).is_file() for path in paths)
    }
    return {
        arm: note for arm, stand in stands(known, column, column.better or "up").items() if (note := chance_note(stand))
    }


def over_clients(arm: Sequence[Run], reference: Sequence[Run]) -> "bootstrap.Interval | None":
    """Returns the difference of two arms' last evaluations over its clients, with an interval over which those are.

    Of each client it is the mean over seeds that both arms evaluated it with. None, if there are fewer than two.
    """
    differences: dict[str, list[float]] = {}
    others = {run.flags.get("seed"): _rewards(run) for run in reference}
    for run in arm:
        other = others.get(run.flags.get("seed"), {})
        for client, reward in _rewards(run).items():
            if client in other:
                differences.setdefault(client, []).append(reward - other[client])
    if len(differences) < 2:
        return None
    return bootstrap.over_clients([statistics.fmean(some) for some in differences.values()])


def evaluated(found: Sequence[Run]) -> str:
    """Returns whose rewards evaluations compare: `held-out` or `participating` clients."""
    return "held-out" if all(run.client_rewards.get("held_out", True) for run in found) else "participating"


def _rewards(run: Run) -> dict[str, float]:
    found = run.client_rewards
    return dict(zip(found.get("clients", ()), found.get("rewards", ()), strict=True))
