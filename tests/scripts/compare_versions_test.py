"""Tests of scripts.compare_versions on checkouts whose programs have a few lines."""

import math
import pathlib
import sys

import numpy as np
import pytest

from scripts import compare_versions

FIELDS = str(pathlib.Path(compare_versions.__file__).resolve().with_name("version_fields.py"))
TABLE = "round_num,score,kind,eval/accuracy,seconds\n1,0.5,a,,3.5\n2,0.25,b,0.75,{seconds}\n"
# Its rounds count up from what it finds; what a round is worth depends on its sources and on the older ones' rounds.
PROGRAM = """#!{python}
import os, pathlib, sys
flags = dict(word.split("=") for word in sys.argv[3:] if "=" in word)
here = pathlib.Path.cwd()
assert "PYTHONPATH" not in os.environ
worth, _, more = (here / "data" / "worth.toml").read_text().partition(" ")
folder = pathlib.Path(flags["--root_output_dir"], flags["--experiment_name"])
folder.mkdir(parents=True, exist_ok=True)
metrics = folder / "metrics.csv"
lines = metrics.read_text().split() if metrics.exists() else ["round_num,worth" + ",more" * bool(more)]
for number in range(len(lines), int(flags["--total_rounds"]) + 1):
    lines.append(f"{{number}},{{worth}}" + f",{{more}}" * lines[0].endswith("more"))
metrics.write_text("\\n".join(lines) + "\\n")
with open(here / "started.txt", "a") as started:
    print(" ".join(sys.argv[1:]), file=started)
"""


@pytest.fixture
def folders(tmp_path) -> tuple[pathlib.Path, pathlib.Path]:
    """Two folders of a run that are the same but for the seconds."""
    for name, seconds in (("old", 1), ("new", 2)):
        run = tmp_path / name / "seed_3"
        (run / "model").mkdir(parents=True)
        (run / "metrics.csv").write_text(TABLE.format(seconds=seconds))
        np.savez(run / "model" / "weights.npz", w=np.float32([[1, math.nan], [math.inf, 4]]), b=np.arange(2))
    return tmp_path / "old", tmp_path / "new"


@pytest.mark.parametrize(
    ("was", "now", "where", "size"),
    [
        ("2,0.25", "2,0.375", "score from round 2, by up to 0.12", 0.125),
        ("0.25", "0.25000000000000006", "score from round 2, by up to 5.6e-17", 2.0**-54),
        ("a,,3.5", "a,0.5,3.5", "eval/accuracy from round 1, by up to inf", math.inf),
        ("2,0.25,b", "2,0.25,c", "kind from round 2, by up to inf", math.inf),
        ("kind", "sort", "kind is missing", math.inf),
        ("1,0.5,a,,3.5\n", "", "round_num was int64[2], is int64[1]", math.inf),
    ],
)
def test_a_different_table_is_reported(folders, was, now, where, size):
    path = folders[1] / "seed_3" / "metrics.csv"
    path.write_text(path.read_text().replace(was, now, 1))
    assert (f"seed_3/metrics.csv {where}", size) in compare_versions.differences(*folders)


def test_equal_runs_have_no_differences_and_a_new_metric_is_only_named(folders):
    assert list(compare_versions.differences(*folders)) == []
    path = folders[1] / "seed_3" / "metrics.csv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"{header},eval/worst", *(f"{row},0.5" for row in rows)]) + "\n")
    assert list(compare_versions.differences(*folders)) == [("new column eval/worst", 0)]


def test_the_settings_have_every_study():
    settings = compare_versions.known_settings().values()
    studies = {f"run_{study}" for study in ("ads", "client_selection", "federated", "mab_fl", "posterior")}
    assert {setting.binary.rpartition(".")[2] for setting in settings if setting.is_resumed} == studies
    assert {setting.binary.rpartition(".")[2] for setting in settings} == studies | {"evaluate_policy"}
    for setting in settings:
        assert bool(setting.tolerance or setting.expected) == bool(setting.reason)
        assert "{" not in setting.flags.format(data="", tables="", runs="")


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Makes checkouts of this worth and compares them in four settings; returns the status."""
    table = [
        compare_versions.Setting("short", "binary", "--flag=1 --data_dir={data}", 3),
        compare_versions.Setting("resumed", "binary", "--flag=2", 4, is_resumed=True),
        compare_versions.Setting("loose", "binary", "--flag=3", 2, tolerance=0.1, reason="it is not seeded"),
        compare_versions.Setting("named", "binary", "--flag=4", 2, expected=["worth"], reason="worth is new"),
    ]
    monkeypatch.setattr(compare_versions, "known_settings", lambda: {setting.name: setting for setting in table})
    monkeypatch.setenv("PYTHONPATH", "nowhere")

    def start(old: str, new: str, *flags: str) -> int:
        for name, worth in (("old", old), ("new", new)):
            for room in ("data", "scripts"):
                (tmp_path / name / room).mkdir(parents=True, exist_ok=True)
            (tmp_path / name / "data" / "worth.toml").write_text(worth)
            python = tmp_path / name / "scripts" / "python"
            python.write_text(PROGRAM.format(python=sys.executable))
            python.chmod(0o755)
        own = (f"--old={tmp_path / 'old'}", f"--new={tmp_path / 'new'}", f"--output={tmp_path / 'output'}")
        return compare_versions.program(compare_versions.define().parse(["", *own, *flags]))

    return start


def _started(tmp_path, name: str) -> list[str]:
    return (tmp_path / name / "started.txt").read_text().splitlines()


@pytest.mark.slow
def test_equal_checkouts_run_once(compare, tmp_path, capsys):
    assert compare("0.5", "0.5") == 0
    assert capsys.readouterr().out == "short: same\nresumed: same\nloose: same\nnamed: same\n"
    old = next((tmp_path / "output").glob("old_*"))
    data = f"--data_dir={tmp_path}/output/data "
    assert _started(tmp_path, "old") == [
        f"{FIELDS} binary --flag={number} {data if name == 'short' else ''}--root_output_dir={old}/{name} "
        f"--experiment_name=whole --seed=3 --total_rounds={rounds}"
        for number, name, rounds in ((1, "short", 3), (2, "resumed", 4), (3, "loose", 2), (4, "named", 2))
    ]
    assert compare("0.5", "0.5") == 0
    assert [len(_started(tmp_path, name)) for name in ("old", "new")] == [4, 6]
    assert compare("0.5", "0.25", "--settings=short") == 1  # Other sources.
    assert [len(_started(tmp_path, name)) for name in ("old", "new")] == [4, 7]


def test_different_checkouts_are_reported(compare, capsys):
    assert compare("0.5", "0.5625") == 1
    assert capsys.readouterr().out.splitlines() == [
        "short: differs: metrics.csv worth from round 1, by up to 0.062",
        "resumed: differs: metrics.csv worth from round 1, by up to 0.062",
        "loose: same, except as expected: it is not seeded",
        "named: same, except as expected: worth is new",
    ]
