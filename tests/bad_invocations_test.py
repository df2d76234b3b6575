"""Bad invocations of all programs, a line each in bad_invocations.txt: the answer names the flag or the file.

All are played in this process, where TensorFlow cannot be imported and no worker starts: the answer came before. A
few are played as programs too.
"""

import functools
import gzip
import importlib
import json
import os
import pathlib
import pickle
import re
import shlex
import sys

import numpy as np
import pytest

from bandits import studies
from data.errors import UsageError
from optimization.runtime import worker_process
from optimization.study import run_folder

ARCHIVES = {
    "unipen62_writers.npz": {
        "pixels": np.zeros((20, 28, 28), np.uint8),
        "label": np.arange(20),
        "writer": np.arange(20) % 4,
        "writer_ids": np.array(list("abcd")),
    },
    "mnist_with_writers.npz": {
        f"{name}_{part}": values
        for part in ("train", "test")
        for name, values in (
            ("x", np.zeros((20, 28, 28), np.uint8)),
            ("y", np.arange(20) % 10),
            ("writer", np.arange(20) % 4),
        )
    },
    "fashion_mnist_pool.npz": {"x": np.zeros((40, 28, 28), np.uint8), "y": np.arange(40) % 10},
    "cifar100_subset150.npz": {"x": np.zeros((40, 32, 32, 3), np.uint8), "y": np.arange(40) % 100},
}
# Folder -> what is wrong with its archive.
WRONG_ARRAYS = {
    "unipen62_writers.npz": {
        "u/flat": {"pixels": np.zeros((20, 784), np.uint8)},
        "u/few_labels": {"label": np.arange(19)},
        "u/float_pixels": {"pixels": np.zeros((20, 28, 28), np.float32)},
        "u/none": {"pixels": np.zeros((0, 28, 28), np.uint8)},
        "u/high_label": {"label": np.full(20, 62)},
        "u/float_label": {"label": np.full(20, 1.5)},
        "u/few_writers": {"writer": np.arange(19) % 4},
        "u/writer_table": {"writer_ids": np.zeros((4, 2))},
        "u/object_label": {"label": np.array([1, None] * 10, object)},
        "u/high_writer": {"writer": np.full(20, 4)},
        "u/writer_twice": {"writer_ids": np.array(list("aabc"))},
    },
    "mnist_with_writers.npz": {"m/few_writers": {"writer_train": np.zeros(3, int)}},
    "fashion_mnist_pool.npz": {"f/sound": {}},
    "cifar100_subset150.npz": {"c/sound": {}},
}
ROWS = "".join(f"c{row % 6},{row},{row / 2},{row % 3}\n" for row in range(30))
POST = json.dumps({"site": "s", "user": "s/1", "title": "a title", "body": "word", "tags": ["x", "y"]}) + "\n"
CONFIG = f'{{"format": {run_folder.FORMAT}, "flags": {{"seed": 0}}, "command": "x"}}'
METRICS = "round_num,a\n1,0.5\n2,0.6\n"
METRICS_OF_RUNS = {
    "run/sound": METRICS,
    "run/privacy": METRICS,
    "run/begun": "round_num,a\n",
    "run/words": "round_num,a\n1,x\n",
    "run/no_round": "a,b\n1,1\n",
    "never_finite": "round_num,a\n1,inf\n2,nan\n",
}
COUNTS = {"stackoverflow.word_count": "the 5\nfox 3\n", "stackoverflow.tag_count": '{"a": 3, "b": 1}'}
TEXTS = {
    "file": "",
    "page.html": "a good page",
    "not_zip/unipen62_writers.npz": "no archive",
    "not_gzip/fashion-mnist-train-images-idx3-ubyte.gz": "no gzip",
    "not_zip/mnist.npz": "no archive",
    "not_tar/stackoverflow.word_count.tar.bz2": "no archive",
    "not_sqlite/emnist_all.sqlite": "no database",
    "posts/none/stackexchange_posts.jsonl.gz": "",
    "posts/one/stackexchange_posts.jsonl.gz": POST,
    "posts/json/stackexchange_posts.jsonl.gz": POST + "{\n",
    "posts/not_gzip/stackexchange_posts.jsonl.gz": "no gzip",
    "tables/sound.csv": "who,age,size,label\n" + ROWS,
    "tables/decimals.csv": "who;label;x;y\n" + "a;0;1,5;0.5\nb;1;9;1.5\n" * 5,
    "tables/log.csv": "age,arm,reward,pscore\n" + "".join(f"{row % 7},{row % 3},{row % 2},0.5\n" for row in range(60)),
    "tables/measured.csv": "who,x,y\n" + "".join(f"c{row % 6},{row % 7},{row}.5\n" for row in range(60)),
    "tables/timed.csv": "who,day,seen,shown,paid,p,label\n"
    + "".join(f"c{row % 6},2023-01-{row + 1:02d},,{row % 3},,0.5,{row % 2}\n" for row in range(12)),
    "tables/ads.csv": "Ad 1,Ad 2\n1,0\n0,1\n",
    "tables/one_ad.csv": "Ad 1\n1\n0\n",
    "strokes/data/1a/x/a.dat": "no statement",
    "old_run/config.json": '{"format": 2, "flags": {}, "command": "x"}',
    **{f"{run}/config.json": CONFIG for run in (*METRICS_OF_RUNS, "run/no_metrics")},
    **{f"{run}/metrics.csv": metrics for run, metrics in METRICS_OF_RUNS.items()},
    "run/others/config.json": '{"name": "no run"}',
    "run/others/metrics.csv": METRICS,
    "checkout/scripts/python": "",
    "run/privacy/privacy.json": "[1]",
    "model/text/model/weights.npz": "no archive",
    "configs/cut.toml": "seed = 1\nseeds =\n",
    "configs/heading.toml": "[digits]\nseed = 1\n",
    "configs/unknown.toml": "rounds = 5\n",
    "configs/list.toml": "total_rounds = [1, 2]\n",
    "configs/restart.toml": "restart = true\n",
    "configs/other.toml": "bandits_mu = 12\n",
    "configs/fraction.toml": "seed = 1.5\n",
    "configs/preset.toml": 'preset = "emnist_scratch_softmaxx"\n',
    "grids/list/grid.json": "[1]",
    "grids/old/grid.json": '{"format": 0}',
    **{f"tags/{name}/{file}": COUNTS[file] for name in ("one", "list", "no_database") for file in COUNTS},
    "tags/no_words/stackoverflow.word_count": "",
    "tags/no_words/stackoverflow.tag_count": "{}",
    "tags/no_words/stackoverflow.sqlite": "no database",
    "tags/one/stackoverflow.tag_count": '{"a": 3}',
    "tags/list/stackoverflow.tag_count": "[1, 2]",
    **{f"tags/{name}/stackoverflow.sqlite": "no database" for name in ("one", "list", "no_database")},
}


def _idx(kind: int, sizes: tuple[int, ...], values: bytes) -> bytes:
    return bytes((0, 0, kind, len(sizes))) + b"".join(size.to_bytes(4, "big") for size in sizes) + values


IMAGES = {
    "magic": gzip.compress(_idx(12, (2, 28, 28), bytes(1568))),
    "cut": gzip.compress(_idx(8, (2, 28, 28), os.urandom(1568)))[:900],
    "few": gzip.compress(_idx(8, (3, 28, 28), bytes(1568))),
    "sound": gzip.compress(_idx(8, (2, 28, 28), bytes(1568))),
}
BYTES = {
    "words/stackoverflow.word_count": b"\xff\xfe\x80",
    "words/stackoverflow.tag_count": COUNTS["stackoverflow.tag_count"].encode(),
    "words/stackoverflow.sqlite": b"",
    "empty_sqlite/emnist_all.sqlite": b"",
    "short_gzip/fashion-mnist-train-images-idx3-ubyte.gz": gzip.compress(bytes(1000)),
    **{f"idx/{name}/train-images-idx3-ubyte.gz": content for name, content in IMAGES.items()},
    **{f"idx/{name}/train-labels-idx1-ubyte.gz": gzip.compress(_idx(8, (2,), bytes(2))) for name in IMAGES},
    "pickle/train": pickle.dumps(os.getcwd),
}
_OTHERS = {"convert": "data.convert"}
FOLDERS = ("empty", "cut", "folder.csv")


def _write(folder: pathlib.Path) -> None:
    """Writes the files that the table names."""
    arrays = {
        f"{place}/{name}": ARCHIVES[name] | wrong
        for name, places in WRONG_ARRAYS.items()
        for place, wrong in places.items()
    }
    arrays["model/nan/model/weights.npz"] = {"w": np.full(3, np.nan)}
    for path in [*TEXTS, *BYTES, *arrays]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
    for path, text in TEXTS.items():
        is_gzipped = path.endswith("jsonl.gz") and "not_gzip" not in path
        (folder / path).write_bytes(gzip.compress(text.encode()) if is_gzipped else text.encode())
    for path, content in BYTES.items():
        (folder / path).write_bytes(content)
    for path, values in arrays.items():
        np.savez(folder / path, **values)
    for path in FOLDERS:
        (folder / path).mkdir(parents=True)
    for name in ARCHIVES:
        np.savez(folder / "cut" / name, **ARCHIVES[name])
        os.truncate(folder / "cut" / name, 3000)


def _table() -> list[tuple[str, str, str]]:
    """Returns (program, flags, what the answer names)."""
    rows, program = [], ""
    for line in (pathlib.Path(__file__).parent / "bad_invocations.txt").read_text(encoding="utf-8").splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            program = header[1]
        elif line and not line.startswith("#"):
            flags, _, named = line.partition(" => ")
            rows.append((program, flags.strip(), named))
    return rows


def _contents(folder: pathlib.Path) -> dict[pathlib.Path, tuple[int, int]]:
    """Returns size and time of each file."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    found = tmp_path_factory.mktemp("bad")
    _write(found)
    return found


@pytest.fixture(autouse=True)
def _no_way_on(monkeypatch, folder):
    """Hides TensorFlow, all workers, networks and the user's data; paths start in `folder`."""
    for package in ("tensorflow", "tensorflow_federated"):
        monkeypatch.setitem(sys.modules, package, None)
    for start in ("local_worker", "launch"):
        monkeypatch.setattr(worker_process, start, lambda *_: pytest.fail("The program went on to start a worker."))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("FEDBANDITS_DATA_DIR", "BUILD_WORKING_DIRECTORY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)


def _module(program: str) -> str:
    return (studies.STUDIES | _OTHERS).get(program, f"scripts.{program}")


@pytest.mark.parametrize(("program", "flags", "named"), _table())
def test_a_bad_invocation_is_answered_with(folder, program, flags, named):
    before = _contents(folder)
    if program in studies.STUDIES:
        module = studies.STUDIES[program]
        flag_set, play = studies.flag_set(module), functools.partial(studies.program, module)
    else:
        script = importlib.import_module(_module(program))
        if hasattr(script, "__path__"):
            script = importlib.import_module(f"{script.__name__}.__main__")
        flag_set, play = script.define(), script.program
    with pytest.raises(UsageError) as caught:
        play(flag_set.parse([program, *shlex.split(flags)]))
    message = str(caught.value).replace(f"{folder}/", "")
    assert named in message
    assert "\n" not in message
    assert _contents(folder) == before


def test_the_table_has_every_program():
    rows = _table()
    assert len(rows) >= 150
    assert len(set(rows)) == len(rows)
    scripts = pathlib.Path(__file__).parents[1] / "scripts"
    programs = {path.stem for path in scripts.glob("*.py") if "cli.main(" in path.read_text()}
    programs |= {path.parent.name for path in scripts.glob("*/__main__.py")}
    assert {program for program, _, _ in rows} == {*studies.STUDIES, *_OTHERS, *programs}


@pytest.mark.parametrize(("program", "flags", "named"), _table()[:: len(_table()) // 10 + 1])
def test_the_program_ends_with_one_line_and_status_2(without_tensorflow, folder, program, flags, named):
    done = without_tensorflow(_module(program), *shlex.split(flags), BUILD_WORKING_DIRECTORY=str(folder))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    *announced, _ = done.stderr.splitlines()
    assert ["; folder " in line for line in announced] in ([], [True])
    assert named in done.stderr.replace(f"{folder}/", "")
