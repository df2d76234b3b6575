"""Rehearsals of the paper's figures, on small files in the format of TFF's data sets."""

import json

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from data.tasks import handwriting, tags
from scripts import reproduce

pytestmark = pytest.mark.slow

DRAW = np.random.default_rng(0)


def _example(**features: tf.train.Feature) -> bytes:
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _text(words) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[" ".join(words).encode()]))


def _character() -> bytes:
    pixels = tf.train.Feature(float_list=tf.train.FloatList(value=DRAW.random(28 * 28)))
    return _example(pixels=pixels, label=tf.train.Feature(int64_list=tf.train.Int64List(value=[DRAW.integers(62)])))


def _post() -> bytes:
    words = [f"w{index}" for index in DRAW.integers(0, 60, 8)]
    return _example(tokens=_text(words[:6]), title=_text(words[6:]), tags=_text([f"t{DRAW.integers(60)}"]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, write_database):
    """A folder with EMNIST's files of 20 writers, and Stack Overflow's of 200 users."""
    made = tmp_path_factory.mktemp("tff")
    for name, splits, size, make in (
        (handwriting.FILE_NAME, ("all_train", "all_test"), 20, _character),
        (tags.FILE_NAME, ("train", "heldout"), 200, _post),
    ):
        clients = {split: {f"c{n:03d}": [make() for _ in range(4)] for n in range(size)} for split in splits}
        write_database(made / name, clients)
    (made / tags.WORD_COUNTS).write_text("".join(f"w{index} {99 - index}\n" for index in range(60)))
    (made / tags.TAG_COUNTS).write_text(json.dumps({f"t{index}": 99 - index for index in range(60)}))
    return made


@pytest.mark.parametrize(
    ("figure", "configurations", "found"),
    [("1a", (), "20 writers"), ("2a", ("--configurations=Greedy",), "200 training users")],
)
def test_a_rehearsal_ends_with_a_picture_and_says_that_the_data_is_not_the_paper_s(
    folder, tmp_path, monkeypatch, capfd, figure, configurations, found
):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(folder))
    arguments = [f"--figure={figure}", "--rounds=20", "--repeat=1", *configurations, f"--root_output_dir={tmp_path}"]
    assert reproduce.program(reproduce.define().parse(["reproduce", *arguments])) == 0
    assert "Stand-in data, not the paper's: a file in the format of the paper's data" in capfd.readouterr().out
    output = tmp_path / "reproduce_paper_rehearsal"
    assert (output / figure / f"{figure}.png").is_file()
    table = pd.read_csv(output / figure / f"{figure}_records.csv")
    assert set(table["rounds"]) == {20}
    assert set(table["other_data"]) == {1}
    config = json.loads(next(output.glob("runs/*/seed_0/config.json")).read_text())
    assert found in config["data_report"]["other_size"]
