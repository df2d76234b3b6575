"""Tests of optimization.models."""

import math

import numpy as np
import pytest
import tensorflow as tf

from optimization import models

MODELS = {
    "cnn": (models.cnn(62), (28, 28, 1)),
    "mlp": (models.mlp(64, (64, 32), 10), (64,)),
    "linear": (models.mlp(28 * 28, (), 62), (28, 28, 1)),
}


def _keras(name: str) -> tf.keras.Model:
    layers = tf.keras.layers
    stacks = {
        "cnn": [
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPool2D(),
            layers.Conv2D(64, 5, padding="same", activation="relu"),
            layers.MaxPool2D(),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dense(62),
        ],
        "mlp": [layers.Dense(64, activation="relu"), layers.Dense(32, activation="relu"), layers.Dense(10)],
        "linear": [layers.Flatten(), layers.Dense(62)],
    }
    model = tf.keras.Sequential(stacks[name])
    model.build((None, *MODELS[name][1]))
    return model


def _random_weights(model: models.Model) -> models.Weights:
    """Returns weights with biases that are not zero."""
    draw = np.random.default_rng(1)
    return tuple(weight + draw.normal(0, 0.05, weight.shape).astype(np.float32) for weight in model.initial_weights(0))


def _num_parameters(model: models.Model) -> int:
    return sum(math.prod(shape) for shape in model.shapes.values())


def test_the_cnn_has_the_studys_layers():
    assert models.cnn(62).shapes == {
        "conv_0/kernel": (5, 5, 1, 32),
        "conv_0/bias": (32,),
        "conv_1/kernel": (5, 5, 32, 64),
        "conv_1/bias": (64,),
        "dense_0/kernel": (3136, 512),
        "dense_0/bias": (512,),
        "dense_1/kernel": (512, 62),
        "dense_1/bias": (62,),
    }


@pytest.mark.parametrize(("num_outputs", "parameters"), [(62, 1_690_046), (10, 1_663_370)])
def test_the_cnn_has_the_published_number_of_parameters(num_outputs, parameters):
    # 832 + 51,264 + 1,606,144 + 513 an output; 1,663,370 is McMahan et al.'s own count.
    assert _num_parameters(models.cnn(num_outputs)) == parameters


def test_an_mlp_has_a_kernel_and_a_bias_a_layer():
    assert models.mlp(5, (4, 3), 2).shapes == {
        "dense_0/kernel": (5, 4),
        "dense_0/bias": (4,),
        "dense_1/kernel": (4, 3),
        "dense_1/bias": (3,),
        "dense_2/kernel": (3, 2),
        "dense_2/bias": (2,),
    }


def test_the_linear_model_is_one_layer_with_bias():
    assert models.mlp(5, (), 2).shapes == {"dense_0/kernel": (5, 2), "dense_0/bias": (2,)}


def test_an_mlp_computes_what_is_worked_out_by_hand():
    weights = [
        tf.constant([[1.0, -1.0], [2.0, 0.0]]),
        tf.constant([0.5, 0.5]),
        tf.constant([[2.0], [7.0]]),
        tf.constant([-1.0]),
    ]
    # (1, 3) -> (7.5, -0.5) -> ReLU (7.5, 0) -> 14; (-2, 0) -> (-1.5, 2.5) -> ReLU (0, 2.5) -> 16.5.
    outputs = models.mlp(2, (2,), 1).forward(weights, tf.constant([[1.0, 3.0], [-2.0, 0.0]]))
    np.testing.assert_array_equal(outputs, [[14.0], [16.5]])


@pytest.mark.parametrize("name", MODELS)
def test_forward_equals_keras_layers_with_the_same_weights(name):
    model, feature_shape = MODELS[name]
    weights = _random_weights(model)
    keras = _keras(name)
    keras.set_weights(weights)
    features = np.random.default_rng(2).uniform(size=(4, *feature_shape)).astype(np.float32)
    np.testing.assert_allclose(model.forward(weights, tf.constant(features)), keras(features), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["cnn", "mlp", "linear"])
def test_a_batch_without_examples_has_no_outputs(name):
    model, feature_shape = MODELS[name]
    outputs = model.forward(model.initial_weights(0), tf.zeros((0, *feature_shape)))
    assert outputs.shape == (0, 10 if name == "mlp" else 62)


@pytest.mark.parametrize("name", MODELS)
def test_an_example_is_computed_alike_alone_and_in_a_batch(name):
    model, feature_shape = MODELS[name]
    weights = _random_weights(model)
    features = np.random.default_rng(2).uniform(size=(3, *feature_shape)).astype(np.float32)
    batch = model.forward(weights, tf.constant(features))
    alone = model.forward(weights, tf.constant(features[1:2]))
    np.testing.assert_allclose(batch[1:2], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_initial_weights_have_the_models_shapes_in_float32(name):
    model = MODELS[name][0]
    weights = model.initial_weights(0)
    assert [weight.shape for weight in weights] == list(model.shapes.values())
    assert {weight.dtype for weight in weights} == {np.dtype(np.float32)}


def test_initial_weights_are_a_function_of_the_seed():
    model = models.mlp(64, (64,), 10)
    first, again, other = (model.initial_weights(seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first[0], again[0])
    assert (first[0] != other[0]).all()


def test_initial_biases_are_zero():
    for name, weight in zip(models.cnn(62).shapes, models.cnn(62).initial_weights(0), strict=True):
        if name.endswith("bias"):
            assert not weight.any()


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("conv_0/kernel", math.sqrt(6 / (25 * 1 + 25 * 32))),
        ("conv_1/kernel", math.sqrt(6 / (25 * 32 + 25 * 64))),
        ("dense_0/kernel", math.sqrt(6 / (3136 + 512))),
        ("dense_1/kernel", math.sqrt(6 / (512 + 62))),
    ],
)
def test_initial_kernels_fill_glorots_interval(name, limit):
    model = models.cnn(62)
    kernel = dict(zip(model.shapes, model.initial_weights(0), strict=True))[name]
    assert 0.98 * limit < np.abs(kernel).max() <= limit
    # The standard error of a uniform draw's mean is limit / sqrt(3 n).
    assert abs(kernel.mean()) < 5 * limit / math.sqrt(3 * kernel.size)


@pytest.mark.parametrize(
    ("model", "flops"),
    [
        (models.mlp(64, (64,), 10), 2 * (4096 + 640)),
        (models.mlp(784, (), 62), 2 * 48_608),
        # Multiply-adds: 784 x 25 x 32, 196 x 800 x 64, 3,136 x 512, 512 x 62.
        (models.cnn(62), 2 * (627_200 + 10_035_200 + 1_605_632 + 31_744)),
    ],
    ids=["mlp", "linear", "cnn"],
)
def test_flops_are_those_of_the_matrix_products_and_convolutions(model, flops):
    assert model.flops == flops
