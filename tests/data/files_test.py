"""Tests of data.files."""

import io
import pathlib
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from data import files
from data.errors import Failure, UsageError


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


def test_a_downloadable_file_is_taken_from_the_flag_s_folder_then_from_the_environment_s(tmp_path, monkeypatch):
    flag, environment = tmp_path / "flag", tmp_path / "environment"
    for folder in (flag, environment):
        folder.mkdir()
        (folder / "a.lzma").touch()

    def found(data_dir):
        return files.instead_of_download(data_dir, ["a", "a.lzma"], "there")

    assert found(None) is None
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(environment))
    assert (found(None), found(str(flag))) == (environment / "a.lzma", flag / "a.lzma")
    (flag / "a").touch()
    assert found(str(flag)) == flag / "a"
    with pytest.raises(UsageError, match=r"no b in .*--data_dir or FEDBANDITS_DATA_DIR, .*download it from there"):
        files.instead_of_download(str(flag), ["b"], "there")
    assert files.instead_of_download(None, ["b"], "there") is None  # Only the flag's folder must hold it.


# Writes too much in two ways, where files have at most 4096 bytes.
_WRITES = """
import pathlib, resource, sys
import numpy as np
from data.errors import Failure
from data import files
path = pathlib.Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for write in (lambda: files.replace(path, bytes(9000)), lambda: files.save_arrays(path, {"b": np.zeros(9000)})):
    try:
        write()
    except Failure as error:
        print(error)
"""


def test_without_space_an_earlier_file_stays_and_the_failure_is_reported_once(tmp_path):
    path = tmp_path / "a.json"
    files.replace(path, b"1" * 1000)
    words = [sys.executable, "-c", _WRITES, str(path)]
    root = pathlib.Path(__file__).resolve().parents[2]
    message = f"{path} cannot be written (File too large). Everything that was written before is kept.\n"
    assert subprocess.run(words, cwd=root, stdout=subprocess.PIPE, text=True).stdout == 2 * message
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.json", b"1" * 1000)]


def test_a_file_is_looked_for_in_the_flag_s_folder_or_else_in_the_environment_s(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"needs the file a\.npz: .*--data_dir or FEDBANDITS_DATA_DIR"):
        files.find(None, "a.npz")
    with pytest.raises(UsageError, match=rf"no a\.npz in {tmp_path}: .*--data_dir"):
        files.find(str(tmp_path), "a.npz")
    (tmp_path / "a.npz").touch()
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(tmp_path / "nowhere"))
    assert files.find(str(tmp_path), "a.npz") == tmp_path / "a.npz"
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(tmp_path))
    for data_dir in (None, ""):
        assert files.find(data_dir, "a.npz") == tmp_path / "a.npz"


def test_a_file_is_replaced_and_leaves_no_part_and_links_and_devices_stay(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for content in (b"1", b"2"):
        files.replace(tmp_path / "link", content)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
    files.replace(pathlib.Path("/dev/null"), b"1")
    assert pathlib.Path("/dev/null").is_char_device()
    with pytest.raises(Failure, match=r"nowhere/a\.json cannot be written"):
        files.replace(tmp_path / "nowhere" / "a.json", b"1")


def test_texts_of_a_csv_file_are_no_formulas_and_numbers_stay_numbers():
    names = ["=cmd|' /C calc'!A0", "+1+1", "@SUM(1)", "-x", "\tname", "-0.5", "ann", None]
    table = pd.DataFrame({"client": names, "=loss": [-0.5, 1.25, np.nan, 0, 0, 0, 0, 0], "count": range(8)})
    content = files.as_csv(table, float_format="%.6g")
    assert content.decode().splitlines()[0] == "client,'=loss,count"
    again = pd.read_csv(io.BytesIO(content), dtype={"client": str})
    assert again["client"].tolist()[:7] == [*(f"'{name}" for name in names[:5]), "-0.5", "ann"]
    pd.testing.assert_series_equal(again["'=loss"], table["=loss"], check_names=False)
    plain = table.iloc[5:7].rename(columns={"=loss": "loss"})
    assert files.as_csv(plain) == plain.to_csv(index=False).encode()
