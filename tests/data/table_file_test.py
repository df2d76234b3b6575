"""Tests of data.table_file, with small sound and damaged files."""

import gzip

import pandas as pd
import pytest

from data import table_file
from data.errors import UsageError

TEXT = "site, age\n007, 1\nä,\n"


@pytest.fixture
def write(tmp_path):
    def to_file(content: str | bytes, name: str = "table.csv") -> str:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(tmp_path / name)

    return to_file


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("table.csv", TEXT.encode()),
        ("TABLE.CSV", TEXT.encode()),
        ("marked.csv", b"\xef\xbb\xbf" + TEXT.encode()),
        ("table.csv.gz", gzip.compress(TEXT.encode())),
        ("gzipped_without_saying.csv", gzip.compress(TEXT.encode())),
        ("plain_in_spite_of_its_name.csv.gz", TEXT.encode()),
        ("windows.csv", TEXT.replace("\n", "\r\n").encode()),
    ],
)
def test_csv_files_are_read(write, name, content):
    table = table_file.read(write(content, name), ["site"])
    frame = table.frame
    assert list(frame.columns) == ["site", "age"]
    assert frame["site"].tolist() == ["007", "ä"]
    assert frame["age"].isna().tolist() == [False, True]
    assert table.nameless == ()


def test_columns_without_a_name_are_left_out(write):
    table = table_file.read(write(",a,\n0,1,\n1,2,\n"))
    assert table.frame.columns.tolist() == ["a"]
    assert table.nameless == ("Unnamed: 0", "Unnamed: 2")


def test_the_word_none_is_a_category_and_na_is_missing(write):
    frame = table_file.read(write("a,b\nNone,1\nNA,2\n")).frame
    assert frame["a"].isna().tolist() == [False, True]


MISTAKES = {
    "other_suffix": ("a,b\n1,2\n", "table.sav", r"--data_file=.*table.sav must be one of .csv, .csv.gz, .tsv"),
    "spreadsheet": ("", "Table.XLSX", r"--data_file=.*Table.XLSX is a spreadsheet: save its sheet as CSV"),
    "hidden_spreadsheet": (b"PK\x03\x04\x00", "table.csv", r"table.csv is a spreadsheet or an archive, whatever"),
    "nul_byte": (b"a,b\n1,2\n3,\x004\n", "table.csv", r"Line 3 of .*table.csv holds a NUL byte"),
    "no_encoding": (b"a,b\n1,\xff\n1,\x81\n", "table.csv", r"neither UTF-8 \(line 2\) nor Latin-1 .* \(line 3\)"),
    "empty": ("", "table.csv", r"table.csv is empty: --data_file must have named columns and at least one row"),
    "blank_lines": ("\n\n", "table.csv", r"table.csv is empty: --data_file"),
    "empty_gzip": (gzip.compress(b""), "table.csv.gz", r"table.csv.gz is empty: --data_file"),
    "header_only": ("a,b\n", "table.csv", r"table.csv is empty: --data_file"),
    "long_row": ("a,b\n1,2\n\n3,4,5\n", "table.csv", r"has 2 names, separated by comma, .* values: line 4 has 3\."),
    "short_row": ("a;b\n1;2\n3\n", "table.csv", r"has 2 names, separated by semicolon, .* values: line 3 has 1\."),
    "long_rows": (
        "a,b\n" + "1,2,3\n" * 5,
        "table.csv",
        r"line 2 has 3, line 3 has 3, line 4 has 3, and so on in 2 more",
    ),
    "open_quote": (
        'a,b\n1,2\n"1,2\n3,4\n',
        "table.csv",
        r"The quote that opens in line 3 of .*table.csv is never closed",
    ),
    "endless_quote": (
        'a,b\n1,2\n"' + "1,2\n" * 40_000,
        "table.csv",
        r"value that begins in line 3 .* is a quote never",
    ),
    "two_separators": ("a,b;c\n1,2;3\n", "table.csv", r"separated by comma \(a, b;c\) or semicolon \(a,b, c\)"),
    "truncated_gzip": (
        gzip.compress(TEXT.encode() * 99)[:-20],
        "table.csv.gz",
        r"not readable .*: --data_file must be an undamaged table",
    ),
}


@pytest.mark.parametrize(("content", "name", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_file_that_is_no_table_is_named_with_the_flag(write, content, name, message):
    with pytest.raises(UsageError, match=message):
        table_file.read(write(content, name))


@pytest.mark.parametrize("name", ["missing.csv", "missing.parquet"])
def test_a_missing_file_is_named_with_the_flag(tmp_path, name):
    with pytest.raises(UsageError, match=f"There is no file .*{name}: --data_file must name one"):
        table_file.read(str(tmp_path / name))


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UsageError, match="There is no file"):
        table_file.read(str(tmp_path / "folder.csv"))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_place_is_the_line_whatever_is_between(write, suffix):
    text = '\ufeffa,b\n1,2\n\n   \n"two\nlines",3\n4,5\n'
    path = write(gzip.compress(text.encode()) if suffix == ".csv.gz" else text, "table" + suffix)
    table = table_file.read(path)
    assert len(table.frame) == 3
    assert [table.place(row) for row in range(3)] == ["line 2", "line 5", "line 7"]


def test_without_lines_a_place_is_the_row():
    assert table_file.of_frame(pd.DataFrame({"a": range(9)}), "the frame").place(4) == "row 5"


def test_parquet_without_pyarrow_says_what_to_do(write, monkeypatch):
    def no_pyarrow(*arguments, **options):
        raise ImportError("Missing optional dependency 'pyarrow'.")

    monkeypatch.setattr(pd, "read_parquet", no_pyarrow)
    with pytest.raises(UsageError, match=r"--data_file=.*table.parquet needs pyarrow, .* or save the table as .csv"):
        table_file.read(write("", "table.parquet"))


@pytest.mark.parametrize("content", [b"", b"PAR1 and nothing more"])
def test_a_damaged_parquet_file_is_named_with_the_flag(write, content):
    pytest.importorskip("pyarrow")
    with pytest.raises(UsageError, match=r"table.parquet is not readable .*--data_file must be an undamaged table"):
        table_file.read(write(content, "table.parquet"))


def test_parquet_is_read_with_its_types_and_a_named_index_as_a_column(tmp_path):
    pytest.importorskip("pyarrow")
    written = pd.DataFrame({"age": [1, 2], "kind": pd.Series(["u", "v"], dtype="category")}, index=["b", "a"])
    path = str(tmp_path / "table.parquet")
    written.to_parquet(path)
    assert table_file.read(path).frame.columns.tolist() == ["age", "kind"]
    written.rename_axis("site").to_parquet(path)
    frame = table_file.read(path).frame
    assert frame.columns.tolist() == ["site", "age", "kind"]
    assert frame["site"].tolist() == ["b", "a"]
    assert frame["kind"].dtype == "category"


def test_two_columns_of_one_name_are_refused(write, monkeypatch):
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    monkeypatch.setattr(pd, "read_parquet", lambda *arguments, **options: frame)
    with pytest.raises(UsageError, match=r"--data_file=.* has two columns 'a'"):
        table_file.read(write("", "table.parquet"))


def test_missing_values_are_missing_in_every_column_and_counted(write):
    path = write('who,age,kind,note\nn/k,1,<5,"a,b"\nu,n/k,<5,x\nv,-9,low, n/k\nw,-9.0,high,y\n')
    table = table_file.read(path, ["who"], 'n/k,<5,-9,"a,b",nowhere')
    assert table.missing == {"n/k": 3, "<5": 2, "-9": 2, "a,b": 1, "nowhere": 0}
    assert table.frame.isna().to_numpy().tolist() == [[1, 0, 1, 1], [0, 1, 1, 0], [0, 1, 0, 1], [0, 1, 0, 0]]
    assert table.checksum.startswith(table_file.read(path).checksum + "-")


def test_a_missing_value_that_is_a_number_is_so_however_it_is_written(write):
    frame = table_file.read(write("a,b\n-9,-9.00\n1,2.5\n"), (), "-9").frame
    assert frame.isna().to_numpy().tolist() == [[True, True], [False, False]]


def test_a_missing_value_that_is_a_number_is_so_beside_words(write):
    table = table_file.read(write("who,a\n-9.0,-9.0\nv,n/k\nw,1.5\n"), ["who"], "-9,n/k")
    assert table.missing == {"-9": 1, "n/k": 1}
    assert table.frame["a"].isna().tolist() == [True, True, False]
    assert table.frame["who"].tolist() == ["-9.0", "v", "w"]


def test_a_missing_value_that_is_a_number_is_so_with_a_decimal_comma(write):
    table = table_file.read(write("a;b\n-9,0;1,5\n-9;-9,00\n2,5;3\n"), (), "-9")
    assert table.missing == {"-9": 3}
    assert table.frame.isna().to_numpy().tolist() == [[True, False], [True, True], [False, False]]


def test_a_frame_is_a_table_whatever_its_types():
    frame = pd.DataFrame(
        {
            "whole": [1, -9],
            "nullable": pd.array([None, -9], dtype="Int64"),
            "decimal": [0.5, -9.0],
            "truth": [True, False],
            "kind": pd.Series(["-9", "v"], dtype="category", index=["r", "s"]),
            "mixed": ["-9", None],
            "when": pd.to_datetime(["2023-01-01", None]),
            7: ["a", "b"],
        },
        index=pd.Index(["r", "s"], name="site"),
    )
    table = table_file.of_frame(frame, "the frame", ["-9"])
    names = ["site", "whole", "nullable", "decimal", "truth", "kind", "mixed", "when", "7"]
    assert table.frame.columns.tolist() == names
    assert table.missing == {"-9": 5}
    assert table.frame.isna().to_numpy().tolist() == [[0, 0, 1, 0, 0, 1, 1, 0, 0], [0, 1, 1, 1, 0, 0, 1, 1, 0]]
    assert frame["whole"].tolist() == [1, -9]


@pytest.mark.parametrize("frame", [pd.DataFrame(), pd.DataFrame({"a": []}), pd.DataFrame(index=[1, 2])])
def test_a_frame_without_rows_or_columns_is_no_table(frame):
    with pytest.raises(UsageError, match="the frame is empty"):
        table_file.of_frame(frame, "the frame")
