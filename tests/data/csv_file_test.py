"""Tests of data.csv_file: how a CSV file is written, and what is broken in it. tests.data.table_file_test has more."""

import pytest

from data import csv_file, table_file
from data.errors import UsageError

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


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas_are_numbers(read, separator):
    lines = ["who|x|y|z", "a|1,5|1.000,25|n/k", "b|-2|3|,5", "c|1e3|1.200|7", "d|3,25e1||", "e|?|0|0,1"] + [
        "f|1|2|3"
    ] * 9
    table = read("\n".join(lines).replace("|", separator))
    assert table.form["decimal"] == "comma"
    assert table.frame["x"].tolist()[:5] == ["1.5", "-2", "1e3", "3.25e1", "?"]
    assert table.frame["y"].tolist()[:3] == ["1000.25", "3", "1200"]
    assert table.frame["z"].tolist()[:3] == ["n/k", ".5", "7"]


def test_words_with_commas_are_left_alone(read):
    table = read("who;x\na;1,5\nb;red\nc;blue\n")
    assert table.frame["x"].tolist() == ["1,5", "red", "blue"]
    assert "decimal" not in table.form


@pytest.mark.parametrize(
    "text", ["who;x\na;1,200\nb;950\n", 'who,x\na,"1,200"\nb,950\n', 'who,x\na,"1,5"\nb,"2,25"\n'], ids=range(3)
)
def test_commas_that_may_group_thousands_are_refused(read, text):
    refused = read(text).refused
    assert list(refused) == ["x"]
    with pytest.raises(UsageError, match=r"Column 'x' of .* holds numbers with commas, such as '1,\d+', which may be"):
        csv_file.check_accepted(refused)
    assert read(text, ["x"]).frame["x"].tolist()[0].startswith("1,")


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
    assert not table.refused
    assert read("who,x\n" + "".join(f"a,{cell}\n" for cell in cells), ["x"]).signs == {}


def test_amounts_with_a_decimal_comma_are_read_where_columns_have_semicolons(read):
    table = read("who;x\na;1.234,50 €\nb;12,00 €\n")
    assert table.frame["x"].tolist() == ["1234.50", "12.00"]
    assert (table.signs, table.form["decimal"]) == ({"x": "€"}, "comma")


@pytest.mark.parametrize("cells", [["$1", "€2"], ["$1", "red", "blue"], ["1", "2"]], ids=range(3))
def test_cells_of_two_signs_or_few_numbers_stay_as_they_are(read, cells):
    table = read("who,x\n" + "".join(f"a,{cell}\n" for cell in cells))
    assert (list(map(str, table.frame["x"])), table.signs) == (cells, {})


def test_a_sign_does_not_say_whether_a_comma_groups_thousands(read):
    assert list(read('who,x\na,"$1,200"\nb,$950\n').refused) == ["x"]


@pytest.mark.parametrize("other", ["1.5", "0.25"])
def test_decimal_commas_and_points_are_not_mixed(read, other):
    with pytest.raises(UsageError, match="has decimal commas in column 'x' and decimal points in column 'y'"):
        read(f"x;y\n1,5;{other}\n2,5;3\n")


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


def test_a_line_of_two_quotes_is_a_row_and_a_line_of_blanks_is_none(read):
    with pytest.raises(UsageError, match=r"has 2 names, .* values: line 4 has 1\."):
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
