"""Tests of data.handwriting, with small archives and, where they are, the real ones."""

import numpy as np
import pytest

from data import handwriting
from data.errors import UsageError

UNIPEN = "unipen62_writers.npz"
MNIST = "mnist_with_writers.npz"
LOADERS = {UNIPEN: handwriting.unipen62, MNIST: handwriting.mnist_writers}
# Writers b, a and c of 20, 5 and 1 characters; each character's first pixel is its row number.
UNIPEN_SIZES = {"b": 20, "a": 5, "c": 1}
# The training digits' and the test digits' writers.
MNIST_WRITERS = {"train": [7, 3, 7, 11], "test": [9, 9, 2]}


@pytest.fixture(autouse=True)
def _no_default_folder(request, monkeypatch):
    if "shared_data" not in request.fixturenames:
        monkeypatch.delenv("FEDBANDITS_DATA_DIR", raising=False)


@pytest.fixture
def folder(tmp_path):
    """A folder with small, sound archives."""
    writers = np.repeat(np.arange(3), list(UNIPEN_SIZES.values())).astype(np.int32)
    pixels = np.full((26, 28, 28), 255, np.uint8)
    pixels[:, 0, 0] = np.arange(26)
    labels = (np.arange(26) + 30).astype(np.uint8)
    names = np.array(list(UNIPEN_SIZES))
    np.savez_compressed(tmp_path / UNIPEN, pixels=pixels, label=labels, writer=writers, writer_ids=names)
    arrays = {}
    for split, owners in MNIST_WRITERS.items():
        digits = np.zeros((len(owners), 28, 28), np.uint8)
        digits[:, 0, 0] = np.arange(len(owners)) + 1
        arrays |= {
            f"x_{split}": digits,
            f"y_{split}": np.arange(len(owners), dtype=np.uint8),
            f"writer_{split}": np.array(owners, np.int16),
        }
    np.savez_compressed(tmp_path / MNIST, **arrays)
    return tmp_path


def _rows(population) -> list[list[int]]:
    """Returns the first pixel of each client's examples."""
    return [population.load(index).features[:, 0, 0].tolist() for index in range(len(population))]


def _totals(population) -> tuple[int, int, np.ndarray]:
    """Returns the number of examples, of the smallest client's examples, and of each label's."""
    labels = [population.load(index).labels for index in range(len(population))]
    sizes = [len(client) for client in labels]
    return sum(sizes), min(sizes), np.bincount(np.concatenate(labels))


def test_unipen_writers_keep_the_files_order_and_names(folder):
    train, held_out = handwriting.unipen62(str(folder))
    assert list(train.client_ids) == list(held_out.client_ids) == ["b", "a", "c"]


def test_unipen_holds_out_a_tenth_of_each_writer_rounded_up(folder):
    train, held_out = handwriting.unipen62(str(folder))
    assert [len(rows) for rows in _rows(train)] == [18, 4, 0]
    assert [len(rows) for rows in _rows(held_out)] == [2, 1, 1]


def test_unipen_characters_stay_with_their_writers_each_in_one_part(folder):
    train, held_out = (_rows(part) for part in handwriting.unipen62(str(folder)))
    assert [sorted(a + b) for a, b in zip(train, held_out, strict=True)] == [
        list(range(20)),
        list(range(20, 25)),
        [25],
    ]


def test_unipen_labels_belong_to_their_pixels(folder):
    for part in handwriting.unipen62(str(folder)):
        for index in range(3):
            examples = part.load(index)
            np.testing.assert_array_equal(examples.labels, examples.features[:, 0, 0].astype(int) + 30)


def test_unipen_is_split_alike_at_every_load(folder):
    assert _rows(handwriting.unipen62(str(folder))[1]) == _rows(handwriting.unipen62(str(folder))[1])


def test_mnist_clients_are_the_writers_of_each_part_in_the_order_of_their_numbers(folder):
    train, test = handwriting.mnist_writers(str(folder))
    assert list(train.client_ids) == ["writer_3", "writer_7", "writer_11"]
    assert list(test.client_ids) == ["writer_2", "writer_9"]


def test_mnist_pixels_are_inverted_and_stay_with_their_labels(folder):
    train, test = handwriting.mnist_writers(str(folder))
    assert _rows(train) == [[255 - 2], [255 - 1, 255 - 3], [255 - 4]]
    assert [train.load(index).labels.tolist() for index in range(3)] == [[1], [0, 2], [3]]
    assert _rows(test) == [[255 - 3], [255 - 1, 255 - 2]]


@pytest.mark.parametrize("load", LOADERS.values(), ids=["unipen62", "mnist_writers"])
def test_pixels_stay_uint8_and_labels_are_int32(folder, load):
    for part in load(str(folder)):
        examples = part.load(0)
        assert (examples.features.dtype, examples.features.shape[1:]) == (np.uint8, (28, 28))
        assert examples.labels.dtype == np.int32


@pytest.mark.parametrize("name", LOADERS)
def test_the_checksum_is_the_files(folder, name):
    before = LOADERS[name](str(folder))[0].checksum
    assert LOADERS[name](str(folder))[0].checksum == before
    with open(folder / name, "ab") as file:
        file.write(b"\0")
    assert LOADERS[name](str(folder))[0].checksum != before


def test_normalise_maps_0_to_255_onto_0_to_1_and_adds_the_channel():
    pixels = np.zeros((1, 28, 28), np.uint8)
    pixels[0, 0, :3] = [0, 51, 255]
    values = handwriting.normalise(pixels)
    assert (values.dtype, values.shape) == (np.float32, (1, 28, 28, 1))
    np.testing.assert_allclose(values[0, 0, :3, 0], [0.0, 0.2, 1.0], rtol=1e-6)


@pytest.mark.parametrize("name", LOADERS)
def test_the_environment_names_the_folder_where_the_flag_does_not(folder, monkeypatch, name):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(folder))
    assert len(LOADERS[name](None)[0]) == 3


def test_the_flag_goes_before_the_environment(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(tmp_path / "nowhere"))
    assert len(handwriting.unipen62(str(folder))[0]) == 3


@pytest.mark.parametrize("name", LOADERS)
def test_without_a_folder_the_error_says_how_to_name_one(name):
    with pytest.raises(UsageError, match=f"reads {name}.*--data_dir or FEDBANDITS_DATA_DIR"):
        LOADERS[name](None)


@pytest.mark.parametrize("name", LOADERS)
def test_a_missing_file_is_named_with_the_flag(tmp_path, name):
    with pytest.raises(UsageError, match=f"no {name} in {tmp_path}.*--data_dir"):
        LOADERS[name](str(tmp_path))


def _flip(content: bytes, signature: bytes, offset: int, value: int) -> bytes:
    """Sets one byte of every zip record with this signature."""
    changed = bytearray(content)
    place = changed.find(signature)
    while place >= 0:
        changed[place + offset] = value
        place = changed.find(signature, place + 4)
    return bytes(changed)


DAMAGES = {
    "empty": lambda content: b"",
    "no_archive": lambda content: b"pixels, label, writer\n" * 50,
    "truncated": lambda content: content[: len(content) // 2],
    "without_its_last_byte": lambda content: content[:-1],
    "wrong_bytes_inside": lambda content: content[:200] + bytes(40) + content[240:],
    "unknown_compression": lambda content: _flip(content, b"PK\1\2", 10, 77),
    "encrypted": lambda content: _flip(_flip(content, b"PK\1\2", 8, 1), b"PK\3\4", 6, 1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", LOADERS)
def test_a_damaged_file_is_named_with_the_flag(folder, name, damage):
    path = folder / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UsageError, match=f"{name} is not readable.*--data_dir"):
        LOADERS[name](str(folder))


@pytest.mark.parametrize("name", LOADERS)
def test_an_archive_of_other_arrays_is_named_with_the_flag(tmp_path, name):
    np.savez(tmp_path / name, other=np.zeros(3))
    with pytest.raises(UsageError, match=f"{name} is not readable.*--data_dir"):
        LOADERS[name](str(tmp_path))


def test_an_archive_with_pickled_objects_is_refused(tmp_path):
    np.savez(tmp_path / UNIPEN, pixels=np.array([{}]), label=[0], writer=[0], writer_ids=["a"])
    with pytest.raises(UsageError, match=r"not readable.*--data_dir"):
        handwriting.unipen62(str(tmp_path))


def test_the_real_unipen_has_211_writers_of_62_characters(shared_data):
    train, held_out = handwriting.unipen62(str(shared_data))
    assert len(train) == len(held_out) == len(set(train.client_ids)) == 211
    assert train.client_ids == held_out.client_ids
    (num_train, smallest, _), (num_held_out, smallest_held_out, labels) = _totals(train), _totals(held_out)
    assert (num_train, num_held_out) == (75_454, 8_486)
    assert (smallest, smallest_held_out) == (18, 2)
    assert len(labels) == 62
    assert (labels > 0).all()


def test_the_real_mnist_is_whole_and_its_test_writers_are_others(shared_data):
    train, test = handwriting.mnist_writers(str(shared_data))
    assert (len(train), len(test)) == (539, 297)
    assert not set(train.client_ids) & set(test.client_ids)
    # The published class sizes.
    assert _totals(train)[2].tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert _totals(test)[2].tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.parametrize("load", LOADERS.values(), ids=["unipen62", "mnist_writers"])
def test_the_real_files_have_ink_on_a_background_of_255(shared_data, load):
    pixels = load(str(shared_data))[0].load(0).features
    assert np.median(pixels) == 255
    assert pixels.min() < 50
