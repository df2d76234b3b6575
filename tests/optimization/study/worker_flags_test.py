import socket
import types

import portpicker
import pytest

from data.errors import Failure
from optimization import runtime
from optimization.runtime import worker_process
from optimization.study import cli, worker_flags

pytestmark = pytest.mark.slow


def parse(*arguments: str) -> cli.Settings:
    flags = cli.FlagSet("")
    flags.group("")
    flags.add(worker_flags.Workers)
    return flags.parse(["test", *arguments])


@pytest.mark.parametrize("text", ["localhost:9001", "10.0.0.2:1,node-2.lan:65535", "[fe80::1]:9001"])
def test_addresses(text):
    assert worker_flags.addresses(parse(f"--tff_workers={text}")) == tuple(text.split(","))


def test_nobody_at_an_address_is_named():
    port = portpicker.pick_unused_port()
    with pytest.raises(Failure) as failed:
        worker_flags.start(parse(f"--tff_workers=localhost:{port}"))
    assert str(failed.value) == (
        f"No TFF worker answers at localhost:{port} (--tff_workers): Connection refused. Start one on that host: "
        f"./scripts/python -m scripts.tff_worker --port={port}"
    )


@pytest.mark.parametrize(("isolate", "lines"), [("auto", 1), ("off", 0)])
def test_the_risk_of_workers_elsewhere_is_named(monkeypatch, capsys, isolate, lines):
    started = []
    fake = types.SimpleNamespace(start=lambda *given: started.append(given))
    monkeypatch.setattr(runtime, "worker", fake, raising=False)
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
        worker_flags.start(parse(f"--tff_workers={address}", f"--isolation={isolate}"))
    assert started == [(0, (address,), isolate)]
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == lines
    assert all("anyone who can reach the ports of --tff_workers can run code there" in line for line in warnings)


def test_isolation_that_is_required_and_refused_ends_the_program_before_tff_is_imported(monkeypatch):
    def refuse(*_, **__):
        raise worker_process.RefusedError("unshare: Operation not permitted")

    monkeypatch.setattr(worker_process, "start", refuse)
    monkeypatch.setattr(runtime, "worker", None, raising=False)
    with pytest.raises(Failure, match=r"^--isolation=required: .* \(unshare: Operation not permitted\)"):
        worker_flags.start(parse("--isolation=required"))
