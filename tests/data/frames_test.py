"""Tests of data.frames: frames by names that tell their content."""

import numpy as np
import pandas as pd
import pytest

from data import frames, schema, table_file
from data.errors import UsageError


def _frame() -> pd.DataFrame:
    columns = {"number": [1.5, np.nan, -2.0], "whole": [1, 2, 3], "text": ["a", None, "b,c"]}
    columns |= {"kind": pd.Categorical(["x", "y", "x"]), "day": pd.to_datetime(["2020-01-01", "2021-02-03", None])}
    return pd.DataFrame(columns | {"nullable": pd.array([1, None, 3], dtype="Int64")})


def test_equal_content_has_an_equal_checksum():
    same = _frame().iloc[[2, 1, 0]].iloc[::-1].reset_index(drop=True)
    assert frames.checksum(_frame()) == frames.checksum(_frame().copy(deep=True)) == frames.checksum(same)


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.assign(number=[1.5, np.nan, np.nextafter(-2.0, 0)]),
        lambda frame: frame.assign(text=["a", "None", "b,c"]),
        lambda frame: frame.assign(whole=["1", "2", "3"]),
        lambda frame: frame.assign(kind=pd.Categorical(["x", "x", "x"])),
        lambda frame: frame.assign(nullable=pd.array([1, 2, 3], dtype="Int64")),
        lambda frame: frame.rename(columns={"text": "texts"}),
        lambda frame: frame[["whole", "number", "text", "kind", "day", "nullable"]],
        lambda frame: frame.iloc[::-1],
        lambda frame: frame.set_index("text"),
    ],
)
def test_other_content_has_another_checksum(change):
    assert frames.checksum(change(_frame())) != frames.checksum(_frame())


def test_a_lent_frame_is_read_like_a_file_and_not_changed():
    frame = _frame().rename(columns={"number": " number "})
    before = frame.copy(deep=True)
    with frames.lent(frame) as name:
        table = table_file.read(name, schema.Schema(missing_values="a"))
        plain = table_file.read(name)
    assert list(table.frame.columns) == ["number", "whole", "text", "kind", "day", "nullable"]
    assert table.frame["text"].isna().tolist() == [True, True, False]
    assert (plain.checksum, plain.place(2)) == (frames.checksum(frame), "row 2")
    assert table.checksum != plain.checksum
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("named", [lambda frame: frame.set_index("text", drop=False), lambda f: f.rename_axis("text")])
def test_an_index_named_like_a_column_is_refused(named):
    refused = r"The index of the DataFrame has the same name as a column \(cannot insert text, .*\): rename it"
    with pytest.raises(UsageError, match=refused), frames.lent(named(_frame())):
        pass
    with pytest.raises(UsageError, match=refused):
        table_file.of_frame(named(_frame()), "the DataFrame")


def test_large_arrays_have_checksums_of_all_their_numbers():
    first, second = np.zeros(5000), np.zeros(5000)
    second[2500] = 1
    assert len({frames.checksum(pd.DataFrame({"e": [cell]})) for cell in (first, second)}) == 2
