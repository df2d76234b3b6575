"""Tests of data.sqlite."""

import sqlite3

import numpy as np
import pytest

from data import clients, sqlite
from data.errors import UsageError

SPLITS = {
    "train": {"zoe": [b"3", b"1"], "ann": [b"4"], "bob": [b"5", b"9", b"2"]},
    "test": {"bob": [b"7"], "ann": [b"8", b"6"]},
}


def _parse(serialized: list[bytes]) -> clients.Examples:
    labels = np.array([int(item) for item in serialized], np.int32)
    return clients.Examples(labels[:, np.newaxis].astype(np.float32), labels)


@pytest.fixture
def path(tmp_path, write_database):
    return write_database(tmp_path / "toy.sqlite", SPLITS)


def _labels(population: clients.ClientData) -> list[list[int]]:
    return [population.load(index).labels.tolist() for index in range(len(population))]


@pytest.mark.parametrize(
    "damage",
    [lambda content: b"", lambda content: b"no database " * 1000, lambda content: content[: len(content) // 2]],
    ids=["empty", "no_database", "truncated"],
)
def test_a_damaged_file_is_named_with_the_flag(path, damage):
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UsageError, match=r"toy\.sqlite is not readable.*--data_dir"):
        sqlite.SqliteClients(path, "train", _parse)


def test_damage_found_while_reading_a_client_is_named_with_the_flag(path):
    population = sqlite.SqliteClients(path, "train", _parse)
    path.write_bytes(b"no database " * 1000)
    with pytest.raises(UsageError, match=r"toy\.sqlite is not readable.*--data_dir"):
        population.load(0)


def test_kept_rows_of_another_database_or_damaged_ones_are_found_again(path, write_database):
    first = _labels(sqlite.SqliteClients(path, "train", _parse))
    kept = path.with_name("toy.sqlite.train.rows.npz")
    other = kept.read_bytes()[:50]
    path.unlink()
    write_database(path, {"train": {"ann": [b"1"], "bob": [b"2", b"3"], "zoe": [b"5"]}})
    assert _labels(sqlite.SqliteClients(path, "train", _parse)) == [[1], [2, 3], [5]]
    kept.write_bytes(other)
    assert _labels(sqlite.SqliteClients(path, "train", _parse)) == [[1], [2, 3], [5]]
    assert first == [[4], [5, 9, 2], [3, 1]]


def test_rows_of_a_client_need_not_be_together(path):
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO examples VALUES ('train', 'ann', ?)", (b"6",))
    assert _labels(sqlite.SqliteClients(path, "train", _parse)) == [[4, 6], [5, 9, 2], [3, 1]]


def test_clients_have_the_examples_of_their_split_in_the_order_of_the_file_which_is_not_written(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    path.chmod(0o444)
    before = path.read_bytes()
    population = sqlite.SqliteClients(path.name, "train", _parse)
    assert list(population.client_ids) == ["ann", "bob", "zoe"]
    assert _labels(population) == _labels(population) == [[4], [5, 9, 2], [3, 1]]
    kept = path.with_name("toy.sqlite.train.rows.npz")
    written = kept.stat().st_mtime_ns
    assert _labels(sqlite.SqliteClients(path, "train", _parse)) == _labels(population)
    assert (path.read_bytes(), kept.stat().st_mtime_ns) == (before, written)
    other = sqlite.SqliteClients(path, "test", _parse)
    assert (list(other.client_ids), _labels(other)) == (["ann", "bob"], [[8, 6], [7]])
    with pytest.raises(UsageError, match=r"none\.sqlite is not readable"):
        sqlite.SqliteClients("none.sqlite", "train", _parse)
    assert not (path.parent / "none.sqlite").exists()
