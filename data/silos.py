"""Silos: a few participants, each with rows of its own of one binary classification problem (cross-silo learning).

Each participant's rows are split into training, validation and test rows, at random within each class.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from data import clients, files, handwriting, keys, schema, tables
from data.errors import UsageError

GENERATED_TARGET = "worker_2"
_GENERATED_FACTORS = 4
_GENERATED_COLUMNS = 153
_GENERATED_ORDINAL = 2
_GENERATED_NOISE = 3.0
_GENERATED_SLOPE = 3.0
_GENERATED_OTHERS = (0.1, -0.4)  # Agreement of the other participants' concepts with the target's, first to last.
_GENERATED_POSITIVE = (0.45, 0.3)  # Parts of label 1, of the first and of the second half of the participants.


class Fractions(NamedTuple):
    """Parts of a participant's rows; the rest is for testing."""

    train: float
    validation: float


@dataclasses.dataclass(frozen=True)
class SiloOptions:
    """Everything that decides who the participants are; equal options, equal ones. Each task reads some of it.

    Attributes:
      task_type: `generator`, `heart_disease`, `tabular`, `mnist_writers` or `unipen62`.
      train_fraction: Part of everyone's rows to train on.
      validation_fraction: Part to measure on; the rest is for testing.
      seed: Seed of generated data, and of the split.
      num_workers: Generator, writers: participants.
      num_rows: Generator: rows of all participants together.
      data_dir: Folder of hospitals or writers; None for its usual place.
      data_file: Table: its file.
      client_column: Table: column that says whose row it is.
      label_column: Table: column of the class.
      feature_columns: Table: columns of the features, separated by commas; None for the others.
      ignore_columns: Table: columns that are left out, separated by commas.
      category_columns: Table: features that are categories, whatever they hold.
      missing_values: Table: texts that are missing values besides the usual ones.
      positive_labels: Table, writers: labels that count as 1, separated by commas; None for the usual ones.
    """

    task_type: str
    train_fraction: float
    validation_fraction: float
    seed: int = 0
    num_workers: int = 4
    num_rows: int = 40_000
    data_dir: str | None = None
    data_file: str = ""
    client_column: str = ""
    label_column: str = ""
    feature_columns: str | None = None
    ignore_columns: str | None = None
    category_columns: str | None = None
    missing_values: str | None = None
    positive_labels: str | None = None


class Silo(NamedTuple):
    """One participant's rows: features float32 or uint8 [rows, ...], labels int32 [rows] in {0, 1}."""

    train: clients.Examples
    validation: clients.Examples
    test: clients.Examples


@dataclasses.dataclass(frozen=True)
class Silos:
    """All participants.

    Attributes:
      names: Of the participants.
      silos: Their rows, in the order of the names.
      checksum: Digest of the source.
      report: What was read, in JSON's types.
      statistics: Nothing: none are learned before the rounds.
      normalise: Features as they are kept -> float32 [rows, features].
    """

    names: tuple[str, ...]
    silos: tuple[Silo, ...]
    checksum: str
    report: Mapping[str, Any]
    statistics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    normalise: Callable[[Any], np.ndarray] = lambda features: features


def load(options: SiloOptions) -> Silos:
    """Opens the participants' data.

    Raises:
      UsageError: If it is not there, or not what it has to be.
    """
    how = Fractions(options.train_fraction, options.validation_fraction), options.seed
    positive = [name.strip() for name in options.positive_labels.split(",")] if options.positive_labels else None
    if options.task_type == "generator":
        return generated(options.num_workers, options.num_rows, *how)
    if options.task_type == "heart_disease":
        return heart_disease(options.data_dir, *how)
    if options.task_type == "tabular":
        return table(options.data_file, schema.of_options(options), positive, *how)
    return writers(options.data_dir, options.task_type, options.num_workers, positive, *how)


def generated(num_participants: int, num_rows: int, fractions: Fractions, seed: int) -> Silos:
    """Returns participants of which the second and the third, and only they, share one concept.

    The best combination for `worker_2` is therefore known: 0110 with four participants. A row's 153 columns, the last
    two ordinal, are noisy mixtures of 4 hidden factors. Its label is drawn from a logistic model of one direction of
    the factors. The other participants' directions have cosines from 0.1 to -0.4 with the shared one. Labels are as
    unbalanced as in Lundahl 2021, Table 1.

    Args:
      num_participants: At least 3.
      num_rows: Rows of all participants together.
      fractions: Training and validation parts.
      seed: Seed of the data and of its split.
    """
    draw = keys.generator(seed, keys.Purpose.SILOS)
    mixing = draw.normal(size=(_GENERATED_FACTORS, _GENERATED_COLUMNS)) / np.sqrt(_GENERATED_FACTORS)
    shared, *others = np.linalg.qr(draw.normal(size=(_GENERATED_FACTORS, _GENERATED_FACTORS)))[0]
    agreements = np.ones(num_participants)
    agreements[[0, *range(3, num_participants)]] = np.linspace(*_GENERATED_OTHERS, num_participants - 2)
    silos = []
    for participant, agreement in enumerate(agreements):
        count = num_rows // num_participants
        direction = agreement * shared + np.sqrt(1 - agreement**2) * others[participant % len(others)]
        factors = draw.normal(size=(count, _GENERATED_FACTORS))
        features = factors @ mixing + _GENERATED_NOISE * draw.normal(size=(count, _GENERATED_COLUMNS))
        ordinal = features[:, -_GENERATED_ORDINAL:]
        features[:, -_GENERATED_ORDINAL:] = np.clip(np.round(ordinal), -2, 2)
        logits = _GENERATED_SLOPE * factors @ direction
        positive = _GENERATED_POSITIVE[2 * participant // num_participants]
        noisy = logits + draw.logistic(size=count)
        labels = (noisy > np.quantile(noisy, 1 - positive)).astype(np.int32)
        silos.append(_split(clients.Examples(features.astype(np.float32), labels), fractions, seed, participant))
    return Silos(
        names=tuple(f"worker_{number}" for number in range(1, num_participants + 1)),
        silos=tuple(silos),
        checksum=clients.array_checksum(*(silo.train.features for silo in silos)),
        report={"rows": count * num_participants},
    )


def heart_disease(data_dir: str | None, fractions: Fractions, seed: int) -> Silos:
    """Returns UCI's four hospitals (303, 294, 123 and 200 patients); label 1 for any degree of disease.

    Raises:
      UsageError: If `heart_disease_4sites.csv` is missing or not readable.
    """
    path = files.find(data_dir, "heart_disease_4sites.csv")
    return table(str(path), schema.Schema("site", "target"), None, fractions, seed)


def table(
    path: str, wanted: schema.Schema, positive_labels: Sequence[str] | None, fractions: Fractions, seed: int
) -> Silos:
    """Opens a table with a participant column, see `tables.read`.

    Rows without a participant or a label are dropped. Everything learned of the columns is learned from training rows.

    Args:
      path: The file.
      wanted: The roles of its columns, a label among them.
      positive_labels: Classes that count as 1; None for all but the first.
      fractions: Training and validation parts.
      seed: Seed of the split.

    Raises:
      UsageError: If the file or a column is missing, or not what it has to be; or if it is the log of a bandit.
    """
    rows = tables.read(path, wanted, seed=seed)
    positive = list(positive_labels) if positive_labels else rows.label_names[1:]
    if unknown := set(positive) - set(rows.label_names):
        raise UsageError(f"--positive_labels: {min(unknown)} is none of the labels {', '.join(rows.label_names)}.")
    labels = rows.frame[wanted.label_column].isin(positive).to_numpy().astype(np.int32)
    parts = [
        [own[part] for part in _parts(labels[own], fractions, seed, participant)]
        for participant in range(len(rows.client_ids))
        for own in [np.flatnonzero(rows.clients == participant)]
    ]
    is_train = np.zeros(len(labels), bool)
    is_train[np.concatenate([train for train, _, _ in parts])] = True
    features = rows.features(is_train)
    if not features.names:
        raise UsageError(f"{path} leaves no feature: --feature_columns must name a column with values.")
    examples = clients.Examples(features.values, labels)
    return Silos(
        names=tuple(rows.client_ids),
        silos=tuple(Silo(*(examples.take(own) for own in triple)) for triple in parts),
        checksum=rows.table.checksum,
        report={**features.report, "positive_labels": positive},
    )


def writers(
    data_dir: str | None,
    source: str,
    num_participants: int,
    positive_labels: Sequence[str] | None,
    fractions: Fractions,
    seed: int,
) -> Silos:
    """Returns groups of consecutive writers, who read characters as one of two kinds.

    Args:
      data_dir: Folder of the archive.
      source: `mnist_writers` or `unipen62`.
      num_participants: Groups, of equally many writers or one more.
      positive_labels: Labels that count as 1; None for odd digits, or lower-case letters.
      fractions: Training and validation parts.
      seed: Seed of the split.

    Raises:
      UsageError: If the file is missing, or has too few writers.
    """
    if source == "mnist_writers":
        populations, positive, num_labels = [handwriting.mnist_writers(data_dir)[0]], list(range(1, 10, 2)), 10
    else:
        populations, positive, num_labels = list(handwriting.unipen62(data_dir)), list(range(36, 62)), 62
    if positive_labels:
        if unknown := [name for name in positive_labels if not (name.isdecimal() and int(name) < num_labels)]:
            raise UsageError(f"--positive_labels: {unknown[0]} is none of the labels 0 to {num_labels - 1}.")
        positive = [int(name) for name in positive_labels]
    count = len(populations[0])
    if num_participants > count:
        raise UsageError(f"--num_workers={num_participants} is more than the {count} writers: give at most that.")
    silos = []
    for participant, members in enumerate(np.array_split(np.arange(count), num_participants)):
        rows = clients.joined([population.load(writer) for population in populations for writer in members])
        labels = np.isin(rows.labels, positive).astype(np.int32)
        silos.append(_split(rows._replace(labels=labels), fractions, seed, participant))
    return Silos(
        names=tuple(f"writers_{number}" for number in range(1, num_participants + 1)),
        silos=tuple(silos),
        checksum=populations[0].checksum,
        report={"writers": count, "positive_labels": [int(label) for label in positive]},
        normalise=lambda pixels: handwriting.normalise(pixels).reshape(len(pixels), -1),
    )


def _parts(labels: np.ndarray, fractions: Fractions, seed: int, participant: int) -> list[np.ndarray]:
    """Returns sorted row numbers of the training, validation and test part, each with its share of either class."""
    draw = keys.generator(seed, keys.Purpose.HELD_OUT, participant)
    ends = np.cumsum(fractions)
    cuts = [
        np.split(draw.permutation(rows), np.round(ends * len(rows)).astype(int))
        for rows in (np.flatnonzero(labels == label) for label in (0, 1))
    ]
    return [np.sort(np.concatenate(part)) for part in zip(*cuts, strict=True)]


def _split(examples: clients.Examples, fractions: Fractions, seed: int, participant: int) -> Silo:
    return Silo(*(examples.take(rows) for rows in _parts(examples.labels, fractions, seed, participant)))
