"""Tests of optimization.study.objects."""

import dataclasses
import hashlib
import importlib
import sys

import numpy as np
import pytest

from data.errors import UsageError
from optimization.study import objects

SOURCE = """
import dataclasses


@dataclasses.dataclass(frozen=True)
class Rule:
    share: float = 0.5
    name: str = "a(b) c"
    sizes: tuple = (1, (2, None))


@dataclasses.dataclass
class Loose:
    share: float = 0.5
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "users_rules.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("users_rules")
    del sys.modules["users_rules"]


def test_a_frozen_dataclass_of_a_module_is_its_name_parameters_and_source(module):
    digest = hashlib.sha256(SOURCE.encode()).hexdigest()[:16]
    text = f"users_rules:Rule(share=0.25, name='a(b) c', sizes=(1, (2, None))) {digest}"
    assert objects.recorded(module.Rule(0.25)) == (text, "")
    assert objects.rebuilt(text) == module.Rule(0.25)
    assert objects.short(text) == "Rule(share=0.25, name='a(b) c', sizes=(1, (2, None)))"


def test_a_changed_source_is_another_object(module, tmp_path):
    before = objects.recorded(module.Rule()).text
    (tmp_path / "users_rules.py").write_text(SOURCE + "# More.\n")
    assert objects.recorded(module.Rule()).text != before
    with pytest.raises(UsageError, match="users_rules:Rule has changed"):
        objects.rebuilt(before)


def test_other_objects_are_only_of_this_process(module):
    @dataclasses.dataclass(frozen=True)
    class Local:
        share: float = 0.5

    for one in (lambda: 0, Local(), module.Loose(), module.Rule(share=np.zeros(2)), object()):
        record = objects.recorded(one)
        assert record.problem
        with pytest.raises(UsageError):
            objects.rebuilt(record.text)
