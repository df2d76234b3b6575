"""Pictures in the docs show their records, and their titles say what these show.

Not for Bazel, which hides the docs.
"""

import pathlib
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bandits.papers import pictures
from tests import docs_numbers_test

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/pictures"
EVIDENCE = ROOT / "docs/evidence"
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/papers").glob("*.md")]
SPECS = pictures.specs()


@pytest.mark.parametrize("name", SPECS)
def test_a_title_says_what_the_records_show(name):
    panels = [pictures.values(panel, EVIDENCE) for panel in SPECS[name]["panels"]]
    assert SPECS[name]["claims"]
    assert re.findall(r"\d\.\d", SPECS[name]["title"]) == []  # Numbers would need a source.
    for panel, group, strategy, how, what in SPECS[name]["claims"]:
        interval = panels[panel][group][strategy]
        if isinstance(what, list):
            group, strategy = what
            other = panels[panel][group][strategy].mean
            assert (interval.mean > other) if how == "above" else (interval.mean < other)
        else:
            holds = {"above": interval.low > what, "below": interval.high < what, "not above": interval.low <= what}
            assert holds[how], (group, strategy, interval)


def test_values_are_those_of_the_records():
    advantage, _ = (pictures.values(panel, EVIDENCE) for panel in SPECS["advantage"]["panels"])
    expected = docs_numbers_test.mean_and_interval(
        "paper/digits.csv", "average_reward", "FALCON, every 50", "Greedy, every 50"
    )
    np.testing.assert_allclose(advantage["digits, 50 rounds"]["FALCON"][:3], expected)
    (scores,) = (pictures.values(panel, EVIDENCE) for panel in SPECS["strategies"]["panels"])
    assert scores["FALCON"]["FALCON"].text() == "0.480 (0.433 to 0.527)"
    regret = pictures.values(SPECS["logs"]["panels"][0], EVIDENCE)["10"]["IPS"]
    assert [round(value, 3) for value in regret[:3]] == [0.013, 0.01, 0.016]


def test_points_of_recommendations_are_those_of_their_pages():
    for arm, *interval in pd.read_csv(EVIDENCE / "advice/points.csv").itertuples(index=False):
        task, _, row = arm.partition(", ")
        text = (EVIDENCE / f"advice/{task}.md").read_text()
        cells = re.findall(rf"^\| {re.escape(row.removesuffix(' minus greedy'))}\b.*", text, re.MULTILINE)
        found = [
            tuple(map(float, one)) for one in re.findall(r"([-+\d.]+) \(([-+\d.]+) to ([-+\d.]+)\)", "".join(cells))
        ]
        assert tuple(interval) in found, arm


def _pixels(path: pathlib.Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def test_committed_pictures_are_small_shown_and_those_of_the_command(tmp_path):
    committed = set(PICTURES.glob("*.png"))
    links = [(path.parent, link) for path in PAGES for link in re.findall(r"!\[[^]]*\]\(([^)]+)\)", path.read_text())]
    assert committed <= {(folder / link).resolve() for folder, link in links}
    assert all(path.stat().st_size < 80_000 for path in committed)
    for path in pictures.write(tmp_path, EVIDENCE):
        np.testing.assert_array_equal(_pixels(path), _pixels(PICTURES / path.name))
