"""Tests of the program `data.convert`: what it writes, and that it writes whole or not at all."""

import hashlib
import os
import shlex

import pandas as pd
import pytest

from data.convert import __main__ as convert
from data.errors import Failure, UsageError


def _run_program(*arguments: object) -> None:
    convert.program(convert.define().parse(["convert", *map(str, arguments)]))


@pytest.fixture
def plays(tmp_path):
    folder = tmp_path / "lastfm"
    folder.mkdir()
    (folder / "user_artists.dat").write_text("u\ta\tw\n1\t1\t1\n2\t2\t1\n3\t3\t1\n")
    (folder / "user_taggedartists.dat").write_text("u\ta\tt\n1\t1\t5\n2\t2\t6\n")
    return folder


@pytest.mark.parametrize(("form", "read"), [("csv", pd.read_csv), ("parquet", pd.read_parquet)])
def test_tables_are_the_same_for_the_same_seed_and_come_with_their_command(plays, tmp_path, capsys, form, read):
    path, actions = tmp_path / f"my sets.{form}", tmp_path / f"my sets_actions.{form}"
    _run_program("lastfm", plays, f"--output={path}", "--set_size=2", "--seed=4")
    *digests, command = capsys.readouterr().out.splitlines()
    first = [file.read_bytes() for file in (path, actions)]
    assert digests[1::2] == [f"sha256 {hashlib.sha256(content).hexdigest()}" for content in first]
    assert shlex.split(command)[-2:] == [f"--data_file={path}", f"--action_table={actions}"]
    assert read(path)["client"].tolist() == [1, 1, 2, 2, 3, 3]
    assert read(actions)["action"].tolist() == [1, 2, 3]
    again = tmp_path / f"again.{form}"
    _run_program("lastfm", plays, f"--output={again}", "--set_size=2", "--seed=4")
    assert [file.read_bytes() for file in (again, tmp_path / f"again_actions.{form}")] == first


def test_neither_table_is_replaced(plays, tmp_path):
    (tmp_path / "sets_actions.csv").write_text("mine")
    with pytest.raises(UsageError, match=r"sets_actions\.csv already exists, and is not replaced"):
        _run_program("lastfm", plays, f"--output={tmp_path}/sets.csv", "--set_size=2")
    assert not (tmp_path / "sets.csv").exists()


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_nothing_is_left_if_a_file_cannot_be_written(plays, tmp_path, monkeypatch, call):
    monkeypatch.setattr(os, call, lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(Failure, match="full"):
        _run_program("lastfm", plays, f"--output={tmp_path}/sets.csv", "--set_size=2")
    assert [path.name for path in tmp_path.iterdir()] == ["lastfm"]


def test_relative_folders_start_where_bazels_user_is(plays, tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    _run_program("lastfm", plays.name, "--output=sets.csv", "--set_size=2")
    assert (tmp_path / "sets.csv").exists()
