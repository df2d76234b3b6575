"""Keras models as pure functions of their weights."""

import contextlib
import hashlib
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from data.errors import UsageError
from optimization import models


class Architecture:
    """A Keras model of stateless float32 layers, whose weights are not used. The `repr` identifies the architecture.

    Attributes:
      model: The Keras model as it was given, with its own weights.
    """

    def __init__(self, model: Any):
        """Checks the layers.

        Raises:
          UsageError: If `model` is not a built Keras model with one input and one output, has an unsupported layer, or
            has weights outside its layers.
        """
        if not isinstance(model, tf.keras.Model):
            raise UsageError(f"model must be a name or a Keras model, not a {type(model).__name__}.")
        if not model.built or len(getattr(model, "inputs", None) or []) != 1 or len(model.outputs) != 1:
            raise UsageError(f"Keras model {model.name!r} must begin with an Input, and have one input and one output.")
        self.model = model
        self._layers = list(_layers(model))
        for layer in self._layers:
            if problem := _problem(layer):
                raise UsageError(f"Layer {layer.name!r} ({type(layer).__name__}) of the Keras model {problem}.")
        if len({id(one) for *_, one in self._weights()}) < len(model.trainable_weights):
            raise UsageError(f"Keras model {model.name!r} has weights outside its layers.")

    def __repr__(self) -> str:
        text = self.model.to_json()
        models_and_layers = (self.model, *self._layers)
        names = [name for one in models_and_layers for name in (one.name, *getattr(one, "input_names", ()))]
        for place, name in enumerate(dict.fromkeys(names)):
            text = text.replace(f'"{name}"', f'"layer_{place}"')  # Keras' layer numbers depend on the process.
        return f"keras:{type(self.model).__name__} {hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def check(self, shape: Sequence[int], num_outputs: int) -> None:
        """Checks that the model fits contexts of this shape and this number of actions.

        Contexts of the right size but another shape are reshaped.

        Raises:
          UsageError: If the model's inputs or outputs do not fit the task.
        """
        inputs, outputs = self.model.input_shape[1:], self.model.output_shape[1:]
        if None in inputs or math.prod(inputs) != math.prod(shape) or outputs != (num_outputs,):
            raise UsageError(
                f"The Keras model maps {inputs} to {outputs}, but this task has contexts {tuple(shape)} and "
                f"{num_outputs} actions: it must map to ({num_outputs},), with no activation if the loss is squared."
            )

    def build(self) -> models.Model:
        """Builds the model as a function of its weights."""
        # Names contain the layer's place, since Keras' layer numbers depend on the process. A `scale` starts at 1.
        names = [f"layer_{place}/{'scale' if name == 'gamma' else name}" for place, name, _ in self._weights()]
        shapes = {name: tuple(one.shape) for name, (*_, one) in zip(names, self._weights(), strict=True)}

        def forward(weights: Sequence[tf.Tensor], features: tf.Tensor) -> tf.Tensor:
            with self._with(weights):
                return self.model(tf.reshape(features, [-1, *self.model.input_shape[1:]]), training=False)

        return models.Model(shapes, forward)

    def _weights(self) -> list[tuple[int, str, Any]]:
        """For each weight: the place of its layer, the name of its attribute, and its variable."""
        trained = set(map(id, self.model.trainable_weights))
        return [
            (place, name, value)
            for place, layer in enumerate(self._layers)
            for name, value in vars(layer).items()
            if id(value) in trained
        ]

    @contextlib.contextmanager
    def _with(self, weights: Sequence[tf.Tensor]) -> Iterator[None]:
        """Replaces the layers' variables with tensors, without Keras' setter, which would track them."""
        places = self._weights()
        try:
            for (place, name, _), weight in zip(places, weights, strict=True):
                vars(self._layers[place])[name] = tf.convert_to_tensor(weight)
            yield
        finally:
            for place, name, variable in places:
                vars(self._layers[place])[name] = variable


def read(path: pathlib.Path) -> Architecture:
    """Reads an architecture from the JSON of a Keras model.

    Raises:
      UsageError: If the file cannot be read, or describes no model that `Architecture` accepts.
    """
    try:
        return Architecture(tf.keras.models.model_from_json(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"The Keras model of the run cannot be rebuilt from {path}: {reason}") from error


def _layers(model: Any) -> Iterator[Any]:
    """Yields the layers of a model and of its nested models."""
    for layer in model.layers:
        yield layer
        if isinstance(layer, tf.keras.Model):
            yield from _layers(layer)


def _problem(layer: Any) -> str:
    """Reason why a layer is refused; empty if it is accepted."""
    if type(layer).__module__.partition(".")[0] != "keras" or isinstance(layer, tf.keras.layers.Lambda):
        return "is not one of Keras' own layers, and its source would not be recorded"
    if layer.dtype_policy.name != "float32":
        return f"is {layer.dtype_policy.name}, not float32"
    if layer.non_trainable_weights or layer.stateful or hasattr(layer, "_random_generator"):
        return "has state, such as a count, a moving average, frozen weights or random numbers: leave it out"
    if layer.losses:
        return "has a regularizer, which clients would ignore in training: leave it out"
    return ""
