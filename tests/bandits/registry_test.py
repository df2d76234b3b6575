"""Tests of bandits.registry."""

import pytest

from bandits import policies, registry, schedules


def test_a_specification_builds_its_policy_and_a_schedule_replaces_a_parameter():
    spec = registry.POLICIES["falcon"].chosen({"mu": 5.0, "gamma": 20.0})
    assert spec.build() == policies.InverseGapWeighting(mu=5.0, gamma=20.0)
    moving = spec.with_schedule(schedules.Linear(20.0, 40.0, 3), "gamma")
    assert (moving.parameters, moving.scheduled) == ((("mu", 5.0),), "gamma")
    assert moving.build(30.0) == policies.InverseGapWeighting(mu=5.0, gamma=30.0)


@pytest.mark.parametrize("entry", [*registry.POLICIES.values(), *registry.RULES.values()])
def test_every_entry_builds_with_its_defaults(entry):
    values = {name: parameter.default for name, parameter in entry.parameters.items()}
    assert isinstance(entry.chosen(values).build(), registry.load(entry.target))
