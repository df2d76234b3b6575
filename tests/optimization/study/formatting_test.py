import pytest

from optimization.study import formatting

NAMES = [
    *("bandits_type", "bandits_epsilon", "server_adam_epsilon", "epsilon_greedy", "client_learning_rate"),
    *("clients_per_round", "total_rounds", "rounds_per_eval", "emnist_chars", "emnist62_linear", "mnist"),
    *("table3/ucb_c=0.05", "table3/ucb_recency_c=0.05_alpha=0.5"),
]


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("rounds", ["total_rounds", "rounds_per_eval"]),
        ("epsilon", ["bandits_epsilon", "epsilon_greedy", "server_adam_epsilon"]),
        ("eps_greedy", ["epsilon_greedy"]),
        ("Total-Round", ["total_rounds"]),
        ("mnits", ["mnist"]),
        ("table3/ucb_c=0.5", ["table3/ucb_c=0.05"]),
        ("type_of_bandit", []),
    ],
)
def test_the_names_that_a_word_may_mean_are(word, near):
    assert formatting.near_names(word, NAMES) == near


def test_a_relative_path_starts_where_the_user_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("BUILD_WORKING_DIRECTORY", raising=False)
    monkeypatch.chdir(tmp_path)
    assert formatting.user_path("runs/../other") == str(tmp_path / "other")
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path / "user"))  # Under Bazel.
    assert formatting.user_path("runs") == str(tmp_path / "user" / "runs")
    assert formatting.user_path(str(tmp_path / "a")) == str(tmp_path / "a")
    assert formatting.user_path("~/a") == str(tmp_path / "home" / "a")
