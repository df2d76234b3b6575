"""Runs the notebooks of docs/ in a kernel of Jupyter. Not for Bazel, which hides the docs."""

import importlib.util
import pathlib
import re

import nbformat
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))
_SPEC = importlib.util.spec_from_file_location("notebooks", ROOT / "docs/site/notebooks.py")
notebooks = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(notebooks)
# What each prints, besides progress and tables.
PRINTED = {
    "quickstart": ["20 rounds>", "20/20", "did you mean bandits_type"],
    "table_to_answer": ["178 rows, 25 clients, 3 actions", "Inconclusive: "],
    "own_policy": ["0.8", "RunnerUp"],
}


def _outputs(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output.get("text", "") + str(output.get("data", "")) for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_its_outputs_and_names_no_folder_of_a_machine(path):
    notebook = nbformat.read(path, as_version=4)
    assert [cell.id for cell in notebook.cells if cell.cell_type == "code" and cell.get("outputs")] != []
    assert "'image/png'" in _outputs(notebook)
    assert re.findall(r"/(?:home|root|tmp|var|work)/\S+", path.read_text()) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_its_first_cell_to_its_last(path, tmp_path):
    printed = _outputs(notebooks.run(path, tmp_path))
    assert [text for text in PRINTED[path.stem] if text not in printed] == []
    assert "'image/png'" in printed
    assert list((tmp_path / "runs").rglob("weights.npz")) != []
