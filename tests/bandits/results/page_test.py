"""Tests of bandits.results.page, and of scripts.report, which writes it."""

import base64
import json
import pathlib
import re

import numpy as np
import pandas as pd
import pytest

from bandits import metrics
from bandits.results import page, runs
from data.errors import UsageError
from optimization.privacy import mechanisms
from optimization.study import run_folder
from scripts import report as command
from tests.bandits.results.tables import write_run

_OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


def _write(folder, rewards, **flags):
    """Writes runs of several strategies, whose seeds have these rewards or, as lists, rewards by round."""
    for bandit, values in rewards.items():
        for seed, value in enumerate(values):
            value = [value] if np.isscalar(value) else value
            write_run(folder / bandit / f"seed_{seed}", value, bandits_type=bandit, seed=seed, **flags)


def _report(tmp_path, *arguments) -> str:
    output = tmp_path / "report.html"
    status = command.program(command.define().parse(["report", *map(str, arguments), f"--output={output}"]))
    return status, output.read_text()


def _data(page) -> list[dict]:
    return json.loads(re.search(r'id="data">(.*?)</script>', page)[1])


def _panels(page) -> dict[str, dict]:
    """Returns the panels of the first part by their columns."""
    return {panel["column"]: panel for panel in _data(page)[0]["panels"]}


def _tables(page) -> list[list[list[str]]]:
    """Returns the texts of all tables' cells."""
    tables = []
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        rows = [re.findall(r"<t[hd]\b.*?>(.*?)</t[hd]>", row, re.DOTALL) for row in table.split("<tr>")[1:]]
        tables.append([[re.sub(r"<.*?>", " ", cell).strip() for cell in row] for row in rows])
    return tables


def _numbers(packed) -> list[float]:
    return np.frombuffer(base64.b64decode(packed["bdata"]), packed["dtype"]).tolist()


@pytest.fixture
def two_runs(tmp_path):
    write_run(tmp_path / "one", [0.5, 0.75], learning_rate=0.1, seed=0)
    write_run(tmp_path / "many" / "seed_0", [0.0, 0.5], learning_rate=0.05, seed=0)
    write_run(tmp_path / "many" / "seed_1", [1.0, 0.75], learning_rate=0.05, seed=1)
    return tmp_path


def test_results_come_first_in_order_of_reward_and_flags_single_runs_and_commands_last(two_runs):
    status, page = _report(two_runs, two_runs / "one", two_runs / "many")
    _, (head, first, second), flags, single = _tables(page)
    assert status == 0
    assert (head[1], head[-1]) == ("Seeds", "Rounds")
    assert first == ["lr 0.1", "1", "0.625", "0.75", "2"]
    half = 12.7062047 * 0.125  # Student's t of one degree of freedom, and the error of the mean.
    assert second[3] == f"0.6  {0.625 - half:.1f} to {0.625 + half:.1f}"
    places = [page.index(f'class="{name}"') for name in ("lead", "main", "results", "legend")]
    assert places == sorted(places)
    headings = ["Flags that differ", "Single runs", "Commands of the first seeds"]
    assert re.findall(r"<summary>(\w.*?)</summary>", page[places[-1] :])[-3:] == headings
    assert flags == [["Configuration", "--learning_rate"], ["lr 0.1", "0.1"], ["lr 0.05", "0.05"]]
    assert single[3] == ["lr 0.05", "1", "2", "0.875", "0.75", "many/seed_1"]
    assert "<dt>lr 0.05</dt><dd><code>run --x=seed_0</code>" in page


def test_a_page_opens_with_its_finding_the_differences_and_one_table(tmp_path):
    _write(tmp_path, {"greedy": (0.2, 0.4, 0.3), "softmax": (0.5, 0.6, 0.7), "uniform": (0.1, 0.1, 0.1)})
    _, page = _report(tmp_path, tmp_path)
    half = 4.302653 * 0.1 / 3**0.5  # Differences of 0.3, 0.2 and 0.4, and Student's t of two degrees of freedom.
    shown = f"+0.30 (95% CI +{0.3 - half:.2f} to +{0.3 + half:.2f}, 3 seeds)"
    (lead,) = re.findall(r'<p class="lead">(.*?)</p>', page)
    assert lead == f"softmax is significantly better than greedy: average reward over all rounds {shown}."
    head, softmax, greedy, uniform = _tables(page)[0]
    rewards = "Average reward over all rounds", "Round reward, last tenth of the rounds"
    assert head == ["Configuration", *rewards, "Difference from greedy", "Verdict"]
    assert softmax[3:] == [f"+0.30  +{0.3 - half:.2f} to +{0.3 + half:.2f}", "better"]
    reward = f"0.30  {0.3 - half:.2f} to {0.3 + half:.2f}"
    assert (greedy[1:], uniform[4]) == ([reward, reward, "–", "reference"], "baseline")
    head, softmax = _tables(page)[2]
    assert head[:4] == ["Configuration", "Compared with", "Seeds", "Difference"]
    assert (softmax[:3], softmax[5], softmax[-1]) == (["softmax", "greedy", "3"], "100%", "better")
    _, page = _report(tmp_path, tmp_path, "--reference=softmax")
    assert _tables(page)[2][1][:2] == ["greedy", "softmax"]


def test_the_verdict_rests_on_all_rounds_and_not_on_the_last_ones(tmp_path):
    _write(tmp_path, {"greedy": [[0.5, 0.5, 0.8]] * 3, "softmax": [[reward] * 3 for reward in (0.7, 0.71, 0.72)]})
    _, page = _report(tmp_path, tmp_path)
    _, first, second = _tables(page)[0]
    assert (first[0], second[0]) == ("softmax", "greedy")
    assert (first[2][:4], second[2]) == ("0.71", "0.8")
    assert "softmax is significantly better than greedy: average reward over all rounds +0.11" in page


def test_a_configuration_that_earned_no_more_than_a_simple_policy_says_so_below_the_finding(tmp_path):
    bounds = {"participating": {"chance": 0.1, "constant": 0.3}, "held_out": {"chance": 0.1, "constant": 0.35}}
    _write(tmp_path, {"softmax": (0.2, 0.4)})
    for seed in (0, 1):
        greedy = {"reward": 0.36, "chance": True, "constant": seed == 1}
        (tmp_path / "softmax" / f"seed_{seed}" / "bounds.json").write_text(json.dumps({**bounds, "greedy": greedy}))
    _, page = _report(tmp_path, tmp_path)
    notice = (
        "softmax (1 of 2 seeds; seed 0 shown): Did not learn: the held-out reward of its greedy policy (0.3600) is not "
        "significantly above that of the best fixed action (0.3500); its average reward over all rounds (0.2000) is "
        "not above that of the best fixed action (0.3000)."
    )
    assert f'<div class="problems"><ul><li>{notice}</li></ul></div>' in page
    assert page.index("lead") < page.index(notice) < page.index('class="main"')


def test_the_curves_script_lies_beside_the_page_or_in_it(two_runs):
    _, page = _report(two_runs, two_runs / "one")
    assert '<script src="plotly.min.js">' in page
    assert "Plotly" in (two_runs / "plotly.min.js").read_text()
    (two_runs / "plotly.min.js").unlink()
    _, standalone = _report(two_runs, two_runs / "one", "--standalone")
    assert len(standalone) > len(page) + 1_000_000
    assert "src=" not in standalone[: standalone.index("<style>")]
    assert not (two_runs / "plotly.min.js").exists()


def test_long_curves_are_thinned_to_their_last_round_so_that_pages_stay_small(tmp_path):
    write_run(tmp_path / "long", np.arange(2500) / 2500)
    _, page = _report(tmp_path, tmp_path / "long")
    curve = _panels(page)[metrics.ROUND_REWARD]["curves"][0]
    assert (_numbers(curve["x"])[:2], curve["points"]) == ([1, 4], 834)
    assert _numbers(curve["mean"])[-1] == pytest.approx(2499 / 2500)
    assert "at most 1,000 points" in page
    _write(tmp_path / "many", dict.fromkeys(map(str, range(40)), np.random.default_rng(0).random((2, 1000))))
    assert len(_report(tmp_path, tmp_path / "many")[1]) < 1_500_000


def test_runs_of_searches_and_timing_are_shown_only_if_their_folder_is_named(tmp_path):
    for path in ("search/a", "estimate/b", "compare/c", "grid/runs/d/seed_0", "grid/runs/d/seed_1"):
        write_run(tmp_path / path, [0.5], seed=0, bandits_type="softmax", clip_norm=ord(path[-3]))
    (tmp_path / "grid" / "results.csv").write_text("run,used_for\nd/seed_0,tuning\nd/seed_1,reporting\n")
    _, page = _report(tmp_path, tmp_path)
    assert "2 runs in 2 configurations · 3 runs from searches or timing left out" in page
    assert "1 run in" in _report(tmp_path, tmp_path / "search" / "a")[1]
    write_run(tmp_path / "other" / "search" / "e", [0.5], seed=0)
    with pytest.raises(UsageError, match="name their own folders"):
        _report(tmp_path, tmp_path / "other")


def test_curves_are_means_with_intervals_over_seeds_and_say_so(two_runs):
    _, page = _report(two_runs, two_runs / "one", two_runs / "many")
    (part,) = _data(page)
    assert [style["label"] for style in part["configurations"]] == ["lr 0.1", "lr 0.05"]
    panels = _panels(page)
    # Not epsilon, which is never finite, or metrics that no study declares.
    assert list(panels) == [metrics.AVERAGE_REWARD, metrics.ROUND_REWARD, "seconds"]
    panel = panels[metrics.ROUND_REWARD]
    one, many = panel["curves"]
    assert _numbers(one["mean"]) == [0.5, 0.75]
    assert "low" not in one
    low, mean, high = (_numbers(many[edge]) for edge in ("low", "mean", "high"))
    half = 12.7062047 * np.array([0.5, 0.125])  # For two seeds: t times half their difference.
    np.testing.assert_allclose([mean, low, high], np.add([0.5, 0.625], [0 * half, -half, half]), rtol=1e-5)
    assert panel["caption"] == "line: mean, band: 95% interval over 2 seeds; without a band: one seed"


def test_regret_to_full_feedback_is_shown_if_there_is_such_a_baseline(tmp_path):
    # Softmax earns 0.3 and 0.2 less, with a paired mean of 0.25.
    _write(tmp_path, {"softmax": (0.6, 0.8), "supervised_mse": (0.9, 1.0)})
    _, page = _report(tmp_path, tmp_path)
    head, *rows = _tables(page)[1]
    place = head.index("Regret relative to full feedback")
    assert {row[place] for row in rows} == {"–", "0.2  -0.4 to 0.9"}
    _, page = _report(tmp_path, tmp_path / "softmax")
    assert "Regret relative to full feedback" not in page


def test_configurations_on_several_tasks_have_a_section_and_lines_over_tasks(tmp_path, capsys):
    spread = np.array([-0.002, -0.001, 0.0, 0.001, 0.002])
    for task, uniform in (("digits", 0.1), ("unipen62", 0.02)):
        values = {"uniform": uniform, "supervised_mse": 0.9, "softmax": (uniform + 0.9) / 2}
        _write(tmp_path / task, {bandit: mean + spread for bandit, mean in values.items()}, task_type=task)
    _, page = _report(tmp_path, tmp_path)
    head, row = _tables(page)[0]
    assert head == ["Configuration", "Seeds of each task", "Normalized score"]
    assert (row[:2], row[2][:4]) == (["softmax", "5"], "0.50")
    title, output = "Over 2 tasks (run_federated: digits; run_federated: unipen62)", capsys.readouterr().out
    assert f"<h2>{title}</h2>" in page
    assert f"{title}:" in output


def test_the_results_say_what_an_epsilon_assumes_and_what_is_proven(two_runs):
    spent = mechanisms.Mechanism("dpsgd", 1.0, population=500, cohort=20, delta=1e-5).report(40)
    (two_runs / "one" / "privacy.json").write_text(json.dumps(spent))
    _, page = _report(two_runs, two_runs / "one")
    head, cells = _tables(page)[1]
    proven = f"{spent['guarantees'][1]['epsilon_pld']:.3g}  delta 1e-05"
    assumed = f"{spent['epsilon']:.3g} if Poisson sampling, though cohorts have a fixed size"
    assert cells[head.index("Epsilon")] == f"{proven}  {assumed}"


def test_what_comes_from_files_is_escaped(tmp_path):
    name = "<script>alert(1)<"
    write_run(tmp_path / "evil", [0.5], value="<b>&", kind_type=name)
    write_run(tmp_path / "plain", [0.5], value="$title")
    _, page = _report(tmp_path, tmp_path / "evil", tmp_path / "plain", "--title=<i>")
    own = page[page.index("</head>") :]
    assert not any(text in own for text in (name, "<b>&"))
    assert '<td class="text">$title</td>' in own
    look = _data(page)[0]["configurations"][0]
    assert (look["label"], look["name"]) == (name, "&lt;script&gt;alert(1)&lt;")


def test_a_run_with_a_damaged_file_is_named_and_the_others_reported(two_runs, capsys):
    content = {"format": run_folder.FORMAT, "command": "run", "flags": {"seed": "x"}}
    (two_runs / "one" / "config.json").write_text(json.dumps(content))
    (two_runs / "many" / "seed_0" / "bounds.json").write_text('{"participating": {"chance": "x"}}')
    status, page = _report(two_runs, two_runs / "one", two_runs / "many")
    assert status == 1
    printed = capsys.readouterr().err
    for text in ("one/config.json is damaged: its flag seed has an invalid value.", "seed_0/bounds.json is damaged"):
        assert text in printed
        assert text in page
    assert "1 run in 1 configuration" in page


@pytest.mark.parametrize(
    ("clients", "head"), [([0, 3], "Diverged runs, not comparable"), ([3, 0], "Some clients diverged")]
)
def test_diverged_runs_are_named_and_those_that_ended_sound_apart(two_runs, clients, head):
    path = two_runs / "many" / "seed_1" / "metrics.csv"
    pd.read_csv(path).assign(**{metrics.NONFINITE_CLIENTS: clients}).to_csv(path, index=False)
    _, page = _report(two_runs, two_runs / "one", two_runs / "many")
    assert f"{head}:<ul><li>lr 0.05 (seed 1): Training diverged: in 1 of 2 rounds" in page
    assert ("Diverged runs" in page) == (clients[-1] == 3)


def test_runs_without_a_finished_round_are_counted_and_a_page_is_there_before_any(two_runs, tmp_path):
    (two_runs / "one" / "metrics.csv").write_text("round_num,reward\n")
    write_run(two_runs / "begun", [0.5])
    (two_runs / "begun" / "metrics.csv").unlink()
    (two_runs / "link").symlink_to(two_runs / "many")
    status, text = _report(two_runs, two_runs, two_runs / "link")  # Runs that are named twice count once.
    assert status == 0
    assert "2 runs in 1 configuration · 2 runs without a finished round" in text
    text = page.page(runs.read_all([two_runs / "begun"]), "Grid")
    assert "0 runs in 0 configurations · 1 run without a finished round" in text
    assert _data(text) == []


@pytest.fixture
def browser(tmp_path):
    chromium, driver = pathlib.Path("/usr/bin/chromium"), pathlib.Path("/usr/bin/chromedriver")
    if not (chromium.exists() and driver.exists()):
        pytest.skip("there is no Chromium")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(chromium)
    for option in [*_OPTIONS.split(), f"--user-data-dir={tmp_path / 'chromium'}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(executable_path=str(driver)))
    yield driver
    driver.quit()


@pytest.mark.slow
def test_the_page_works_in_a_browser(two_runs, browser):
    """One test for all claims, because a browser takes seconds to start."""
    from selenium.webdriver.support.wait import WebDriverWait

    _report(two_runs, two_runs / "one", two_runs / "many")

    def wait(condition):
        WebDriverWait(browser, 60).until(lambda _: condition())

    script = browser.execute_script
    plot = f"document.querySelector('[data-column=\"{metrics.ROUND_REWARD}\"]')"
    # The run of one seed is a line; the other is one too, with the two edges of its band.
    lines = f"return {plot}.querySelectorAll('path.js-line').length"
    for width, scheme in ((1280, "dark"), (400, "light")):
        screen = {"width": width, "height": 3000, "deviceScaleFactor": 1, "mobile": width == 400}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get((two_runs / "report.html").as_uri())
        wait(lambda: script(lines) == 4)
        assert script("return document.documentElement.scrollWidth") == width
        colour = {"dark": "#c9ced3", "light": "#3c444c"}[scheme]
        assert script(f"return {plot}._fullLayout.font.color") == colour

    one, many = browser.find_elements("css selector", ".legend button")
    many.click()
    wait(lambda: script(lines) == 1)
    assert (one.get_attribute("aria-pressed"), many.get_attribute("aria-pressed")) == ("true", "false")

    names = "return [...document.querySelectorAll('.main tbody tr')].map(row => row.cells[0].textContent)"
    assert script(names) == ["lr 0.1", "lr 0.05"]
    mean = browser.find_elements("css selector", ".main th button")[1]
    script("arguments[0].scrollIntoView()", mean)
    mean.click()
    assert script(names) == ["lr 0.05", "lr 0.1"]

    # The statistics that were folded are unfolded until the page is printed.
    unfolded = "return document.querySelectorAll('details[data-print][open]').length"
    assert script(unfolded) == 0
    for event, count in (("beforeprint", 1), ("afterprint", 0)):
        script(f"dispatchEvent(new Event('{event}'))")
        assert script(unfolded) == count
    assert browser.get_log("browser") == []
