import errno
import io
import os
import pathlib
import re
import sys

import pytest

from data.errors import Failure
from optimization.study import loggers, run_folder


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.csv"


def _run(path: pathlib.Path, last_round: int) -> loggers.ObservedRun:
    return loggers.ObservedRun(run_folder.RunFolder(path.parent), path.parent, {}, "toy", ["loss"], 3, last_round)


def _metrics_file(path: pathlib.Path, last_round: int) -> loggers.CsvFile:
    file = loggers.CsvFile()
    file.on_start(_run(path, last_round))
    return file


THREE_ROWS = "round_num,loss,seconds\n1,0.25,\n2,0.5,\n3,0.75,\n"


@pytest.fixture
def three_rows(path):
    path.write_text(THREE_ROWS)
    return path


def test_rows_beyond_the_checkpoint_are_dropped_and_others_appended(three_rows):
    metrics = _metrics_file(three_rows, 2)
    assert three_rows.read_text() == THREE_ROWS.replace("3,0.75,\n", "")
    metrics.on_round({"round_num": 3, "loss": 0.75})
    metrics.on_end(_run(three_rows, 2))
    assert three_rows.read_text() == THREE_ROWS


@pytest.mark.parametrize("half", ["4", "4,", "1", "1,0.", "", "\0\0\0", '"4'])
def test_a_half_written_last_line_is_dropped(three_rows, half):
    with open(three_rows, "a") as file:
        file.write(half)
    _metrics_file(three_rows, 3)
    assert three_rows.read_text() == THREE_ROWS


TORN = {
    "missing": (lambda content: content.replace(b"2,0.5,\n", b""), "2"),
    "torn": (lambda content: content.replace(b"2,0.5,\n", b"2,0."), "2-3"),
    "quote": (lambda content: content.replace(b"0.5", b'"'), "2"),
    "last line without its end": (lambda content: content[:-1], "3"),
    "header": (lambda content: content.replace(b"loss", b"l\0ss"), "1-3"),
    "header of another file": (lambda content: b"x" * 200_000 + b"\n" + content, "1-3"),
    "number beyond all": (lambda content: content.replace(b"2,0.5", b"9" * 5000 + b",0.5"), "2"),
    "number of other digits": (lambda content: content.replace(b"2,0.5", "٢,0.5".encode()), "2"),
    "first and last": (lambda content: content.replace(b"1,0.25,\n", b"")[:-3], "1, 3"),
    "emptied": (lambda content: b"", "1-3"),
}


@pytest.mark.parametrize(("damage", "lost"), TORN.values(), ids=TORN)
def test_rows_that_are_missing_are_named_and_the_file_is_left_as_it_is(three_rows, damage, lost):
    before = damage(three_rows.read_bytes())
    three_rows.write_bytes(before)
    with pytest.raises(Failure) as caught:
        _metrics_file(three_rows, 3)
    assert str(caught.value) == (
        f"{three_rows} lacks the rows of rounds {lost}: restore a copy, or give --restart, which moves the old "
        "files aside and starts over."
    )
    assert three_rows.read_bytes() == before


def test_a_full_disk_is_named_and_keeps_the_rows_before(three_rows, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    metrics = _metrics_file(three_rows, 3)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Failure, match=re.escape(f"{three_rows} cannot be written (No space left on device).")):
        metrics.on_save()
    metrics.on_end(_run(three_rows, 3))
    with pytest.raises(Failure, match="cannot be written"):
        _metrics_file(three_rows, 2)
    assert three_rows.read_text() == THREE_ROWS
    assert list(three_rows.parent.iterdir()) == [three_rows]


@pytest.mark.parametrize("shown", [True, False])
def test_the_progress_bar_shows_rounds_and_the_headline_on_a_terminal_alone(path, monkeypatch, shown):
    stream, progress = io.StringIO(), loggers.ProgressBar("loss")
    stream.isatty = lambda: shown
    monkeypatch.setattr(sys, "stderr", stream)
    progress.on_start(_run(path, 1))
    for round_num in (2, 3):
        progress.on_round({"round_num": round_num, "loss": round_num / 4})
    progress.on_end(_run(path, 1))
    last = stream.getvalue().rpartition("\r")[2]
    assert re.match(r"toy: 100%.* 3/3 .*loss=0\.7500", last) if shown else not last
