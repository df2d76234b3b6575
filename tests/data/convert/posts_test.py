"""Tests of data.convert.posts, on small files in the published forms."""

import json

import h5py
import pytest

from data.convert import __main__ as convert
from data.tasks import tags
from data.tasks.options import TaskOptions

DUMP = """<?xml version="1.0" encoding="utf-8"?>
<posts>
  <row Id="1" PostTypeId="1" Body="&lt;p&gt;Which hops?&lt;/p&gt;" OwnerUserId="7" Title="Hops" Tags="&lt;ale&gt;" />
  <row Id="2" PostTypeId="2" ParentId="1" Body="&lt;p&gt;Any.&lt;/p&gt;" OwnerUserId="8" />
  <row Id="3" PostTypeId="2" ParentId="9" Body="&lt;p&gt;Lost.&lt;/p&gt;" OwnerUserId="8" />
</posts>
"""


def _convert(kind: str, source, output) -> None:
    convert.program(convert.define().parse(["convert", kind, str(source), f"--output={output}"]))


@pytest.fixture
def hdf5(tmp_path):
    """Two training users and a held-out one, in the form of TFF's older download."""
    folder = tmp_path / "hdf5"
    folder.mkdir()
    users = {
        "stackoverflow_train.h5": {
            "bob": {"tokens": ["a dog"], "title": ["dogs"], "tags": ["c++"], "score": [1]},
            "ann": {"tokens": ["the cat", "the dog"], "title": ["the end", ""], "tags": ["java|c++", "java"]},
        },
        "stackoverflow_held_out.h5": {"eve": {"tokens": ["dog"], "title": ["cat"], "tags": ["java"]}},
    }
    for name, members in users.items():
        with h5py.File(folder / name, "w") as file:
            for user, columns in members.items():
                for column, values in columns.items():
                    file[f"examples/{user}/{column}"] = values
    return folder


def test_the_task_reads_stack_overflow_from_older_files(hdf5, tmp_path):
    _convert("stackoverflow", hdf5, tmp_path)
    (tmp_path / "stackoverflow.word_count").write_text("the 9\ndog 5\ncat 4\n")
    (tmp_path / "stackoverflow.tag_count").write_text(json.dumps({"c++": 3, "java": 7}))
    options = TaskOptions("stackoverflow_tag", data_dir=str(tmp_path), num_tags=2, init_labels=1)
    task = tags.load_stackoverflow(options)
    assert (list(task.clients.client_ids), list(task.held_out.client_ids)) == (["ann", "bob"], ["eve"])
    ann = task.clients.load(0)
    # Body and title: `the` twice and `cat` once; then `the` and `dog`.
    assert (ann.features.ids.tolist(), ann.features.offsets.tolist()) == ([0, 2, 0, 1], [0, 2, 4])
    assert ann.labels.tolist() == [[1, 1], [1, 0]]


def test_the_task_reads_the_same_posts_from_dumps_and_from_what_is_made_of_them(tmp_path, capsys):
    dumps = tmp_path / "dumps"
    for site in ("beer", "wine"):
        (dumps / site).mkdir(parents=True)
        (dumps / site / "Posts.xml").write_text(DUMP.replace("ale", f"{site}-ale"))
    _convert("stackexchange", dumps, tmp_path)
    assert "posts: 4, answer without its question: 2" in capsys.readouterr().err
    made, direct = (
        tags.load_stackexchange(TaskOptions("stackexchange_tag", data_dir=str(folder), init_labels=1))
        for folder in (tmp_path, dumps)
    )
    assert made.clients.client_ids == direct.clients.client_ids
    for client in range(len(made.clients)):
        first, second = made.clients.load(client), direct.clients.load(client)
        assert first.features.ids.tolist() == second.features.ids.tolist()
        assert first.labels.tolist() == second.labels.tolist()
