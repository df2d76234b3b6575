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
FILES: Mapping[Disclosure, tuple[str, ...]] = {
    Disclosure.RELEASED: ("model/weights.npz", "models/period_*.npz", "finished.json", ".lock"),
    Disclosure.AGGREGATE: (
        "metrics.csv",
        "reward.png",
        "events.*",
        "log.txt",
        "bounds.json",
        "simulator.json",
        "statistics.json",
        "config.json",
        "export/*",
        "export/saved_model/*",
        "export/saved_model/*/*",
        "privacy.json",
    ),
    Disclosure.HELD_OUT: ("client_rewards.json",),
    Disclosure.PRIVATE: ("private_*", "private_*/*", "interactions/*", "checkpoints/*"),
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
    for disclosure, patterns in FILES.items():
        if any(map(path.match, patterns)):
            return disclosure
    raise KeyError(str(path))


def with_files(report: Mapping[str, Any]) -> dict[str, Any]:
    """Content of `privacy.json`: a mechanism's report, and under `files` what the run's files disclose."""
    return {**report, "files": {str(kind): list(patterns) for kind, patterns in FILES.items()}}
