"""Partitions pooled data over clients, splits rows into training and held-out ones, and samples skewed cohorts."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from data import keys
from data.errors import UsageError

NO_CLIENT = -1  # The client of an example that was not assigned.
# Below this concentration, shares are sampled as logarithms: NumPy would round most to zero and lose their order.
_LEAST_FOR_NUMPY = 0.01
_MIN_CLIENTS = 5  # With fewer, rows of each client are held out, not whole clients.


class Split(NamedTuple):
    """Training and held-out rows.

    Attributes:
      is_held_out: bool [rows].
      is_train: bool [rows]; a row may be in neither part.
      train: Clients of training rows, ascending.
      held_out: Clients of held-out rows, ascending; some or all of them may be in `train`, too.
      how: Description of the held-out part.
    """

    is_held_out: np.ndarray
    is_train: np.ndarray
    train: list[int]
    held_out: list[int]
    how: str


def hold_out(client_of_row: np.ndarray, num_clients: int, seed: int, fraction: float = 0.2) -> Split:
    """Holds out whole clients, or some rows of each client if there are fewer than 5.

    Args:
      client_of_row: int [rows].
      num_clients: Number of clients, each with at least one row.
      seed: Seed of the choice.
      fraction: Fraction of clients, or of each client's rows, to hold out: at least one if there are two or more, but
        never all.

    Raises:
      UsageError: If nothing can be held out.
    """
    everyone = list(range(num_clients))
    if num_clients >= _MIN_CLIENTS:
        count = min(max(1, round(fraction * num_clients)), num_clients - 1)
        order = keys.generator(seed, keys.Purpose.HELD_OUT, 0).permutation(num_clients)
        train, held_out = sorted(order[count:].tolist()), sorted(order[:count].tolist())
        is_held_out = np.isin(client_of_row, held_out)
        return Split(is_held_out, ~is_held_out, train, held_out, f"{count} of {num_clients} clients")
    is_held_out = rows_of_each(
        client_of_row, num_clients, seed, lambda count: min(max(1, round(fraction * count)), count - 1)
    )
    if not is_held_out.any():
        raise UsageError("--client_column gives each client one row, and there are too few clients to hold some out.")
    how = f"{fraction:.0%} of each client's rows, because there are fewer than {_MIN_CLIENTS} clients"
    return Split(is_held_out, ~is_held_out, everyone, everyone, how)


def rows_of_each(client_of_row: np.ndarray, num_clients: int, seed: int, count_of: Callable[[int], int]) -> np.ndarray:
    """Random choice of `count_of(n)` of each client's n rows, bool [rows]."""
    is_chosen = np.zeros(len(client_of_row), bool)
    for client in range(num_clients):
        rows = np.flatnonzero(client_of_row == client)
        draw = keys.generator(seed, keys.Purpose.HELD_OUT, client)
        is_chosen[draw.choice(rows, count_of(len(rows)), replace=False)] = True
    return is_chosen


def split_equally(num_rows: int, num_clients: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Partitions rows over synthetic clients of equal size; the first clients get one remaining row each.

    Returns:
      The clients' names, and int32 [rows], the client of each row.

    Raises:
      UsageError: If there are more clients than rows.
    """
    if num_clients > num_rows:
        raise UsageError(f"--client_column=rows:{num_clients} is more than the {num_rows} rows: use fewer clients.")
    client_of_row = np.zeros(num_rows, np.int32)
    draw = keys.generator(seed, keys.Purpose.PARTITION)
    client_of_row[draw.permutation(num_rows)] = np.arange(num_rows) % num_clients
    width = len(str(num_clients - 1))
    return [f"client_{index:0{width}d}" for index in range(num_clients)], client_of_row


def dirichlet_label_skew(
    labels: np.ndarray,
    num_clients: int,
    concentration: float,
    draw: np.random.Generator,
    examples_per_client: int | None = None,
) -> np.ndarray:
    """Partitions examples over clients with label mixes from a symmetric Dirichlet distribution.

    Every client receives the same number of examples, without replacement. When a label runs out, a client's other
    labels are sampled in proportion to their shares (Hsu, Qi and Brown 2019, section 3; latent Dirichlet allocation of
    Reddi et al. 2021 and Johansson and Gullbrandson 2022, Algorithm 7).

    Args:
      labels: int [examples].
      num_clients: Number of clients, M.
      concentration: Dirichlet parameter of every label, alpha; small values give clients with few labels.
      draw: Random generator.
      examples_per_client: Examples per client, N; None to use all examples; the first clients then get one
        of the remaining examples each.

    Returns:
      int32 [examples], the client of each example, or `NO_CLIENT`.
    """
    classes = np.unique(labels)

    def draw_mix() -> np.ndarray:
        return _log_shares(draw, concentration, len(classes))

    def weights(mix: np.ndarray, left: np.ndarray) -> np.ndarray:
        return _relative(mix, left > 0)

    return _assign(labels, num_clients, examples_per_client, draw, draw_mix, weights)


def dirichlet_client_shares(
    labels: np.ndarray, num_clients: int, concentration: float, draw: np.random.Generator
) -> np.ndarray:
    """Partitions the examples of each label over clients in shares from a symmetric Dirichlet distribution, Dir_K.

    Clients have unequal sizes, and with a small concentration some have no example. The distribution is over the K
    clients' shares of a label, as in Cho et al. 2020, section IV, and Yurochkin et al. 2019, section 4.

    Args:
      labels: int [examples].
      num_clients: Number of clients, K.
      concentration: Dirichlet parameter of every client, alpha; small values concentrate a label on few clients.
      draw: Random generator.

    Returns:
      int32 [examples], the client of each example.
    """
    client_of_row = np.empty(len(labels), np.int32)
    for label in np.unique(labels):
        rows = draw.permutation(np.flatnonzero(labels == label))
        logs = _log_shares(draw, concentration, num_clients)
        shares = np.exp(logs - logs.max())
        boundaries = np.rint(np.cumsum(shares) / shares.sum() * len(rows)).astype(int)
        client_of_row[rows] = np.searchsorted(boundaries, np.arange(len(rows)), side="right")
    return client_of_row


def hierarchical_label_skew(
    coarse_labels: np.ndarray,
    fine_labels: np.ndarray,
    num_clients: int,
    coarse_concentration: float,
    fine_concentration: float,
    draw: np.random.Generator,
    examples_per_client: int | None = None,
) -> np.ndarray:
    """Partitions examples over clients with a Dirichlet mix of coarse labels, and one of the fine labels within each.

    An example's coarse label is sampled first, then its fine label. When a label runs out, the others are sampled in
    proportion to their shares (Reddi et al. 2021, appendix F; Johansson and Gullbrandson 2022, section 4.3).

    Args:
      coarse_labels: int [examples].
      fine_labels: int [examples]; a fine label belongs to one coarse label.
      num_clients: Number of clients, M.
      coarse_concentration: Dirichlet parameter of the coarse labels, alpha.
      fine_concentration: Dirichlet parameter of the fine labels within a coarse label, beta.
      draw: Random generator.
      examples_per_client: As in `dirichlet_label_skew`, N.

    Returns:
      int32 [examples], the client of each example, or `NO_CLIENT`.
    """
    fine, first = np.unique(fine_labels, return_index=True)
    coarse, coarse_of_fine = np.unique(coarse_labels[first], return_inverse=True)

    def draw_mix() -> tuple[np.ndarray, np.ndarray]:
        within = np.empty(len(fine))
        for index in range(len(coarse)):
            members = coarse_of_fine == index
            within[members] = _log_shares(draw, fine_concentration, members.sum())
        return _log_shares(draw, coarse_concentration, len(coarse)), within

    def weights(mix: tuple[np.ndarray, np.ndarray], left: np.ndarray) -> np.ndarray:
        across, within = mix
        within = np.where(left > 0, within, -np.inf)
        tops = np.full(len(coarse), -np.inf)
        np.maximum.at(tops, coarse_of_fine, within)
        has_some = np.isfinite(tops)
        within = np.exp(within - np.where(has_some, tops, 0.0)[coarse_of_fine])
        totals = np.where(has_some, np.bincount(coarse_of_fine, within), 1.0)
        return (_relative(across, has_some) / totals)[coarse_of_fine] * within

    return _assign(fine_labels, num_clients, examples_per_client, draw, draw_mix, weights)


def dirichlet_cohort(num_clients: int, cohort_size: int, concentration: float, seed: int, round_num: int) -> np.ndarray:
    """Samples a round's cohort without replacement, with unequal client probabilities that stay fixed over rounds.

    The clients' shares Q are one sample of a symmetric Dirichlet distribution (Johansson and Gullbrandson 2022, section
    4.2). They are sampled and used as logarithms, since with a small concentration most round to zero.

    Args:
      num_clients: Number of clients.
      cohort_size: Clients per round.
      concentration: Dirichlet parameter, alpha; the larger, the more equal the shares.
      seed: Seed of the shares and of the rounds.
      round_num: The round, from 1.

    Returns:
      int [cohort_size], distinct clients.
    """
    draw = keys.generator(seed, keys.Purpose.COHORT, 0)
    log_shares = _log_gammas(draw, concentration, num_clients)
    # Sorting these sums samples clients without replacement, in proportion to the shares (Gumbel top-k trick).
    noise = keys.generator(seed, keys.Purpose.COHORT, round_num).gumbel(size=num_clients)
    return np.argsort(-(log_shares + noise), kind="stable")[:cohort_size]


def _log_shares(draw: np.random.Generator, concentration: float, size: int) -> np.ndarray:
    """Samples logarithms of shares from a symmetric Dirichlet distribution, up to an additive constant."""
    if concentration < _LEAST_FOR_NUMPY:
        return _log_gammas(draw, concentration, size)
    with np.errstate(divide="ignore"):
        return np.log(draw.dirichlet(np.full(size, concentration)))


def _log_gammas(draw: np.random.Generator, shape: float, size: int) -> np.ndarray:
    # Gamma(alpha) is distributed like Gamma(alpha + 1) times U^(1 / alpha), where U is uniform.
    return np.log(draw.standard_gamma(shape + 1, size)) - draw.standard_exponential(size) / shape


def _relative(logs: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Weights relative to the largest allowed one, 0 where not allowed; all 0 if no allowed weight is above 0."""
    logs = np.where(allowed, logs, -np.inf)
    top = logs.max()
    return np.exp(logs - top) if np.isfinite(top) else np.zeros_like(logs)


def _assign(
    labels: np.ndarray,
    num_clients: int,
    examples_per_client: int | None,
    draw: np.random.Generator,
    draw_mix: Callable[[], Any],
    weights_of: Callable[[Any, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Assigns examples client by client.

    Args:
      labels: int [examples].
      num_clients: Number of clients.
      examples_per_client: Examples per client; None for all examples in equal parts.
      draw: Random generator.
      draw_mix: Samples a client's mix.
      weights_of: Function of a mix and the number of examples left of each label, float [labels], that returns weights
        of the labels for the next example, float [labels]; all 0 if nothing is left of the mix.
    """
    total = num_clients * (examples_per_client or 0)
    classes, counts = np.unique(labels, return_counts=True)
    stacks = [draw.permutation(np.flatnonzero(labels == label)).tolist() for label in classes]
    left = counts.astype(float)
    client_of_row = np.full(len(labels), NO_CLIENT, np.int32)
    for client, part in enumerate(np.array_split(np.arange(total or len(labels)), num_clients)):
        mix = draw_mix()
        for _ in part:
            weights = weights_of(mix, left)
            if weights.sum() <= 0:  # Nothing of the client's mix is left.
                weights = left
            label = draw.choice(len(classes), p=weights / weights.sum())
            client_of_row[stacks[label].pop()] = client
            left[label] -= 1
    return client_of_row
