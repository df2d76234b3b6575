"""Tests of bandits.evaluation.output: the printed conclusion, or the reason why there is none."""

import numpy as np
import pandas as pd
import pytest

from tests.bandits.evaluation.tables_of_logs import COLUMNS, estimate, evaluated_rows, write_log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paid", "flags", "missing", "why"),
    [
        ((0, 0), (), 3, "no logged reward differs from 0"),
        ((2, 0), (), 2, "no logged action that the policy chooses earned a reward"),
        ((1, 1), ("--estimators=clipped_ips", "--clip=2"), 0, "of ips, snips and dr, and the others are biased"),
        ((1, 1), ("--action_names=green", "--policy=constant:green"), 2, "chooses none of the logged actions"),
    ],
)
def test_without_a_headline_the_reason_is_printed(tmp_path, capsys, paid, flags, missing, why):
    table = write_log(tmp_path / "log.csv")
    table["paid"] = table.shown.map({"red": paid[0], "blue": paid[1]})
    found = evaluated_rows(tmp_path, table, *COLUMNS, "--nomodel", "--draws=0", "--policy=constant:blue", *flags)
    assert found["headline"] is None
    assert sum(row["value"] is row["low"] is None for row in found["estimates"]) == missing
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith("The value of ")
    assert line.endswith(f"{why}.")


def test_an_action_without_a_success_is_not_significantly_worse(tmp_path, capsys):
    table = write_log(tmp_path / "log.csv", clients=100)
    table["paid"] = np.where((table.shown == "red") & (np.arange(len(table)) % 100 == 0), 1, -1)
    flags = (*COLUMNS, "--policy=constant:blue", "--nomodel", "--draws=20")
    found = evaluated_rows(tmp_path, table, *flags)
    printed = capsys.readouterr().out
    assert printed.startswith("No significant difference between constant:blue and the log's policy: -0.0")
    assert "Finite-sample intervals (betting, rewards from -1 to 1): " in printed
    snips = estimate(found, "snips")
    assert (snips["interval"], snips["difference_interval"]) == ("betting", "betting")
    assert snips["value"] == snips["low"] == -1 < snips["high"] < -0.7
    evaluated_rows(tmp_path / "unknown", table.assign(paid=3.0 * table.paid), *flags)
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith("The difference between constant:blue and the log's policy cannot be estimated. No inter")
    assert "--reward_bounds=LOW,HIGH" in line


@pytest.mark.slow
@pytest.mark.parametrize(("draws", "words"), [(200, "intervals come from the bootstrap"), (0, "leave out --draws=0")])
def test_few_effective_clients_have_the_bootstraps_intervals_and_a_warning(tmp_path, capsys, draws, words):
    table = write_log(tmp_path / "log.csv", clients=60)
    flags = (*COLUMNS, "--policy=column:played", f"--draws={draws}")
    found = evaluated_rows(tmp_path, table[(table.who <= "user 12") | (table.index % 12 == 0)], *flags)
    snips = estimate(found, "snips")
    assert (snips["low"] == snips["bootstrap_low"]) == bool(draws)
    assert snips["difference_low"] < snips["difference"] < snips["difference_high"]
    assert [finding["is_warning"] for finding in found["findings"] if finding["name"] == "few clients"] == [True]
    assert words in capsys.readouterr().out
    table = write_log(tmp_path / "log.csv")
    evaluated_rows(tmp_path / "one", pd.concat([table, *[table[table.who == "user 3"]] * 90]), *flags)
    assert "one client dominates" in capsys.readouterr().out
