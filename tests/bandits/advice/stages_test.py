"""When a recommendation has no runs with noise, or of clients that train alone."""

import types

import pytest

from bandits import metrics, studies
from bandits.advice import findings, stages, strategies
from bandits.advice.plan import GREEDY, Plan
from bandits.plans import sweep as outcomes
from bandits.results import runs


@pytest.mark.parametrize("absent", ["--availability=diurnal", "--drop_out=0.1"])
def test_no_noise_is_advised_where_its_guarantee_would_not_hold(absent):
    assert "no Poisson sample" in stages.refused_noise(("--task_type=digits", absent))
    assert stages.refused_noise(("--task_type=digits", "--drop_out=0")) == ""


def test_no_noise_is_advised_where_losses_reset_the_training():
    assert "the clients' losses" in stages.refused_noise(("--task_type=digits", "--reset=model"))
    window = ("--reset=model", "--reset_when=window", "--reset_window=20")
    assert stages.refused_noise(("--task_type=digits", *window)) == ""


def test_clients_train_alone_where_the_flags_and_their_number_allow_it():
    assert stages.refused_federation(("--task_type=digits",), 60) == ""
    assert "--reset" in stages.refused_federation(("--task_type=digits", "--reset=model"), 60)
    many = ("--task_type=digits", "--total_rounds=1000", "--clients_per_round=10")
    assert "1,000" in stages.refused_federation(many, 5000)


class _Session:
    """Executes runs in this process, on its worker."""

    def __init__(self, folder):
        self.folder, self.plan = folder, Plan(rounds=2, deploy_every=1, often=0, federation_seeds=2)
        self.base = ("--task_type=digits", "--clients_per_round=4", "--rounds_per_eval=0", "--bandits_deploy_freq=1")

    def run(self, folder, planned):
        executed = {}
        for run in planned:
            where = (f"--root_output_dir={self.folder / folder}", f"--experiment_name={run.name}")
            assert studies.program(run.module, studies.parse(run.module, [*run.arguments, *where])) == 0
            reward = runs.read_metrics(self.folder / folder / run.name)[metrics.AVERAGE_REWARD].iloc[-1]
            executed[run.name] = outcomes.Outcome(run, outcomes.FINISHED, 2, reward)
        return executed


def test_clients_alone_and_together_are_compared_over_equal_seeds(tff_worker, monkeypatch, tmp_path):
    from optimization.runtime import worker

    monkeypatch.setattr(worker, "start", lambda *_: tff_worker)
    session = _Session(tmp_path)
    space = strategies.spaces(session.base, [GREEDY], 10)[GREEDY]
    stage = stages.Stages(session, {GREEDY: space}, types.SimpleNamespace(is_labelled=True), None, ())
    stage.results.compared[GREEDY] = findings.StrategyResults(GREEDY, space.first)
    stage._federate(session.plan)
    rewards = {name: one.reward for name, one in stage.results.federation.items()}
    assert rewards["alone"].keys() == rewards["federated"].keys() == {2000, 2001}
    assert rewards["alone"] != rewards["federated"]  # In the second round, clients act with trained models.
    found = stage.results.by_client
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert found["shares"]["equal"] > 0  # The clients of the first round alone.
    assert found["lines"]
