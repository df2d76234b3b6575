import signal

import pytest


@pytest.fixture
def as_program():
    """Has signals answered as in a program."""
    from optimization.study import interruption

    before = {signum: signal.getsignal(signum) for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    interruption.install()
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)
