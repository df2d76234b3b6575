import dataclasses
import math

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from data import text
from optimization import models

K = tf.keras.layers
MODELS = {
    "cnn": (models.cnn(62), (28, 28, 1)),
    "mlp": (models.mlp(64, (64, 32), 10), (64,)),
    "linear": (models.mlp(28 * 28, (), 62), (28, 28, 1)),
    "linear_l2": (models.linear_l2(28 * 28, 62), (28, 28, 1)),
    "cnn_small": (models.cnn_small(62), (28, 28, 1)),
    "cnn_dropout": (models.cnn_dropout(62), (28, 28, 1)),
}
# Outputs of an example depend on its batch with "batch".
RESNETS = {
    "group": (models.resnet18((32, 32, 3), 100), (32, 32, 3)),
    "large": (models.resnet18((70, 40, 1), 6), (70, 40, 1)),
}


def _conv(width: int, size: int = 5, padding: str = "same") -> tf.keras.layers.Layer:
    return K.Conv2D(width, size, padding=padding, activation="relu")


def _keras(name: str) -> tf.keras.Model:
    valid = [_conv(32, 3, "valid"), _conv(64, 3, "valid")]
    stacks = {
        "cnn": [_conv(32), K.MaxPool2D(), _conv(64), K.MaxPool2D(), K.Flatten(), K.Dense(512, "relu"), K.Dense(62)],
        "mlp": [K.Dense(64, "relu"), K.Dense(32, "relu"), K.Dense(10)],
        "linear": [K.Flatten(), K.Dense(62)],
        "linear_l2": [K.Flatten(), K.UnitNormalization(), K.Dense(62)],
        "cnn_small": [_conv(16), K.MaxPool2D(), _conv(32), K.MaxPool2D(), K.Flatten(), K.Dense(62)],
        "cnn_dropout": [*valid, K.MaxPool2D(), K.Flatten(), K.Dense(128, "relu"), K.Dense(62)],
    }
    model = tf.keras.Sequential(stacks[name])
    model.build((None, *MODELS[name][1]))
    return model


def _random_weights(model: models.Model) -> models.Weights:
    """Weights with biases that are not zero."""
    draw = np.random.default_rng(1)
    return tuple(weight + draw.normal(0, 0.05, weight.shape).astype(np.float32) for weight in model.initial_weights(0))


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        # 832 + 51,264 + 1,606,144 + 513 an output; 1,663,370 is McMahan et al.'s own count.
        (models.cnn(62), 1_690_046),
        (models.cnn(10), 1_663_370),
        (models.cnn_dropout(62), 1_206_590),  # Reddi et al. 2021, Table 4.
        (models.resnet18((224, 224, 3), 1000, "group"), 11_689_512),  # torchvision's.
        (models.resnet18((224, 224, 3), 1000, "batch"), 11_689_512),
    ],
)
def test_models_have_the_published_number_of_parameters(model, parameters):
    assert sum(math.prod(shape) for shape in model.shapes.values()) == parameters


@pytest.mark.parametrize("name", MODELS)
def test_forward_equals_keras_layers_with_the_same_weights(name):
    model, feature_shape = MODELS[name]
    weights = _random_weights(model)
    keras = _keras(name)
    keras.set_weights(weights)
    features = np.random.default_rng(2).uniform(size=(4, *feature_shape)).astype(np.float32)
    np.testing.assert_allclose(model.forward(weights, tf.constant(features)), keras(features), rtol=1e-5, atol=1e-5)
    assert model.forward(weights, tf.constant(features[:0])).shape == (0, weights[-1].size)


def _keras_resnet(norm: str, shape: tuple[int, ...], num_outputs: int) -> tuple[tf.keras.Model, list[tf.Variable]]:
    """ResNet-18 of Keras' own layers, and its weights in the order of `models.resnet18`."""
    used = []

    def convolve(values, width, size, stride):
        values = K.ZeroPadding2D(size // 2)(values)
        convolution = K.Conv2D(width, size, stride, use_bias=False)
        by_batch = norm == "batch"
        normal = K.BatchNormalization(epsilon=1e-5) if by_batch else K.GroupNormalization(2, epsilon=1e-5)
        used.extend([convolution, normal])
        return normal(convolution(values))

    inputs = K.Input(shape)
    values = K.ReLU()(convolve(inputs, 64, 7, 2))
    values = K.MaxPool2D(3, 2)(K.ZeroPadding2D(1)(values))
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            inner = convolve(K.ReLU()(convolve(values, width, 3, stride)), width, 3, 1)
            shortcut = convolve(values, width, 1, stride) if stride > 1 else values
            values = K.ReLU()(K.Add()([inner, shortcut]))
    used.append(K.Dense(num_outputs))
    model = tf.keras.Model(inputs, used[-1](K.GlobalAveragePooling2D()(values)))
    return model, [variable for layer in used for variable in layer.trainable_variables]


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "shape"), [("group", (32, 32, 3)), ("batch", (70, 40, 1))])
def test_resnet18_and_its_gradient_equal_keras_layers_with_the_same_weights(norm, shape):
    model = models.resnet18(shape, 5, norm)
    weights = [tf.Variable(weight) for weight in _random_weights(model)]
    keras, variables = _keras_resnet(norm, shape, 5)
    for variable, weight in zip(variables, weights, strict=True):
        variable.assign(weight)
    features = tf.constant(np.random.default_rng(2).normal(size=(6, *shape)).astype(np.float32))
    with tf.GradientTape(persistent=True) as tape:
        found, expected = model.forward(weights, features), keras(features, training=True)
        sums = tf.reduce_sum(found**2), tf.reduce_sum(expected**2)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    gradients = (tape.gradient(sums[0], weights), tape.gradient(sums[1], variables))
    for one, other in zip(*gradients, strict=True):
        assert tf.norm(one - other) <= 1e-3 * tf.norm(other) + 1e-5


@pytest.mark.slow
def test_dropout_drops_in_training_only_and_keeps_the_mean():
    model = models.cnn_dropout(3)
    weights = [np.abs(weight) for weight in model.initial_weights(0)]  # Without ReLU's kinks outputs are linear.
    features = tf.constant(np.random.default_rng(2).uniform(size=(1, 28, 28, 1)).astype(np.float32))
    first, again, other = (model.training(weights, features, tf.constant([3, key])) for key in (4, 4, 5))
    np.testing.assert_array_equal(first, again)
    assert (first != other).numpy().all()
    outputs = np.array([model.training(weights, features, tf.constant([7, key]))[0] for key in range(200)])
    errors = outputs.std(axis=0) / np.sqrt(200)
    assert (np.abs(outputs.mean(axis=0) - model.forward(weights, features)[0]) < 4 * errors).all()


@pytest.mark.parametrize("heads", [1, 2])
def test_initial_kernels_fill_glorots_interval_and_are_a_function_of_the_seed(heads):
    model = dataclasses.replace(models.cnn(62 * heads), heads=heads)
    weights, again, other = (model.initial_weights(seed) for seed in (0, 0, 1))
    assert [(weight.shape, weight.dtype) for weight in weights] == [
        (shape, np.float32) for shape in model.shapes.values()
    ]
    ends = [25 * 1 + 25 * 32, 25 * 32 + 25 * 64, 3136 + 512, 512 + 62]  # A head is a last layer of its own.
    for place, sum_of_ends in enumerate(ends):
        kernel, limit = weights[2 * place], math.sqrt(6 / sum_of_ends)
        assert 0.98 * limit < np.abs(kernel).max() <= limit
        # The standard error of a uniform draw's mean is limit / sqrt(3 n).
        assert abs(kernel.mean()) < 5 * limit / math.sqrt(3 * kernel.size)
        np.testing.assert_array_equal(kernel, again[2 * place])
        assert (kernel != other[2 * place]).all()
        assert not weights[2 * place + 1].any()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MODELS, *RESNETS, "posts"])
def test_the_last_layer_makes_outputs_of_the_bodys_and_a_head_the_outputs_of_its_own(name):
    model, shape = (MODELS | RESNETS | {"posts": (models.bag_of_words(6, 10), ())})[name]
    weights = _random_weights(model)
    features = tf.constant(np.random.default_rng(2).uniform(size=(3, *shape)).astype(np.float32))
    if name == "posts":
        features = {"ids": tf.constant([[1, 5, 1], [2, 0, 0]]), "values": tf.constant([[0.5, 0.25, 2], [1, 0, 0]])}
    outputs = model.forward(weights, features).numpy()
    np.testing.assert_allclose(model.body(weights, features) @ weights[-2] + weights[-1], outputs, rtol=1e-5, atol=1e-5)
    ensemble = models.with_heads(model, 2)
    by_head = outputs.reshape(len(outputs), 2, -1)
    np.testing.assert_array_equal(ensemble.forward(weights, features), by_head)
    widened = {name: (*shape[:-1], 2 * shape[-1]) for name, shape in list(model.shapes.items())[-2:]}
    copies = models.with_heads(dataclasses.replace(model, shapes=model.shapes | widened), 2)
    same = copies.forward(models.with_copies(weights, 2), features)
    np.testing.assert_allclose(same, np.repeat(outputs[:, np.newaxis], 2, axis=1), rtol=1e-5, atol=1e-5)
    if ensemble.training and not model.training:
        trained = ensemble.training(weights, features, tf.constant([1, 2]))
        np.testing.assert_allclose(trained, by_head, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 2])
def test_an_actions_terms_sum_to_its_output_at_each_head(heads):
    model, draw = models.bag_of_words(6, 3 * heads), np.random.default_rng(2)
    model = models.with_heads(model, heads) if heads > 1 else model
    weights = [draw.normal(size=shape).astype(np.float32) for shape in model.shapes.values()]
    features = {"ids": tf.constant([[1, 5], [2, 0]]), "values": tf.constant([[0.5, 0.25], [1.0, 0.0]])}
    actions = tf.constant([2, 0])
    found = sum(
        tf.reduce_sum(tf.gather(tf.reshape(weight, [-1]), places) * factors, axis=-1)
        for weight, (places, factors) in zip(weights, model.terms(features, actions), strict=True)
    )
    outputs = model.forward(weights, features).numpy()
    np.testing.assert_allclose(found, [outputs[0, ..., 2], outputs[1, ..., 0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("lengths", "ids", "values"),
    [
        ([2, 0, 3], [[4, 0, 0], [0, 0, 0], [1, 2, 3]], [[0.5, 0.5, 0], [0, 0, 0], [1, 2, 3]]),
        ([0, 0], [[], []], [[], []]),
    ],
)
def test_bags_of_words_become_as_wide_as_the_longest(lengths, ids, values):
    offsets = np.cumsum([0, *lengths])
    words = np.int32([4, 0, 1, 2, 3]), np.float32([0.5, 0.5, 1, 2, 3])
    found = models.dense(text.Bags(*(tf.constant(array[: offsets[-1]]) for array in words), tf.constant(offsets)))
    np.testing.assert_array_equal(found["ids"], ids)
    np.testing.assert_array_equal(found["values"], values)
    assert (found["ids"].dtype, found["values"].dtype) == (tf.int32, tf.float32)


def test_normal_kernels_have_glorots_variance_and_are_cut_off_at_two_of_its_draws_deviations():
    kernel, bias = dataclasses.replace(models.mlp(784, (), 512), kernels="glorot_normal").initial_weights(3)
    deviation = math.sqrt(2 / (784 + 512))
    of_normal = deviation / scipy.stats.truncnorm(-2, 2).std()
    assert kernel.std() == pytest.approx(deviation, rel=0.005)
    assert np.abs(kernel).max() <= 2 * of_normal * (1 + 1e-6)
    assert scipy.stats.kstest(kernel.ravel()[:20_000] / of_normal, scipy.stats.truncnorm(-2, 2).cdf).pvalue > 0.01
    assert not bias.any()


# Of a task.
