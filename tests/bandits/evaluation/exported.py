"""Predictions of exported models, in a process that does not have this project."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence

import numpy as np

# Runs in a process of its own, in whose path this project is not.
_PROGRAM = """
import importlib.util, json, pathlib, sys
import numpy as np, tensorflow as tf

assert importlib.util.find_spec("bandits") is None
rows = json.load(open(sys.argv[1]))
for folder in map(pathlib.Path, sys.argv[2:]):
    kinds = json.loads((folder / "signature.json").read_text())["inputs"]

    def inputs(number):
        types = {"number": number, "category": object, "offered": bool}
        return {name: np.array(rows[name], types[kind["type"]]) for name, kind in kinds.items()}

    loaded = tf.saved_model.load(str(folder / "saved_model"))
    found = {}
    for name, signature in loaded.signatures.items():
        outputs = signature(**{column: tf.constant(cells) for column, cells in inputs(np.float64).items()})
        found |= {f"saved {output}": values.numpy().tolist() for output, values in outputs.items()}
    if (folder / "model.tflite").exists():
        interpreter = tf.lite.Interpreter(str(folder / "model.tflite"))
        for name in interpreter.get_signature_list():
            for output, values in interpreter.get_signature_runner(name)(**inputs(np.float32)).items():
                found[f"lite {output}"] = values.tolist()
    json.dump(found, open(folder.parent / "found.json", "w"))
"""


def predicted(columns: Mapping[str, Sequence], *folders: pathlib.Path) -> list[dict[str, np.ndarray]]:
    """Outputs of the saved model and of the lite model for rows; each folder has a parent folder of its own."""
    top = folders[0].parent
    (top / "rows.json").write_text(json.dumps({name: list(cells) for name, cells in columns.items()}))
    command = [sys.executable, "-I", "-c", _PROGRAM, str(top / "rows.json"), *map(str, folders)]
    with open(top / "log.txt", "w") as log:
        subprocess.run(command, cwd=top, stdout=log, stderr=log, check=True)
    written = [json.loads((folder.parent / "found.json").read_text()) for folder in folders]
    return [{name: np.array(values) for name, values in found.items()} for found in written]
