"""Tests of optimization.study.hints."""

import pytest

from optimization.study import hints

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
def test_the_names_that_a_word_may_stand_for_are(word, near):
    assert hints.near(word, NAMES) == near


def test_at_most_three_are_told():
    assert hints.told("ab", "ask") == "did you mean a or b?"
    assert hints.told("abcd", "ask") == "did you mean a, b or c?"
    assert hints.told("a", "ask") == "did you mean a?"
    assert hints.told("", "ask") == "ask"
