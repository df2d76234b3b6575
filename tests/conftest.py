"""Fixtures of all tests."""

import os
import pathlib

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture(scope="session")
def tff_worker():
    """One TFF worker for the whole session."""
    from optimization import worker

    return worker.start()


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder of real data files; tests that need one are skipped where there is none."""
    folder = os.environ.get("FEDBANDITS_DATA_DIR")
    if not folder:
        pytest.skip("FEDBANDITS_DATA_DIR names no folder of real data")
    return pathlib.Path(folder)
