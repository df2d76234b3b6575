"""Tests of data.files."""

import pytest

from data import files
from data.errors import UsageError


@pytest.fixture(autouse=True)
def _no_default_folder(monkeypatch):
    monkeypatch.delenv("FEDBANDITS_DATA_DIR", raising=False)


def test_the_flag_names_the_folder_before_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(tmp_path / "nowhere"))
    (tmp_path / "a.npz").touch()
    assert files.find(str(tmp_path), "a.npz") == tmp_path / "a.npz"
    assert files.place(str(tmp_path), "a.npz") == tmp_path


@pytest.mark.parametrize("data_dir", [None, ""])
def test_the_environment_names_the_folder(tmp_path, monkeypatch, data_dir):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(tmp_path))
    (tmp_path / "a.npz").touch()
    assert files.find(data_dir, "a.npz") == tmp_path / "a.npz"


def test_a_table_is_looked_up_where_the_user_is_then_in_the_data_folder_then_among_the_examples(tmp_path, monkeypatch):
    here, there, examples = (tmp_path / name for name in ("here", "there", "examples"))
    monkeypatch.setattr(files, "EXAMPLES", examples)
    wanted = str(here / "sub" / "a.csv")

    def found(data_dir=str(there)):
        return files.find_table(wanted, "sub/a.csv", data_dir)

    assert found() == wanted
    for folder in (examples, there, here):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "a.csv").touch()
        assert found() == str(folder / "sub" / "a.csv")
        monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(there))
        assert found(None) == found()


def test_a_table_outside_the_users_folder_is_looked_up_nowhere_else(tmp_path):
    (tmp_path / "a.csv").touch()
    for name in ("../a.csv", "/elsewhere/a.csv"):
        assert files.find_table("/elsewhere/a.csv", name, str(tmp_path / "sub")) == "/elsewhere/a.csv"


def test_without_either_the_error_says_what_to_give():
    with pytest.raises(UsageError, match=r"reads a\.npz: .*--data_dir or FEDBANDITS_DATA_DIR"):
        files.find(None, "a.npz")


def test_a_missing_file_is_named(tmp_path):
    (tmp_path / "a.npz").mkdir()
    with pytest.raises(UsageError, match=rf"no a\.npz in {tmp_path}: .*--data_dir"):
        files.find(str(tmp_path), "a.npz")
