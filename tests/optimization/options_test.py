import pytest

from optimization.options import Length, first_clip_norm


def test_a_clip_norm_has_a_default_if_it_adapts_or_has_a_target():
    assert first_clip_norm({"adaptive_clipping": True}) == 0.1
    assert first_clip_norm({"adaptive_clipping": False}) is None
    assert first_clip_norm({"adaptive_clipping": False, "target_epsilon": 2.0}) == 0.1


@pytest.mark.parametrize(("every", "rounds"), [(3, [3, 6, 7]), (0, [7]), (7, [7])])
def test_evaluations_come_periodically_and_after_the_last_round(every, rounds):
    length = Length(7, rounds_per_eval=every)
    assert [round_num for round_num in range(1, 8) if length.ends_in_evaluation(round_num)] == rounds
