"""Tests of scripts.reproduce and its plan, results and pictures, with an experiment that needs no TensorFlow."""

import dataclasses
import math
import os

import numpy as np
import pandas as pd
import pytest

from bandits import metrics, studies
from bandits.papers import claims, figures, pictures, results, running
from bandits.papers.claims import DISAGREES, NOT_RUN
from bandits.papers.plan import PAPER_DATA, Claim, Figure, Measure, Published
from bandits.plans import plan
from bandits.plans.plan import Configuration
from data.errors import UsageError
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


def _results(tmp_path, figure: Figure, seeds: dict[str, list[dict]]) -> results.Results:
    planned = {one.label: one for one in figure.configurations}
    tables = [
        results.rows_of(figure, planned[label], list(_runs(tmp_path, label, *columns).values()), {})
        for label, columns in seeds.items()
    ]
    return results.Results(figure, results.joined(tables))


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Reproduces toy figures in this process and returns the exit status."""
    monkeypatch.setitem(studies.STUDIES, "toy", TOY)

    def start(figure: Figure, *arguments: str) -> int:
        monkeypatch.setattr(figures, "load", lambda scale: {figure.name: figure})
        monkeypatch.setattr(figures, "_files", tuple)
        own = (f"--root_output_dir={tmp_path}", "--experiment_name=r", f"--figure={figure.name}", "--scale=small")
        if "--executor=slurm_script" not in arguments:
            own = (*own, "--workers=1")
        return reproduce.program(reproduce.define().parse(["reproduce", *own, *arguments]))

    return start


def test_configurations_run_alone_and_others_count_once_they_are_finished(play, tmp_path, capfd):
    assert play(_figure(), "--configurations=far") == 0
    assert (tmp_path / "r" / "f1" / "f1.png").is_file()
    table = pd.read_csv(tmp_path / "r" / "f1" / "f1_records.csv")
    assert set(table["arm"]) == {"far"}
    assert play(_figure(), "--configurations=near; far") == 0
    assert play(_figure(), "--configurations=near") == 0
    assert set(pd.read_csv(tmp_path / "r" / "f1" / "f1_records.csv")["arm"]) == {"near", "far"}
    capfd.readouterr()
    with pytest.raises(UsageError, match=r"--configurations=fat is not known: did you mean far\?"):
        play(_figure(), "--configurations=fat")


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
    assert Measure("m", "score", at).values(found) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("last", "holds"), [(0.2, claims.AGREES), (0.9, claims.INCONCLUSIVE)])
def test_a_fall_after_the_chosen_peak_is_judged_by_the_seeds_that_did_not_choose_it(tmp_path, last, holds):
    curves = [[0.1, 0.9, last + 0.001 * seed] for seed in range(12)]
    measures = (Measure("peak", "auc", "chosen peak"), Measure("end", "auc"))
    falls = Claim("falls", "here", "order", (("arm @ peak",), ("arm @ end",)))
    figure = _figure(configurations=(Configuration("arm", ("arm",), ()),), measures=measures, claims=(falls,))
    ((verdict, *_), _) = claims.judge(_results(tmp_path, figure, {"arm": [{"auc": curve} for curve in curves]}))
    assert (verdict.status, verdict.seeds) == (holds, 6)
    assert f"end {last + 0.006:.3g}:" in verdict.why  # The end's mean is that of seeds 1, 3, ..., 11, too.


def test_an_array_of_the_run_folder_is_measured_by_its_mean_or_that_of_absolute_values(tmp_path):
    found = _runs(tmp_path, "arm", {"score": [1.0]})
    np.savez(found[0].folder / "d.npz", skewness=[-1.0, 3.0, math.nan])
    assert Measure("m", "d.npz:skewness").values(found) == [1.0]
    assert Measure("m", "?.npz:|skewness|").values(found) == [2.0]
    for column in ("d.npz:kurtosis", "reward"):
        with pytest.raises(UsageError, match=column.partition(":")[2] or column):
            Measure("m", column).values(found)


def test_a_picture_names_stand_in_data(tmp_path, monkeypatch):
    figure = _figure(curves=(metrics.ROUND_REWARD,), data_kind="stand-in", data="a toy")
    finished = {}
    for label, rewards in (("near", [0.5, 0.51, 0.53]), ("far", [0.09, 0.11, 0.12])):
        finished[label] = list(_runs(tmp_path, label, *({metrics.ROUND_REWARD: [one]} for one in rewards)).values())
    drawn = []
    monkeypatch.setattr(pictures.files, "save_picture", lambda picture, path, dpi: drawn.append((picture, path)))
    pictures.draw(figure, finished, tmp_path)
    ((picture, path),) = drawn
    assert path == tmp_path / "f1.png"
    assert "Stand-in data, not the paper's: a toy." in picture.get_suptitle().replace("\n", " ")
    names = [text.get_text() for text in picture.legends[0].get_texts()]
    assert names[:2] == ["near", "far"]
    pictures.draw(_figure(curves=()), finished, tmp_path)
    assert len(drawn) == 1


def test_a_figure_is_run_once_printed_and_written(play, tmp_path, capfd):
    assert play(_figure(data_kind="stand-in", data="a toy"), "--repeat=6") == 0
    out = capfd.readouterr().out
    assert "f1: Figure 1: a toy. Nobody 2020\nStand-in data, not the paper's: a toy.\n" in out
    assert "same direction (stand-in)  section 2: near is better [near 4, far 3: +1 (the same in every seed); " in out
    assert "not comparable (stand-in)" in out
    table = pd.read_csv(tmp_path / "r" / "f1" / "f1_records.csv")
    assert table.groupby("arm")["score"].mean().to_dict() == pytest.approx({"near": 4.0025, "far": 3.0025})
    assert {path.name for path in (tmp_path / "r" / "f1").iterdir()} == {"f1.png", "f1_records.csv"}
    logs = {path: path.stat().st_mtime_ns for path in tmp_path.glob("r/runs/*/*/log.txt")}
    assert len(logs) == 12
    reverse = Claim("far is better", "section 2", "order", (("far",), ("near",)))
    assert play(_figure(claims=(reverse,)), "--repeat=6") == 0  # A contradiction is no failure.
    assert "disagrees (paper's data)  section 2: far is better" in capfd.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("r/runs/*/*/log.txt")} == logs


def test_what_is_finished_is_reported_while_the_rest_is_left(play, tmp_path, capfd):
    assert play(_figure(), "--repeat=1") == 0
    capfd.readouterr()
    kept = tmp_path / "evidence"
    kept.mkdir()
    assert play(_figure(), "--repeat=2", "--report_only", f"--records={kept}") == 0
    assert "2 runs of f1 are not finished." in capfd.readouterr().out
    table = pd.read_csv(kept / "paper" / "f1.csv")
    assert table[["arm", "seed"]].to_numpy().tolist() == [["near", 0], ["far", 0]]


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
    assert "section 2: near is better [no score of far]" in captured.out
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
    table = pd.read_csv(tmp_path / "r" / "f1" / "f1_records.csv")
    assert table[["score", "picked:rate"]].to_numpy() == pytest.approx(np.array([[4.0, 0.1]]))
    seeds = {}
    for folder in tmp_path.glob("r/runs/*/seed_*"):
        seeds.setdefault(folder.parent.name.partition("-")[0], set()).add(folder.name)
    tuning = {"seed_100", "seed_101"}
    assert seeds == {"rate=0.01": tuning, "rate=0.1": {*tuning, "seed_0"}, "rate=1": tuning}


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


def test_data_dir_is_the_environment_s_folder_of_all_runs(play, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", "elsewhere")
    seen = []

    def players(figures, folder, data_dir):
        seen.append((os.environ["FEDBANDITS_DATA_DIR"], data_dir))

    monkeypatch.setattr(running, "check_data", players)
    assert play(_figure(), "--repeat=1", f"--data_dir={tmp_path}") == 0
    assert seen == [(str(tmp_path), str(tmp_path))]
    assert os.environ["FEDBANDITS_DATA_DIR"] == "elsewhere"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--rat=1", "--rate=2"), "--figure=f1, near: --rat is not known"),
        (("--rate=2", "--rate=x"), "--figure=f1, far: .*--rate"),
    ],
)
def test_a_mistake_in_a_configuration_is_reported_before_anything_runs(play, tmp_path, flags, message):
    arms = tuple(Configuration(name, (name,), (one,)) for name, one in zip(("near", "far"), flags, strict=True))
    with pytest.raises(UsageError, match=message):
        play(_figure(configurations=arms))
    assert not (tmp_path / "r").exists()


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


@pytest.mark.parametrize(
    ("panels", "task"), [("1a,1b,1c,1d,3a,4a,4b", "emnist_chars"), ("2a,2b,2c,2d,3b,4c,4d", "stackoverflow_tag")]
)
def test_a_panel_has_the_runs_of_its_own_data_set_alone(panels, task):
    for figure in figures.choose(panels, figures.PAPER):
        assert {figure.first_run(arm).settings.task_type for arm in figure.configurations} == {task}


def test_a_file_s_name_chooses_all_of_its_figures_and_tables():
    names = [one.name for one in figures.choose("agarwal2023", figures.PAPER)]
    assert {"1a", "2d", "3a", "3b", "4a", "4c", "section5.2_optimizer", "table1", "table9"} <= set(names)
    assert {one.text for one in figures.choose("agarwal2023", figures.SMALL)} == {"Agarwal, McMahan and Xu 2023"}


def test_all_of_the_texts_and_this_project_s_own_are_apart():
    own, texts = (figures.choose(name, figures.PAPER) for name in ("flagship", "all"))
    assert {figure.text for figure in own} == {"this project"}
    assert {figure.name for figure in own + texts} == {*figures.load(figures.PAPER)}


def test_the_list_names_every_figure(capsys):
    assert reproduce.program(reproduce.define().parse(["reproduce", "--list"])) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines]
    for name in ("1a", "1d", "2a", "2d", "3a", "3b", "4a", "4c", *(f"table{number}" for number in range(1, 10)), "ads"):
        assert name in names
    assert any(line.strip().startswith("mab_fl_table2") and "mab_fl_figure13" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("scale", list(figures.SCALES))
def test_every_arm_of_every_figure_has_flags_that_its_binary_takes(scale):
    for figure in figures.load(scale).values():
        figure.check()
        runs_of = {(figure.first_run(one).name, one.sweeps, one.grid) for one in figure.configurations}
        assert len(runs_of) == len(figure.configurations)
        assert bool(figure.data) == (scale == "small" or figure.data_kind != PAPER_DATA)


def test_the_small_scale_has_the_same_configurations_on_stand_in_data():
    paper, small = figures.load(figures.PAPER)["1a"], figures.load(figures.SMALL)["1a"]
    assert [arm.label for arm in paper.configurations] == [arm.label for arm in small.configurations]
    assert ["--task_type=digits" in one.configurations[0].arguments for one in (paper, small)] == [False, True]


def test_every_published_number_and_claim_is_of_an_arm_and_measure():
    for figure in figures.load(figures.PAPER).values():
        labels = {arm.label for arm in figure.configurations}
        measures = {measure.name for measure in figure.measures}
        stated = [one for one in figure.published if not one.privacy_flags]
        for arm in (arm for arm in figure.configurations if arm.is_searched):
            grid = plan.build(arm.arguments, sweeps=arm.sweeps, binary=figure.binary, grid=arm.grid)
            measures.update(grid.swept)
        assert len(labels) == len(figure.configurations)
        assert {(one.configuration in labels, one.measure in measures) for one in stated} <= {(True, True)}
        for claim in figure.claims:
            for operand in (operand for group in claim.operands for operand in group):
                names, _, measure = operand.partition(" @ ")
                assert set(names.split(" | ")) <= labels, (figure.name, operand)
                assert not measure or measure in measures, (figure.name, operand)


@pytest.mark.parametrize(
    ("figure", "label", "measure", "value", "unit"),
    [
        ("section5.2_optimizer", "SO Adam", "average_reward", 0.81, 0.01),
        ("table1", "Greedy", "client_learning_rate", 0.2, 0.0),
        ("ucb_cs_table1", "pow_d, m=2", "jain_index", 0.89, 0.01),
        ("mab_fl_table2", "fedavg_epochs_per_round=4", "deviation", 0.020, 0.001),  # Its table's last digit.
        ("fedkp_table5.1", "FedKPPA, alpha=10", "accuracy_1000", 0.864, 0.001),
        ("fedkp_table5.2", "FedKP_cm, alpha=0.1", "rounds_accuracy_0.4", 588, 1),
        ("fedkp_table5.2", "FedPA, alpha=0.01", "rounds_accuracy_0.3", None, None),
    ],
)
def test_numbers_stand_where_the_texts_have_them(figure, label, measure, value, unit):
    published = figures.load(figures.PAPER)[figure].published
    stated = [(one.value, one.unit) for one in published if (one.configuration, one.measure) == (label, measure)]
    assert stated == ([] if value is None else [(value, unit)])


def test_no_claim_contradicts_the_numbers_that_its_text_publishes():
    """Each text's own figures, taken for ours, agree with its claims."""
    contradicted, checked = [], 0
    for figure in figures.load(figures.PAPER).values():
        # Twenty seeds that are all alike: p is tiny, by the sign test.
        values: dict[str, dict[str, float]] = {}
        for one in figure.published:
            values.setdefault(one.configuration, {"arm": one.configuration, "rounds": 9.0})[one.measure] = one.value
        rows = [row | {"seed": seed} for row in values.values() for seed in range(20)]
        verdicts = claims.judge(results.Results(figure, pd.DataFrame(rows)))[0][: len(figure.claims)] if rows else []
        checked += sum(one.status != NOT_RUN for one in verdicts)
        contradicted += [(figure.name, one.why) for one in verdicts if one.status == DISAGREES]
    assert contradicted == []
    assert checked > 40


@pytest.fixture
def one_file(tmp_path, monkeypatch):
    """Has a single file with a figure, and returns its path."""
    path = tmp_path / "x.toml"
    path.write_text("""[text]
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
    return path


def test_a_key_that_a_file_must_not_have_is_named(one_file):
    one_file.write_text(one_file.read_text().replace('about = "A"', 'about = "A"\ncurve = 1'))
    with pytest.raises(ValueError, match=r"x\.toml, f: .*curve"):
        figures.load("paper")


@pytest.mark.parametrize(("scale", "expected"), [("paper", ("1", "2", "4")), ("small", ("5", "5", "5"))])
def test_a_later_value_of_a_flag_counts(one_file, scale, expected):
    configurations = figures.load(scale)["f"].configurations
    assert tuple(one.arguments[-1].removeprefix("--rounds=") for one in configurations) == expected


def test_arms_are_the_product_of_their_axes():
    figure = figures.load("small")["ucb_cs_figure1"]
    selectors = ("rand", "pow_d", "rpow_d", "ucb_cs")
    assert [arm.words for arm in figure.configurations] == [
        (name, cohort) for name in selectors for cohort in ("m=1", "m=3")
    ]
