"""Export of a run's final model as a TensorFlow SavedModel and for TensorFlow Lite; see `results.Run.export`."""

import contextlib
import functools
import json
import logging
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator

import tensorflow as tf

from bandits import process
from bandits.evaluation import column_graph, predictions
from data import files
from data.errors import UsageError
from optimization.study import results

_SAVED_MODEL, _LITE, _SIGNATURE = "saved_model", "model.tflite", "signature.json"
_SIGNATURES = {"predicted_rewards": "predicted_reward", "probabilities": "probability"}  # With their outputs.
_DISCLOSURE = (
    "Warning: epsilon covers the weights of the exported model, but not the means, categories and words that it takes "
    "from the clients' columns. --public_statistics takes them from elsewhere."
)


def export(run: results.Run, folder: pathlib.Path) -> pathlib.Path:
    """Writes a run's final model to a folder, which it returns; see `results.Run.export`.

    Raises:
      UsageError: If the run has no final model, or its policy or columns cannot be exported.
    """
    predictor = predictions.of_run(run)
    kinds = column_graph.kinds(predictor.known, predictor.task)
    if not kinds:
        raise UsageError(f"{run.folder} has no feature column to export: `predict` gives all rows the same policy.")
    if "key" in predictor.policy().asks:
        raise UsageError(f"{run.folder} cannot be exported: its policy draws random numbers from a key.")
    names = _SAVED_MODEL, _LITE, _SIGNATURE
    if folder.exists() and not (folder / _SIGNATURE).is_file() and (folder.is_file() or any(folder.iterdir())):
        raise UsageError(f"{folder} holds other files than an exported model: choose another folder.")
    with files.write_errors(folder), _quiet():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part") as temporary:
            part = pathlib.Path(temporary)
            _save(predictor, kinds, part / _SAVED_MODEL, tf.float64)
            problem = _convert(predictor, kinds, part)
            signature = {"inputs": kinds, "actions": [str(action) for action in predictor.actions]}
            (part / _SIGNATURE).write_text(json.dumps(signature, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            for name in names:
                shutil.rmtree(folder / name, ignore_errors=True)
                (folder / name).unlink(missing_ok=True)
                if (part / name).exists():
                    os.replace(part / name, folder / name)
    written = [name for name in names if (folder / name).exists()]
    print(f"The exported model is in {folder}: {', '.join(written)}.", file=sys.stderr)
    if problem:
        print(f"There is no {_LITE}: {problem}.", file=sys.stderr)
    is_private = run.privacy.get("mechanism", {}).get("kind", "none") != "none"
    if is_private and not predictor.task.public_statistics:
        print(_DISCLOSURE, file=sys.stderr)
    return folder


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences TensorFlow's warnings of deprecated functions, and of names of columns."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _save(predictor: predictions.Predictor, kinds: column_graph.Kinds, folder: pathlib.Path, dtype: tf.DType) -> None:
    """Writes a SavedModel whose numbers have this dtype; with float32, what TensorFlow Lite takes.

    It is built as a graph, since a `tf.function` renames arguments that contain spaces or signs.
    """
    v1, known, options = tf.compat.v1, predictor.known, predictor.task
    with tf.Graph().as_default(), v1.Session() as session:
        types = {name: dtype if kind["type"] == "number" else tf.string for name, kind in kinds.items()}
        inputs = {name: v1.placeholder(types[name], [None]) for name in kinds}
        contexts = column_graph.features(inputs, known, options, is_lite=dtype == tf.float32)
        # In a function, == of the user's policy compares tensors; in a graph, it would compare Python's objects.
        outputs = tf.function(functools.partial(_outputs, predictor, dtype), autograph=False)(contexts)
        define, builder = v1.saved_model.predict_signature_def, v1.saved_model.Builder(str(folder))
        signatures = {name: define(inputs, {output: outputs[output]}) for name, output in _SIGNATURES.items()}
        builder.add_meta_graph_and_variables(session, ["serve"], signatures, main_op=v1.tables_initializer())
        builder.save()


def _outputs(
    predictor: predictions.Predictor, dtype: tf.DType, contexts: tf.Tensor | dict[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    """Outputs of all signatures, [rows, actions] each: rewards of this dtype, and float32 probabilities."""
    model, weights, loss, no_key = predictor.model, predictor.weights, predictor.loss, tf.zeros([2], tf.int32)
    return {
        "predicted_reward": predictor.rewards(model.forward(weights, contexts), dtype),
        "probability": process.probabilities(predictor.policy(), model, weights, loss, contexts, no_key),
    }


def _convert(predictor: predictions.Predictor, kinds: column_graph.Kinds, folder: pathlib.Path) -> str:
    """Writes the TensorFlow Lite file to a folder; returns why it cannot, else an empty text."""
    if problem := column_graph.why_not_lite(predictor.known, predictor.task):
        return problem
    _save(predictor, kinds, folder / "float32", tf.float32)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder / "float32"), signature_keys=list(_SIGNATURES))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    try:
        content = converter.convert()
    except Exception as error:  # The converter raises many types.
        return f"its converter refuses the model or the policy ({str(error).partition(chr(10))[0]})"
    (folder / _LITE).write_bytes(content)
    return ""
