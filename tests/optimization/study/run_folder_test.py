import errno
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from data.errors import Failure, UsageError
from optimization.study import run_folder

FLAGS = {"seed": 3, "total_rounds": 10, "rate": 0.1, "experiment_name": "toy", "clip_norm": None}
ROOT = pathlib.Path(__file__).resolve().parents[3]
LEAVES = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7, np.int64), np.array([True, False])]


@pytest.fixture
def folder(tmp_path):
    opened = run_folder.RunFolder(tmp_path / "runs" / "toy")
    opened.open(FLAGS, "digest")
    return opened


def _config(folder: run_folder.RunFolder) -> dict:
    return json.loads(folder.config_path.read_text())


def _path(folder: run_folder.RunFolder, round_num: int):
    return folder.path / "checkpoints" / f"round_{round_num:08d}.npz"


def _save(folder: run_folder.RunFolder, *rounds: int) -> None:
    """Writes checkpoints whose first leaf is filled with the round."""
    for round_num in rounds:
        folder.save_checkpoint(round_num, [np.full((2, 3), round_num, np.float32), *LEAVES[1:]])


def _newest_round(folder: run_folder.RunFolder, last_round: int = 100) -> int:
    round_num, leaves = folder.newest_checkpoint(LEAVES, last_round)
    np.testing.assert_array_equal(leaves[0], np.full((2, 3), round_num))
    return round_num


def _refusal(path: pathlib.Path, flags=FLAGS, checksum: str = "digest") -> str:
    before = _tree(path)
    with pytest.raises(UsageError) as caught:
        run_folder.RunFolder(path).open(flags, checksum)
    assert _tree(path) == before
    return str(caught.value)


def test_config_records_flags_seed_data_versions_and_command(folder):
    config = _config(folder)
    assert config["flags"] == FLAGS
    assert (config["seed"], config["data_checksum"]) == (3, "digest")
    assert {"python", "tensorflow", "tensorflow-federated", "numpy"} <= set(config["versions"])
    assert {"git_commit", "command"} <= set(config)


def test_another_configuration_or_data_is_refused_naming_every_change(folder):
    assert _refusal(folder.path, FLAGS | {"rate": 0.2, "clip_norm": 1.0}) == (
        f"{folder.path} holds a run with other settings: --clip_norm was None, is 1.0; --rate was 0.1, is 0.2. "
        "To start a new run, choose another --experiment_name, or give --restart, which moves the old files aside."
    )
    assert "the data has a different checksum" in _refusal(folder.path, checksum="other")


def test_a_setting_that_this_version_lacks_is_named(folder):
    less = {name: value for name, value in FLAGS.items() if name != "rate"}
    assert "--rate was 0.1, but is not a flag in this version" in _refusal(folder.path, less)


def test_a_run_may_grow_longer(folder):
    continued = run_folder.RunFolder(folder.path)
    continued.open(FLAGS | {"total_rounds": 20}, "digest")
    assert _config(folder)["flags"]["total_rounds"] == 10  # Until it goes on.
    continued.record_continuation(10)
    assert _config(folder)["flags"]["total_rounds"] == 20


@pytest.mark.parametrize("content", ["", "[]", "{}"])
def test_a_damaged_config_is_named(folder, content):
    folder.config_path.write_text(content)
    assert f"{folder.config_path} is not readable" in _refusal(folder.path)


def _tree(path: pathlib.Path) -> dict[str, tuple[int, bytes]]:
    """Modification time and content of each file below a folder; a start that is refused may touch the lock."""
    times = {file: file.stat().st_mtime_ns * (file.name != ".lock") for file in path.rglob("*") if file.is_file()}
    return {str(file.relative_to(path)): (time, file.read_bytes()) for file, time in times.items()}


@pytest.mark.parametrize("number", [None, 2, 4])
def test_a_folder_of_another_format_is_refused_and_left_as_it_is(folder, number):
    _save(folder, 5)
    config = _config(folder) | {"format": number}
    if number is None:
        del config["format"]
    folder.write_json("config.json", config)
    assert _refusal(folder.path) == (
        f"{folder.path} holds a run of format {number}, but this version reads only format 3: choose "
        "another --experiment_name, or give --restart, which moves the old files aside."
    )


@pytest.mark.parametrize("file", ["metrics.csv", "checkpoints/round_00000005.npz"])
def test_a_run_that_has_lost_its_configuration_is_refused_and_left_as_it_is(tmp_path, file):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("")
    assert f"{tmp_path} lacks its config.json" in _refusal(tmp_path)


def test_a_restart_moves_all_files_of_the_run_aside(folder, capsys):
    folder.metrics_path.write_text("rows")
    (folder.path / "reward.png").write_bytes(b"picture")
    folder.save_model(["weight"], [np.zeros(2)])
    _save(folder, 5)
    (folder.path / "seed_3").mkdir()
    before = _tree(folder.path)
    again = run_folder.RunFolder(folder.path)
    again.open(FLAGS | {"rate": 0.2, "restart": True}, "other digest")
    assert capsys.readouterr().err == f"The previous run's files are in {folder.path / 'before_restart_1'}.\n"
    del before[".lock"]
    assert _tree(folder.path / "before_restart_1") == before
    assert again.newest_checkpoint(LEAVES, 10) is None
    assert not again.metrics_path.exists()
    assert (folder.path / "seed_3").exists()
    assert "restart" not in _config(folder)["flags"]
    assert _config(folder)["flags"]["rate"] == 0.2


def test_a_checkpoint_returns_exactly_what_was_saved(folder):
    folder.save_checkpoint(4, LEAVES)
    round_num, leaves = folder.newest_checkpoint(LEAVES, 10)
    assert round_num == 4
    for leaf, saved in zip(leaves, LEAVES, strict=True):
        assert (leaf.dtype, leaf.shape) == (saved.dtype, saved.shape)
        np.testing.assert_array_equal(leaf, saved)


def test_the_last_three_checkpoints_are_kept_and_one_beyond_the_last_round_is_not_used(folder):
    _save(folder, 1, 2, 10, 9, 11)
    _save(folder, 100)
    assert set((folder.path / "checkpoints").iterdir()) == {_path(folder, number) for number in (10, 11, 100)}
    assert (_newest_round(folder), _newest_round(folder, last_round=99)) == (100, 11)


DAMAGES = {
    "empty": lambda content: b"",
    "without_its_last_byte": lambda content: content[:-1],
    "wrong_bytes_inside": lambda content: content[:100] + b"\xff" * 60 + content[160:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before_with_a_warning(folder, capsys, damage):
    _save(folder, 5, 10)
    _path(folder, 10).write_bytes(damage(_path(folder, 10).read_bytes()))
    assert _newest_round(folder) == 5
    stderr = capsys.readouterr().err
    assert stderr.startswith(f"Warning: checkpoint {_path(folder, 10)} is not readable")
    assert len(stderr.splitlines()) == 1


def _failure(folder: run_folder.RunFolder) -> str:
    with pytest.raises(Failure) as caught:
        folder.newest_checkpoint(LEAVES, 100)
    return str(caught.value)


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b""), pathlib.Path.unlink])
def test_a_run_whose_checkpoints_are_all_lost_does_not_begin_again(folder, damage):
    _save(folder, 5, 10)
    damage(_path(folder, 5))
    damage(_path(folder, 10))
    assert _failure(folder) == (
        f"{folder.path / 'checkpoints'} has no readable checkpoint, so the run cannot continue: restore a "
        "copy, or give --restart, which moves the old files aside and starts over."
    )


@pytest.mark.parametrize(
    "other", [[LEAVES[0].astype(np.float64), *LEAVES[1:]], [LEAVES[0].reshape(3, 2), *LEAVES[1:]], LEAVES[:2]]
)
def test_a_checkpoint_of_another_state_is_an_error(folder, other):
    _save(folder, 4)
    folder.save_checkpoint(5, other)
    assert _failure(folder).startswith(f"{_path(folder, 5)} holds the state of a different version of the program.")


def test_part_files_of_a_killed_start_are_removed_by_the_next(folder):
    folder.save_model(["weight"], [np.zeros(2)])
    names = ["checkpoints/round_00000009.npz.part77", "model/weights.npz.part77", "reward.png.part77"]
    for name in names:
        (folder.path / name).write_bytes(b"half")
    run_folder.RunFolder(folder.path).open(FLAGS, "digest")
    assert not [name for name in names if (folder.path / name).exists()]


def test_a_full_disk_leaves_the_checkpoint_before(folder, monkeypatch):
    _save(folder, 5)
    before = _tree(folder.path)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Failure, match=f"{_path(folder, 6)} cannot be written .No space left on device.. Everything"):
        _save(folder, 6)
    assert _tree(folder.path) == before
    assert _newest_round(folder) == 5


SHAPES = {"dense/kernel": (2, 3), "dense/bias": (3,)}
WEIGHTS = (np.arange(6, dtype=np.float32).reshape(2, 3), np.array([7, 8, 9], np.float32))


@pytest.mark.parametrize("named", [".", "model", "model/weights.npz"])
def test_a_model_is_loaded_from_its_run_its_folder_or_its_file_in_the_models_order(folder, named):
    folder.save_model(list(SHAPES)[::-1], WEIGHTS[::-1])
    for weight, saved in zip(run_folder.load_model(str(folder.path / named), SHAPES), WEIGHTS, strict=True):
        assert weight.dtype == np.float32
        np.testing.assert_array_equal(weight, saved)


@pytest.mark.parametrize(
    "shapes", [{"dense/kernel": (2, 3)}, {"dense/kernel": (3, 2), "dense/bias": (3,)}, {**SHAPES, "more": ()}]
)
def test_another_tasks_model_is_refused(folder, shapes):
    folder.save_model(list(SHAPES), WEIGHTS)
    with pytest.raises(UsageError, match=r"holds a model for another task.*--task_type"):
        run_folder.load_model(str(folder.path), shapes)


def test_a_folder_in_which_another_program_runs_is_refused(folder):
    code = "import sys; from optimization.study import run_folder; run_folder.RunFolder(sys.argv[1]).open({}, '')"
    other = subprocess.run([sys.executable, "-c", code, str(folder.path)], cwd=ROOT, capture_output=True, text=True)
    assert "UsageError: Another program is running in" in other.stderr
