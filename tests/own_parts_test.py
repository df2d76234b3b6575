"""docs/own_parts.md: each command runs as printed, in a folder that holds only the page's modules.

Not for Bazel, which hides the pages.
"""

import importlib.util
import os
import pathlib
import re
import subprocess

import pandas as pd
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "own_parts.md").read_text()
ROUNDS = 2
# Packages of others that examples import. Without such a package, its calls are recorded.
OTHERS = ("mlflow", "wandb")
_RECORDER = """
import os
import sys


class Recorder:
    def __getattr__(self, name):
        def call(*arguments, **named):
            with open(os.environ["CALLS"], "a") as file:
                print("{package}", name, file=file)
            return self

        return call


sys.modules[__name__] = Recorder()
"""


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def _commands() -> list[str]:
    lines = [line for block in _blocks("sh") for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.strip() and not line.startswith("#")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """A folder with the page's modules, and nothing else."""
    folder = tmp_path_factory.mktemp("own_parts")
    for block in _blocks("python"):
        name, _, content = block.partition("\n")
        assert re.fullmatch(r"# \w+\.py", name), f"a block begins with {name!r}, not with the name of its file"
        assert not (folder / name.removeprefix("# ")).exists(), f"two blocks are {name}"
        (folder / name.removeprefix("# ")).write_text(content)
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    stubs = tmp_path_factory.mktemp("stubs")
    for package in OTHERS:
        if importlib.util.find_spec(package) is None:
            (stubs / f"{package}.py").write_text(_RECORDER.format(package=package))
    left_out = {"FEDBANDITS_DATA_DIR", "PYTHONPATH", "BUILD_WORKING_DIRECTORY"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    tracking = {"MLFLOW_TRACKING_URI": f"sqlite:///{stubs}/mlflow.db", "WANDB_MODE": "offline"}
    return kept | tracking | {"PROJECT": str(ROOT), "PYTHONPATH": str(stubs), "CALLS": str(stubs / "calls")}


def _written(folder: pathlib.Path) -> dict[pathlib.Path, float]:
    return {path: path.stat().st_mtime for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("command", _commands())
def test_a_command_of_the_page_runs_and_writes_its_files(command, folder, environment):
    is_run = re.search(r"-m (bandits|optimization)\.", command)
    shorter = re.sub(r"--total_rounds=\d+", "", command) + f" --total_rounds={ROUNDS}" if is_run else command
    before = _written(folder)
    done = subprocess.run(
        ["bash", "-euc", shorter], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    new = {path for path, time in _written(folder).items() if before.get(path) != time}
    if is_run:
        (metrics,) = [path for path in new if path.name == "metrics.csv"]
        assert len(pd.read_csv(metrics)) == ROUNDS
    for output in re.findall(r"--output=(\S+)", command):
        assert folder / output in new
    for metric in re.findall(r"--metrics=\w+:(\w+)", command):
        assert re.search(rf"own/{metric}\b", metrics.read_text(), re.IGNORECASE)
    for package in re.findall(rf"--callbacks=my_({'|'.join(OTHERS)}):", command):
        if importlib.util.find_spec(package) is None:
            called = re.findall(rf"^{package} (\w+)$", pathlib.Path(environment["CALLS"]).read_text(), re.MULTILINE)
            assert [name in ("log", "log_metrics") for name in called].count(True) == ROUNDS
            assert called[0] in ("init", "start_run")
            assert called[-1] in ("finish", "end_run")


def test_every_section_has_an_example_and_its_command():
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    kinds = {section.partition("\n")[0]: re.findall(r"^```(\w+)$", section, re.MULTILINE) for section in sections}
    assert {"Policy", "Metrics", "Callbacks"} <= kinds.keys()
    for section, languages in kinds.items():
        assert (languages.count("sh") > 0) == (languages.count("python") > 0), section
