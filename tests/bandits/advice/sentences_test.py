"""The sections of a recommendation from synthetic numbers: they claim no more than the seeds support."""

import dataclasses
import math

import numpy as np
import pytest

from bandits import metrics
from bandits.advice import findings, privacy, sentences
from bandits.advice.findings import Findings, StrategyResults
from bandits.advice.inputs import Data
from bandits.advice.plan import CEILING, CHANCE, GREEDY, Plan
from bandits.advice.sentences import Context
from bandits.plans.estimate import Pace
from bandits.results import comparison
from bandits.simulator import Score
from optimization.study.intervals import Interval

FULL = Plan(rounds=150, deploy_every=10, often=1)
SOFTMAX = "softmax"
WHERE = privacy.Deployment(100_000, 500, False, delta=1e-6)
GUARANTEE = "Guarantees hold for training on 100,000 clients, about 500 a round."
_RATES = (("server_learning_rate", "0.01"), ("client_learning_rate", "0.1"))
# Deviations of eight seeds with mean 0.
_SPREAD = np.array([-3, -2, -1, 0, 0, 1, 2, 3]) / 100


def _values(mean: float, spread: float = 1.0, seeds: int = 8, first: int = 2000) -> dict[int, float]:
    return {first + place: mean + spread * one for place, one in enumerate(_SPREAD[:seeds])}


def _arm(name: str, reward: dict[int, float], model: dict[int, float] | None = None) -> StrategyResults:
    point = (*_RATES, ("bandits_temperature", "0.05")) if name == SOFTMAX else _RATES
    return StrategyResults(name, point, reward, reward, model or reward, dict.fromkeys(reward, 0.25))


def _found(values: dict[str, dict[int, float]], **more) -> Findings:
    """Returns what was found of arms with such rewards; chance is that of the uniform arm."""
    arms = {name: _arm(name, reward) for name, reward in values.items()}
    chance = values.get(CHANCE)
    found = Findings(metrics.ACCURACY, compared=arms, chance=chance, verdict=findings.verdict(arms, chance, None))
    return dataclasses.replace(found, **more)


def _context(found: Findings, plan: Plan = FULL, rows: int = 0, reward_width: float = math.inf, **more) -> Context:
    data = Data(
        checksum="",
        report={"training_rows": rows},
        clients=15,
        cohort=5,
        num_actions=3,
        reward_width=reward_width,
        is_labelled=True,
        statistics=(),
        held_out="held out for evaluation: 4 of 19 clients",
        unit="one store",
        scores=more.pop("scores", ()),
    )
    known = {"minutes": 7, "where": WHERE, "command": "RUN IT", "pace": Pace(0.1, 2.0, 3.0, 2)}
    return Context(found=found, plan=plan, full=FULL, data=data, **known | more)


def _better() -> dict[str, dict[int, float]]:
    tilted = {seed: value + 0.01 * (-1) ** seed for seed, value in _values(0.60).items()}
    return {GREEDY: _values(0.50), SOFTMAX: tilted, CHANCE: _values(0.10), CEILING: _values(0.80)}


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


def test_exploration_pays_where_it_is_significantly_better_than_greedy():
    told = sentences.exploration(_context(_found(_better())))
    assert told.startswith(
        "Exploration pays: softmax (temperature 0.05) significantly beats greedy. The difference is +0.100 (95% CI "
        "+0.091 to +0.109, 8 seeds; Holm-adjusted p < 0.0001)."
    )
    assert "No independent seeds confirm this: give more --minutes before you rely on it." in told
    assert "Normalized score of softmax: 0.71 (0 = uniform policy, 1 = full feedback)." in told
    assert "- uniform policy 0.100 (95% CI 0.083 to 0.117)\n- full-feedback baseline 0.800 (95% CI" in told
    told = sentences.strategy(_context(_found(_better())))
    assert told == (
        "Softmax: the highest mean of the strategies that are significantly better than greedy. Settings: server "
        "learning rate 0.01, client learning rate 0.1, temperature 0.05. Command: RUN IT"
    )


def test_the_horizon_comes_first_with_the_times_that_rows_are_used():
    found = _found(_better())
    found.compared[GREEDY].decisions = {2000: 811_000.0, 2001: 813_000.0}
    told = sentences.scope(_context(found, rows=5_412))
    assert told.startswith("One run is 150 rounds = 812,000 decisions, your 5,412 training rows 150 times. Whether")
    assert "15 clients train, 5 a round; held out for evaluation: 4 of 19 clients." in told
    assert sentences.scope(_context(found)).startswith("One run is 150 rounds = 812,000 decisions. ")
    assert "rows 1.5 times." in sentences.scope(_context(found, rows=541_333))
    assert "rows once." in sentences.scope(_context(found, rows=812_001))


def test_simulated_rewards_are_named_before_all_else():
    nothing = Interval(math.nan, math.nan, math.nan, 8)
    score = Score("logging policy", nothing, nothing, nothing)
    told = sentences.scope(_context(_found(_better()), scores=(score,)))
    assert told.startswith("Rewards are simulated: they are drawn from a regression of the log")
    assert "from the log itself.\n One run is 150 rounds." in told


@pytest.mark.parametrize(("rounds", "says_so"), [(10, True), (11, False)])
def test_rounds_before_the_first_deployment_are_called_so(rounds, says_so):
    told = sentences.scope(_context(_found(_better()), dataclasses.replace(FULL, rounds=rounds)))
    assert ("No round follows a deployment" in told) == says_so


def test_a_full_feedback_baseline_that_is_no_bound_is_named():
    found = _found({**_better(), CEILING: _values(0.55)})
    told = sentences.exploration(_context(found))
    assert "Softmax earned more than the full-feedback baseline on average." in told


def test_full_feedback_below_the_best_fixed_action_is_explained():
    told = sentences.exploration(_context(_found(_better(), constant=0.9)))
    assert "Even full feedback earns significantly less than the best fixed action: the model is deployed too" in told
    assert "Even full feedback" not in sentences.exploration(_context(_found(_better(), constant=0.7)))


def test_exploration_that_earns_less_than_a_fixed_action_says_so():
    found = _found(_better())
    found.verdict = findings.verdict(found.compared, 0.1, 0.9)
    told = sentences.exploration(_context(found))
    assert ". But the best fixed action earns significantly more: 0.9." in told


def test_runs_that_failed_are_named_and_ranked_by_shared_seeds():
    shared = _better()
    falcon = {seed: value - 0.02 + 0.001 * (seed % 2) for seed, value in shared[SOFTMAX].items() if seed > 2003}
    found = _found(shared | {"falcon": falcon, GREEDY: {**shared[GREEDY]}})
    assert np.mean(list(falcon.values())) > np.mean(list(shared[SOFTMAX].values())) - 0.02
    assert found.verdict.best == SOFTMAX
    assert "FALCON failed on 4 of 8 seeds." in sentences.exploration(_context(found))


def test_independent_seeds_are_reported_and_may_contradict():
    confirmed = {
        SOFTMAX: _arm(SOFTMAX, {3000: 0.6, 3001: 0.7, 3002: 0.5, 3003: 0.6}),
        GREEDY: _arm(GREEDY, {3000: 0.5, 3001: 0.5, 3002: 0.52, 3003: 0.5}),
    }
    told = sentences.exploration(_context(_found(_better(), confirmed=confirmed)))
    assert "Independent seeds, which did not select softmax, give +0.09 (95% CI -0.05 to +0.24, 4 seeds)." in told
    assert "No independent seeds" not in told
    swapped = {SOFTMAX: confirmed[GREEDY], GREEDY: confirmed[SOFTMAX]}
    assert "They do not confirm the gain." in sentences.exploration(_context(_found(_better(), confirmed=swapped)))
    wide = {GREEDY: confirmed[GREEDY], SOFTMAX: _arm(SOFTMAX, {3000: 0.9, 3001: 0.2, 3002: 0.9, 3003: 0.6})}
    told = sentences.exploration(_context(_found(_better(), confirmed=wide)))
    assert "They do not confirm the gain." in told  # The interval includes 0.


def test_an_inconclusive_difference_names_no_winner():
    noisy = {seed: 0.52 + (-1) ** seed * 0.05 for seed in range(2000, 2008)}
    found = _found({GREEDY: _values(0.50), SOFTMAX: noisy, CHANCE: _values(0.10)})
    told = sentences.exploration(_context(found))
    assert told.startswith("Inconclusive: no strategy that explores is significantly better than greedy. Softmax (temp")
    assert "Minimum detectable difference: " in told
    assert "(80% power, 8 seeds). Seeds required for the observed difference: about" in told
    assert sentences.strategy(_context(found)).startswith("Greedy: the simplest, and no strategy that explores is sig")


def test_exploration_costs_where_all_of_it_is_significantly_worse():
    worse = {seed: value + 0.01 * (-1) ** seed for seed, value in _values(0.40).items()}
    found = _found({GREEDY: _values(0.50), SOFTMAX: worse, CHANCE: _values(0.10)})
    two = dataclasses.replace(FULL, strategies=(GREEDY, SOFTMAX))
    told = sentences.exploration(dataclasses.replace(_context(found), full=two))
    assert told.startswith("Exploration costs reward: every strategy that explores is significantly worse than greedy.")
    assert "The best of them, softmax (temperature 0.05), differs from greedy by -0.1" in told
    told = sentences.exploration(_context(found))
    assert "every strategy that explores and was compared (not epsilon-greedy, FALCON) is significantly worse" in told
    assert found.verdict.recommended == GREEDY


@pytest.mark.parametrize(
    ("constant", "told"),
    [
        (0.99, "earns significantly more: softmax minus that action is -0.390"),
        (0.6, "does not differ significantly: s"),
    ],
)
def test_a_recommendation_that_a_fixed_action_would_beat_says_so(constant, told):
    found = _found(_better())
    found.verdict = findings.verdict(found.compared, 0.1, constant)
    assert f" But the best fixed action {told}" in sentences.strategy(_context(found))


def test_what_is_significantly_worse_than_greedy_is_named_beside_a_best_that_is_not():
    worse = {seed: value + 0.01 * (-1) ** seed for seed, value in _values(0.40).items()}
    alike = {seed: value + 0.0001 * (seed % 3) for seed, value in _values(0.50).items()}
    found = _found({GREEDY: _values(0.50), SOFTMAX: alike, "falcon": worse, CHANCE: _values(0.10)})
    told = sentences.exploration(_context(found))
    assert "The difference is +0.00010 (95% CI +0.00002 to" in told
    assert " Significantly worse than greedy: FALCON." in told


def test_where_no_difference_could_be_detected_this_is_said():
    found = _found({GREEDY: {2000: 0.5, 2001: 0.9}, SOFTMAX: {2000: 0.52, 2001: 0.49}, CHANCE: {2000: 0.5, 2001: 0.4}})
    told = sentences.exploration(_context(found, reward_width=1.0))
    assert "With 2 seeds that vary so much, even the largest possible difference would be missed." in told


def test_nothing_is_recommended_that_is_not_better_than_the_uniform_policy():
    noise = np.random.default_rng(0).normal(0.1, 0.01, (3, 8))
    values = dict(zip((GREEDY, SOFTMAX, CHANCE), noise, strict=True))
    found = _found({name: dict(enumerate(map(float, some), 2000)) for name, some in values.items()})
    told = sentences.exploration(_context(found))
    assert told.startswith("Inconclusive: no strategy earns significantly more than the uniform policy. The best that")
    assert "Minimum detectable difference" in told
    assert found.verdict.recommended is None
    told = sentences.strategy(_context(found))
    assert told.startswith("None: no strategy earns significantly more than the uniform policy")
    assert "RUN IT" not in told


def test_without_a_recommendation_the_best_fixed_action_is_named_where_it_earns_more():
    close = {seed: value + 0.001 * (-1) ** seed for seed, value in _values(0.505, spread=2).items()}
    found = _found({GREEDY: _values(0.5, spread=2), SOFTMAX: close}, chance=0.5, constant=0.9)
    found.verdict = findings.verdict(found.compared, 0.5, 0.9)
    told = sentences.exploration(_context(found))
    assert "softmax (temperature 0.05), differs from the uniform policy by +0.005 (95% CI" in told
    end = "may be luck. The best fixed action earns 0.9, significantly more than greedy and softmax."
    assert sentences.strategy(_context(found)).endswith(end)
    found.constant, found.verdict = 0.501, findings.verdict(found.compared, 0.5, 0.501)
    assert sentences.strategy(_context(found)).endswith("order may be luck.")


def test_what_was_left_out_is_listed_with_the_minutes_that_it_needs():
    told = _lines(sentences.not_tried(_context(_found(_better()), dataclasses.replace(FULL, points=1, epsilons=0))))
    assert told[:3] == [
        "Left out, to keep to --minutes=7:",
        "- the hyperparameter search (all settings are defaults)",
        "- privacy: every run with noise",
    ]
    assert told[3].startswith("All this needs about 37 more minutes: repeat the command with --minutes=44, and it con")
    assert _lines(sentences.not_tried(_context(_found(_better()))))[0] == "Nothing was left out for lack of time."


def test_a_recommendation_that_took_longer_than_its_budget_says_so():
    told = _lines(sentences.not_tried(_context(_found(_better()), minutes=0.1, seconds=61.0)))
    assert told[1] == "It took 55 s longer than --minutes=0.1."


def test_baselines_of_a_sample_have_their_interval_and_widen_the_verdict():
    found = _found(_better())
    chance, constant = comparison.Sampled(0.1, 0.001, 2000), comparison.Sampled(0.58, 0.02, 2000)
    found.chance, found.constant = chance, constant
    found.verdict = findings.verdict(found.compared, chance, constant)
    told = sentences.exploration(_context(found))
    assert "- uniform policy 0.1000 (95% CI 0.0980 to 0.1020), over a sample of 2,000 clients" in told
    assert "best fixed action does not differ significantly: softmax minus that" in sentences.strategy(_context(found))
    found.verdict = findings.verdict(found.compared, 0.1, 0.58)
    assert " But the best fixed action" not in sentences.strategy(_context(found))


def test_baselines_by_seed_are_each_seeds_own():
    # Each seed's own data: its reward follows its best fixed action, and is always 0.01 above it.
    constant = _values(0.5, spread=5)
    above = {seed: value + 0.01 + 0.001 * (-1) ** seed for seed, value in constant.items()}
    found = _found({GREEDY: constant, SOFTMAX: above, CHANCE: _values(0.1)}, constant=constant)
    found.verdict = findings.verdict(found.compared, found.chance, constant)
    assert found.verdict.stands[SOFTMAX].fixed.wins
    assert "- best fixed action 0.50 (95% CI" in sentences.exploration(_context(found))


def test_a_strategy_below_the_uniform_policy_is_not_recommended():
    low = {seed: value + 0.001 * (-1) ** seed for seed, value in _values(0.2).items()}
    found = _found({GREEDY: low, SOFTMAX: _values(0.3), CHANCE: _values(0.5, spread=0.5)})
    assert found.verdict.recommended is None


def test_what_diverged_is_named_and_never_the_best():
    lost = _values(0.9) | {2003: math.nan}
    found = _found({GREEDY: _values(0.5), SOFTMAX: lost, "falcon": _values(0.49), CHANCE: _values(0.1)})
    assert found.verdict.best == "falcon"
    assert "Softmax diverged on 1 of 8 seeds." in sentences.exploration(_context(found))


def test_greedy_that_diverged_is_not_recommended_and_it_is_said():
    found = _found({GREEDY: _values(0.5) | {2003: math.nan}, SOFTMAX: _values(0.6)}, chance=0.1)
    found.verdict = findings.verdict(found.compared, 0.1, None)
    assert found.verdict.recommended == SOFTMAX
    told = "Softmax: the best that explores; greedy diverged or failed, so there is no comparison."
    assert sentences.strategy(_context(found)).startswith(told)


def test_where_all_diverged_nothing_is_recommended_and_it_is_said():
    lost = dict.fromkeys(range(2000, 2008), math.nan)
    found = _found({GREEDY: lost, SOFTMAX: lost})
    assert found.verdict.recommended is None
    assert sentences.strategy(_context(found)).startswith("None: every strategy diverged, or failed.")


def test_without_greedy_nothing_is_concluded():
    lost = _found({GREEDY: dict.fromkeys(range(2000, 2008), math.nan), SOFTMAX: _values(0.5)})
    assert sentences.exploration(_context(lost)).startswith("Inconclusive: greedy, the reference, diverged")
    none = _found({SOFTMAX: _values(0.5)})
    assert sentences.exploration(_context(none)).startswith("Inconclusive: greedy, the reference, diverged")


def test_of_one_seed_it_is_said_that_there_is_no_test():
    values = {GREEDY: 0.5, SOFTMAX: 0.6}
    found = _found({name: _values(mean, seeds=1) for name, mean in values.items()})
    told = sentences.exploration(_context(found))
    assert told.startswith("Inconclusive: one seed gives no interval and no test. Softmax (temperature 0.05) differs f")


def test_held_out_models_are_estimates_without_a_verdict_of_their_own():
    found = _found(_better())
    found.compared[CHANCE].model = {seed: value + 0.001 * (-1) ** seed for seed, value in _values(0.52).items()}
    found.compared[GREEDY].model = _values(0.40)
    found.compared[SOFTMAX].model = {seed: value + 0.001 * (-1) ** seed for seed, value in _values(0.45).items()}
    told = _lines(sentences.exploration(_context(found)))
    place = told.index("Held-out accuracy of the trained model, against greedy's 0.400 (95% CI 0.383 to 0.417):")
    assert told[place + 1 : place + 3] == [
        "- trained by softmax: +0.0500 (95% CI +0.0491 to +0.0509, 8 seeds)",
        "- trained by the uniform policy: +0.1200 (95% CI +0.1191 to +0.1209, 8 seeds)",
    ]


def test_one_test_decides_on_the_whole_page():
    found = _noisy()
    found.confirmed = {name: _arm(name, _values(0.5, seeds=4, first=3000)) for name in (SOFTMAX, GREEDY)}
    told = sentences.write(_context(found))
    text = " ".join(told.values())
    assert text.count("Holm-adjusted p") == 1
    for word in ("told", "chance", "ceiling", "played", " arm"):
        assert word not in text, word


def test_no_sentence_is_long():
    for text in sentences.write(_context(_noisy())).values():
        for paragraph, items in sentences.paragraphs(text):
            for sentence in (*paragraph.split(". "), *items):
                assert len(sentence.partition("(")[0].split()) <= 27, sentence


def test_cut_runs_are_called_so():
    plan = dataclasses.replace(FULL, rounds=12, points=1)
    told = sentences.write(_context(_found(_better()), plan))
    assert "These are the first 12 of 150 planned rounds" in told["scope"]
    assert "- rounds after the first 12 of 150" in told["not_tried"]


def test_what_deploying_more_often_changes():
    often = {
        name: _arm(name, {seed: value + 0.05 for seed, value in reward.items()}) for name, reward in _better().items()
    }
    often[GREEDY] = _arm(GREEDY, {seed: value + 0.1 + 0.001 * (-1) ** seed for seed, value in _values(0.5).items()})
    told = _lines(sentences.frequency(_context(_found(_better(), often=often))))
    assert told[0] == "Average reward with deployment every round instead of every 10 rounds, minus that as planned:"
    assert told[1:3] == ["- softmax: +0.05 (8 seeds)", "- greedy: +0.1000 (95% CI +0.0991 to +0.1009, 8 seeds)"]
    assert told[3].startswith("Then softmax minus greedy is +0.050 (")
    fresh = {name: _arm(name, _values(0.5, seeds=4, first=3000)) for name in (SOFTMAX, GREEDY)}
    more = {name: _arm(name, {seed: value + 0.2 for seed, value in arm.reward.items()}) for name, arm in fresh.items()}
    again = sentences.frequency(_context(_found(_better(), often=often, confirmed=fresh, often_confirmed=more)))
    assert "The same over independent seeds:\n- softmax: +0.2 (4 seeds)" in again
    not_run = "Not known: deployment every round instead of every 10 rounds (--minutes=7 went to the questions above)."
    assert sentences.frequency(_context(_found(_better()))) == not_run
    always = dataclasses.replace(FULL, deploy_every=1, often=0)
    assert sentences.frequency(_context(_found(_better()), always)).startswith("Nothing: a model is deployed after ev")


def _noisy() -> Findings:
    strong, weak = (privacy.noise(WHERE, 150, 20, epsilon) for epsilon in (1.0, 10.0))
    first = {"noise_multiplier": 0.0, "run_noise_multiplier": 0.0}
    base = {3000 + seed: 0.6 + 0.01 * seed for seed in range(4)}
    at_chance = {seed: 0.1 + 0.001 * (seed % 2) for seed in base}
    little = {seed: value - 0.02 + 0.03 * (seed % 2) for seed, value in base.items()}
    noise = [
        one | {"clip_norm": 0.25, "arm": _arm(SOFTMAX, reward)}
        for one, reward in ((first, base), (strong, at_chance), (weak, little))
    ]
    return _found(_better(), noise=noise, noisy=SOFTMAX)


def test_the_unit_of_privacy_comes_first_and_clipping_is_apart_from_noise():
    found = _noisy()
    usual = {3000 + seed: 0.8 + 0.011 * seed for seed in range(4)}
    found.confirmed = {SOFTMAX: _arm(SOFTMAX, usual), GREEDY: _arm(GREEDY, usual)}
    told = sentences.privacy(_context(found))
    assert told.startswith(f"The unit of privacy is one store. {GUARANTEE} The data is taken for a sample of them, ")
    assert "of such cohorts. Softmax, clipped to norm 0.25 without noise, earns" in told
    assert "Fixed clipping and Poisson cohorts change it by -0.2015 (95% CI -0.2036 to -0.1994, 4 seeds)." in told
    found.noise[0]["arm"].reward = {3000: 0.1, 3001: 0.101, 3002: 0.5, 3003: 0.1}
    told = sentences.privacy(_context(found))
    assert "That is not significantly more than the uniform policy, so costs of noise say little." in told
    assert "is left" not in told


def test_each_epsilon_has_its_cost_and_what_it_rests_on():
    told = _lines(sentences.privacy(_context(_noisy())))
    assert told[0].endswith("clipped to norm 0.25 without noise, earns 0.615 (95% CI 0.594 to 0.636).")
    assert told[1] == "Average reward with noise, minus that without:"
    assert told[2].startswith("- epsilon 1 (noise multiplier ")
    assert told[2].endswith("4 seeds), and no significant gain over the uniform policy is left")
    assert told[3].endswith("): -0.005 (95% CI -0.033 to +0.023, 4 seeds)")
    assert told[4].startswith("Guarantee: delta 1e-06 after 150 rounds, by RDP. Neighbours: one client")


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((0.02, 0.021, 0.02, 0.019), "): +0.0200 (95% CI +0.0187 to +0.0213, 4 seeds)"),
        ((-0.02, -0.021, -0.02, -0.019), "): -0.0200 (95% CI -0.0213 to -0.0187, 4 seeds)"),
        ((-0.02, math.nan, -0.02, -0.019), "not tested: a run that is compared diverged"),
    ],
)
def test_costs_are_differences_with_their_interval(steps, told):
    found = _noisy()
    base = found.noise[0]["arm"].reward
    found.noise[2]["arm"].reward = {seed: value + step for (seed, value), step in zip(base.items(), steps, strict=True)}
    assert told in sentences.privacy(_context(found))


def test_a_run_with_noise_that_diverged_is_named():
    found = _noisy()
    found.noise[1]["arm"].reward = dict.fromkeys(found.noise[1]["arm"].reward, math.nan)
    assert "- epsilon 1: diverged" in _lines(sentences.privacy(_context(found)))


def test_an_epsilon_without_runs_has_its_reason():
    found = _noisy()
    error = {"target_epsilon": 1e6, "error": "Epsilon 1e+06 needs no search."}
    found.noise[2] = error | {"clip_norm": 0.25, "arm": _arm(SOFTMAX, {})}
    assert "- epsilon 1e+06: not run (Epsilon 1e+06 needs no search)" in _lines(sentences.privacy(_context(found)))


@pytest.mark.parametrize(("why", "told"), [("", "--minutes=7 left no time for noise"), ("it is so.", "it is so")])
def test_no_noise_has_its_reason(why, told):
    assert (
        sentences.privacy(_context(_found(_better(), no_noise=why)))
        == f"The unit of privacy is one store. Not run: {told}."
    )


def test_paragraphs_have_their_items():
    assert sentences.paragraphs("a b\n- c\n- d\n\ne") == [("a b", ["c", "d"]), ("e", [])]
