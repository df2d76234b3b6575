"""Memory that this process can take."""

import pathlib

# By controllers of a line of /proc/self/cgroup: the folder, and the files with the limit and the use, and the entry of
# memory.stat with what the system can take back. Version 2 has no controllers there.
_GROUPS = {
    "": (".", "memory.max", "memory.current", "file"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"),
}


def available_bytes() -> int:
    """Returns the bytes that this process can take without swapping: the machine's, or a container's if fewer."""
    import psutil

    return min([psutil.virtual_memory().available, *_left_in_groups(pathlib.Path("/"))])


def _left_in_groups(root: pathlib.Path) -> list[int]:
    """Bytes left below the limit of each control group that holds this process.

    Args:
      root: The folder that has `proc` and `sys`.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    left = []
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers not in _GROUPS:
            continue
        folder, limit, used, reclaimable = _GROUPS[controllers]
        base = root / "sys/fs/cgroup" / folder
        # A container may see its own group as the base, though the path is that of the host.
        for group in {base, *(base / parent for parent in pathlib.PurePath(path.lstrip("/"), "x").parents)}:
            try:
                stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                most, taken = int((group / limit).read_text()), int((group / used).read_text())
            except (OSError, ValueError):  # No such group, or no limit: version 2 writes "max".
                continue
            left.append(max(most - taken + int(stat.get(reclaimable, 0)), 0))
    return left
