"""Flags of supervised training by cohorts, for the studies that train so; defaults are the studies' own."""

from optimization.options import Training
from optimization.study import cli, selector_flags, server_flags, task_flags


def define_evaluation(flags: cli.FlagSet, batch_size: int) -> None:
    """Defines the flags of evaluations, whose batches have this size by default."""
    flags.integer("eval_batch_size", batch_size, "examples of an evaluation batch", low=1)
    flags.integer("max_validation_samples", 10000, "most held-out examples; 0 for all")


def options(settings: cli.Settings) -> Training:
    """Returns what resolved flags mean."""
    return Training(
        seed=settings.seed,
        task=task_flags.options(settings),
        total_rounds=settings.total_rounds,
        cohort_size=settings.clients_per_round,
        selection=selector_flags.options(settings),
        max_examples_per_client=settings.max_examples_per_client,
        batch_size=settings.client_batch_size,
        learning_rate=settings.client_learning_rate,
        server_optimizer=server_flags.options(settings),
        eval_batch_size=settings.eval_batch_size,
        max_validation_samples=settings.max_validation_samples,
        rounds_per_checkpoint=settings.rounds_per_checkpoint,
    )
