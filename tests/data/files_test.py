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


def test_a_file_that_can_be_downloaded_is_taken_from_the_flag_s_folder_then_from_the_environment_s(
    tmp_path, monkeypatch
):
    flag, environment = tmp_path / "flag", tmp_path / "environment"
    for folder in (flag, environment):
        folder.mkdir()
        (folder / "a.lzma").touch()
    assert files.instead_of_download(None, ["a", "a.lzma"], "there") is None
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(environment))
    assert files.instead_of_download(None, ["a", "a.lzma"], "there") == environment / "a.lzma"
    assert files.instead_of_download(str(flag), ["a", "a.lzma"], "there") == flag / "a.lzma"
    (flag / "a").touch()
    assert files.instead_of_download(str(flag), ["a", "a.lzma"], "there") == flag / "a"


def test_only_the_flag_s_folder_must_hold_what_can_be_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(tmp_path))
    assert files.instead_of_download(None, ["a"], "there") is None
    with pytest.raises(UsageError, match=r"no a in .*--data_dir or FEDBANDITS_DATA_DIR, .*download it from there"):
        files.instead_of_download(str(tmp_path), ["a"], "there")


@pytest.mark.parametrize("before", [None, "elsewhere"])
def test_a_data_folder_is_the_environment_s_for_a_while(tmp_path, monkeypatch, before):
    if before:
        monkeypatch.setenv("FEDBANDITS_DATA_DIR", before)
    with files.data_folder(str(tmp_path)):
        assert files.folder_of_environment() == str(tmp_path)
    assert files.folder_of_environment() == before
    with files.data_folder(None):
        assert files.folder_of_environment() == before
    with (
        pytest.raises(UsageError, match=r"--data_dir=.*nowhere is no folder"),
        files.data_folder(str(tmp_path / "nowhere")),
    ):
        pass
