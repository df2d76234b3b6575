"""Tests of data.image_files."""

import gzip
import io
import os
import pickle
import tarfile

import numpy as np
import pytest

from data import image_files

# Bytes of two files, written out by hand.
BYTES = bytes((0, 0, 8, 2)) + bytes((0, 0, 0, 2)) + bytes((0, 0, 0, 3)) + bytes((1, 2, 3, 4, 5, 255))
WORDS = bytes((0, 0, 12, 1)) + bytes((0, 0, 0, 2)) + bytes((0, 0, 1, 2)) + bytes((255, 255, 255, 254))


@pytest.mark.parametrize("name", ["plain", "packed.gz"])
def test_bytes_and_big_endian_words_are_read(tmp_path, name):
    path = tmp_path / name
    for content, values, expected in ((BYTES, "uint8", [[1, 2, 3], [4, 5, 255]]), (WORDS, "int32", [258, -2])):
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        read = image_files.read_idx(path, values, np.ndim(expected))
        assert read.dtype == values
        np.testing.assert_array_equal(read, expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with , not with 00000802"),
        (BYTES[:7], "begins with 00000802, not with"),
        (WORDS, "begins with 00000c01, not with 00000802"),
        (BYTES[:-1], "promises 2 x 3 values of 1 bytes, and 5 bytes follow"),
        (BYTES + b"1", "promises 2 x 3 values of 1 bytes, and 7 bytes follow"),
        (BYTES[:4] + b"\xff" * 8, "promises 4294967295 x 4294967295 values of 1 bytes, and 0 bytes follow"),
    ],
)
def test_another_file_is_refused(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        image_files.read_idx(path, "uint8", 2)
    packed = tmp_path / "file.gz"
    for damaged in (content, gzip.compress(BYTES)[:-9], gzip.compress(BYTES)[:12] + bytes(20)):
        packed.write_bytes(damaged)
        with pytest.raises(ValueError, match=r".+"):
            image_files.read_idx(packed, "uint8", 2)


PIXELS = np.arange(2 * 3072).astype(np.uint8).reshape(2, 3072)


def _archive(**contents: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for part, content in contents.items():
            member = tarfile.TarInfo(f"cifar-100-python/{part}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    file.seek(0)
    return file


# As Python 2 has written it, and as Python 3 does.
@pytest.mark.parametrize("protocol", [2, 4])
def test_the_three_colours_of_a_pixel_lie_together(protocol):
    values = {b"data": PIXELS, b"fine_labels": [7, 99], b"filenames": [b"a.png", b"b.png"]}
    pixels, labels = image_files.read_cifar(io.BytesIO(pickle.dumps(values, protocol)))
    assert (pixels.shape, pixels.dtype) == ((2, 32, 32, 3), np.uint8)
    np.testing.assert_array_equal(pixels[1, 2, 5], PIXELS[1].reshape(3, 32, 32)[:, 2, 5])
    assert labels.tolist() == [7, 99]


class _Planted:
    def __init__(self, path: str):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_pickle_that_runs_something_is_refused_before_it_does(tmp_path):
    planted = pickle.dumps({b"data": PIXELS, b"fine_labels": _Planted(str(tmp_path / "ran"))})
    with pytest.raises(ValueError, match=r"it calls posix\.mkdir, which no array needs"):
        image_files.read_cifar(io.BytesIO(planted))
    with pytest.raises(ValueError, match=r"it calls posix\.mkdir"):
        image_files.read_cifar_archive(_archive(train=planted, test=planted))
    assert not (tmp_path / "ran").exists()
