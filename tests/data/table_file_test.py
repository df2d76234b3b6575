"""Tests of data.table_file: how files are written, and what is broken in them."""

import gzip

import numpy as np
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
    "nul_byte": (b"a,b\n1,2\n3,\x004\n", "table.csv", r"table.csv holds a NUL byte, which no text does"),
    "no_encoding": (b"a,b\n1,\xff\n1,\x81\n", "table.csv", r"neither UTF-8 nor Latin-1 or Windows-1252: --data_file"),
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
        r"line 3 has 1\. Quotes must be .* and each must be closed",
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


WAYS = {
    "comma": "who,größe\na,1.5\nb,2\n",
    "semicolon": "who;größe\na;1.5\nb;2\n",
    "tab": "who\tgröße\na\t1.5\nb\t2\n",
}


@pytest.fixture
def read(tmp_path):
    def of_content(content: str | bytes, *arguments) -> table_file.Table:
        path = tmp_path / "table.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return table_file.read(str(path), *arguments)

    return of_content


@pytest.mark.parametrize(("code", "named"), [("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("utf-16", "utf-16")])
@pytest.mark.parametrize("separator", WAYS)
def test_separator_and_encoding_are_found_out(read, separator, code, named):
    table = read(WAYS[separator].encode(code))
    assert table.frame.to_dict("list") == {"who": ["a", "b"], "größe": [1.5, 2.0]}
    assert table.form == {"encoding": named, "separator": separator}


@pytest.mark.parametrize("code", ["latin-1", "cp1252"])
def test_what_is_not_utf_8_is_windows_latin(read, code):
    table = read(WAYS["semicolon"].encode(code))
    assert table.frame.columns.tolist() == ["who", "größe"]
    assert table.form["encoding"] == "cp1252"


def test_other_separators_in_quotes_or_rows_change_nothing(read):
    table = read('who,"a;b",note\nu,1,x;y\nv,2,"x,y\tz"\n')
    assert table.frame.to_dict("list") == {"who": ["u", "v"], "a;b": [1, 2], "note": ["x;y", "x,y\tz"]}


def test_of_two_separators_in_the_header_the_one_that_fits_the_rows_counts(read):
    table = read("who;size, cm;y\nu;1;0\nv;2;1\n")
    assert table.frame.columns.tolist() == ["who", "size, cm", "y"]


@pytest.mark.parametrize(
    ("cells", "sign", "numbers"),
    [
        (["$1.50", "-$2", "3"], "$", ["1.50", "-2", "3"]),
        (["1.5 €", "€2", " 3€"], "€", ["1.5", "2", "3"]),
        (["5%", "12.5 %"], "%", ["5", "12.5"]),
        (['"$1,234.50"', "$999.00"], "$", ["1234.50", "999.00"]),
    ],
    ids=range(4),
)
def test_amounts_are_read_without_their_sign(read, cells, sign, numbers):
    table = read("who,x\n" + "".join(f"a,{cell}\n" for cell in cells))
    assert table.signs == {"x": sign}
    assert [str(value) for value in table.frame["x"]] == numbers
    assert read("who,x\n" + "".join(f"a,{cell}\n" for cell in cells), ["x"]).signs == {}


@pytest.mark.parametrize("cells", [["$1", "€2"], ["$1", "red", "blue"], ["1", "2"]], ids=range(3))
def test_cells_of_two_signs_or_few_numbers_stay_as_they_are(read, cells):
    table = read("who,x\n" + "".join(f"a,{cell}\n" for cell in cells))
    assert (list(map(str, table.frame["x"])), table.signs) == (cells, {})


@pytest.mark.parametrize("last", ["12.000;1", "12.000;1,5"])
def test_points_that_may_group_thousands_are_refused(read, last):
    text = f"who;income;z\na;800;0\nb;1.500;1\nc;{last}\n"
    with pytest.raises(
        UsageError, match=r"Column 'income' of .* holds numbers with points, such as '1\.500', which may"
    ):
        read(text)
    assert read(text, ["income"]).frame["income"].tolist() == ["800", "1.500", "12.000"]


@pytest.mark.parametrize("other", ["0.125", "2.5", ".5", "1.2345"])
def test_points_are_decimals_where_another_number_says_so(read, other):
    assert read(f"x;y\n1.500;1\n2.250;{other}\n").frame["x"].tolist() == [1.5, 2.25]
    assert read("x,y\n1.500,1\n").frame["x"].tolist() == [1.5]


def test_columns_of_names_are_text_also_where_the_header_has_blanks(read):
    table = read("who ,x, lab ,\n007,0.5,01,3\n7,0.6,1,4\n", ["who", "lab"])
    assert table.frame.to_dict("list") == {"who": ["007", "7"], "x": [0.5, 0.6], "lab": ["01", "1"]}
    assert table.nameless == ("Unnamed: 3",)


def test_codes_with_leading_zeros_keep_them(read):
    table = read("zip,x\n01234,01.5\n12345,0\n")
    assert table.frame.to_dict("list") == {"zip": ["01234", "12345"], "x": [1.5, 0.0]}


def test_a_line_of_two_quotes_is_refused_and_a_line_of_blanks_is_none(read):
    with pytest.raises(UsageError, match=r"has 2 or 3 rows, by how its quotes are read: are all closed\?"):
        read('a,b\n1,2\n \t\n""\n3,4\n')
    table = read("a,b\n1,2\n \t\n\n3,4\n")
    assert [table.place(row) for row in range(2)] == ["line 2", "line 5"]


def test_advice_names_columns_as_a_shell_takes_them(read):
    with pytest.raises(UsageError, match=r"--category_columns='Patient ID', or .* --ignore_columns='Patient ID'\."):
        read("who;Patient ID\na;1.500\nb;2\n")


def test_a_row_has_the_line_in_which_it_begins(read):
    table = read('a,b\r\n\r\n1,"x\r\ny"\r\n2,z\r\n')
    assert [table.place(row) for row in range(2)] == ["line 3", "line 5"]


def test_wide_lines_without_other_separators_are_read(read):
    names = [f"column_{number}" for number in range(20_000)]
    table = read(",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")
    assert table.frame.shape == (1, 20_000)


def _finite(values, **others):
    table = table_file.of_frame(pd.DataFrame({"paid": values}), "t.parquet")
    return table.numbers(table.frame["paid"], "--paid", "reward", **others)


def test_numbers_are_read_whatever_they_are_written_as():
    for values in ([1, 0], [True, False], ["1", " 0.0"], pd.array([1, 0], "Int64")):
        found = _finite(values)
        assert found.dtype == np.float64
        assert found.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("values", "others", "message"),
    [
        (["1,5"], {}, r"'1,5' .* is no number; a reward must be one\. Write decimals with a point, and no groups\."),
        (["1", "x"], {}, r"--paid: 'x' in column 'paid' \(row 2 of t.parquet\) is no number; a reward must be one"),
        (
            [1, None, None],
            {},
            r"--paid: a missing value .*\(row 2 of .*\) is not finite \(and 1 more\); .* have a reward\.",
        ),
        ([1, np.inf], {"each": " for every action"}, r"--paid: inf .* every row must have a reward for every action\."),
        ([1, 1e39], {"dtype": np.float32}, r"--paid: 1e\+39 .* is not finite"),
    ],
)
def test_what_is_no_number_is_named(values, others, message):
    with pytest.raises(UsageError, match=message):
        _finite(values, **others)


def test_what_is_finite_as_it_is_kept_is_taken():
    assert _finite([1e39]).tolist() == [1e39]
