"""Tests of data.idx."""

import gzip

import numpy as np
import pytest

from data import idx

# Bytes of two files, written out by hand.
BYTES = bytes((0, 0, 8, 2)) + bytes((0, 0, 0, 2)) + bytes((0, 0, 0, 3)) + bytes((1, 2, 3, 4, 5, 255))
WORDS = bytes((0, 0, 12, 1)) + bytes((0, 0, 0, 2)) + bytes((0, 0, 1, 2)) + bytes((255, 255, 255, 254))


@pytest.mark.parametrize("name", ["plain", "packed.gz"])
def test_bytes_and_big_endian_words_are_read(tmp_path, name):
    path = tmp_path / name
    for content, values, expected in (
        (BYTES, "uint8", [[1, 2, 3], [4, 5, 255]]),
        (WORDS, "int32", [258, -2]),
    ):
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        read = idx.read(path, values, np.ndim(expected))
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
        idx.read(path, "uint8", 2)


@pytest.mark.parametrize("content", [BYTES, gzip.compress(BYTES)[:-9], gzip.compress(BYTES)[:12] + bytes(20), b""])
def test_a_damaged_gzip_file_is_refused(tmp_path, content):
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r".+"):
        idx.read(path, "uint8", 2)
