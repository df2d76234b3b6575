"""Tests of data.tasks.own: the user's own clients, as a dictionary or loaded one at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from data import objects, reward_bounds, tasks
from data.errors import UsageError
from data.tasks import own, registry
from data.tasks.options import TaskOptions


def opened(data: Any, eval_data: Any = None, **options: Any) -> tasks.Task:
    """Task of data that is given in Python."""
    held_out = own.recorded("eval_data", eval_data) if eval_data is not None else None
    return registry.load(TaskOptions("own", data=own.recorded("data", data), eval_data=held_out, **options))


def client(number: int, *shape: int, count: int = 4, actions: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Features float64 [count, *shape], and class indices, of which the first client has the largest."""
    draw = np.random.default_rng(number)
    return draw.normal(size=(count, *(shape or (2,)))), np.arange(count) % actions


def population(count: int = 10, **changed: Any) -> dict[Any, Any]:
    """Clients `a`, `b`, ..., some of which are replaced."""
    return {chr(ord("a") + number): client(number) for number in range(count)} | changed


def replaced(features: Any, labels: Any) -> dict[Any, Any]:
    """The population with another client `b`."""
    return population(b=(features, labels))


class Loads:
    """A callable with `client_ids`, which keeps the ids of the clients that were `loaded`."""

    def __init__(self, load: Callable, *client_ids: Any):
        self.load, self.client_ids, self.loaded = load, client_ids, []

    def __call__(self, client_id):
        self.loaded.append(client_id)
        return self.load(client_id)


def test_a_fifth_of_a_dictionarys_clients_is_held_out_and_all_are_as_given():
    given = population(40)
    task = opened(given)
    assert (len(task.clients), len(task.held_out)) == (32, 8)
    assert sorted([*task.clients.client_ids, *task.held_out.client_ids]) == sorted(given)
    assert task.clients.client_ids == opened(given, actions="5").clients.client_ids
    for part in (task.clients, task.held_out):
        for place, name in enumerate(part.client_ids):
            examples = part.load(place)
            np.testing.assert_array_equal(examples.features, given[name][0].astype(np.float32))
            np.testing.assert_array_equal(examples.labels, given[name][1])
            assert (examples.features.dtype, examples.labels.dtype) == (np.float32, np.int32)
    assert (task.num_actions, task.model, task.model_arguments["hidden"]) == (3, "mlp", ())
    report = {"clients": 32, "held_out_clients": 8, "form": "features float64 (2,), class indices"}
    assert task.report == report | {"actions": 3, "examples": 128}
    np.testing.assert_array_equal(task.rewards["exact"], np.eye(3))
    np.testing.assert_array_equal(task.rewards["init"], np.diag([1, 1, 0]))


def test_eval_data_is_held_out_and_may_have_the_largest_label_or_no_examples():
    task = opened(population(2), {1: client(1, actions=4), 2: client(2)})
    assert (task.clients.client_ids, task.held_out.client_ids) == (["a", "b"], ["1", "2"])
    assert (task.num_actions, task.report["examples"]) == (4, 8)
    assert opened(population(b=client(0, count=0)), {"z": client(0)}).clients.load(1).features.shape == (0, 2)


def test_names_of_actions_are_those_of_the_setting():
    assert opened(population(), actions="stay,go,wait").action_names == ("stay", "go", "wait")
    numbered = opened(population(), actions="7")
    assert (numbered.num_actions, numbered.action_names) == (7, ())


def test_features_with_names_are_joined_in_alphabetical_order():
    age, clicks = np.arange(4), np.arange(8.0).reshape(4, 2)
    given = {name: ({"clicks": clicks, "age": age}, labels) for name, (_, labels) in population().items()}
    task = opened(given | {"a": ({"age": age, "clicks": clicks}, given["a"][1])})
    assert task.report["form"] == "age int64 (), clicks float64 (2,), class indices"
    assert task.feature_spec == ((3,), "float32")
    np.testing.assert_array_equal(task.clients.load(0).features, np.column_stack([age, clicks]))


@pytest.mark.parametrize(
    ("shape", "expected", "default"), [((28, 28), (28, 28, 1), "cnn"), ((6, 5, 3), (6, 5, 3), "mlp")]
)
def test_images_keep_their_shape(shape, expected, default):
    given = {name: client(place, *shape) for place, name in enumerate(population())}
    task = opened(given)
    assert (task.feature_spec, task.model) == ((expected, "float32"), default)
    assert task.clients.load(0).features.shape == (4, *expected)
    assert opened(given, model="resnet18").model_arguments["image_shape"] == expected
    assert opened({name: ({"pixels": one[0]}, one[1]) for name, one in given.items()}).feature_spec[0] == expected


@pytest.mark.parametrize(("bounds", "expected"), [(None, None), ("-4,4", reward_bounds.RewardBounds(-4.0, 4.0))])
def test_a_matrix_of_floats_is_the_reward_of_each_action(bounds, expected):
    given = {name: (one[0], np.eye(3)[one[1]]) for name, one in population().items()}
    task = opened(given, reward_bounds=bounds)
    assert (task.multi_label, task.has_reward_labels, set(task.rewards)) == (True, True, {"exact"})
    assert (task.num_actions, task.label_range) == (3, (0.0, 1.0))
    assert task.reward_bounds == expected
    np.testing.assert_array_equal(task.clients.load(0).labels, np.eye(3)[[0, 1, 2, 0]])
    assert task.clients.load(0).labels.dtype == np.float32


def test_a_loader_is_not_asked_for_all_clients():
    loader = Loads(client, *range(1000))
    task = registry.load(TaskOptions("own", data=objects.of(loader, "a:Loader 0123456789abcdef"), actions="3"))
    assert (len(set(loader.loaded)), len(task.clients)) == (200, 800)
    assert "examples" not in task.report
    number = int(task.clients.client_ids[5])
    np.testing.assert_array_equal(task.clients.load(5).features, client(number)[0].astype(np.float32))
    assert loader.loaded[-1] == number


def test_the_checksum_changes_with_the_data_and_only_then():
    changed = population(40)
    changed["c"][0][1, 1] += 1
    checksums = [opened(given).checksum for given in (population(40), population(40), changed, population(39))]
    assert checksums[0] == checksums[1]
    assert len(set(checksums)) == 3
    held_out = [opened(population(), {"z": client(number)}).checksum for number in (1, 1, 2)]
    assert held_out[0] == held_out[1] != held_out[2]


def test_a_dictionary_is_recorded_by_its_checksum():
    recorded = own.recorded("data", population())
    assert (recorded, recorded.problem, recorded.short) == (own.recorded("data", population()), "", "dict")
    with pytest.raises(UsageError, match="needs --data"):
        registry.load(TaskOptions("own"))
    assert recorded != own.recorded("data", population(11))
    with pytest.raises(UsageError, match="was an object in memory that no longer exists"):
        registry.load(TaskOptions("own", data=str(recorded)))
    assert own.recorded("data", Loads(client, *range(9))).problem == "is neither a function nor a frozen dataclass"


class _Dataset(dict):
    """A client's arrays, read as from a `tf.data.Dataset`."""

    def batch(self, size):
        return self

    def as_numpy_iterator(self):
        return iter([dict(self)])


class _Features:
    """A data set of TFF, without TensorFlow."""

    client_ids = ("x", "y")

    def create_tf_dataset_for_client(self, client_id):
        return _Dataset(zip("pl", client(len(client_id), 28, 28), strict=True))


def test_clients_of_tff_are_read_by_the_names_of_their_arrays():
    data = own.FromTff(_Features(), label="l", features=["p"])
    task = opened(data, population(2, a=data("x"), b=data("x")), actions="3")
    assert task.clients.client_ids == ["x", "y"]
    np.testing.assert_array_equal(task.clients.load(0).features[..., 0], client(1, 28, 28)[0].astype(np.float32))
    assert own.recorded("data", data).label == "FromTff"
    with pytest.raises(UsageError, match="data is a _Features; it must be a dict, or a callable with client_ids"):
        opened(_Features())
    with pytest.raises(UsageError, match=r"data, client 'x': .*KeyError: 'wrong'"):
        opened(own.FromTff(_Features(), "l", ["wrong"]), actions="3")


INDICES = [0, 1, 2, 0]
WRONG = {
    "id": (population() | {1.5: client(1)}, "data has 1.5: .* a string or a whole number"),
    "bool id": (population() | {True: client(1)}, "data has True"),
    "same id": ({1: client(1), "1": client(2)}, "data has 1 different ids of 2 clients"),
    "few clients": (population(4), "data has 4 clients, .* --eval_data"),
    "no pair": (population(b=np.zeros(3)), "data, client 'b': .* cannot be read: ValueError"),
    "ragged": (replaced([[1, 2], [3]], [0, 1]), "data, client 'b': .* cannot be read: ValueError: .*inhomogeneous"),
    "objects": (replaced(np.array([["x", None]]), [0]), r"client 'b': features must be numbers .*not object \(1, 2\)"),
    "no columns": ({"a": (np.zeros((3, 0)), [0, 1, 2])}, r"client 'a': features must be numbers .* \(3, 0\)"),
    "no arrays": ({"a": ({}, [0, 1, 2])}, "client 'a' has features for no examples, but labels for 3"),
    "nan": (replaced(np.full((4, 2), np.nan), INDICES), "client 'b': features: nan must be a finite number"),
    "range": (replaced(np.full((4, 2), 1e39), INDICES), "features: 1e.39 must be a finite .* float32"),
    "shape": (replaced(*client(1, 3)), r"'b' has features float64 \(3,\), .* \(2,\), class indices: all clients"),
    "length": (replaced(np.zeros((3, 2)), [0, 1]), r"client 'b' has features for \{3\} examples, but labels for 2"),
    "one-hot ints": (replaced(np.zeros((4, 2)), np.eye(4, dtype=int)), r"'b': labels must be ints .*int64 \(4, 4\)"),
    "negative": (replaced(np.zeros((4, 2)), [0, 1, -1, 0]), "client 'b': labels range from -1 to 1, not from 0"),
    "huge": (replaced(np.zeros((4, 2)), [0, 1, 2**40, 0]), "client 'b': labels range from 0 to 1099511627776"),
    "rewards": (replaced(np.zeros((4, 2)), np.eye(4)), "client 'b' has .* rewards of 4 actions. .* class indices"),
    "nan reward": ({"a": (np.zeros((1, 2)), [[np.nan, 0.0]])}, "client 'a': labels: nan must be a finite number"),
    "one label": ({name: (one[0], 0 * one[1]) for name, one in population().items()}, "data has 1 actions"),
    "empty": ({name: client(0, count=0) for name in "abcde"}, "data has no example in any of 5 clients"),
    "function": (client, "data is a function; it must be a dict, or a callable with client_ids"),
    "failure": (Loads(lambda _: 1 / 0, *range(9)), "client '0': .* cannot be read: ZeroDivisionError: division by"),
    "loader without actions": (Loads(client, *range(9)), "data needs --actions, because not all clients are loaded"),
    "loader of rewards": (Loads(lambda n: (client(n)[0], np.eye(4)), *range(9)), "data needs --reward_bounds"),
}


@pytest.mark.parametrize(("data", "message"), WRONG.values(), ids=WRONG)
def test_invalid_data_is_refused_with_the_client_and_the_reason(data, message):
    with pytest.raises(UsageError, match=message):
        opened(data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"actions": "2"}, "client 'a': labels range from 0 to 2, not from 0 to 1"),
        ({"actions": "go,stay,go"}, "with distinct names in --actions"),
        ({"reward_bounds": "0,1"}, "--reward_bounds has no effect on data with class indices"),
        ({"init_labels": 9}, "--init_labels=9"),
        ({"model": "cnn"}, "--model=cnn takes images"),
        ({"eval_data": population(1)}, "eval_data has clients of data, such as '"),
        ({"eval_data": population(1, a=client(1, 3))}, r"eval_data, client 'a' has features float64 \(3,\)"),
    ],
)
def test_options_that_do_not_fit_the_data_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        opened(population(), **options)


def test_a_bad_client_of_a_loader_is_refused_when_it_is_loaded():
    task = opened(Loads(lambda number: client(number, 2 + (number == 11)), *range(1000)), {"z": client(1)}, actions="3")
    with pytest.raises(UsageError, match=r"data, client '11' has features float64 \(3,\)"):
        task.clients.load(11)
