"""Tests of bandits.papers.page, and of the records from which it is made."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence

import pandas as pd
import pytest

from bandits.papers import claims, figures, page, results
from bandits.papers.plan import Claim, Figure, Measure, Published
from bandits.plans.plan import Configuration
from bandits.results import runs
from data.errors import UsageError
from optimization.study import run_folder
from optimization.study.results import Run

NEAR = Configuration("near", ("near",), ())
BASELINES = tuple(Configuration(label, (label,), (), is_drawn=False) for label in ("chance", "ceiling"))


def _figure(**changes) -> Figure:
    values = {
        "name": "f1",
        "text": "Nobody 2020",
        "about": "Figure 1: a toy",
        "binary": "run_federated",
        "configurations": (NEAR, Configuration("far", ("far",), ())),
        "repeat": 3,
        "measures": (Measure("score", "score"),),
        "published": (Published("near", "score", 4.0, "Table 1", 1.0), Published("far", "rate", 0.2, "Table 1")),
        "claims": (Claim("near is better", "section 2", "order", (("near",), ("far",)), means={"holds": "Go near."}),),
        "data_kind": "paper's data",
        "left_open": ("seeds",),
        "reference": "far",
    }
    return Figure(**(values | changes))


def _task(name: str, *configurations: Configuration) -> Figure:
    """Returns a figure of this project, without claims."""
    return _figure(own=True, name=name, about=f"{name}: a task", configurations=configurations, claims=())


def _recorded(figure: Figure, label: str, seed_runs: Sequence[Run], *rest) -> pd.DataFrame:
    """Returns the records of a configuration's runs."""
    planned = next(one for one in figure.configurations if one.label == label)
    return results.joined([results.rows_of(figure, planned, seed_runs, *rest)])


def _run(folder: pathlib.Path, seed: int, **columns: Sequence[float]) -> Run:
    count = len(next(iter(columns.values())))
    return Run(folder, pd.DataFrame({"round_num": range(1, count + 1)} | columns), {"seed": seed}, "", {})


def _table(**changes) -> pd.DataFrame:
    """Returns records of three seeds; near minus far is 1.9, 2 and 2.1."""
    rows = [("near", seed, score) for seed, score in enumerate((3.9, 4.0, 4.1))] + [("far", n, 2.0) for n in range(3)]
    table = pd.DataFrame(rows, columns=["arm", "seed", "score"])
    table["picked:rate"] = [None] * 3 + [0.1] * 3
    return table.assign(**({"rounds": 9, "data": "d1", "commit": "c1", "machine": "m1"} | changes))


def _save(figure: Figure, table: pd.DataFrame, folder: pathlib.Path) -> results.Results:
    """Writes records and reads them."""
    path = results.path_of(figure, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False)
    return results.read(figure, path)


def _scores(scores: Mapping[str, Sequence[float]], **recorded) -> pd.DataFrame:
    """Returns records with a score for each seed of each configuration."""
    rows = []
    for arm, some in scores.items():
        own = {name: value[arm] if isinstance(value, dict) else value for name, value in recorded.items()}
        rows += [{"arm": arm, "seed": seed, "score": score} | own for seed, score in enumerate(some)]
    return pd.DataFrame(rows).assign(rounds=9, data="d", commit="c", machine="m")


@pytest.fixture
def known(monkeypatch):
    """Has the page know these figures alone, at both scales."""

    def use(*known_figures: Figure) -> None:
        def load(scale: str) -> dict[str, Figure]:
            found = {one.name: dataclasses.replace(one, scale=scale) for one in known_figures}
            return {name: one for name, one in found.items() if scale == figures.PAPER or not one.own}

        monkeypatch.setattr(figures, "load", load)

    return use


def test_records_are_a_row_a_run(tmp_path):
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        about = {"data_checksum": "d1", "git_commit": "0123456789abcdef"}
        (folder / "config.json").write_text(json.dumps(about))
    seed_runs = [_run(folders[0], 0, score=[0.0, 0.25]), _run(folders[1], 7, score=[0.0, 0.5])]
    table = _recorded(_figure(), "far", seed_runs, {"rate": 0.1})
    assert list(table) == ["arm", "seed", "score", "picked:rate", "rounds", "data", "commit", "machine"]
    assert table.iloc[1, :7].tolist() == ["far", 7, 0.5, 0.1, 2, "d1", "0123456789ab"]
    again = _save(_figure(), table, tmp_path).table
    pd.testing.assert_frame_equal(again, table, check_dtype=False)


@pytest.mark.parametrize(("rate", "is_edge"), [(0.1, True), (0.2, False)])
def test_records_keep_whether_a_pick_was_on_an_edge_of_the_grid_that_ran(tmp_path, rate, is_edge):
    far = Configuration("far", ("far",), (), sweeps=("rate=0.1;0.2;0.5",))
    table = _recorded(_figure(configurations=(far,)), "far", [_run(tmp_path, 0, score=[0.25])], {"rate": rate})
    wider = _figure(configurations=(dataclasses.replace(far, sweeps=("rate=0.01;0.1;0.2",)),))  # Declared later.
    found = _save(wider, table, tmp_path)
    assert found.picked("far") == {"rate": rate}
    assert found.edges("far") == [f"rate {rate}"] * is_edge


def test_a_run_that_diverged_is_recorded_as_one(tmp_path):
    seed_runs = [_run(tmp_path, 0, score=[0.25]), _run(tmp_path, 7, score=[0.5])]
    table = _recorded(_figure(), "far", seed_runs, {}, frozenset({7}))
    assert table["diverged"].tolist() == [0, 1]
    far = _save(_figure(), table, tmp_path).configurations["far"]
    assert (far.diverged, far.estimate("score").mean) == (frozenset({7}), 0.375)


def test_records_hold_what_the_uniform_policy_and_the_best_fixed_action_earn(tmp_path):
    figure = _figure(measures=(Measure("reward", "bandits/average_rewards"),), published=())
    folders = []
    for seed, noise in enumerate((0.0, 0.5)):
        folders.append(tmp_path / f"seed_{seed}")
        folders[-1].mkdir()
        about = {"format": run_folder.FORMAT, "flags": {"seed": seed, "noise_multiplier": noise}, "command": "run"}
        (folders[-1] / "config.json").write_text(json.dumps(about))
        bounds = {"participating": {"chance": 0.1, "constant": 0.3, "clients": 9, "population": 9}}
        (folders[-1] / "bounds.json").write_text(json.dumps(bounds))
        (folders[-1] / "metrics.csv").write_text(f"round_num,bandits/average_rewards\n1,{0.2 + seed / 100}\n")
    table = _recorded(figure, "far", list(map(runs.read, folders)), {})
    assert table[["chance", "constant"]].to_numpy().tolist() == [[0.1, 0.3]] * 2
    assert table["unpaired"].isna().tolist() == [True, False]
    found = results.Results(figure, table)
    assert found.configurations["far"].unpaired
    assert found.baselines["far"].summary == "above the uniform policy, below the best fixed action"
    bounds["participating"] |= {"chance_error": 0.05, "population": 99}
    for folder in folders:
        (folder / "bounds.json").write_text(json.dumps(bounds))
    table = _recorded(figure, "far", list(map(runs.read, folders)), {})
    assert table[["chance_error", "sampled_clients"]].to_numpy().tolist() == [[0.05, 9]] * 2
    # 0.205 and 0.1, of nine clients.
    summary = results.Results(figure, table).baselines["far"].summary
    assert summary == "not significantly different from the uniform policy"


def test_a_configuration_no_better_than_the_uniform_policy_is_noted():
    table = _table(chance=1.0).assign(score=[3.9, 4.0, 4.1, 0.9, 1.1, 1.05])
    found = results.Results(_figure(), table)
    assert {label: against.summary for label, against in found.baselines.items()} == {
        "near": "above the uniform policy",
        "far": "not significantly different from the uniform policy",
    }
    why = "near 4, far 1.02 (not significantly different from the uniform policy): +2.98 ("
    assert claims.judge(found)[0][0].why.startswith(why)
    assert "above the uniform policy" in page.Judged.of(results.Results(_figure(), table)).text()


def test_what_a_seed_does_not_determine_is_unpaired():
    figure = _figure(published=())
    # Seeds move both arms alike: pairs tell what two lots of three numbers do not.
    table = _table().assign(score=[10.5, 20.6, 30.4, 10.0, 20.0, 30.0])
    (paired,) = page.Judged.of(results.Results(figure, table)).lines
    (unpaired,) = page.Judged.of(results.Results(figure, table.assign(unpaired=1))).lines
    assert (paired.result.status, unpaired.result.status) == ("agrees", "inconclusive")


def test_an_infinite_number_and_none_are_kept_apart(tmp_path):
    table = _table(score=[float("inf"), None, 1.0, 1.0, 1.0, 1.0])
    near = _save(_figure(), table, tmp_path).configurations["near"]
    assert near.values["score"].tolist() == pytest.approx([float("inf"), float("nan"), 1.0], nan_ok=True)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a,b\n1,2", ".*seed"),
        ("arm,seed,rounds\nnear,0,9", ".*no column commit"),
        ("arm,seed,score,rounds,data,commit,machine", ".*no row"),
        ("arm,seed,score,rounds,data,commit,machine\nnear,,1,9,d,c,m", ".*NA"),
        ("arm,seed,score,rounds,data,commit,machine\nnear,0,abc,9,d,c,m", ".*abc"),
    ],
)
def test_damaged_records_are_named(tmp_path, lines, message):
    (tmp_path / "f1.csv").write_text(f"{lines}\n")
    with pytest.raises(UsageError, match=rf"f1\.csv holds no records \({message}"):
        results.read(_figure(), tmp_path / "f1.csv")


def test_an_epsilon_is_computed_without_a_run():
    flags = "--noise_multiplier=0.3 --population=342477 --clients_per_round=64 --total_rounds=1600 --target_delta=1e-6"
    command = f"scripts.privacy_budget {flags}"
    accounted = [Published("noise", "", value, "section 5.3", 0.1, privacy_flags=flags) for value in (15.8, 12.9)]
    for one, status in zip(accounted, ("agrees", "disagrees"), strict=True):
        line = page.Judged.of(results.Results(_figure(claims=(), published=(one,)), None)).lines[0]
        why = f"15.8, computed by RDP, one client added or removed: {command}"
        assert (line.source.says, line.result.status, line.result.why) == ("noise", status, why)


def test_lines_are_every_claim_and_number():
    figure = _figure()
    claim, number, rate = page.Judged.of(results.Results(figure, _table())).lines
    assert (claim.result.status, claim.means) == ("agrees", "Go near.")
    assert claim.result.why == "near 4, far 2: +2.00 (+1.75 to +2.25); adjusted p 0.0017"
    assert (number.source.says, number.published, number.result.status) == ("near: score", "4", "agrees")
    assert number.result.why == "4.00 (3.75 to 4.25); within 0.5 (our tolerance); adjusted p 0.013"
    assert (rate.result.status, rate.result.seeds) == ("inconclusive", 0)
    assert {one.result.status for one in page.Judged.of(results.Results(figure, None)).lines} == {"not run"}


def test_a_page_has_own_figures_with_differences_and_what_they_mean(tmp_path, known):
    figure = _figure(own=True, published=())
    known(figure, _figure(own=True, name="f2", about="Figure 2: another"))
    _save(figure, _table(), tmp_path / "evidence")
    made = page.made(tmp_path / "evidence")
    assert (
        "| near | 4.00 (3.75 to 4.25) | +2.00 (+1.75 to +2.25) |  |\n| far | 2 (the same in every seed) |  | 0.1 |"
        in made
    )
    # Student's t of 2 / (0.1 / sqrt(3)) with 2 degrees of freedom.
    assert "| near | far | 0.00083 | 100% | " in made
    assert (
        "| near is better (section 2) | **agrees (paper's data)** | near 4, far 2: +2.00 (+1.75 to +2.25); "
        "adjusted p 0.00083 | Go near. |" in made
    )
    assert "The paper's data. 3 seeds (0 to 2), 9 rounds; recorded on m1; run at c1." in made
    assert "./scripts/python -m scripts.reproduce --figure=f1\n" in made
    assert "### Not run yet\n\n- Figure 2: another" in made


@pytest.mark.parametrize(("tried", "is_reported"), [("0.1;0.2;0.5", True), ("0.01;0.1;0.5", False), ("0.1;0.2", False)])
def test_a_pick_at_the_edge_of_three_or_more_is_reported(tmp_path, known, tried, is_reported):
    arms = (Configuration("near", ("near",), ()), Configuration("far", ("far",), (), sweeps=(f"rate={tried}",)))
    figure = _figure(configurations=arms)
    known(figure)
    _save(figure, _table(), tmp_path / "evidence")
    printed = "Best points on an edge of the grid: far (rate 0.1)."
    assert (f"**{printed.replace(':', ':**')}\n" in page.made(tmp_path / "evidence")) == is_reported
    assert (printed in page.Judged.of(results.Results(figure, _table())).text()) == is_reported


def test_a_figure_has_scores_and_comparisons_along_the_reference_s_axis(tmp_path, known):
    arms = tuple(Configuration(f"near, {word}", ("near", word), ()) for word in ("stays", "goes"))
    own = dataclasses.replace(_task("f1", *arms, *BASELINES), published=(), reference="stays")
    known(own, _figure(name="f2", configurations=(NEAR, *BASELINES)))
    scores = {"near, stays": (4.9, 5.0, 5.1), "near, goes": (6.9, 7.0, 7.1), "near": (4.9, 5.0, 5.1)}
    _save(own, _scores(scores | {"chance": (0.0,) * 3, "ceiling": (10.0,) * 3}), tmp_path)
    _save(
        dataclasses.replace(own, name="f2"), _scores(scores | {"chance": (0.0,) * 3, "ceiling": (10.0,) * 3}), tmp_path
    )
    made = page.made(tmp_path)
    assert "|  | score | score minus stays | compared with bounds |" in made
    assert "| near, stays | 5.00 (4.75 to 5.25) |  | at a normalized score of 0.50 |" in made
    assert "| near, goes | 7.00 (6.75 to 7.25) | +2 (the same in every seed) | at a normalized score of 0.70 |" in made
    assert "| near | 5.00 (4.75 to 5.25) |  | at a normalized score of 0.50 |" in made  # A paper's figure.


@pytest.mark.parametrize(
    ("labels", "title", "score", "left_out"),
    [
        ([("near, often", 4.0), ("near, seldom", 8.0)], "f1, often; f2, seldom", 0.6, ""),
        ([("near", 4.0), ("adam", 4.0), ("near", 4.0)], "f1; f3", 0.4, ""),
        ([("near", 4.0)], "", 0.0, ""),
    ],
)
def test_a_page_has_scores_over_own_figures_with_baselines(tmp_path, known, labels, title, score, left_out):
    tasks = []
    for place, (label, near) in enumerate(labels, 1):
        tasks.append(_task(f"f{place}", Configuration(label, tuple(label.split(", ")), ()), *BASELINES))
        some = {label: near, "chance": 0.0, "ceiling": 10.0}
        _save(tasks[-1], _scores({arm: (value,) * 5 for arm, value in some.items()}), tmp_path)
    known(*tasks)
    made = page.made(tmp_path)
    assert ("### Over" in made) == bool(title)
    if title:
        head = f"### Over 2 tasks ({title})\n\n| Configuration | Seeds of each task | Normalized score |\n"
        assert head in made
        assert "\nMetric: score. Normalized scores are 0 at the uniform policy" in made
        assert f"| near | 5 | {score} (the same in every seed) |" in made
        assert left_out in made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("often", "seldom"),
    [("--bandits_deploy_freq=5", "--bandits_deploy_freq=50"), ("--reward_drift=abrupt", "--bandits_type=greedy")],
)
def test_scores_over_tasks_use_the_baseline_with_the_same_deployment_and_environment(tmp_path, known, often, seldom):
    # Of what is deployed often, near earns more than the ceiling that is deployed seldom, and half of its own.
    arms = tuple(
        Configuration(label, (label,), (flag,))
        for label, flag in (("near", often), ("far", seldom), ("chance", seldom), ("ceiling", seldom))
    )
    own = Configuration("ceiling, often", ("ceiling, often",), (often,))
    tasks = [_task(name, *arms, own) for name in ("f1", "f2")]
    known(*tasks)
    scores = {"near": 12.0, "far": 5.0, "chance": 0.0, "ceiling": 10.0, "ceiling, often": 24.0}

    def write(*labels: str) -> None:
        for figure in tasks:
            _save(figure, _scores({arm: (scores[arm],) * 5 for arm in labels}), tmp_path)

    write(*scores)
    made = page.made(tmp_path)
    assert "| near | 5 | 0.5 (the same in every seed) |\n| far | 5 | 0.5 (the same in every seed) |" in made
    write("near", "far", "chance", "ceiling")
    made = page.made(tmp_path)
    assert "| far | 5 | 0.5 (the same in every seed) |" in made
    write("near", "chance", "ceiling")
    assert "### Over 2 tasks" not in page.made(tmp_path)


@pytest.mark.parametrize(
    ("flag", "word"),
    [
        ("--max_examples_per_client=9", ""),
        ("--bandits_deploy_freq=5", "above the uniform policy"),
        ("--client_selection=pow_d", ""),
        ("--reward_drift=abrupt", "above the uniform policy"),
        ("--server_learning_rate=0.02", "at a normalized score of 0.50"),
    ],
)
def test_baselines_have_the_configuration_s_clients_and_environment(flag, word):
    figure = _figure(configurations=(Configuration("near", ("near",), (flag,)), *BASELINES))
    scores = {"near": (4.9, 5.0, 5.1), "chance": (0.0,) * 3, "ceiling": (10.0,) * 3}
    against = results.Results(figure, _scores(scores)).baselines
    assert (against["near"].summary if "near" in against else "") == word


@pytest.mark.parametrize(
    ("flags", "rounds", "constant"),
    [
        ("--reward_drift=abrupt", 5, 2.0),
        ("", 6, 3.0),
        ("--reward_drift=abrupt", 6, None),
        ("--reward_drift=abrupt --drift_every=2", 5, None),
        ("--reward_drift=linear", 2, None),
        ("--max_examples_per_client=9", 5, 3.0),
        ("--reward_drift=abrupt --cache=persistent", 5, None),
        ("--reward_drift=abrupt --drift_environment=1", 6, 3.0),
    ],
)
def test_the_best_fixed_action_of_the_last_rounds_needs_one_environment(flags, rounds, constant):
    own = {"near": flags, "chance": ""}
    arms = [Configuration(name, (name,), ("--total_rounds=10", *some.split())) for name, some in own.items()]
    measures = (Measure("score", "bandits/round_rewards", f"last {rounds}"),)
    figure = _figure(configurations=tuple(arms), measures=measures)
    scores = {"near": (4.0, 4.5), "chance": (4.0, 4.5)}
    near = results.Results(figure, _scores(scores, chance=1.0, constant={"near": 3.0, "chance": 2.0})).baselines["near"]
    assert (near.fixed.reference_mean if near.fixed else None) == constant
    assert near.uniform.reference_mean == 1.0  # What is computed counts before what was drawn, 4.25.


def test_a_page_states_what_is_missing_of_a_figure(tmp_path, known):
    figure = _figure(own=True, measures=(Measure("score", "bandits/average_rewards"),))
    known(figure)
    table = _table(constant=1.25).assign(seed=[0, 1, 7] * 2)
    _save(figure, table.iloc[:4], tmp_path)
    made = page.made(tmp_path)
    assert "**Fewer seeds so far:** far (1)." in made
    assert "--figure=f1 --repeat=8\n" in made
    assert "| the best fixed action | 1.25 |  |  |  |\n" in made
    _save(figure, _table().iloc[:3], tmp_path)
    made = page.made(tmp_path)
    assert "**Not run yet:** far." in made
    assert "2 claims more: not run." in made


def test_a_page_counts_verdicts_and_names_what_was_not_run(tmp_path, known):
    figure = _figure()
    known(figure, _figure(name="f2"))
    _save(dataclasses.replace(figure, scale="small"), _table(), tmp_path)
    made = page.made(tmp_path)
    # Without the paper's settings a number is not comparable.
    assert "| Nobody 2020 | paper's data | 1 | 0 | 0 | 0 | 0 | 0 | 2 | 3 |\n" in made
    assert "**agrees (paper's data, small scale)** |" in made
    assert "--figure=f1 --scale=small\n" in made
    _save(figure, _table(), tmp_path)
    again = page.made(tmp_path)
    assert "--figure=f1 --scale=small\n" not in again  # All of it was run at the paper's scale.
    assert "| Nobody 2020 | paper's data | 2 | 0 | 0 | 0 | 1 | 0 | 0 | 3 |\n" in again
    assert (
        "| near: score | Table 1 | 4 | 4.00 (3.75 to 4.25); within 0.5 (our tolerance); adjusted p 0.013 | 3 "
        "| **agrees (paper's data)** |\n" in again
    )
    assert "Not run: f2." in made


def test_a_page_shows_all_measures_of_a_paper_s_figure(tmp_path, known):
    figure = _figure(measures=(Measure("score", "score"), Measure("share", "share")), published=(), reference=None)
    known(figure)
    _save(figure, _table().assign(share=[0.4, 0.5, 0.6] + [0.25] * 3), tmp_path)
    made = page.made(tmp_path)
    assert "|  | score | share | rate |\n" in made
    assert "| near | 4.00 (3.75 to 4.25) | 0.50 (0.25 to 0.75) |  |\n" in made
