"""Aggregation processes of flags, whose rounds are given their noise."""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow_federated as tff

from data.settings import Setting
from optimization import aggregators, options
from optimization.privacy import dp_queries
from optimization.study import aggregation_flags, cli

SHAPES = ((2000, 2), (96,))
_SEEDED = ("--noise_multiplier=0.5", "--clip_norm=0.4", "--insecure_seeded_noise")
_ADAPTIVE = ("--noise_multiplier=0.1", "--adaptive_clipping", "--insecure_seeded_noise")
KINDS = {
    "mean": ("--aggregator_type=mean",),
    "dpsgd": ("--aggregator_type=dpsgd", *_SEEDED),
    "dpsgd_adaptive": ("--aggregator_type=dpsgd", *_ADAPTIVE),
    "dpftrl": ("--aggregator_type=dpftrl", *_SEEDED, "--dpftrl_restart_rounds=3"),
    "mf_dpftrl": ("--aggregator_type=mf_dpftrl", *_SEEDED, "--mf_bands=3"),
    "median": ("--aggregator_type=median",),
    "trimmed_mean": ("--aggregator_type=trimmed_mean",),
    "secure_sum": ("--aggregator_type=secure_sum",),
}


def build(*arguments: str, cohort: int = 4, shapes=SHAPES, pretraining=None):
    """Aggregation options and process of flags, with seed 3."""
    flags = cli.FlagSet("")
    flags.group("Aggregation and privacy", options.Aggregation, options.Cohorts, Setting("seed", int, "", 3))
    aggregation = aggregation_flags.options(flags.parse(["test", *arguments]).checked(aggregation_flags.check))
    mechanism = aggregation_flags.mechanism(aggregation, options.Cohorts(cohort), 100, 4096)
    mechanism = dataclasses.replace(mechanism, pretraining=pretraining, pretraining_rounds=1 if pretraining else 0)
    delta_type = tff.to_type(tuple((np.float32, shape) for shape in shapes))
    process = aggregators.build(aggregation, mechanism, shapes).create(delta_type, tff.TensorType(np.float32))
    noise = aggregators.noise(aggregation, mechanism, shapes)
    return aggregation, NoiseGiven(process, noise) if noise else process


class NoiseGiven(NamedTuple):
    """An aggregation whose rounds are given their noise, as `dp_queries.NoisyRounds` gives it."""

    process: tff.templates.AggregationProcess
    noise: dp_queries.CorrelatedNoise

    def initialize(self):
        return self.noise.initial_state(self.process.initialize())

    def next(self, state, deltas, weights):
        noise, kept = self.noise.next(state)
        output = self.process.next(dp_queries.with_noise(kept.aggregator, noise), deltas, weights)
        return tff.templates.MeasuredProcessOutput(
            kept._replace(aggregator=output.state), output.result, output.measurements
        )
