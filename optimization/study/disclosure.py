"""What each file of a run discloses about the clients, and which files may be published under its epsilon."""

import enum
import pathlib
from collections.abc import Mapping
from typing import Any


class Disclosure(enum.StrEnum):
    """What a file discloses; only files of the first kind may be published under epsilon."""

    RELEASED = "released under the guarantee, or independent of the clients' data"
    AGGREGATE = "counts, digests, aggregates and categories of participating clients, without noise"
    HELD_OUT = "rewards of held-out clients, whom epsilon does not protect either"
    PRIVATE = "as private as the data"


# Patterns of paths in the folder of a run with privacy. A pattern also matches in a subfolder, such as `init/`.
FILES: Mapping[str, Disclosure] = {
    "model/weights.npz": Disclosure.RELEASED,
    "models/period_*.npz": Disclosure.RELEASED,
    "finished.json": Disclosure.RELEASED,
    ".lock": Disclosure.RELEASED,
    "metrics.csv": Disclosure.AGGREGATE,
    "reward.png": Disclosure.AGGREGATE,
    "ads.png": Disclosure.AGGREGATE,
    "events.*": Disclosure.AGGREGATE,
    "log.txt": Disclosure.AGGREGATE,
    "bounds.json": Disclosure.AGGREGATE,
    "simulator.json": Disclosure.AGGREGATE,
    "statistics.json": Disclosure.AGGREGATE,
    "config.json": Disclosure.AGGREGATE,
    "export/*": Disclosure.AGGREGATE,
    "export/saved_model/*": Disclosure.AGGREGATE,
    "export/saved_model/*/*": Disclosure.AGGREGATE,
    "privacy.json": Disclosure.AGGREGATE,
    "client_rewards.json": Disclosure.HELD_OUT,
    "private_*": Disclosure.PRIVATE,
    "private_*/*": Disclosure.PRIVATE,
    "interactions/*": Disclosure.PRIVATE,
    "checkpoints/*": Disclosure.PRIVATE,
}


NOTICE = (
    "Epsilon covers the model alone, not the rewards that this run prints. privacy.json lists under `files` what each "
    "file discloses, and which may be published."
)


def of_file(path: pathlib.PurePath) -> Disclosure:
    """What a file of a run's folder discloses.

    Args:
      path: Path of the file, relative to the folder.

    Raises:
      KeyError: If the file is not classified.
    """
    for pattern, disclosure in FILES.items():
        if path.match(pattern):
            return disclosure
    raise KeyError(str(path))


def with_files(report: Mapping[str, Any]) -> dict[str, Any]:
    """Content of `privacy.json`: a mechanism's report, and under `files` what the run's files disclose."""
    patterns = {str(kind): [name for name, other in FILES.items() if other is kind] for kind in Disclosure}
    return {**report, "files": patterns}
