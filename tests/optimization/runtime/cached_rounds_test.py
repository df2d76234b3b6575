import collections
import os
import pathlib
import stat
import time

import pytest
import tensorflow_federated as tff

from optimization.runtime import cached_rounds, rounds
from tests.optimization.runtime.toy_process import Metrics, Owner, build


@pytest.fixture(autouse=True)
def _settled_sources(monkeypatch):
    monkeypatch.setattr(cached_rounds, "_version", lambda: "this version")


@pytest.fixture
def folder(tmp_path) -> pathlib.Path:
    return tmp_path / "cache" / "rounds"


def builds(folder: pathlib.Path, *keys: str, made=build) -> int:
    """Number of processes built for programs that request these, one after the other."""
    built = []
    for key in keys:
        cached_rounds.process(folder, key, lambda key=key: built.append(key) or made())
    return len(built)


def test_a_cached_process_has_the_types_and_results_of_the_built_one(folder, tff_worker):
    built = cached_rounds.process(folder, "key", build)
    found = cached_rounds.process(folder, "key", lambda: pytest.fail("was built again"))
    assert found.next is not built.next
    for one, other in ((found.initialize, built.initialize), (found.next, built.next)):
        assert repr(one.type_signature) == repr(other.type_signature)  # With the containers.
    for process in (built, found):
        state, metrics = process.next(process.initialize(), [1, 2, 6])
        assert state == collections.OrderedDict(b=21, a=(4,))
        assert isinstance(state, collections.OrderedDict)
        assert metrics == Metrics(18, Owner.Parts(18))
        assert isinstance(metrics, Metrics)
        assert isinstance(metrics.parts, Owner.Parts)


@pytest.mark.parametrize("form", ["_compile", "_compile_mergeable"])
def test_compiled_forms_are_cached_with_the_process(folder, monkeypatch, form):
    compile_one = getattr(rounds, form).__wrapped__
    built = compile_one(cached_rounds.process(folder, "key", build).next)
    monkeypatch.setattr(tff.backends, "native", None)
    found = compile_one(cached_rounds.process(folder, "key", build).next)
    parts = ("up_to_merge", "merge", "after_merge")
    pairs = [(built, found)] if form == "_compile" else [(getattr(built, name), getattr(found, name)) for name in parts]
    for one, other in pairs:
        assert one == other
        assert repr(one.type_signature) == repr(other.type_signature)


def test_another_key_or_version_is_another_process(folder, monkeypatch):
    assert builds(folder, "key", "other", "key") == 2
    monkeypatch.setattr(cached_rounds, "_version", lambda: "another version")
    assert builds(folder, "key") == 1


def test_nothing_is_cached_if_the_loaded_version_is_unknown(folder, monkeypatch):
    monkeypatch.setattr(cached_rounds, "_version", lambda: None)
    assert builds(folder, "key", "key") == 2
    assert not folder.exists()


def test_every_module_changes_the_version(tmp_path):
    def digest() -> str:
        return cached_rounds._digest_of_sources(tmp_path, time.time() + 60)

    for package in ("optimization/runtime", "bandits", "tests"):
        (tmp_path / package).mkdir(parents=True)
    module = tmp_path / "optimization" / "runtime" / "one.py"
    module.write_text("a = 1\n")
    found = [digest()]
    module.write_text("a = 2\n")
    found.append(digest())
    module.rename(module.with_name("two.py"))
    found.append(digest())
    (tmp_path / "bandits" / "__init__.py").touch()
    found.append(digest())
    assert len(set(found)) == 4
    (tmp_path / "tests" / "one_test.py").touch()
    assert digest() == found[-1]


def test_a_module_that_changed_after_the_start_disables_the_cache(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one.py").touch()
    os.utime(tmp_path / "data" / "one.py", (0, 0))  # As a checkout of an older file might.
    assert cached_rounds._digest_of_sources(tmp_path, time.time() - 60) is None


def test_only_this_user_can_read_or_write_the_cache(folder):
    builds(folder, "key")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600]


def _link(path: pathlib.Path) -> None:
    path.symlink_to(path.rename(path.with_name("elsewhere")))


@pytest.mark.parametrize(
    "expose",
    [
        lambda folder, _: folder.chmod(0o770),
        lambda folder, _: next(folder.iterdir()).chmod(0o620),
        lambda folder, patch: patch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1),
        lambda folder, _: _link(folder),
        lambda folder, _: _link(next(folder.iterdir())),
    ],
)
def test_files_that_others_may_have_written_are_not_run(folder, monkeypatch, expose):
    builds(folder, "key")
    expose(folder, monkeypatch)
    assert builds(folder, "key") == 1


@pytest.mark.parametrize("damage", [lambda whole: whole[:-9], lambda whole: whole.replace(b"A", b"B"), lambda _: b""])
def test_a_damaged_file_is_rewritten(folder, damage):
    builds(folder, "key")
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert builds(folder, "key") == 1
    assert builds(folder, "key") == 0


def test_structures_without_an_importable_name_are_not_cached(folder):
    assert builds(folder, "key", "key", made=lambda: build(Owner.Nameless)) == 2
    assert not folder.exists()
