"""Tests of comparisons by client, of bandits.results.federating."""

import json
import math

import numpy as np
import pytest

from bandits.results import federating, runs
from data.errors import UsageError
from optimization.study import run_folder


def _run(folder, rewards, *, checksum="same", **flags):
    """A finished run whose clients earned this on half B, and half as much on half A."""
    folder.mkdir(parents=True)
    config = {"format": run_folder.FORMAT, "data_checksum": checksum, "flags": {"task_type": "digits", **flags}}
    (folder / "config.json").write_text(json.dumps(config))
    earned = {"clients": [*rewards], "participations": [1] * len(rewards), "examples": [10.0] * len(rewards)}
    earned |= {"half_a": [value and value / 2 for value in rewards.values()], "half_b": [*rewards.values()]}
    (folder / run_folder.CLIENT_REPORT_FILE).write_text(json.dumps(earned))
    return folder


def test_clients_are_compared_on_the_seeds_and_clients_that_both_have(tmp_path):
    # Client 0 is helped, 1 hurt, 2 the same, 3 missing in the second seed.
    alone, gains = {"c0": 0.3, "c1": 0.31, "c2": 0.32, "c3": 0.33}, [0.2, -0.1, 0.0, 0.2]
    folders = []
    for seed, count in enumerate((4, 3)):
        some = dict(list(alone.items())[:count])
        together = {name: value + gain for (name, value), gain in zip(some.items(), gains, strict=False)}
        folders.append(_run(tmp_path / f"alone_{seed}", some, federation="alone", seed=seed))
        folders.append(_run(tmp_path / f"both_{seed}", together | {"new": 0.9}, federation="federated", seed=seed))
    table = federating.read(folders)
    of_b = federating.half_b(table)
    values = federating.differences(of_b["federated"], of_b["alone"])
    assert values.shape == (2, 4)
    np.testing.assert_allclose(values[0], [0.2, -0.1, 0, 0.2], atol=1e-12)
    np.testing.assert_allclose(values[1], [0.2, -0.1, 0, math.nan], atol=1e-12)
    assert federating.mean(values) == pytest.approx((0.2 - 0.1 + 0 + 0.2) / 4)
    assert [federating.share(sign, values) for sign in (1, 0, -1)] == pytest.approx([3 / 7, 2 / 7, 2 / 7])
    assert federating.worst_tenth(values) == pytest.approx(-0.1)
    assert any(line.startswith("federated - alone: +0.075") for line in federating.lines(table))
    # A client without an example in half B has no value.
    table = federating.read([_run(tmp_path / "run", {"a": 0.5, "b": None}, seed=0)])
    assert federating.mean(federating.half_b(table)["federated"].to_numpy()) == 0.5


def test_intervals_are_over_seeds_and_clients():
    generator = np.random.default_rng(1)
    noise = generator.normal(size=(6, 400))
    of_clients = runs.bootstrapped(noise, federating.mean)
    of_seeds = runs.bootstrapped(noise + generator.normal(size=(6, 1)), federating.mean)
    assert of_clients.low < 0 < of_clients.high
    # Of independent cells, such a bootstrap gives three times the variance (Owen 2007, "The Pigeonhole Bootstrap").
    assert of_clients.high - of_clients.low == pytest.approx(2 * 1.96 * math.sqrt(3 / 2400), rel=0.1)
    assert of_seeds.high - of_seeds.low > 4 * (of_clients.high - of_clients.low)
    assert of_seeds.mean == pytest.approx((noise + (of_seeds.mean - of_clients.mean)).mean())


@pytest.mark.slow
def test_the_picture_has_a_point_per_client(tmp_path):
    folders = []
    for kind, gain in (("alone", 0.0), ("federated", 0.1)):
        rewards = {f"c{client:02}": 0.2 + 0.01 * client + gain * (client >= 20) for client in range(30)}
        folders += [_run(tmp_path / f"{kind}_{seed}", rewards, federation=kind, seed=seed) for seed in (0, 1)]
    table = federating.read(folders)
    points = federating.picture(table).axes[0].collections[0].get_offsets()
    assert points.shape == (30, 2)
    np.testing.assert_allclose(points[25], [0.45, 0.55])
    assert federating.picture([one for one in table if one.name == "alone"]) is None


def test_runs_that_cannot_be_compared_are_refused(tmp_path):
    one = _run(tmp_path / "one", {"a": 0.5}, seed=0)
    with pytest.raises(UsageError, match="same configuration and seed"):
        federating.read([one, _run(tmp_path / "two", {"a": 0.5}, seed=0)])
    with pytest.raises(UsageError, match="other"):
        federating.read([one, _run(tmp_path / "other", {"a": 0.5}, seed=1, checksum="another")])
    (tmp_path / "plain").mkdir()
    with pytest.raises(UsageError, match="--report_clients"):
        federating.read([tmp_path / "plain"])
