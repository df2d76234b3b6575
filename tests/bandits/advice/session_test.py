"""A recommendation that was interrupted, or has another time."""

import json
import time

import pytest

from bandits.advice import plan, session
from data.errors import UsageError


def _change(folder, **changes):
    content = json.loads((folder / session.PLAN_FILE).read_text())
    (folder / session.PLAN_FILE).write_text(json.dumps(content | changes))


def test_the_folder_of_another_recommendation_is_refused(tmp_path):
    state = session.State(tmp_path, {"--total_rounds": 10}, 5.0)
    state.finished = True
    state.save()
    assert session.State(tmp_path, {"--total_rounds": 10}, 5.0).finished
    with pytest.raises(UsageError, match=r"another recommendation: --total_rounds was 10, is 20\. Choose another"):
        session.State(tmp_path, {"--total_rounds": 20}, 5.0)


@pytest.mark.parametrize(
    ("changes", "printed"),
    [
        ({"pace": 3}, "damaged. Delete it to make a new plan"),
        ({"stages": {"search": {}}}, "damaged. Delete it"),
        ({"identity": None}, "damaged. Delete it"),
        ({"spent": float("nan")}, "damaged. Delete it"),
        ({"format": 2}, "of format 2"),
    ],
)
def test_a_damaged_plan_is_refused_with_the_remedy(tmp_path, changes, printed):
    session.State(tmp_path, {}, 5.0).save()
    _change(tmp_path, **changes)
    with pytest.raises(UsageError, match=printed):
        session.State(tmp_path, {}, 5.0)


def test_time_of_noise_that_is_left_out_goes_to_later_stages(tmp_path):
    made, _ = _session(tmp_path, 20.0)
    made.state.pace = plan.Pace(0.01, 1.0, 1.0, 2)
    made.begin(plan.SEARCH)
    before = made.begin(plan.COMPARE)
    made.leave_out_noise()
    after = made.begin(plan.CONFIRM)
    assert before.work(plan.NOISE).runs > 0 == after.work(plan.NOISE).runs
    assert not any("noise" in one or "epsilon" in one for one in plan.left_out(made.full, after))


def test_other_minutes_give_another_plan_with_the_measured_pace(tmp_path):
    state = session.State(tmp_path, {}, 5.0)
    state.pace = plan.Pace(0.1, 2.0, 3.0, 2)
    state.stages["search"] = decided = plan.Plan(rounds=9, deploy_every=3)
    state.save()
    _change(tmp_path, spent=60.0)
    assert session.State(tmp_path, {}, 5.0).stages == {"search": decided}
    again = session.State(tmp_path, {}, 9.0)
    assert (again.stages, again.pace) == ({}, state.pace)
    assert (again.earlier, again.spent) == (60.0, pytest.approx(0.0, abs=5.0))


def _session(tmp_path, minutes=5.0) -> tuple[session.Session, dict[str, plan.Space]]:
    base, full = ("--task_type=digits",), plan.Plan(rounds=100, deploy_every=10)
    made = session.Session(tmp_path, session.State(tmp_path, {}, minutes), full, base, 2)
    return made, plan.spaces(base, plan.STRATEGIES, 10)


def test_a_killed_measurement_begins_again(tmp_path, monkeypatch):
    made, spaces = _session(tmp_path)
    (before,) = plan.runs(made.base, "greedy", spaces["greedy"].tried_first[0], plan.TUNING_SEED, 1)
    (tmp_path / "search" / before.name).mkdir(parents=True)
    folders = []
    monkeypatch.setattr(made, "_timed", lambda *_: folders.extend(tmp_path.glob("search")) or (5.0, 0.1))
    made.measure(spaces)
    assert (folders, made.pace.round_seconds) == ([], 0.1)


@pytest.mark.parametrize(("minutes", "factor"), [(30.0, 0.5), (40.0, 1.0)])
def test_runs_of_another_budget_do_not_raise_the_pace(tmp_path, monkeypatch, minutes, factor):
    state = session.State(tmp_path, {}, 30.0)
    state.pace = plan.Pace(0.1, 2.0, 3.0, 2)
    state.save()
    _change(tmp_path, spent=60.0)
    made, _ = _session(tmp_path, minutes)
    made.begin(plan.SEARCH)
    planned = made.plan.seconds(made.pace, [plan.SEARCH])
    assert planned > 60
    now = time.monotonic()
    monkeypatch.setattr(session.time, "monotonic", lambda: now + planned / 2)
    made.end()
    assert made.pace.run_seconds == pytest.approx(factor * 2.0, rel=0.01)
