"""Runs a program from the checkout in the working directory, and writes the field names of its checkpoints.

`compare_versions` starts this file; nothing imports it.

Checkpoints have numbered leaves, so a new field would shift all later ones. The names, in `fields.json`, are those of
the last structure that was flattened before a checkpoint was saved.
"""

import json
import os
import runpy
import sys
from typing import Any
from unittest import mock

# Import the checkout's modules, not those in this file's folder, which Python puts first without PYTHONSAFEPATH.
sys.path = [os.getcwd(), *(path for path in sys.path if path != os.path.dirname(__file__))]

import tensorflow as tf  # noqa: E402
from tensorflow.python.util import nest  # noqa: E402

from optimization.study.run_folder import RunFolder  # noqa: E402


def _main() -> None:
    """Runs the module that is the first argument, with the other arguments."""
    flatten, save = tf.nest.flatten, RunFolder.save_checkpoint
    flattened: list[Any] = [None]

    def record_structure(structure: Any, *args: Any, **kwargs: Any) -> list:
        flattened[0] = structure
        return flatten(structure, *args, **kwargs)

    def save_names(folder: RunFolder, round_num: int, leaves: list) -> None:
        names = [name for name, _ in nest.flatten_with_joined_string_paths(flattened[0])]
        (folder.path / "fields.json").write_text(json.dumps(names))
        save(folder, round_num, leaves)

    del sys.argv[0]
    with (
        mock.patch.object(tf.nest, "flatten", record_structure),
        mock.patch.object(RunFolder, "save_checkpoint", save_names),
    ):
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


_main()
