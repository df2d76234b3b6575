"""Studies from Python, in notebooks too: what their binaries do, by keywords instead of flags.

All of `bandits.run`, `bandits.ads.run`, `bandits.mab_fl.run`, `bandits.client_selection.run` and
`optimization.posterior.run` are `run` here; `bandits.load` is `load`. Nothing here, nor below, ends the process or
changes how it answers signals.
"""

import concurrent.futures
import contextlib
import contextvars
import os
import pathlib
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from data import frames
from data.errors import Failure, UsageError
from optimization.study import cli, frame, interruption, results, texts
from optimization.study.metrics import Metric

if TYPE_CHECKING:
    import pandas as pd

_TABLE = "table"
_HELP = "./scripts/python -m {} --helpfull"
_MOST_WHOLE = 1 << 53
_Result = TypeVar("_Result")
_playing = threading.Lock()  # There is one worker, and what is compiled is shared.
_pids: set[int] = set()  # The process that has played, and those it was forked from.


def run(study: frame.Study, given: Mapping[str, Any]) -> results.Run | results.Runs:
    """Plays, or continues, the runs of a command, as the study's binary does.

    Runs of several threads wait for each other.

    Args:
      study: The study.
      given: The values of flags by their names: numbers, texts, paths, True and False, and, where a flag takes words
        separated by commas, a list; None is as if it were not given. `table`, a pandas DataFrame, stands for
        --data_file, and is neither changed nor kept.

    Returns:
      The finished run, or all of them, where they are several.

    Raises:
      UsageError: As the binary would answer.
      Failure: If it cannot be done, such as in a fork of a process that has played; what was done before is saved.
      KeyboardInterrupt: After Ctrl-C, once the round in progress is finished and saved, or at once while it waits for
        another thread's run, which plays on; the same call continues.
    """
    given = {name: value for name, value in given.items() if value is not None}
    table = given.pop(_TABLE, None)
    flags = frame.flag_set(study)
    known = flags.parse([""])
    for name in given:
        if name not in known:
            hint = texts.did_you_mean(
                texts.near_names(name, [_TABLE, *known]), f"{_HELP.format(_module(study))} lists all."
            )
            raise UsageError(f"{name} is no setting of this study: {hint}")
    if given.pop("list_presets", False):
        raise UsageError(f"--list_presets is for the command line: ./scripts/python -m {_module(study)} --list_presets")
    if table is not None:
        given = _with_table(given, table, known)
    words = [f"--{name}={_text(name, value)}" for name, value in given.items()]
    settings = flags.parse(["", *words])
    if _pids - {os.getpid()}:  # gRPC and TensorFlow, whose threads a fork has not, would end its parent.
        raise Failure("This process was forked after a run, and cannot play: let multiprocessing spawn its processes.")
    folders = _in_a_thread(lambda: _play(study, settings, words, table))
    found = [results.read(folder, [study.columns]) for folder in folders]
    return found[0] if len(found) == 1 else results.Runs(found)


def _in_a_thread(play: Callable[[], _Result]) -> _Result:
    """Calls in another thread: what Ctrl-C raised in the midst of gRPC or TensorFlow would leave them out of order.

    Raises:
      KeyboardInterrupt: After Ctrl-C: at once while it waits for others, else once who plays has finished and saved
        the round in progress. After another, at once.
    """
    context, future = contextvars.copy_context(), concurrent.futures.Future[_Result]()

    def work() -> None:
        with _playing:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(context.run(play))
                except BaseException as error:
                    future.set_exception(error)

    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
        _wait(future)
        return future.result()
    except KeyboardInterrupt:
        if not future.cancel():  # It plays, or has played.
            if not interruption.stop(thread) and future.running():
                interruption.tell("\nStopping before the next round; once more to be back at once.")
            _wait(future)
        raise


def _wait(future: concurrent.futures.Future) -> None:
    """Waits, by short naps: a signal that comes just before a wait begins is answered when it ends."""
    while not concurrent.futures.wait([future], timeout=0.5).done:
        pass


def _play(
    study: frame.Study, settings: cli.Settings, words: Sequence[str], table: "pd.DataFrame | None"
) -> list[pathlib.Path]:
    """Plays all runs; returns their folders.

    Raises:
      KeyboardInterrupt: If they were stopped.
    """
    with contextlib.ExitStack() as ended:
        cli.hush_imports()
        with _lent(settings, table) as (settings, note):
            command = f"{cli.command_line(_module(study), words)}  # from Python{note}"
            runs = frame.open_all(study, settings, command)
        for run in runs:
            ended.callback(run.folder.close)
        _pids.add(os.getpid())
        if frame.play_all(study, settings, runs):
            raise KeyboardInterrupt
    return [run.folder.path for run in runs]


def load(folder: str | os.PathLike, studies: Iterable[Sequence[Metric]]) -> results.Run | results.Runs:
    """Reads a run's folder, or all runs of a folder; seeds that have not begun are left out.

    So are runs that cannot be read, such as in their first round, with a warning that names them, if others can.

    Args:
      folder: The folder.
      studies: See `results.read`.

    Returns:
      The run, if it is one, or a sequence.

    Raises:
      UsageError: If there is none, or none can be read.
    """
    if not isinstance(folder, str | os.PathLike) or "\0" in str(folder):
        raise UsageError(f"load takes the path of a folder, not {folder!r}.")
    path = pathlib.Path(cli.user_path(os.fspath(folder)))
    folders = [one for group in results.find(path).values() for one in group if (one / "metrics.csv").is_file()]
    if not folders:
        raise UsageError(f"{path} holds no metrics.csv; has the run begun?")
    columns = list(studies)
    found, unread = [], []
    for one in folders:
        try:
            found.append(results.read(one, columns))
        except UsageError as error:
            unread.append(error)
    if not found:
        raise unread[0]
    for reason in unread:
        warnings.warn(f"A run is left out: {reason}", stacklevel=3)  # Where `bandits.load` is called.
    return found[0] if len(found) == 1 else results.Runs(found)


def _module(study: frame.Study) -> str:
    return type(study).__module__


def _text(name: str, value: Any) -> str:
    """Returns a value as the command line has it.

    Raises:
      UsageError: If it has no such form.
    """
    if hasattr(value, "tolist"):  # NumPy's and pandas' numbers and arrays.
        value = value.tolist()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < _MOST_WHOLE:
        value = int(value)  # 1e3 rounds.
    if isinstance(value, str | int | float | os.PathLike):
        text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
        if isinstance(text, str) and "\0" not in text:
            return text
    if isinstance(value, list | tuple | range) and not any(isinstance(one, list | tuple) for one in value):
        return cli.joined([_text(name, one) for one in value])
    raise UsageError(
        f"--{name} takes a number, a text, a path, True or False, or a list of such, not a {type(value).__name__}."
    )


def _with_table(given: dict[str, Any], table: Any, known: cli.Settings) -> dict[str, Any]:
    """Returns what is given with the task that takes a table.

    Raises:
      UsageError: If the study takes none, or something else is given for it.
    """
    import pandas as pd

    if "data_file" not in known:
        raise UsageError("table does not belong to this study, which takes none.")
    if not isinstance(table, pd.DataFrame):
        raise UsageError(f"table must be a pandas DataFrame, not a {type(table).__name__}; --data_file takes a file.")
    if "data_file" in given:
        raise UsageError("table and --data_file are two tables: leave one out.")
    if "task_type" not in known:
        return given
    if given.get("task_type", "tabular") != "tabular":
        raise UsageError(f"table is for --task_type=tabular, not {given['task_type']}.")
    return {"task_type": "tabular", **given}


@contextlib.contextmanager
def _lent(settings: cli.Settings, table: "pd.DataFrame | None") -> Iterator[tuple[cli.Settings, str]]:
    """Yields settings that name a table, if there is one, and what is to be said of it."""
    if table is None:
        yield settings, ""
    else:
        with frames.lent(table) as name:
            yield settings.give(data_file=name), f", its table {name}"
