import pandas as pd
import pytest

from bandits.papers import claims, figures, results
from bandits.papers.claims import DISAGREES, NOT_RUN
from bandits.papers.plan import DATA_KINDS, PAPER_DATA
from bandits.plans import plan
from optimization.study import panels, presets

pytestmark = pytest.mark.slow


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


def test_a_file_s_name_chooses_its_figures_and_all_is_every_paper_without_this_project_s_figures():
    agarwal, own, papers = (figures.choose(name, figures.PAPER) for name in ("agarwal2023", "flagship", "all"))
    assert {figure.text for figure in agarwal} == {"Agarwal, McMahan and Xu 2023"}
    assert {"1a", "2d", "section5.2_optimizer", "table9"} <= {figure.name for figure in agarwal}
    assert {figure.text for figure in own} == {"this project"}
    assert {figure.name for figure in own + papers} == {*figures.load(figures.PAPER)}
    assert len(own + papers) == len(figures.load(figures.PAPER))


@pytest.mark.parametrize("scale", list(figures.SCALES))
def test_every_arm_of_every_figure_has_flags_that_its_binary_takes(scale):
    for figure in figures.load(scale).values():
        figure.check()
        runs_of = {(figure.first_run(one).name, one.sweeps, one.grid) for one in figure.configurations}
        assert len(runs_of) == len(figure.configurations)
        assert bool(figure.data) == (scale == "small" or figure.data_kind != PAPER_DATA)


@pytest.mark.parametrize(("scale", "rounds"), [("paper", 2), ("small", 7)])
def test_every_figure_can_be_rehearsed_and_is_then_not_judged(scale, rounds):
    for figure in figures.load(scale).values():
        rehearsal = figure.rehearsed(rounds)
        rehearsal.check()
        assert max(rehearsal.first_run(one).rounds for one in rehearsal.configurations) <= rounds
        assert [one.label for one in rehearsal.configurations] == [one.label for one in figure.configurations]
        assert (rehearsal.claims, rehearsal.published, rehearsal.reference) == ((), (), None)
        assert {one.status for one in claims.judge(results.Results(rehearsal))[0]} == set()


@pytest.mark.parametrize(
    ("name", "label", "expected"),
    [  # Of 700 rounds deployed every 200; of 200 rounds; of 10 rounds; of 50 with 25 before the mean. Rounded up.
        ("1c", "Softmax", {"total_rounds": 16, "bandits_deploy_freq": 5, "init_rounds": 3, "rounds_per_eval": 2}),
        ("digits", "Greedy, every 50", {"total_rounds": 16, "bandits_deploy_freq": 4}),
        ("digits_change", "Softmax, changes", {"total_rounds": 16, "drift_start": 9}),
        ("fedkp_figureA.3", "alpha=10", {"total_rounds": 10, "diagnose_round": (1, 2, 5, 10)}),
        ("fedkp_figure5.1", "SGLD, alpha=1", {"total_rounds": 16, "burn_in_rounds": 8}),
    ],
)
def test_a_rehearsal_shortens_deployments_evaluations_and_changes_in_proportion(name, label, expected):
    figure = figures.load("paper")[name].rehearsed(16)
    settings = figure.first_run(next(one for one in figure.configurations if one.label == label)).settings
    assert {flag: settings[flag] for flag in expected} == expected


def test_titles_of_pictures_have_two_lines_at_most():
    for figure in (one.marked(1000) for scale in figures.SCALES for one in figures.load(scale).values()):
        for words in {one.words[1:] for one in figure.configurations if figure.curves and one.is_drawn}:
            picture, _ = panels.grid(1, 1, (8, 4.2), ", ".join((figure.about.partition(";")[0], *words)))
            assert picture.get_suptitle().count("\n") <= 1, (figure.name, words)


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
        ("mab_fl_table2", "fedavg_epochs_per_round=4", "deviation", 0.020, 0.001),  # The unit is the last digit's.
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


def test_files_have_known_keys_and_each_claim_one_kind():
    small_keys = {"arms", "at", "compared", "data", "data_kind", "flags", "only", "own", "repeat", "sweeps"}
    for _, shared, tables in presets.tables(figures._FOLDER, "text"):
        for name, table in tables.items():
            assert set(table.get("small", {})) <= small_keys, name
            assert ("small" in table) != bool(shared.get("own") or "no_small" in table), name
            for claim in table.get("claims", ()):
                assert set(claim.get("means", {})) <= {"holds", "fails", "inconclusive"}, claim["says"]
                assert sum(kind in claim for kind in claims.KINDS) == 1 or "needs" in claim, claim["says"]
    kinds = {figure.data_kind for scale in figures.SCALES for figure in figures.load(scale).values()}
    assert kinds == set(DATA_KINDS)


def test_a_key_that_a_file_must_not_have_is_named(tmp_path, monkeypatch):
    lines = ["[text]", 'title = "T"', "[f]", "repeat = 1", "curve = 1", "[f.measures.reward]", 'column = "reward"']
    (tmp_path / "x.toml").write_text("\n".join(lines))
    monkeypatch.setattr(figures, "_FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"x\.toml, f: .*curve"):
        figures.load("paper")


@pytest.mark.parametrize(
    ("small", "expected"), [(None, ["--rounds=1", "--rounds=2"]), ({"flags": "--rounds=5"}, ["--rounds=5"] * 2)]
)
def test_a_later_value_of_a_flag_counts(small, expected):
    table = {"flags": "--rounds=1", "arms": [{"as": "", "twice": "--rounds=2"}]}
    assert [one.arguments[-1] for one in figures._configurations_of(table, small)] == expected


def test_arms_are_the_product_of_their_axes():
    figure = figures.load("small")["ucb_cs_figure1"]
    selectors = ("rand", "pow_d", "rpow_d", "ucb_cs")
    assert [arm.words for arm in figure.configurations] == [
        (name, cohort) for name in selectors for cohort in ("m=1", "m=3")
    ]
