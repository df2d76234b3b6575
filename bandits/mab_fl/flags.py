"""Flags of `run_mab_fl`, all checks that need neither data nor TensorFlow, and the studies that `--preset` reads.

A study is a TOML file in `presets/`. Its table `study` has the values that all settings share. Every other table
is a setting or, if some values are lists, a grid of settings.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from bandits import registry
from bandits.mab_fl import rewards
from data import schema
from data.errors import UsageError
from data.settings import Count, Fraction, Positive, PositiveFraction, make_options, number_or_quantile, setting
from data.tasks import silos
from optimization import corrections
from optimization.study import cli, presets, task_flags, training_flags

USAGE = """
Who should a target participant learn with? In each round, a bandit chooses whose models are averaged.

  run_mab_fl                                              # synthetic participants; the best pair is 0110
  run_mab_fl --task_type=heart_disease --target=va --decision_rule=extreme_explore
  run_mab_fl --task_type=tabular --data_file=FILE --client_column=C --label_column=L --target=NAME
  run_mab_fl --preset=table3                              # all settings of a study

Where a default is missing here, it depends on other flags; config.json in the run's folder records all values.
"""

PRESETS = pathlib.Path(__file__).parent / "presets"

TASKS = {
    "generator": "synthetic participants; worker_2 and worker_3 share one concept; needs no file",
    "heart_disease": "UCI's four hospitals; needs heart_disease_4sites.csv in --data_dir",
    "tabular": "your own table: --data_file, --client_column and --label_column",
}
_FRACTIONS = {"generator": (0.01, 0.4), "heart_disease": (0.2, 0.4), "tabular": (0.2, 0.4)}
_THRESHOLD = 0.025
_C = 0.05  # From Table 3; it is small because increases in the AUC are small.

# A baseline is a greedy rule with only one combination to choose from.
FIXED, TARGET_ALONE, FEDAVG = "fixed", "target_alone", "fedavg"
PAIRS = "pairs"
BASELINES = {
    FIXED: "no choice: --fixed_combination in every round",
    TARGET_ALONE: "no choice: the target trains by itself",
    FEDAVG: "no choice: all participants in every round",
}


def _small_c(entry: registry.PolicyEntry) -> registry.PolicyEntry:
    parameters = dict(entry.parameters)
    if "c" in parameters:
        parameters["c"] = dataclasses.replace(parameters["c"], default=_C)
    return dataclasses.replace(entry, parameters=parameters)


RULES = {name: _small_c(entry) for name, entry in registry.RULES.items()} | {
    name: registry.PolicyEntry(registry.RULES["greedy"].target, help=text) for name, text in BASELINES.items()
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Study:
    """Participants and target of the study."""

    task_type: str = setting("generator", "The participants and their data", TASKS, basic=True)
    target: str = setting(
        None, "Participant to personalize for (default: worker_2 of the generator; otherwise, the first)", basic=True
    )


_GENERATED, _TABULAR = {"task_type": ("generator",)}, {"task_type": ("tabular",)}
_CHOOSING = tuple(name for name in RULES if name not in BASELINES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Decisions:
    """Decisions."""

    fixed_combination: str = setting(None, "Fixed combination, such as 0110", only={"decision_rule": (FIXED,)})
    combinations: str = setting(
        PAIRS,
        "Set of combinations to choose from",
        {PAIRS: "the target and one other participant", "all": "all combinations that contain the target"},
        only={"decision_rule": _CHOOSING},
    )
    reward: str = setting(
        lambda settings: "binary" if settings.decision_rule in registry.BINARY else "increment",
        "How an increase in the AUC becomes a reward (default: depends on the rule)",
        rewards.KINDS,
    )
    threshold: float = setting(
        None,
        "Increase above which a binary reward is 1: a number, or a quantile of the increases of all combinations that "
        "were tried in earlier rounds, such as quantile:0.5",
        number_or_quantile(-1, 1),
        only={"reward": ("binary",)},
        applied_default=_THRESHOLD,
    )
    evaluation: str = setting(
        "immediate",
        "When Extreme Explore measures the averages that it computes",
        {
            "immediate": "right after averaging: the best average of the round becomes the global model",
            "delayed": "with the next round's models, which saves 2 exchanges: the average with the best estimate "
            "becomes the global model",
        },
        only={"decision_rule": tuple(sorted(registry.EXTREME))},
    )
    drop_level: PositiveFraction = setting(
        None,
        "Extreme Explore drops combinations that are worse than the best so far in a paired t test. This is the "
        "maximum probability of dropping the best one in a run (default: drop none)",
        below=True,
        only={"decision_rule": ("extreme_explore",), "reward": ("increment",)},
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Rounds:
    """Rounds."""

    total_rounds: Count = setting(15, "Number of rounds", basic=True)
    epochs_per_round: Count = setting(6, "Passes over a participant's training rows per round", basic=True)
    pretrain_epochs: int = setting(
        lambda settings: settings.epochs_per_round,
        "Passes over every participant's rows before round 1 (default: --epochs_per_round)",
    )
    client_batch_size: int = setting(32, "Rows per mini-batch", low=2)
    client_learning_rate: Positive = setting(0.05, "Learning rate of SGD", basic=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Stopping:
    """Early stopping."""

    early_stopping: bool = setting(
        False, "Stop when the spline through the target's own validation AUC falls and all combinations have been tried"
    )
    early_stopping_patience: Count = setting(
        5, "Number of consecutive rounds in which the spline must fall", only={"early_stopping": True}
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Data:
    """Data."""

    data_dir: pathlib.Path = setting(
        None,
        "Folder of the task's files (default: FEDBANDITS_DATA_DIR in the environment)",
        only={"task_type": ("heart_disease", "tabular")},
    )
    train_fraction: PositiveFraction = setting(
        lambda settings: _FRACTIONS[settings.task_type][0], "Share of each participant's rows to train on", below=True
    )
    validation_fraction: Fraction = setting(
        lambda settings: _FRACTIONS[settings.task_type][1],
        "Fraction of rows to measure rewards on; the rest is for testing",
    )
    resplit: bool = setting(False, "Generate or split the data separately for each seed")
    num_workers: int = setting(None, "Number of participants", low=2, only=_GENERATED, applied_default=4)
    num_rows: int = setting(
        None, "Total number of rows of all participants", low=1, high=10**7, only=_GENERATED, applied_default=40_000
    )
    positive_labels: str = setting(None, "Labels that count as class 1, separated by commas", only=_TABULAR)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Corruption:
    """Corrupted labels."""

    corrupted_participant: str = setting(None, "Participant whose training labels are flipped")
    label_flip_rate: PositiveFraction = setting(
        1.0, "Probability that each label of --corrupted_participant is flipped", only={"corrupted_participant": True}
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Table:
    """Your own table."""

    data_file: pathlib.Path = setting(
        None,
        "Table: .csv or .tsv (a header line; commas, semicolons or tabs; also gzipped) or .parquet; looked up in "
        "the working directory, --data_dir or FEDBANDITS_DATA_DIR, and data/examples",
        basic=True,
        convert=task_flags.found_table,
    )
    client_column: str = setting(None, "Column with the name of the participant that owns the row", basic=True)
    label_column: str = setting(
        None, "Column with the label; by default, all labels but the first count as class 1", basic=True
    )
    feature_columns: str = setting(None, "Columns with the features, separated by commas (default: all others)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MabFlOptions(_Study, _Decisions, _Rounds, _Stopping, _Corruption):
    """Options of a run.

    Attributes:
      seed: Random seed of everything except the data.
      setting: Name of the preset's setting, such as `ucb`; empty without a preset.
      silos: Options of the participants' data.
      decision_rule: Name of the decision rule or baseline.
      rule: The decision rule.
      delays_rewards: Whether Extreme Explore observes a round's rewards in the next round, and therefore uses its
        estimates to choose which average to adopt.
      choices: The set of combinations to choose from: a value of `--combinations`, or a baseline.
      reward: Function that maps an increase in the AUC to a reward.
      corrections: Corrections of the SGD gradients.
      rounds_per_checkpoint: Rounds between checkpoints.
    """

    seed: int
    setting: str
    silos: silos.SiloOptions
    decision_rule: str
    rule: registry.PolicySpec
    delays_rewards: bool
    choices: str
    reward: rewards.Reward  # type: ignore[assignment]
    corrections: tuple[corrections.Correction, ...]
    rounds_per_checkpoint: int


def define(flags: cli.FlagSet) -> None:
    """Defines the study's own flags."""
    flags.add(_Study)
    flags.group("Decisions", *registry.rule_settings(RULES, "ucb"), _Decisions)
    flags.group("Rounds", _Rounds, *training_flags.CORRECTIONS, _Stopping)
    flags.group("Data", _Data, _Corruption)
    flags.group("Your own table", _Table, schema.Columns, **_TABULAR)


def default_name(settings: cli.Settings) -> str:
    """Default of `--experiment_name`."""
    preset = (settings.preset or "").replace("/", "_")
    return preset or f"mab_fl_{settings.task_type}_{settings.decision_rule}"


def check(settings: cli.Settings) -> None:
    """Checks flags against each other.

    Raises:
      UsageError: If a flag is missing, or if values conflict.
    """
    if settings.decision_rule == FIXED and not settings.fixed_combination:
        raise UsageError("--decision_rule=fixed needs --fixed_combination, such as 0110.")
    if settings.decision_rule in registry.BINARY and settings.reward != "binary":
        raise UsageError(f"--decision_rule={settings.decision_rule} needs --reward=binary, not {settings.reward}.")
    needed = {"data_file": "the table", "client_column": "the participants' column", "label_column": "the class"}
    for name, what in needed.items():
        if settings.task_type == "tabular" and not settings[name]:
            raise UsageError(f"--task_type=tabular needs --{name}: {what}.")
    if settings.train_fraction + settings.validation_fraction >= 1:
        raise UsageError(
            "--train_fraction and --validation_fraction leave no rows for testing: their sum must be below 1."
        )
    if settings.task_type == "generator" and not 3 <= settings.num_workers <= settings.num_rows:
        raise UsageError("--num_workers must be at least 3, because two of them form the pair, and at most --num_rows.")


def options(settings: cli.Settings) -> MabFlOptions:
    """Options of a run, from its flags."""
    rule = settings.decision_rule
    return make_options(
        MabFlOptions,
        settings,
        setting=(settings.preset or "").partition("/")[2],
        silos=make_options(silos.SiloOptions, settings, seed=settings.seed if settings.resplit else 0),
        rule=RULES[rule].chosen(registry.rule_values(settings, RULES)),
        delays_rewards=rule in registry.EXTREME and settings.evaluation == "delayed",
        choices=rule if rule in BASELINES else settings.combinations,
        reward=rewards.Reward(settings.reward, settings.threshold),
        corrections=corrections.chosen(settings),
    )


@dataclasses.dataclass(frozen=True)
class Study:
    """A study, which is read from one file.

    Attributes:
      about: Description of the study, with its publication.
      settings: Flags and their values by setting, in the order of the file. A setting's name is its table in the file,
        and the values that vary within the table.
    """

    about: str
    settings: Mapping[str, Mapping[str, Any]]


def load_studies() -> dict[str, Study]:
    """All studies by name."""
    by_name = {}
    for path, shared, tables in presets.tables(PRESETS, "study"):
        about = shared.pop("about")
        settings = dict(pair for table, values in tables.items() for pair in _grid(table, shared | values))
        by_name[path.stem] = Study(about, settings)
    return by_name


def chosen_settings(preset: str) -> Mapping[str, Mapping[str, Any]]:
    """Settings of `--preset`, which is STUDY or STUDY/SETTING.

    Raises:
      UsageError: If there is no preset of this name.
    """
    known = load_studies()
    name, _, only = preset.partition("/")
    names = [name, *(f"{name}/{setting}" for setting in known[name].settings)] if name in known else list(known)
    if preset not in names:
        raise cli.unknown("preset", preset, names, "--list_presets prints their names.")
    settings = known[name].settings
    return {only: settings[only]} if only else settings


def _grid(table: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the name and the flags of each setting in a table."""
    varied = {name: choices for name, choices in values.items() if isinstance(choices, list)}
    for combination in itertools.product(*varied.values()):
        chosen = dict(zip(varied, combination, strict=True))
        suffix = "".join(f"_{name.removeprefix('rule_')}={value}" for name, value in chosen.items())
        yield table + suffix, {**values, **chosen}


def studies_text() -> str:
    """Lines that list the studies and their settings."""
    lines = []
    for name, study in load_studies().items():
        lines += [f"{name:<60}{study.about}", *(f"  {name}/{setting}" for setting in study.settings)]
    return "\n".join(lines)
