"""Measures rounds of other federations and of clients that adapt their models, against plain federated rounds."""

import timeit
from typing import Any

from optimization.study import cli
from scripts.benchmark import flags

_WAYS = (
    "--federation=alone",
    "--federation=pooled",
    "--personalization=fine_tune --personalization_epochs=1",
    "--personalization=local_head --personalization_epochs=1",
)


def measure(settings: cli.Settings) -> dict[str, Any]:
    """Measures seconds and bytes of a round in each way, and the seconds that counting the bytes takes."""
    measured = flags.measure(settings.replace(change=[*_WAYS]))

    from optimization.study import payloads

    count = timeit.timeit(lambda: payloads.row(1, 1, 1, 1), number=1000)  # Seconds of 1000 are milliseconds of one.
    share = count / measured["plain_milliseconds"]
    return measured | {"count_of_bytes": {"milliseconds": round(count, 5), "plain_rounds": round(share, 6)}}
