"""Tests of data.statistics: files that are not what they should be."""

import json

import pytest

from data import statistics
from data.errors import UsageError

COLUMN = {"mean": 1.5, "deviation": 2, "has_missing": False}
DAY = {"mean_days": 19388.5, "deviation_days": 2, "has_missing": False, "has_times": True}
TABLE = {"kind": "table", "columns": {"age": COLUMN, "empty": None}, "labels": {"yes": 3, "no": 0}}
POSTS = {"kind": "posts", "vocabulary": ["beer", "ale"], "tags": {"tap": 3, "pub": 1}}


@pytest.fixture
def write(tmp_path):
    def to_file(content) -> str:
        path = tmp_path / "statistics.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return to_file


def test_what_was_written_is_read(write):
    age = statistics.Numbers(1.5, 2.0, has_missing=False)
    day = statistics.Dates(19388.5, 2.0, has_missing=True, has_times=False)
    kinds = {"age": age, "day": day, "empty": None, "c": statistics.Categories(("x",))}
    table = statistics.OfTable(kinds, {"yes": 3, "no": 0})
    assert statistics.read_table(write(table.as_json())) == table
    posts = statistics.OfPosts(("beer", "ale"), {"tap": 3, "pub": 1})
    assert statistics.read_posts(write(posts.as_json())) == posts
    assert statistics.read_table(None) is statistics.read_posts(None) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON file"),
        ("[" * 100_000, "is no JSON file"),
        ([], 'no "kind"'),
        ({"columns": {}}, 'no "kind"'),
        (POSTS, "it describes 'posts', but this task needs statistics of 'table'"),
        (TABLE | {"columns": ["age"]}, '"columns" is no object'),
        (TABLE | {"columns": {"age": {"mean": 1.0}}}, "column 'age' has neither"),
        (TABLE | {"columns": {"age": 1.0}}, "column 'age' has neither"),
        (TABLE | {"columns": {"age": COLUMN | {"mean": float("nan")}}}, "column 'age' has no finite mean"),
        (TABLE | {"columns": {"age": COLUMN | {"deviation": float("inf")}}}, "column 'age' has no finite mean"),
        (TABLE | {"columns": {"age": COLUMN | {"mean": 10**400}}}, "column 'age' has no finite mean"),
        (TABLE | {"columns": {"age": COLUMN | {"deviation": -1.0}}}, "deviation of at least 0"),
        (TABLE | {"columns": {"age": COLUMN | {"mean": True}}}, "column 'age' has no finite mean"),
        (TABLE | {"columns": {"age": COLUMN | {"has_missing": 1}}}, "has_missing is neither true nor false"),
        (TABLE | {"columns": {"day": DAY | {"mean_days": None}}}, "column 'day' has no finite mean"),
        (TABLE | {"columns": {"day": DAY | {"has_times": "no"}}}, "column 'day': has_times is neither true nor false"),
        (TABLE | {"columns": {"day": DAY | {"mean": 1.0}}}, "column 'day' has neither"),
        (TABLE | {"columns": {"c": {"categories": ["a", "a"]}}}, "different categories"),
        (TABLE | {"columns": {"c": {"categories": []}}}, "different categories"),
        (TABLE | {"columns": {"c": {"categories": list(map(str, range(1001)))}}}, "at most 1000"),
        (TABLE | {"labels": ["yes", "no"]}, '"labels" is no object of counts'),
        (TABLE | {"labels": {"yes": 1.5, "no": 1}}, '"labels" is no object of counts'),
        (TABLE | {"labels": {"yes": 1}}, '"labels" has 1 labels'),
    ],
)
def test_a_file_without_statistics_of_a_table_is_an_error(write, content, message):
    with pytest.raises(UsageError, match=f"--public_statistics=.*{message}"):
        statistics.read_table(write(content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TABLE, "it describes 'table', but this task needs statistics of 'posts'"),
        (POSTS | {"vocabulary": []}, '"vocabulary" is no list of different words'),
        (POSTS | {"vocabulary": ["a", "a"]}, '"vocabulary" is no list of different words'),
        (POSTS | {"vocabulary": [1, 2]}, '"vocabulary" is no list of different words'),
        (POSTS | {"tags": {"tap": -1, "pub": 1}}, '"tags" is no object of counts'),
        (POSTS | {"tags": {"tap": 1}}, '"tags" has 1 tags'),
    ],
)
def test_a_file_without_statistics_of_posts_is_an_error(write, content, message):
    with pytest.raises(UsageError, match=f"--public_statistics=.*{message}"):
        statistics.read_posts(write(content))


def test_a_missing_file_is_an_error(tmp_path):
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(UsageError, match=r"--public_statistics=.* is not readable"):
            statistics.read_table(str(path))
