"""Tests of bandits.advice.output."""

import math
import re
from types import SimpleNamespace

import pandas as pd

from bandits import metrics
from bandits.advice import findings, output
from bandits.advice.findings import Findings
from bandits.advice.plan import Plan
from bandits.results import configuration
from bandits.results.configuration import Baseline, Configuration, ReferenceValue

FLAGS = (("server_learning_rate", "0.01"), ("client_learning_rate", "0.1"))


def _results(first_seed: int, *rewards: float) -> Configuration:
    reward = dict(enumerate(rewards, first_seed))
    values = pd.DataFrame({metric: reward for metric in (findings.REWARD, metrics.WORST_TENTH)})
    diverged = frozenset(seed for seed, value in reward.items() if math.isnan(value))
    return Configuration("greedy", values, dict(FLAGS), diverged=diverged)


def _tables(found: Findings) -> list[output.Table]:
    context = SimpleNamespace(results=found, plan=Plan(rounds=9, deploy_every=3, often=1))
    return output.shown_tables(context)


def _advice(found: Findings, initial_model_varies: bool = True) -> dict:
    return findings.plain(
        {
            "advice_command": "python -m scripts.advise",
            "sentences": {},
            "details": {},
            "command": "",
            "configurations": found.configurations,
            "noise": found.noise,
            "initial_model_varies": initial_model_varies,
            "pace": {"round_seconds": 0.5, "workers": 2},
            "machine": "2 cores",
        }
        | dict.fromkeys(("clients", "clients_per_round", "actions", "seconds"), 20)
    )


def _found(*unnoised: float) -> Findings:
    """Findings of greedy and, if there are rewards with clipping and no noise, of these."""
    clipped = {"noise_multiplier": 0.0, "run_noise_multiplier": 0.0, "clip_norm": 0.5}
    clipped["results"] = _results(3000, *unnoised)
    compared = {"greedy": _results(2000, 0.5, 0.6)}
    return Findings(metrics.ACCURACY, configurations=compared, noise=[clipped] * bool(unnoised))


def _markdown(found: Findings, **more) -> str:
    return output.markdown(_advice(found, **more), _tables(found))


def test_the_page_says_over_which_seeds_its_numbers_are():
    printed = _markdown(_found())
    assert "Means and 95% intervals over seeds 2000 to 2001. Seeds vary the cohorts, the initial weights and" in printed


def test_runs_under_noise_have_seeds_of_their_own_and_it_is_said():
    printed = _markdown(_found(0.4, 0.5, math.nan))
    assert "over seeds 2000 to 2001, with noise seeds 3000 to 3002. " in printed
    assert "the clients' samples and the noise." in printed
    assert ", 1 diverged |" in printed


def test_the_worst_tenth_of_clients_and_the_reward_against_epsilon_are_reported(tmp_path):
    found = _found(0.4, 0.5)
    found.baselines = {
        Baseline.uniform_policy: ReferenceValue("", 0.1, 0.001, 2000),
        Baseline.best_fixed_action: configuration.of_values("", findings.REWARD, {2000: 0.5, 2001: 0.7}),
    }
    printed = _markdown(found)
    assert "| uniform policy, expected, over a sample of 2,000 clients | 0.1000 (0.0980 to 0.1020) |" in printed
    assert "| best fixed action | 0.6 (-0.7 to 1.9) |" in printed
    assert "| held-out accuracy of the model | held-out reward, worst tenth of clients |" in printed
    assert "|  | 0.6 (-0.1 to 1.2) |" in printed  # 0.05 by Student's t with one degree of freedom, 12.706.
    output.save(_advice(found), _tables(found), tmp_path)
    (page,) = tmp_path.glob("*.html")
    row = ["no noise, clipped", "", "0", "0", "0.5 (-0.2 to 1.1)", ""]
    assert row in [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", line) for line in page.read_text().split("\n")]


def test_without_any_run_there_is_a_page_and_given_first_weights_do_not_vary():
    found = Findings(metrics.ACCURACY, configurations={"greedy": _results(2000)})
    printed = _markdown(found, initial_model_varies=False)
    assert "over no seed. Seeds vary the cohorts and the clients' samples." in printed
