"""Tests of data.table_file: how files are written, and what is broken in them."""

import gzip
import random

import numpy as np
import pandas as pd
import pytest

from data import memory, schema, table_file
from data.errors import UsageError

TEXT = "site, age\n007, 1\nä,\n"


@pytest.fixture
def read(tmp_path):
    def of_content(content: str | bytes, text_columns=(), name: str = "table.csv", **flags) -> table_file.Table:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        wanted = schema.Schema(ignore_columns=schema.as_flag(text_columns).strip("'"), **flags)
        return table_file.read(str(path), wanted)

    return of_content


@pytest.mark.parametrize(
    ("name", "content", "encoding"),
    [
        ("TABLE.CSV", TEXT.encode(), "utf-8"),
        ("marked.csv", TEXT.encode("utf-8-sig"), "utf-8"),
        ("wide.csv", TEXT.encode("utf-16"), "utf-16"),
        ("windows.csv", TEXT.replace("\n", "\r\n").encode("cp1252"), "cp1252"),
        ("latin.csv", TEXT.encode("latin-1"), "cp1252"),
        ("table.csv.gz", gzip.compress(TEXT.encode()), "utf-8"),
        ("gzipped_without_saying.csv", gzip.compress(TEXT.encode()), "utf-8"),
        ("plain_in_spite_of_its_name.csv.gz", TEXT.encode(), "utf-8"),
    ],
)
def test_csv_files_are_read_as_text_whatever_their_encoding(read, name, content, encoding):
    table = read(content, name=name)
    assert table.frame.to_dict("list") == {"site": ["007", "ä"], "age": ["1", None]}
    assert table.nameless == ()
    assert table.form == {"encoding": encoding, "separator": "comma"}


@pytest.mark.parametrize(
    ("text", "columns", "separator"),
    [
        ("who\tgröße\na\t1.5\n", {"who": ["a"], "größe": ["1.5"]}, "tab"),
        ('who,"a;b",note\nu,1,x;y\nv,2,"x,y\tz"\n', {"who": ["u", "v"], "a;b": ["1", "2"], "note": ["x;y", "x,y\tz"]},
         "comma"),
        ("who;size, cm;y\nu;1;0\n", {"who": ["u"], "size, cm": ["1"], "y": ["0"]}, "semicolon"),
    ],
)  # fmt: skip
def test_the_separator_that_fits_header_and_rows_counts(read, text, columns, separator):
    table = read(text)
    assert (table.frame.to_dict("list"), table.form["separator"]) == (columns, separator)


def test_columns_without_a_name_are_left_out_also_where_the_header_has_blanks(read):
    table = read(" ,a , lab,\n0,007,None,\n1,,01,\n")
    assert table.frame.to_dict("list") == {"a": ["007", None], "lab": ["None", "01"]}
    assert table.nameless == ("Unnamed: 0", "Unnamed: 3")


COMMENTS = r"more or fewer values.*Remove comments, and lines before the header"
MISTAKES = {
    "other_suffix": ("a,b\n1,2\n", "table.sav", "--data_file.* must end in one of"),
    "spreadsheet": ("", "Table.XLSX", "--data_file=.* save a spreadsheet as CSV"),
    "hidden_spreadsheet": (b"PK\x03\x04\x00", "table.csv", "text file, not a spreadsheet"),
    "nul_byte": (b"a,b\n1,2\n3,\x004\n", "table.csv", "NUL byte"),
    "no_encoding": (b"a,b\n1,\xff\n1,\x81\n", "table.csv", "not readable as UTF-8"),
    "empty": ("", "table.csv", "is empty: --data_file"),
    "header_only": ("a,b\n", "table.csv", "is empty: --data_file"),
    "two_columns_of_one_name": ("a,a\n1,2\n", "table.csv", "--data_file=.* has two columns named 'a'"),
    "long_row": ("a,b\n1,2\n\n3,4,5\n", "table.csv", r"2 names, separated by commas\..* line 4 has 3\."),
    "short_row": ("a;b\n1;2\n3\n", "table.csv", r"2 names, separated by semicolons\..* line 3 has 1\."),
    "long_rows": ("a,b\n" + "1,2,3\n" * 5, "table.csv", "line 2 has 3, line 3 has 3, line 4 has 3 and 2 more\\."),
    "first_comment": ("# made by a tool\na,b\n1,2\n", "table.csv", COMMENTS),
    "last_comment": ("a,b\n1,2\n# the end\n", "table.csv", COMMENTS),
    "cut_off": ('a,b\n"1","2"\n"3","4', "table.csv", "begins on line 3 .*close all quotes"),
    "endless_quote": ('a,b\n1,2\n"' + "1,2\n" * 40_000, "table.csv", "begins on line 3 "),
    "two_separators": ("a,b;c\n1,2;3\n", "table.csv", r"comma \(a, b;c\) or semicolon \(a,b, c\)"),
    "truncated_gzip": (gzip.compress(TEXT.encode() * 99)[:-20], "table.csv.gz", "not readable .*: --data_file"),
    "damaged_parquet": (b"PAR1 and nothing more", "table.parquet", "not readable .*--data_file"),
}


@pytest.mark.parametrize(("content", "name", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_file_that_is_no_table_is_named_with_the_flag(read, content, name, message):
    with pytest.raises(UsageError, match=message):
        read(content, name=name)


def test_a_missing_file_is_named_with_the_flag(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name in ("missing.csv", "missing.parquet", "folder.csv"):
        with pytest.raises(UsageError, match=f"There is no file .*{name}: --log must name one"):
            table_file.read(str(tmp_path / name), schema.Schema(file_flag="--log"))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_place_is_the_line_in_which_a_row_begins(read, suffix):
    text = '\ufeffa,b\r\n1,2\n\n   \n"two\r\nlines",3\n \t\n4,5\n'
    table = read(gzip.compress(text.encode()) if suffix == ".csv.gz" else text, name="table" + suffix)
    assert [table.place(row) for row in range(len(table.frame))] == ["line 2", "line 5", "line 8"]


def test_parquet_is_read_with_its_types_and_a_named_index_as_a_column(tmp_path):
    written = pd.DataFrame({"age": [1, 2], "kind": pd.Categorical(["u", "v"])}, index=["b", "a"])
    path = str(tmp_path / "table.parquet")
    written.to_parquet(path)
    assert table_file.read(path).frame.columns.tolist() == ["age", "kind"]
    written.rename_axis("site").to_parquet(path)
    frame = table_file.read(path).frame
    assert frame.columns.tolist() == ["site", "age", "kind"]
    assert (frame["site"].tolist(), frame["kind"].dtype) == (["b", "a"], "category")


def test_missing_values_are_missing_in_every_column_and_counted(read):
    text = 'who,age,kind,note\nn/k,1,<5,"a,b"\nu,n/k,<5,x\nv,-9,low, n/k\nw,-9.0,high,y\n-9.0,2,low,y\n'
    table = read(text, ["who"], missing_values='n/k,<5,-9,"a,b",nowhere')
    assert table.missing_values == {"n/k": 3, "<5": 2, "-9": 2, "a,b": 1, "nowhere": 0}
    missing = [[1, 0, 1, 1], [0, 1, 1, 0], [0, 1, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert table.frame.isna().to_numpy().tolist() == missing
    assert table.checksum.startswith(read(text).checksum + "-")


def test_a_frame_is_a_table_whatever_its_types():
    kinds = pd.Series(["-9", "v"], dtype="category", index=["r", "s"])
    columns = {"whole": [1, -9], "nullable": pd.array([None, -9], dtype="Int64"), "decimal": [0.5, -9.0]}
    columns |= {"truth": [True, False], "kind": kinds, "mixed": ["-9", None]}
    columns |= {"when": pd.to_datetime(["2023-01-01", None]), 7: ["a", "b"]}
    frame = pd.DataFrame(columns, index=pd.Index(["r", "s"], name="site"))
    table = table_file.of_frame(frame, "the frame", schema.Schema(missing_values="-9"))
    assert table.frame.columns.tolist() == ["site", *map(str, columns)]
    assert table.missing_values == {"-9": 5}
    assert table.frame.isna().to_numpy().tolist() == [[0, 0, 1, 0, 0, 1, 1, 0, 0], [0, 1, 1, 1, 0, 0, 1, 1, 0]]
    assert frame["whole"].tolist() == [1, -9]


@pytest.mark.parametrize("cells", [["5%", "12.5"], ["5%", "red", "blue"], ["$1.50", "$2"], ["1", "2"]])
def test_other_cells_than_percents_are_unchanged(read, cells):
    table = read("who,x\n" + "".join(f"a,{cell}\n" for cell in cells))
    assert (table.frame["x"].tolist(), table.percents) == (cells, ())


def test_percents_are_hundredths_and_a_mixture_with_plain_numbers_is_refused(read):
    text = "who,p\na,0.4%\nb,50 %\nc,1%\n"
    table = read(text)
    assert (table.frame["p"].tolist(), table.percents) == (["0.4e-2", "50e-2", "1e-2"], ("p",))
    assert _numbers_of(table) == [0.004, 0.5, 0.01]
    assert read(text, ["p"]).percents == ()
    with pytest.raises(UsageError, match=r"'0.4%' .* \(line 2 .* has percent signs, every cell must have one"):
        _numbers_of(read("who,p\na,0.4%\nb,0.5\n"))


@pytest.mark.parametrize("last", ["12.000;1", "12.000;1,5"])
def test_points_that_may_group_thousands_are_refused(read, last):
    text = f"who;Net income;z\na;800;0\nb;1.500;1\nc;{last}\n"
    with pytest.raises(UsageError, match=r"'Net income' .* '1\.500', .*--ignore_columns='Net income'"):
        read(text)
    assert read(text, ["Net income"]).frame["Net income"].tolist() == ["800", "1.500", "12.000"]
    assert read(text.replace(",", ".").replace(";", ",")).frame["Net income"].tolist() == ["800", "1.500", "12.000"]
    for other in ("0.125", "2.5", ".5", "1.2345"):  # It says that points are of decimals.
        assert read(f"x;y\n1.500;1\n2.250;{other}\n").frame["x"].tolist() == ["1.500", "2.250"]


def _finite(values, **others):
    table = table_file.of_frame(pd.DataFrame({"paid": values}), "t.parquet")
    return table.numbers(table.frame["paid"], "--paid", "reward", **others)


def test_numbers_are_read_whatever_they_are_written_as():
    for values in ([1, 0], [True, False], ["True", "False"], ["1", " 0.0"], pd.array([1, 0], "Int64")):
        numbers = _finite(values)
        assert (numbers.dtype, numbers.tolist()) == (np.float64, [1, 0])


@pytest.mark.parametrize(
    ("values", "others", "message"),
    [
        (["1,5"], {}, "'1,5' .* is not a reward: .*--decimal=,"),
        (["1", "x"], {}, r"'x' in column 'paid' \(row 2 of t.parquet\) is not a reward: every row needs a finite num"),
        ([1, None, None], {}, r"a missing value .*\(row 2 of .*\(and 1 more\)"),
        ([1, np.inf], {}, r"inf .*\(row 2 "),
        ([1, 3, 2], {"within": (0, 2)}, r"3 .*\(row 2 .* from 0 to 2"),
        ([1, 2.5], {"is_whole": True}, r"2.5 .*\(row 2 .* is not a reward: every row needs a whole finite number"),
    ],
)
def test_cells_that_are_no_numbers_are_named(values, others, message):
    with pytest.raises(UsageError, match=f"--paid: {message}"):
        _finite(values, **others)
    assert _finite([1e39]).tolist() == [1e39]


def _numbers_of(table, column="p", within=(1e-18, 1)):
    return table.numbers(table.frame[column], "--p", "propensity", within=within).tolist()


def test_decimal_commas_are_read_with_a_flag_that_a_refusal_names(read):
    text = "who;p;day\na;0,25;31.01.2023\nb;1;01.02.2023\n"
    table = read(text, decimal=",")
    assert _numbers_of(table) == [0.25, 1]
    assert table.frame["day"].tolist() == ["31.01.2023", "01.02.2023"]
    assert table.checksum != read(text).checksum
    with pytest.raises(UsageError, match=r"'0,25' .* if commas are decimal points, give --decimal=,"):
        _numbers_of(read(text))
    with pytest.raises(UsageError, match=r"=,: column 'p' has '1\.5', in which the point cannot group thousands"):
        read("who;p\na;1,5\nb;1.5\n", decimal=",")
    assert read("who;p;q\na;1.500;?\nb;2;1,5\n", decimal=",").frame["p"].tolist() == ["1500", "2"]


def _probabilities(values, within=(1e-18, 1)):
    return _numbers_of(table_file.of_frame(pd.DataFrame({"p": values}), "t.parquet"), within=within)


@pytest.mark.parametrize(
    "values",
    [
        np.float32([0.25, 1.0000001]),
        ["0.25", "1.0000001"],
        [0.1, np.nextafter(1, 2)],
        pd.array([0.25, 1.0000001], "Float32"),
    ],
    ids=["single", "text", "double", "nullable"],
)
def test_probabilities_may_exceed_1_by_the_rounding_of_their_column(values):
    assert _probabilities(values)[1] == 1


@pytest.mark.parametrize("values", [[1 / 3, 1.000001], ["0.1", "1.001"], np.float32([0.1, 1.000002])])
def test_probabilities_beyond_rounding_are_refused_with_all_their_digits(values):
    with pytest.raises(UsageError, match=r"--p: 1\.0+[12]\d* .*from 1e-18 to 1"):
        _probabilities(values)
    tiny = np.float32([0.5, -1e-7])  # It is rounded to 0 where 0 is allowed.
    assert _probabilities(tiny, within=(0, 1)) == [0.5, 0]
    with pytest.raises(UsageError, match="is not a propensity"):
        _probabilities(tiny)


def test_whole_numbers_in_parquet_stay_exact_despite_a_missing_value(tmp_path):
    names = [1234567890123456789, 1234567890123456790, None]
    path = str(tmp_path / "table.parquet")
    pd.DataFrame({"who": pd.array(names, "Int64"), "x": 1}).to_parquet(path)
    assert table_file.as_text(table_file.read(path).frame["who"]).tolist()[:2] == [str(name) for name in names[:2]]
    for word in ("1234567890123456789", "1234567890123456788"):
        missing = table_file.read(path, schema.Schema(missing_values=word)).missing_values
        assert missing == {word: int(word.endswith("9"))}


def test_too_many_rows_are_refused_before_they_are_read(read, tmp_path):
    path, frame = str(tmp_path / "table.parquet"), pd.DataFrame({"a": [1, 2, 3], "b": 1})
    frame.to_parquet(path)
    few = schema.Schema(max_table_rows=2)
    with pytest.raises(UsageError, match=r"table.parquet has more than 2 rows, the limit of --max_table_rows"):
        table_file.read(path, few)
    with pytest.raises(UsageError, match="the DataFrame has more than 2 rows"):
        table_file.of_frame(frame, "the DataFrame", few)
    with pytest.raises(UsageError, match="more than 2 rows"):
        read("a,b\n1,2\n1,2\n1,2\n", max_table_rows=2)
    assert len(read("a,b\n1,2\n1,2\n", max_table_rows=2).frame) == 2


def test_a_file_beyond_the_memory_is_refused_while_it_is_decompressed(read, monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    monkeypatch.setattr(memory, "_CHUNK", 50)
    content = gzip.compress(b"a,b\n" + b"1,2\n" * 1000)
    assert len(content) < 100
    with pytest.raises(UsageError, match=r"decompressed to .* GB so far, needs about .* GB are available: read it on"):
        read(content, name="table.csv.gz")
    with pytest.raises(UsageError, match=r"table.csv needs about"):
        read("a,b\n" + "1,2\n" * 1000)
    pd.DataFrame({"a": [1] * 1000, "b": 1}).to_parquet(tmp_path / "table.parquet")
    with pytest.raises(UsageError, match=r"table.parquet needs about"):
        table_file.read(str(tmp_path / "table.parquet"))


def test_hexadecimal_identifiers_and_other_texts_are_no_numbers():
    """`pandas.to_numeric` ends the process on some of the identifiers."""
    texts = ["05179e2916004192", "1e99999", "1_000", "nan", "1,5", "0x10", "١", "1 2", "e5", "."]
    assert np.isnan(table_file.numbers(pd.Series(texts, dtype=object))).all()
    draw = random.Random(0)
    names = [f"{draw.getrandbits(64):016x}" for _ in range(60_000)]
    is_number = ~np.isnan(table_file.numbers(pd.Series(names)))
    assert all("." not in name for name in np.array(names)[is_number])
    assert is_number.mean() < 0.01


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,5", "1.234,56", "-3"], [1.5, 1234.56, -3]),
        (["1 234,5", "1\u202f234", ",5"], [1234.5, 1234, 0.5]),
        (["0,4%", "50 %"], [0.004, 0.5]),
        (["1,5e-3", "2"], [0.0015, 2]),
    ],
    ids=range(4),
)
def test_decimal_commas(cells, values):
    plain, _ = table_file.plain_numbers(pd.Series(cells), ",")
    np.testing.assert_allclose(table_file.numbers(plain), values)


@pytest.mark.parametrize("cell", ["1.5", "0.500", "2.5 %"])
def test_points_that_group_nothing_are_refused_beside_decimal_commas(cell):
    with pytest.raises(UsageError, match=f"column 'x' has '{cell}', in which the point cannot group thousands"):
        table_file.plain_numbers(pd.Series(["1,5", "1.500", cell], name="x"), ",")
    words = pd.Series(["03.04.2023", "sunny", cell], name="x")
    unchanged, is_percent = table_file.plain_numbers(words, ",")
    assert (unchanged.tolist(), is_percent) == (words.tolist(), False)


def test_lists_and_the_like_are_recognized():
    for cell in ([1.0, 2.0], (3, 4), np.array([5, 6]), {"a": 1}, {1}):
        assert table_file.holds_lists(pd.Series([None, cell, "1, 2", 1.0]))
