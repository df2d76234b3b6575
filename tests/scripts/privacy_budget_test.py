"""Tests of scripts.privacy_budget."""

import dataclasses
import json
import math
import re

import pytest
from scipy import stats

from data.errors import UsageError
from optimization.privacy import mechanisms
from scripts import privacy_budget

DELTA = "--target_delta=1e-5"
SMALL = ("--population=1000", "--clients_per_round=20", "--total_rounds=50", "--cohort_sampling=poisson", DELTA)
MECHANISM = mechanisms.Mechanism("dpsgd", 1.0, population=1000, cohort=20, sampling="poisson", delta=1e-5)


def _run(*arguments):
    privacy_budget.program(privacy_budget.define().parse(["privacy_budget", *arguments]))


@pytest.mark.slow
def test_the_budget_of_a_noise_multiplier(capsys):
    _run(*SMALL, "--noise_multiplier=1")
    epsilon, order = MECHANISM.analyses[0].epsilon(50, 1e-5)
    loss = MECHANISM.analyses[0].pld_epsilon(50, 1e-5)
    line = rf"one client added or removed +Poisson +{epsilon:.3g} +{order:g} +{loss:.3g}\n"
    assert re.search(line, capsys.readouterr().out)


@pytest.mark.slow
def test_noise_by_pld_is_exact(capsys):
    """One round of all clients is the Gaussian mechanism, whose delta is known in closed form."""
    flags = ("--population=100", "--clients_per_round=100", "--total_rounds=1", DELTA)
    _run(*flags, "--target_epsilon=1", "--accountant=pld")
    noise = float(re.search(r"with a cohort of 100: ([\d.]+)\n", capsys.readouterr().out).group(1))
    delta = stats.norm.cdf(0.5 / noise - noise) - math.e * stats.norm.cdf(-0.5 / noise - noise)
    assert delta == pytest.approx(1e-5, rel=0.01)


@pytest.mark.slow
def test_a_tolerated_noise_gives_a_larger_cohort(capsys):
    _run(*SMALL, "--target_epsilon=4", "--tolerated_noise=0.2")
    sentence = r"With a cohort of (\d+) and a noise multiplier of ([\d.]+), epsilon is ([\d.]+) "
    cohort, noise_multiplier, epsilon = re.search(sentence, capsys.readouterr().out).groups()
    assert float(noise_multiplier) / int(cohort) == pytest.approx(0.2 / 20, rel=1e-3)
    assert 3.9 < float(epsilon) <= 4


@pytest.mark.slow
def test_the_budget_of_a_runs_folder(tmp_path, capsys):
    mechanism = mechanisms.Mechanism("dpsgd", 1.0, 1000, 20, "poisson", apart_from=("the vocabulary",))
    (tmp_path / "privacy.json").write_text(json.dumps(mechanism.report(50)))
    _run(f"--run={tmp_path}")
    assert capsys.readouterr().out.startswith(mechanism.report(50)["summary"])
    _run(f"--run={tmp_path}", "--total_rounds=80", "--noise_multiplier=2", "--accountant=pld")
    changed = dataclasses.replace(mechanism, noise_multiplier=2.0, accountant="pld")
    assert capsys.readouterr().out.startswith(changed.report(80)["summary"])


def test_noise_that_a_run_would_refuse_is_no_answer():
    flags = ("--population=3400", "--clients_per_round=64", "--total_rounds=800", "--adaptive_clipping")
    with pytest.raises(UsageError, match=r"--target_epsilon=0.1: .*noise of more than 7.6.* on the count"):
        _run(*flags, "--target_epsilon=0.1")


@pytest.mark.slow
def test_mechanisms_are_compared_at_one_epsilon_the_least_noise_first(tmp_path, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr(privacy_budget.files, "save_picture", lambda figure, *_, **__: drawn.append(figure.axes[0]))
    flags = ("--population=2000", "--clients_per_round=20", "--total_rounds=24", DELTA)
    _run(*flags, "--target_epsilon=2", f"--plot={tmp_path}/noise.svg")
    assert drawn[0].get_xlabel() == "epsilon at delta 1e-05 (RDP)"
    rows = [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines()]
    rows = rows[[row[0] for row in rows].index("mechanism") + 1 :][:4]
    assert sorted(row[0].split(",")[0] for row in rows) == ["dpftrl", "dpsgd", "mf_dpftrl", "mf_dpftrl"]
    noise = [float(row[3]) for row in rows]
    assert noise == sorted(noise)
    lines = {line.get_label(): dict(line.get_xydata()) for line in drawn[0].get_lines()}
    assert [f"{lines['dpsgd, poisson'][2.0]:.3g}"] == [row[3] for row in rows if row[0].startswith("dpsgd")]
    by_name = {row[0]: (row[1], float(row[2])) for row in rows}
    bands = next(int(name.split()[1]) for name in by_name if "cyclic_poisson" in name)
    banded = {"sampling": "cyclic_poisson", "bands": bands, "groups": bands}
    for kind, values in (("dpsgd", {"sampling": "poisson"}), ("mf_dpftrl", banded)):
        one = mechanisms.Mechanism(kind, 1.0, 2000, 20, delta=1e-5, **values)
        neighbours, multiplier = by_name[one.name]
        assert neighbours == "one client added or removed"
        assert 1.99 < dataclasses.replace(one, noise_multiplier=multiplier).epsilon(24) <= 2
