"""Fixtures of the data sets' tests."""

import pathlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence

import pytest

# split -> client -> its serialized examples.
Splits = Mapping[str, Mapping[str, Sequence[bytes]]]


@pytest.fixture(scope="session")
def write_database() -> Callable[[pathlib.Path, Splits], pathlib.Path]:
    """Writes a database in the form of TFF's data sets."""

    def write(path: pathlib.Path, splits: Splits) -> pathlib.Path:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)")
        connection.execute("CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER)")
        for split, members in splits.items():
            for client, examples in members.items():
                connection.execute("INSERT INTO client_metadata VALUES (?, ?, ?)", (client, split, len(examples)))
                connection.executemany(
                    "INSERT INTO examples VALUES (?, ?, ?)", [(split, client, example) for example in examples]
                )
        connection.commit()
        connection.close()
        return path

    return write


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
