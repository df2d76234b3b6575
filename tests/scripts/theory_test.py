import contextlib
import pathlib
import re
import string

import pytest

from bandits.theory import findings, page, rates
from scripts import theory as command

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Folder of the page, the picture and the printed lines of a quick run."""
    folder = tmp_path_factory.mktemp("theory")
    flags = ["--quick", "--seed=1", f"--page={folder}/page.md", f"--picture={folder}/picture.png"]
    with open(folder / "printed.txt", "w") as printed, contextlib.redirect_stdout(printed):
        command.program(command.define().parse(["theory", *flags]))
    return folder


@pytest.mark.slow
def test_the_delays_table_has_the_bounds_that_were_calculated_by_hand(quick):
    text = (quick / "page.md").read_text()
    for bounds in ("1 | 1.000 | 0.263", "2 | 0.571 | 0.190", "10 | 0.167 | 0.087", "100 | 0.036 | 0.028"):
        assert f"\n| {bounds} |" in text


@pytest.mark.slow
def test_where_gaps_shrink_regret_falls_with_the_root_of_the_samples(quick):
    slope = float(re.search(r"\| n, samples of a period \|[^|]+\| (\S+) \(", (quick / "page.md").read_text()).group(1))
    assert slope == pytest.approx(-0.5, abs=0.05)


def test_equal_seeds_give_equal_words():
    scale = findings.Scale(quick=True, seed=3)
    assert rates.bounds_beside(scale) == rates.bounds_beside(scale)


def test_numbers_have_their_intervals():
    interval = findings.intervals.Interval
    assert findings.text(interval(0.01234, 0.0119, 0.0128, 20)) == "0.0123 (0.0119 to 0.0128)"
    assert findings.text(interval(0.5, 0.5, 0.5, 20)) == "0.500"
    assert findings.text(interval(1e-18, -1e-17, 1e-17, 20)) == "0"
    assert findings.text(interval(1234.5, 1200, 1269, 20)) == "1,234 (1,200 to 1,269)"
    assert findings.text(interval(3.21e-5, 3.1e-5, 3.3e-5, 20), 2) == "3.2e-05 (3.1e-05 to 3.3e-05)"


def test_the_pages_template_has_no_number_of_a_measurement_in_its_tables():
    text = (ROOT / "bandits/theory/page.md").read_text()
    assert "|---" not in text.replace(" ", "")
    names = {match[1] or match[2] for match in re.findall(r"\$(\$|(\w+)|\{(\w+)\})", text)}
    assert {"rates", "delay", "half", "inexact", "own"} <= names
    assert string.Template(text).is_valid()


def test_flags_have_defaults_that_print_the_page():
    settings = command.define().parse(["theory"])
    assert (settings.quick, settings.seed, settings.page, settings.picture) == (False, 0, None, None)


def test_a_curve_is_drawn_in_its_own_panel(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(page.files, "save_picture", lambda figure, path, dpi: drawn.append(figure))
    page.draw([findings.Curve(panel, panel, [1, 2], [3, 4]) for panel in findings.PANELS], tmp_path / "x.png")
    labels = [[line.get_label() for line in axes.get_lines()] for axes in drawn[0].axes]
    assert labels == [[panel] for panel in findings.PANELS]


@pytest.mark.slow
def test_a_quick_look_is_the_whole_page_and_says_what_it_is(quick):
    text = (quick / "page.md").read_text()
    headings = [line for line in (ROOT / "bandits/theory/page.md").read_text().splitlines() if line.startswith("#")]
    assert [line for line in text.splitlines() if line.startswith("#")] == headings
    assert "$" not in text
    assert "**This is a quick run**" in text
    assert "drawn from `--seed=1`" in text
    assert "(0 violations;" in text
    assert (quick / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert len((quick / "printed.txt").read_text().splitlines()) == 13  # A line an experiment.
