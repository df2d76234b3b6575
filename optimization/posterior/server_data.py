"""Unlabelled examples at the server, of `--server_data`."""

import dataclasses

import numpy as np

from data import clients, tasks
from data.errors import UsageError
from optimization.posterior.flags import PosteriorOptions


@dataclasses.dataclass(frozen=True)
class ServedTask(tasks.Task):
    """A task whose server may have examples, too.

    Attributes:
      server_features: The server's unlabelled examples, as the model takes them, or None.
    """

    server_features: clients.Features | None = None


def server_features(options: PosteriorOptions, task: tasks.Task) -> clients.Features | None:
    """Features of `--server_data`, as the model takes them; None without this flag.

    Raises:
      UsageError: If they cannot be read, or differ in shape from the task's.
    """
    if count := min(options.server_clients, len(task.clients)):
        return task.normalize(clients.joined([task.clients.load(index) for index in range(count)]).features)
    if not options.server_file:
        return None
    flag, of_task = f"--server_data={options.server_file}", f"--task_type={options.task.task_type}"
    try:
        with np.load(options.server_file, allow_pickle=False) as archive:
            features = archive["features"]
    except Exception as error:  # NumPy and zipfile raise many types for a damaged archive.
        raise UsageError(f"{flag} is not a readable .npz file with the array features ({error}).") from error
    held_out = task.held_out.load(0).features
    if not isinstance(held_out, np.ndarray) or features.shape[1:] != held_out.shape[1:] or not len(features):
        raise UsageError(f"{flag} holds features {features.shape}; {of_task} has others.")
    if features.dtype.kind not in "iuf" or not np.isfinite(features).all():
        raise UsageError(f"{flag} holds features that are not finite.")
    with np.errstate(over="ignore", invalid="ignore"):
        kept = features.astype(held_out.dtype)
    if not np.allclose(kept, features, rtol=1e-6):
        raise UsageError(f"{flag} holds features that are no {held_out.dtype}, which {of_task} has.")
    return task.normalize(kept)
