"""Downloads files into a cache folder, shows the progress, and verifies each file before it gets its final name.

If several programs request the same file, one of them downloads it and the others wait.
"""

import base64
import fcntl
import hashlib
import http.client
import lzma
import os
import pathlib
import sys
import urllib.request
from collections.abc import Callable

from data import files
from data.errors import UsageError

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 30


def cache_folder(cache_dir: str | None) -> pathlib.Path:
    """Folder of downloaded files."""
    if cache_dir:
        return pathlib.Path(cache_dir)
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return pathlib.Path(base).expanduser() / "federated_bandits"
    except RuntimeError:  # The user has no home folder, as in some containers.
        return pathlib.Path("/nonexistent")


def lzma_file(origin: str, file_name: str, cache_dir: str | None) -> pathlib.Path:
    """Path of a file that is published in compressed form; downloads it on first use.

    The SHA-256 of the first download is recorded next to the file, and later downloads must match it.

    Args:
      origin: URL of the `.lzma` file.
      file_name: Name of the decompressed file in the cache folder.
      cache_dir: Cache folder, or None for the default.

    Raises:
      UsageError: If the file cannot be downloaded or stored, is damaged, or differs from the first download.
    """
    path = cache_folder(cache_dir) / file_name
    archive, record = path.with_name(f"{file_name}.lzma"), path.with_name(f"{file_name}.sha256")

    def make() -> None:
        try:
            digest = _fetch(origin, archive)
            if record.is_file() and record.read_text().strip() != digest:
                raise UsageError(
                    f"This download of {origin} differs from the first one: start again to repeat it. If a new "
                    f"version was published, delete {record}, which holds the SHA-256 of the first download."
                )
            _decompress(archive, path, f"The download of {origin} is damaged ({{}}): start again to repeat it.")
            record.write_text(f"{digest}\n")
        finally:
            archive.unlink(missing_ok=True)

    _once(path, make)
    return path


def decompressed(archive: pathlib.Path) -> pathlib.Path:
    """Path of the decompressed content of the user's `.lzma` archive, which is saved next to it on first use.

    The path of any other file is returned unchanged.

    Raises:
      UsageError: If the archive is damaged, or its folder is not writable.
    """
    if archive.suffix != ".lzma":
        return archive
    path = archive.with_suffix("")
    if not path.is_file() and not os.access(path.parent, os.W_OK):
        raise UsageError(f"{path.parent} is not writable: decompress {archive} elsewhere, and name it with --data_dir.")
    _once(path, lambda: _decompress(archive, path, f"{archive} is damaged ({{}}): download it again."))
    return path


def _decompress(archive: pathlib.Path, path: pathlib.Path, damaged: str) -> None:
    """Decompresses an `.lzma` archive, atomically."""
    try:
        with lzma.open(archive) as source, files.whole(path) as target:
            while chunk := source.read(_CHUNK):
                target.write(chunk)
    except (lzma.LZMAError, EOFError) as error:
        raise UsageError(damaged.format(error)) from error


def plain_file(origin: str, file_name: str, cache_dir: str | None, digest: str | None = None) -> pathlib.Path:
    """Path of a published file; downloads it on first use.

    Args:
      origin: URL of the file.
      file_name: Name in the cache folder.
      cache_dir: Cache folder, or None for the default.
      digest: SHA-256 of the file in hexadecimal, or its MD5 if only that is published. It is checked at every call. If
        it is None, only the download is checked, with the server's length and MD5 if it sends them.

    Raises:
      UsageError: If the file cannot be downloaded or stored, or if its digest does not match.
    """
    path = cache_folder(cache_dir) / file_name
    _once(path, lambda: _fetch(origin, path, digest))
    with open(path, "rb") as file:
        if digest and hashlib.file_digest(file, "md5" if len(digest) == 32 else "sha256").hexdigest() != digest:
            raise UsageError(f"{path} is not the file that {origin} should contain: delete it to download it again.")
    return path


def _once(path: pathlib.Path, make: Callable[[], object]) -> None:
    """Creates a file unless it exists; if several programs request it, one creates it while the others wait.

    Args:
      path: The file.
      make: Creates the file atomically.

    Raises:
      UsageError: If the folder is not writable.
    """
    if path.is_file():
        return
    place = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = place.open("ab")
    except OSError as error:
        raise UsageError(
            f"{path.parent} cannot be written ({error.strerror}): choose another folder with --cache_dir or --data_dir."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Waiting for another program to create {path}.", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if not path.is_file():
                make()
        finally:
            place.unlink(missing_ok=True)


def _fetch(origin: str, path: pathlib.Path, expected: str | None = None) -> str:
    """Downloads a file atomically, verifies its digest, and returns its SHA-256."""
    import tqdm

    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    with files.whole(path) as file:
        try:
            with (
                urllib.request.urlopen(origin, timeout=_TIMEOUT_SECONDS) as response,
                tqdm.tqdm(unit="B", unit_scale=True, desc=f"Downloading {path.name}") as progress,
            ):
                progress.total = int(response.headers.get("Content-Length", 0)) or None
                while chunk := response.read(_CHUNK):
                    file.write(chunk)
                    md5.update(chunk)
                    sha256.update(chunk)
                    progress.update(len(chunk))
                headers = response.headers.get_all("x-goog-hash", [])  # Google Cloud Storage sends the MD5.
            if progress.total and progress.n < progress.total:
                raise OSError(f"the connection ended after {progress.n} of {progress.total} bytes; start again")
            published = [item.strip() for value in headers for item in value.split(",") if "md5=" in item]
            if published and f"md5={base64.b64encode(md5.digest()).decode()}" not in published:
                raise OSError("the checksum differs from the server's; start again to repeat the download")
        except (OSError, http.client.HTTPException) as error:
            raise UsageError(
                f"{path.name} is not in {path.parent}, and downloading it from {origin} failed ({error}). Run with "
                "network access, or use --data_dir to name the folder of the task's files, which docs/data.md lists."
            ) from error
        if expected and expected not in (md5.hexdigest(), sha256.hexdigest()):
            raise UsageError(f"The file at {origin} is not the expected one: start again to repeat the download.")
    return sha256.hexdigest()
