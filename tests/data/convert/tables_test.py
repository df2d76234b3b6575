"""Tests of data.convert.tables, on short files in the published forms, and on RouteLLM's own."""

import csv
import gzip

import pandas as pd
import pytest

from data.convert import tables
from data.errors import UsageError

SITES = ("cleveland", "hungarian", "switzerland", "va")
LINE = "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n"


@pytest.fixture
def source(tmp_path):
    for site in SITES:
        (tmp_path / f"processed.{site}.data").write_text(LINE * 5)
    (tmp_path / "processed.va.data").write_text(LINE + "38,1,4,105,0,?,0,166,0,-.5,1,?,?,2\n\n")
    return tmp_path


def test_the_table_has_the_hospital_of_each_row_and_gaps_for_question_marks(source):
    header, *rows = tables.heart_disease(source).decode().splitlines()
    assert header == "site,age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,target"
    assert [row.partition(",")[0] for row in rows] == ["cleveland"] * 5 + ["hungarian"] * 5 + ["switzerland"] * 5 + [
        "va"
    ] * 2
    assert rows[0] == f"cleveland,{LINE.strip()}"
    assert rows[-1] == "va,38.0,1.0,4.0,105.0,0.0,,0.0,166.0,0.0,-0.5,1.0,,,2"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,2,3", "line 2: 3 values instead of 14"),
        (LINE.replace(",0\n", ",?\n"), "line 2: could not convert string to float"),
        (LINE.replace("63.0", "x"), "line 2: could not convert string to float: 'x'"),
    ],
)
def test_a_wrong_line_is_named(source, line, message):
    (source / "processed.hungarian.data").write_text(LINE + line)
    with pytest.raises(UsageError, match=rf"processed\.hungarian\.data is damaged \({message}"):
        tables.heart_disease(source)


HEADER = "prompt,mixtral-8x7b-instruct-v0.1,gpt-4-1106-preview\n"
OTHER_HEADER = "prompt,mistralai/Mixtral-8x7B-Instruct-v0.1,gpt-4-1106-preview\n"


@pytest.fixture
def answers(tmp_path):
    (tmp_path / "mmlu_abstract_algebra.csv").write_text(
        HEADER + '"Which?\nA. 0\nB. ""1""",True,False\nWhat?,False,True\n'
    )
    (tmp_path / "mmlu_virology.csv").write_text(OTHER_HEADER + "Who?,True,True\n")
    return tmp_path


def test_the_table_has_a_row_for_each_question(answers):
    table = list(csv.reader(gzip.decompress(tables.routellm(answers)).decode().splitlines(keepends=True)))
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
        (HEADER + "What?,True\n", "line 2: None is neither"),
        ("prompt,gpt-4-1106-preview\n", "its columns are prompt, gpt-4"),
        ("", "its columns are"),
    ],
)
def test_a_damaged_file_is_named(answers, content, message):
    (answers / "mmlu_virology.csv").write_text(content)
    with pytest.raises(UsageError, match=rf"mmlu_virology\.csv is damaged \({message}"):
        tables.routellm(answers)


def test_rewards_of_the_published_answers(shared_data):
    """At a price of .1 for the dearer model: best action, best action by subject, best by question."""
    table = pd.read_csv(shared_data / "routellm_mmlu.csv.gz")
    rewards = table[["mixtral_correct", "gpt4_correct"]] - [0, 0.1]
    assert (len(table), table["subject"].nunique()) == (14042, 57)
    assert rewards.mean().max() == pytest.approx(0.706, abs=5e-4)
    assert rewards.groupby(table["subject"]).sum().max(axis=1).sum() / len(table) == pytest.approx(0.729, abs=5e-4)
    assert rewards.max(axis=1).mean() == pytest.approx(0.841, abs=5e-4)
