"""Tests of data.objects."""

import dataclasses
import hashlib
import importlib
import sys

import numpy as np
import pytest
import tensorflow_federated as tff

from data import objects
from data.errors import UsageError

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


def half(value):
    return value / 2


RULE = Rule(share=0.75)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "users_rules.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("users_rules")
    del sys.modules["users_rules"]


def test_a_frozen_dataclass_of_a_module_is_its_name_parameters_and_source(module):
    digest = hashlib.sha256(SOURCE.encode()).hexdigest()[:16]
    name = "users_rules:Rule(share=0.25, name='a(b) c', sizes=(1, (2, None)))"
    made = objects.of(module.Rule(0.25))
    assert (made, made.problem, made.short) == (f"{name} {digest}", "", "Rule")
    assert objects.UserObject(made).value == module.Rule(0.25)
    assert objects.label(made) == name.removeprefix("users_rules:")
    assert objects.read(name) == made
    assert objects.read("users_rules:Rule(0.25)").value == module.Rule(0.25)


@pytest.mark.parametrize(
    "text", ["users_rules", "users_rules:Rule(share=open('a'))", "users_rules:Rule(", ":a", "no_rules:a"]
)
def test_a_text_that_is_no_object_is_refused(module, text):
    with pytest.raises(ValueError, match=r"must be module:name|there is no module no_rules"):
        objects.read(text)


@pytest.mark.parametrize(("text", "message"), [("Rules", "cannot be imported"), ("Rule(size=1)", "fails")])
def test_an_object_that_cannot_be_made_is_refused(module, text, message):
    with pytest.raises(UsageError, match=message):
        _ = objects.read(f"users_rules:{text}").value


def test_functions_classes_and_instances_of_a_module_are_named(module):
    assert objects.read("users_rules:half").value is module.half is objects.of(module.half).value
    assert objects.of(module.half) == objects.read("users_rules:half")
    assert objects.read("users_rules:Rule").value == module.Rule()
    assert objects.read("users_rules:RULE").value is module.RULE


def test_a_changed_source_is_another_object(module, tmp_path):
    before = objects.of(module.Rule())
    (tmp_path / "users_rules.py").write_text(SOURCE + "# More.\n")
    with pytest.raises(UsageError, match="has changed since it was imported"):
        objects.of(module.Rule())
    importlib.reload(module)
    after = objects.of(module.Rule())
    assert after == objects.read("users_rules:Rule(share=0.5, name='a(b) c', sizes=(1, (2, None)))") != before
    with pytest.raises(UsageError, match="users_rules:Rule has changed"):
        _ = objects.UserObject(str(before)).value


@dataclasses.dataclass(frozen=True)
class Sampled:
    function: object
    num_draws: int


def test_other_objects_exist_in_this_process_only_and_show_their_parameters(module):
    for one in (lambda: 0, Sampled(len, 100), module.Loose(), module.Rule(share=np.zeros(2)), object()):
        made = objects.of(one)
        assert made.problem
        assert made.value is one
        assert made.label
        assert made != objects.of(one)
        with pytest.raises(UsageError, match="was an object in memory"):
            _ = objects.UserObject(str(made)).value
    made = objects.of(Sampled(len, 100))
    assert (made.label, made.short) == ("Sampled(function=len, num_draws=100)", "Sampled")
    assert "parameters" in made.problem


def test_an_optimizer_of_tff_is_its_class_and_arguments():
    build = tff.learning.optimizers
    first = objects.of(build.build_adagrad(0.1, initial_preconditioner_value=0.5))
    assert (first.problem, first.short) == ("", "Adagrad")
    assert first.label == "_Adagrad(learning_rate=0.1, initial_preconditioner_value=0.5, epsilon=1e-07)"
    assert first != objects.of(build.build_adagrad(0.1, initial_preconditioner_value=0.25))
    for optimizer in (build.build_sgdm(0.1, momentum=0.9), build.build_adafactor(0.1), build.build_yogi(0.2)):
        text = objects.UserObject(str(objects.of(optimizer)))
        assert vars(text.value) == vars(optimizer)
    scheduled = objects.of(build.schedule_learning_rate(build.build_adam(0.1), lambda step: 0.1))
    assert scheduled.problem  # A schedule cannot be recorded as text.


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (int, "rate must be a number, or a function that returns one, not <class 'int'>"),
        (lambda: "fast", "rate must be a number, .* not 'fast'"),
        (lambda: 1 / 0, "rate .* fails: ZeroDivisionError: division by zero"),
        (lambda: sys.exit("no licence"), "rate .* fails: SystemExit: no licence"),
    ],
)
def test_an_object_of_another_type_or_a_function_that_fails_is_refused(value, message):
    for valid in (1.5, lambda: 1.5):
        assert objects.of(valid).made("rate", (int, float), "a number") == 1.5
    with pytest.raises(UsageError, match=message):
        objects.of(value).made("rate", (int, float), "a number")
