"""Impressions of ads: which of several ads a user would click, from a table or sampled with chosen rates."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from data import clients, files, keys, table_file
from data.errors import UsageError

TABLE = "Ads_CTR_Optimisation.csv"
_IMPRESSIONS, _ADS = 10_000, 10  # Size of the published table.


class Impressions(NamedTuple):
    """Impressions partitioned over clients.

    Attributes:
      clicks: uint8 [clients, impressions, ads], 1 where the ad, if displayed, is clicked.
      rates: float64 [ads], expected number of clicks per impression.
      names: The ads' names.
      size: `clients.size_report` of a table that has the name of the published one.
    """

    clicks: np.ndarray
    rates: np.ndarray
    names: tuple[str, ...]
    size: Mapping[str, str] = {}

    @property
    def checksum(self) -> str:
        """A digest of the impressions."""
        return clients.array_checksum(self.clicks)

    @property
    def report(self) -> dict[str, Any]:
        """Names and rates of the ads, for `config.json`, and the note on the size of the table."""
        return {"ads": self.names, "rates": self.rates.tolist(), **self.size}

    @property
    def statistics(self) -> dict[str, Any]:
        """Statistics learned from the clients before any round: none."""
        return {}


def find_table(data_file: str | None) -> str:
    """Returns the path of the ad table: `data_file`, or the file with the default name in FEDBANDITS_DATA_DIR.

    Raises:
      UsageError: If neither names a file.
    """
    if data_file:
        return data_file
    folder = files.folder_of_environment()
    path = pathlib.Path(folder or ".") / TABLE
    if not folder or not path.is_file():
        raise UsageError(f"No {TABLE} in FEDBANDITS_DATA_DIR: give --data_file (see docs/data.md), or --rates=0.1,0.2.")
    return str(path)


def from_table(path: str, num_clients: int, seed: int) -> Impressions:
    """Partitions the rows of an ad table over clients of equal size; remaining rows are dropped.

    Args:
      path: Path of a table with a column of zeros and ones for each ad, and a row for each impression.
      num_clients: Number of clients.
      seed: Seed of the partition.

    Returns:
      The impressions. Their `rates` are the means over the whole table.

    Raises:
      UsageError: If the file is not such a table, or has fewer rows than clients.
    """
    table = table_file.read(path)
    frame = table.frame
    columns = [
        table.numbers(frame[name], "--data_file", "click", within=(0, 1), is_whole=True) for name in frame.columns
    ]
    if len(frame.columns) < 2:
        raise UsageError(f"--data_file={path} has a single ad, so there is nothing to choose: give two or more.")
    if len(frame) < num_clients:
        raise UsageError(
            f"--clients={num_clients} is more than the {len(frame)} impressions in {path}: use fewer clients."
        )
    clicks = np.stack(columns, axis=1).astype(np.uint8)
    share = len(clicks) // num_clients
    order = keys.generator(seed, keys.Purpose.PARTITION).permutation(len(clicks))[: num_clients * share]
    by_client = clicks[order].reshape(num_clients, share, -1)
    sizes = {"impressions": (len(clicks), _IMPRESSIONS), "ads": (len(columns), _ADS)}
    size = clients.size_report(TABLE, sizes) if pathlib.Path(path).name == TABLE else {}
    return Impressions(by_client, clicks.mean(axis=0), tuple(map(str, frame.columns)), size)


def bernoulli(rates: Sequence[float], num_clients: int, impressions: int, seed: int) -> Impressions:
    """Samples impressions with independent clicks.

    Args:
      rates: Click rate of each ad.
      num_clients: Number of clients.
      impressions: Number of impressions per client.
      seed: Seed of the clicks.
    """
    draw = keys.generator(seed, keys.Purpose.EXAMPLES, 0)
    threshold = np.asarray(rates, np.float32)
    shape = (impressions, len(rates))
    # Sampled client by client, because the uniform numbers take four times the memory of the clicks.
    clicks = np.stack([draw.random(shape, np.float32) < threshold for _ in range(num_clients)]).view(np.uint8)
    names = tuple(f"Ad {number + 1}" for number in range(len(rates)))
    return Impressions(clicks, np.asarray(rates, np.float64), names)


def parse_rates(text: str) -> list[float]:
    """Parses the click rates of `--rates`.

    Raises:
      UsageError: If it is not a list of at least two numbers from 0 to 1.
    """
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if len(rates) < 2 or not all(0 <= rate <= 1 for rate in rates):
        raise UsageError(f"--rates={text} must be the click rates of two ads or more, from 0 to 1, such as 0.1,0.2.")
    return rates
