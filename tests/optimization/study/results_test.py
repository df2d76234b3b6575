import json
import pathlib

import pytest

from data.errors import UsageError
from optimization.study import results, run_folder

HEADER = "round_num,reward\n"
STARTS = [{"command": "run --total_rounds=2"}, {"command": "run 'a b'"}]  # The last start's command is the run's.
CONFIG = {"format": run_folder.FORMAT, "flags": {"seed": 3}, "command": "run", "continuations": STARTS}


def _write(folder, rows="1,0.5\n2,inf\n"):
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text(HEADER + rows)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def test_a_run_is_read(tmp_path):
    folder = _write(tmp_path / "run")
    (folder / "privacy.json").write_text(json.dumps({"epsilon": 1.5}))
    run = results.read(folder, ())
    assert run.metrics.to_dict("list") == {"round_num": [1, 2], "reward": [0.5, float("inf")]}
    assert (run.flags, run.command, run.privacy) == ({"seed": 3}, "run 'a b'", {"epsilon": 1.5})


def test_a_last_line_that_a_crash_left_half_written_is_dropped(tmp_path):
    assert list(results.read(_write(tmp_path / "run", "11,0.5\n1"), ()).metrics["round_num"]) == [11]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("metrics.csv", None, "metrics.csv is not readable .No such file"),
        ("metrics.csv", HEADER, "metrics.csv has no finished round"),
        ("metrics.csv", HEADER + "1,much\n", "metrics.csv is damaged: a value is not valid in its column reward"),
        ("metrics.csv", HEADER + "1,1\n1,2\n", "metrics.csv is damaged: a value is not valid in its column round_num"),
        ("metrics.csv", "round_num\n1,2,3\n4\n5,6,7,8\n", "metrics.csv is not readable"),
        ("config.json", "{", "config.json is not readable"),
        ("config.json", '{"name": "other"}', "config.json lacks a run's flags and command"),
        ("privacy.json", "nothing", "privacy.json is not readable"),
    ],
)
def test_a_folder_that_is_damaged_or_of_another_kind_is_named(tmp_path, file, content, message):
    folder = _write(tmp_path / "run")
    (folder / file).unlink(missing_ok=True)
    if content is not None:
        (folder / file).write_text(content)
    with pytest.raises(UsageError, match=f"run/{message}"):
        results.read(folder, ())


def test_seeds_belong_together_in_the_order_of_their_numbers(tmp_path):
    seeds = [_write(tmp_path / "runs" / "many" / f"seed_{seed}") for seed in (2, 10)]
    one = _write(tmp_path / "runs" / "one")
    _write(one / "init")  # A run's first phase is no run of its own.
    assert results.find(tmp_path / "runs") == {seeds[0].parent: seeds, one: [one]}
    assert results.find(seeds[1]) == {seeds[1].parent: [seeds[1]]}


def test_runs_are_found_at_any_depth_but_not_below_runs(tmp_path):
    seeds = [_write(tmp_path / "grids" / "one" / "runs" / "lr=0.1-0123456789ab" / f"seed_{seed}") for seed in (0, 1)]
    deep = _write(tmp_path / "a" / "b" / "c" / "d" / "run")
    _write(deep / "before_restart_1")
    _write(tmp_path / "stopped" / "before_restart_1")
    _write(tmp_path / ".hidden" / "run")
    (tmp_path / "a" / "b" / "round").symlink_to(tmp_path / "a")
    assert results.find(tmp_path) == {deep: [deep], seeds[0].parent: seeds}


def test_a_folder_without_runs_is_named(tmp_path):
    with pytest.raises(UsageError, match=f"There is no metrics.csv in {tmp_path}"):
        results.find(tmp_path)


def test_equal_names_are_distinguished_by_their_paths():
    assert results.labels(map(pathlib.Path, ["/x/a", "/y/b"])) == ["a", "b"]
    assert results.labels(map(pathlib.Path, ["/x/1/a", "/x/2/a"])) == ["1/a", "2/a"]
