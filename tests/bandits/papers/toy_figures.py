"""A figure of a toy experiment that needs no TensorFlow, and its reproduction in this process."""

import pathlib

import pandas as pd
import pytest

from bandits import studies
from bandits.papers import figures
from bandits.papers.plan import Claim, Figure, Measure, Published
from bandits.plans.plan import Configuration
from optimization.study.results import Run
from scripts import reproduce

TOY = "tests.scripts.toy_binary"


def toy_figure(**changes) -> Figure:
    rates = {"near": 0.1, "far": 1}
    values = {
        "name": "f1",
        "text": "Nobody 2020",
        "about": "Figure 1: a toy",
        "binary": "toy",
        "configurations": tuple(Configuration(name, (name,), (f"--rate={rate}",)) for name, rate in rates.items()),
        "repeat": 2,
        "measures": (Measure("score", "score"),),
        "curves": ("score",),
        "published": (Published("near", "score", 4.0, "section 1"),),
        "claims": (Claim("near is better", "section 2", "order", (("near",), ("far",))),),
        "data_kind": "paper's data",
        "tuning_seeds": (100, 101),
    }
    return Figure(**(values | changes))


def toy_runs(tmp_path, label: str, *seeds: dict) -> dict[int, Run]:
    """Writes run folders and returns the runs by seed."""
    by_seed = {}
    for seed, columns in enumerate(seeds):
        folder = tmp_path / label / f"seed_{seed}"
        folder.mkdir(parents=True)
        table = pd.DataFrame({"round_num": range(1, len(next(iter(columns.values()))) + 1)} | columns)
        table.to_csv(folder / "metrics.csv", index=False)
        by_seed[seed] = Run(folder, table, {}, "", {})
    return by_seed


def reproduce_toy(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, figure: Figure, *arguments: str) -> int:
    """Reproduces a toy figure in this process and returns the exit status."""
    monkeypatch.setitem(studies.STUDIES, "toy", TOY)
    monkeypatch.setattr(figures, "load", lambda scale: {figure.name: figure})
    monkeypatch.setattr(figures, "_files", tuple)
    own = (f"--root_output_dir={folder}", "--experiment_name=r", f"--figure={figure.name}", "--scale=small")
    if "--executor=slurm_script" not in arguments:
        own = (*own, "--workers=1")
    return reproduce.program(reproduce.define().parse(["reproduce", *own, *arguments]))
