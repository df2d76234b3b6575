"""Silos: a few participants, each with separate rows of one binary classification problem (cross-silo learning).

Each participant's rows are split into training, validation and test rows, at random within each class.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from data import clients, files, keys, schema, table_report, tables
from data.errors import UsageError

GENERATED_TARGET = "worker_2"
HOSPITALS = "heart_disease_4sites.csv"  # UCI: 303, 294, 123 and 200 patients.
_GENERATED_FACTORS = 4
_GENERATED_COLUMNS = 153
_GENERATED_ORDINAL = 2
_GENERATED_NOISE = 3.0
_GENERATED_SLOPE = 3.0
_GENERATED_AGREEMENTS = (0.1, -0.4)  # Agreement of the other participants' concepts with the target's, first to last.
_GENERATED_POSITIVE = (0.45, 0.3)  # Fractions of label 1 in the first and second half of the participants.


@dataclasses.dataclass(frozen=True)
class SiloOptions(schema.Schema):
    """Options that determine the participants and their data. Each task uses some of them.

    The inherited options are the roles of a table's columns, see `Schema`.

    Attributes:
      task_type: `generator`, `heart_disease` or `tabular`.
      train_fraction: Fraction of each participant's rows for training.
      validation_fraction: Fraction for validation; the rest is for testing.
      seed: Seed of generated data, and of the split.
      num_workers: Generator: number of participants.
      num_rows: Generator: rows of all participants together.
      data_dir: Folder of the file `HOSPITALS`; None for FEDBANDITS_DATA_DIR.
      positive_labels: Table: labels that count as 1, separated by commas; None for all but the first.
    """

    task_type: str
    train_fraction: float
    validation_fraction: float
    seed: int = 0
    num_workers: int = 4
    num_rows: int = 40_000
    data_dir: str | None = None
    positive_labels: str | None = None


class Silo(NamedTuple):
    """A participant's `train`, `validation` and `test` rows: float32 [rows, features], and int32 [rows], 0 or 1."""

    train: clients.Examples
    validation: clients.Examples
    test: clients.Examples


@dataclasses.dataclass(frozen=True)
class Silos:
    """All participants.

    Attributes:
      names: Names of the participants.
      silos: Rows of each participant, in the order of the names.
      checksum: Digest of the source.
      report: Report on the data, such as the number of rows, in JSON types.
      statistics: Empty: no statistics are learned before the rounds.
    """

    names: tuple[str, ...]
    silos: tuple[Silo, ...]
    checksum: str
    report: Mapping[str, Any]
    statistics: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def load(options: SiloOptions) -> Silos:
    """Opens the participants' data.

    Raises:
      UsageError: If the data is missing or invalid.
    """
    if options.task_type == "generator":
        return _generated(options)
    if options.task_type == "heart_disease":
        path = str(files.find(options.data_dir, HOSPITALS))
        return _table(path, dataclasses.replace(options, client_column="site", label_column="target"))
    return _table(options.data_file, options)


def _generated(options: SiloOptions) -> Silos:
    """At least 3 participants, of which only the second and the third share a concept.

    The best combination for `worker_2` is therefore known: workers 2 and 3 together. A row's 153 columns, the last
    two ordinal, are noisy mixtures of 4 hidden factors. Its label follows a logistic model of one direction of the
    factors, with a threshold that makes labels as unbalanced as in Lundahl 2021, Table 1. The other participants'
    directions have cosines from 0.1 to -0.4 with the shared one.
    """
    num_participants, count = options.num_workers, options.num_rows // options.num_workers
    draw = keys.generator(options.seed, keys.Purpose.SILOS)
    mixing = draw.normal(size=(_GENERATED_FACTORS, _GENERATED_COLUMNS)) / np.sqrt(_GENERATED_FACTORS)
    shared, *other_concepts = np.linalg.qr(draw.normal(size=(_GENERATED_FACTORS, _GENERATED_FACTORS)))[0]
    agreements = np.ones(num_participants)
    agreements[[0, *range(3, num_participants)]] = np.linspace(*_GENERATED_AGREEMENTS, num_participants - 2)
    silos = []
    for participant, agreement in enumerate(agreements):
        direction = agreement * shared + np.sqrt(1 - agreement**2) * other_concepts[participant % len(other_concepts)]
        factors = draw.normal(size=(count, _GENERATED_FACTORS))
        features = factors @ mixing + _GENERATED_NOISE * draw.normal(size=(count, _GENERATED_COLUMNS))
        ordinal = features[:, -_GENERATED_ORDINAL:]
        features[:, -_GENERATED_ORDINAL:] = np.clip(np.round(ordinal), -2, 2)
        logits = _GENERATED_SLOPE * factors @ direction
        positive = _GENERATED_POSITIVE[2 * participant // num_participants]
        noisy = logits + draw.logistic(size=count)
        labels = (noisy > np.quantile(noisy, 1 - positive)).astype(np.int32)
        examples = clients.Examples(features.astype(np.float32), labels)
        silos.append(Silo(*map(examples.take, _parts(labels, options, participant))))
    return Silos(
        names=tuple(f"worker_{number}" for number in range(1, num_participants + 1)),
        silos=tuple(silos),
        checksum=clients.array_checksum(*(silo.train.features for silo in silos)),
        report={"rows": count * num_participants},
    )


def _table(path: str, options: SiloOptions) -> Silos:
    """Participants of a table with a label, see `tables.read`: by default, all labels but the first count as 1.

    Rows without a participant or a label are dropped. Column statistics are learned from training rows only.
    """
    rows = tables.read(path, options, seed=options.seed)
    positive = schema.listed(options.positive_labels) or rows.label_names[1:]
    if unknown := set(positive) - set(rows.label_names):
        every = ", ".join(rows.label_names)
        raise UsageError(f"--positive_labels: {min(unknown)} is not one of the labels {every}.")
    labels = rows.frame[options.label_column].isin(positive).to_numpy().astype(np.int32)
    parts = [
        [member_rows[part] for part in _parts(labels[member_rows], options, participant)]
        for participant in range(len(rows.client_ids))
        for member_rows in [np.flatnonzero(rows.clients == participant)]
    ]
    features = rows.features(np.isin(np.arange(len(labels)), np.concatenate([train for train, _, _ in parts])))
    if not features.names:
        raise UsageError(f"No feature of {path} is left: --feature_columns must name a column with values.")
    examples = clients.Examples(features.values, labels)
    return Silos(
        names=tuple(rows.client_ids),
        silos=tuple(Silo(*map(examples.take, triple)) for triple in parts),
        checksum=rows.table.checksum,
        report={**table_report.of(rows, features), "positive_labels": positive},
    )


def _parts(labels: np.ndarray, options: SiloOptions, participant: int) -> list[np.ndarray]:
    """Sorted row numbers of the training, validation and test parts, stratified by class."""
    draw = keys.generator(options.seed, keys.Purpose.HELD_OUT, participant)
    boundaries = np.cumsum([options.train_fraction, options.validation_fraction])
    cuts = [
        np.split(draw.permutation(rows), np.round(boundaries * len(rows)).astype(int))
        for rows in (np.flatnonzero(labels == label) for label in (0, 1))
    ]
    return [np.sort(np.concatenate(part)) for part in zip(*cuts, strict=True)]
