"""Tests of data.clients."""

import numpy as np
import pytest

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


def test_take_returns_the_rows_asked_for_in_that_order():
    taken = _examples(4).take(np.array([2, 0]))
    np.testing.assert_array_equal(taken.features, [[20, 21], [0, 1]])
    np.testing.assert_array_equal(taken.labels, [2, 0])


def test_array_clients_own_their_rows_in_the_order_of_the_source():
    population = _clients(2, 0, 2, 0, 1)
    assert [population.load(index).labels.tolist() for index in range(3)] == [[1, 3], [4], [0, 2]]
    np.testing.assert_array_equal(population.load(0).features, [[10, 11], [30, 31]])


def test_array_clients_keep_dtypes():
    examples = _clients(0, 1, 2).load(1)
    assert (examples.features.dtype, examples.labels.dtype) == (np.float32, np.int32)


def test_array_clients_are_named_and_counted():
    population = _clients(0, 0)
    assert (list(population.client_ids), len(population)) == (["a", "b", "c"], 3)


def test_a_client_without_rows_has_no_examples():
    examples = _clients(0, 2).load(1)
    assert (examples.features.shape, examples.labels.shape) == ((0, 2), (0,))


def test_array_clients_checksum_is_the_given_one():
    assert clients.ArrayClients(_examples(1), np.zeros(1, int), ["a"], "digest").checksum == "digest"


def test_array_clients_checksum_changes_with_the_owner_of_a_row():
    assert _clients(0, 1, 2).checksum == _clients(0, 1, 2).checksum
    assert _clients(0, 1, 2).checksum != _clients(0, 2, 1).checksum


@pytest.mark.parametrize("cap", [3, 0])
def test_a_client_within_the_cap_or_without_one_is_untouched(cap):
    capped = clients.CappedClients(_clients(0, 0, 0, 1), max_examples=cap, seed=0)
    assert capped.load(0).labels.tolist() == [0, 1, 2]


def test_a_client_beyond_the_cap_keeps_distinct_examples_of_its_own_in_order():
    capped = clients.CappedClients(_clients(*[0] * 20, *[1] * 20), max_examples=7, seed=0)
    labels = capped.load(1).labels
    assert labels.shape == (7,)
    assert (np.diff(labels) > 0).all()
    assert ((labels >= 20) & (labels < 40)).all()
    np.testing.assert_array_equal(capped.load(1).features[:, 0], 10 * labels)


def test_the_capped_choice_is_the_same_at_every_call():
    capped = clients.CappedClients(_clients(*[0] * 50), max_examples=5, seed=3)
    first = capped.load(0).labels
    capped.load(1)
    np.testing.assert_array_equal(capped.load(0).labels, first)


def test_the_capped_choice_depends_on_the_seed_and_on_the_client():
    population = _clients(*[0] * 50, *[1] * 50)
    first = clients.CappedClients(population, 5, seed=3).load(0).labels
    assert first.tolist() != clients.CappedClients(population, 5, seed=4).load(0).labels.tolist()
    assert first.tolist() != (clients.CappedClients(population, 5, seed=3).load(1).labels - 50).tolist()


def test_at_each_visit_a_client_beyond_the_cap_draws_anew():
    capped = clients.CappedClients(_clients(*[0] * 50, *[1] * 3), max_examples=5, seed=3)
    visits = [capped.load(0, visit).labels.tolist() for visit in (1, 2, 1)]
    assert visits[0] == visits[2] != visits[1]
    assert capped.load(0).labels.tolist() not in visits
    assert len(set(visits[1])) == 5
    assert capped.load(1, visit=1).labels.tolist() == [50, 51, 52]


def test_capping_keeps_names_and_checksum():
    population = _clients(0, 0, 1)
    capped = clients.CappedClients(population, 1, seed=0)
    assert (capped.client_ids, capped.checksum) == (population.client_ids, population.checksum)


def test_pool_of_zero_holds_every_example_once():
    pooled = clients.pool(_clients(0, 1, 2, 1, 0), max_examples=0, seed=0)
    assert sorted(pooled.labels.tolist()) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(pooled.features[:, 0], 10 * pooled.labels)


@pytest.mark.parametrize("seed", range(5))
def test_pool_of_zero_goes_on_after_a_client_without_examples(seed):
    assert len(clients.pool(_clients(1, 1), max_examples=0, seed=seed).labels) == 2


def test_pool_takes_whole_clients_until_the_last():
    population = _clients(*[0] * 10, *[1] * 10, *[2] * 10)
    labels = clients.pool(population, max_examples=15, seed=0).labels
    assert len(set(labels.tolist())) == 15
    assert sorted(np.bincount(labels // 10, minlength=3)) == [0, 5, 10]


def test_pool_reads_no_more_clients_than_it_needs():
    population = _Counted(_examples(30), np.repeat([0, 1, 2], 10), list("abc"))
    clients.pool(population, max_examples=10, seed=0)
    assert population.loads == 1


def test_pool_of_more_than_there_is_holds_all():
    assert len(clients.pool(_clients(0, 1, 2), max_examples=100, seed=0).labels) == 3


def test_pool_is_a_function_of_the_seed():
    population = _clients(*[0] * 40)
    first = clients.pool(population, 10, seed=1).labels.tolist()
    assert clients.pool(population, 10, seed=1).labels.tolist() == first
    assert clients.pool(population, 10, seed=2).labels.tolist() != first


def _writers(second: int = 8) -> clients.ArrayClients:
    """Two clients of one and two posts, of one word and of two."""
    bags = text.Bags(np.int32([7, 5, second, 9, 6]), np.ones(5, np.float32), np.array([0, 1, 3, 5]))
    return clients.ArrayClients(clients.Examples(bags, np.array([3, 4, 5])), np.array([1, 0, 1]), ["a", "b"])


def test_posts_stay_with_their_client():
    bags, labels = _writers().load(1)
    assert (bags.ids.tolist(), bags.offsets.tolist(), labels.tolist()) == ([7, 9, 6], [0, 1, 3], [3, 5])


def test_posts_are_pooled_with_their_labels():
    bags, labels = clients.pool(_writers(), max_examples=0, seed=0)
    words = np.split(bags.ids, bags.offsets[1:-1])
    pooled = {int(label): post.tolist() for label, post in zip(labels, words, strict=True)}
    assert pooled == {3: [7], 4: [5, 8], 5: [9, 6]}


def test_the_checksum_sees_the_words_of_posts():
    assert _writers().checksum == _writers().checksum
    assert _writers().checksum != _writers(second=2).checksum


@pytest.mark.parametrize(
    "other",
    [
        np.array([[1, 2], [3, 5]], np.int32),
        np.array([[1, 2], [3, 4]], np.int64),
        np.array([1, 2, 3, 4], np.int32),
    ],
    ids=["contents", "dtype", "shape"],
)
def test_array_checksum_changes_with(other):
    assert clients.array_checksum(other) != clients.array_checksum(np.array([[1, 2], [3, 4]], np.int32))


def test_array_checksum_is_of_values_not_of_memory_layout():
    array = np.arange(6).reshape(2, 3)
    assert clients.array_checksum(np.asfortranarray(array)) == clients.array_checksum(array)


def test_file_checksum_is_of_contents_not_of_the_name(tmp_path):
    for name, content in (("a", b"same"), ("b", b"same"), ("c", b"other"), ("d", b"")):
        (tmp_path / name).write_bytes(content)
    a, b, c, d = (clients.file_checksum(str(tmp_path / name)) for name in "abcd")
    assert a == b
    assert len({a, c, d}) == 3


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


def test_sizes_are_those_of_the_clients_asked_for():
    np.testing.assert_array_equal(clients.sizes(_clients(2, 0, 2, 0, 2), [2, 1, 0]), [3, 0, 2])
