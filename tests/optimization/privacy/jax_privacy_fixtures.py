"""Writes `jax_privacy.json`: what jax-privacy gives for Toeplitz matrices and amplified banded noise.

Its JAX does not go with TFF's, so that this runs in an environment of its own:

  python3.11 -m venv /tmp/jax && /tmp/jax/bin/pip install jax-privacy==2.0.0
  /tmp/jax/bin/python tests/optimization/privacy/jax_privacy_fixtures.py
"""

import json
import pathlib

import dp_accounting
import jax
import numpy as np
from dp_accounting import pld, rdp
from jax_privacy.experimental import accounting
from jax_privacy.matrix_factorization import toeplitz

jax.config.update("jax_enable_x64", True)
Relation = dp_accounting.NeighboringRelation


def factorization(bands: int, rounds: int, min_separation: int) -> dict:
    column = toeplitz.optimal_max_error_strategy_coefs(bands)
    squared = toeplitz.per_query_error(strategy_coef=column, n=rounds)
    return {
        "bands": bands,
        "rounds": rounds,
        "min_separation": min_separation,
        "column": np.asarray(column)[:12].tolist(),
        "column_norm": float(np.linalg.norm(column)),
        "prefix_noise": float(np.sqrt(np.mean(squared))),
        "squared_sensitivity": float(toeplitz.minsep_sensitivity_squared(column, min_sep=min_separation, n=rounds)),
    }


def amplified(population: int, cohort: int, rounds: int, bands: int, noise_multiplier: float, delta: float) -> dict:
    event = accounting.amplified_bandmf_event(
        noise_multiplier, rounds, num_bands=bands, sampling_prob=cohort * bands / population
    )
    by_rdp = rdp.RdpAccountant(neighboring_relation=Relation.ADD_OR_REMOVE_ONE).compose(event).get_epsilon(delta)
    by_pld = pld.PLDAccountant(neighboring_relation=Relation.ADD_OR_REMOVE_ONE).compose(event).get_epsilon(delta)
    return {
        "population": population,
        "cohort": cohort,
        "rounds": rounds,
        "bands": bands,
        "noise_multiplier": noise_multiplier,
        "delta": delta,
        "epsilon_rdp": by_rdp,
        "epsilon_pld": by_pld,
    }


def optimized(bands: int, rounds: int) -> dict:
    """The least noise for one participation of jax-privacy's optimized coefficients."""
    column = toeplitz.optimize_banded_toeplitz(rounds, bands, max_optimizer_steps=2000)
    noise = float(np.sqrt(np.mean(toeplitz.per_query_error(strategy_coef=column, n=rounds))))
    return {"bands": bands, "rounds": rounds, "noise": noise * float(np.linalg.norm(column))}


def main():
    found = {
        "factorizations": [
            factorization(*each)
            for each in [
                (1, 20, 1),
                (8, 1600, 5351),
                (8, 100, 3),
                (32, 300, 40),
                (256, 1600, 256),
                (512, 1600, 100),
                (1600, 1600, 1600),
            ]
        ],
        "amplified": [
            amplified(*each)
            for each in [
                (342_477, 64, 1600, 256, 1.4832, 1e-6),
                (200_000, 100, 1000, 50, 2.0, 1e-7),
                (10_000, 20, 301, 10, 0.8, 1e-5),
            ]
        ],
        "optimized": [optimized(*each) for each in [(8, 1600), (32, 1600), (256, 1600), (512, 1600)]],
    }
    path = pathlib.Path(__file__).with_name("jax_privacy.json")
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
