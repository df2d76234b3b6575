"""Tests of data.statistics: files that are not what they should be."""

import json

import pytest

from data import statistics
from data.errors import UsageError

COLUMN = {"mean": 1.5, "deviation": 2, "has_missing": False}
DAY = {"mean_days": 19388.5, "deviation_days": 2, "has_missing": False, "has_times": True}
TABLE = {"kind": "table", "columns": {"age": COLUMN, "empty": None}, "labels": {"yes": 3, "no": 0}}
WRONG_LABELS = (["yes", "no"], {"yes": 1.5, "no": 1}, {"yes": 1})
POSTS = {"kind": "posts", "vocabulary": ["beer", "ale"], "tags": {"tap": 3, "pub": 1}}


def test_what_was_written_is_read(write):
    age = statistics.Numbers(1.5, 2.0, has_missing=False)
    day = statistics.Dates(19388.5, 2.0, has_missing=True, has_times=False)
    kinds = {"age": age, "day": day, "empty": None, "c": statistics.Categories(("x",))}
    table = statistics.OfTable(kinds, {"yes": 3, "no": 0})
    assert statistics.read_table(write(json.dumps(table.as_json()))) == table
    posts = statistics.OfPosts(("beer", "ale"), {"tap": 3, "pub": 1})
    assert statistics.read_posts(write(json.dumps(posts.as_json()))) == posts
    assert statistics.read_table(None) is statistics.read_posts(None) is None


WRONG_COLUMNS = [
    1.0,
    DAY | {"mean": 1.0},
    *(COLUMN | {"mean": mean} for mean in (float("nan"), 10**400, True)),
    *(COLUMN | {"deviation": deviation} for deviation in (float("inf"), -1.0)),
    COLUMN | {"has_missing": 1},
    *({"categories": names} for names in (["a", "a"], [], [*map(str, range(1001))])),
]
NO_COLUMN = "column 'c' has no statistics of finite numbers"


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (statistics.read_table, POSTS, "'posts', but this task needs 'table'"),
        (statistics.read_table, TABLE | {"columns": ["age"]}, '"columns" is not an object'),
        *((statistics.read_table, TABLE | {"columns": {"c": column}}, NO_COLUMN) for column in WRONG_COLUMNS),
        *((statistics.read_table, TABLE | {"labels": labels}, '"labels"') for labels in WRONG_LABELS),
        (statistics.read_posts, TABLE, "'table', but this task needs 'posts'"),
        *((statistics.read_posts, POSTS | {"vocabulary": words}, '"vocabulary"') for words in ([], ["a", "a"], [1, 2])),
        *((statistics.read_posts, POSTS | {"tags": tags}, '"tags"') for tags in ({"tap": -1, "pub": 1}, {"tap": 1})),
    ],
)
def test_other_content_is_named(write, read, content, message):
    with pytest.raises(UsageError, match=f"--public_statistics=.*{message}"):
        read(write(json.dumps(content)))
