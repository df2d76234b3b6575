"""The sections of a recommendation from synthetic numbers: they claim no more than the seeds support."""

import dataclasses
import functools
import math
import types

import numpy as np
import pandas as pd
import pytest

from bandits.advice import answers, findings, stages
from bandits.advice.answers import Context
from bandits.advice.findings import BEST_FIXED, NO_NOISE, Findings
from bandits.advice.inputs import Data
from bandits.advice.plan import FULL_FEEDBACK, GREEDY, UNIFORM, Plan, left_out
from bandits.plans.estimate import Pace
from bandits.references import FIXED, LINEAR, References, Score
from bandits.results import configuration
from bandits.results.configuration import Baseline, Configuration, ReferenceValue
from optimization.privacy.mechanisms import Mechanism
from optimization.study.intervals import Interval

FULL = Plan(rounds=150, deploy_every=10)
_FEW = {"rounds": 10, "seeds": 2, "points": 2, "epsilons": 1, "tuning_seeds": 1, "independent_seeds": 1}
SOFTMAX = "softmax"
LONGEST = dataclasses.replace(FULL, **_FEW, configurations=(GREEDY, SOFTMAX))  # It leaves out the most.
DEPLOYMENT = Mechanism("dpsgd", 1.0, 100_000, 500, "poisson", 1e-6)
_RATES = {"server_learning_rate": "0.01", "client_learning_rate": "0.1"}
DATA = Data("", {}, 15, 5, 3, math.inf, 1.0, (), "4 of 19 clients", "one store", (), False, None)
# Deviations of eight seeds with mean 0.
_SPREAD = np.array([-3, -2, -1, 0, 0, 1, 2, 3]) / 100


def _values(mean: float, spread: float = 1.0, seeds: int = 8) -> dict[int, float]:
    return {2000 + place: mean + spread * deviation for place, deviation in enumerate(_SPREAD[:seeds])}


def _results(name: str, reward: dict[int, float], **more: float) -> Configuration:
    point = _RATES | ({"bandits_temperature": "0.05"} if name == SOFTMAX else {})
    values = pd.DataFrame({metric: reward for metric in findings.MEASURED[:3]}).assign(**more)
    diverged = frozenset(seed for seed, value in reward.items() if math.isnan(value))
    return Configuration(name, values if reward else pd.DataFrame(), point, diverged=diverged)


def _context(results: Findings, plan: Plan = FULL, minutes: float = 7, spent: float = 0, full: Plan = FULL, **data):
    state = types.SimpleNamespace(minutes=minutes, spent=spent)
    session = types.SimpleNamespace(plan=plan, full=full, state=state, pace=Pace(0.1, 2.0, 3.0, 2))
    return Context(session, results, dataclasses.replace(DATA, **data), DEPLOYMENT, "RUN IT")


def _findings(values: dict[str, dict[int, float]], **more) -> Findings:
    """Findings of strategies with these rewards, where the uniform policy's reward is the baseline."""
    return _against(values, values.get(UNIFORM), **more)


def _against(values, uniform=0.1, best_fixed=None, **more) -> Findings:
    """Findings of strategies with these rewards, and these baselines."""
    decisions = more.pop("decisions", math.nan)
    results = {name: _results(name, reward, decisions=decisions) for name, reward in values.items()}
    known = {}
    for baseline, value in zip(Baseline, (uniform, best_fixed), strict=False):
        if isinstance(value, dict):
            known[baseline] = configuration.of_values(str(baseline), findings.REWARD, value)
        elif value is not None:
            known[baseline] = value if isinstance(value, ReferenceValue) else ReferenceValue(str(baseline), value)
    return Findings(configurations=results, baselines=known, verdict=findings.verdict(results, known), **more)


def _near(mean: float, step: float = 0.01, **more) -> dict[int, float]:
    """Values that differ from those of another mean by nearly the same in each seed."""
    return {seed: value + step * (-1) ** seed for seed, value in _values(mean, **more).items()}


def _than_greedy(values: dict[int, float], **more) -> Findings:
    """Findings of greedy, softmax with these rewards, and the uniform policy."""
    return _findings({GREEDY: _values(0.50), SOFTMAX: values, UNIFORM: _values(0.10)}, **more)


BETTER = {GREEDY: _values(0.50), SOFTMAX: _near(0.60), UNIFORM: _values(0.10), FULL_FEEDBACK: _values(0.80)}
WORSE = _near(0.40)
NOISY = {seed: 0.52 + (-1) ** seed * 0.05 for seed in range(2000, 2008)}
LOST = dict.fromkeys(range(2000, 2008), math.nan)
AS_UNIFORM = {
    name: dict(enumerate(map(float, some), 2000))
    for name, some in zip((GREEDY, SOFTMAX, UNIFORM), np.random.default_rng(0).normal(0.1, 0.01, (3, 8)), strict=True)
}
# Results on independent seeds: softmax is better by a noisy and by a clear difference, and worse.
UNCLEAR, CLEAR, CLEARLY_WORSE = (
    {name: _results(name, dict(enumerate(some, 3000))) for name, some in ((SOFTMAX, one), (GREEDY, other))}
    for one, other in (
        ((0.6, 0.7, 0.5, 0.6), (0.5, 0.5, 0.52, 0.5)),
        ((0.6, 0.61, 0.62, 0.6), (0.5, 0.5, 0.52, 0.5)),
        ((0.5, 0.5, 0.52, 0.5), (0.6, 0.61, 0.62, 0.6)),
    )
)
SAMPLE = ReferenceValue("", 0.1, 0.001, 2000), ReferenceValue("", 0.58, 0.02, 2000)
UNSURE = {GREEDY: {2000: 0.5, 2001: 0.9}, SOFTMAX: {2000: 0.52, 2001: 0.49}, UNIFORM: {2000: 0.5, 2001: 0.4}}
CLOSE = {GREEDY: _values(0.5, spread=2), SOFTMAX: _near(0.505, 0.001, spread=2)}
# Four seeds: the best by its mean, not on the seeds that it shares with others.
FALCON = {seed: reward - 0.02 + 0.001 * (seed % 2) for seed, reward in BETTER[SOFTMAX].items() if seed > 2003}
SIGNIFICANT = "softmax significantly beats greedy: +0.100 (95% CI +0.091 to +0.109, 8 seeds; Holm-adjusted p < 0.0001)"


def _check_lengths(found: Findings) -> None:
    """Checks that each answer has at most 40 words, and that all of them have one family of tests."""
    for plan in (FULL, LONGEST):
        context = dataclasses.replace(_context(found, plan, report={"training_rows": 5_412}), command="")
        written = answers.write(context).values()
        assert " ".join(written).count("Holm-adjusted p") <= 1
        assert max(len(answer.replace("\n- ", " ").split()) for answer in written) <= 40


@pytest.mark.parametrize(
    ("found", "begins", "holds"),
    [
        (_findings(BETTER), f"Exploration may pay: {SIGNIFICANT}", "Not yet checked on independent seeds: give more"),
        (_against(BETTER, best_fixed=0.9), "", " The best fixed action earns significantly more: 0.9."),
        (_findings(BETTER | {"falcon": FALCON}), "Exploration may pay: softmax", ""),
        (_findings(BETTER, confirmed=CLEAR), "Exploration pays", "did not select softmax, the difference is +0.10"),
        (_findings(BETTER, confirmed=UNCLEAR), "Exploration may pay", "is +0.09 (95% CI -0.05 to +0.24, 4 seeds)"),
        (_than_greedy(NOISY), "Inconclusive: no exploring strategy beats greedy", " (80% power); +0.02 needs about "),
        (_than_greedy(WORSE), "Exploration may cost reward", "Softmax (temperature 0.05) minus greedy: -0.1"),
        (_than_greedy(WORSE, confirmed=CLEARLY_WORSE), "Exploration costs", "(not compared: epsilon-greedy, FALCON)"),
        (_than_greedy(WORSE, confirmed=UNCLEAR), "Exploration may cost", "Not confirmed on independent seeds."),
        (_findings(UNSURE), "Inconclusive", "2 seeds cannot detect even the largest possible difference."),
        (_findings(AS_UNIFORM), "Inconclusive: no strategy earns significantly more than the uniform", " can detect "),
        (_against(CLOSE, 0.5, 0.9), "Inconclusive", "minus the uniform policy: +0.005 (95% CI"),
        (_findings({GREEDY: LOST, SOFTMAX: _values(0.5)}), "Inconclusive: greedy, the reference, diverged", ""),
        (_findings({GREEDY: {2000: 0.5}, SOFTMAX: {2000: 0.6}}), "Inconclusive: a single seed", " minus greedy:"),
    ],
)
def test_exploration_is_judged_by_one_test_and_the_rest_are_estimates(found, begins, holds):
    context = _context(found, reward_width=1.0)
    answer, details = answers.exploration(context), answers.details(context).get("exploration", "")
    assert answer.startswith(begins)
    assert holds in f"{answer} {details}"
    assert answer.count("Holm-adjusted p") <= 1
    assert "Holm-adjusted p" not in details
    full = dataclasses.replace(FULL, configurations=(GREEDY, SOFTMAX))  # The others were never planned.
    assert "(not compared" not in answers.exploration(_context(found, full=full))


@pytest.mark.parametrize(
    ("found", "recommended", "holds"),
    [
        (_findings(BETTER), SOFTMAX, "significantly better than greedy (not compared: epsilon-greedy, FALCON)."),
        (_than_greedy(NOISY), GREEDY, "Greedy: the simplest"),
        (_against(BETTER, best_fixed=0.99), SOFTMAX, "significantly more: softmax minus that action is -0.390"),
        (_against(BETTER, *SAMPLE), SOFTMAX, "But the best fixed action does not differ significantly"),
        (_findings(AS_UNIFORM), None, "None: no strategy earns significantly more than the uniform policy"),
        (_against(CLOSE, 0.5, 0.9), None, "The best fixed action earns 0.9, significantly more than greedy and"),
        (_against(CLOSE, 0.5, 0.501), None, "order may be due to luck (150 rounds)."),
        (_against({GREEDY: _values(0.5) | {2003: math.nan}, SOFTMAX: _values(0.6)}), SOFTMAX, "greedy diverged"),
        (_findings({GREEDY: LOST, SOFTMAX: LOST}), None, "None: every strategy diverged or failed."),
    ],
)
def test_a_strategy_is_recommended_or_none_with_the_reason(found, recommended, holds):
    printed = answers.strategy(_context(found))
    assert found.verdict.recommended == recommended
    assert holds in printed
    assert ("RUN IT" in printed) == bool(recommended)
    _check_lengths(found)


def test_baselines_by_seed_are_each_seeds_own():
    own = _values(0.5, spread=5)  # Each seed's own data: its reward follows its best fixed action.
    found = _against({GREEDY: own, SOFTMAX: _near(0.51, 0.001, spread=5)}, _values(0.1), own)
    assert found.verdict.than(SOFTMAX, BEST_FIXED).wins
    assert " But the best fixed action" not in answers.strategy(_context(_against(BETTER, 0.1, 0.58)))
    lost = _findings({GREEDY: _values(0.5), SOFTMAX: _values(0.9) | {2003: math.nan}, "falcon": _values(0.49)})
    assert lost.verdict.best == "falcon"


def test_the_horizon_comes_first_with_the_times_that_rows_are_used():
    found = _findings(BETTER, decisions=812_000.0)
    printed = answers.scope(_context(found, report={"training_rows": 5_412}))
    assert "150 rounds and 812,000 decisions (your 5,412 training rows, 150 times each). A new model" in printed
    assert printed.endswith("15 clients train, 5 per round.")
    short = answers.scope(_context(found, dataclasses.replace(FULL, rounds=10)))
    assert "10 of 150 planned rounds and 812,000 decisions. No round comes after a deployment" in short
    nothing = Interval(math.nan, math.nan, math.nan, 8)
    simulated = _context(found, scores=(Score("logging policy", nothing, nothing, nothing),))
    assert answers.scope(simulated).startswith("Rewards are simulated")
    assert "\n- logging policy: simulator 0.0000, log cannot be" in answers.details(simulated)["scope"]


def test_parts_that_were_left_out_are_listed_once_with_the_minutes_that_all_need():
    less = dataclasses.replace(FULL, rounds=12, points=1)
    assert answers.not_tried(_context(_findings(BETTER), less).session) == (
        "Left out, to keep to --minutes=7: 138 of 150 rounds; 15 of 16 hyperparameter settings in each search. "
        "To run all, repeat the command with --minutes=39."
    )
    shortest = _context(_findings(BETTER), LONGEST)
    printed = f"{answers.not_tried(shortest.session)}\n{answers.details(shortest)['not_tried']}"
    assert {printed.count(item) for item in left_out(FULL, LONGEST)} == {1}
    long = _context(_findings(BETTER), minutes=0.1, spent=61.0)
    assert answers.not_tried(long.session) == "Nothing was left out for lack of time."
    assert "The recommendation took 55 s longer than --minutes=0.1." in answers.details(long)["not_tried"]


def test_whether_federating_pays():
    alone, together = _results("alone", _values(0.4, seeds=4)), _results("federated", _near(0.5, seeds=4))
    shares = {"helped": 0.8, "hurt": 0.15, "equal": 0.05}
    by_client = {"shares": shares, "between_seeds": {"helped": 0.5, "hurt": 0.45, "equal": 0.05}}
    by_client["lines"] = ["Rewards:", "  alone: 0.4", "  federated: 0.5"]
    found = _findings(BETTER, federation={"federated": together, "alone": alone}, by_client=by_client)
    answer = answers.federated(_context(found))
    assert len(answer.split()) <= 40
    assert all(number in answer for number in ("+0.1", "80%", "15%", "50%", "45%"))
    assert answers.details(_context(found))["federating"] == "Rewards:\n- alone: 0.4\n- federated: 0.5"
    by_client["between_seeds"] = dict.fromkeys(by_client["shares"], math.nan)
    assert "nan" not in answers.federated(_context(found))
    assert answers.federated(_context(dataclasses.replace(found, by_client={}))).startswith("Not known")
    refused = _findings(BETTER, why_no_federation="--reset=model is not supported")
    assert "--reset=model" in answers.federated(_context(refused))


@functools.cache
def _noise_of_epsilon_1():
    return stages.noise(DEPLOYMENT, 150, 20, 1.0)


def _noisy(changes=(-0.02, 0.01, -0.02, 0.01)) -> Findings:
    """Findings with noise that leaves nothing of the gain, and noise that changes each seed's reward a little."""
    first = {"noise_multiplier": 0.0, "run_noise_multiplier": 0.0}
    found = _noise_of_epsilon_1()  # The other epsilon's would take as long again to calibrate.
    base = {3000 + seed: 0.6 + 0.01 * seed for seed in range(4)}
    at_chance = {seed: 0.1 + 0.001 * (seed % 2) for seed in base}
    changed = {seed: value + step for (seed, value), step in zip(base.items(), changes, strict=True)}
    rewards = {NO_NOISE: base, "epsilon 1": at_chance, "epsilon 10": changed}
    return _findings(
        BETTER,
        noise={NO_NOISE: first, "epsilon 1": found, "epsilon 10": found},
        with_noise={name: _results(name, reward) for name, reward in rewards.items()},
        clip_norm=0.25,
    )


def test_each_epsilon_has_its_cost_and_its_guarantee():
    found = _noisy()
    _check_lengths(found)
    answer = answers.privacy(_context(found)).split("\n")
    assert answer[0].startswith("Epsilon protects 100,000 clients; your data has 15 of them. Average reward with noise")
    assert answer[2] == "- epsilon 10: -0.005 (-0.033 to +0.023)"
    unit, rests_on, first, *_ = answers.details(_context(found))["privacy"].split("\n")
    assert unit == "The unit of privacy is one store."
    assert rests_on.startswith("Guarantees hold for training on 100,000 clients, about 500 per round.")
    assert rests_on.endswith("Clipped to norm 0.25 without noise, softmax earns 0.615 (95% CI 0.594 to 0.636).")
    assert first.startswith("- epsilon 1: epsilon 0.99")
    assert "at delta 1e-06 after 150 rounds (one client" in first
    _, (_, rows) = answers.tables(found)
    assert [row[0] for row in rows] == [NO_NOISE, "epsilon 1", "epsilon 10"]
    assert rows[2][-1] == "-0.005 (-0.033 to +0.023)"
    # An epsilon without results has its reason.
    assert "- epsilon 10: diverged or failed" in answers.privacy(_context(_noisy((math.nan,) * 4)))
    found.noise["epsilon 10"] = {"error": "no noise reaches it"}
    assert "- epsilon 10: not run (no noise reaches it)" in answers.details(_context(found))["privacy"]
    for why, printed in (("", "--minutes=7 left too little time for noise"), ("it is so.", "it is so")):
        assert answers.privacy(_context(_findings(BETTER, why_no_noise=why))) == f"Not run: {printed}."


@pytest.mark.parametrize("points", [16, 1])
@pytest.mark.parametrize(("low", "is_learned"), [(0.5, True), (-0.1, False)])
def test_the_data_is_learned_without_acting_if_a_linear_model_earns_more_than_uniform(points, low, is_learned):
    found = dataclasses.replace(_findings(AS_UNIFORM), searched={GREEDY: _results(GREEDY, {1000: 0.2, 1001: 0.4})})
    plan = dataclasses.replace(FULL, points=points)
    rewards = {FIXED: Interval(0.5, 0.4, 0.6, 9), LINEAR: Interval(0.7, 0.6, 0.8, 9)}
    references = References(rewards, Interval(0.6, low, 1.2 - low, 9), (0.1, 0.7))
    context = _context(found, plan, references=references)
    answer, simple = map(answers.write(context).get, ("strategy", "references"))
    assert simple.startswith("On held-out clients: the best fixed action 0.50 (95% CI 0.40 to 0.60) and a linear")
    assert "Held-out rewards: best model 0.3, central linear model 0.7, uniform policy 0.1." in answer
    assert answer.endswith("Command: RUN IT") == is_learned
    cut_short = "Undecided: the search was cut short at 1 of 16 settings and 150 rounds."
    assert answer.startswith("None: " if points > 1 else cut_short)
    assert ("does not earn significantly more either" in answer) == (points > 1 and not is_learned)


def test_tables_count_seeds_and_diverged_runs_and_name_samples_of_clients():
    found = _against({GREEDY: _values(0.5, seeds=2), SOFTMAX: {2000: 0.4, 2001: 0.5, 2002: math.nan}})
    fixed = configuration.of_values("", findings.REWARD, {2000: 0.5, 2001: 0.7})
    found.baselines = {Baseline.uniform_policy: SAMPLE[0], Baseline.best_fixed_action: fixed}
    ((heads, rows),) = answers.tables(found)
    shown = [dict(zip(heads, row, strict=True)) for row in rows]
    assert [row["seeds"] for row in shown] == ["2", "3", "", ""]
    assert shown[1]["average reward"].endswith(", 1 diverged")
    assert shown[2]["configuration"] == "uniform policy, over a sample of 2,000 clients"
    # By Student's t with one degree of freedom, 12.706.
    assert [row["average reward"] for row in shown[2:]] == ["0.1000 (0.0980 to 0.1020)", "0.6 (-0.7 to 1.9)"]
