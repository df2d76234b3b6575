"""The five sentences of made numbers: they say no more than the seeds tell."""

import dataclasses
import math

import numpy as np
import pytest

from bandits import metrics
from scripts.advise import findings, sentences
from scripts.advise.findings import Arm
from scripts.advise.plan import CEILING, CHANCE, GREEDY, Plan
from scripts.advise.stages import Advice
from scripts.verdicts import comparison

FULL = Plan(rounds=150, deploy_every=10, often=1)
SOFTMAX = "softmax"
_RATES = (("server_learning_rate", "0.01"), ("client_learning_rate", "0.1"))
# Deviations of eight seeds with mean 0.
_SPREAD = np.array([-3, -2, -1, 0, 0, 1, 2, 3]) / 100


def _values(mean: float, spread: float = 1.0, seeds: int = 8, first: int = 2000) -> dict[int, float]:
    return {first + place: mean + spread * one for place, one in enumerate(_SPREAD[:seeds])}


def _arm(name: str, reward: dict[int, float], model: dict[int, float] | None = None) -> Arm:
    point = (*_RATES, ("bandits_temperature", "0.05")) if name == SOFTMAX else _RATES
    return Arm(name, point, reward, reward, model or reward, dict.fromkeys(reward, 0.25))


def _found(values: dict[str, dict[int, float]], **more) -> Advice:
    """Returns what was found of arms with such rewards; chance is that of the uniform arm."""
    arms = {name: _arm(name, reward) for name, reward in values.items()}
    chance = values.get(CHANCE)
    found = Advice(metrics.ACCURACY, arms=arms, chance=chance, verdict=findings.verdict(arms, chance, None))
    return dataclasses.replace(found, **more)


def _context(found: Advice, plan: Plan = FULL, **more) -> sentences.Context:
    return sentences.Context(found=found, plan=plan, full=FULL, minutes=7, where="Here", command="PLAY IT", **more)


def _better() -> dict[str, dict[int, float]]:
    tilted = {seed: value + 0.01 * (-1) ** seed for seed, value in _values(0.60).items()}
    return {GREEDY: _values(0.50), SOFTMAX: tilted, CHANCE: _values(0.10), CEILING: _values(0.80)}


def test_exploration_pays_where_it_is_told_above_greedy():
    told = sentences.exploration(_context(_found(_better())))
    assert told.startswith(
        "Exploration pays: softmax (temperature 0.05) earns 0.600 on average over 150 rounds, deployed every 10 "
        "rounds, 0.100 more than greedy (95% interval +0.091 to +0.109, 8 seeds; p < 0.0001 by Holm)."
    )
    assert "Softmax is at a normalized score of 0.71" in told
    assert "chance 0.100, the ceiling, which sees all rewards, 0.800" in told
    assert sentences.strategy(_context(_found(_better()))) == (
        "Softmax, the best of those that are told above greedy: server learning rate 0.01, client learning rate 0.1, "
        "temperature 0.05. To play it: PLAY IT"
    )


def test_a_ceiling_below_what_a_strategy_earns_is_called_no_bound():
    found = _found({**_better(), CEILING: _values(0.55)})
    told = sentences.exploration(_context(found))
    assert "the ceiling, which sees all rewards, 0.550, and here no bound: softmax earned more)" in told


def test_a_ceiling_below_the_best_constant_action_is_said_to_fit_no_rewards():
    found = _found(_better(), constant=0.9)
    told = sentences.exploration(_context(found))
    assert "0.800; it is told below the best constant action, as the model is deployed too late, takes" in told
    assert "below the best constant action" not in sentences.exploration(_context(_found(_better(), constant=0.7)))


def test_exploration_that_pays_less_than_one_action_says_so_first():
    found = _found(_better())
    found.verdict = findings.verdict(found.arms, 0.1, 0.9)
    told = sentences.exploration(_context(found))
    assert told.startswith(
        "Exploration pays, but always choosing the action that is best in hindsight would earn more, 0.900: softmax ("
        "temperature 0.05)"
    )


def test_runs_that_failed_are_named_and_arms_are_ranked_by_seeds_that_they_share():
    shared = _better()
    falcon = {seed: value - 0.02 + 0.001 * (seed % 2) for seed, value in shared[SOFTMAX].items() if seed > 2003}
    found = _found(shared | {"falcon": falcon, GREEDY: {**shared[GREEDY]}})
    assert np.mean(list(falcon.values())) > np.mean(list(shared[SOFTMAX].values())) - 0.02
    assert found.verdict.best == SOFTMAX
    told = sentences.exploration(_context(found))
    assert "FALCON failed on 4 of 8 seeds." in told


def test_seeds_that_did_not_pick_the_best_are_told_and_may_doubt_it():
    confirmed = {
        SOFTMAX: _arm(SOFTMAX, {3000: 0.6, 3001: 0.7, 3002: 0.5, 3003: 0.6}),
        GREEDY: _arm(GREEDY, {3000: 0.5, 3001: 0.5, 3002: 0.52, 3003: 0.5}),
    }
    told = sentences.exploration(_context(_found(_better(), confirmed=confirmed)))
    assert "On 4 seeds that did not pick it, softmax earns 0.600, 0.095 more than greedy" in told
    assert "alone, they would not show it" in told
    swapped = {SOFTMAX: confirmed[GREEDY], GREEDY: confirmed[SOFTMAX]}
    assert "they do not confirm it" in sentences.exploration(_context(_found(_better(), confirmed=swapped)))


def test_what_is_not_told_from_greedy_is_no_winner():
    noisy = {seed: 0.52 + (-1) ** seed * 0.05 for seed in range(2000, 2008)}
    found = _found({GREEDY: _values(0.50), SOFTMAX: noisy, CHANCE: _values(0.10)})
    told = sentences.exploration(_context(found))
    assert told.startswith("Exploration was not shown to pay: of the strategies that explore, the best, softmax")
    assert "These 8 seeds would find a difference of" in told
    assert found.verdict.recommended == GREEDY
    assert sentences.strategy(_context(found)).startswith(
        "Greedy, the simplest, and no strategy that explores is told above it"
    )


def test_the_best_is_set_beside_the_second():
    near = {seed: value + 0.02 * (-1) ** (seed // 2) for seed, value in _better()[SOFTMAX].items()}
    told = sentences.strategy(_context(_found(_better() | {"falcon": near})))
    assert ", not told from " in told
    far = {seed: value - 0.05 + 0.001 * (-1) ** seed for seed, value in _better()[SOFTMAX].items()}
    told = sentences.strategy(_context(_found(_better() | {"falcon": far})))
    assert "above greedy, told from FALCON (+0.050, 95% interval +0.049 to +0.051, 8 seeds): server" in told


def test_noise_that_leaves_less_than_chance_is_called_so():
    found = _noisy()
    base = found.noise[1][1].reward
    found.noise[1][1].reward = {seed: -0.5 + 0.001 * (seed % 2) for seed in base}
    assert "), which leaves it below the uniform policy" in sentences.privacy(_context(found))


def test_exploration_costs_where_all_of_it_is_told_below_greedy():
    worse = {seed: value + 0.01 * (-1) ** seed for seed, value in _values(0.40).items()}
    found = _found({GREEDY: _values(0.50), SOFTMAX: worse, CHANCE: _values(0.10)})
    two = dataclasses.replace(FULL, strategies=(GREEDY, SOFTMAX))
    told = sentences.exploration(dataclasses.replace(_context(found), full=two))
    assert told.startswith("Exploration costs: every strategy that explores is told below greedy. The best of them, ")
    assert "0.100 less than greedy" in told
    told = sentences.exploration(_context(found))
    assert told.startswith(
        "Exploration costs: every strategy that explores and was judged (not epsilon-greedy, FALCON)"
    )
    assert found.verdict.recommended == GREEDY


@pytest.mark.parametrize(
    ("constant", "told"),
    [(0.99, "0.990: told below it (-0.390, 95% int"), (0.6, "0.600: not told from it (")],
)
def test_a_recommendation_that_one_action_would_beat_says_so(constant, told):
    found = _found(_better())
    found.verdict = findings.verdict(found.arms, 0.1, constant)
    assert (
        f" But it earns 0.600, and always choosing the action that is best in hindsight {told}"
        in sentences.strategy(_context(found))
    )


def test_what_is_told_below_greedy_is_named_beside_a_best_that_is_not():
    worse = {seed: value + 0.01 * (-1) ** seed for seed, value in _values(0.40).items()}
    alike = {seed: value + 0.0001 * (seed % 3) for seed, value in _values(0.50).items()}
    found = _found({GREEDY: _values(0.50), SOFTMAX: alike, "falcon": worse, CHANCE: _values(0.10)})
    told = sentences.exploration(_context(found))
    assert "0.0001 more than greedy" in told
    assert " Told below greedy: FALCON." in told


def test_where_seeds_could_tell_nothing_this_is_said():
    found = _found({GREEDY: {2000: 0.5, 2001: 0.9}, SOFTMAX: {2000: 0.52, 2001: 0.49}, CHANCE: {2000: 0.5, 2001: 0.4}})
    told = sentences.exploration(_context(found, reward_width=1.0))
    assert "2 seeds that differ so much would miss even the largest difference of rewards." in told


def test_nothing_is_recommended_that_is_not_told_above_chance():
    noise = np.random.default_rng(0).normal(0.1, 0.01, (3, 8))
    values = dict(zip((GREEDY, SOFTMAX, CHANCE), noise, strict=True))
    found = _found({name: dict(enumerate(map(float, some), 2000)) for name, some in values.items()})
    told = sentences.exploration(_context(found))
    assert told.startswith("Cannot be told: no strategy is told above chance over 150 rounds")
    assert "would find a difference of" in told
    assert "not significantly different from the uniform policy" in told
    assert found.verdict.recommended is None
    assert sentences.strategy(_context(found)).startswith("None: no strategy is told above chance")
    assert "PLAY IT" not in sentences.strategy(_context(found))


def test_without_a_recommendation_the_best_is_compared_with_chance_and_the_best_action_is_named():
    close = {seed: value + 0.001 * (-1) ** seed for seed, value in _values(0.505, spread=2).items()}
    found = _found({GREEDY: _values(0.5, spread=2), SOFTMAX: close}, chance=0.5, constant=0.9)
    found.verdict = findings.verdict(found.arms, 0.5, 0.9)
    told = sentences.exploration(_context(found))
    lead = "Of those that explore, the best, softmax (temperature 0.05), earns 0.505, 0.005 more than chance (95%"
    assert lead in told
    end = "may be luck. Always choosing the action that is best in hindsight would earn 0.900, told above all of them."
    assert sentences.strategy(_context(found)).endswith(end)
    found.constant, found.verdict = 0.501, findings.verdict(found.arms, 0.5, 0.501)
    assert sentences.strategy(_context(found)).endswith("comes first may be luck.")


@pytest.mark.parametrize(("rounds", "says_so"), [(10, True), (11, False)])
def test_rounds_before_the_first_deployment_are_called_so(rounds, says_so):
    plan = dataclasses.replace(FULL, rounds=rounds)
    told = sentences.exploration(_context(_found(_better()), plan))
    assert ("rounds, none of which comes after a deployment (every 10 rounds)" in told) == says_so


def test_rewards_that_nobody_paid_are_named():
    told = sentences.not_tried(_context(_found(_better()), rewards="Rewards were drawn."))
    assert "Rewards were drawn. Never tried here: " in told


def test_an_advice_that_took_longer_than_it_might_says_so():
    told = sentences.not_tried(_context(_found(_better()), overrun="It took 55 s longer than --minutes=0.1."))
    assert "for want of time. It took 55 s longer than --minutes=0.1. Never tried" in told


def test_bounds_of_a_sample_have_their_interval_and_widen_the_verdict():
    found = _found(_better())
    chance, constant = comparison.Sampled(0.1, 0.001, 2000), comparison.Sampled(0.58, 0.02, 2000)
    found.chance, found.constant = chance, constant
    found.verdict = findings.verdict(found.arms, chance, constant)
    told = sentences.exploration(_context(found))
    assert "(chance 0.100 (0.098 to 0.102 by a sample of 2,000 clients), the best constant action 0.580 (0.541" in told
    assert "action that is best in hindsight 0.580: not told from it (+0.0" in sentences.strategy(_context(found))
    found.verdict = findings.verdict(found.arms, 0.1, 0.58)
    assert " But it earns" not in sentences.strategy(_context(found))


def test_bounds_by_seed_are_each_seeds_own():
    # Each seed's own data: what it earns follows its constant action, and is always 0.01 above it.
    constant = _values(0.5, spread=5)
    above = {seed: value + 0.01 + 0.001 * (-1) ** seed for seed, value in constant.items()}
    found = _found({GREEDY: constant, SOFTMAX: above, CHANCE: _values(0.1)}, constant=constant)
    found.verdict = findings.verdict(found.arms, found.chance, constant)
    assert found.verdict.stands[SOFTMAX].constant.wins
    assert "the best constant action 0.500" in sentences.exploration(_context(found))


def test_a_strategy_below_chance_is_not_recommended():
    low = {seed: value + 0.001 * (-1) ** seed for seed, value in _values(0.2).items()}
    found = _found({GREEDY: low, SOFTMAX: _values(0.3), CHANCE: _values(0.5, spread=0.5)})
    assert found.verdict.recommended is None
    assert "Greedy is below the uniform policy" in sentences.exploration(_context(found))


def test_what_diverged_is_told_and_never_the_best():
    lost = _values(0.9) | {2003: math.nan}
    found = _found({GREEDY: _values(0.5), SOFTMAX: lost, "falcon": _values(0.49), CHANCE: _values(0.1)})
    assert found.verdict.best == "falcon"
    assert "Softmax diverged on 1 of 8 seeds" in sentences.exploration(_context(found))


@pytest.mark.parametrize(("chance", "above"), [(None, "chance is not known"), (0.1, "told above chance")])
def test_greedy_that_diverged_is_not_recommended_and_it_is_said(chance, above):
    found = _found({GREEDY: _values(0.5) | {2003: math.nan}, SOFTMAX: _values(0.6)}, chance=chance)
    found.verdict = findings.verdict(found.arms, chance, None)
    assert found.verdict.recommended == SOFTMAX
    told = f"Softmax, the best of those that explore: {above}, while greedy diverged, or failed, and is not compared: "
    assert sentences.strategy(_context(found)).startswith(told)


def test_where_all_diverged_nothing_is_recommended_and_it_is_said():
    lost = dict.fromkeys(range(2000, 2008), math.nan)
    found = _found({GREEDY: lost, SOFTMAX: lost})
    assert found.verdict.recommended is None
    assert sentences.strategy(_context(found)).startswith("None: every strategy that was played diverged, or failed.")


def test_without_greedy_nothing_can_be_told():
    lost = _found({GREEDY: dict.fromkeys(range(2000, 2008), math.nan), SOFTMAX: _values(0.5)})
    assert sentences.exploration(_context(lost)).startswith("Cannot be told: greedy, with")
    none = _found({SOFTMAX: _values(0.5)})
    assert sentences.exploration(_context(none)).startswith("Cannot be told: greedy, with which")


def test_two_seeds_are_called_so():
    found = _found({GREEDY: _values(0.5, seeds=2), SOFTMAX: {2000: 0.52, 2001: 0.49}})
    told = sentences.exploration(_context(found))
    assert told.startswith("Exploration was not shown to pay")
    assert "2 seeds" in told


def test_of_one_seed_it_is_said_that_nothing_is_judged():
    values = {GREEDY: 0.5, SOFTMAX: 0.6, CHANCE: 0.1}
    told = sentences.exploration(_context(_found({name: _values(mean, seeds=1) for name, mean in values.items()})))
    assert "Greedy is not judged (chance 0.070)" in told


def test_uniform_exploration_can_leave_the_better_model():
    found = _found(_better())
    found.arms[CHANCE].model = {seed: value + 0.001 * (-1) ** seed for seed, value in _values(0.52).items()}
    found.arms[GREEDY].model = _values(0.40)
    found.arms[SOFTMAX].model = {seed: value + 0.001 * (-1) ** seed for seed, value in _values(0.45).items()}
    told = sentences.exploration(_context(found))
    assert (
        "a model trained on uniform exploration has a mean accuracy of 0.520, better than greedy's 0.400 (95% interval "
        "+0.119 to +0.121, 8 seeds); softmax's has 0.450, 0.050 more than "
        "greedy's (95% interval +0.049 to +0.051, 8 seeds: better than greedy's)."
    ) in told


def test_cut_runs_are_called_so():
    plan = dataclasses.replace(FULL, rounds=12, points=1)
    told = sentences.write(_context(_found(_better()), plan))
    assert "over the first 12 of 150 rounds" in told["exploration"]
    assert "rounds after the first 12 of 150" in told["not_tried"]
    assert "--minutes=7" in told["not_tried"]


def test_what_deploying_more_often_is_worth():
    often = {
        name: _arm(name, {seed: value + 0.05 for seed, value in reward.items()}) for name, reward in _better().items()
    }
    often[GREEDY] = _arm(GREEDY, {seed: value + 0.1 + 0.001 * (-1) ** seed for seed, value in _values(0.5).items()})
    told = sentences.frequency(_context(_found(_better(), often=often)))
    assert told.startswith("Deploying every round instead of every 10 rounds is worth +0.050 to softmax (")
    assert "and +0.100 to greedy (95% interval +0.099 to +0.101, 8 seeds)" in told
    assert "Then softmax earns 0.050 more than greedy" in told
    assert "did not pick" not in told
    fresh = {name: _arm(name, _values(0.5, seeds=4, first=3000)) for name in (SOFTMAX, GREEDY)}
    more = {name: _arm(name, {seed: value + 0.2 for seed, value in arm.reward.items()}) for name, arm in fresh.items()}
    again = sentences.frequency(_context(_found(_better(), often=often, confirmed=fresh, often_confirmed=more)))
    assert ". On seeds that did not pick the best, it is worth +0.200 to softmax (" in again
    assert sentences.frequency(_context(_found(_better()))).endswith("was not played: there was no time for it.")
    always = dataclasses.replace(FULL, deploy_every=1, often=0)
    assert sentences.frequency(_context(_found(_better()), always)) == "A model is deployed after every round already."


def _noisy() -> Advice:
    from scripts.advise import privacy

    where = privacy.Deployment(100_000, 500, False, delta=1e-6)
    strong, weak = (privacy.noise(where, 150, 20, epsilon) for epsilon in (1.0, 10.0))
    first = {"noise_multiplier": 0.0, "run_noise_multiplier": 0.0, "clip_norm": 0.25}
    base = {3000 + seed: 0.6 + 0.01 * seed for seed in range(4)}
    at_chance = {seed: 0.1 + 0.001 * (seed % 2) for seed in base}
    little = {seed: value - 0.02 + 0.03 * (seed % 2) for seed, value in base.items()}
    noise = [
        (first, _arm(SOFTMAX, base)),
        (strong | {"clip_norm": 0.25}, _arm(SOFTMAX, at_chance)),
        (weak | {"clip_norm": 0.25}, _arm(SOFTMAX, little)),
    ]
    return _found(_better(), noise=noise, noisy=SOFTMAX)


def test_clipping_that_costs_before_any_noise_is_told_and_noise_is_not_blamed_for_it():
    found = _noisy()
    usual = {3000 + seed: 0.8 + 0.011 * seed for seed in range(4)}
    found.confirmed = {SOFTMAX: _arm(SOFTMAX, usual), GREEDY: _arm(GREEDY, usual)}
    told = sentences.privacy(_context(found))
    clips = (
        "clips to 0.25 without noise, with Poisson cohorts (0.202 less than the 0.817 of the same seeds as they were"
    )
    assert clips in told
    found.noise[0][1].reward = {3000: 0.1, 3001: 0.101, 3002: 0.5, 3003: 0.1}
    told = sentences.privacy(_context(found))
    assert told.startswith("The 0.200 that softmax earns when it clips to 0.25 without noise, with Poisson cohorts")
    assert "is not told above chance, so that a cost of noise says little: no cost of epsilon 1" in told
    assert "which leaves it" not in told


def test_each_epsilon_is_told_with_its_cost_and_what_it_rests_on():
    told = sentences.privacy(_context(_noisy()))
    assert told.startswith("Of the 0.615 that softmax earns when it clips to 0.25, epsilon 1 (noise multiplier ")
    assert "which leaves it not significantly different from the uniform policy" in told
    assert "; no cost of epsilon 10 (noise multiplier " in told
    assert "could be seen: it earns 0.005 less (95% interval -0.033 to +0.023)" in told
    assert "delta 1e-06 after 150 rounds, by RDP, for one client added or removed, with a Poisson sample" in told
    assert "(4 seeds). Here: delta" in told


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((0.0001, 0.0002, -0.0001, 0.0002), "no cost of epsilon 10 (noise multiplier "),
        (
            (0.0001, 0.0002, -0.0001, 0.0002),
            "could be seen: it earns 0.0001 more (95% interval -0.0001 to +0.0003) (4 seeds)",
        ),
        ((0.02, 0.021, 0.02, 0.019), ") earns 0.020 more (95% interval +0.019 to +0.021) (4 seeds)"),
        ((-0.02, -0.021, -0.02, -0.019), ") costs 0.020 (95% interval +0.019 to +0.021) ("),
        ((-0.02, math.nan, -0.02, -0.019), "): epsilon 10 diverged with seed 3001: not judged"),
    ],
)
def test_where_no_cost_is_told_none_is_claimed(steps, told):
    found = _noisy()
    base = found.noise[0][1].reward
    found.noise[2][1].reward = {seed: value + step for (seed, value), step in zip(base.items(), steps, strict=True)}
    assert told in sentences.privacy(_context(found))


def test_a_run_under_noise_that_diverged_is_told():
    found = _noisy()
    found.noise[1][1].reward = dict.fromkeys(found.noise[1][1].reward, math.nan)
    assert "at epsilon 1 it diverged" in sentences.privacy(_context(found))


def test_an_epsilon_without_runs_is_told_with_its_reason():
    found = _noisy()
    found.noise[2] = ({"target_epsilon": 1e6, "error": "Epsilon 1e+06 needs no search."}, _arm(SOFTMAX, {}))
    told = sentences.privacy(_context(found))
    assert "epsilon 1e+06 was not played (Epsilon 1e+06 needs no search)" in told
    assert "out of reach" not in told


@pytest.mark.parametrize(("why", "told"), [("", "there was no time for noise"), ("it is so.", "it is so")])
def test_no_noise_is_told_with_its_reason(why, told):
    assert sentences.privacy(_context(_found(_better(), no_noise=why))) == f"Not played: {told}."
