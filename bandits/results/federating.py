"""Shows whether federated learning helps, and which clients it helps, from runs with `--report_clients`.

Configurations are compared on half B of each client's examples, by the mean over the rounds in which the client took
part. Only clients that took part in both configurations are compared.
"""

import functools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bandits import metrics
from bandits.results import comparison, runs
from bandits.results.configuration import Configuration
from data.errors import UsageError, counted
from optimization.study import run_folder

if TYPE_CHECKING:
    import matplotlib.figure
ALONE, FEDERATED = "alone", "federated"
_COLUMNS = [HALF_A, HALF_B] = ["half_a", "half_b"]
_SAME = ("task_type", "population_client_selection")
_WORDS = {1: "helped", -1: "hurt", 0: "equal"}


def configuration(flags: Mapping[str, Any]) -> str:
    """Returns the name of a run's configuration."""
    if flags.get("federation") == ALONE and flags.get("alone_budget") == "equal":
        return "alone (equal budget)"
    personal = flags.get("personalization") or "none"
    return personal if personal != "none" else flags.get("federation") or FEDERATED


def read(folders: Sequence[pathlib.Path]) -> list[Configuration]:
    """Reads the rewards of each client from finished runs, and groups them by configuration.

    The columns of `values` are pairs of `half_a` or `half_b` and the client. Values are NaN where a client did not
    participate.

    Raises:
      UsageError: If a run did not report its clients, or two runs have different data, or equal names and seeds.
    """
    tables, first = [], None
    for folder in folders:
        path = folder / run_folder.CLIENT_REPORT_FILE
        if not path.exists():
            raise UsageError(f"{folder} has no {path.name}: run it with --report_clients.")
        config = runs.read_json(folder / "config.json")
        flags = config["flags"]
        data = [config.get("data_checksum"), *(flags.get(name) for name in _SAME)]
        if first is not None and data != first:
            raise UsageError(f"{folder} and {folders[0]} have different clients: compare runs on the same data.")
        first, earned = data, runs.read_json(path)
        columns = {name: np.array(earned[name], float) for name in _COLUMNS}
        table = pd.DataFrame({"client": earned["clients"], **columns})
        tables.append(table.assign(configuration=configuration(flags), seed=flags.get("seed")))
    joined = pd.concat(tables, ignore_index=True)
    if joined.duplicated(["configuration", "seed", "client"]).any():
        raise UsageError("Two runs have the same configuration and seed: name only one of them.")
    groups = joined.groupby("configuration", sort=False)
    return [Configuration(name, part.pivot(index="seed", columns="client", values=_COLUMNS)) for name, part in groups]


def half_b(configurations: Sequence[Configuration]) -> dict[str, pd.DataFrame]:
    """Returns the rewards on half B of each configuration, float64 [seeds, clients]."""
    return {one.name: one.values[HALF_B] for one in configurations}


def of_clients(values: np.ndarray) -> np.ndarray:
    """Maps rewards, float [seeds, clients], to the mean over seeds of each participating client, float [clients]."""
    took_part = values[:, np.isfinite(values).any(axis=0)]
    return np.nanmean(took_part, axis=0) if took_part.size else np.full(1, math.nan)


def mean(values: np.ndarray) -> float:
    """Mean over clients of each client's mean over seeds."""
    return float(of_clients(values).mean())


def worst_tenth(values: np.ndarray) -> float:
    """Mean over the worst tenth of the clients, by their means over seeds."""
    return metrics.worst_tenth(of_clients(values))


def share(sign: int, values: np.ndarray) -> float:
    """Fraction of the differences that are positive, zero or negative (sign 1, 0 or -1), over all seeds and clients."""
    known = values[np.isfinite(values)]
    return float(np.mean(np.sign(known) == sign)) if known.size else math.nan


def differences(one: pd.DataFrame, other: pd.DataFrame) -> np.ndarray:
    """Returns `one` minus `other`, float [common seeds, common clients], with rounding errors set to 0."""
    first, second = one.align(other, join="inner")
    result = (first - second).to_numpy()
    scale = np.fmax(np.abs(first.to_numpy()), np.abs(second.to_numpy()))
    return np.where(np.abs(result) <= comparison.EXACT * scale, 0.0, result)


def between_seeds(one: pd.DataFrame) -> np.ndarray:
    """Differences between consecutive seeds, which are pure noise, float64 [seeds - 1, clients]."""
    result = one.sort_index().diff().to_numpy()[1:]
    return np.where(np.abs(result) <= comparison.EXACT, 0.0, result)


def lines(configurations: Sequence[Configuration]) -> list[str]:
    """Returns the report as lines of text."""
    of_b = half_b(configurations)
    text = ["Expected reward on half B, mean over clients (95% intervals by a bootstrap over seeds and clients):"]
    for one in configurations:
        values = of_b[one.name]
        sizes = ", ".join(map(counted, values.shape, ("seed", "client")))
        reward, other = runs.bootstrapped(values.to_numpy(), mean).text(), mean(one.values[HALF_A].to_numpy())
        # No interval: bootstrap samples repeat some seeds and omit others, which lowers the worst clients' means.
        worst = worst_tenth(values.to_numpy())
        text.append(f"  {one.name}: {reward}; half A {other:.3g}; worst tenth {worst:.2g}; {sizes}")
    references = [name for name in of_b if name.startswith(ALONE)] + [FEDERATED] * (FEDERATED in of_b)
    for reference in references:
        for name, values in of_b.items():
            if name != reference and not name.startswith(ALONE):
                difference = differences(values, of_b[reference])
                text.append(f"{name} - {reference}: {runs.bootstrapped(difference, mean).text(signed=True)}")
                text.append(_shares(difference))
    if FEDERATED in of_b and len(of_b[FEDERATED]) > 1:
        text += [f"Two seeds of {FEDERATED}, to show what noise alone gives:", _shares(between_seeds(of_b[FEDERATED]))]
    return text


def helped(configurations: Sequence[Configuration]) -> dict[str, Any]:
    """Fractions of clients that federating helps, hurts or leaves equal; the same between two seeds; and the report."""
    of_b = half_b(configurations)
    both = {"shares": differences(of_b[FEDERATED], of_b[ALONE]), "between_seeds": between_seeds(of_b[FEDERATED])}
    fractions = {name: {word: share(sign, one) for sign, word in _WORDS.items()} for name, one in both.items()}
    return {**fractions, "clients": len(set().union(*of_b.values())), "lines": lines(configurations)}


def _shares(values: np.ndarray) -> str:
    shown = []
    for sign, word in _WORDS.items():
        interval = runs.bootstrapped(values, functools.partial(share, sign))
        shown.append(f"{word} {interval.mean:.2g}" if interval.low == interval.high else f"{word} {interval.text()}")
    return f"  share of clients: {', '.join(shown)}"


def picture(configurations: Sequence[Configuration]) -> "matplotlib.figure.Figure | None":
    """Plots each client's mean over seeds when trained alone and federated; None unless there are runs of both."""
    from optimization.study import curves, panels

    of_b = half_b(configurations)
    if not {ALONE, FEDERATED} <= of_b.keys():
        return None
    alone, federated = of_b[ALONE].align(of_b[FEDERATED], join="inner")
    figure, grid = panels.grid(1, 1, (5, 5), "Expected reward on half B, one point per client")
    grid[0, 0].scatter(alone.mean(), federated.mean(), s=12, alpha=0.6, color=curves.BLUE)
    grid[0, 0].axline((0, 0), slope=1, color=curves.GREY, linewidth=0.8)
    panels.label(grid[0, 0], xlabel="alone", ylabel="federated")
    return figure
