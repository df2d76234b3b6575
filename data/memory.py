"""Checks that tables fit into the available memory before they are read."""

import gzip
import pathlib

from data.errors import UsageError

MAX_ROWS = 20_000_000
_CHUNK = 1 << 24
_OF_TEXT = 10  # Bytes in memory for each byte of a CSV file, since each cell is an object.
_OF_CELLS = 3  # Copies of a numeric table while it is read.
_REMEDY = "read it on a larger machine, save it as Parquet without unneeded columns, or take a sample"


def available_bytes() -> int:
    """Returns how many bytes this process can use without swapping, within the limits of its container."""
    import psutil

    return min([psutil.virtual_memory().available, *_left_in_groups(pathlib.Path("/"))])


def _left_in_groups(root: pathlib.Path) -> list[int]:
    """Bytes left until the limit of each control group (version 2) that contains this process.

    Args:
      root: The folder that contains `proc` and `sys`.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    base = root / "sys/fs/cgroup"
    path = next((line.removeprefix("0::/") for line in lines if line.startswith("0::")), "")
    left = []
    # In a container, the base may be the container's own group although the path is that of the host.
    for group in {base, *(base / parent for parent in pathlib.PurePath(path, "x").parents)}:
        try:
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            most, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        except (OSError, ValueError):  # There is no such group, or no limit (written as "max").
            continue
        left.append(max(most - used + int(stat.get("file", 0)), 0))  # Cached files can be dropped.
    return left


def check_rows(rows: int, most: int, path: str) -> None:
    """Refuses a table with too many rows.

    Raises:
      UsageError: If there are more than `most` rows, the value of `--max_table_rows`.
    """
    if rows > most:
        raise UsageError(f"{path} has more than {most:,} rows, the limit of --max_table_rows: raise it or sample rows.")


def check_memory(needed: float, what: str, remedy: str = _REMEDY) -> None:
    """Checks that there is enough memory.

    Args:
      needed: Number of bytes that are needed.
      what: Description of the data that needs them.
      remedy: Advice for the user.

    Raises:
      UsageError: If more bytes are needed than are available.
    """
    available = available_bytes()
    if needed > available:
        raise UsageError(
            f"{what} needs about {needed / 1e9:,.1f} GB of memory, but only {available / 1e9:,.1f} GB are available: "
            f"{remedy}."
        )


def content(path: str) -> bytearray:
    """Returns the content of a text file, decompressed if it is gzipped.

    Raises:
      UsageError: If the text would not fit into memory; decompression then stops early.
    """
    text, file = bytearray(), pathlib.Path(path)
    check_memory(_OF_TEXT * file.stat().st_size, path)
    with file.open("rb") as plain:
        is_compressed = plain.read(2) == b"\x1f\x8b"
    with gzip.open(path) if is_compressed else file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            text += chunk
            size = len(text)
            check_memory((_OF_TEXT - 1) * size, f"{path}, decompressed to {size / 1e9:,.1f} GB so far,")
    return text


def check_parquet(path: str, most: int) -> None:
    """Checks the size of a Parquet file before it is read, based on its metadata.

    Raises:
      UsageError: If the file has too many rows, or does not fit into memory.
    """
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    check_rows(metadata.num_rows, most, path)
    content = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    check_memory(_OF_CELLS * max(content, 8 * metadata.num_rows * metadata.num_columns), path)
