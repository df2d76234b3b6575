"""Tests of data.convert.routellm, on short files in the repository's form, and on its own."""

import csv
import gzip

import pandas as pd
import pytest

from data.convert import routellm
from data.errors import UsageError

HEADER = "prompt,mixtral-8x7b-instruct-v0.1,gpt-4-1106-preview\n"
OTHER_HEADER = "prompt,mistralai/Mixtral-8x7B-Instruct-v0.1,gpt-4-1106-preview\n"


@pytest.fixture
def source(tmp_path):
    (tmp_path / "mmlu_abstract_algebra.csv").write_text(
        HEADER + '"Which?\nA. 0\nB. ""1""",True,False\nWhat?,False,True\n'
    )
    (tmp_path / "mmlu_virology.csv").write_text(OTHER_HEADER + "Who?,True,True\n")
    return tmp_path


def test_the_table_has_a_row_for_each_question(source):
    table = list(csv.reader(gzip.decompress(routellm.routellm(source)).decode().splitlines(keepends=True)))
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
def test_a_damaged_file_is_named(source, content, message):
    (source / "mmlu_virology.csv").write_text(content)
    with pytest.raises(UsageError, match=rf"mmlu_virology\.csv is damaged \({message}"):
        routellm.routellm(source)


def test_a_folder_of_something_else_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="There is no mmlu_abstract_algebra"):
        routellm.routellm(tmp_path)


def test_rewards_of_the_published_answers(shared_data):
    """At a price of .1 for the dearer model: best action, best action by subject, best by question."""
    table = pd.read_csv(shared_data / "routellm_mmlu.csv.gz")
    rewards = table[["mixtral_correct", "gpt4_correct"]] - [0, 0.1]
    assert (len(table), table["subject"].nunique()) == (14042, 57)
    assert rewards.mean().max() == pytest.approx(0.706, abs=5e-4)
    assert rewards.groupby(table["subject"]).sum().max(axis=1).sum() / len(table) == pytest.approx(0.729, abs=5e-4)
    assert rewards.max(axis=1).mean() == pytest.approx(0.841, abs=5e-4)
