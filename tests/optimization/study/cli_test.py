"""Tests of optimization.study.cli."""

import errno
import io
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import warnings

import pytest

from data.errors import UsageError
from optimization.study import cli


def _flag_set() -> cli.FlagSet:
    flag_set = cli.FlagSet("\nWhat it is for.\n")
    flag_set.group("First")
    flag_set.text("name", None, "a name")
    flag_set.integer("count", 3, "a count", low=1, high=9)
    flag_set.integer("size", None, "a size")
    flag_set.group("Second")
    flag_set.number("share", 0.5, "a share", high=1.0)
    flag_set.number("scale", 2.0, "a scale", above=True)
    flag_set.number("decay", None, "a decay", high=1.0, below=True)
    flag_set.switch("fast", True, "be fast")
    flag_set.choice("kind", "round", ["round", "flat"], "the kind")
    flag_set.choice("metal", None, {"iron": "it rusts", "gold": "it does not"}, "the metal")
    return flag_set


def _parse(*arguments: str) -> cli.Settings:
    return _flag_set().parse(["program", *arguments])


def test_flags_that_are_not_given_have_their_defaults():
    assert dict(_parse()) == {
        "name": None,
        "count": 3,
        "size": None,
        "share": 0.5,
        "scale": 2.0,
        "decay": None,
        "fast": True,
        "kind": "round",
        "metal": None,
    }


def test_given_flags_have_the_values_of_their_types():
    settings = _parse("--name=x y", "--count=9", "--share=1", "--nofast", "--kind", "flat", "--metal=gold")
    assert dict(settings) == {
        "name": "x y",
        "count": 9,
        "size": None,
        "share": 1.0,
        "scale": 2.0,
        "decay": None,
        "fast": False,
        "kind": "flat",
        "metal": "gold",
    }
    assert isinstance(settings.share, float)


def test_the_last_of_two_values_counts():
    assert _parse("--count=4", "--count=5").count == 5


@pytest.mark.parametrize("argument", ["--fast", "--fast=true", "--fast=1"])
def test_a_switch_is_turned_on_by(argument):
    assert _parse("--nofast", argument).fast is True


def test_two_flag_sets_do_not_share_values():
    flag_set = _flag_set()
    assert _parse("--count=4").count == 4
    assert flag_set.parse(["program"]).count == 3


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--share=1.01", "--share=1.01: 1.01 is not a number of at least 0 and at most 1"),
        ("--share=-0.5", "--share=-0.5: -0.5 is not a number of at least 0 and at most 1"),
        ("--share=nan", "--share=nan: nan is not a number of at least 0 and at most 1"),
        ("--scale=0", "--scale=0.0: 0 is not a number above 0"),
        ("--scale=inf", "--scale=inf: inf is not a number above 0"),
        ("--decay=1", "--decay=1.0: 1 is not a number of at least 0 and below 1"),
        ("--share=much", "--share=much: could not convert string to float: 'much'"),
        ("--count=0", "--count=0: 0 is not an integer in the range [1, 9]"),
        ("--count=10", "--count=10: 10 is not an integer in the range [1, 9]"),
        ("--count=2.5", "--count=2.5: invalid literal for int() with base 10: '2.5'"),
        ("--size=-1", "--size=-1: -1 is not a non-negative integer"),
        ("--kind=square", "--kind=square: value should be one of <round|flat>"),
        ("--metal=tin", "--metal=tin: value should be one of <iron|gold>"),
        ("--name", "Missing value for --name"),
        ("--fats", "Unknown command line flag 'fats'. Did you mean: fast ?"),
        ("count=4", "Unexpected argument 'count=4': settings are given as --flag=value."),
    ],
)
def test_bad_usage_is_answered_with(argument, message):
    with pytest.raises(UsageError) as caught:
        _parse(argument)
    assert str(caught.value) == message


def test_bounds_themselves_are_allowed_unless_excluded():
    settings = _parse("--share=0", "--count=1", "--size=0", "--decay=0")
    assert (settings.share, settings.count, settings.size, settings.decay) == (0.0, 1, 0, 0.0)


def test_an_argument_after_two_dashes_is_refused_too():
    with pytest.raises(UsageError, match="Unexpected argument 'rest'"):
        _parse("--", "rest")


def test_arguments_that_are_wanted_may_stand_anywhere():
    flag_set = cli.FlagSet("", positional="folders")
    flag_set.group("Only")
    flag_set.integer("count", 3, "a count")
    settings = flag_set.parse(["program", "a,b", "--count=4", "c", "--", "--d"])
    assert dict(settings) == {"count": 4, "folders": ("a,b", "c", "--d")}
    assert flag_set.parse(["program"]).folders == ()


def test_flags_of_other_programs_are_kept_in_their_order_where_they_are_wanted():
    flag_set = cli.FlagSet("", "rest", known_only=True)
    flag_set.group("Flags")
    flag_set.texts("sweep", "several")
    flag_set.integer("count", 1, "a count")
    settings = flag_set.parse(
        ["program", "--a", "5", "--sweep=x=1", "--nob", "--count=2", "--sweep", "y=2,3", "--c=--d"]
    )
    assert dict(settings) == {"sweep": ["x=1", "y=2,3"], "count": 2, "rest": ("--a", "5", "--nob", "--c=--d")}
    assert settings.given == {"sweep", "count"}
    assert "--sweep: several\n" in flag_set.help()


@pytest.mark.parametrize("name", ["a", "a/b.c/seed_0", "日本", "with blank"])
def test_the_name_of_a_folder_may_be_any_below_another(name):
    flag_set = cli.FlagSet("")
    flag_set.group("Only")
    flag_set.folder("experiment_name", "its name")
    assert flag_set.parse(["program", f"--experiment_name={name}"]).experiment_name == name


def test_seeds_end_with_the_largest_of_32_bits():
    assert cli.seeds({"seed": 2**32 - 3, "repeat": 3}) == range(2**32 - 3, 2**32)
    with pytest.raises(UsageError, match=r"--seed=4294967294 with --repeat=3 ends above 4294967295"):
        cli.seeds({"seed": 2**32 - 2, "repeat": 3})


def test_settings_are_read_by_attribute_and_by_key():
    settings = _parse("--count=4")
    assert settings.count == settings["count"] == 4
    assert len(settings) == len(list(settings)) == 9


def test_an_unknown_setting_is_an_attribute_error():
    with pytest.raises(AttributeError, match="colour"):
        _ = _parse().colour


def test_given_names_the_flags_of_the_command_line_even_at_their_defaults():
    assert _parse("--count=3", "--nofast").given == {"count", "fast"}


def test_replace_changes_a_copy_and_keeps_what_was_given():
    settings = _parse("--count=4")
    changed = settings.replace(count=7, share=0.1)
    assert (changed.count, changed.share, settings.count, settings.share) == (7, 0.1, 4, 0.5)
    assert changed.given == {"count"}


def test_with_defaults_fills_in_only_what_was_not_given():
    settings = _parse("--count=4").with_defaults({"count": 8, "size": 6, "share": 0.2})
    assert (settings.count, settings.size, settings.share) == (4, 6, 0.2)


def test_a_flag_that_was_given_at_its_default_keeps_it():
    assert _parse("--count=3").with_defaults({"count": 8}).count == 3


def test_help_shows_groups_flags_defaults_and_choices():
    lines = _flag_set().help().splitlines()
    assert lines[:4] == ["What it is for.", "", "First:", "  --name: a name"]
    assert "  --count: a count (default: 3)" in lines
    assert "  --fast: be fast (default: true)" in lines
    assert "  --kind: the kind: round, flat (default: round)" in lines
    after_metal = lines[lines.index("  --metal: the metal") + 1 :]
    assert [line.split(maxsplit=1) for line in after_metal[:2]] == [["iron", "it rusts"], ["gold", "it does not"]]


def test_help_wraps_long_lines():
    flag_set = cli.FlagSet("")
    flag_set.group("Only")
    flag_set.text("name", None, "word " * 100)
    assert max(len(line) for line in flag_set.help().splitlines()) <= 110


def test_a_relative_path_starts_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("BUILD_WORKING_DIRECTORY", raising=False)
    monkeypatch.chdir(tmp_path)
    assert cli.user_path("runs/../other") == str(tmp_path / "other")


def test_a_relative_path_starts_where_the_user_is_under_bazel(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    assert cli.user_path("runs") == str(tmp_path / "runs")


def test_absolute_paths_and_the_home_folder_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cli.user_path(str(tmp_path / "a")) == str(tmp_path / "a")
    assert cli.user_path("~/a") == str(tmp_path / "a")


ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("program", "module"),
    [
        (f"{ROOT}/bandits/run_federated.py", "bandits.run_federated"),
        (f"{ROOT}/optimization/posterior/run_posterior.py", "optimization.posterior.run_posterior"),
        (f"{ROOT}/scripts/grid/__main__.py", "scripts.grid"),
    ],
)
def test_a_command_runs_as_it_stands_from_the_repositorys_root(monkeypatch, program, module):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(ROOT))
    monkeypatch.delenv("FEDBANDITS_DATA_DIR", raising=False)
    monkeypatch.setattr(sys, "argv", [program, "--experiment_name=it's a & b", "--restart", "--total_rounds=5"])
    command = cli.command_line()
    assert command.startswith(f"./scripts/python -m {module} ")
    assert shlex.split(command)[3:] == ["--experiment_name=it's a & b", "--total_rounds=5"]


def test_a_command_says_where_relative_paths_start(monkeypatch, tmp_path):
    (tmp_path / "my folder").mkdir()
    monkeypatch.delenv("BUILD_WORKING_DIRECTORY", raising=False)
    monkeypatch.delenv("FEDBANDITS_DATA_DIR", raising=False)
    monkeypatch.chdir(tmp_path / "my folder")
    monkeypatch.setattr(sys, "argv", [f"{ROOT}/bandits/run_federated.py"])
    command = cli.command_line()
    assert command == f"BUILD_WORKING_DIRECTORY='{tmp_path}/my folder' ./scripts/python -m bandits.run_federated"


def test_a_command_says_where_the_environments_data_is(monkeypatch, tmp_path):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(ROOT))
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [f"{ROOT}/bandits/run_federated.py", "--task_type=unipen62"])
    assert cli.command_line() == (
        f"FEDBANDITS_DATA_DIR={tmp_path} ./scripts/python -m bandits.run_federated --task_type=unipen62"
    )


@pytest.fixture
def run_main(monkeypatch):
    """Runs `cli.main` as a process would, and returns its exit status."""

    def run(program, *arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["program", *arguments])
        with pytest.raises(SystemExit) as caught:
            cli.main(_flag_set(), program)
        return caught.value.code

    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"))
    handlers = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    with warnings.catch_warnings():
        yield run
    for signum, handler in handlers.items():
        signal.signal(signum, handler)


def _raise(error: BaseException):
    def program(settings):
        raise error

    return program


@pytest.mark.parametrize(("returned", "status"), [(None, 0), (0, 0), (1, 1), (130, 130)])
def test_main_exits_with_what_the_program_returns(run_main, returned, status):
    assert run_main(lambda settings: returned) == status


def test_main_hands_the_parsed_flags_on(run_main):
    seen = []
    run_main(seen.append, "--count=4")
    assert seen[0].count == 4


def test_a_usage_error_is_one_line_and_status_2(run_main, capsys):
    assert run_main(_raise(UsageError("--count is too small."))) == 2
    assert capsys.readouterr() == ("", "Usage error: --count is too small.\n")


def test_a_mistyped_flag_is_a_usage_error_before_the_program_starts(run_main, capsys):
    seen = []
    assert run_main(seen.append, "--count=many") == 2
    assert seen == []
    assert capsys.readouterr().err.startswith("Usage error: --count=many: ")


def test_another_error_shows_its_traceback_and_is_status_1(run_main, capsys):
    assert run_main(_raise(ValueError("broken"))) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("Traceback")
    assert captured.err.endswith("ValueError: broken\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "A file cannot be written (No space left on device)."),
        (OSError(errno.EROFS, "Read-only file system", "/x/a.png"), "/x/a.png cannot be used (Read-only file system)."),
        (OSError(errno.EISDIR, "Is a directory", "/x/a.csv"), "/x/a.csv cannot be used (Is a directory)."),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "/x cannot be used (Permission denied)."),
    ],
)
def test_a_disk_that_is_full_or_read_only_is_one_line_and_status_1(run_main, capsys, error, line):
    assert run_main(_raise(error)) == 1
    assert capsys.readouterr().err == f"{line} What was written before is kept.\n"


def test_a_full_standard_output_is_one_line_and_status_1():
    code = "from optimization.study import cli; cli.main(cli.FlagSet(''), lambda settings: print('result'))"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "A file cannot be written (No space left on device). What was written before is kept.\n"


def test_a_reader_that_leaves_is_status_1_without_a_traceback(run_main, monkeypatch):
    stderr = io.StringIO()
    written = []
    monkeypatch.setattr(stderr, "write", written.append)
    monkeypatch.setattr(sys, "stderr", stderr)
    assert run_main(_raise(BrokenPipeError())) == 1
    assert written == []


@pytest.mark.parametrize("argument", ["--help", "-h", "-help", "--helpfull"])
def test_help_is_printed_instead_of_running(run_main, capsys, argument):
    seen = []
    assert run_main(seen.append, "--count=many", argument) == 0
    assert seen == []
    assert capsys.readouterr() == (_flag_set().help() + "\n", "")


def test_a_path_is_absolute_once_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    flag_set = cli.FlagSet("")
    flag_set.group("Only")
    flag_set.path("output", "runs", "where to")
    flag_set.path("table", None, "what")
    assert dict(flag_set.parse(["program"])) == {"output": f"{tmp_path}/runs", "table": None}
    assert flag_set.parse(["program", "--table=a/../b"]).table == f"{tmp_path}/b"
    assert "--output: where to (default: runs)" in flag_set.help()
