"""Metrics of a round that several studies have."""

from optimization.study.metrics import Metric

LOSS = Metric("train/loss", "Training loss per example, before each step", better="down")
UPDATE_NORM = Metric("train/update_norm", "L2 norm of the aggregated update")
EXAMPLES = Metric("train/examples", "Examples of the cohort")
EMPTY_CLIENTS = Metric("train/empty_clients", "Clients without an example")
NONFINITE_CLIENTS = Metric("train/nonfinite_clients", "Clients whose training diverged", diverged=True)
