"""Tests of data.cifar."""

import io
import os
import pickle
import tarfile

import numpy as np
import pytest

from data import cifar

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
    pixels, labels = cifar.read(io.BytesIO(pickle.dumps(values, protocol)))
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
        cifar.read(io.BytesIO(planted))
    with pytest.raises(ValueError, match=r"it calls posix\.mkdir"):
        cifar.read_archive(_archive(train=planted, test=planted))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no pickle",
        pickle.dumps([1]),
        pickle.dumps({b"data": PIXELS}),
        pickle.dumps({b"data": PIXELS[:, :5], b"fine_labels": [1, 2]}),
        pickle.dumps({b"data": PIXELS, b"fine_labels": [1, 2]})[:-10],
    ],
)
def test_another_pickle_is_refused(content):
    with pytest.raises(ValueError, match=r".+"):
        cifar.read(io.BytesIO(content))


def test_an_archive_gives_both_parts():
    one, two = (pickle.dumps({b"data": PIXELS[:count], b"fine_labels": [3] * count}) for count in (2, 1))
    parts = cifar.read_archive(_archive(train=one, test=two))
    assert [(len(pixels), labels.tolist()) for pixels, labels in parts] == [(2, [3, 3]), (1, [3])]


def test_an_archive_that_is_none_or_lacks_a_part_is_refused():
    for file in (io.BytesIO(b"no archive"), _archive(train=pickle.dumps({}))):
        with pytest.raises(ValueError, match=r".+"):
            cifar.read_archive(file)
