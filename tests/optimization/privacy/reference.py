"""Published figures, and all ways of taking part, which the mechanisms are compared with."""

import itertools
import json
import pathlib

import numpy as np

JAX_PRIVACY = json.loads(pathlib.Path(__file__).with_name("jax_privacy.json").read_text())


def patterns(rounds, min_separation):
    """Yields all rows of rounds in which one client may take part."""
    for row in itertools.product((0, 1), repeat=rounds):
        gaps = np.diff(np.flatnonzero(row))
        if not gaps.size or gaps.min() >= min_separation:
            yield np.array(row)
