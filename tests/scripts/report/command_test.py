"""Tests of scripts.report.command."""

import base64
import json
import pathlib
import re

import numpy as np
import pandas as pd
import pytest

from bandits import metrics
from data.errors import UsageError
from optimization.privacy import mechanisms
from scripts.report import command as report

_CHROMIUM = pathlib.Path("/usr/bin/chromium")
_CHROMEDRIVER = pathlib.Path("/usr/bin/chromedriver")
_OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


def _run(folder, rewards, **flags):
    folder.mkdir(parents=True)
    table = pd.DataFrame({"round_num": range(1, len(rewards) + 1), metrics.ROUND_REWARD: rewards})
    table[metrics.AVERAGE_REWARD] = table[metrics.ROUND_REWARD].expanding().mean()
    table[metrics.EPSILON] = float("inf")
    table["other/constant"] = 4
    table["other/metric"] = np.square(rewards)
    table["seconds"] = 0.5
    table.to_csv(folder / "metrics.csv", index=False)
    config = {"flags": {"common": 1, "experiment_name": folder.name, **flags}, "command": ["run", f"--x={folder.name}"]}
    (folder / "config.json").write_text(json.dumps(config))


def _report(tmp_path, *arguments) -> tuple[int, str]:
    output = tmp_path / "report.html"
    status = report.program(report.define().parse(["report", *map(str, arguments), f"--output={output}"]))
    return status, output.read_text()


def _data(page) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page)[1])


def _numbers(packed) -> list[float]:
    return np.frombuffer(base64.b64decode(packed["bdata"]), packed["dtype"]).tolist()


@pytest.fixture
def two_runs(tmp_path):
    _run(tmp_path / "one", [0.5, 0.75], learning_rate=0.1, seed=0)
    _run(tmp_path / "many" / "seed_0", [0.0, 0.5], learning_rate=0.05, seed=0)
    _run(tmp_path / "many" / "seed_1", [1.0, 0.75], learning_rate=0.05, seed=1)
    return tmp_path


def test_curves_are_means_and_ranges_over_seeds(two_runs):
    status, page = _report(two_runs, two_runs / "one", f"--runs={two_runs / 'many'}")
    data = _data(page)
    assert status == 0
    assert [run["label"] for run in data["runs"]] == ["one", "many"]
    assert [panel["column"] for panel in data["panels"]] == [
        metrics.AVERAGE_REWARD,
        metrics.ROUND_REWARD,
        "seconds",
        "other/metric",
    ]
    one, many = data["panels"][1]["curves"]
    assert _numbers(one["mean"]) == [0.5, 0.75]
    assert "low" not in one
    assert [_numbers(many[edge]) for edge in ("mean", "low", "high")] == [[0.5, 0.625], [0.0, 0.5], [1.0, 0.75]]
    assert "privacy/epsilon, infinite" in page
    assert "other/constant is always 4." in page


def test_the_table_says_what_an_epsilon_assumes_and_what_is_proven(two_runs):
    mechanism = mechanisms.Mechanism("dpsgd", 1.0, population=500, cohort=20, delta=1e-5)
    spent = mechanism.report(40)
    (two_runs / "one" / "privacy.json").write_text(json.dumps(spent))
    _, page = _report(two_runs, two_runs / "one")
    titles = re.findall(r"<th><button>(.*?)</button>", page)
    cells = dict(zip(titles, re.findall(r"<td.*?>(.*?)</td>", page), strict=True))
    assert cells["epsilon"] == f"{spent['epsilon']:.5g}"
    assert cells["epsilon assumes"] == "Poisson sampling, though cohorts have a fixed size"
    assert float(cells["epsilon, proven"]) == pytest.approx(spent["guarantees"][1]["epsilon_pld"], rel=1e-4)


def test_the_table_has_the_flags_that_differ_and_every_command_is_told(two_runs):
    _, page = _report(two_runs, two_runs / "one", two_runs / "many")
    titles = re.findall(r"<th><button>(.*?)</button>", page)
    outcomes = ["rounds", metrics.AVERAGE_REWARD, "seconds a round, median"]
    assert titles == ["run", "--learning_rate", "--seed", *outcomes]
    assert '<tr><td>many/seed_1</td><td data-value="0.05">0.05</td><td>1</td><td>2</td><td data-value="0.875">' in page
    assert "<dt>many/seed_1</dt><dd><code>run --x=seed_1</code>" in page


def test_metrics_of_any_study_are_shown_as_they_are_declared(two_runs):
    table = pd.read_csv(two_runs / "one" / "metrics.csv")
    table["federated/regret"] = table["centralised/regret"] = [3.0, 4.5]
    table.to_csv(two_runs / "one" / "metrics.csv", index=False)
    _, page = _report(two_runs, two_runs / "one")
    titles = {panel["column"]: panel["title"] for panel in _data(page)["panels"]}
    assert titles["federated/regret"] == "regret so far, federated (federated/regret)"
    assert titles["seconds"] == "Seconds a round (seconds)"
    assert titles["other/metric"] == "other/metric"
    heads = re.findall(r"<th><button>(.*?)</button>", page)
    assert "federated/regret" in heads
    assert "centralised/regret" not in heads


def test_long_curves_are_thinned_to_their_last_round(tmp_path):
    _run(tmp_path / "long", np.arange(2500) / 2500)
    _, page = _report(tmp_path, tmp_path / "long")
    curve = _data(page)["panels"][1]["curves"][0]
    assert (curve["x0"], curve["dx"], curve["points"]) == (1, 3, 834)
    assert _numbers(curve["mean"])[-1] == pytest.approx(2499 / 2500)
    assert "more than 1,000 rounds" in page


def test_what_comes_from_files_is_escaped(tmp_path):
    name = "<script>alert(1)<"
    _run(tmp_path / name, [0.5], value="<b>&")
    _run(tmp_path / "plain", [0.5], value="$title")
    _, page = _report(tmp_path, tmp_path / name, tmp_path / "plain", "--title=<i>")
    own = page[page.index("</head>") :]
    assert name not in own
    assert "<b>&" not in own
    assert "<td>$title</td>" in own
    assert _data(page)["runs"][0] == {
        "label": name,
        "name": "&lt;script&gt;alert(1)&lt;",
        "colour": "#0072B2",
        "dash": "solid",
    }


def test_an_unreadable_run_is_named_and_the_others_reported(two_runs, capsys):
    (two_runs / "one" / "config.json").write_text("{")
    status, page = _report(two_runs, two_runs / "one", two_runs / "many")
    assert status == 1
    assert "one/config.json is not readable" in capsys.readouterr().err
    assert "one/config.json is not readable" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "No run is named"),
        (["nowhere"], "nowhere holds no metrics.csv"),
        (["a", "--output=nowhere/x.html"], "--output: there is no folder .*nowhere"),
    ],
)
def test_bad_usage_is_explained(arguments, message):
    with pytest.raises(UsageError, match=message):
        report.program(report.define().parse(["report", *arguments]))


@pytest.fixture
def browser(tmp_path):
    if not (_CHROMIUM.exists() and _CHROMEDRIVER.exists()):
        pytest.skip("there is no Chromium")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(_CHROMIUM)
    for option in [*_OPTIONS.split(), f"--user-data-dir={tmp_path / 'chromium'}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(executable_path=str(_CHROMEDRIVER)))
    yield driver
    driver.quit()


@pytest.mark.slow
def test_the_page_works_in_a_browser(two_runs, browser):
    """One test for all claims, because a browser takes seconds to start."""
    from selenium.webdriver.support.wait import WebDriverWait

    _report(two_runs, two_runs / "one", two_runs / "many")
    screen = {"width": 390, "height": 3000, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get((two_runs / "report.html").as_uri())
    lines = f"return document.querySelectorAll('[data-column=\"{metrics.ROUND_REWARD}\"] path.js-line').length"
    # The run of one seed is a line; the other is one too, with the two edges of its band.
    WebDriverWait(browser, 60).until(lambda driver: driver.execute_script(lines) == 4)
    curve = browser.execute_script(
        f"return document.querySelector('[data-column=\"{metrics.ROUND_REWARD}\"] path.js-line').getBBox()"
    )
    assert curve["width"] > 200
    assert browser.execute_script("return document.querySelectorAll('.js-plotly-plot').length") == 4
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390

    one, many = browser.find_elements("css selector", ".legend button")
    many.click()
    WebDriverWait(browser, 60).until(lambda driver: driver.execute_script(lines) == 1)
    assert (one.get_attribute("aria-pressed"), many.get_attribute("aria-pressed")) == ("true", "false")
    many.click()
    WebDriverWait(browser, 60).until(lambda driver: driver.execute_script(lines) == 4)

    names = "return [...document.querySelectorAll('tbody tr')].map(row => row.cells[0].textContent)"
    assert browser.execute_script(names) == ["one", "many/seed_0", "many/seed_1"]
    rate = browser.find_elements("css selector", "th button")[1]
    rate.click()
    assert browser.execute_script(names) == ["many/seed_0", "many/seed_1", "one"]
    rate.click()
    assert browser.execute_script(names) == ["one", "many/seed_0", "many/seed_1"]
    assert browser.get_log("browser") == []
