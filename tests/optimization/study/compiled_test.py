"""Tests of optimization.study.compiled."""

import pytest

from optimization.study import compiled


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setattr(compiled, "_kept", type(compiled._kept)())


def test_what_was_used_last_is_kept(monkeypatch):
    monkeypatch.setattr(compiled, "_MOST", 2)
    built = []
    for key in "abacab":
        assert compiled.kept(key, lambda key=key: built.append(key) or f"built {key}") == f"built {key}"
    assert built == ["a", "b", "c", "b"]
