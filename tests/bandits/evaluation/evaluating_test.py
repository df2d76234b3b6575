"""Tests of bandits.evaluation.evaluating: estimates, and when there are none."""

import numpy as np
import pandas as pd
import pytest

from tests.bandits.evaluation.tables_of_logs import COLUMNS, by_estimator, evaluated_rows, write_log


def _timed(clients=60, rows=10):
    """A log of two equally likely actions whose better one changes halfway, on days 1 to 10 of each client."""
    generator = np.random.default_rng(0)
    day = np.tile(np.arange(1, rows + 1), clients)
    is_blue = generator.integers(2, size=clients * rows) == 1
    paid = (generator.random(clients * rows) < np.where(is_blue == (day > rows / 2), 0.8, 0.2)).astype(int)
    frame = pd.DataFrame({"shown": np.where(is_blue, "blue", "red"), "paid": paid, "p": 0.5})
    frame["who"] = np.repeat([f"user {number}" for number in range(clients)], rows)
    frame["day"] = [f"2023-01-{each:02d}" for each in day]
    return frame


@pytest.mark.slow
def test_a_best_action_that_changes_halfway_is_warned_of_and_both_parts_can_be_evaluated(tmp_path, capsys):
    table = _timed()
    flags = (*COLUMNS, "--policy=constant:blue", "--nomodel", "--draws=0", "--time_column=day")
    found = evaluated_rows(tmp_path / "all", table, *flags)
    printed = capsys.readouterr().out
    assert printed.startswith("No significant difference between constant:blue and the log's policy")
    warning, other = [finding for finding in found["findings"] if finding["name"] == "change"]
    assert warning["is_warning"]
    assert not other["is_warning"]
    assert "Warning: Significant change of the difference between constant:blue and the log" in printed
    assert "with --until=2023-01-07 and --from=2023-01-07" in printed
    late = evaluated_rows(tmp_path / "late", table, *flags, "--from=2023-01-08")
    part = table[table.day >= "2023-01-08"]
    assert late["rows"] == len(part)
    assert by_estimator(late)["snips"] == pytest.approx(part.paid[part.shown == "blue"].mean())
    assert not any(finding["is_warning"] for finding in late["findings"] if finding["name"] == "change")


def test_private_values_of_a_selection_are_those_of_the_selected_rows(tmp_path, capsys):
    table = _timed()
    table["paid"] = table.paid.astype(object).where(table.day != "2023-01-09", None)
    bounds = ("--largest_weight=2", "--max_rows_per_client=10", "--noise_multiplier=1e-6", "--policy=constant:blue")
    selection = ("--time_column=day", "--from=2023-01-08", "--unobserved_rewards=drop")
    found = evaluated_rows(tmp_path, table, *COLUMNS, "--private", *bounds, *selection)
    part = table[(table.day >= "2023-01-08") & table.paid.notna()]
    expected = (2 * (part.shown == "blue") * part.paid).mean()
    assert by_estimator(found)["ips"] == pytest.approx(expected, abs=0.01)
    printed = capsys.readouterr().out
    assert "missing rewards are distributed like observed ones" in printed
    assert "changes over time. The data holder can" in printed
    assert f"{len(part):,} rows" not in printed


@pytest.mark.slow
def test_a_model_gives_all_estimators(tmp_path):
    flags = (*COLUMNS, "--ignore_columns=played", "--policy=uniform", "--shrinkage=4", "--tau=1", "--clip=2")
    quick = ("--model_rounds=40", "--model_server_learning_rate=0.05", "--draws=20")
    found = evaluated_rows(tmp_path, write_log(tmp_path / "log.csv"), *flags, *quick)
    values = by_estimator(found)
    assert list(values) == ["logged", "ips", "snips", "clipped_ips", "dm", "dr", "switch_dr", "dros"]
    truth = 0.5 * (0.3 + 0.25) + 0.5 * 0.4
    assert abs(values["dr"] - truth) < 0.15
    assert found["headline"]["estimator"] == "dr"
    # Weights are 2 and 2/3: tau binds, the clip does not.
    assert [row["estimator"] for row in found["estimates"] if row["bias"]] == ["dm", "switch_dr", "dros"]


_INTERVALS = ("value", "low", "high", "difference", "difference_low", "difference_high")


@pytest.fixture(scope="module", params=[0.004, 0.3])
def unit_log(request, tmp_path_factory):
    """A log with rewards 0 and 1 that are rare or not, and its evaluation by all estimators."""
    folder, generator = tmp_path_factory.mktemp("unit"), np.random.default_rng(int(1000 * request.param))
    table = write_log(folder / "log.csv", clients=60, rows=20)
    table["paid"] = (generator.random(len(table)) < request.param * (1 + table.warm)).astype(float)
    return table, evaluated_rows(folder, table, *COLUMNS, *_ALL)


_ALL = (
    "--policy=constant:blue", "--ignore_columns=played", "--model_rounds=5", "--draws=50", "--tau=2", "--clip=2",
    "--shrinkage=4", "--estimators=ips,snips,clipped_ips,dm,dr,switch_dr,dros",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "offset"), [(2, -1), (50, 1000), (-300, 40)])
def test_rewards_and_bounds_that_are_transformed_together_change_no_conclusion(tmp_path, unit_log, factor, offset):
    table, plain = unit_log
    low, high = sorted((offset, offset + factor))
    bounds = [f"--reward_bounds={low},{high}"] if factor != 2 else []  # Rewards of -1 and 1 are recognized.
    found = evaluated_rows(tmp_path, table.assign(paid=offset + factor * table.paid), *COLUMNS, *_ALL, *bounds)
    assert found["reward_bounds"] == [low, high]
    assert found["headline"] == plain["headline"]
    names = _INTERVALS if factor > 0 else [_INTERVALS[place] for place in (0, 2, 1, 3, 5, 4)]
    for before, after in zip(plain["estimates"], found["estimates"], strict=True):
        if factor < 0 and before["estimator"] in ("ips", "clipped_ips"):
            continue  # They count from the lower bound.
        for name, mirrored in zip(_INTERVALS, names, strict=True):
            expected = before[mirrored]
            if expected is not None:
                expected = expected * factor + (0 if "difference" in name else offset)
                expected = pytest.approx(expected, abs=1e-4 * abs(factor))
            assert after[name] == expected, (before["estimator"], name)
        kinds = ("estimator", "parameter", "bias", "interval", "difference_interval")
        assert [after[kind] for kind in kinds] == [before[kind] for kind in kinds]
    weights = np.where(table.shown == "blue", 4, 0)
    ips = low + (high - low) * (weights * (table.paid if factor > 0 else 1 - table.paid)).mean()
    assert by_estimator(found)["ips"] == pytest.approx(ips)


@pytest.mark.slow
def test_a_column_from_after_the_action_leaves_no_conclusion(tmp_path, capsys):
    table = write_log(tmp_path / "log.csv", clients=300)
    table["converted_at"] = table.paid.map({1: "2025-01-02 06:07:35", 0: None})
    flags = (*COLUMNS, "--ignore_columns=played", "--policy=constant:blue", "--draws=0")
    found, printed = evaluated_rows(tmp_path, table, *flags, "--estimators=dr"), capsys.readouterr().out
    conclusion, reason, by_weights = printed.splitlines()[:3]
    assert conclusion == "No conclusion about constant:blue."
    assert "The features of 'converted_at' depend on the chosen action" in reason
    assert "SNIPS, which needs propensities but no features, gives 0.5" in by_weights
    assert (found["headline"], found["has_model"]) == (None, False)
    assert "converted_at" in found["refusal"]["text"]
    assert [row["estimator"] for row in found["estimates"]] == ["logged", "ips", "snips"]
    assert "  converted_at  feature  date with times" in printed
    found, printed = evaluated_rows(tmp_path / "one", table, *flags, "--nomodel"), capsys.readouterr().out
    assert printed.startswith("constant:blue earns more")  # No estimator reads the column.
    assert found["refusal"] is None


@pytest.mark.slow
def test_sets_of_actions_leave_no_conclusion_about_policies_over_all_actions(tmp_path, capsys):
    table = write_log(tmp_path / "log.csv")
    table["available"] = table.shown + np.where(table.warm, "|green", "|blue|red")
    flags = (*COLUMNS, "--draws=0")
    found, printed = evaluated_rows(tmp_path, table, *flags, "--policy=uniform"), capsys.readouterr().out
    assert printed.startswith("No conclusion about uniform.")
    assert "in column 'available'" in found["refusal"]["text"]
    assert [row["estimator"] for row in found["estimates"]] == ["logged"]
    found, printed = evaluated_rows(tmp_path / "b", table, *flags, "--policy=column:played"), capsys.readouterr().out
    assert found["refusal"] is None  # The probability of the logged action is enough.
    assert "(column 'available')" in printed
    assert "--policy=column" not in printed
    assert not any(one["is_warning"] for one in found["findings"] if one["name"] in ("sets of actions", "propensities"))
