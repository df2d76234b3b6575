"""Tests of optimization.study.disclosure."""

import pathlib

import pytest

from optimization.study import disclosure
from optimization.study.disclosure import Disclosure


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("model/weights.npz", Disclosure.RELEASED),
        ("init/model/weights.npz", Disclosure.RELEASED),
        ("metrics.csv", Disclosure.AGGREGATE),
        ("events.out.tfevents.1.host.v2", Disclosure.AGGREGATE),
        ("client_rewards.json", Disclosure.HELD_OUT),
        ("private_client_evaluation.json", Disclosure.PRIVATE),
        ("private_client_models/client_0_round_1.npz", Disclosure.PRIVATE),
        ("init/checkpoints/round_00000001.npz", Disclosure.PRIVATE),
    ],
)
def test_files_are_classified_wherever_they_lie(path, kind):
    assert disclosure.of_file(pathlib.PurePath(path)) is kind


def test_an_unknown_file_is_refused():
    with pytest.raises(KeyError, match=r"rewards_of_ada\.csv"):
        disclosure.of_file(pathlib.PurePath("rewards_of_ada.csv"))
