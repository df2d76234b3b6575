"""Plays docs/quickstart.ipynb in a kernel of Jupyter. Not for Bazel, which hides the docs."""

import pathlib

import nbclient
import nbformat
import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs" / "quickstart.ipynb"


def _outputs(cell) -> str:
    return "".join(output.get("text", "") + str(output.get("data", "")) for output in cell.outputs)


def test_the_notebook_plays_from_its_first_cell_to_its_last(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = tmp_path / "docs"
    folder.mkdir()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}})
    played = client.execute()
    told = "\n".join(_outputs(cell) for cell in played.cells if cell.cell_type == "code")
    assert "20 rounds>" in told
    assert told.count("'image/png'") == 2
    assert "20/20" in told  # The progress bar.
    assert "did you mean bandits_type" in told
    assert (tmp_path / "runs" / "quickstart" / "compared" / "greedy" / "seed_1" / "model" / "weights.npz").is_file()
