"""Tests of scripts.privacy_budget."""

import re
import subprocess
import sys

import pytest

from data.errors import UsageError
from optimization import privacy
from scripts import privacy_budget

SMALL = ("--population=1000", "--cohort=20", "--rounds=50", "--delta=1e-5", "--sampling=poisson")


def _run(*arguments):
    privacy_budget.program(privacy_budget.define().parse(["privacy_budget", *arguments]))


def test_the_budget_of_a_noise_multiplier(tmp_path, capsys):
    picture = tmp_path / "budget.png"
    _run(*SMALL, "--noise_multiplier=1", f"--plot={picture}")
    printed = capsys.readouterr().out
    mechanism = privacy.Mechanism("dpsgd", 1.0, population=1000, cohort=20, sampling="poisson", delta=1e-5)
    epsilon, order = mechanism.analyses[0].epsilon(50, 1e-5)
    loss = mechanism.analyses[0].pld_epsilon(50, 1e-5)
    assert re.search(rf"one client added or removed +Poisson +{epsilon:.3g} +{order:g} +{loss:.3g}\n", printed)
    assert re.search(r"rounds +cohort 5 +cohort 10 +cohort 20 +cohort 40 +cohort 80\n", printed)
    row = re.search(r"\n  50 +(.*)\n", printed).group(1).split()
    assert row[2] == f"{epsilon:.3g}"
    assert re.search(r"\n  200 +10 +[\d.]+\n", printed)
    assert printed.endswith(f"\n{picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_target_gives_noise_that_keeps_it(capsys):
    _run(*SMALL, "--target_epsilon=2")
    found = float(re.search(r"with a cohort of 20: ([\d.]+)\n", capsys.readouterr().out).group(1))
    epsilon = privacy.Mechanism("dpsgd", found, population=1000, cohort=20, sampling="poisson", delta=1e-5).epsilon(50)
    assert 0.999 * 2 <= epsilon <= 2


def test_a_tolerated_noise_gives_a_larger_cohort(capsys):
    _run(*SMALL, "--target_epsilon=4", "--tolerated_noise=0.2")
    printed = capsys.readouterr().out
    cohort, noise_multiplier, epsilon = re.search(
        r"With a cohort of (\d+) and a noise multiplier of ([\d.]+), epsilon is ([\d.]+) ", printed
    ).groups()
    assert float(noise_multiplier) / int(cohort) == pytest.approx(0.2 / 20, rel=1e-3)
    assert 3.9 < float(epsilon) <= 4


def test_no_noise_is_no_guarantee(capsys):
    _run(*SMALL, "--noise_multiplier=0")
    assert capsys.readouterr().out.strip() == "Privacy: no guarantee, because there is no noise."


def test_tensorflow_is_never_imported():
    check = (
        "import sys; from scripts import privacy_budget as script;"
        f"script.program(script.define().parse(['', '--noise_multiplier=1', *{SMALL!r}]));"
        "assert not {'tensorflow', 'matplotlib', 'pandas'} & set(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", check], check=True, stdout=subprocess.DEVNULL, env={"PYTHONPATH": ":".join(sys.path)}
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cohort=2", "--rounds=2", "--noise_multiplier=1"], "--population is missing"),
        ([*SMALL], "one of --noise_multiplier and --target_epsilon, not neither"),
        ([*SMALL, "--noise_multiplier=1", "--target_epsilon=1"], "not both"),
        ([*SMALL, "--noise_multiplier=-1"], "--noise_multiplier=-1.0: -1 is not a number of at least 0"),
        ([*SMALL, "--noise_multiplier=1", "--delta=1"], "--delta=1.0: 1 is not a number above 0 and below 1"),
        ([*SMALL, "--noise_multiplier=1", "--delta=0"], "--delta=0.0: 0 is not a number above 0 and below 1"),
        ([*SMALL, "--noise_multiplier=1", "--cohort=1001"], "--cohort=1001 is more than --population=1000"),
        ([*SMALL, "--target_epsilon=0"], "--target_epsilon=0.0: 0 is not a number above 0"),
        ([*SMALL, "--target_epsilon=1e9"], "--target_epsilon=1e\\+09 is out of reach: a noise multiplier of 0.01"),
        (
            [*SMALL, "--target_epsilon=0.5", "--tolerated_noise=0.01"],
            "--target_epsilon=0.5 is out of reach: a cohort of the whole population",
        ),
        ([*SMALL, "--noise_multiplier=1", "--tolerated_noise=1"], "--tolerated_noise has no effect without"),
        ([*SMALL, "--noise_multiplier=1", "--bands=4"], "--bands has no effect with --mechanism=dpsgd, only with mf"),
        ([*SMALL, "--noise_multiplier=1", "--mechanism=ddp"], "--dimension is missing"),
        ([*SMALL, "--noise_multiplier=1", "--mechanism=ddp", "--dimension=9"], "--sampling=poisson does not fit"),
        ([*SMALL, "--noise_multiplier=1", "--plot=budget.txt"], "--plot=budget.txt must end in .png"),
        (
            [*SMALL, "--noise_multiplier=1", "--plot=nowhere/budget.png"],
            "--plot: there is no folder",
        ),
    ],
)
def test_bad_usage_is_explained(arguments, message):
    with pytest.raises(UsageError, match=message):
        _run(*arguments)
