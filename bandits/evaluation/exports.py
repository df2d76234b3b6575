"""Export of a run's final model as a TensorFlow SavedModel and for TensorFlow Lite; see `results.Run.export`.

TensorFlow operations encode the raw columns as `columns.encode` encodes them in pandas.
"""

import contextlib
import copy
import functools
import json
import logging
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from bandits import process
from bandits.evaluation import predictions
from data import columns, files, schema, statistics, table_file
from data.action_sets import ActionSets
from data.errors import UsageError
from data.tasks.options import TaskOptions
from optimization.study import results

_SAVED_MODEL, _LITE, _SIGNATURE = "saved_model", "model.tflite", "signature.json"
_SIGNATURES = {"predicted_rewards": "predicted_reward", "probabilities": "probability"}  # Signatures and their outputs.
_DISCLOSURE = (
    "Warning: epsilon covers the weights of the exported model, but not the means and categories that were computed on "
    "the clients' columns. --public_statistics takes them from public data."
)
_ACTION = "action: "  # Start of the names of inputs with one column per slot.
OFFERED = f"{_ACTION}is offered"
_SPACES = r"[\t-\r\x1c-\x1f\x{85}\p{Z}]+"  # The characters that Python's `str.strip` removes.
# Above this ratio of mean to standard deviation, float32 is too coarse for a column.
_LARGEST_RATIO = 1000.0
Kinds: TypeAlias = dict[str, dict[str, Any]]


def export(run: results.Run, folder: pathlib.Path) -> pathlib.Path:
    """Writes a run's final model to a folder, and returns the folder; see `results.Run.export`.

    Raises:
      UsageError: If there is no final model, its policy or columns cannot be exported, or the folder has other files.
      Failure: If a file cannot be written.
    """
    predictor = predictions.of_run(run)
    inputs = kinds(predictor.known, predictor.task)
    if not inputs:
        raise UsageError(f"{run.folder} has no feature column to export: its policy is the same for all rows.")
    if "key" in predictor.policy().asks:
        raise UsageError(f"{run.folder} cannot be exported: its policy draws random numbers from a key.")
    names = _SAVED_MODEL, _LITE, _SIGNATURE
    if folder.exists() and not (folder / _SIGNATURE).is_file() and (folder.is_file() or any(folder.iterdir())):
        raise UsageError(f"{folder} holds files other than an exported model: choose another folder.")
    with files.write_errors(folder), _quiet():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part") as temporary:
            part = pathlib.Path(temporary)
            _save(predictor, inputs, part / _SAVED_MODEL, tf.float64)
            problem = _convert(predictor, inputs, part)
            signature = {"inputs": inputs, "actions": [str(action) for action in predictor.actions]}
            (part / _SIGNATURE).write_text(json.dumps(signature, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            for name in names:
                shutil.rmtree(folder / name, ignore_errors=True)
                (folder / name).unlink(missing_ok=True)
                if (part / name).exists():
                    os.replace(part / name, folder / name)
    written = [name for name in names if (folder / name).exists()]
    print(f"The exported model is in {folder}: {', '.join(written)}.", file=sys.stderr)
    if problem:
        print(f"{_LITE} was not written: {problem}.", file=sys.stderr)
    is_private = run.privacy.get("mechanism", {}).get("kind", "none") != "none"
    if is_private and not predictor.task.public_statistics:
        print(_DISCLOSURE, file=sys.stderr)
    return folder


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences TensorFlow's warnings about deprecated functions and column names."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _save(predictor: predictions.Predictor, kinds: Kinds, folder: pathlib.Path, dtype: tf.DType) -> None:
    """Writes a SavedModel whose numeric inputs have this dtype; TensorFlow Lite needs float32.

    The model is built as a graph, because a `tf.function` renames arguments that contain spaces or special characters.
    """
    v1, known, options = tf.compat.v1, predictor.known, predictor.task
    with tf.Graph().as_default(), v1.Session() as session:
        types = {"number": dtype, "category": tf.string, "offered": tf.bool}
        axes = {name: [None] * (1 + name.startswith(_ACTION)) for name in kinds}
        inputs = {name: v1.placeholder(types[kind["type"]], axes[name]) for name, kind in kinds.items()}
        contexts = features(inputs, known, options, is_lite=dtype == tf.float32)
        # In a tf.function, == in the user's policy compares tensors; in a graph, it would compare Python objects.
        outputs = tf.function(functools.partial(_outputs, predictor, dtype), autograph=False)(contexts)
        define, builder = v1.saved_model.predict_signature_def, v1.saved_model.Builder(str(folder))
        signatures = {name: define(inputs, {output: outputs[output]}) for name, output in _SIGNATURES.items()}
        builder.add_meta_graph_and_variables(session, ["serve"], signatures, main_op=v1.tables_initializer())
        builder.save()


def _outputs(predictor: predictions.Predictor, dtype: tf.DType, contexts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Outputs of all signatures, [rows, actions] each: rewards of this dtype, and float32 probabilities."""
    policy = copy.copy(predictor.policy())
    object.__setattr__(policy, "is_checked", False)  # TensorFlow Lite has no assertions.
    model, weights, loss, no_key = predictor.model, predictor.weights, predictor.loss, tf.zeros([2], tf.int32)
    return {
        "predicted_reward": predictor.rewards(model.forward(weights, contexts), dtype),
        "probability": process.probabilities(policy, model, weights, loss, contexts, no_key, predictor.state)[0],
    }


def _convert(predictor: predictions.Predictor, kinds: Kinds, folder: pathlib.Path) -> str:
    """Writes the TensorFlow Lite file to a folder; returns why that is impossible, or an empty string."""
    if problem := why_not_lite(predictor.known):
        return problem
    _save(predictor, kinds, folder / "float32", tf.float32)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder / "float32"), signature_keys=list(_SIGNATURES))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    try:
        content = converter.convert()
    except Exception as error:  # The converter raises many types.
        return f"the converter refuses the model or the policy ({str(error).partition(chr(10))[0]})"
    (folder / _LITE).write_bytes(content)
    return ""


def kinds(known: statistics.OfTable, options: TaskOptions) -> Kinds:
    """Type of each input (`number`, `category`, `offered`), and the categories.

    Raises:
      UsageError: If a column has dates or texts.
    """
    described: Kinds = {OFFERED: {"type": "offered"}} if options.has_sets else {}
    every = {**known.columns, **{f"{_ACTION}{name}": column for name, column in known.actions.items()}}
    dates = [name for name, column in every.items() if isinstance(column, statistics.Dates)]
    if unreadable := [*dates, *schema.listed(options.text_columns)]:
        raise UsageError(
            f"Column {unreadable[0]!r} has {'dates' if dates else 'texts'}, which an exported model cannot read: train "
            "without it (--ignore_columns), or convert it to numbers or categories."
        )
    for name, column in every.items():
        if isinstance(column, statistics.Categories):
            described[name] = {"type": "category", "categories": column.categories}
        elif column is not None:
            described[name] = {"type": "number"}
    return described


def why_not_lite(known: statistics.OfTable) -> str:
    """Reason why TensorFlow Lite cannot encode these columns; empty if it can."""
    for name, column in (*known.columns.items(), *known.actions.items()):
        if isinstance(column, statistics.Numbers) and abs(column.mean) > _LARGEST_RATIO * column.deviation > 0:
            return f"the numbers of column {name!r} differ too little from each other for float32: subtract a constant"
    return ""


def features(
    inputs: Mapping[str, tf.Tensor], known: statistics.OfTable, options: TaskOptions, *, is_lite: bool
) -> tf.Tensor | ActionSets:
    """Features in the form that the model expects: float32 [rows, features], or sets of actions.

    Args:
      inputs: The columns of `kinds`, [rows] each. Numbers have one dtype, and are NaN if missing; categories are text,
        and empty if missing. Columns of actions are [rows, slots], and so is `OFFERED`, bool.
      known: Statistics of the columns.
      options: The run's options.
      is_lite: Whether to use only operations of TensorFlow Lite. Spaces around text then stay.
    """
    words = schema.listed(options.missing_values)

    def encoded(known: columns.Learned, prefix: str, count: tf.Tensor) -> tf.Tensor:
        blocks = []
        for name, column in known.items():
            if isinstance(column, statistics.Numbers):
                blocks.append(_numbers(tf.reshape(inputs[prefix + name], [-1]), column, words))
            elif isinstance(column, statistics.Categories):
                written = tf.reshape(inputs[prefix + name], [-1])
                blocks.append(_categories(written if is_lite else _stripped(written), column.categories, words))
        return tf.concat(blocks, axis=1) if blocks else tf.zeros([count, 0])

    count = tf.shape(next(iter(inputs.values())))[0]
    contexts = encoded(known.columns, "", count)
    if not options.has_sets:
        return contexts
    offered = inputs[OFFERED]
    actions = tf.reshape(encoded(known.actions, _ACTION, tf.size(offered)), [*tf.unstack(tf.shape(offered)), -1])
    actions *= tf.expand_dims(tf.cast(offered, tf.float32), 2)
    return ActionSets(contexts, tf.where(offered, 0, -1), actions)


def _stripped(written: tf.Tensor) -> tf.Tensor:
    return tf.strings.regex_replace(written, f"^{_SPACES}|{_SPACES}$", "")


def _numbers(values: tf.Tensor, known: statistics.Numbers, words: Sequence[str]) -> tf.Tensor:
    # No negation below: the converter to TensorFlow Lite turns not (x <= y) into x > y, which is wrong for NaN.
    is_present = tf.math.is_finite(values)
    for word in words:
        try:
            is_present &= tf.not_equal(values, float(word))  # In a graph, != compares objects.
        except ValueError:  # The word is not a number.
            continue
    standard = tf.zeros_like(values)
    if known.deviation:
        largest = float(np.finfo(np.float32).max)
        standard = (values / 2 - known.mean / 2) / (known.deviation / 2)
        standard = tf.clip_by_value(standard, -largest, largest)
    encoded = [tf.cast(tf.where(is_present, standard, tf.zeros_like(values)), tf.float32)]
    if known.has_missing:
        encoded.append(1 - tf.cast(is_present, tf.float32))
    return tf.stack(encoded, axis=1)


def _is_missing(written: tf.Tensor, words: Sequence[str]) -> tf.Tensor:
    """Whether each value is missing, bool [rows, 1]."""
    return tf.reduce_any(tf.equal(written[:, tf.newaxis], [[*table_file.MISSING, *words]]), axis=1, keepdims=True)


def _categories(written: tf.Tensor, categories: Sequence[str], words: Sequence[str]) -> tf.Tensor:
    of_missing = tf.constant([[float(category == columns.MISSING_CATEGORY) for category in categories]])
    chosen = tf.cast(tf.equal(written[:, tf.newaxis], [list(categories)]), tf.float32)
    is_missing = tf.cast(_is_missing(written, words), tf.float32)
    return is_missing * of_missing + (1 - is_missing) * chosen
