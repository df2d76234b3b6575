"""Tests of data.convert.images, on small files in the published forms, and on the real ones' order."""

import gzip
import hashlib
import io
import pickle
import tarfile

import numpy as np
import pytest

from data.convert import images as convert
from data.errors import UsageError
from data.tasks import handwriting, images
from data.tasks.options import TaskOptions

RANDOM = np.random.default_rng(0).integers(0, 256, (9, 28, 28), np.uint8)
# A row a digit: digit, series, writer, then five numbers that are not read.
TRAIN = np.array([[5, 4, 2154, 0, 35, 1, 0, 0], [0, 0, 7, 1, 30, 2, 0, 0], [4, 1, 7, 2, 34, 3, 0, 0]])
TEST = np.array([[7, 4, 2578, 0, 37, 4, 0, 0], [2, 4, 300, 1, 32, 5, 0, 0], [9, 1, 9, 9, 39, 6, 0, 0]])


def write(path, values: np.ndarray) -> None:
    kind = {"uint8": 8, ">i4": 12}[values.dtype.str.removeprefix("|u1") or "uint8"]
    content = bytes((0, 0, kind, values.ndim)) + np.array(values.shape, ">i4").tobytes() + values.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture
def digits(tmp_path):
    """Three training digits and two test digits; QMNIST has three test digits."""
    write(tmp_path / "train-images-idx3-ubyte.gz", RANDOM[:3])
    write(tmp_path / "train-labels-idx1-ubyte.gz", TRAIN[:, 0].astype(np.uint8))
    write(tmp_path / "t10k-images-idx3-ubyte", RANDOM[3:5])
    write(tmp_path / "t10k-labels-idx1-ubyte.gz", TEST[:2, 0].astype(np.uint8))
    write(tmp_path / "qmnist-train-labels-idx2-int.gz", TRAIN.astype(">i4"))
    write(tmp_path / "qmnist-test-labels-idx2-int.gz", TEST.astype(">i4"))
    return tmp_path


def test_mnist_gets_its_writers(digits):
    arrays = convert.mnist_writers(digits)
    parts = ("train", "test")
    assert list(arrays) == [f"{key}_{part}" for keys in ("xy", ["writer"], ["hsf"]) for part in parts for key in keys]
    np.testing.assert_array_equal(arrays["x_test"], RANDOM[3:5])
    assert arrays["y_train"].tolist() == [5, 0, 4]
    assert (arrays["writer_train"].tolist(), arrays["writer_test"].tolist()) == ([2154, 7, 7], [2578, 300])
    assert (arrays["hsf_train"].tolist(), arrays["hsf_test"].tolist()) == ([4, 0, 1], [4, 4])


def test_the_task_reads_what_was_made_of_mnist(digits):
    np.savez(digits / "mnist_with_writers.npz", **convert.mnist_writers(digits))
    train, test = handwriting.mnist_writers(str(digits))
    assert (train.client_ids, test.client_ids) == (["writer_7", "writer_2154"], ["writer_300", "writer_2578"])
    np.testing.assert_array_equal(train.load(0).features, 255 - RANDOM[1:3])


def test_labels_of_other_digits_are_refused(digits):
    wrong = TRAIN.copy()
    wrong[1, 0] = 3
    write(digits / "qmnist-train-labels-idx2-int.gz", wrong.astype(">i4"))
    with pytest.raises(UsageError, match=r"and MNIST differ in the label of digit 1"):
        convert.mnist_writers(digits)


def test_fashion_is_sorted_by_the_digests_of_its_images(tmp_path):
    for name, rows in (("train", slice(0, 6)), ("t10k", slice(6, 9))):
        write(tmp_path / f"{name}-images-idx3-ubyte.gz", RANDOM[rows])
        write(tmp_path / f"{name}-labels-idx1-ubyte.gz", np.arange(9, dtype=np.uint8)[rows])
    arrays = convert.fashion_mnist(tmp_path)
    digests = [hashlib.sha256(image.tobytes()).hexdigest() for image in arrays["x"]]
    assert digests == sorted(digests)
    np.testing.assert_array_equal(arrays["x"], RANDOM[arrays["y"]])
    np.savez(tmp_path / "fashion_mnist_pool.npz", **arrays)
    task = images.load_partitioned(TaskOptions("fashion_mnist", data_dir=str(tmp_path), partition_clients=1))
    train, held_out = task.clients, task.held_out
    assert len(train.load(0).labels) + len(held_out.load(0).labels) == 9


def _cifar(labels: list[int], seed: int) -> tuple[bytes, np.ndarray]:
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), 3072), np.uint8)
    return pickle.dumps({b"data": pixels, b"fine_labels": labels}), pixels


@pytest.mark.parametrize("packed", [False, True])
def test_cifar_keeps_the_150_images_of_a_class_with_the_smallest_digests(tmp_path, packed):
    train, train_pixels = _cifar([3] * 160 + [4] * 5, 1)
    test, test_pixels = _cifar([3] * 10, 2)
    if packed:
        with tarfile.open(tmp_path / "cifar-100-python.tar.gz", "w:gz") as archive:
            for name, content in (("train", train), ("test", test)):
                member = tarfile.TarInfo(f"cifar-100-python/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    else:
        (tmp_path / "train").write_bytes(train)
        (tmp_path / "test").write_bytes(test)
    arrays = convert.cifar100(tmp_path)
    assert np.bincount(arrays["y"]).tolist() == [0, 0, 0, 150, 5]
    pixels = np.concatenate([train_pixels[:160], test_pixels]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    digests = sorted(hashlib.sha256(np.ascontiguousarray(image).tobytes()).digest() for image in pixels)
    assert [hashlib.sha256(image.tobytes()).digest() for image in arrays["x"][arrays["y"] == 3]] == digests[:150]


PENS = """.COMMENT a line
of comment
.WRITER_ID jane
.COORD T X Y
.PEN_DOWN
0 1 10
1 2 20
2 3 30
.PEN_UP
.PEN_DOWN
3 4 40
4 5 50
.PEN_UP
.WRITER_ID joe
.PEN_DOWN
5 6 60
.PEN_UP
6 7 70
.PEN_DOWN
7 8 80
"""


@pytest.fixture
def read(tmp_path):
    """Function from segments to the characters of a file with them."""
    (tmp_path / "include" / "x").mkdir(parents=True)
    (tmp_path / "include" / "x" / "pens.dat").write_text(PENS)

    def characters(segments: str) -> list[convert.Character]:
        path = tmp_path / "a.dat"
        path.write_text(f".VERSION 1.0\n.INCLUDE x/pens.dat\n{segments}\n")
        return list(convert.characters(path, tmp_path / "include"))

    return characters


@pytest.mark.parametrize(
    ("delineation", "strokes"),
    [
        ("0", [[1, 2, 3]]),
        ("0-1", [[1, 2, 3], [4, 5]]),
        ("0:1-1:0", [[2, 3], [4]]),
        ("0:1-0:1", [[2]]),
        ("1,0:2-0:2", [[4, 5], [3]]),
        ("2-4", [[6], [8]]),  # Component 3 is one with the pen up.
        ("4-9", [[8]]),
        ("7", []),
        ("1-", []),
        ("a", []),
    ],
)
def test_a_delineation_names_components_and_points(read, delineation, strokes):
    (character,) = read(f'.SEGMENT CHARACTER {delineation} OK "q"')
    assert character.text == "q"
    assert [stroke[:, 0].tolist() for stroke in character.strokes] == strokes
    assert [stroke[:, 1].tolist() for stroke in character.strokes] == [[10 * x for x in stroke] for stroke in strokes]


@pytest.fixture
def source(tmp_path):
    """Two contributors: `aga` with two writers, and `apa` and `app` with one that is in both."""

    def write(category: str, contributor: str, name: str, writer: str, letters: str) -> None:
        pens = "".join(f".PEN_DOWN\n0 0\n{number} 9\n.PEN_UP\n" for number in range(len(letters)))
        segments = "".join(f'.SEGMENT CHARACTER {number} OK "{text}"\n' for number, text in enumerate(letters))
        for folder, content in (
            (tmp_path / "include" / contributor, f".WRITER_ID {writer}\n.COORD X Y\n{pens}"),
            (tmp_path / "data" / category / contributor, f".INCLUDE {contributor}/{name}\n{segments}"),
        ):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)

    write("1a", "aga", "one.dat", "Zoe", "0123456789")
    write("1b", "aga", "two.dat", "Adam", "AZ!Z")
    write("1c", "apa", "three.dat", "Eve", "az")
    write("1c", "app", "four.dat", "Eve", "abc")
    return tmp_path


def test_writers_are_numbered_by_contributor_and_name(source, capsys):
    arrays = convert.unipen62(source)
    assert arrays["writer_ids"].tolist() == ["aga_000", "aga_001", "ap_000"]
    assert arrays["writer"].tolist() == [0] * 3 + [1] * 10 + [2] * 2
    # The first two of app's characters have the strokes of apa's: an a again, and a b that looks like the z.
    assert arrays["label"].tolist() == [10, 35, 35, *range(10), 36, 38]
    assert [arrays[name].dtype for name in ("pixels", "label", "writer")] == [np.uint8, np.uint8, np.int32]
    message = (
        "15 characters of 3 writers; left out: 1 images of two labels, 1 neither digits nor letters, 2 repeated.\n"
    )
    assert capsys.readouterr().err == message


def test_the_task_reads_what_was_made(source):
    np.savez(source / "unipen62_writers.npz", **convert.unipen62(source))
    train, held_out = handwriting.unipen62(str(source))
    assert train.client_ids == ["aga_000", "aga_001", "ap_000"]
    assert [len(part.load(1).labels) for part in (train, held_out)] == [9, 1]


def test_segments_without_strokes_are_left_out_and_a_dot_counts_once(source, capsys):
    (source / "data" / "1a" / "x").mkdir()
    (source / "data" / "1a" / "x" / "a.dat").write_text(
        ".PEN_DOWN\n5 5\n5 5\n.PEN_DOWN\n9 9\n"
        + "".join(f'.SEGMENT CHARACTER {place} ? "1"\n' for place in ("0", "1", "7", "0:x"))
    )
    arrays = convert.unipen62(source)
    assert (arrays["writer"] == arrays["writer_ids"].tolist().index("x_000")).sum() == 1
    assert "3 repeated, 2 without strokes, or in a file that is missing" in capsys.readouterr().err


def test_a_stroke_is_two_pixels_wide_and_twenty_long():
    image = convert.image([np.array([[3.0, 100.0], [3.0, 500.0]])])
    assert (image.shape, image.dtype) == ((28, 28), np.uint8)
    ink = (255.0 - image) / 255
    assert 1.9 <= ink[14].sum() <= 2.3
    assert np.flatnonzero(ink.any(axis=1))[[0, -1]].tolist() in ([3, 24], [3, 25])
    # The middle is the image's.
    columns = ink.sum(axis=0)
    assert abs((columns * (np.arange(28) + 0.5)).sum() / columns.sum() - 14) < 0.2
