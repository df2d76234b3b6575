"""Downloads into a cache folder: with progress, continued after a break, checked, and renamed when whole."""

import base64
import hashlib
import http.client
import lzma
import os
import pathlib
import shutil
import urllib.error
import urllib.request

from data.errors import UsageError

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 30


def cache_folder(cache_dir: str | None) -> pathlib.Path:
    """Returns the folder that downloads go to."""
    if cache_dir:
        return pathlib.Path(cache_dir)
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return pathlib.Path(base).expanduser() / "federated_bandits"


def lzma_file(origin: str, file_name: str, cache_dir: str | None) -> pathlib.Path:
    """Returns the path of a file that is published compressed, downloading it on first use.

    Args:
      origin: Address of the `.lzma` file.
      file_name: Name of the decompressed file in the cache folder.
      cache_dir: Cache folder, or None for the default.

    Raises:
      UsageError: If there is no file and no network, or the server's checksum does not match.
    """
    folder = cache_folder(cache_dir)
    path = folder / file_name
    if path.is_file():
        return path
    archive = folder / f"{file_name}.lzma.part"
    part = folder / f"{file_name}.part"
    _fetch_or_explain(origin, archive, file_name)
    try:
        with lzma.open(archive) as source, open(part, "wb") as target:
            shutil.copyfileobj(source, target, _CHUNK)
    except (lzma.LZMAError, EOFError) as error:
        archive.unlink()
        raise UsageError(f"The download of {origin} was damaged ({error}); start again to repeat it.") from error
    os.replace(part, path)
    archive.unlink()
    return path


def plain_file(origin: str, file_name: str, cache_dir: str | None, sha256: str | None = None) -> pathlib.Path:
    """Returns the path of a file as it is published, downloading it on first use.

    Args:
      origin: Its address.
      file_name: Its name in the cache folder.
      cache_dir: Cache folder, or None for the default.
      sha256: Hexadecimal digest of its contents; None trusts the checksum that the server sends along.

    Raises:
      UsageError: If there is no file and no network, or it is not the expected file.
    """
    path = cache_folder(cache_dir) / file_name
    if path.is_file():
        return path
    part = path.with_name(f"{file_name}.part")
    _fetch_or_explain(origin, part, file_name)
    if sha256 and _digest(part, "sha256") != sha256:
        part.unlink()
        raise UsageError(f"The download of {origin} is not the expected file; start again to repeat it.")
    os.replace(part, path)
    return path


def _fetch_or_explain(origin: str, part: pathlib.Path, file_name: str) -> None:
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        _fetch(origin, part)
    except (OSError, http.client.HTTPException) as error:
        raise UsageError(
            f"{file_name} is not in {part.parent}, and downloading it from {origin} failed ({error}). Either run with "
            f"network access, or put {file_name} in a folder and name that with --data_dir."
        ) from error


def _fetch(origin: str, archive: pathlib.Path) -> None:
    """Completes the archive, continuing after what is there already."""
    import tqdm

    have = archive.stat().st_size if archive.exists() else 0
    request = urllib.request.Request(origin, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # Nothing is left to send.
            return
        raise
    with response:
        if response.status != 206:
            have = 0  # The server sends all of it again.
        total = int(response.headers.get("Content-Length", 0)) + have
        progress = tqdm.tqdm(
            total=total or None,
            initial=have,
            unit="B",
            unit_scale=True,
            desc=f"Downloading {archive.stem}",
        )
        with open(archive, "ab" if have else "wb") as file, progress:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                progress.update(len(chunk))
        expected = _published_md5(response.headers)
    size = archive.stat().st_size
    if total and size < total:
        raise OSError(f"the connection ended after {size} of {total} bytes; start again to continue")
    if expected and expected != _digest(archive, "md5"):
        archive.unlink()
        raise OSError("the checksum differs from the server's; start again to repeat the download")


def _published_md5(headers) -> str | None:
    """Returns the hexadecimal MD5 that Google Cloud Storage announces, or None."""
    for value in headers.get_all("x-goog-hash", []):
        for item in value.split(","):
            name, _, digest = item.strip().partition("=")
            if name == "md5":
                return base64.b64decode(digest).hex()
    return None


def _digest(path: pathlib.Path, algorithm: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
