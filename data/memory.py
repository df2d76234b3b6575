"""Memory that this process can take."""

import pathlib


def available_bytes() -> int:
    """Returns the bytes that this process can take without swapping: the machine's, or a container's if fewer."""
    import psutil

    return min([psutil.virtual_memory().available, *_left_in_groups(pathlib.Path("/"))])


def _left_in_groups(root: pathlib.Path) -> list[int]:
    """Bytes left below the limit of each control group (version 2) that holds this process.

    Args:
      root: The folder that has `proc` and `sys`.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    base = root / "sys/fs/cgroup"
    path = next((line.removeprefix("0::/") for line in lines if line.startswith("0::")), "")
    left = []
    # A container may see its own group as the base, though the path is that of the host.
    for group in {base, *(base / parent for parent in pathlib.PurePath(path, "x").parents)}:
        try:
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            most, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        except (OSError, ValueError):  # No such group, or no limit, which is written "max".
            continue
        left.append(max(most - used + int(stat.get("file", 0)), 0))  # Cached files can be dropped.
    return left
