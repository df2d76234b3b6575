"""Tests of data.posts: hand-made dumps and JSON lines, sound and damaged."""

import collections
import gzip
import json
import tracemalloc
from xml.sax import saxutils

import pytest

from data import posts
from data.errors import UsageError

QUESTION = {"Id": "1", "PostTypeId": "1", "OwnerUserId": "5", "Title": "Why?", "Tags": "<a><b>", "Body": "<p>How</p>"}
ANSWER = {"Id": "2", "PostTypeId": "2", "OwnerUserId": "6", "ParentId": "1", "Body": "<p>So</p>"}


def _row(base: dict[str, str], **changes: str | None) -> str:
    attributes = {name: value for name, value in (base | changes).items() if value is not None}
    return f"  <row {' '.join(f'{name}={saxutils.quoteattr(value)}' for name, value in attributes.items())} />\n"


def _dump(path, *rows: str):
    path.parent.mkdir(exist_ok=True)
    path.write_text('<?xml version="1.0" encoding="utf-8"?>\n<posts>\n' + "".join(rows) + "</posts>\n", "utf-8")
    return path


def _read(path) -> tuple[list[posts.Post], dict[str, int]]:
    skipped: collections.Counter[str] = collections.Counter()
    return list(posts.read_dump(path, skipped)), dict(skipped)


@pytest.fixture
def dump(tmp_path):
    return tmp_path / "beer.stackexchange.com" / "Posts.xml"


def test_answers_take_their_questions_title_and_tags_also_before_it(dump):
    early = _row(ANSWER, Id="3", OwnerUserId="7", Body="First")
    found, skipped = _read(_dump(dump, early, _row(QUESTION), _row(ANSWER)))
    site = "beer.stackexchange.com"
    assert found == [
        posts.Post(site, f"{site}/7", "Why?", "First", ("a", "b")),
        posts.Post(site, f"{site}/5", "Why?", "How", ("a", "b")),
        posts.Post(site, f"{site}/6", "Why?", "So", ("a", "b")),
    ]
    assert skipped == {}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (_row(ANSWER, OwnerUserId=None), posts.UNKNOWN_USER),
        (_row(ANSWER, OwnerUserId=None, OwnerDisplayName="user17"), posts.UNKNOWN_USER),
        (_row(ANSWER, OwnerUserId="-1"), posts.UNKNOWN_USER),
        (_row(ANSWER, ParentId="99"), posts.NO_QUESTION),
        (_row(ANSWER, PostTypeId="5"), posts.OTHER_TYPE),
        (_row(QUESTION, Id=None), posts.MALFORMED),
        (_row(QUESTION, Id="one"), posts.MALFORMED),
        (_row(QUESTION, Id="9" * 5000), posts.MALFORMED),
        (_row(QUESTION, Id="8", PostTypeId=None), posts.MALFORMED),
        (_row(QUESTION, Id="8", PostTypeId="question"), posts.MALFORMED),
        (_row(QUESTION, Id="8", Title=None), posts.MALFORMED),
        (_row(QUESTION, Id="8", Tags=None), posts.MALFORMED),
        (_row(QUESTION, Id="8", Body=None), posts.MALFORMED),
        (_row(QUESTION, Id="8", OwnerUserId="x1"), posts.MALFORMED),
        (_row(QUESTION, Id="8", OwnerUserId=""), posts.MALFORMED),
        (_row(ANSWER, ParentId=None), posts.MALFORMED),
        (_row(ANSWER, ParentId="1.5"), posts.MALFORMED),
        ("<row />\n", posts.MALFORMED),
    ],
)
def test_what_is_no_usable_post_is_skipped_and_counted(dump, row, reason):
    found, skipped = _read(_dump(dump, _row(QUESTION), row, row, _row(ANSWER)))
    assert [post.body for post in found] == ["How", "So"]
    assert skipped == {reason: 2}


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<p>Fish &amp; chips,&#10;caf&eacute;&nbsp;&lt;b&gt;</p>", "Fish & chips, café <b>"),
        ("<p>One</p><p>two<br/>three</p>\n", "One two three"),
        ('see <a href="http://x.y/z?a=1" rel="nofollow">this</a>', "see this"),
        ("use <code>x &lt; y</code> here", "use here"),
        ('a<pre class="lang-py"><code>for i in x:\n  print(i)\n</code></pre>b', "a b"),
        ("a <PRE>x</PRE> b <Code>y</code > c", "a b c"),
        ("<!-- language: lang-c > --> after", "after"),
        ("a <pre>never closed", "a"),
        ("a <!-- never closed", "a"),
        ("1 < 2 and <3", "1 < 2 and <3"),
        ("<preface>kept</preface>", "kept"),
        ("&amp;lt;i&amp;gt;", "&lt;i&gt;"),
        ("", ""),
    ],
)
def test_plain_text(markup, expected):
    assert posts.plain_text(markup) == expected


def test_entities_of_the_xml_and_of_the_html_are_decoded(dump):
    row = _row(QUESTION, Title='"Tea" & coffee <3', Body="<p>caf&eacute; &amp; <code>x</code>\n\nmilk</p>")
    (found,) = _read(_dump(dump, row))[0]
    assert (found.title, found.body) == ('"Tea" & coffee <3', "café & milk")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", 1),
        ("<posts>\n" + _row(QUESTION), 3),
        ("<posts>\n" + _row(QUESTION) + '  <row Id="2" PostTy', 3),
        ("<posts>\n" + _row(QUESTION) + _row(ANSWER) + "  <row Id=2 />\n</posts>", 4),
        ("<posts>\n" + _row(QUESTION) + "</post>", 3),
        ('<posts>\n\n<row Body="&nbsp;" /></posts>', 3),
        ('<posts>\n\n<row Body="&#1;" /></posts>', 3),
    ],
)
def test_a_truncated_or_damaged_dump_is_refused_with_the_line(dump, content, line):
    dump.parent.mkdir()
    dump.write_text(content)
    with pytest.raises(UsageError, match=rf"Posts\.xml, line {line}: .*truncated or damaged.*--data_dir"):
        _read(dump)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_dump(dump):
    answers = (_row(ANSWER, Id=str(number), Body="word " * 400) for number in range(2, 2000))
    _dump(dump, _row(QUESTION), *answers)
    assert dump.stat().st_size > 4_000_000
    tracemalloc.start()
    count = sum(1 for _ in posts.read_dump(dump, collections.Counter()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1999
    assert peak < 1_000_000


OBJECT = {"site": "ai", "id": 1, "user": "ai/8", "title": "What?", "body": "Nothing\nmuch", "tags": ["x", "y"]}


def test_json_lines_plain_and_compressed(tmp_path):
    lines = [json.dumps(OBJECT), "", json.dumps(OBJECT | {"user": "ai/9", "body": "é", "tags": []})]
    plain, compressed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    plain.write_text("\ufeff" + "\n".join(lines), "utf-8")
    compressed.write_bytes(gzip.compress(plain.read_bytes()))
    expected = [
        posts.Post("ai", "ai/8", "What?", "Nothing\nmuch", ("x", "y")),
        posts.Post("ai", "ai/9", "What?", "é", ()),
    ]
    assert list(posts.read_jsonl(plain)) == list(posts.read_jsonl(compressed)) == expected


@pytest.mark.parametrize(
    "line",
    [
        "{'site'",
        json.dumps(OBJECT)[:-5],
        "[" * 100_000,
        "9" * 5000,
        "[1, 2]",
        *(json.dumps(OBJECT | {name: 8}) for name in ("user", "title", "body", "site", "tags")),
        json.dumps({name: value for name, value in OBJECT.items() if name != "body"}),
        json.dumps(OBJECT | {"tags": "x"}),
        json.dumps(OBJECT | {"tags": ["x", 1]}),
        b"\xff\xfe",
    ],
)
def test_a_malformed_line_is_refused_with_its_number(tmp_path, line):
    path = tmp_path / "a.jsonl"
    content = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(json.dumps(OBJECT).encode() + b"\n\n" + content + b"\n")
    with pytest.raises(UsageError, match=r"a\.jsonl is not readable at or after line 3 .*--data_dir"):
        list(posts.read_jsonl(path))


@pytest.mark.parametrize(
    ("written", "tags"), [("<c#><node.js><c++>", ("c#", "node.js", "c++")), ("|c#|c++|", ("c#", "c++")), ("", ())]
)
def test_tags_of_both_notations_also_of_a_question_without_an_owner(dump, written, tags):
    found, skipped = _read(_dump(dump, _row(QUESTION, Tags=written, OwnerUserId="-1"), _row(ANSWER)))
    assert [(post.body, post.tags) for post in found] == [("So", tags)]
    assert skipped == {posts.UNKNOWN_USER: 1}
