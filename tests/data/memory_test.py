"""Tests of `data.memory`."""

import pathlib

from data import memory


def _group(folder: pathlib.Path, limit: str, used: int, stat: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(stat)


def test_page_cache_counts_as_free_and_a_group_beyond_its_limit_has_nothing_left(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/slice/job\n")
    groups = tmp_path / "sys/fs/cgroup"
    _group(groups / "slice/job", "max", 900, "anon 800\nfile 100\n")
    _group(groups / "slice/other", "10", 9, "file 0\n")
    _group(groups / "slice", "1000", 900, "anon 800\nfile 100\n")
    assert memory._left_in_groups(tmp_path) == [200]
    _group(groups / "slice", "10", 12, "file 0\n")
    assert memory._left_in_groups(tmp_path) == [0]
