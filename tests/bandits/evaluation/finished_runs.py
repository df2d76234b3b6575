"""Folders of finished runs on a table, without training."""

import json
import pathlib

import numpy as np

import bandits
from bandits import run_federated
from optimization.study import frame, results, run_folder

STATISTICS = {
    "kind": "table",
    "columns": {"age": {"mean": 40.0, "deviation": 10.0, "has_missing": False}, "city": {"categories": ["a", "b"]}},
    "labels": {"no": 5, "yes": 4},
}
KERNEL = np.array([[0.5, -0.5], [0.25, 0.0], [0.0, 0.75]], np.float32)  # Of age, city=a, city=b.
BIAS = np.array([0.0, 0.125], np.float32)


def finished_run(
    folder: pathlib.Path, weights=(KERNEL, BIAS), known=STATISTICS, layers="dense", **chosen
) -> results.Run:
    """A run on a table, as its folder says, with these weights of layers of this name, statistics and flags."""
    chosen = {"label_column": "bought"} | chosen
    flags = {"task_type": "tabular", "client_column": "store", "data_file": "x.csv", **chosen}
    study = run_federated.STUDY
    words = [f"--{name}={value}" for name, value in flags.items() if value is not None]
    recorded = dict(study.resolve(frame.flag_set(study).parse(["", *words])))
    folder.mkdir(exist_ok=True)
    config = {"format": run_folder.FORMAT, "flags": recorded, "command": "run"}
    (folder / "config.json").write_text(json.dumps(config, default=str))
    (folder / "metrics.csv").write_text("round_num\n1\n")
    if known:
        (folder / "statistics.json").write_text(json.dumps(known))
    if weights:
        names = [f"{layers}_{layer}/{kind}" for layer in range(len(weights) // 2) for kind in ("kernel", "bias")]
        run_folder.RunFolder(folder, "run").save_model(names, weights)
    return bandits.load(folder)
