"""Tests of optimization.options."""

import pytest

from optimization.options import Length, first_clip_norm


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"adaptive_clipping": True}, 0.1),
        ({"adaptive_clipping": False}, None),
        ({"adaptive_clipping": False, "target_epsilon": 2.0}, 0.1),
    ],
)
def test_a_clip_norm_has_a_default_if_it_adapts_or_has_a_target(settings, expected):
    assert first_clip_norm(settings) == expected


@pytest.mark.parametrize(("every", "rounds"), [(3, [3, 6, 7]), (0, [7]), (7, [7])])
def test_evaluations_come_periodically_and_after_the_last_round(every, rounds):
    length = Length(7, rounds_per_eval=every)
    assert [round_num for round_num in range(1, 8) if length.ends_in_evaluation(round_num)] == rounds
