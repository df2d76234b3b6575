import numpy as np
import pytest
import tensorflow as tf

from data.errors import UsageError
from optimization import keras_models

K = tf.keras


def _model(*layers, shape=(4, 4, 1)) -> tf.keras.Model:
    return K.Sequential([K.Input(shape), *layers, K.layers.Flatten(), K.layers.Dense(3)])


def test_outputs_and_gradients_are_keras_own():
    hidden = K.Sequential([K.layers.Dense(5, activation="tanh"), K.layers.LayerNormalization()])
    model = _model(K.layers.Conv2D(2, 3, activation="relu"), hidden)
    built = keras_models.Architecture(model).build()
    weights = [variable.value() for variable in model.trainable_weights]
    assert list(built.shapes.values()) == [tuple(weight.shape) for weight in weights]
    features = np.random.default_rng(0).normal(size=(6, 16)).astype(np.float32)
    with tf.GradientTape() as tape:
        expected = model(features.reshape(6, 4, 4, 1))
    gradients = tape.gradient(expected, model.trainable_weights)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        found = tf.function(built.forward)(weights, features)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    for one, other in zip(tape.gradient(found, weights), gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    assert not np.allclose(built.forward([2 * weight for weight in weights], features), expected)
    np.testing.assert_array_equal(model(features.reshape(6, 4, 4, 1)), expected)


def test_an_architecture_has_one_name_whatever_its_layers_are_called():
    first, again = (keras_models.Architecture(_model(K.layers.Dense(5))) for _ in range(2))
    assert [layer.name for layer in first.model.layers] != [layer.name for layer in again.model.layers]
    assert repr(first) == repr(again)
    assert repr(first) != repr(keras_models.Architecture(_model(K.layers.Dense(6))))
    assert repr(first) != repr(keras_models.Architecture(_model(K.layers.Dense(5, activation="relu"))))


class Own(K.layers.Layer):
    pass


@pytest.mark.parametrize(
    "layer",
    [
        K.layers.BatchNormalization(name="bad"),
        K.layers.Dropout(0.5, name="bad"),
        K.layers.Dense(3, dtype="float16", name="bad"),
        K.layers.Dense(3, kernel_regularizer="l2", name="bad"),
        K.layers.Dense(3, trainable=False, name="bad"),
        K.layers.Lambda(tf.identity, name="bad"),
        Own(name="bad"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_other_layers_are_refused_by_name(layer):
    with pytest.raises(UsageError, match="Layer 'bad'"):
        keras_models.Architecture(_model(layer))


def test_inputs_and_outputs_must_fit():
    with pytest.raises(UsageError, match="not a list"):
        keras_models.Architecture([])
    with pytest.raises(UsageError, match="Input"):
        keras_models.Architecture(K.Sequential([K.layers.Dense(3)]))
    architecture = keras_models.Architecture(_model())
    architecture.check((16,), 3)
    for shape, outputs in (((15,), 3), ((16,), 4)):
        with pytest.raises(UsageError, match="maps"):
            architecture.check(shape, outputs)
