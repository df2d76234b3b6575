"""Tests of scripts.reproduce and its plan, results and pictures, with an experiment that needs no TensorFlow."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
from matplotlib import figure as matplotlib_figure

from bandits import studies
from bandits.papers import claims, figures, pictures, records, results, running, scoreboard
from bandits.papers.claims import DISAGREES, NOT_RUN
from bandits.papers.plan import PAPER_DATA, Claim, Figure, Measure, Published
from bandits.plans import plan
from bandits.plans.plan import Configuration
from bandits.results import runs
from bandits.results.configuration import Configuration as FinishedConfiguration
from data.errors import UsageError
from optimization.study import run_folder
from optimization.study.results import Run
from scripts import reproduce
from tests.scripts import toy_binary

pytestmark = pytest.mark.slow

TOY = "tests.scripts.toy_binary"
SCORE = Measure("score", "score")
LOSS = Measure("loss", "loss", smallest=True)


def _figure(**changes) -> Figure:
    arms = (Configuration("near", ("near",), ("--rate=0.1",)), Configuration("far", ("far",), ("--rate=1",)))
    values = {
        "name": "f1",
        "text": "Nobody 2020",
        "about": "Figure 1: a toy",
        "binary": "toy",
        "configurations": arms,
        "repeat": 2,
        "measures": (SCORE,),
        "curves": ("score",),
        "published": (Published("near", "score", 4.0, "section 1"),),
        "claims": (Claim("near is better", "section 2", "order", (("near",), ("far",))),),
        "data_kind": "paper's data",
        "tuning_seeds": (100, 101),
    }
    return Figure(**(values | changes))


def _runs(tmp_path, label: str, *seeds: dict) -> dict[int, Run]:
    """Writes run folders and returns the runs by seed."""
    by_seed = {}
    for seed, columns in enumerate(seeds):
        folder = tmp_path / label / f"seed_{seed}"
        folder.mkdir(parents=True)
        table = pd.DataFrame({"round_num": range(1, len(next(iter(columns.values()))) + 1)} | columns)
        table.to_csv(folder / "metrics.csv", index=False)
        by_seed[seed] = Run(folder, table, {}, "", {})
    return by_seed


def _found(tmp_path, figure: Figure, label: str, *seeds: dict) -> FinishedConfiguration:
    planned = next(one for one in figure.configurations if one.label == label)
    return results.of_runs(figure, planned, list(_runs(tmp_path, label, *seeds).values()), {})


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Reproduces toy figures in this process and returns the exit status."""
    monkeypatch.setitem(studies.STUDIES, "toy", TOY)

    def start(figure: Figure, *arguments: str) -> int:
        monkeypatch.setattr(figures, "load", lambda scale: {figure.name: figure})
        own = (
            f"--root_output_dir={tmp_path}",
            "--experiment_name=r",
            f"--figure={figure.name}",
            "--scale=small",
        )
        if "--executor=slurm_script" not in arguments:
            own = (*own, "--workers=1")
        return reproduce.program(reproduce.define().parse(["reproduce", *own, *arguments]))

    return start


RISES = [0.1, 0.5, 0.2, 0.4]
PEAKS = [[0.1, 0.9, 0.2], [0.8, 0.3, 0.1], [0.6, 0.5, 0.2], [0.7, 0.4, 0.1]]  # Means of even seeds: 0.35, 0.7, 0.2.


@pytest.mark.parametrize(
    ("at", "seeds", "expected"),
    [
        ("last", [RISES], [0.4]),
        ("last 2", [RISES], [0.3]),
        ("first", [RISES], [0.1]),
        ("mean", [RISES], [0.3]),
        ("max", [RISES], [0.5]),
        (2, [RISES], [0.5]),
        (9, [RISES], [math.nan]),
        ("rounds to 0.5", [RISES], [2.0]),
        ("rounds to 0.6", [[0.1, 0.5]], [math.inf]),  # What is not reached is infinitely late.
        ("share of 1", [[-1, 1, 0, 1, math.nan, 1]], [0.75]),  # Of the rounds that have a value of 0 or more.
        # Residuals -0.1, 0 and 0.1, 0 to a mean that is drawn towards both.
        ("deviation", [[0.5, 0.9], [0.7, 0.9]], [0.1, 0.1]),
        ("deviation", [[0.5, 0.9]], [math.nan]),
        ("chosen peak", PEAKS, [math.nan, 0.3, math.nan, 0.4]),
    ],
)
def test_a_measure_is_taken_at_its_round(tmp_path, at, seeds, expected):
    found = _runs(tmp_path, "arm", *({"score": curve} for curve in seeds))
    assert results.measured(Measure("m", "score", at), found) == pytest.approx(expected, nan_ok=True)


def test_mean_square_deviations_are_the_variance_over_seeds(tmp_path):
    curves = [[0.5, 0.9, 0.2], [0.7, 0.8, 0.4], [0.1, 0.9, 0.9]]
    found = _runs(tmp_path, "arm", *({"auc": curve} for curve in curves))
    deviations = results.measured(Measure("m", "auc", "deviation"), found)
    assert np.mean(np.square(deviations)) == pytest.approx(np.var(curves, axis=0, ddof=1).mean())


@pytest.mark.parametrize(("last", "holds"), [(0.2, claims.AGREES), (0.9, claims.INCONCLUSIVE)])
def test_a_fall_after_the_chosen_peak_is_judged_by_the_seeds_that_did_not_choose_it(tmp_path, last, holds):
    curves = [[0.1, 0.9, last + 0.001 * seed] for seed in range(12)]
    measures = (Measure("peak", "auc", "chosen peak"), Measure("end", "auc"))
    falls = Claim("falls", "here", "order", (("arm @ peak",), ("arm @ end",)))
    figure = _figure(configurations=(Configuration("arm", ("arm",), ()),), measures=measures, claims=(falls,))
    found = _found(tmp_path, figure, "arm", *({"auc": curve} for curve in curves))
    (verdict,) = claims.judge(results.of_records(figure, records.of({"arm": found}))).claims
    assert (verdict.status, verdict.seeds) == (holds, 6)
    assert f"end {last + 0.006:.3g}:" in verdict.why  # The end's mean is that of seeds 1, 3, ..., 11, too.


def test_an_array_of_the_run_folder_is_measured_by_its_mean_or_that_of_absolute_values(tmp_path):
    found = _runs(tmp_path, "arm", {"score": [1.0]})
    np.savez(found[0].folder / "d.npz", skewness=[-1.0, 3.0, math.nan])
    assert results.measured(Measure("m", "d.npz:skewness"), found) == [1.0]
    assert results.measured(Measure("m", "?.npz:|skewness|"), found) == [2.0]
    for column in ("d.npz:kurtosis", "reward"):
        with pytest.raises(UsageError, match=column.partition(":")[2] or column):
            results.measured(Measure("m", column), found)


@pytest.mark.parametrize("data_kind", ["paper's data", "stand-in"])
def test_stand_in_data_is_marked_on_the_picture_and_only_there(tmp_path, monkeypatch, data_kind):
    titles = []
    suptitle = matplotlib_figure.Figure.suptitle
    monkeypatch.setattr(
        matplotlib_figure.Figure, "suptitle", lambda own, text, **kw: (titles.append(text), suptitle(own, text))[1]
    )
    figure = _figure(data_kind=data_kind, data="synthetic data")
    found = {label: _found(tmp_path, figure, label, {"score": [1.0, 2.0]}) for label in ("near", "far")}
    judged = scoreboard.Judged.of(figure, records.of(found))
    pictures.draw(judged, found, tmp_path / "f.png")
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    words = titles[0].replace("\n", " ")
    assert words.startswith("Figure 1: a toy. Nobody 2020")
    assert ("Stand-in data, not the paper's: synthetic data." in words) == (data_kind == "stand-in")


def test_a_figure_is_run_once_printed_and_written(play, tmp_path, capfd):
    assert play(_figure(data_kind="stand-in", data="a toy"), "--repeat=6") == 0
    out = capfd.readouterr().out
    assert "f1: Figure 1: a toy. Nobody 2020\nStand-in data, not the paper's: a toy.\n" in out
    assert "same direction (stand-in)  section 2: near is better [near 4, far 3: +1 (the same in every seed); " in out
    table = pd.read_csv(tmp_path / "r" / "f1" / "f1.csv")
    assert table["label"].tolist() == ["near", "far"]
    assert [words.partition(" ")[0] for words in table["ours (95% interval)"]] == ["4.0025", "3.0025"]
    assert table["published"].tolist()[0] == 4.0
    board = pd.read_csv(tmp_path / "r" / "scoreboard.csv")
    assert board[["kind", "verdict"]].to_numpy().tolist() == [["claim", "same direction"], ["number", "not comparable"]]
    assert {path.name for path in (tmp_path / "r" / "f1").iterdir()} == {"f1.csv", "f1.png", "f1_records.csv"}
    logs = {path: path.stat().st_mtime_ns for path in tmp_path.glob("r/runs/*/*/log.txt")}
    assert len(logs) == 12
    assert play(_figure(), "--repeat=6") == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("r/runs/*/*/log.txt")} == logs


def test_what_is_finished_is_reported_while_the_rest_is_left(play, tmp_path, capfd):
    assert play(_figure(), "--repeat=1") == 0
    capfd.readouterr()
    kept = tmp_path / "evidence"
    assert play(_figure(), "--repeat=2", "--report_only", f"--records={kept}") == 0
    assert "2 runs of f1 are not finished." in capfd.readouterr().out
    table = pd.read_csv(kept / "paper" / "f1.csv")
    assert table[["arm", "seed"]].to_numpy().tolist() == [["near", 0], ["far", 0]]


def test_arms_played_alone_join_the_others_records(play, tmp_path, capfd):
    kept = tmp_path / "evidence"
    file = kept / "paper" / "f1.csv"
    assert play(_figure(), "--repeat=2", "--arms=far", f"--records={kept}") == 0
    assert pd.read_csv(file)["arm"].tolist() == ["far", "far"]
    earlier = file.read_text().splitlines()[1:]
    capfd.readouterr()
    assert play(_figure(), "--repeat=6", "--arms=near; near", f"--records={kept}") == 0
    table = pd.read_csv(file)
    assert table["arm"].tolist() == ["near"] * 6 + ["far"] * 2
    assert file.read_text().splitlines()[7:] == earlier
    assert "inconclusive (paper's data)  section 2: near is better" in capfd.readouterr().out  # Two seeds of both.


def test_arms_that_cannot_join_the_others_are_refused_before_they_are_played(play, tmp_path):
    kept = tmp_path / "evidence"
    assert play(_figure(), "--arms=far", f"--records={kept}") == 0
    near, far = _figure().configurations
    longer = dataclasses.replace(far, arguments=(*far.arguments, "--total_rounds=5"))
    with pytest.raises(UsageError, match=r"f1\.csv has far of 4 rounds, not 5: run the whole figure\."):
        play(_figure(configurations=(near, longer)), "--arms=near", f"--records={kept}")
    with pytest.raises(UsageError, match=r"f1\.csv has no loss of far: run the whole figure\."):
        play(_figure(measures=(SCORE, LOSS)), "--arms=near", f"--records={kept}")
    with pytest.raises(UsageError, match=r"f1_records\.csv has no loss of far: run the whole figure\."):
        play(_figure(measures=(SCORE, LOSS)), "--arms=near")
    assert len([*tmp_path.glob("r/runs/*")]) == 1
    records.check_others(_figure(measures=(SCORE, LOSS)), {"far"}, kept / "paper" / "f1.csv")  # It has no others.


def test_arms_of_other_data_do_not_join(tmp_path):
    table = pd.DataFrame({"arm": ["far", "far"], "seed": [0, 1], "score": [1.0, 2.0], "rounds": 4, "data": ["a", "b"]})
    table = table.assign(commit="c", machine="m")
    records.write(table, tmp_path / "f1.csv")
    near = table.assign(arm="near")
    joined = records.joined(_figure(), near, tmp_path / "f1.csv")
    assert joined["arm"].tolist() == ["near", "near", "far", "far"]
    with pytest.raises(UsageError, match=r"f1\.csv has configurations of other data, not b: run the whole figure\."):
        records.joined(_figure(), near.assign(data=["b", "b"]), tmp_path / "f1.csv")
    assert records.joined(_figure(), None, tmp_path / "none.csv") is None


def test_a_job_array_holds_what_can_be_played_now(play, tmp_path, capfd):
    arms = (
        Configuration("searched", ("searched",), (), sweeps=("rate=0.01;0.1",)),
        Configuration("far", ("far",), ("--rate=1",)),
    )
    assert play(_figure(configurations=arms, claims=(), published=()), "--executor=slurm_script") == 0
    assert "6 runs in " in capfd.readouterr().out  # Two points on two tuning seeds; what is picked is not known yet.
    commands = (tmp_path / "r" / "commands.txt").read_text().splitlines()
    assert sum("--seed=100" in line for line in commands) == 2
    assert sum("--rate=1 " in line for line in commands) == 2


def test_the_paper_s_scale_says_first_how_long_it_takes(play, tmp_path, capfd):
    assert play(_figure(), "--scale=paper", "--estimate") == 0
    out = capfd.readouterr().out
    assert "toy_binary: 4 runs, 16 rounds of " in out
    assert "In all " in out
    assert not (tmp_path / "r" / "f1").exists()


def test_a_failed_run_is_reported_at_the_end_and_the_others_are_drawn(play, tmp_path, capfd):
    arms = (
        Configuration("near", ("near",), ("--rate=0.1",)),
        Configuration("far", ("far",), ("--rate=1", "--fails_at=1")),
    )
    assert play(_figure(configurations=arms), "--repeat=1") == 1
    captured = capfd.readouterr()
    assert "not run  section 2: near is better [no score of far]" in captured.out
    assert "One seed: no claim or number of f1 will get a verdict." in captured.out
    assert "1 failed:" in captured.err
    assert captured.err.splitlines()[-1].startswith("  f1: far: ValueError: this rate fails (")
    assert (tmp_path / "r" / "f1" / "f1.png").exists()


def test_the_best_point_of_a_search_counts_and_its_values_are_reported(play, tmp_path):
    """The point is picked on the tuning seeds, which give no value."""
    arms = (Configuration("searched", ("searched",), (), sweeps=("rate=0.01;0.1;1",)),)
    published = (Published("searched", "rate", 0.2, "Table 1"),)
    figure = _figure(configurations=arms, published=published, claims=(), curves=())
    assert play(figure, "--repeat=1") == 0
    table = pd.read_csv(tmp_path / "r" / "f1" / "f1.csv").set_index("measure")
    assert (table.loc["score", "ours (95% interval)"], table.loc["rate", "ours (95% interval)"]) == (4.0, 0.1)
    assert float(table.loc["rate", "published"]) == 0.2
    seeds = {}
    for folder in tmp_path.glob("r/runs/*/seed_*"):
        seeds.setdefault(folder.parent.name.partition("-")[0], set()).add(folder.name)
    tuning = {"seed_100", "seed_101"}
    assert seeds == {"rate=0.01": tuning, "rate=0.1": {*tuning, "seed_0"}, "rate=1": tuning}


def test_points_of_a_search_are_given_up_early_if_asked(play, tmp_path):
    arms = (Configuration("searched", ("searched",), ("--burn_in_rounds=1",), sweeps=("rate=0.001;0.01;0.1;1",)),)
    figure = _figure(configurations=arms, published=(), claims=(), curves=(), tuning_seeds=(100,))
    assert play(figure, "--repeat=1", "--early_stop=halving") == 0
    rounds = {
        path.parent.parent.name.partition("-")[0]: len(pd.read_csv(path))
        for path in tmp_path.glob("r/runs/*/seed_100/metrics.csv")
    }
    assert rounds["rate=0.1"] == 4  # The best, at the toy's peak.
    assert min(rounds.values()) < 4
    assert len(list(tmp_path.glob("r/runs/rate=0.1-*/seed_0"))) == 1


def test_data_that_is_not_there_is_one_message_before_anything_is_run(play, tmp_path, monkeypatch):
    def refuse(study, options):
        raise UsageError("There is no toy.sqlite.")

    monkeypatch.setattr(toy_binary.ToyStudy, "open", refuse)
    with pytest.raises(UsageError, match=r"--figure=f1: There is no toy\.sqlite"):
        play(_figure())
    assert not list(tmp_path.glob("r/runs/*"))
    figures = [dataclasses.replace(_figure(), name=name) for name in ("a", "b")]
    with pytest.raises(UsageError, match=r"^--figure=a,b: There is no toy\.sqlite\.$"):
        running.check_data(figures, tmp_path, None)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--rat=1", "--rate=2"), "--figure=f1, near: --rat is not known"),
        (("--rate=1", "--rate=1.0"), "--figure=f1: near and far are the same runs"),
    ],
)
def test_a_mistake_in_a_configuration_is_reported_before_anything_runs(play, tmp_path, flags, message):
    arms = tuple(Configuration(name, (name,), (one,)) for name, one in zip(("near", "far"), flags, strict=True))
    with pytest.raises(UsageError, match=message):
        play(_figure(configurations=arms))
    assert not (tmp_path / "r").exists()


def test_the_study_s_own_picture_is_drawn_beside(tmp_path):
    figure = _figure(own_figures="client_losses")
    folder = _runs(tmp_path, "near", {"score": [1.0]})[0].folder
    flags = {"client_selection": "rand", "clients_per_round": 3, "seed": 0}
    (folder / "config.json").write_text(json.dumps({"format": run_folder.FORMAT, "flags": flags, "command": "x"}))
    pd.DataFrame({"client": [0, 1], "loss": [0.5, 1.5]}).to_csv(folder / "private_clients.csv", index=False)
    found = {"near": results.of_runs(figure, figure.configurations[0], [runs.read(folder)], {})}
    running.report(figure, found, tmp_path / "out")
    assert (tmp_path / "out" / "f1_clients.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("names", "scale", "chosen"),
    [
        ("4b,1a,4a", figures.SMALL, ["4a", "1a"]),
        ("1", figures.PAPER, ["1a", "1b", "1c", "1d"]),
        ("4,3b,3", figures.PAPER, ["4a", "4c", "3b", "3a"]),
        ("all", figures.SMALL, [*figures.load("small")]),
    ],
)
def test_names_are_chosen_also_by_a_panel_or_number_and_once(names, scale, chosen):
    assert [one.name for one in figures.choose(names, scale)] == chosen


def test_all_of_the_texts_and_this_project_s_own_are_apart():
    own = figures.choose("flagship", figures.PAPER)
    assert {figure.text for figure in own} == {"this project"}
    assert own + figures.choose("all", figures.PAPER) == sorted(
        figures.load(figures.PAPER).values(), key=lambda figure: not figure.own
    )


@pytest.mark.slow
@pytest.mark.parametrize("scale", list(figures.SCALES))
def test_every_arm_of_every_figure_has_flags_that_its_binary_takes(scale):
    for figure in figures.load(scale).values():
        figure.check()
        assert bool(figure.data) == (scale == "small" or figure.data_kind != PAPER_DATA)


def test_every_published_number_and_claim_is_of_an_arm_and_measure():
    for figure in figures.load(figures.PAPER).values():
        labels = {arm.label for arm in figure.configurations}
        measures = {measure.name for measure in figure.measures}
        for arm in (arm for arm in figure.configurations if arm.is_searched):
            grid = plan.build(arm.arguments, sweeps=arm.sweeps, binary=figure.binary, grid=arm.grid)
            measures.update(grid.swept)
        assert len(labels) == len(figure.configurations)
        assert {(one.configuration in labels, one.measure in measures) for one in figure.published} <= {(True, True)}
        for claim in figure.claims:
            for operand in (operand for group in claim.operands for operand in group):
                names, _, measure = operand.partition(" @ ")
                assert set(names.split(" | ")) <= labels, (figure.name, operand)
                assert not measure or measure in measures, (figure.name, operand)


def test_no_claim_contradicts_the_numbers_that_its_text_publishes():
    """Each text's own figures, taken for ours, agree with its claims."""
    contradicted, checked = [], 0
    for figure in figures.load(figures.PAPER).values():
        # Twenty seeds that are all alike: p is tiny, by the sign test.
        values: dict[str, dict[str, list[float]]] = {}
        for one in figure.published:
            values.setdefault(one.configuration, {"rounds": [9.0] * 20})[one.measure] = [one.value] * 20
        found = {label: FinishedConfiguration(label, pd.DataFrame(some)) for label, some in values.items()}
        verdicts = claims.judge(results.Results(figure, found)).claims if found else []
        checked += sum(one.status != NOT_RUN for one in verdicts)
        contradicted += [(figure.name, one.why) for one in verdicts if one.status == DISAGREES]
    assert contradicted == []
    assert checked > 40


def test_a_key_that_a_file_must_not_have_is_named(tmp_path, monkeypatch):
    (tmp_path / "x.toml").write_text("""[text]
title = "T"
binary = "run_ads"
data_kind = "paper's data"
[f]
about = "A"
repeat = 2
no_small = "It is a test."
curve = 1
[f.measures.reward]
column = "reward"
""")
    monkeypatch.setattr(figures, "_FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"x\.toml, f: .*curve"):
        figures.load("paper")


@pytest.mark.parametrize(("scale", "expected"), [("paper", ("1", "2", "4")), ("small", ("5", "5", "5"))])
def test_an_arm_s_value_counts_before_its_figure_s_and_that_of_the_scale_before_both(
    tmp_path, monkeypatch, scale, expected
):
    (tmp_path / "x.toml").write_text("""[text]
title = "T"
binary = "run_ads"
data_kind = "paper's data"
small_data_kind = "stand-in"
[f]
about = "A"
repeat = 1
flags = "--rounds=1"
[f.measures.reward]
column = "reward"
[[f.arms]]
as = ""
twice = "--rounds=2"
four = "--rounds=4"
[f.small]
repeat = 1
data = "D"
flags = "--rounds=5"
""")
    monkeypatch.setattr(figures, "_FOLDER", tmp_path)
    arms = figures.load(scale)["f"].configurations
    assert tuple(arm.arguments[-1].removeprefix("--rounds=") for arm in arms) == expected
