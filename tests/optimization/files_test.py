"""Tests of optimization.files."""

import pathlib
import resource
import subprocess
import sys

import pytest

from data.errors import Failure
from optimization import files

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_file_is_replaced_and_leaves_no_part(tmp_path):
    files.replace(tmp_path / "a.json", b"1")
    files.replace(tmp_path / "a.json", b"2")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.json", b"2")]


def test_a_file_that_breaks_off_leaves_the_one_before(tmp_path):
    files.replace(tmp_path / "a.json", b"1")

    def break_off():
        with files.whole(tmp_path / "a.json") as file:
            file.write(b"2")
            raise KeyError

    with pytest.raises(KeyError):
        break_off()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.json", b"1")]


def test_a_folder_that_is_not_there_is_a_failure_that_names_the_file(tmp_path):
    with pytest.raises(Failure) as caught:
        files.replace(tmp_path / "nowhere" / "a.json", b"1")
    assert str(caught.value) == (
        f"{tmp_path / 'nowhere' / 'a.json'} cannot be written (No such file or directory). What was written before is "
        "kept."
    )


def test_no_space_leaves_the_file_before(tmp_path):
    files.replace(tmp_path / "a.json", b"1" * 1000)
    code = "import pathlib, sys; from optimization import files; files.replace(pathlib.Path(sys.argv[1]), bytes(9000))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert f"Failure: {tmp_path / 'a.json'} cannot be written (File too large)" in done.stderr
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.json", b"1" * 1000)]
