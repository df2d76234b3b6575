"""A toy figure with records of its runs, for tests of results and pages."""

import pathlib
from collections.abc import Mapping, Sequence

import pandas as pd

from bandits.papers import results
from bandits.papers.plan import Claim, Figure, Published
from bandits.plans.plan import Configuration
from optimization.study.results import Run
from tests.bandits.papers import toy_figures

NEAR = Configuration("near", ("near",), ())
BASELINES = tuple(Configuration(label, (label,), (), is_drawn=False) for label in ("chance", "ceiling"))


def toy_figure(**changes) -> Figure:
    values = {
        "binary": "run_federated",
        "configurations": (NEAR, Configuration("far", ("far",), ())),
        "repeat": 3,
        "published": (Published("near", "score", 4.0, "Table 1", 1.0), Published("far", "rate", 0.2, "Table 1")),
        "claims": (Claim("near is better", "section 2", "order", (("near",), ("far",)), means={"holds": "Go near."}),),
        "left_open": ("seeds",),
        "reference": "far",
    }
    return toy_figures.toy_figure(**(values | changes))


def recorded(figure: Figure, label: str, seed_runs: Sequence[Run], *rest) -> pd.DataFrame:
    planned = next(one for one in figure.configurations if one.label == label)
    return results.joined([results.rows_of(figure, planned, seed_runs, *rest)])


def toy_run(folder: pathlib.Path, seed: int, **columns: Sequence[float]) -> Run:
    count = len(next(iter(columns.values())))
    return Run(folder, pd.DataFrame({"round_num": range(1, count + 1)} | columns), {"seed": seed}, "", {})


def toy_table(**changes) -> pd.DataFrame:
    """Returns records of three seeds; near minus far is 1.9, 2 and 2.1."""
    rows = [("near", seed, score) for seed, score in enumerate((3.9, 4.0, 4.1))] + [("far", n, 2.0) for n in range(3)]
    table = pd.DataFrame(rows, columns=["arm", "seed", "score"])
    table["picked:rate"] = [None] * 3 + [0.1] * 3
    return table.assign(**({"rounds": 9, "data": "d1", "commit": "c1", "machine": "m1"} | changes))


def save(figure: Figure, table: pd.DataFrame, folder: pathlib.Path) -> results.Results:
    path = results.path_of(figure, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False)
    return results.read(figure, path)


def score_table(scores: Mapping[str, Sequence[float]], **recorded) -> pd.DataFrame:
    """Returns records with a score for each seed of each configuration."""
    rows = []
    for arm, some in scores.items():
        own = {name: value[arm] if isinstance(value, dict) else value for name, value in recorded.items()}
        rows += [{"arm": arm, "seed": seed, "score": score} | own for seed, score in enumerate(some)]
    return pd.DataFrame(rows).assign(rounds=9, data="d", commit="c", machine="m")
