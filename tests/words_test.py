"""Phrases that no file uses: each has a word of the field instead.

Not for Bazel, which hides the files.
"""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
# In two parts, so that this file has none of them.
_PARTS = {
    ("told", " from"): "significantly different from",
    ("told", " above"): "significantly higher than",
    ("cannot", " be told"): "inconclusive",
    ("would", " find"): "minimum detectable difference",
    ("the seeds", " say"): "the comparison over seeds",
    ("between", " chance and"): "normalized score",
    ("made", " clients"): "synthetic clients",
    ("dealt", " clients"): "partitioned into clients",
    ("worlds that", " change"): "non-stationary environments",
    ("constant", " action earns"): "best fixed action",
    ("best", " constant action"): "best fixed action",
    ("smaller", " deployment"): "shorter deployment period",
}
INSTEAD = {"".join(parts): words for parts, words in _PARTS.items()}


@pytest.mark.parametrize("phrase", INSTEAD)
def test_no_file_has_the_phrase(phrase):
    command = ["git", "grep", "--ignore-case", "--fixed-strings", "-n", "-I", "-e", phrase]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode in (0, 1), found.stderr
    assert found.stdout == "", f"Write instead: {INSTEAD[phrase]}"
