"""Python interface of studies: keywords instead of the flags of their binaries.

`bandits.run`, `bandits.ads.run`, `bandits.mab_fl.run`, `bandits.client_selection.run` and
`optimization.posterior.run` call `run`; `bandits.load` calls `load`. This module neither ends the process nor changes
its signal handlers.
"""

import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import itertools
import os
import pathlib
import re
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from data import frames, objects
from data.errors import Failure, UsageError, did_you_mean, near_names
from optimization.study import cli, frame, interruption, results, run_folder
from optimization.study.metrics import Metric

if TYPE_CHECKING:
    import pandas as pd

_TABLE = "table"
_ONLY_FOR_PROGRAMS = "list_presets"
_MOST_WHOLE = 1 << 53
_Result = TypeVar("_Result")
_running = threading.Lock()  # Runs share one worker and compiled computations.
_pids: set[int] = set()  # This process, if it has executed runs, and processes that did so before it was forked.


@functools.cache
def function(study: frame.Study) -> "Callable[..., results.Run | results.Runs]":
    """Returns the function `run` of a study. Its signature and docstring list all settings."""

    def run_study(**settings: Any) -> results.Run | results.Runs:
        """Starts or continues the runs of a command, as `./scripts/python -m {module}` does.

        The same call continues a run that was interrupted, and reads one that is finished. Calls from several
        threads run one after the other.

        Example:
          >>> run = {package}.run(total_rounds=20, seed=1)
          >>> run.metrics.tail()

        Args:
          **settings: The settings below. None means that a setting is not given. Settings that take
            `module:object` also take the object itself.
          {table}

        Returns:
          The finished run as a `Run`, or several as `Runs`.

        Raises:
          TypeError: For a keyword that is not a setting.
          UsageError: For values that the command line refuses.
          Failure: If a run fails; finished rounds are saved.
          KeyboardInterrupt: After Ctrl-C, once the round in progress is saved; the same call continues the run.

        Settings, with their defaults:

        {settings}
        """
        return run(study, settings)

    flags, module = frame.flag_set(study), _module(study)
    kinds = {name: flag.type if isinstance(flag.type, type) else str for name, flag in flags.declared.items()}
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if callable(flag.default) else flag.default,
            annotation=object if flag.takes_objects else kinds[name],
        )
        for name, flag in flags.declared.items()
        if name != _ONLY_FOR_PROGRAMS
    ]
    table = ""
    if "data_file" in flags.declared:
        table = f"{_TABLE}: A pandas DataFrame instead of data_file; it is neither changed nor stored."
        parameters.append(inspect.Parameter(_TABLE, inspect.Parameter.KEYWORD_ONLY, default=None))
    listed = re.sub(r"--(?=\w)", "", flags.help().removeprefix(flags.usage).strip())
    run_study.__name__ = run_study.__qualname__ = "run"
    run_study.__module__ = package = module.rpartition(".")[0]
    run_study.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    doc = inspect.cleandoc(run_study.__doc__ or "")
    run_study.__doc__ = doc.format(module=module, package=package, table=table, settings=listed)
    return run_study


def run(study: frame.Study, flag_values: Mapping[str, Any]) -> results.Run | results.Runs:
    """Starts or continues the runs of a command, as the study's binary does.

    Calls from several threads run one after the other.

    Args:
      study: Definition of the study.
      flag_values: Values of flags by name: numbers, strings, paths, True or False; a list for a comma-separated flag;
        an object for a flag that takes `module:object`; None if a flag is not given. `table`, a pandas DataFrame,
        replaces --data_file, and is neither changed nor stored.

    Returns:
      The finished run, or several.

    Raises:
      TypeError: For a keyword that is not a setting.
      UsageError: For values that the binary refuses.
      Failure: If a run fails, or this process was forked from one that has executed runs; finished rounds are saved.
      KeyboardInterrupt: After Ctrl-C, once the round in progress is saved; the same call continues the run. If this
        call is waiting for another thread's run, immediately; the other run goes on.
    """
    flag_values = checked(study, flag_values)
    flags, table = frame.flag_set(study), flag_values.pop(_TABLE, None)
    own = {
        name: flag_values.pop(name)
        for name, setting in flags.declared.items()
        if setting.takes_objects and not isinstance(flag_values.get(name, ""), str)
    }
    own = {name: flags.declared[name].of_objects(value, study.recorded_object) for name, value in own.items()}
    arguments = words(flag_values)
    settings = flags.parse(["", *arguments]).with_user_values(**own)
    if problems := objects.problems({name: own[name] for name in own.keys() - run_folder.FREE_FLAGS}):
        settings = settings.with_user_values(root_output_dir=tempfile.mkdtemp(dir=_in_memory().name))
        remedy = "To keep the run, use functions and frozen dataclasses that are defined in a module"
        print(f"The run's files are deleted when this process ends: {'; '.join(problems)}. {remedy}.", file=sys.stderr)
    if _pids - {os.getpid()}:  # A fork lacks the threads of gRPC and TensorFlow, which would end its parent.
        raise Failure(
            "This process was forked after a run, and cannot start runs: let multiprocessing spawn processes."
        )
    try:
        folders = _in_a_thread(lambda: _execute(study, settings, arguments, table))
    finally:
        for each in itertools.chain(*(one if isinstance(one, list) else [one] for one in own.values())):
            each.release()
    runs = [results.read(folder, [study.columns], study.predictor) for folder in folders]
    return runs[0] if len(runs) == 1 else results.Runs(runs)


@functools.cache
def _in_memory() -> tempfile.TemporaryDirectory:
    """Folder of runs that are deleted when this process ends."""
    return tempfile.TemporaryDirectory(prefix="federated_bandits_")


def checked(
    study: frame.Study, flag_values: Mapping[str, Any], more: Iterable[str] = (), name: str = "run"
) -> dict[str, Any]:
    """Checks keywords. Returns those that are not None, with the task type that a table needs.

    Args:
      study: Definition of the study.
      flag_values: Values of its flags by name.
      more: Further permitted keywords.
      name: Name of the function that has the keywords.

    Raises:
      TypeError: For a keyword that is not a setting.
      UsageError: If `list_presets` is set, or `table` is not a table or does not fit the study or the other keywords.
    """
    flag_values = {name: value for name, value in flag_values.items() if value is not None}
    known = frame.flag_set(study).declared
    for word in flag_values:
        if word not in (_TABLE, *known, *more):
            package = _module(study).rpartition(".")[0]
            hint = did_you_mean(near_names(word, [_TABLE, *known, *more]), f"help({package}.run) lists all.")
            raise TypeError(f"{name}() got an unexpected keyword argument {word!r}: {hint}")
    if flag_values.pop(_ONLY_FOR_PROGRAMS, False):
        raise UsageError(f"--list_presets is for the command line: ./scripts/python -m {_module(study)} --list_presets")
    return _with_table(flag_values, flag_values[_TABLE], known) if _TABLE in flag_values else flag_values


def words(flag_values: Mapping[str, Any]) -> list[str]:
    """Converts keywords to arguments of a command line.

    Raises:
      UsageError: If a value cannot be written on a command line.
    """
    return [f"--{name}={_text(name, value)}" for name, value in flag_values.items()]


def _in_a_thread(execute: Callable[[], _Result]) -> _Result:
    """Calls `execute` in another thread, because a KeyboardInterrupt inside of it would break gRPC and TensorFlow.

    Raises:
      KeyboardInterrupt: After Ctrl-C: immediately if it is still waiting for another thread's run; otherwise once the
        round in progress is saved, or immediately after a second Ctrl-C.
    """
    context, future = contextvars.copy_context(), concurrent.futures.Future[_Result]()

    def work() -> None:
        with _running:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(context.run(execute))
                except BaseException as error:
                    future.set_exception(error)

    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
        _wait(future)
        return future.result()
    except KeyboardInterrupt:
        if not future.cancel():  # It has started.
            if not interruption.stop(thread) and future.running():
                interruption.print_line("\nStopping before the next round; press Ctrl-C again to return immediately.")
            _wait(future)
        raise


def _wait(future: concurrent.futures.Future) -> None:
    """Waits in short intervals, because a signal that arrives just before a wait is handled only after the wait."""
    while not concurrent.futures.wait([future], timeout=0.5).done:
        pass


def _execute(
    study: frame.Study, settings: cli.Settings, words: Sequence[str], table: "pd.DataFrame | None"
) -> list[pathlib.Path]:
    """Executes all runs; returns their folders.

    Raises:
      KeyboardInterrupt: If they were stopped.
    """
    with contextlib.ExitStack() as ended:
        cli.hush_imports()
        note = ""
        with contextlib.ExitStack() as lending:
            if table is not None:
                name = lending.enter_context(frames.lent(table))
                settings, note = settings.with_user_values(data_file=name), f", its table {name}"
            note += "".join(f", its {name} {value}" for name, value in settings.items() if objects.label(value))
            command = f"{cli.command_line(_module(study), words)}  # from Python{note}"
            runs = frame.open_all(study, settings, command)
        for run in runs:
            ended.callback(run.folder.close)
        _pids.add(os.getpid())
        with interruption.held() as received:
            if frame.run_all(study, settings, runs) or received:
                raise KeyboardInterrupt
    return [run.folder.path for run in runs]


def load(
    folder: str | os.PathLike, studies: Iterable[Sequence[Metric]], predictor: str = ""
) -> results.Run | results.Runs:
    """Reads the run in a folder, or all runs in it. Runs that have not begun are left out.

    Runs that cannot be read, such as those in their first round, are left out with a warning if others can be read. For
    `studies` and `predictor`, see `results.read`.

    Returns:
      One run, or a sequence of several.

    Raises:
      UsageError: If there is no run, or none can be read.
    """
    if not isinstance(folder, str | os.PathLike) or "\0" in str(folder):
        raise UsageError(f"load takes the path of a folder, not {folder!r}.")
    path = pathlib.Path(cli.user_path(os.fspath(folder)))
    folders = [run for group in results.find(path).values() for run in group if (run / "metrics.csv").is_file()]
    if not folders:
        raise UsageError(f"There is no metrics.csv in {path}: name the folder of a run that has started.")
    columns = list(studies)
    runs, unread = [], []
    for run_path in folders:
        try:
            runs.append(results.read(run_path, columns, predictor))
        except UsageError as error:
            unread.append(error)
    if not runs:
        raise unread[0]
    for reason in unread:
        warnings.warn(f"A run is left out: {reason}", stacklevel=3)  # Where `bandits.load` is called.
    return runs[0] if len(runs) == 1 else results.Runs(runs)


def _module(study: frame.Study) -> str:
    return type(study).__module__


def _text(name: str, value: Any) -> str:
    """Spelling of a value on the command line.

    Raises:
      UsageError: If the value cannot be written there.
    """
    if hasattr(value, "tolist"):  # NumPy's and pandas' numbers and arrays.
        value = value.tolist()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < _MOST_WHOLE:
        value = int(value)  # For example, total_rounds=1e3.
    if isinstance(value, str | int | float | os.PathLike):
        text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
        if isinstance(text, str) and "\0" not in text:
            return text
    if isinstance(value, list | tuple | range) and not any(isinstance(item, list | tuple) for item in value):
        return cli.joined([_text(name, item) for item in value])
    raise UsageError(
        f"--{name} takes a number, a string, a path, True or False, or a list of these, not a {type(value).__name__}."
    )


def _with_table(flag_values: dict[str, Any], table: Any, known: Iterable[str]) -> dict[str, Any]:
    """Keywords with the task type that a table needs.

    Raises:
      UsageError: If `table` is not a table, or does not fit the study or the other keywords.
    """
    import pandas as pd

    if "data_file" not in known:
        raise UsageError("This study does not use tables: leave out table.")
    if not isinstance(table, pd.DataFrame):
        raise UsageError(f"table must be a pandas DataFrame, not a {type(table).__name__}: for a file, use data_file.")
    if "data_file" in flag_values:
        raise UsageError("table and --data_file name two tables: leave one out.")
    if "task_type" not in known:
        return flag_values
    if flag_values.get("task_type", "tabular") not in ("tabular", "logged"):
        raise UsageError(f"table is for --task_type=tabular or logged, not {flag_values['task_type']}.")
    return {"task_type": "tabular", **flag_values}
