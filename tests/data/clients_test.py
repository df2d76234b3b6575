"""Tests of data.clients."""

import sqlite3
from unittest import mock

import numpy as np
import pytest

from data import clients, text
from data.errors import UsageError


def _examples(count: int) -> clients.Examples:
    """Row i has features (10 i, 10 i + 1) and label i."""
    rows = np.arange(count, dtype=np.int32)
    return clients.Examples(np.stack([10 * rows, 10 * rows + 1], axis=1).astype(np.float32), rows)


def _clients(*owners: int, names: str = "abc") -> clients.ArrayClients:
    return clients.ArrayClients(_examples(len(owners)), np.array(owners), list(names))


def test_each_participation_of_a_client_beyond_the_cap_has_a_new_ordered_sample_of_its_own_examples():
    capped = clients.CappedClients(_clients(*[0] * 50, *[1] * 3), max_examples=5, seed=3)
    samples = [capped.load(0, participation).labels.tolist() for participation in (1, 2, 1)]
    assert samples[0] == samples[2] != samples[1]
    assert capped.load(0).labels.tolist() not in samples
    assert all(sample == sorted(set(sample)) and len(sample) == 5 and max(sample) < 50 for sample in samples)
    np.testing.assert_array_equal(capped.load(0).features[:, 0], 10 * capped.load(0).labels)
    assert capped.load(1, participation=1).labels.tolist() == [50, 51, 52]


def test_the_checksum_of_a_large_file_depends_on_its_size_and_both_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(clients, "_CHECKED_END_BYTES", 100)
    contents = [b"x" + bytes(999), bytes(999) + b"x", b"x" + bytes(1000)]
    for number, content in enumerate(contents):
        (tmp_path / str(number)).write_bytes(content)
    assert len({clients.file_checksum(str(tmp_path / str(number))) for number in range(3)}) == 3


def test_array_clients_own_their_rows_in_the_order_of_the_source():
    population = _clients(2, 0, 2, 0, names="abc")
    assert (list(population.client_ids), len(population)) == (["a", "b", "c"], 3)
    assert [population.load(index).labels.tolist() for index in range(3)] == [[1, 3], [], [0, 2]]
    examples = population.load(0)
    np.testing.assert_array_equal(examples.features, [[10, 11], [30, 31]])
    assert (examples.features.dtype, examples.labels.dtype) == (np.float32, np.int32)
    assert population.load(1).features.shape == (0, 2)


def test_the_capped_choice_depends_on_the_seed_and_on_the_client_alone():
    population = _clients(*[0] * 50, *[1] * 50)

    def chosen(index, seed):
        capped = clients.CappedClients(population, 5, seed=seed)
        assert (capped.client_ids, capped.checksum) == (population.client_ids, population.checksum)
        capped.load(1)
        return (capped.load(index).labels % 50).tolist()

    assert chosen(0, 3) == chosen(0, 3)
    assert chosen(0, 3) not in (chosen(0, 4), chosen(1, 3))


def test_a_pool_takes_whole_clients_until_the_last_and_reads_no_more():
    population, load = _clients(*np.repeat([0, 1, 2], 10)), clients.ArrayClients.load
    with mock.patch.object(clients.ArrayClients, "load", autospec=True, side_effect=load) as loads:
        labels = clients.pool(population, max_examples=15, seed=0).labels
    assert loads.call_count == 2
    assert len(set(labels.tolist())) == 15
    assert sorted(np.bincount(labels // 10, minlength=3)) == [0, 5, 10]
    again, other = (clients.pool(population, 15, seed=seed).labels.tolist() for seed in (0, 1))
    assert labels.tolist() == again != other


def test_checksums_depend_on_contents_dtype_shape_owners_and_words_but_not_on_memory_layout():
    def of_words(second: int) -> str:
        bags = text.Bags(np.int32([7, 5, second, 9, 6]), np.ones(5, np.float32), np.array([0, 1, 3, 5]))
        return clients.ArrayClients(clients.Examples(bags, np.arange(3)), np.array([1, 0, 1]), ["a", "b"]).checksum

    array = np.array([[1, 2], [3, 4]], np.int32)
    others = [np.array([[1, 2], [3, 5]], np.int32), array.astype(np.int64), array.ravel()]
    assert len({clients.array_checksum(one) for one in (array, *others)}) == 4
    assert clients.array_checksum(np.asfortranarray(array)) == clients.array_checksum(array)
    assert _clients(0, 1, 2).checksum == _clients(0, 1, 2).checksum != _clients(0, 2, 1).checksum
    assert of_words(8) == of_words(8) != of_words(2)
    assert clients.ArrayClients(_examples(1), np.zeros(1, int), ["a"], "digest").checksum == "digest"


def _parse(serialized: list[bytes]) -> clients.Examples:
    labels = np.array(serialized, np.int32)
    return clients.Examples(labels[:, np.newaxis].astype(np.float32), labels)


@pytest.fixture
def path(tmp_path, write_database):
    train = {"zoe": [b"3", b"1"], "ann": [b"4"], "bob": [b"5", b"9", b"2"]}
    return write_database(tmp_path / "toy.sqlite", {"train": train, "test": {"bob": [b"7"], "ann": [b"8", b"6"]}})


def _labels(population: clients.ClientData) -> list[list[int]]:
    return [population.load(index).labels.tolist() for index in range(len(population))]


def test_a_damaged_file_is_named_with_the_flag(path):
    population = clients.SqliteClients(path, "train", _parse)
    for content in (b"", path.read_bytes()[:5000], b"no database " * 1000):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=r"toy\.sqlite is not readable.*--data_dir"):
            clients.SqliteClients(path, "train", _parse)
    with pytest.raises(UsageError, match=r"toy\.sqlite is not readable.*--data_dir"):
        population.load(0)


def test_kept_rows_of_another_database_or_damaged_ones_are_found_again(path, write_database):
    with sqlite3.connect(path) as connection:  # The rows of a client need not be together.
        connection.execute("INSERT INTO examples VALUES ('train', 'ann', ?)", (b"6",))
    assert _labels(clients.SqliteClients(path, "train", _parse)) == [[4, 6], [5, 9, 2], [3, 1]]
    kept = path.with_name("toy.sqlite.train.rows.npz")
    damaged = kept.read_bytes()[:50]
    path.unlink()
    write_database(path, {"train": {"ann": [b"1"], "bob": [b"2", b"3"], "zoe": [b"5"]}})
    assert _labels(clients.SqliteClients(path, "train", _parse)) == [[1], [2, 3], [5]]
    kept.write_bytes(damaged)
    assert _labels(clients.SqliteClients(path, "train", _parse)) == [[1], [2, 3], [5]]


def test_clients_have_the_examples_of_their_split_in_the_order_of_the_file_which_is_not_written(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    path.chmod(0o444)
    before = path.read_bytes()
    population = clients.SqliteClients(path.name, "train", _parse)
    assert list(population.client_ids) == ["ann", "bob", "zoe"]
    assert _labels(population) == _labels(population) == [[4], [5, 9, 2], [3, 1]]
    kept = path.with_name("toy.sqlite.train.rows.npz")
    written = kept.stat().st_mtime_ns
    assert _labels(clients.SqliteClients(path, "train", _parse)) == _labels(population)
    assert (path.read_bytes(), kept.stat().st_mtime_ns) == (before, written)
    other = clients.SqliteClients(path, "test", _parse)
    assert (list(other.client_ids), _labels(other)) == (["ann", "bob"], [[8, 6], [7]])
    with pytest.raises(UsageError, match=r"none\.sqlite is not readable"):
        clients.SqliteClients("none.sqlite", "train", _parse)
    assert not (path.parent / "none.sqlite").exists()
