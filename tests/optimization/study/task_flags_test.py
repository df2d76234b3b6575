import dataclasses

import pytest

from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.posterior.run_posterior import STUDY
from optimization.study import frame


def options(*arguments: str) -> TaskOptions:
    (settings,) = frame.plan(STUDY, frame.flag_set(STUDY).parse(["run_posterior", *arguments]))
    return STUDY.options(settings).task


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--task_type=stackoverflow_tag",), {"max_words": 256, "text_normalisation": "l2", "keep_untagged": False}),
        (("--task_type=stackoverflow_tag", "--variant=reference_code"), {"keep_untagged": True}),
        (("--task_type=stackexchange_tag", "--variant=reference_code", "--nokeep_untagged"), {"keep_untagged": False}),
        (("--task_type=stackexchange_tag", "--text_normalisation=mean"), {"text_normalisation": "mean"}),
        (("--task_type=mnist", "--partition_clients=7"), {"partition_clients": 7, "partition_alpha": 0.3}),
    ],
)
def test_a_tasks_defaults_hold_where_no_flag_is_given(arguments, expected):
    found = options(*arguments)
    assert {name: getattr(found, name) for name in expected} == expected


def test_every_name_in_the_registry_is_an_option():
    known = {field.name for field in dataclasses.fields(TaskOptions)}
    for entry in registry.TASKS.values():
        assert entry.options <= known
        assert set(entry.defaults) <= known | {"max_examples_per_client"}


@pytest.mark.parametrize("given", [("--data_dir={}",), ()])
def test_a_table_is_also_looked_up_in_the_data_folder(tmp_path, monkeypatch, given):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(tmp_path / ("nowhere" if given else "there")))
    arguments = ["--task_type=tabular", "--data_file=a.csv", *(flag.format(tmp_path / "there") for flag in given)]
    assert options(*arguments).data_file == str(tmp_path / "here" / "a.csv")
    (tmp_path / "there" / "a.csv").touch()
    assert options(*arguments).data_file == str(tmp_path / "there" / "a.csv")
    (tmp_path / "here" / "a.csv").touch()
    assert options(*arguments).data_file == str(tmp_path / "here" / "a.csv")
