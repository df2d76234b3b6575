import dataclasses

import pytest

from bandits.papers import figures, page, results
from bandits.papers.plan import Figure, Measure, Published
from bandits.plans.plan import Configuration
from tests.bandits.papers.toy_records import BASELINES, NEAR, save, score_table, toy_figure, toy_table


def _task(name: str, *configurations: Configuration) -> Figure:
    return toy_figure(own=True, name=name, about=f"{name}: a task", configurations=configurations, claims=())


@pytest.fixture
def known(monkeypatch):
    def use(*known_figures: Figure) -> None:
        def load(scale: str) -> dict[str, Figure]:
            found = {one.name: dataclasses.replace(one, scale=scale) for one in known_figures}
            return {name: one for name, one in found.items() if scale == figures.PAPER or not one.own}

        monkeypatch.setattr(figures, "load", load)

    return use


def test_a_rehearsal_is_shown_without_verdicts_wherever_its_records_lie(tmp_path, known):
    figure = toy_figure(own=True)
    known(figure, toy_figure(name="f2"))
    table = toy_table().assign(rehearsal=9)
    save(figure.marked(9), table, tmp_path / "evidence")
    assert (tmp_path / "evidence" / "paper_rehearsal" / "f1.csv").is_file()
    save(toy_figure(name="f2"), table, tmp_path / "evidence")
    made = page.made(tmp_path / "evidence")
    for name in ("f1", "f2"):
        assert f"**{name}**: Rehearsal of 9 rounds, no result: Figure 1: a toy" in made
    assert "./scripts/python -m scripts.reproduce --figure=f1 --rounds=9\n" in made
    assert "| near | 4.00 (3.75 to 4.25) |" in made
    assert "near is better" not in made
    assert page.Judged.of(results.read(figure, tmp_path / "evidence" / "paper" / "f2.csv")).lines == []


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


def test_a_page_has_own_figures_with_differences_and_what_they_mean(tmp_path, known):
    figure = toy_figure(own=True, published=())
    known(figure, toy_figure(own=True, name="f2", about="Figure 2: another"))
    save(figure, toy_table(), tmp_path / "evidence")
    made = page.made(tmp_path / "evidence")
    assert "| near | 4.00 (3.75 to 4.25) | +2.00 (+1.75 to +2.25) |  |\n" in made
    assert "| far | 2 (the same in every seed) |  | 0.1 |" in made
    # Student's t of 2 / (0.1 / sqrt(3)) with 2 degrees of freedom.
    assert "| near | far | 0.00083 | 100% | " in made
    assert "| near is better (section 2) | **agrees (paper's data)** | near 4.00, far 2: +2.00" in made
    assert "; adjusted p 0.00083 | Go near. |" in made
    assert "The paper's data. 3 seeds (0 to 2), 9 rounds; recorded on m1; run at c1." in made
    assert "./scripts/python -m scripts.reproduce --figure=f1\n" in made
    assert "### Not run yet\n\n- Figure 2: another" in made


@pytest.mark.parametrize(("tried", "is_reported"), [("0.1;0.2;0.5", True), ("0.01;0.1;0.5", False), ("0.1;0.2", False)])
def test_a_best_point_at_the_edge_of_three_or_more_is_reported(tmp_path, known, tried, is_reported):
    arms = (Configuration("near", ("near",), ()), Configuration("far", ("far",), (), sweeps=(f"rate={tried}",)))
    figure = toy_figure(configurations=arms)
    known(figure)
    save(figure, toy_table(), tmp_path / "evidence")
    printed = "Best points on an edge of the grid: far (rate 0.1)."
    assert (f"**{printed.replace(':', ':**')}\n" in page.made(tmp_path / "evidence")) == is_reported
    assert (printed in page.Judged.of(results.Results(figure, toy_table())).text()) == is_reported


def test_a_figure_has_scores_and_comparisons_along_the_reference_s_axis(tmp_path, known):
    arms = tuple(Configuration(f"near, {word}", ("near", word), ()) for word in ("stays", "goes"))
    own = dataclasses.replace(_task("f1", *arms, *BASELINES), published=(), reference="stays")
    known(own, toy_figure(name="f2", configurations=(NEAR, *BASELINES)))
    scores = {"near, stays": (4.9, 5.0, 5.1), "near, goes": (6.9, 7.0, 7.1), "near": (4.9, 5.0, 5.1)}
    table = score_table(scores | {"chance": (0.0,) * 3, "ceiling": (10.0,) * 3})
    save(own, table, tmp_path)
    save(dataclasses.replace(own, name="f2"), table, tmp_path)
    made = page.made(tmp_path)
    assert "|  | score | score minus stays | compared with bounds |" in made
    assert "| near, stays | 5.00 (4.75 to 5.25) |  | at a normalized score of 0.50 |" in made
    assert "| near, goes | 7.00 (6.75 to 7.25) | +2 (the same in every seed) | at a normalized score of 0.70 |" in made
    assert "| near | 5.00 (4.75 to 5.25) |  | at a normalized score of 0.50 |" in made  # A paper's figure.


@pytest.mark.parametrize(
    ("labels", "title", "score"),
    [
        ([("near, often", 4.0), ("near, seldom", 8.0)], "f1, often; f2, seldom", 0.6),
        ([("near", 4.0), ("adam", 4.0), ("near", 4.0)], "f1; f3", 0.4),
    ],
)
def test_a_page_has_scores_over_own_figures_with_baselines(tmp_path, known, labels, title, score):
    tasks = []
    for place, (label, near) in enumerate(labels, 1):
        tasks.append(_task(f"f{place}", Configuration(label, tuple(label.split(", ")), ()), *BASELINES))
        save(tasks[-1], score_table({label: [near] * 5, "chance": [0.0] * 5, "ceiling": [10.0] * 5}), tmp_path)
    known(*tasks)
    made = page.made(tmp_path)
    assert f"### Over 2 tasks ({title})\n\n| Configuration | Seeds of each task | Normalized score |\n" in made
    assert "\nMetric: score. Normalized scores are 0 at the uniform policy" in made
    assert f"| near | 5 | {score} (the same in every seed) |" in made


@pytest.mark.slow
def test_scores_over_tasks_use_the_baseline_with_the_same_deployment_period(tmp_path, known):
    scores = {"near": 12.0, "ceiling, often": 24.0, "chance": 0.0, "far": 5.0, "ceiling": 10.0}
    flags = ["--bandits_deploy_freq=5"] * 2 + ["--bandits_deploy_freq=50"] * 3
    arms = [Configuration(label, (label,), (flag,)) for label, flag in zip(scores, flags, strict=True)]
    tasks = [_task(name, *arms) for name in ("f1", "f2")]
    known(*tasks)

    def made(*labels: str) -> str:
        for figure in tasks:
            save(figure, score_table({label: (scores[label],) * 5 for label in labels}), tmp_path)
        return page.made(tmp_path)

    rows = "| near | 5 | 0.5 (the same in every seed) |\n| far | 5 | 0.5 (the same in every seed) |"
    assert rows in made(*scores)
    assert "### Over 2 tasks" not in made("near", "chance", "ceiling")


def test_a_page_states_what_is_missing_of_a_figure(tmp_path, known):
    figure = toy_figure(own=True, measures=(Measure("score", "bandits/average_rewards"),))
    known(figure)
    table = toy_table(constant=1.25).assign(seed=[0, 1, 7] * 2)
    save(figure, table.iloc[:4], tmp_path)
    made = page.made(tmp_path)
    assert "**Fewer seeds so far:** far (1)." in made
    assert "--figure=f1 --repeat=8\n" in made
    assert "| the best fixed action | 1.25 |  |  |  |\n" in made
    save(figure, toy_table().iloc[:3], tmp_path)
    made = page.made(tmp_path)
    assert "**Not run yet:** far." in made
    assert "2 claims more: not run." in made


def test_a_page_counts_verdicts_and_names_what_was_not_run(tmp_path, known):
    figure = toy_figure()
    known(figure, toy_figure(name="f2"))
    save(dataclasses.replace(figure, scale="small"), toy_table(), tmp_path)
    made = page.made(tmp_path)
    # Without the paper's settings a number is not comparable.
    assert "| Nobody 2020 | paper's data | 1 | 0 | 0 | 0 | 0 | 0 | 2 | 3 |\n" in made
    assert "**agrees (paper's data, small scale)** |" in made
    assert "--figure=f1 --scale=small\n" in made
    save(figure, toy_table(), tmp_path)
    again = page.made(tmp_path)
    assert "--figure=f1 --scale=small\n" not in again  # All of it was run at the paper's scale.
    assert "| Nobody 2020 | paper's data | 2 | 0 | 0 | 0 | 1 | 0 | 0 | 3 |\n" in again
    assert "adjusted p 0.013 | 3 | **agrees (paper's data)** |\n" in again
    assert "Not run: f2." in made


def test_a_page_shows_all_measures_of_a_paper_s_figure(tmp_path, known):
    figure = toy_figure(measures=(Measure("score", "score"), Measure("share", "share")), published=(), reference=None)
    known(figure)
    save(figure, toy_table().assign(share=[0.4, 0.5, 0.6] + [0.25] * 3), tmp_path)
    made = page.made(tmp_path)
    assert "|  | score | share | rate |\n" in made
    assert "| near | 4.00 (3.75 to 4.25) | 0.50 (0.25 to 0.75) |  |\n" in made
