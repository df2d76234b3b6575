"""A simulator that its log contradicts answers nothing."""

import math

import numpy as np
import pytest

from bandits import binaries, simulator
from bandits.advice import arms, simulated
from data.errors import UsageError
from optimization.study import intervals
from scripts import advise as command

COLUMNS = (
    "--client_column=user",
    "--action_column=action",
    "--reward_column=reward",
    "--propensity_column=propensity",
)


def _write(path, probability):
    """Writes a log of 80 users whose best action is XOR of two features, which no linear model of them fits."""
    draw = np.random.default_rng(2)
    lines = ["user,x,y,action,reward,propensity"]
    for user in np.repeat(np.arange(80), 40):
        x, y = draw.integers(2, size=2)
        best = int(x != y)
        action = best if draw.random() < probability else 1 - best
        reward = int(draw.random() < (0.6 if action == best else 0.05))
        propensity = probability if action == best else 1 - probability
        lines.append(f"u{user},{x},{y},{'ab'[action]},{reward},{propensity:.2f}")
    path.write_text("\n".join(lines))


def _scores(path):
    flags = ("--task_type=logged", f"--data_file={path}", *COLUMNS)
    return flags, command.open_data(binaries.resolve(arms.BINARY, (*flags, "--bandits_type=greedy"))).scores


def test_a_simulator_that_dr_refutes_is_refused_with_what_the_log_supports(tmp_path):
    _write(tmp_path / "log.csv", 0.9)
    flags, scores = _scores(tmp_path / "log.csv")
    (uniform,) = [one for one in scores if one.is_off]
    # The truth is (0.6 + 0.05) / 2: DR finds it, and the simulator takes the logged actions' reward for any action's.
    assert uniform.logged.low < 0.325 < uniform.logged.high
    assert uniform.simulated.mean > 0.5
    with pytest.raises(UsageError, match="The log contradicts its simulator") as caught:
        simulated.check(scores, arms.BINARY, flags)
    told = str(caught.value)
    assert "uniform policy: 0.56 simulated, 0.30 doubly robust, difference +0.26 (95% CI +0.18 to +0.34)" in told
    offline = told.partition("offline training:")[2].partition("\n")[0]
    resolved = binaries.resolve(arms.BINARY, offline.partition(f"{arms.BINARY} ")[2].split())
    assert resolved.learn_from == "dr"


def test_a_simulator_that_its_log_supports_is_named_first(tmp_path):
    _write(tmp_path / "log.csv", 0.5)
    flags, scores = _scores(tmp_path / "log.csv")
    simulated.check(scores, arms.BINARY, flags)
    first, second, logging, uniform, *_ = simulated.in_words(scores).split("\n")
    assert first == "Rewards are simulated: they are drawn from a regression of the log, and have its bias."
    assert second == "Held-out clients of the log do not contradict it:"
    assert logging.startswith("- logging policy: ")
    assert uniform.startswith("- uniform policy: ")


def test_a_log_without_reward_cannot_check_its_simulator():
    nothing = intervals.Interval(math.nan, math.nan, math.nan, 8)
    score = simulator.Score("logging policy", nothing, nothing, intervals.Interval(0.0, math.nan, math.nan, 8))
    _, second, logging, *_ = simulated.in_words([score]).split("\n")
    assert second == "Held-out clients of the log cannot check it:"
    assert logging == "- logging policy: cannot be compared, as all rewards are equal"


def test_other_data_has_no_simulator():
    simulated.check((), arms.BINARY, ())
