"""Tests of optimization.study.texts."""

import pytest

from optimization.study import texts

NAMES = [
    "bandits_type",
    "bandits_epsilon",
    "clients_per_round",
    "total_rounds",
    "rounds_per_eval",
    "server_adam_epsilon",
    "client_learning_rate",
    "epsilon_greedy",
    "emnist_chars",
    "emnist62_linear",
    "mnist",
    "table3/ucb_c=0.05",
    "table3/ucb_recency_c=0.05_alpha=0.5",
]


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("rounds", ["total_rounds", "rounds_per_eval"]),
        ("epsilon", ["bandits_epsilon", "epsilon_greedy", "server_adam_epsilon"]),
        ("emnist", ["emnist_chars"]),
        ("eps_greedy", ["epsilon_greedy"]),
        ("Total-Round", ["total_rounds"]),
        ("lr", ["client_learning_rate"]),
        ("mnits", ["mnist"]),
        ("table3/ucb_c=0.5", ["table3/ucb_c=0.05"]),
        ("type_of_bandit", []),
        ("x", []),
        ("__", []),
    ],
)
def test_the_names_that_a_word_may_mean_are(word, near):
    assert texts.near_names(word, NAMES) == near


def test_a_relative_path_starts_where_the_user_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("BUILD_WORKING_DIRECTORY", raising=False)
    monkeypatch.chdir(tmp_path)
    assert texts.user_path("runs/../other") == str(tmp_path / "other")
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path / "user"))  # Under Bazel.
    assert texts.user_path("runs") == str(tmp_path / "user" / "runs")
    assert texts.user_path(str(tmp_path / "a")) == str(tmp_path / "a")
    assert texts.user_path("~/a") == str(tmp_path / "home" / "a")
