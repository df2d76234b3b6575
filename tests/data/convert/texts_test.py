"""Tests of data.convert.texts, on small files in the published forms, sound and damaged."""

import collections
import csv
import gzip
import tracemalloc
from xml.sax import saxutils

import pandas as pd
import pytest

from data.convert import __main__ as convert
from data.convert import texts
from data.errors import UsageError
from data.tasks import tags
from data.tasks.options import TaskOptions

QUESTION = {"Id": "1", "PostTypeId": "1", "OwnerUserId": "5", "Title": "Why?", "Tags": "<a><b>", "Body": "<p>How</p>"}
ANSWER = {"Id": "2", "PostTypeId": "2", "OwnerUserId": "6", "ParentId": "1", "Body": "<p>So</p>"}


def _row(base: dict[str, str], **changes: str | None) -> str:
    attributes = {name: value for name, value in (base | changes).items() if value is not None}
    return f"  <row {' '.join(f'{name}={saxutils.quoteattr(value)}' for name, value in attributes.items())} />\n"


def _dump(path, *rows: str):
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text('<?xml version="1.0" encoding="utf-8"?>\n<posts>\n' + "".join(rows) + "</posts>\n", "utf-8")
    return path


def test_the_task_reads_the_posts_that_are_made_of_dumps(tmp_path, capsys):
    for site in ("beer", "wine"):
        question = _row(QUESTION, Tags=f"<{site}-ale>")
        _dump(tmp_path / "dumps" / site / "Posts.xml", question, _row(ANSWER), _row(ANSWER, Id="3", ParentId="9"))
    words = ["convert", "stackexchange", str(tmp_path / "dumps"), f"--output={tmp_path}"]
    convert.program(convert.define().parse(words))
    assert "posts: 4, answers without their question: 2" in capsys.readouterr().err
    options = TaskOptions("stackexchange_tag", data_dir=str(tmp_path), init_labels=1, keep_untagged=True)
    task = tags.load_stackexchange(options)
    users = sorted([*task.clients.client_ids, *task.held_out.client_ids])
    assert users == ["beer/5", "beer/6", "wine/5", "wine/6"]


def _read(path) -> tuple[list[dict], dict[str, int]]:
    skipped: collections.Counter[str] = collections.Counter()
    return list(texts.read_dump(path, skipped)), dict(skipped)


@pytest.fixture
def dump(tmp_path):
    return tmp_path / "beer.stackexchange.com" / "Posts.xml"


def test_answers_take_their_questions_title_and_tags_also_before_it(dump):
    early = _row(ANSWER, Id="3", OwnerUserId="7", Body="First")
    posts, skipped = _read(_dump(dump, early, _row(QUESTION), _row(ANSWER)))
    site = "beer.stackexchange.com"
    assert posts == [
        {"site": site, "user": f"{site}/{user}", "title": "Why?", "body": body, "tags": ("a", "b")}
        for user, body in ((7, "First"), (5, "How"), (6, "So"))
    ]
    assert skipped == {}


WRONG_VALUES = [*((name, None) for name in ("Id", "PostTypeId", "Title", "Tags", "Body")), ("PostTypeId", "question")]
WRONG_VALUES += [("Id", "one"), ("Id", "9" * 5000), ("OwnerUserId", "x1"), ("OwnerUserId", "")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (_row(ANSWER, OwnerUserId=None, OwnerDisplayName="user17"), texts.UNKNOWN_USER),
        (_row(ANSWER, OwnerUserId="-1"), texts.UNKNOWN_USER),
        (_row(ANSWER, ParentId="99"), texts.NO_QUESTION),
        (_row(ANSWER, PostTypeId="5"), texts.OTHER_TYPE),
        *((_row(QUESTION, **{"Id": "8"} | {name: value}), texts.MALFORMED) for name, value in WRONG_VALUES),
        *((_row(ANSWER, ParentId=number), texts.MALFORMED) for number in (None, "1.5")),
        ("<row />\n", texts.MALFORMED),
    ],
)
def test_unusable_posts_are_skipped_and_counted(dump, row, reason):
    posts, skipped = _read(_dump(dump, _row(QUESTION), row, row, _row(ANSWER)))
    assert [post["body"] for post in posts] == ["How", "So"]
    assert skipped == {reason: 2}


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<p>Fish &amp; chips,&#10;caf&eacute;&nbsp;&lt;b&gt;</p>", "Fish & chips, café <b>"),
        ("<p>One</p><p>two<br/>three <3</p>\n", "One two three <3"),
        ("use <code>x &lt; y</code> here", "use here"),
        ('a<pre class="lang-py"><code>for i in x:\n  print(i)\n</code></pre>b', "a b"),
        ("a <PRE>x</PRE> b <Code>y</code > c", "a b c"),
        ("<!-- language: lang-c > --> after", "after"),
        ("a <pre>never closed", "a"),
        ("a <!-- never closed", "a"),
        ("<preface>kept</preface>", "kept"),
        ("&amp;lt;i&amp;gt;", "&lt;i&gt;"),
    ],
)
def test_plain_text(markup, expected):
    assert texts.plain_text(markup) == expected


def test_entities_of_the_xml_and_of_the_html_are_decoded(dump):
    row = _row(QUESTION, Title='"Tea" & coffee <3', Body="<p>caf&eacute; &amp; <code>x</code>\n\nmilk</p>")
    (post,) = _read(_dump(dump, row))[0]
    assert (post["title"], post["body"]) == ('"Tea" & coffee <3', "café & milk")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", 1),
        ("<posts>\n" + _row(QUESTION), 3),
        ("<posts>\n" + _row(QUESTION) + '  <row Id="2" PostTy', 3),
        ("<posts>\n" + _row(QUESTION) + "</post>", 3),
        ('<posts>\n\n<row Body="&#1;" /></posts>', 3),
    ],
)
def test_a_truncated_or_damaged_dump_is_refused_with_the_line(dump, content, line):
    dump.parent.mkdir()
    dump.write_text(content)
    with pytest.raises(UsageError, match=rf"Posts\.xml is damaged \(.*line {line}, .*SOURCE must hold"):
        _read(dump)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_dump(dump):
    answers = (_row(ANSWER, Id=str(number), Body="word " * 400) for number in range(2, 2000))
    _dump(dump, _row(QUESTION), *answers)
    assert dump.stat().st_size > 4_000_000
    tracemalloc.start()
    count = sum(1 for _ in texts.read_dump(dump, collections.Counter()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1999
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("written", "tags"), [("<c#><node.js><c++>", ("c#", "node.js", "c++")), ("|c#|c++|", ("c#", "c++")), ("", ())]
)
def test_tags_of_both_notations_also_of_a_question_without_an_owner(dump, written, tags):
    found, skipped = _read(_dump(dump, _row(QUESTION, Tags=written, OwnerUserId="-1"), _row(ANSWER)))
    assert [(post["body"], post["tags"]) for post in found] == [("So", tags)]
    assert skipped == {texts.UNKNOWN_USER: 1}


SITES = ("cleveland", "hungarian", "switzerland", "va")
LINE = "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n"


@pytest.fixture
def source(tmp_path):
    for site in SITES:
        (tmp_path / f"processed.{site}.data").write_text(LINE * 5)
    (tmp_path / "processed.va.data").write_text(LINE + "38,1,4,105,0,?,0,166,0,-.5,1,?,?,2\n\n")
    return tmp_path


def test_the_table_has_the_hospital_of_each_row_and_gaps_for_question_marks(source):
    header, *rows = texts.heart_disease(source).decode().splitlines()
    assert header == "site,age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,target"
    assert [row.partition(",")[0] for row in rows] == [site for site in SITES for _ in range(2 if site == "va" else 5)]
    assert rows[0] == f"cleveland,{LINE.strip()}"
    assert rows[-1] == "va,38.0,1.0,4.0,105.0,0.0,,0.0,166.0,0.0,-0.5,1.0,,,2"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,2,3", "line 2: 3 values instead of 14"),
        (LINE.replace(",0\n", ",?\n"), "line 2: could not convert string to float"),
    ],
)
def test_a_wrong_line_is_named(source, line, message):
    (source / "processed.hungarian.data").write_text(LINE + line)
    with pytest.raises(UsageError, match=rf"processed\.hungarian\.data is damaged \({message}"):
        texts.heart_disease(source)


HEADER = "prompt,mixtral-8x7b-instruct-v0.1,gpt-4-1106-preview\n"
OTHER_HEADER = "prompt,mistralai/Mixtral-8x7B-Instruct-v0.1,gpt-4-1106-preview\n"


@pytest.fixture
def answers(tmp_path):
    algebra = HEADER + '"Which?\nA. 0\nB. ""1""",True,False\nWhat?,False,True\n'
    (tmp_path / "mmlu_abstract_algebra.csv").write_text(algebra)
    (tmp_path / "mmlu_virology.csv").write_text(OTHER_HEADER + "Who?,True,True\n")
    return tmp_path


def test_the_table_has_a_row_for_each_question(answers):
    table = list(csv.reader(gzip.decompress(texts.routellm(answers)).decode().splitlines(keepends=True)))
    assert table == [
        ["subject", "prompt", "mixtral_correct", "gpt4_correct"],
        ["abstract_algebra", 'Which?\nA. 0\nB. "1"', "1", "0"],
        ["abstract_algebra", "What?", "0", "1"],
        ["virology", "Who?", "1", "1"],
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER + "What?,True,perhaps\n", "line 2: 'perhaps' is neither"),
        ("prompt,gpt-4-1106-preview\n", "its columns are prompt, gpt-4"),
        ("", "its columns are"),
    ],
)
def test_a_damaged_file_is_named(answers, content, message):
    (answers / "mmlu_virology.csv").write_text(content)
    with pytest.raises(UsageError, match=rf"mmlu_virology\.csv is damaged \({message}"):
        texts.routellm(answers)


def test_rewards_of_the_published_answers(shared_data):
    """At a price of .1 for the dearer model: best action, best action by subject, best by question."""
    table = pd.read_csv(shared_data / "routellm_mmlu.csv.gz")
    rewards = table[["mixtral_correct", "gpt4_correct"]] - [0, 0.1]
    assert (len(table), table["subject"].nunique()) == (14042, 57)
    assert rewards.mean().max() == pytest.approx(0.706, abs=5e-4)
    assert rewards.groupby(table["subject"]).sum().max(axis=1).sum() / len(table) == pytest.approx(0.729, abs=5e-4)
    assert rewards.max(axis=1).mean() == pytest.approx(0.841, abs=5e-4)
