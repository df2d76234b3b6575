"""Total privacy cost of several releases on the same clients, such as the runs of a search, and the ledger file.

A release is recorded before its noise is sampled. If the program stops in between, the ledger charges for a release
that was never made, but it never misses one that was made. Nothing here imports TensorFlow.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import TextIO

from data.errors import UsageError
from optimization.privacy import mechanisms


@dataclasses.dataclass(frozen=True)
class Spent:
    """One release, or one training run.

    Attributes:
      what: Description of the release. If the release is made once and used often, as a model is, this is its unique
        name.
      mechanism: The accounted mechanism.
      rounds: Number of rounds.
    """

    what: str
    mechanism: mechanisms.Mechanism
    rounds: int = 1


def composed(spent: Sequence[Spent]) -> tuple[mechanisms.Mechanism, int]:
    """Returns all releases as one mechanism and its number of rounds; delta and accountant are those of the last.

    Every client is assumed to be in all releases, unless a mechanism's pre-training used other clients.

    Args:
      spent: At least one release.

    Raises:
      ValueError: If one of the releases has no guarantee.
    """
    last = spent[-1].mechanism
    counts: dict[mechanisms.Mechanism, int] = {}
    chains = []
    for one in spent:
        if reason := one.mechanism.reason:
            raise ValueError(f"{one.what} has no guarantee, because {reason}.")
        mechanism = _at(one.mechanism, last)
        if mechanism.kind == "dpsgd" and mechanism.min_separation == 1 and not mechanism.pretraining:
            counts[mechanism] = counts.get(mechanism, 0) + one.rounds
        else:
            chains.append((mechanism, one.rounds))
    chains.sort(key=lambda each: _is_disjoint(each[0]))  # Disjoint trainings come last, so that their maximum is taken.
    first = _at(last, last)
    others = [*((mechanism, rounds) for mechanism, rounds in counts.items() if mechanism != first), *chains]
    if first in counts:
        others.insert(0, (first, counts[first]))
    whole = others[-1]
    for mechanism, rounds in reversed(others[:-1]):
        whole = _after(mechanism, whole), rounds
    return whole


def _at(mechanism: mechanisms.Mechanism, last: mechanisms.Mechanism) -> mechanisms.Mechanism:
    """Returns a mechanism and its pre-trainings with the delta and the accountant of `last`."""
    before = mechanism.pretraining and _at(mechanism.pretraining, last)
    return dataclasses.replace(mechanism, delta=last.delta, accountant=last.accountant, pretraining=before)


def _is_disjoint(mechanism: mechanisms.Mechanism | None) -> bool:
    return mechanism is not None and (mechanism.pretraining_disjoint or _is_disjoint(mechanism.pretraining))


def _after(mechanism: mechanisms.Mechanism, before: tuple[mechanisms.Mechanism, int]) -> mechanisms.Mechanism:
    """Returns a mechanism with `before` as its first pre-training, assuming that clients may be in both."""
    if mechanism.pretraining and mechanism.pretraining_rounds:
        earlier = _after(mechanism.pretraining, before), mechanism.pretraining_rounds
    else:
        earlier = before
    return dataclasses.replace(
        mechanism, pretraining=earlier[0], pretraining_rounds=earlier[1], pretraining_disjoint=False
    )


class Ledger:
    """An open ledger; see `opened`.

    Attributes:
      entries: All entries so far, oldest first.
    """

    def __init__(self, file: TextIO, entries: Sequence[Spent]):
        self._file = file
        self.entries = tuple(entries)

    def add(self, entries: Sequence[Spent]) -> None:
        """Appends entries, and waits until they are on disk."""
        for one in entries:
            self._file.write(json.dumps(dataclasses.asdict(one)) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.entries += tuple(entries)


@contextlib.contextmanager
def opened(path: pathlib.Path) -> Iterator[Ledger]:
    """Opens a ledger, and creates its file if it is missing. Other processes wait until the ledger is closed.

    Raises:
      UsageError: If the file is not a ledger or cannot be written.
    """
    try:
        file = open(path, "a+")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"--privacy_ledger={path} cannot be written ({error.strerror}).") from error
    with file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        file.seek(0)
        try:
            rows = [json.loads(line) for line in file]
            entries = [Spent(row["what"], mechanisms.of_values(row["mechanism"]), int(row["rounds"])) for row in rows]
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"--privacy_ledger={path} is not a readable ledger, so the privacy that was already spent is "
                "unknown: name the right file. (A new ledger would ignore all earlier releases.)"
            ) from error
        yield Ledger(file, entries)


def describe(spent: Sequence[tuple[mechanisms.Mechanism, int]]) -> str:
    """Returns a sentence on the privacy loss of all runs of a grid; empty if no run has noise.

    Args:
      spent: The mechanism and the number of rounds of each run. The smallest delta is used for all runs.
    """
    if not any(mechanism.noise_multiplier for mechanism, _ in spent):
        return ""
    from dp_accounting import rdp

    from optimization.privacy import accounting

    prefix = f"Privacy: choosing among runs on private data costs privacy. The {len(spent)} runs together"
    reasons = [mechanism.reason for mechanism, _ in spent if mechanism.reason]
    if reasons:
        return f"{prefix} guarantee nothing, because in {len(reasons)} of them {reasons[0]}."
    headlines = [mechanism.analyses[0] for mechanism, _ in spent]
    delta = min(mechanism.delta for mechanism, _ in spent)
    divergences = sum(one.divergences(rounds) for one, (_, rounds) in zip(headlines, spent, strict=True))
    epsilon, _ = rdp.compute_epsilon(accounting.ORDERS, divergences, delta)
    neighbours = "; ".join(dict.fromkeys(one.neighbours for one in headlines))
    assumed = ", if Poisson" if any(one.assumed for one in headlines) else ""
    return f"{prefix} spend epsilon {mechanisms.digits(epsilon)} by RDP, at delta {delta:.3g} ({neighbours}){assumed}."
