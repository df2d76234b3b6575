"""Tests of data.download, against a server on this machine."""

import base64
import hashlib
import http.server
import lzma
import pathlib
import socketserver
import threading
import time
import urllib.request
from concurrent import futures

import numpy as np
import pytest

from data import download
from data.errors import UsageError

NAME = "toy.sqlite"
CONTENT = np.random.default_rng(0).integers(256, size=50_000, dtype=np.uint8).tobytes()
ARCHIVE = lzma.compress(CONTENT, lzma.FORMAT_ALONE)


def _google_hash(content: bytes) -> str:
    return "md5=" + base64.b64encode(hashlib.md5(content).digest()).decode()


class _Server(socketserver.ThreadingTCPServer):
    """Serves an archive, with values of `x-goog-hash` headers; the next answer ends after `cut` bytes, if any."""

    daemon_threads = True
    archive = ARCHIVE
    hashes = ()
    cut = None
    num_requests = 0

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{NAME}.lzma"


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.num_requests += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.archive)))
        for value in self.server.hashes:
            self.send_header("x-goog-hash", value)
        self.end_headers()
        time.sleep(0.1)
        self.wfile.write(self.server.archive[: self.server.cut])
        self.server.cut = None

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with _Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _direct(monkeypatch):
    """No proxy stands between, and no answer is waited for long."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(urllib.request, "_opener", None)
    monkeypatch.setattr(download, "_TIMEOUT_SECONDS", 20)


def _names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_download_is_decompressed_once_and_one_that_differs_from_the_first_is_refused(server, tmp_path):
    server.hashes = ("crc32c=AAAAAA==", f"crc32c=AAAAAA==,{_google_hash(ARCHIVE)}")
    folder = tmp_path / "made" / "here"
    path, record = folder / NAME, folder / f"{NAME}.sha256"
    for _ in range(2):  # A file that is there is not asked for.
        assert download.lzma_file(server.origin, NAME, str(folder)).read_bytes() == CONTENT
    assert (server.num_requests, _names(folder)) == (1, [path.name, record.name])
    assert record.read_text() == hashlib.sha256(ARCHIVE).hexdigest() + "\n"
    path.unlink()
    assert download.lzma_file(server.origin, NAME, str(folder)).read_bytes() == CONTENT
    path.unlink()
    record.write_text("00" * 32 + "\n")
    with pytest.raises(UsageError, match=f"differs from the first one: .* delete {record}"):
        download.lzma_file(server.origin, NAME, str(folder))
    assert _names(folder) == [record.name]


@pytest.mark.parametrize("digest", [hashlib.sha256(ARCHIVE).hexdigest(), hashlib.md5(ARCHIVE).hexdigest(), None])
def test_a_plain_file_is_kept_as_it_is(server, tmp_path, digest):
    path = download.plain_file(server.origin, "toy.bin", str(tmp_path), digest)
    assert path.read_bytes() == ARCHIVE
    assert _names(tmp_path) == ["toy.bin"]
    assert download.plain_file(server.origin, "toy.bin", str(tmp_path), digest) == path
    assert server.num_requests == 1


@pytest.mark.slow
def test_programs_that_want_a_file_at_once_download_it_once(server, tmp_path):
    with futures.ThreadPoolExecutor(4) as pool:  # File locks exclude threads as they exclude processes.
        for load, name, content in ((download.lzma_file, NAME, CONTENT), (download.plain_file, "toy.bin", ARCHIVE)):
            paths = pool.map(load, [server.origin] * 4, [name] * 4, [str(tmp_path)] * 4)
            assert [path.read_bytes() == content for path in paths] == [True] * 4
    assert server.num_requests == 2
    assert _names(tmp_path) == ["toy.bin", NAME, f"{NAME}.sha256"]


def test_a_transfer_that_breaks_off_is_refused_and_starts_again(server, tmp_path):
    server.cut = 20_000
    with pytest.raises(UsageError, match=f"ended after 20000 of {len(ARCHIVE)} bytes; start again"):
        download.lzma_file(server.origin, NAME, str(tmp_path))
    assert _names(tmp_path) == []
    assert download.lzma_file(server.origin, NAME, str(tmp_path)).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("archive", "digest", "message"),
    [
        (ARCHIVE, _google_hash(b"other"), "checksum differs from the server's; start again to repeat"),
        (b"<html>Please log in</html>" * 100, None, "damaged"),
    ],
)
def test_another_content_is_refused_and_not_kept(server, tmp_path, archive, digest, message):
    server.archive, server.hashes = archive, (digest,) if digest else ()
    with pytest.raises(UsageError, match=message):
        download.lzma_file(server.origin, NAME, str(tmp_path))
    assert _names(tmp_path) == []


def test_a_plain_file_of_another_digest_is_refused_and_not_kept_unless_it_was_there(server, tmp_path):
    with pytest.raises(UsageError, match="is not the expected one: start again to repeat"):
        download.plain_file(server.origin, "toy.bin", str(tmp_path), "00" * 32)
    assert _names(tmp_path) == []
    (tmp_path / "toy.bin").write_bytes(b"planted")
    with pytest.raises(UsageError, match=f"{tmp_path}/toy.bin is not the file that .* should contain: delete it"):
        download.plain_file(server.origin, "toy.bin", str(tmp_path), hashlib.sha256(ARCHIVE).hexdigest())
    assert _names(tmp_path) == ["toy.bin"]
