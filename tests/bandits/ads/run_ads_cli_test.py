"""The ad study's answers to bad input, each from a process that cannot import TensorFlow."""

import subprocess

import pytest

from bandits.ads import flags

RATES = "--rates=0.1,0.2"


@pytest.fixture
def run(without_tensorflow, tmp_path):
    """Runs the binary, which writes below `tmp_path` unless told otherwise."""

    def start(*arguments: str) -> subprocess.CompletedProcess:
        output = f"--root_output_dir={tmp_path / 'runs'}"
        return without_tensorflow("bandits.ads.run_ads", output, *arguments)

    return start


def test_a_sound_command_line_goes_on_to_tensorflow(run):
    done = run(RATES)
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: TensorFlow was imported\n")


def test_a_preset_sets_what_no_flag_gives():
    settings = flags.resolve(flags.define().parse(["run_ads", RATES, "--preset=gradient_epsilon", "--clients=7"]))
    assert settings.decision_rule == "gradient_epsilon"
    assert (settings.clients, settings.total_rounds, settings.local_pulls) == (7, 10, 10)
    assert settings.experiment_name == "ads_gradient_epsilon"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset=no"], "--preset=no is not known: --list_presets prints their names."),
        ([], "No ad table is named: give its path by --data_file, or click rates by --rates=0.1,0.2."),
        (
            [RATES, "--local_pulls=11"],
            "--local_pulls=11 in --total_rounds=10 are 110 pulls, but each of --clients=100 has 100 impressions, and "
            "none is shown twice.",
        ),
        (
            [RATES, "--decision_rule=ucb", "--local_pulls=2"],
            "--decision_rule=ucb tries every ad once in each round before it chooses: --local_pulls=2 of 2 ads are a "
            "uniform display. Give more than 2 pulls, or federated_ucb, whose intervals last.",
        ),
        (
            ["--rates=0.1"],
            "--rates=0.1 must list the click rates of two or more ads, numbers from 0 to 1, as --rates=0.1,0.2.",
        ),
        (
            [RATES, "--data_file=x.csv"],
            "--data_file has no effect with --rates, which makes impressions: leave one out.",
        ),
        (["--impressions_per_client=5"], "--impressions_per_client belongs to --rates; a table is divided equally."),
        (["--data_file=/nowhere.csv"], "There is no file /nowhere.csv: --data_file must name one."),
        ([RATES, "--noise_multiplier=1"], "--noise_multiplier needs --clip_norm, the unit of the noise."),
        (
            [RATES, "--insecure_seeded_noise"],
            "--insecure_seeded_noise has an effect only with --noise_multiplier.",
        ),
        (
            [RATES, "--clip_norm=1", "--client_weighting=exploration"],
            "--clip_norm bounds what one client adds to a mean of equals: --client_weighting=exploration cannot be "
            "given with it.",
        ),
        (
            [RATES, "--rule_c=0.5"],
            "--rule_c belongs to --decision_rule=ucb or discounted_ucb or federated_ucb, not to epsilon_greedy.",
        ),
        (
            [RATES, "--decision_rule=discounted_thompson", "--rule_gamma=0"],
            "--rule_gamma=0.0: 0 is not a number above 0 and at most 1",
        ),
        ([RATES, "--rule_alpha=0"], "--rule_alpha=0.0: 0 is not a number above 0 and at most 1"),
        ([RATES, "--rule_epsilon=1.5"], "--rule_epsilon=1.5: 1.5 is not a number of at least 0 and at most 1"),
    ],
)
def test_bad_input_is_refused_with_status_2(run, arguments, message):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Usage error: {message}\n"


@pytest.mark.parametrize("rule", ["best", "extreme_explore"])
def test_a_rule_that_is_none_here_is_refused(run, rule):
    done = run(RATES, f"--decision_rule={rule}")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"Usage error: --decision_rule={rule}: value should be one of <greedy|epsilon_greedy|"
    )
