"""Numbers in the docs equal their records.

`docs/evidence/numbers/PAGE.txt` lists the sources of a page's numbers, one a line, with ` :: ` between the parts:

  FILE.csv :: MEASURE :: ARM :: NUMBERS                  mean over seeds, with or without its 95% interval
  FILE.csv :: MEASURE :: ARM :: REFERENCE :: NUMBERS     mean difference, paired by seed
  ARM and REFERENCE may be differences: ARM minus ARM
  SOURCE :: QUOTE :: NUMBERS                             a part of a quote from a generated page
  premise :: FILE.csv :: MEASURE :: ARM :: REFERENCE :: QUOTE
                                                         the page's words on the premise of a comparison that the
                                                         judge (`bandits.papers.claims`) does not accept

FILE is below docs/evidence. SOURCE is such a file, or `page` (all tables, generated from the records).

Not for Bazel, which hides the docs.
"""

import functools
import pathlib
import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bandits.papers import claims, figures, page, results

ROOT = pathlib.Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "docs" / "evidence"
NUMBERS = EVIDENCE / "numbers"
_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_INTERVAL = re.compile(rf"{_NUMBER} \({_NUMBER} to {_NUMBER}\)")
_PAPERS = sorted((ROOT / "docs/papers").glob("*.md"))
_RECIPES = sorted((ROOT / "docs/recipes").glob("*.md"))
_ALL = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *_PAPERS, *_RECIPES]
PAGES = [path for path in _ALL if (NUMBERS / f"{path.stem}.txt").exists()]
# Pages in which every interval has a source.
_NAMES = ("findings", "which_strategy", "federating", "environments", "correlated_noise")
COMPLETE = [ROOT / "README.md", *(ROOT / f"docs/{name}.md" for name in _NAMES), *_PAPERS, *_RECIPES]


def _lines(path: pathlib.Path) -> list[list[str]]:
    return [line.split(" :: ") for line in (NUMBERS / f"{path.stem}.txt").read_text().splitlines()]


def _sources(path: pathlib.Path) -> Iterator[list[str]]:
    return (line for line in _lines(path) if line[0] != "premise")


def _text(path: pathlib.Path) -> str:
    return " ".join(path.read_text().split())


@functools.cache
def _generated(source: str) -> str:
    if source == "page":
        return page.made(EVIDENCE)
    return (EVIDENCE / source).read_text()


def mean_and_interval(file: str, measure: str, arm: str, reference: str | None = None) -> tuple[float, float, float]:
    """Mean over seeds with its 95% interval by Student's t, of an arm or of its paired difference from another."""
    rows = pd.read_csv(EVIDENCE / file, dtype={"arm": str})
    table = rows.pivot(index="seed", columns="arm", values=measure)

    def of(name: str) -> pd.Series:
        first, *second = name.split(" minus ")
        return table[first] - table[second[0]] if second else table[first]

    values = of(arm) - of(reference) if reference else of(arm)
    values = values.dropna().to_numpy()
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return values.mean(), values.mean() - half, values.mean() + half


def _is_rounded(printed: str, value: float) -> bool:
    unit = 10.0 ** -len(printed.partition(".")[2])
    return abs(float(printed) - value) <= unit / 2 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_numbers_equal_their_records(path):
    text = _text(path)
    wrong = []
    for source, *parts, numbers in _sources(path):
        if source.endswith(".csv"):
            values = mean_and_interval(source, *parts)
            printed = re.findall(_NUMBER, numbers)
            right = len(printed) in (1, 3) and all(map(_is_rounded, printed, values))
        else:
            (quote,) = parts
            right = numbers in quote and quote in _generated(source)
        if not right or numbers not in text:
            wrong.append((source, *parts, numbers))
    assert wrong == []


@pytest.mark.parametrize("path", COMPLETE, ids=lambda path: path.name)
def test_every_interval_has_a_source(path):
    listed = {numbers for *_, numbers in _sources(path)}
    assert set(_INTERVAL.findall(_text(path))) - listed == set()


@functools.cache
def _results(file: str) -> results.Results:
    scale, name = pathlib.Path(file).with_suffix("").parts
    return results.read(figures.load(scale)[name], EVIDENCE / file)


def _unmet(path: pathlib.Path) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yields (file, measure, the two arms) of each comparison on a page whose premise fails or is unknown."""
    for file, *parts, _ in _sources(path):
        if not file.endswith(".csv") or len(parts) != 3:
            continue
        measure, *compared = parts
        found = _results(file)
        pairs = [name.split(" minus ") for name in compared] if " minus " in compared[0] else [compared]
        for pair in pairs:
            arms = [found.operand(arm, measure) for arm in pair]
            if claims.premise(*arms, found):
                yield file, measure, frozenset(pair)


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_comparison_is_quoted_with_its_premise(path):
    premises = (line[1:] for line in _lines(path) if line[0] == "premise")
    stated = {(file, measure, frozenset(arms)): quote for file, measure, *arms, quote in premises}
    assert set(_unmet(path)) == set(stated)
    assert [quote for quote in stated.values() if quote not in _text(path)] == []
