"""Tests of data.convert.unipen."""

import numpy as np
import pytest

from data.convert import unipen
from data.tasks import handwriting

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

    def characters(segments: str) -> list[unipen.Character]:
        path = tmp_path / "a.dat"
        path.write_text(f".VERSION 1.0\n.INCLUDE x/pens.dat\n{segments}\n")
        return list(unipen.characters(path, tmp_path / "include"))

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
    arrays = unipen.unipen62(source)
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
    np.savez(source / "unipen62_writers.npz", **unipen.unipen62(source))
    train, held_out = handwriting.unipen62(str(source))
    assert train.client_ids == ["aga_000", "aga_001", "ap_000"]
    assert [len(part.load(1).labels) for part in (train, held_out)] == [9, 1]


def test_segments_without_strokes_are_left_out_and_a_dot_counts_once(source, capsys):
    (source / "data" / "1a" / "x").mkdir()
    (source / "data" / "1a" / "x" / "a.dat").write_text(
        ".PEN_DOWN\n5 5\n5 5\n.PEN_DOWN\n9 9\n"
        + "".join(f'.SEGMENT CHARACTER {place} ? "1"\n' for place in ("0", "1", "7", "0:x"))
    )
    arrays = unipen.unipen62(source)
    assert (arrays["writer"] == arrays["writer_ids"].tolist().index("x_000")).sum() == 1
    assert "3 repeated, 2 without strokes, or in a file that is missing" in capsys.readouterr().err


def test_a_stroke_is_two_pixels_wide_and_twenty_long():
    image = unipen.image([np.array([[3.0, 100.0], [3.0, 500.0]])])
    assert (image.shape, image.dtype) == ((28, 28), np.uint8)
    ink = (255.0 - image) / 255
    assert 1.9 <= ink[14].sum() <= 2.3
    assert np.flatnonzero(ink.any(axis=1))[[0, -1]].tolist() in ([3, 24], [3, 25])
    # The middle is the image's.
    columns = ink.sum(axis=0)
    assert abs((columns * (np.arange(28) + 0.5)).sum() / columns.sum() - 14) < 0.2


def test_what_is_up_on_paper_is_up_in_the_image():
    corner = unipen.image([np.array([[0.0, 0.0], [0.0, 10.0], [10.0, 10.0]])])  # An edge left, one at the top.
    assert (corner[4, 5:23] < 100).all()
    assert (corner[5:23, 4] < 100).all()
    assert (corner[8:, 8:] == 255).all()
