"""Tests of the program `data.convert`: what it writes, and that it writes whole or not at all."""

import hashlib
import os

import pytest

from data.convert import __main__ as convert
from data.errors import Failure

LINE = "63,1,1,145,233,1,2,150,0,2.3,3,0,6,0\n"


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "uci"
    folder.mkdir()
    for site in ("cleveland", "hungarian", "switzerland", "va"):
        (folder / f"processed.{site}.data").write_text(LINE)
    return folder


def _run_program(*arguments: object) -> None:
    convert.program(convert.define().parse(["convert", *map(str, arguments)]))


def test_the_file_and_its_digest_are_reported(source, tmp_path, capsys):
    _run_program("heart_disease", source, f"--output={tmp_path}")
    path = tmp_path / "heart_disease_4sites.csv"
    assert len(path.read_text().splitlines()) == 5
    assert capsys.readouterr().out == f"{path}\nsha256 {hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def test_nothing_is_left_of_a_file_that_could_not_be_written(source, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(Failure, match="full"):
        _run_program("heart_disease", source, f"--output={tmp_path}")
    assert [path.name for path in tmp_path.iterdir()] == ["uci"]


def test_relative_folders_start_where_bazels_user_is(source, tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    _run_program("heart_disease", "uci", "--output=.")
    assert (tmp_path / "heart_disease_4sites.csv").exists()
