"""Fixtures of the data sets' tests."""

from collections.abc import Callable

import pytest


@pytest.fixture
def write(tmp_path) -> Callable[..., str]:
    """Writes a text file and returns its path."""

    def to_file(text: str, name: str = "table.csv") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return to_file


@pytest.fixture(autouse=True)
def _no_default_folder(request, monkeypatch):
    """Hides the folder of real data from tests that do not ask for it."""
    if "shared_data" not in request.fixturenames:
        monkeypatch.delenv("FEDBANDITS_DATA_DIR", raising=False)
