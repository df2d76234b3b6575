"""Addresses of workers are checked before anything slow is imported."""

import importlib

import portpicker
import pytest

from data.errors import Failure, UsageError
from optimization import cli, worker_flags


def parse(*arguments: str) -> cli.Settings:
    flags = cli.FlagSet("")
    flags.group("")
    worker_flags.define(flags)
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


def test_an_address_twice_is_refused():
    with pytest.raises(UsageError, match="--tff_workers names one:1 twice"):
        worker_flags.addresses(parse("--tff_workers=one:1,two:1,one:1"))


def test_threads_of_workers_elsewhere_are_theirs_to_say():
    with pytest.raises(UsageError, match="--max_concurrent_threads has no effect with --tff_workers"):
        worker_flags.addresses(parse("--tff_workers=one:1", "--max_concurrent_threads=2"))


def test_nobody_at_an_address_is_named():
    port = portpicker.pick_unused_port()
    with pytest.raises(Failure) as failed:
        worker_flags.start(parse(f"--tff_workers=localhost:{port}"))
    assert str(failed.value) == (
        f"No TFF worker answers at localhost:{port} (--tff_workers): Connection refused. Start one on that host: "
        f"./scripts/python -m scripts.tff_worker --port={port}"
    )


@pytest.mark.parametrize(
    "module",
    [
        "bandits.flags",
        "bandits.ads.flags",
        "bandits.client_selection.flags",
        "bandits.mab_fl.flags",
        "optimization.posterior.flags",
    ],
)
def test_experiments_check_them(module):
    flags = importlib.import_module(module)
    with pytest.raises(UsageError, match="--tff_workers: 'localhost' must be HOST:PORT"):
        flags.resolve(flags.define().parse(["test", "--tff_workers=localhost"]))
