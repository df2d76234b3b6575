"""Addresses of workers are checked before anything slow is imported."""

import gc
import os
import socket
import subprocess
import sys
import types

import portpicker
import pytest

from bandits import studies
from data.errors import Failure, UsageError
from optimization import runtime
from optimization.runtime import isolation, worker_process
from optimization.study import cli, worker_flags

pytestmark = pytest.mark.slow


def parse(*arguments: str) -> cli.Settings:
    flags = cli.FlagSet("")
    flags.group("")
    flags.add(worker_flags.Workers)
    return flags.parse(["test", *arguments])


def test_no_address_means_a_worker_of_the_programs_own():
    assert worker_flags.addresses(parse("--max_concurrent_threads=3")) == ()


@pytest.mark.parametrize("text", ["localhost:9001", "10.0.0.2:1,node-2.lan:65535", "[fe80::1]:9001"])
def test_addresses(text):
    assert worker_flags.addresses(parse(f"--tff_workers={text}")) == tuple(text.split(","))


@pytest.mark.parametrize("bad", ["", "localhost", "localhost:", ":9001", "a b:1", "host:0", "host:65536", "fe80::1:90"])
def test_what_is_no_address_is_refused(bad):
    with pytest.raises(UsageError, match="must be HOST:PORT") as refused:
        worker_flags.addresses(parse(f"--tff_workers=one:1,{bad}"))
    assert f"--tff_workers: {bad!r}" in str(refused.value)


def test_nobody_at_an_address_is_named():
    port = portpicker.pick_unused_port()
    with pytest.raises(Failure) as failed:
        worker_flags.start(parse(f"--tff_workers=localhost:{port}"))
    assert str(failed.value) == (
        f"No TFF worker answers at localhost:{port} (--tff_workers): Connection refused. Start one on that host: "
        f"./scripts/python -m scripts.tff_worker --port={port}"
    )


def test_the_own_worker_is_started_with_the_runtime(monkeypatch):
    started = []
    monkeypatch.setattr(
        runtime, "worker", types.SimpleNamespace(start=lambda *given: started.append(given)), raising=False
    )
    monkeypatch.setattr(worker_process, "local_worker", lambda *given: started.append(given))
    worker_flags.start(parse("--runtime=tff", "--max_concurrent_threads=3"))
    assert started == [(3, "auto"), (3, (), "auto", "tff")]


@pytest.mark.parametrize(("isolate", "lines"), [("auto", 1), ("off", 0)])
def test_the_risk_of_workers_elsewhere_is_named(monkeypatch, capsys, isolate, lines):
    started = []
    fake = types.SimpleNamespace(start=lambda *given: started.append(given))
    monkeypatch.setattr(runtime, "worker", fake, raising=False)
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
        worker_flags.start(parse(f"--tff_workers={address}", f"--isolation={isolate}"))
    assert started == [(0, (address,), isolate, "fast")]
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == lines
    assert all("anyone who reaches the ports of --tff_workers can run code there" in line for line in warnings)


def test_isolation_that_is_required_and_refused_ends_the_program_before_tff_is_imported(monkeypatch):
    def refuse(*_):
        raise isolation.RefusedError("unshare: Operation not permitted")

    monkeypatch.setattr(isolation, "start", refuse)
    monkeypatch.setattr(runtime, "worker", None, raising=False)
    with pytest.raises(Failure, match=r"^--isolation=required: .* \(unshare: Operation not permitted\)"):
        worker_flags.start(parse("--isolation=required"))


def test_no_garbage_is_looked_for_while_tff_is_imported_nor_among_what_that_makes(monkeypatch):
    enabled = []

    def worker(_):
        enabled.append(gc.isenabled())
        return types.SimpleNamespace(start=lambda *_: None)

    monkeypatch.setattr(worker_process, "local_worker", lambda *_: None)
    monkeypatch.delitem(sys.modules, "tensorflow_federated", raising=False)
    monkeypatch.delattr(runtime, "worker", raising=False)
    monkeypatch.setattr(runtime, "__getattr__", worker, raising=False)
    gc.unfreeze()
    worker_flags.start(parse())
    assert set(enabled) == {False}
    assert gc.isenabled()
    assert gc.get_freeze_count()
    gc.unfreeze()


@pytest.mark.parametrize("module", studies.STUDIES.values())
def test_experiments_say_that_nobody_is_at_an_address_before_they_import_tff(module, tmp_path):
    arguments = ("--rates=0.1,0.2",) if module == "bandits.ads.run_ads" else ()
    code = (
        "import functools, sys; sys.modules['tensorflow_federated'] = None; from bandits import studies; "
        "from optimization.study import cli; "
        f"cli.main(studies.flag_set('{module}'), functools.partial(studies.program, '{module}'))"
    )
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, f"--tff_workers={address}", f"--root_output_dir={tmp_path}"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    _announced, *others = done.stderr.splitlines()
    assert len(others) == 1
    assert others[0].startswith(f"No TFF worker answers at {address}")
