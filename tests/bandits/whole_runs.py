"""Whole runs of `run_federated` in the test's process, with its worker, for several test modules."""

import json
import pathlib
from collections.abc import Callable
from unittest import mock

import numpy as np
import pandas as pd

from bandits import experiment, flags, options, phase_privacy, process, process_factory, run_federated
from data import files
from optimization.study import cli, frame, run_folder


def parse(*arguments: str) -> cli.Settings:
    return frame.flag_set(run_federated.STUDY).parse(["run_federated", *arguments])


def resolve(*arguments: str) -> cli.Settings:
    """Flags of a single run, with defaults and after all checks."""
    (settings,) = frame.plan(run_federated.STUDY, parse(*arguments))
    return settings


def options_of(*arguments: str) -> options.BanditOptions:
    return flags.options(resolve(*arguments))


def player(*small: str) -> Callable[..., pathlib.Path]:
    """A function (folder, *arguments, draws=False) that executes a run and returns its folder."""

    def play(folder: pathlib.Path, *arguments: str, draws: bool = False) -> pathlib.Path:
        where = (f"--root_output_dir={folder}", "--experiment_name=run")
        draw = files.save_picture if draws else lambda picture, path, dpi: None  # A sixth of a short run's time.
        with mock.patch.object(files, "save_picture", draw):
            assert frame.program(run_federated.STUDY, parse(*where, *small, *arguments)) == 0
        return folder / "run"

    return play


def table(run: pathlib.Path) -> pd.DataFrame:
    return pd.read_csv(run / "metrics.csv").drop(columns="seconds")


def spent(run: pathlib.Path) -> dict:
    return json.loads((run / "privacy.json").read_text())


def policy_sums(run: pathlib.Path) -> dict[str, np.ndarray]:
    with np.load(run / run_folder.POLICY_FILE) as file:
        return dict(file)


def weights(run: pathlib.Path) -> dict[str, np.ndarray]:
    with np.load(run / "model" / "weights.npz") as file:
        return dict(file)


def assert_same_model(one: pathlib.Path, other: pathlib.Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])


def assert_same(one: pathlib.Path, other: pathlib.Path) -> None:
    """Asserts that two runs have equal metrics and models, bit for bit."""
    pd.testing.assert_frame_equal(table(one), table(other), check_exact=True)
    assert_same_model(one, other)


def stopped(
    play: Callable[..., pathlib.Path], folder: pathlib.Path, *arguments: str, after: int, last_checkpoint: int = 0
) -> tuple[pathlib.Path, pathlib.Path]:
    """Compares a run with one that stops after some rounds, and continues from there or from an earlier checkpoint.

    Both must have equal metrics, and equal models if they have one. Returns both folders, the uninterrupted one first.
    """
    whole = play(folder / "whole", *arguments)
    run = play(folder / "stopped", *arguments, f"--total_rounds={after}")
    for checkpoint in (run / "checkpoints").glob("round_*.npz"):
        if int(checkpoint.stem[-8:]) > (last_checkpoint or after):
            checkpoint.unlink()
    play(folder / "stopped", *arguments)
    pd.testing.assert_frame_equal(table(run), table(whole), check_exact=True)
    if (whole / run_folder.MODEL_FILE).exists():
        assert_same_model(run, whole)
    return whole, run


def opened(*arguments: str):
    """Options of flags, and their task."""
    chosen = flags.options(parse(*arguments).checked(flags.check))
    return chosen, run_federated.STUDY.open(chosen)


def rounds_of(*arguments: str, folder: pathlib.Path | None = None) -> experiment.BanditRounds:
    chosen, task = opened(*arguments)
    phase = options.phases(chosen, task)[-1]
    where = run_folder.RunFolder(folder) if folder else None
    return experiment.BanditRounds(task, phase, phase_privacy.mechanism(phase), None, where)


def definitions(*arguments: str) -> list[process.BanditProcess]:
    """Definition of the rounds of each phase."""
    chosen, task = opened(*arguments)
    phases = options.phases(chosen, task)
    return [process_factory.define(task, phase, phase_privacy.mechanism(phase)) for phase in phases]
