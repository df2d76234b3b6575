"""Tests of data.convert.unipen, on short files in its form."""

import numpy as np
import pytest

from data.convert import unipen

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
    """Returns a function of segments that gives the characters of a file with these."""
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


def test_the_writer_is_the_last_named_before_the_first_stroke(read):
    segments = '.SEGMENT CHARACTER 1 ? "a"\n.SEGMENT CHARACTER 2 ? "b"\n.SEGMENT WORD 0-2 ? "ab"'
    assert [(character.text, character.writer) for character in read(segments)] == [("a", "jane"), ("b", "joe")]


@pytest.mark.parametrize("points", ["1 2 3\n4 5", "1 2 x", "nan 1 2", "1 1e300 1", ""])
def test_a_component_without_sound_points_still_counts(tmp_path, points):
    path = tmp_path / "a.dat"
    path.write_text(f'.COORD X Y T\n.PEN_DOWN\n{points}\n.PEN_DOWN\n1 2 3\n.SEGMENT CHARACTER 0-1 ? "a"\n')
    (character,) = unipen.characters(path, tmp_path)
    np.testing.assert_array_equal(character.strokes, [[[1, 2]]])


def test_what_includes_itself_or_is_missing_is_passed_over(tmp_path):
    path = tmp_path / "a.dat"
    path.write_text(".INCLUDE b.dat\n")
    loop = '.INCLUDE b.dat\n.INCLUDE c.dat\n.PEN_DOWN\n1 2\n.SEGMENT CHARACTER 0 ? "a"\n'
    (tmp_path / "b.dat").write_text(loop)
    assert len(list(unipen.characters(path, tmp_path))) == 1
