"""Tests of `data.memory`."""

import pathlib

import pytest

from data import memory


def _group(folder: pathlib.Path, names: tuple[str, str], limit: str, used: int, stat: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(stat)


@pytest.fixture
def root(tmp_path) -> pathlib.Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    return tmp_path


def test_page_cache_counts_as_free(root):
    (root / "proc/self/cgroup").write_text("0::/slice/job\n")
    names = ("memory.max", "memory.current")
    _group(root / "sys/fs/cgroup/slice/job", names, "max", 900, "anon 800\nfile 100\n")
    _group(root / "sys/fs/cgroup/slice/other", names, "10", 9, "file 0\n")
    _group(root / "sys/fs/cgroup/slice", names, "1000", 900, "anon 800\nfile 100\n")
    assert memory._left_in_groups(root) == [200]


def test_a_group_beyond_its_limit_has_nothing_left(root):
    (root / "proc/self/cgroup").write_text("0::/\n")
    _group(root / "sys/fs/cgroup", ("memory.max", "memory.current"), "10", 12, "file 0\n")
    assert memory._left_in_groups(root) == [0]
