"""Tests of data.clients."""

import numpy as np

from data import clients, text


def _examples(count: int) -> clients.Examples:
    """Row i has features (10 i, 10 i + 1) and label i."""
    rows = np.arange(count, dtype=np.int32)
    return clients.Examples(np.stack([10 * rows, 10 * rows + 1], axis=1).astype(np.float32), rows)


def _clients(*owners: int, names: str = "abc") -> clients.ArrayClients:
    return clients.ArrayClients(_examples(len(owners)), np.array(owners), list(names))


class _Counted(clients.ArrayClients):
    """Counts the clients that are read."""

    loads = 0

    def load(self, index):
        self.loads += 1
        return super().load(index)


def test_a_client_beyond_the_cap_keeps_distinct_examples_of_its_own_in_order():
    capped = clients.CappedClients(_clients(*[0] * 20, *[1] * 20), max_examples=7, seed=0)
    labels = capped.load(1).labels
    assert labels.shape == (7,)
    assert (np.diff(labels) > 0).all()
    assert ((labels >= 20) & (labels < 40)).all()
    np.testing.assert_array_equal(capped.load(1).features[:, 0], 10 * labels)


def test_each_participation_of_a_client_beyond_the_cap_has_a_new_sample():
    capped = clients.CappedClients(_clients(*[0] * 50, *[1] * 3), max_examples=5, seed=3)
    samples = [capped.load(0, participation).labels.tolist() for participation in (1, 2, 1)]
    assert samples[0] == samples[2] != samples[1]
    assert capped.load(0).labels.tolist() not in samples
    assert len(set(samples[1])) == 5
    assert capped.load(1, participation=1).labels.tolist() == [50, 51, 52]


def _writers(second: int = 8) -> clients.ArrayClients:
    """Two clients of one and two posts, of one word and of two."""
    bags = text.Bags(np.int32([7, 5, second, 9, 6]), np.ones(5, np.float32), np.array([0, 1, 3, 5]))
    return clients.ArrayClients(clients.Examples(bags, np.array([3, 4, 5])), np.array([1, 0, 1]), ["a", "b"])


def test_file_checksum_of_a_large_file_sees_its_size_and_both_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(clients, "_CHECKED_END_BYTES", 100)
    path = tmp_path / "large"

    def checksum(size: int, changed_byte: int) -> str:
        with open(path, "wb") as file:
            file.truncate(size)
            file.seek(changed_byte)
            file.write(b"x")
        return clients.file_checksum(str(path))

    size = 1000
    assert len({checksum(size, 0), checksum(size, size - 1), checksum(size + 1, 0)}) == 3


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
    population = _Counted(_examples(30), np.repeat([0, 1, 2], 10), list("abc"))
    labels = clients.pool(population, max_examples=15, seed=0).labels
    assert len(set(labels.tolist())) == 15
    assert sorted(np.bincount(labels // 10, minlength=3)) == [0, 5, 10]
    assert population.loads == 2
    again, other = (clients.pool(population, 15, seed=seed).labels.tolist() for seed in (0, 1))
    assert labels.tolist() == again != other


def test_checksums_see_contents_dtype_shape_owners_and_words_but_not_memory_layout():
    array = np.array([[1, 2], [3, 4]], np.int32)
    others = [np.array([[1, 2], [3, 5]], np.int32), array.astype(np.int64), array.ravel()]
    assert len({clients.array_checksum(one) for one in (array, *others)}) == 4
    assert clients.array_checksum(np.asfortranarray(array)) == clients.array_checksum(array)
    assert _clients(0, 1, 2).checksum == _clients(0, 1, 2).checksum != _clients(0, 2, 1).checksum
    assert _writers().checksum == _writers().checksum != _writers(second=2).checksum
    assert clients.ArrayClients(_examples(1), np.zeros(1, int), ["a"], "digest").checksum == "digest"
