import ast
import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import termios

import pytest

from optimization.study import interruption

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGES = ("bandits", "optimization", "scripts")  # Programs of `data`, which knows no `interruption`, import little.
STATUS = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143}
WORDS = {signal.SIGHUP: "Hung up.\n", signal.SIGINT: "Interrupted.\n", signal.SIGTERM: "Terminated.\n"}


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"


# Modules that act at their end when they are run.
PATHS = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in PATHS}
PROGRAMS = {path: tree for path, tree in TREES.items() if tree.body and _is_main(tree.body[-1])}


def _interrupted(code: str, signum: int) -> tuple[int, str]:
    """Starts a program, and signals it once it has printed a line."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, start_new_session=True, **pipes) as process:
        try:
            assert process.stdout.readline()
            process.send_signal(signum)
            _, stderr = process.communicate(timeout=300)
        finally:
            process.kill()
    return process.returncode, stderr


@pytest.mark.parametrize("path", PROGRAMS)
def test_a_program_answers_signals_before_it_imports_anything(path):
    first = PROGRAMS[path].body[1]
    assert _is_main(first)
    assert ast.unparse(first.body) == "from optimization.study import interruption\ninterruption.install()"


@pytest.mark.parametrize("signum", STATUS)
@pytest.mark.parametrize(
    "work",
    [
        "import asyncio; print(1, flush=True); asyncio.run(asyncio.sleep(60))",
        "import threading, time\n"
        "thread = threading.Thread(target=time.sleep, args=(60,)); thread.start(); print(1, flush=True); thread.join()",
        "import concurrent.futures as futures, time\n"
        "with futures.ThreadPoolExecutor() as pool:\n"
        "    future = pool.submit(time.sleep, 60); print(1, flush=True); future.result()",
        # As an import may. Its naps are short: a signal that comes just before one begins is answered when it ends.
        "import time\nprint(1, flush=True)\nwhile True:\n    try: time.sleep(0.1)\n    except BaseException: pass",
        "import time\nclass Slow:\n    def __del__(self): print(1, flush=True); time.sleep(60)\nSlow()",
    ],
    ids=["event loop", "thread", "thread pool", "all exceptions swallowed", "finalizer"],
)
def test_a_signal_ends_the_program_whatever_it_is_doing(work, signum):
    code = f"from optimization.study import interruption; interruption.install()\n{work}"
    assert _interrupted(code, signum) == (STATUS[signum], WORDS[signum])


def test_a_hang_up_that_is_ignored_at_the_start_stays_ignored():
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); from optimization.study import interruption; "
        "interruption.install(); signal.raise_signal(signal.SIGHUP); print('went on')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


def test_a_run_whose_terminal_is_closed_is_saved_and_ends_with_the_status_of_a_hang_up(tmp_path):
    # The shell and the kernel both send SIGHUP, and what is printed later has nowhere to go.
    code = (
        "import pathlib, signal, sys, time; from optimization.study import interruption; interruption.install()\n"
        "with interruption.held() as received:\n"
        "    interruption.hold('stopping'); print('ready', flush=True)\n"
        "    while not received: time.sleep(0.01)\n"
        "    signal.raise_signal(signal.SIGHUP); print('saving', flush=True); print('saving', file=sys.stderr)\n"
        f"    pathlib.Path({str(tmp_path / 'saved')!r}).touch()\n"
        "sys.exit(128 + received[0])"
    )
    terminal, end = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdin=end,
        stdout=end,
        stderr=end,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(end)
    assert os.read(terminal, 5) == b"ready"
    os.close(terminal)
    assert process.wait(300) == 129
    assert (tmp_path / "saved").exists()


def test_the_first_signal_is_answered_and_the_second_goes_to_the_outer_handler(as_program):
    answered, before = [], []
    with interruption.answered(before.append):
        with interruption.answered(answered.append):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
        with interruption.answered(answered.append):
            signal.raise_signal(signal.SIGTERM)
    assert (answered, before) == ([signal.SIGINT, signal.SIGTERM], [signal.SIGTERM])


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_held_signal_is_kept_to_the_end_of_the_outer_block_and_a_second_is_not(as_program, second):
    at_once: list[int] = []
    with interruption.answered(at_once.append), interruption.held() as received:
        with interruption.held():
            interruption.hold("first part")
            interruption.hold("second part")
        signal.raise_signal(signal.SIGTERM)
        assert (received, at_once) == ([signal.SIGTERM], [])
        assert interruption.hold("third part") == [signal.SIGTERM]
        signal.raise_signal(second)
    assert (received, at_once) == ([signal.SIGTERM], [second])
