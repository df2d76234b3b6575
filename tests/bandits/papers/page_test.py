import dataclasses
from collections.abc import Sequence

import pandas as pd
import pytest

from bandits.papers import figures, page, results
from bandits.papers.plan import Figure, Measure, Published
from bandits.plans.plan import Configuration
from tests.bandits.papers.toy_records import BASELINES, NEAR, save, score_table, toy_figure, toy_table


def _task(name: str, *configurations: Configuration) -> Figure:
    return toy_figure(own=True, name=name, about=f"{name}: a task", configurations=configurations, claims=())


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Writes the records of figures, and returns the page of these and other figures."""

    def of(*recorded: tuple[Figure, pd.DataFrame], others: Sequence[Figure] = ()) -> str:
        def load(scale: str) -> dict[str, Figure]:
            known = [dataclasses.replace(one, scale=scale) for one in (*(figure for figure, _ in recorded), *others)]
            return {one.name: one for one in known if scale == figures.PAPER or not one.own}

        monkeypatch.setattr(figures, "load", load)
        for figure, table in recorded:
            save(figure, table, tmp_path)
        return page.made(tmp_path)

    return of


def test_a_rehearsal_is_shown_without_verdicts_wherever_its_records_lie(made, tmp_path):
    own, of_paper = toy_figure(own=True), toy_figure(name="f2")
    table = toy_table().assign(rehearsal=9)
    save(own.marked(9), table, tmp_path)
    assert (tmp_path / "paper_rehearsal" / "f1.csv").is_file()
    text = made((of_paper, table), others=[own])
    for name in ("f1", "f2"):
        assert f"**{name}**: Rehearsal of 9 rounds, no result: Figure 1: a toy" in text
    assert "./scripts/python -m scripts.reproduce --figure=f1 --rounds=9\n" in text
    assert "| near | 4.00 (3.75 to 4.25) |" in text
    assert "near is better" not in text
    assert page.Judged.of(results.read(own, tmp_path / "paper" / "f2.csv")).lines == []


def test_a_configuration_no_better_than_the_uniform_policy_is_noted():
    table = toy_table(chance=1.0).assign(score=[3.9, 4.0, 4.1, 0.9, 1.1, 1.05])
    judged = page.Judged.of(results.Results(toy_figure(), table))
    why = "near 4.00, far 1.02 (not significantly different from the uniform policy): +2.98 ("
    assert judged.lines[0].result.why.startswith(why)
    assert "above the uniform policy" in judged.text()


def test_what_a_seed_does_not_determine_is_unpaired():
    figure = toy_figure(published=())
    # Seeds move both arms alike: pairs tell what two lots of three numbers do not.
    table = toy_table().assign(score=[10.5, 20.6, 30.4, 10.0, 20.0, 30.0])
    (paired,) = page.Judged.of(results.Results(figure, table)).lines
    (unpaired,) = page.Judged.of(results.Results(figure, table.assign(unpaired=1))).lines
    assert (paired.result.status, unpaired.result.status) == ("agrees", "inconclusive")


def test_an_epsilon_is_computed_without_a_run():
    flags = "--noise_multiplier=0.3 --population=342477 --clients_per_round=64 --total_rounds=1600 --target_delta=1e-6"
    command = f"scripts.privacy_budget {flags}"
    accounted = [Published("noise", "", value, "section 5.3", 0.1, privacy_flags=flags) for value in (15.8, 12.9)]
    for one, status in zip(accounted, ("agrees", "disagrees"), strict=True):
        line = page.Judged.of(results.Results(toy_figure(claims=(), published=(one,)), None)).lines[0]
        why = f"15.8, computed by RDP, one client added or removed: {command}"
        assert (line.source.says, line.result.status, line.result.why) == ("noise", status, why)


def test_lines_are_every_claim_and_number():
    figure = toy_figure()
    claim, number, rate = page.Judged.of(results.Results(figure, toy_table())).lines
    assert (claim.result.status, claim.means) == ("agrees", "Go near.")
    assert claim.result.why == "near 4.00, far 2: +2.00 (+1.75 to +2.25); adjusted p 0.0017"
    assert (number.source.says, number.published, number.result.status) == ("near: score", "4", "agrees")
    assert number.result.why == "4.00 (3.75 to 4.25); within 0.5 (our tolerance); adjusted p 0.013"
    assert (rate.result.status, rate.result.seeds) == ("inconclusive", 0)
    assert {one.result.status for one in page.Judged.of(results.Results(figure, None)).lines} == {"not run"}


def test_a_page_has_own_figures_with_differences_and_what_they_mean(made):
    other = toy_figure(own=True, name="f2", about="Figure 2: another")
    text = made((toy_figure(own=True, published=()), toy_table()), others=[other])
    assert "| near | 4.00 (3.75 to 4.25) | +2.00 (+1.75 to +2.25) |  |\n" in text
    assert "| far | 2 (the same in every seed) |  | 0.1 |" in text
    # Student's t of 2 / (0.1 / sqrt(3)) with 2 degrees of freedom.
    assert "| near | far | 0.00083 | 100% | " in text
    assert "| near is better (section 2) | **agrees (paper's data)** | near 4.00, far 2: +2.00" in text
    assert "; adjusted p 0.00083 | Go near. |" in text
    assert "The paper's data. 3 seeds (0 to 2), 9 rounds; recorded on m1; run at c1." in text
    assert "./scripts/python -m scripts.reproduce --figure=f1\n" in text
    assert "### Not run yet\n\n- Figure 2: another" in text


@pytest.mark.parametrize(("tried", "is_reported"), [("0.1;0.2;0.5", True), ("0.01;0.1;0.5", False), ("0.1;0.2", False)])
def test_a_best_point_at_the_edge_of_three_or_more_is_reported(made, tried, is_reported):
    figure = toy_figure(configurations=(NEAR, Configuration("far", ("far",), (), sweeps=(f"rate={tried}",))))
    printed = "Best points on an edge of the grid: far (rate 0.1)."
    assert (f"**{printed.replace(':', ':**')}\n" in made((figure, toy_table()))) == is_reported
    assert (printed in page.Judged.of(results.Results(figure, toy_table())).text()) == is_reported


def test_a_figure_has_scores_and_comparisons_along_the_reference_s_axis(made):
    arms = tuple(Configuration(f"near, {word}", ("near", word), ()) for word in ("stays", "goes"))
    own = dataclasses.replace(_task("f1", *arms, *BASELINES), published=(), reference="stays")
    of_paper = toy_figure(name="f2", configurations=(NEAR, *BASELINES))
    scores = {"near, stays": (4.9, 5.0, 5.1), "near, goes": (6.9, 7.0, 7.1), "near": (4.9, 5.0, 5.1)}
    table = score_table(scores | {"chance": (0.0,) * 3, "ceiling": (10.0,) * 3})
    text = made((own, table), (of_paper, table))
    assert "|  | score | score minus stays | compared with bounds |" in text
    assert "| near, stays | 5.00 (4.75 to 5.25) |  | at a normalized score of 0.50 |" in text
    assert "| near, goes | 7.00 (6.75 to 7.25) | +2 (the same in every seed) | at a normalized score of 0.70 |" in text
    assert "| near | 5.00 (4.75 to 5.25) |  | at a normalized score of 0.50 |" in text


@pytest.mark.parametrize(
    ("labels", "title", "score"),
    [
        ([("near, often", 4.0), ("near, seldom", 8.0)], "f1, often; f2, seldom", 0.6),
        ([("near", 4.0), ("adam", 4.0), ("near", 4.0)], "f1; f3", 0.4),
    ],
)
def test_a_page_has_scores_over_own_figures_with_baselines(made, labels, title, score):
    tasks = []
    for place, (label, near) in enumerate(labels, 1):
        task = _task(f"f{place}", Configuration(label, tuple(label.split(", ")), ()), *BASELINES)
        tasks.append((task, score_table({label: [near] * 5, "chance": [0.0] * 5, "ceiling": [10.0] * 5})))
    text = made(*tasks)
    assert f"### Over 2 tasks ({title})\n\n| Configuration | Seeds of each task | Normalized score |\n" in text
    assert "\nMetric: score. Normalized scores are 0 at the uniform policy" in text
    assert f"| near | 5 | {score} (the same in every seed) |" in text


@pytest.mark.slow
def test_scores_over_tasks_use_the_baseline_with_the_same_deployment_period(made):
    scores = {"near": 12.0, "ceiling, often": 24.0, "chance": 0.0, "far": 5.0, "ceiling": 10.0}
    flags = ["--bandits_deploy_freq=5"] * 2 + ["--bandits_deploy_freq=50"] * 3
    arms = [Configuration(label, (label,), (flag,)) for label, flag in zip(scores, flags, strict=True)]
    tasks = [_task(name, *arms) for name in ("f1", "f2")]

    def recorded(*labels: str) -> str:
        table = score_table({label: (scores[label],) * 5 for label in labels})
        return made(*((task, table) for task in tasks))

    rows = "| near | 5 | 0.5 (the same in every seed) |\n| far | 5 | 0.5 (the same in every seed) |"
    assert rows in recorded(*scores)
    assert "### Over 2 tasks" not in recorded("near", "chance", "ceiling")


def test_a_page_states_what_is_missing_of_a_figure(made):
    figure = toy_figure(own=True, measures=(Measure("score", "bandits/average_rewards"),))
    text = made((figure, toy_table(constant=1.25).assign(seed=[0, 1, 7] * 2).iloc[:4]))
    assert "**Fewer seeds so far:** far (1)." in text
    assert "--figure=f1 --repeat=8\n" in text
    assert "| the best fixed action | 1.25 |  |  |  |\n" in text
    text = made((figure, toy_table().iloc[:3]))
    assert "**Not run yet:** far." in text
    assert "2 claims more: not run." in text


def test_a_page_counts_verdicts_and_names_what_was_not_run(made):
    figure, others = toy_figure(), [toy_figure(name="f2")]
    text = made((dataclasses.replace(figure, scale="small"), toy_table()), others=others)
    # Without the paper's settings a number is not comparable.
    assert "| Nobody 2020 | paper's data | 1 | 0 | 0 | 0 | 0 | 0 | 2 | 3 |\n" in text
    assert "**agrees (paper's data, small scale)** |" in text
    assert "--figure=f1 --scale=small\n" in text
    again = made((figure, toy_table()), others=others)
    assert "--figure=f1 --scale=small\n" not in again  # All of it was run at the paper's scale.
    assert "| Nobody 2020 | paper's data | 2 | 0 | 0 | 0 | 1 | 0 | 0 | 3 |\n" in again
    assert "adjusted p 0.013 | 3 | **agrees (paper's data)** |\n" in again
    assert "Not run: f2." in again


def test_a_page_shows_all_measures_of_a_paper_s_figure(made):
    figure = toy_figure(measures=(Measure("score", "score"), Measure("share", "share")), published=(), reference=None)
    text = made((figure, toy_table().assign(share=[0.4, 0.5, 0.6] + [0.25] * 3)))
    assert "|  | score | share | rate |\n" in text
    assert "| near | 4.00 (3.75 to 4.25) | 0.50 (0.25 to 0.75) |  |\n" in text
