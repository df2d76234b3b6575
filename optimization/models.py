"""Models as pure functions of their weights.

A model is a list of named weight shapes and a function from weights and features to outputs, so the same code runs on
the server's tensors, on a client's variables and in a test. Most models end in a dense layer. An ensemble has several
such last layers, its heads, on one body.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.special
import tensorflow as tf

from data import action_sets, keys, tasks, text
from optimization import action_models

Weights = tuple[np.ndarray, ...]
FeatureSpec: TypeAlias = tf.TensorSpec | text.Bags | action_sets.ActionSets


def _uniform(draw: np.random.Generator, fan: int, shape: Sequence[int]) -> np.ndarray:
    limit = math.sqrt(6 / fan)
    return draw.uniform(-limit, limit, shape)


def _normal(draw: np.random.Generator, fan: int, shape: Sequence[int]) -> np.ndarray:
    low, high = scipy.special.ndtr((-2, 2))
    # Standard deviation of a standard normal distribution that is truncated at -2 and 2.
    deviation = math.sqrt(1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / (high - low))
    return math.sqrt(2 / fan) / deviation * scipy.special.ndtri(draw.uniform(low, high, shape))


# (generator, number of inputs plus outputs, shape) -> kernel, sampled as in Keras (Glorot and Bengio 2010) or zeros.
INITIAL_WEIGHTS: Mapping[str, Callable[[np.random.Generator, int, Sequence[int]], np.ndarray]] = {
    "glorot_uniform": _uniform,
    "glorot_normal": _normal,
    "zeros": lambda draw, fan, shape: np.zeros(shape),
}


class Terms(NamedTuple):
    """Terms that a weight array contributes to the output of an action, for each example of a batch.

    Attributes:
      places: int32 [batch, terms], indices into the flattened array. An index may occur several times.
      factors: float32 [batch, terms], factors of these entries in the sum.
    """

    places: tf.Tensor
    factors: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Model:
    """A stateless model.

    Attributes:
      shapes: Weight names and shapes, in the order of all weight tuples. All weights are float32.
      forward: (weights, features [batch, ...] from `dense`) -> outputs float32 [batch, actions], or
        [batch, heads, actions] with several heads.
      training: (weights, features, int32 [2] key) -> outputs in training, if they are random or their gradients differ
        from those of `forward`; otherwise None.
      terms: (features, int32 [batch] actions) -> `Terms` of each weight array. Their sum is the output of that action.
        Only linear models of bags of words have them; otherwise None. With several heads, the arrays are
        [batch, heads, terms].
      body: (weights, features, key=None) -> float32 [batch, units], or [batch, slots, units] if actions have features:
        the inputs of the last layer, whose kernel and bias are the last two weights. With an int32 [2] key, these are
        the inputs in training. None if the last layer is not known to be dense.
      heads: Number of last layers, which are concatenated in the last two weights.
      kernels: Initialization of kernels, a key of INITIAL_WEIGHTS.
    """

    shapes: dict[str, tuple[int, ...]]
    forward: Callable[[Sequence[tf.Tensor], tf.Tensor], tf.Tensor]
    training: Callable[[Sequence[tf.Tensor], tf.Tensor, tf.Tensor], tf.Tensor] | None = None
    terms: Callable[[tf.Tensor, tf.Tensor], Sequence[Terms]] | None = None
    body: Callable[..., tf.Tensor] = None  # type: ignore[assignment]
    heads: int = 1
    kernels: str = "glorot_uniform"

    @property
    def specs(self) -> tuple[tf.TensorSpec, ...]:
        """Shapes and dtype of the weights."""
        return tuple(tf.TensorSpec(shape) for shape in self.shapes.values())

    def initial_weights(self, seed: int) -> Weights:
        """Samples the kernels as `kernels` specifies; biases and offsets are zero, and scales are one.

        Each head is sampled as a separate last layer.

        Args:
          seed: Seed of the weights.

        Returns:
          float32 arrays in the order of `shapes`.
        """
        draw = keys.generator(seed, keys.Purpose.WEIGHTS)
        weights = []
        for place, (name, shape) in enumerate(self.shapes.items()):
            if len(shape) == 1:
                weights.append(np.full(shape, name.endswith("scale"), np.float32))
                continue
            is_last = place == len(self.shapes) - 2
            fans = math.prod(shape[:-2]) * (shape[-2] + shape[-1] // (self.heads if is_last else 1))
            weights.append(INITIAL_WEIGHTS[self.kernels](draw, fans, shape).astype(np.float32))
        return tuple(weights)


def _ending_in_dense(
    shapes: dict[str, tuple[int, ...]], body: Callable[..., tf.Tensor], *, is_random: bool = False
) -> Model:
    """Adds a last dense layer to a body. With `is_random`, the body is random in training."""

    def outputs(weights, features, key=None):
        return tf.nn.bias_add(body(weights, features, key) @ weights[-2], weights[-1])

    return Model(shapes, outputs, outputs if is_random else None, body=body)


def mlp(num_features: int, hidden: Sequence[int], num_outputs: int, dropouts: Sequence[float] = ()) -> Model:
    """Dense layers with ReLU in between. Without hidden layers, this is a linear model with bias.

    Args:
      num_features: Number of features of an example.
      hidden: Widths of the hidden layers.
      num_outputs: Number of outputs.
      dropouts: Share of each layer's inputs that training drops; empty for no dropout.
    """
    sizes = [num_features, *hidden, num_outputs]
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (width_in, width_out) in enumerate(itertools.pairwise(sizes)):
        shapes[f"dense_{layer}/kernel"] = (width_in, width_out)
        shapes[f"dense_{layer}/bias"] = (width_out,)

    def body(weights, features, key=None):
        values = tf.reshape(features, [-1, num_features])
        for layer in range(len(sizes) - 1):
            if layer:
                values = tf.nn.relu(tf.nn.bias_add(values @ weights[2 * layer - 2], weights[2 * layer - 1]))
            if dropouts and key is not None:
                values = tf.nn.experimental.stateless_dropout(values, dropouts[layer], key + layer)
        return values

    return _ending_in_dense(shapes, body, is_random=bool(dropouts))


def linear_l2(num_features: int, num_outputs: int) -> Model:
    """Linear model with bias on features scaled to an L2 norm of 1. Features that are all zero stay zero."""
    linear = mlp(num_features, (), num_outputs)

    def body(weights, features, key=None):
        rows = linear.body(weights, features, key)
        return tf.math.divide_no_nan(rows, tf.norm(rows, axis=1, keepdims=True))

    return _ending_in_dense(linear.shapes, body)


class _Convolution(NamedTuple):
    """A square convolution with bias and ReLU, optionally followed by a 2 x 2 max pool."""

    size: int
    channels: int
    padding: str = "SAME"
    pool: bool = True


def _convolutional(
    convolutions: Sequence[_Convolution], hidden: Sequence[int], num_outputs: int, dropouts: Sequence[float] = ()
) -> Model:
    """Convolutions, then dense layers with ReLU in between, for 28 x 28 x 1 images.

    Args:
      convolutions: Size, channels, padding and pooling of each convolution.
      hidden: Widths of the hidden dense layers.
      num_outputs: Number of outputs.
      dropouts: Share of each dense layer's inputs that training drops.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    side, channels = 28, 1
    for layer, (size, width, padding, pool) in enumerate(convolutions):
        shapes[f"conv_{layer}/kernel"] = (size, size, channels, width)
        shapes[f"conv_{layer}/bias"] = (width,)
        side, channels = side - (size - 1 if padding == "VALID" else 0), width
        side = -(-side // 2) if pool else side
    flat = side**2 * channels
    dense = mlp(flat, hidden, num_outputs, dropouts)
    num_kernels = 2 * len(convolutions)

    def body(weights, features, key=None):
        values = tf.reshape(features, [-1, 28, 28, 1])
        for layer, (_, _, padding, pool) in enumerate(convolutions):
            values = tf.nn.conv2d(values, weights[2 * layer], strides=1, padding=padding)
            values = tf.nn.relu(tf.nn.bias_add(values, weights[2 * layer + 1]))
            if pool:
                values = tf.nn.max_pool2d(values, ksize=2, strides=2, padding="SAME")
        return dense.body(weights[num_kernels:], tf.reshape(values, [-1, flat]), key)

    shapes |= dense.shapes
    return _ending_in_dense(shapes, _allow_empty_batch(body), is_random=bool(dropouts))


def _allow_empty_batch(body):
    """Makes a body accept an empty batch, which does not occur in training.

    oneDNN's convolution returns a wrong number of channels for an empty batch, so a blank example is added and later
    removed.
    """

    def run(weights, features, key=None):
        if key is not None:
            return body(weights, features, key)
        num_examples = tf.shape(features)[0]
        blanks = tf.cast(tf.equal(num_examples, 0), tf.int32)
        padded = tf.pad(features, [[0, blanks]] + [[0, 0]] * (len(features.shape) - 1))
        return body(weights, padded)[:num_examples]

    return run


def cnn(num_outputs: int) -> Model:
    """Two-layer CNN for 28 x 28 x 1 images.

    Two 5 x 5 convolutions (32 and 64 channels, 'same' padding), each followed by ReLU and a 2 x 2 max pool, then
    a dense layer of 512 with ReLU (McMahan et al. 2017, section 3; Reddi et al. 2021; Agarwal et al. 2023,
    section 4.1).
    """
    return _convolutional([_Convolution(5, 32), _Convolution(5, 64)], (512,), num_outputs)


def cnn_small(num_outputs: int) -> Model:
    """CNN from Johansson and Gullbrandson 2022, Table D.1: `cnn` with 16 and 32 channels and no hidden dense layer."""
    return _convolutional([_Convolution(5, 16), _Convolution(5, 32)], (), num_outputs)


def cnn_dropout(num_outputs: int) -> Model:
    """CNN from Johansson and Gullbrandson 2022, Table D.2, and Reddi et al. 2021 (for EMNIST).

    It has two 3 x 3 convolutions (32 and 64 channels, no padding), a 2 x 2 max pool, and a dense layer of 128 units.
    Training drops a quarter of that layer's inputs and half of its outputs.
    """
    convolutions = [_Convolution(3, 32, "VALID", pool=False), _Convolution(3, 64, "VALID")]
    return _convolutional(convolutions, (128,), num_outputs, dropouts=(0.25, 0.5))


_NORM_GROUPS = 2
_NORM_EPSILON = 1e-5


def resnet18(image_shape: tuple[int, int, int], num_outputs: int, norm: str = "group") -> Model:
    """ResNet-18 (He et al. 2016, Table 1) without biases in its convolutions, for images of any size.

    The statistics of normalization are not weights: no algorithm averages them, no noise is added to them, and no
    server optimizer changes them. Group normalization has two groups (Reddi et al. 2021) and treats each example
    separately. Batch normalization uses the mean and variance of the current batch, in training and in evaluation, so
    each evaluation batch must resemble the whole data. There are no running statistics, because statistics averaged
    over clients with different labels would fit neither any client's data nor the server's model.

    Args:
      image_shape: Height, width and channels.
      num_outputs: Number of outputs.
      norm: `group` or `batch`.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    # For each block: name, input and output channels, and the stride of its first convolution.
    blocks = []
    for stage, out in enumerate((64, 128, 256, 512)):
        blocks.append((f"stage_{stage}/block_0", 64 if stage == 0 else out // 2, out, 1 if stage == 0 else 2))
        blocks.append((f"stage_{stage}/block_1", out, out, 1))

    def add(name: str, kernel: int, width_in: int, width_out: int) -> None:
        shapes[f"{name}/kernel"] = (kernel, kernel, width_in, width_out)
        shapes[f"{name}/scale"] = shapes[f"{name}/offset"] = (width_out,)

    add("stem", 7, image_shape[-1], 64)
    for name, width_in, width_out, stride in blocks:
        add(f"{name}/conv_0", 3, width_in, width_out)
        add(f"{name}/conv_1", 3, width_out, width_out)
        if stride > 1:
            add(f"{name}/shortcut", 1, width_in, width_out)
    shapes |= {"dense_0/kernel": (512, num_outputs), "dense_0/bias": (num_outputs,)}

    def body(weights, features, key=None):
        left = iter(weights)
        values = tf.reshape(features, [-1, *image_shape])
        values = tf.nn.relu(_convolve(values, left, 2, norm))
        # No value is negative, so zeros from padding are never the maximum.
        values = tf.nn.max_pool2d(tf.pad(values, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, "VALID")
        for _, _, _, stride in blocks:
            inner = tf.nn.relu(_convolve(values, left, stride, norm))
            inner = _convolve(inner, left, 1, norm)
            values = tf.nn.relu(inner + (_convolve(values, left, stride, norm) if stride > 1 else values))
        return tf.reduce_mean(values, axis=(1, 2))

    return _ending_in_dense(shapes, _allow_empty_batch(body))


def _convolve(values: tf.Tensor, weights: Iterator[tf.Tensor], stride: int, norm: str) -> tf.Tensor:
    """Convolves and normalizes with the next kernel, scale and offset; pads the image by half a kernel on each side."""
    kernel, scale, offset = next(weights), next(weights), next(weights)
    pad = kernel.shape[0] // 2
    height, width = values.shape[1:3]
    if height <= stride and width <= stride:
        # The output is a single pixel. The rest of the kernel covers only padding, and skipping it is much faster.
        seen = values[:, : kernel.shape[0] - pad, : kernel.shape[0] - pad]
        kernel = tf.reshape(kernel[pad : pad + seen.shape[1], pad : pad + seen.shape[2]], [-1, kernel.shape[-1]])
        values = (tf.reshape(seen, [-1, kernel.shape[0]]) @ kernel)[:, tf.newaxis, tf.newaxis]
    else:
        values = tf.nn.conv2d(values, kernel, stride, [[0, 0], [pad, pad], [pad, pad], [0, 0]])
    if norm == "batch":
        scaled, *_ = tf.compat.v1.nn.fused_batch_norm(values, scale, offset, epsilon=_NORM_EPSILON, is_training=True)
        return scaled
    shape = tf.shape(values)
    groups = tf.reshape(values, [shape[0], -1, _NORM_GROUPS, values.shape[-1] // _NORM_GROUPS])
    mean, variance = tf.nn.moments(groups, axes=(1, 3), keepdims=True)
    groups = (groups - mean) * tf.math.rsqrt(variance + _NORM_EPSILON)
    return tf.reshape(groups, shape) * scale + offset


def dense(features: Any) -> Any:
    """Converts features to the form that models take: pads bags of words, also those in action sets.

    Bags become `ids` int32 and `values` float32, both [examples, words of the longest example], padded with 0.
    """
    if isinstance(features, action_sets.ActionSets):
        return features._replace(contexts=dense(features.contexts))
    if not isinstance(features, text.Bags):
        return features

    def padded(words: tf.Tensor) -> tf.Tensor:
        return tf.RaggedTensor.from_row_splits(words, features.offsets, validate=False).to_tensor()

    return {"ids": padded(features.ids), "values": padded(features.values)}


def bag_of_words(vocabulary_size: int, num_outputs: int) -> Model:
    """Linear model with bias on bags of words: word ids and their values.

    Features are `ids` int32 [batch, words] and `values` float32 [batch, words]; padding has the value 0. Training reads
    and changes only the kernel's rows for words that occur. If the loss depends on a single action, training reads and
    changes only the entries of that action in these rows.
    """
    shapes = {"dense_0/kernel": (vocabulary_size, num_outputs), "dense_0/bias": (num_outputs,)}

    def forward(weights, features):
        rows = tf.gather(weights[0], features["ids"])
        # Unlike an einsum, a product with a row vector needs no transposition.
        sums = tf.squeeze(tf.matmul(tf.expand_dims(features["values"], 1), rows), 1)
        return tf.nn.bias_add(sums, weights[1])

    def terms(features, actions):
        actions = tf.expand_dims(actions, 1)
        words = Terms(features["ids"] * num_outputs + actions, features["values"])
        return words, Terms(actions, tf.ones_like(actions, tf.float32))

    def body(weights, features, key=None):
        return action_models.as_array(features, vocabulary_size)

    return Model(shapes, forward, terms=terms, body=body)


def of_sets(name: str, arguments: Mapping[str, Any]) -> Model:
    """Builds a model of actions with features, one of `action_models.MODELS`, from its arguments.

    Features are an `action_sets.ActionSets`. The output of a slot without an action is -infinity.
    """
    shapes, scores, body = action_models.MODELS[name](**arguments)

    def forward(weights, features):
        return _offered(features, scores(weights, features.contexts, features.actions))

    def of_slots(weights, features, key=None):
        return body(weights, features.contexts, features.actions)

    return Model(shapes, forward, body=of_slots if body else None)  # type: ignore[arg-type]


def restricted(model: Model) -> Model:
    """Model for an `action_sets.ActionSets` whose actions have no features.

    It applies `model` to the contexts. The output of an action that is not offered is -infinity.
    """

    def training(weights, features, key):
        return _offered(features, model.training(weights, features.contexts, key))

    return dataclasses.replace(
        model,
        forward=lambda weights, features: _offered(features, model.forward(weights, features.contexts)),
        training=training if model.training else None,
        terms=model.terms and (lambda features, actions: model.terms(features.contexts, actions)),  # type: ignore
        body=model.body and (lambda weights, features, key=None: model.body(weights, features.contexts, key)),  # type: ignore
    )


def _offered(features: action_sets.ActionSets, outputs: tf.Tensor) -> tf.Tensor:
    if outputs.shape[-1] == 1:  # Sets are never empty, so a single slot has an action.
        return outputs
    is_offered = features.entries >= 0
    return tf.where(is_offered if outputs.shape.rank == 2 else is_offered[:, tf.newaxis], outputs, -np.inf)


def of_task(task: tasks.Task, heads: int = 1) -> Model:
    """Builds the model of a task. It has one head if actions have features, and `heads` heads otherwise."""
    if not isinstance(task.feature_spec, action_sets.Spec):
        model = build(task.model, task.model_arguments, heads)
    elif task.feature_spec.num_features:
        model = of_sets(task.model, task.model_arguments)
    else:
        model = restricted(build(task.model, task.model_arguments, heads))
    return dataclasses.replace(model, kernels=task.initial_weights)


def build(name: str, arguments: Mapping[str, Any], heads: int = 1) -> Model:
    """Builds a model from its name and arguments in a task, with this number of heads."""
    model = _BUILDERS[name](**{**arguments, "num_outputs": heads * arguments["num_outputs"]})
    return with_heads(model, heads) if heads > 1 else model


def with_heads(model: Model, heads: int) -> Model:
    """Splits the outputs of a model over this number of heads.

    In training, the body's gradient is divided by the number of heads. With a loss that sums over heads, each head
    therefore gets the gradient of its own loss, and the body gets the mean of the heads' gradients.
    """
    num_actions = list(model.shapes.values())[-1][0] // heads

    by_head = _by_head(heads)

    def training(weights, features, key):
        values = scaled_gradient(model.body(weights, features, key), 1 / heads)
        return by_head(tf.nn.bias_add(values @ weights[-2], weights[-1]))

    def terms(features, actions):
        outputs = tf.expand_dims(actions, 1) + num_actions * tf.range(heads)
        repeated = tf.nest.map_structure(lambda part: tf.repeat(part, heads, axis=0), features)
        flat = model.terms(repeated, tf.reshape(outputs, [-1]))
        return [Terms(*(tf.reshape(part, [-1, heads, tf.shape(part)[1]]) for part in one)) for one in flat]

    return dataclasses.replace(
        model,
        forward=lambda weights, features: by_head(model.forward(weights, features)),
        training=training if len(model.shapes) > 2 else None,  # A linear model's body has no weights.
        terms=terms if model.terms else None,
        heads=heads,
    )


def _by_head(heads: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """Function that splits outputs [batch, heads * actions] over heads, [batch, heads, actions]."""
    return lambda outputs: tf.reshape(outputs, [-1, heads, outputs.shape[-1] // heads])


def last_layer(model: Model) -> Model:
    """The last layer as a model. Its features are the inputs of that layer, as computed by `Model.body`."""
    split = _by_head(model.heads) if model.heads > 1 else tf.identity

    def forward(weights, features):
        return split(tf.nn.bias_add(features @ weights[0], weights[1]))

    return Model(dict(list(model.shapes.items())[-2:]), forward, heads=model.heads)


def with_copies(weights: Weights, heads: int) -> Weights:
    """Weights of a model with this number of heads, which are copies of the single head in `weights`."""
    *body, kernel, bias = weights
    return *body, np.tile(kernel, (1, heads)), np.tile(bias, heads)


def scaled_gradient(values: tf.Tensor, factor: float) -> tf.Tensor:
    """Identity whose gradient is multiplied by the factor."""

    @tf.custom_gradient
    def same(unchanged):
        return tf.identity(unchanged), lambda upstream: factor * upstream

    return same(values)


_BUILDERS: Mapping[str, Callable[..., Model]] = {
    "keras": lambda architecture, num_outputs: architecture.build(),  # `Architecture.check` has run.
    "mlp": mlp,
    "linear_l2": linear_l2,
    "cnn": cnn,
    "cnn_small": cnn_small,
    "cnn_dropout": cnn_dropout,
    "resnet18": resnet18,
    "bag_of_words": bag_of_words,
}


def feature_spec(task: tasks.Task) -> FeatureSpec:
    """Shapes and dtypes of a task's features; see `spec`."""
    return spec(task.feature_spec, task.num_actions)


def spec(form: Any, num_actions: int) -> FeatureSpec:
    """Shapes and dtypes of a batch of features of a form, see `Task.feature_spec`. The first axis is None."""
    if isinstance(form, action_sets.Spec):
        slots = None if form.num_features else num_actions
        entries, actions = tf.TensorSpec((None, slots), tf.int32), tf.TensorSpec((None, slots, form.num_features))
        return action_sets.ActionSets(spec(form.contexts, num_actions), entries, actions)
    if isinstance(form, tuple):
        shape, dtype = form
        return tf.TensorSpec((None, *shape), dtype)
    return text.Bags(tf.TensorSpec((None,), tf.int32), tf.TensorSpec((None,)), tf.TensorSpec((None,), tf.int64))


def label_spec(task: tasks.Task) -> tf.TensorSpec:
    """Shape and dtype of labels: int32 [None], or float32 [None, labels] if examples have several labels."""
    if not task.multi_label:
        return tf.TensorSpec((None,), tf.int32)
    return tf.TensorSpec((None, len(task.rewards["exact"])))


def flatten(weights: Sequence[tf.Tensor]) -> tf.Tensor:
    """Concatenates weights into one vector, float32 [parameters]."""
    return tf.concat([tf.reshape(weight, [-1]) for weight in weights], axis=0)


def unflatten(vector: tf.Tensor, shapes: Mapping[str, tuple[int, ...]]) -> tuple[tf.Tensor, ...]:
    """Splits a vector, float32 [parameters], into weights with the shapes of `Model.shapes`."""
    bounds = itertools.accumulate(math.prod(shape) for shape in shapes.values())
    return tuple(
        tf.reshape(vector[end - math.prod(shape) : end], shape)
        for shape, end in zip(shapes.values(), bounds, strict=True)
    )
