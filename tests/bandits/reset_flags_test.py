"""Tests of bandits.reset_flags: what they mean; tests/bad_invocations.txt has what is refused."""

import pytest

from bandits import flags, reset_flags
from bandits.options import phases
from bandits.run_federated import STUDY
from bandits.worlds.resets import NONE, Reset
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.study import frame


def _resolve(*arguments):
    return STUDY.resolve(frame.flag_set(STUDY).parse(["run_federated", *arguments]))


def test_without_them_nothing_is_recorded():
    """Runs from before there were these flags recorded none."""
    for settings in (_resolve(), _resolve("--reset=none")):
        assert {settings[name] for name in reset_flags.NAMES} == {None}
        assert flags.options(settings).reset == NONE


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--reset=model",), Reset("model", "page_hinkley", warmup=10, threshold=0.5, delta=0.005)),
        (
            ("--reset=optimizer", "--reset_when=adwin", "--adwin_scale=3", "--reset_warmup=4"),
            Reset("optimizer", "adwin", warmup=4, delta=0.2, scale=3.0),
        ),
        (
            ("--reset=model", "--page_hinkley_threshold=2", "--page_hinkley_delta=0"),
            Reset("model", "page_hinkley", warmup=10, threshold=2.0),
        ),
        (("--reset=model", "--reset_when=window", "--reset_window=30"), Reset("model", "window", window=30)),
    ],
)
def test_what_flags_mean(arguments, expected):
    assert flags.options(_resolve(*arguments)).reset == expected


def test_an_initial_training_is_not_reset():
    chosen = flags.options(_resolve("--scenario=init_shift", "--reset=model"))
    first, second = phases(chosen, registry.load(TaskOptions("digits")))
    assert (first.reset, second.reset) == (NONE, chosen.reset)


if __name__ == "__main__":
    pytest.main([__file__])
