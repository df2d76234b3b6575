"""Tests of data.convert.hospitals, on short files in UCI's form."""

import pytest

from data.convert import hospitals
from data.errors import UsageError
from data.tasks import silos

SITES = ("cleveland", "hungarian", "switzerland", "va")
LINE = "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n"


@pytest.fixture
def source(tmp_path):
    for site in SITES:
        (tmp_path / f"processed.{site}.data").write_text(LINE * 5)
    (tmp_path / "processed.va.data").write_text(LINE + "38,1,4,105,0,?,0,166,0,-.5,1,?,?,2\n\n")
    return tmp_path


def test_the_table_has_the_hospital_of_each_row_and_gaps_for_question_marks(source):
    header, *rows = hospitals.heart_disease(source).decode().splitlines()
    assert header == "site,age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,target"
    assert [row.partition(",")[0] for row in rows] == ["cleveland"] * 5 + ["hungarian"] * 5 + ["switzerland"] * 5 + [
        "va"
    ] * 2
    assert rows[0] == f"cleveland,{LINE.strip()}"
    assert rows[-1] == "va,38.0,1.0,4.0,105.0,0.0,,0.0,166.0,0.0,-0.5,1.0,,,2"


def test_the_task_reads_what_was_made(source):
    (source / "heart_disease_4sites.csv").write_bytes(hospitals.heart_disease(source))
    assert silos.load(silos.SiloOptions("heart_disease", 0.6, 0.2, data_dir=str(source))).names == SITES


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
        hospitals.heart_disease(source)
