"""What a recommendation leaves in its folder."""

import pytest

from bandits.advice import output


def _arm(first_seed: int, *rewards: float | None) -> dict:
    reward = {str(seed): value for seed, value in enumerate(rewards, first_seed)}
    return {"name": "greedy", "reward": reward, "recent_reward": {}, "model": {}, "worst_tenth": reward}


def _advice(noise=(), arms=None, initial_model_varies: bool = True) -> dict:
    return {
        "advice_command": "python -m scripts.advise",
        "sentences": {},
        "command": "",
        "more_often": {"bandits_deploy_freq": 1, "arms": {}},
        "model_metric": "eval/accuracy",
        "arms": {"greedy": _arm(2000, 0.5, 0.6)} if arms is None else arms,
        "verdict": {"against_greedy": {}},
        "privacy": {"noise": list(noise), "against_no_noise": {}},
        "initial_model_varies": initial_model_varies,
        "pace": {"round_seconds": 0.5, "workers": 2},
        "clients": 20,
        "clients_per_round": 10,
        "actions": 3,
        "seconds": 60.0,
        "machine": "2 cores",
    }


def test_the_page_says_over_which_seeds_its_numbers_are():
    told = output.markdown(_advice())
    assert "Means and 95% intervals over seeds 2000 to 2001. Seeds vary the cohorts, the first weights and" in told


def test_runs_under_noise_have_seeds_of_their_own_and_it_is_said():
    clipped = {"noise_multiplier": 0.0, "run_noise_multiplier": 0.0, "arm": _arm(3000, 0.4, 0.5, None)}
    told = output.markdown(_advice([clipped]))
    assert "over seeds 2000 to 2001, with noise seeds 3000 to 3002. " in told
    assert "the clients' draws and the noise." in told


def test_the_worst_tenth_of_clients_and_the_reward_against_epsilon_are_told(tmp_path):
    clipped = {"noise_multiplier": 0.0, "run_noise_multiplier": 0.0, "arm": _arm(3000, 0.4, 0.5)}
    told = output.markdown(_advice([clipped]))
    assert "| held-out accuracy of the model | its reward, worst tenth of clients |" in told
    assert "|  | 0.6 (-0.1 to 1.2) |" in told  # 0.05 by Student's t with one degree of freedom, 12.706.
    output.write(_advice([clipped]), tmp_path)
    (page,) = tmp_path.glob("*.html")
    assert "<td>no noise, clipped</td><td>0</td><td>0</td><td>0.5 (-0.2 to 1.1)</td>" in page.read_text()


def test_first_weights_that_are_given_are_not_said_to_vary():
    assert "Seeds vary the cohorts and the clients' draws." in output.markdown(_advice(initial_model_varies=False))


def test_without_any_run_there_is_a_page():
    assert "over no seed." in output.markdown(_advice(arms={"greedy": _arm(2000)}))


if __name__ == "__main__":
    pytest.main([__file__])
