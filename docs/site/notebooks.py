"""Runs the notebooks of docs/, and keeps their outputs: `./scripts/docs notebooks`."""

import os
import pathlib
import re
import sys
import tempfile

import nbclient
import nbformat

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(path: pathlib.Path, folder: pathlib.Path) -> nbformat.NotebookNode:
    """Runs a copy of a notebook in a folder that stands for the project's, and returns it with its outputs.

    Raises:
      CellExecutionError: If a cell fails.
    """
    os.environ["PYTHONPATH"] = str(ROOT)
    (folder / "docs").mkdir(exist_ok=True)
    if not (folder / "data").exists():
        (folder / "data").symlink_to(ROOT / "data")
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder / "docs")}}
    return nbclient.NotebookClient(notebook, timeout=600, resources=resources, coalesce_streams=True).execute()


def clean(notebook: nbformat.NotebookNode, folder: pathlib.Path) -> None:
    """Removes progress bars, times and the names of temporary folders from the outputs."""
    folders = rf"{re.escape(str(folder))}/?|/\S*/federated_bandits_\w+/\w+/"
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type != "code":
            continue
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            texts, key = (output.data, "text/plain") if "data" in output else (output, "text")
            if key in texts:
                texts[key] = re.sub(folders, "", texts[key])


def main() -> None:
    """Runs all notebooks and writes them in place."""
    for path in sorted((ROOT / "docs").glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name).resolve()
            notebook = run(path, folder)
            clean(notebook, folder)
            nbformat.write(notebook, path)
            print(path.relative_to(ROOT), file=sys.stderr)


if __name__ == "__main__":
    main()
