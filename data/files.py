"""Finds the user's files (`--data_dir` or FEDBANDITS_DATA_DIR), reads NumPy archives, and writes files atomically."""

import contextlib
import io
import os
import pathlib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from data.errors import Failure, UsageError

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas as pd

PICTURES = (".png", ".pdf", ".svg")
EXAMPLES = pathlib.Path(__file__).parent / "examples"
WORKING_DIRECTORY = "BUILD_WORKING_DIRECTORY"  # The user's working directory under `bazel run`.
_VARIABLE = "FEDBANDITS_DATA_DIR"
_HOW_TO_NAME = f"name its folder with --data_dir or {_VARIABLE}. docs/data.md describes where to get it."
UNDAMAGED = "--data_dir must hold the undamaged file."


def user_path(path: str) -> str:
    """Absolute path. Under `bazel run`, relative paths start at the user's working directory."""
    base = os.environ.get(WORKING_DIRECTORY, os.getcwd())
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))


def folder_of_environment() -> str | None:
    """Value of FEDBANDITS_DATA_DIR; None if it is not set."""
    return os.environ.get(_VARIABLE) or None


@contextlib.contextmanager
def data_folder(data_dir: str | None) -> Iterator[None]:
    """Temporarily sets FEDBANDITS_DATA_DIR to `--data_dir`, including for child processes.

    Args:
      data_dir: Value of the flag; None leaves the variable unchanged.

    Raises:
      UsageError: If the value is not a folder.
    """
    before = os.environ.get(_VARIABLE)
    if data_dir:
        if not os.path.isdir(data_dir):
            raise UsageError(f"--data_dir={data_dir} is not a folder.")
        os.environ[_VARIABLE] = os.path.abspath(data_dir)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_VARIABLE, None)
        else:
            os.environ[_VARIABLE] = before


def instead_of_download(data_dir: str | None, names: Sequence[str], origin: str) -> pathlib.Path | None:
    """Path of the user's copy of a downloadable file; None if there is no copy.

    `--data_dir` must contain the file. FEDBANDITS_DATA_DIR need not, since all tasks share that folder.

    Args:
      data_dir: Value of the flag; None or empty for the folder in the environment variable.
      names: Possible names of the file, with the preferred one first.
      origin: URL of the download, for the message.

    Raises:
      UsageError: If the file is not in `--data_dir`. The message names the flag, the variable and the download.
    """
    folder = data_dir or folder_of_environment()
    if not folder:
        return None
    paths = (pathlib.Path(folder) / name for name in names)
    existing = next((path for path in paths if path.is_file()), None)
    if existing is None and data_dir:
        raise UsageError(
            f"There is no {' or '.join(names)} in {data_dir}: name the folder that holds it with --data_dir or "
            f"{_VARIABLE}, or leave --data_dir out to download it from {origin}."
        )
    return existing


def find(data_dir: str | None, name: str) -> pathlib.Path:
    """Path of a file in the data folder.

    Args:
      data_dir: Folder of the file; None or empty for the folder in the environment variable.
      name: File name.

    Raises:
      UsageError: If neither the flag nor the variable is set, or if the file is not in the folder.
    """
    folder = data_dir or folder_of_environment()
    if not folder:
        raise UsageError(f"This task needs the file {name}: {_HOW_TO_NAME}")
    path = pathlib.Path(folder) / name
    if not path.is_file():
        raise UsageError(f"There is no {name} in {path.parent}: {_HOW_TO_NAME}")
    return path


def find_table(path: str, name: str, data_dir: str | None) -> str:
    """Path of a table, which may be in the data folder or among the examples of this project.

    Args:
      path: Absolute path of the file that the user named.
      name: The same path, relative to the user's working directory; one outside of it is only looked for at `path`.
      data_dir: Value of the flag; None or empty for the folder in the environment variable.

    Returns:
      The first of these that is a file: `path`, `name` in the data folder, `name` among the examples. If none of them
      is a file, `path`.
    """
    folders = [folder for folder in (data_dir or folder_of_environment(), EXAMPLES) if folder]
    is_below = not os.path.isabs(name) and not name.startswith(os.pardir)
    places = [os.path.join(folder, name) for folder in folders if is_below]
    return next((place for place in [path, *places] if os.path.isfile(place)), path)


def arrays(path: pathlib.Path, *names: str) -> list[np.ndarray]:
    """Reads the arrays of a NumPy archive.

    Raises:
      UsageError: If the archive is not readable, or if an array is missing.
    """
    return _opened(path, lambda archive: [archive[name] for name in names], "", f": {UNDAMAGED}")


def _opened(path: pathlib.Path, read: Callable[[Any], Any], what: str, remedy: str) -> Any:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return read(archive)
    except Exception as error:  # NumPy and zipfile raise many types of errors for a damaged archive.
        raise UsageError(f"{path} is not readable{what} ({error}){remedy or '.'}") from error


@contextlib.contextmanager
def write_errors(path: pathlib.Path) -> Iterator[None]:
    """Converts an OSError that is raised while writing into a Failure that names the file."""
    try:
        yield
    except OSError as error:
        raise Failure(
            f"{path} cannot be written ({error.strerror or error}). Everything that was written before is kept."
        ) from error


@contextlib.contextmanager
def whole(path: pathlib.Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yields a new file to write to, which atomically replaces the old one once it is on disk.

    Args:
      path: The file. Only its owner can read it if its name begins with `private_`.
      mode: Permissions of the file, subject to the process's umask.

    Raises:
      Failure: If the file cannot be written. The old file is then unchanged, and no partial file remains.
    """
    mode = 0o600 if path.name.startswith("private_") else mode
    path = path.resolve()  # Replaces the target of a link, not the link itself.
    if path.exists() and not path.is_file():  # Such as /dev/null.
        with write_errors(path), open(path, "wb") as file:
            yield file
        return
    part = path.with_name(f"{path.name}.part{os.getpid()}")
    try:
        with write_errors(path):
            with open(part, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def replace(path: pathlib.Path, content: bytes) -> None:
    """Writes a file atomically.

    Raises:
      Failure: See `whole`.
    """
    with whole(path) as file:
        file.write(content)


def as_csv(table: "pd.DataFrame", **how: Any) -> bytes:
    """Content of a CSV file; texts that a spreadsheet would read as formulas are prefixed with an apostrophe.

    Args:
      table: Any table; its index is not written.
      **how: Further arguments of `DataFrame.to_csv`.
    """
    return table.rename(columns=_no_formula).map(_no_formula).to_csv(index=False, **how).encode()


def _no_formula(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    with contextlib.suppress(ValueError):
        float(cell)
        return cell
    return f"'{cell}"


def save_arrays(path: pathlib.Path, arrays: Mapping[str, npt.ArrayLike], mode: int = 0o666) -> None:
    """Writes a NumPy archive atomically; `np.savez` itself would report a full disk too late.

    Args:
      path: The file.
      arrays: Arrays by name.
      mode: See `whole`.

    Raises:
      Failure: See `whole`.
    """
    with whole(path, mode) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def read_arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the arrays that `save_arrays` wrote, by name.

    Raises:
      UsageError: If the file is not readable.
    """
    return _opened(path, lambda archive: dict(archive.items()), " as a model", "")


def save_picture(figure: "matplotlib.figure.Figure", path: str | os.PathLike, dpi: int) -> None:
    """Writes a picture atomically, in the format of its file extension.

    A PNG file gets only 256 colours, which makes it much smaller.

    Raises:
      Failure: See `whole`.
    """
    import matplotlib

    path = pathlib.Path(path)
    if path.suffix == ".png":
        from PIL import Image

        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=dpi)
        with whole(path) as file:
            Image.open(buffer).convert("RGB").quantize(dither=Image.Dither.NONE).save(file, "png", optimize=True)
        return
    # TrueType fonts, because publishers refuse Type 3 fonts.
    with whole(path) as file, matplotlib.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}):
        figure.savefig(file, format=path.suffix.removeprefix("."), dpi=dpi)


def check_output(flag: str, path: pathlib.Path, formats: Sequence[str] = ()) -> None:
    """Checks that an output file is writable, before its content is computed.

    Args:
      flag: The flag that names the file.
      path: The file.
      formats: Allowed file extensions.

    Raises:
      UsageError: If the file cannot be written, or has another extension. The message names the flag.
    """
    if formats and path.suffix not in formats:
        raise UsageError(f"--{flag}: the name {path.name} must end in {' or '.join(formats)}.")
    if not path.parent.is_dir():
        raise UsageError(f"--{flag}: there is no folder {path.parent}.")
    if path.is_dir():
        raise UsageError(f"--{flag}: {path} is a folder, not a file.")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--{flag}: the folder {path.parent} is not writable.")
