"""Downloads into a cache folder: with progress, resumed after interruptions, checked, and renamed when complete.

If several programs request a file, one downloads it and the others wait.
"""

import base64
import fcntl
import hashlib
import http.client
import lzma
import os
import pathlib
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import BinaryIO

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
    except RuntimeError:  # A user without a home, as in a container.
        return pathlib.Path("/nonexistent")


def lzma_file(origin: str, file_name: str, cache_dir: str | None) -> pathlib.Path:
    """Path of a file that is published compressed; downloads it on first use.

    The SHA-256 of the first download is recorded beside the file, and later downloads must have the same one.

    Args:
      origin: Address of the `.lzma` file.
      file_name: Name of the decompressed file in the cache folder.
      cache_dir: Cache folder, or None for the default.

    Raises:
      UsageError: If there is no file and no network, or the server's checksum does not match.
    """
    path = cache_folder(cache_dir) / file_name
    archive, record = path.with_name(f"{file_name}.lzma.part"), path.with_name(f"{file_name}.sha256")

    def make() -> None:
        _fetch_or_explain(origin, archive, file_name, "in a folder and name that with --data_dir")
        digest = _digest(archive, "sha256")
        try:
            if record.is_file() and record.read_text().strip() != digest:
                raise UsageError(
                    f"The download of {origin} differs from the first one: start again to repeat it, or delete "
                    f"{record}, which has the first one's SHA-256, if another version was published."
                )
            _decompress(archive, path, f"The download of {origin} is damaged ({{}}); start again to repeat it.")
            record.write_text(f"{digest}\n")
        finally:
            archive.unlink()

    once(path, archive, make)
    return path


def decompressed(archive: pathlib.Path) -> pathlib.Path:
    """Path of the content of the user's `.lzma` archive, decompressed beside it on first use.

    Any other file is returned as it is.

    Raises:
      UsageError: If the archive is damaged, or its folder cannot be written.
    """
    if archive.suffix != ".lzma":
        return archive
    path = archive.with_suffix("")
    if not path.is_file() and not os.access(path.parent, os.W_OK):
        raise UsageError(f"{path.parent} cannot be written: decompress {archive} elsewhere; name that with --data_dir.")
    damaged = f"{archive} is damaged ({{}}): download it again."
    once(path, path.with_name(f"{path.name}.lock"), lambda: _decompress(archive, path, damaged))
    return path


def _decompress(archive: pathlib.Path, path: pathlib.Path, damaged: str) -> None:
    """Decompresses an `.lzma` archive, atomically."""
    part = path.with_name(f"{path.name}.part")
    try:
        with lzma.open(archive) as source, open(part, "wb") as target:
            shutil.copyfileobj(source, target, _CHUNK)
    except (lzma.LZMAError, EOFError) as error:
        raise UsageError(damaged.format(error)) from error
    os.replace(part, path)


def plain_file(
    origin: str, file_name: str, cache_dir: str | None, digest: str | None = None, destination: str = "there"
) -> pathlib.Path:
    """Path of a published file; downloads it on first use.

    Args:
      origin: Address of the file.
      file_name: Name in the cache folder.
      cache_dir: Cache folder, or None for the default.
      digest: SHA-256 of the file, or MD5 where only that is published, in hexadecimal, checked at every request; None
        trusts the server's checksum and the cache folder.
      destination: Where users without a network put the file, for the message.

    Raises:
      UsageError: If there is no file and no network, or it is not the expected file.
    """
    path = cache_folder(cache_dir) / file_name
    part = path.with_name(f"{file_name}.part")

    def check(file: pathlib.Path, remedy: str) -> None:
        if digest and _digest(file, "md5" if len(digest) == 32 else "sha256") != digest:
            if file == part:
                part.unlink()
            raise UsageError(f"{file} is not the expected file of {origin}: {remedy}.")

    def make() -> None:
        _fetch_or_explain(origin, part, file_name, destination)
        check(part, "start again to repeat the download")
        os.replace(part, path)

    once(path, part, make)
    check(path, "delete it, and it is downloaded again")
    return path


def once(path: pathlib.Path, part: pathlib.Path, make: Callable[[], None]) -> None:
    """Makes a file unless it exists; of several requests, one makes it while the others wait.

    Args:
      path: The file.
      part: The locked partial file; it stays unless it is empty, for a later continuation.
      make: Makes the file, perhaps by filling and renaming the part.

    Raises:
      UsageError: If the folder cannot be written.
    """
    while not path.is_file():
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            lock = open(part, "ab")  # noqa: SIM115
        except OSError as error:
            raise UsageError(
                f"{part.parent} cannot be written ({error.strerror}): give another --cache_dir, or --data_dir."
            ) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"Waiting for another program to make {path}.", file=sys.stderr)
                fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                # The previous holder may have made the file, or removed this part.
                if _is_at(lock, part) and not path.is_file():
                    make()
            finally:
                if _is_at(lock, part) and not os.fstat(lock.fileno()).st_size:
                    part.unlink()


def _is_at(file: BinaryIO, path: pathlib.Path) -> bool:
    """Whether the name still belongs to this open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _fetch_or_explain(origin: str, part: pathlib.Path, file_name: str, destination: str) -> None:
    try:
        _fetch(origin, part)
    except (OSError, http.client.HTTPException) as error:
        raise UsageError(
            f"{file_name} is not in {part.parent}, and downloading it from {origin} failed ({error}). Either run with "
            f"network access, or put {file_name} {destination}."
        ) from error


def _fetch(origin: str, archive: pathlib.Path) -> None:
    """Completes the archive, continuing after the existing part."""
    import tqdm

    have = archive.stat().st_size if archive.exists() else 0
    request = urllib.request.Request(origin, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # The part is complete.
            return
        raise
    with response:
        if response.status != 206:
            have = 0  # The server sends all of it again.
        total = int(response.headers.get("Content-Length", 0)) + have
        progress = tqdm.tqdm(
            total=total or None, initial=have, unit="B", unit_scale=True, desc=f"Downloading {archive.stem}"
        )
        with open(archive, "ab" if have else "wb") as file, progress:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                progress.update(len(chunk))
        expected = response.headers.get_all("x-goog-hash", [])  # Google Cloud Storage publishes the MD5 in Base64.
    size, digest = archive.stat().st_size, base64.b64encode(bytes.fromhex(_digest(archive, "md5"))).decode()
    if total and size < total:
        raise OSError(f"the connection ended after {size} of {total} bytes; start again to continue")
    published = [item.strip() for value in expected for item in value.split(",") if item.strip().startswith("md5=")]
    if published and f"md5={digest}" not in published:
        archive.unlink()
        raise OSError("the checksum differs from the server's; start again to repeat the download")


def _digest(path: pathlib.Path, algorithm: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
