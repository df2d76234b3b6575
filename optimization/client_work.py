"""A client's training: SGD over its examples (Agarwal et al. 2023, Algorithm 3, ClientUpdate).

This is plain TensorFlow. Gradient steps update variables in place. The variables are created as zeros, so no random
initializer runs.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import tensorflow as tf

from data.objects import UserObject
from optimization import models, optimizers
from optimization.corrections import Correction, Step

Batch = Mapping[str, tf.Tensor]
# (model outputs [batch, actions], mini-batch) -> scalar, the mean over the mini-batch. A loss whose attribute
# `needs_only_chosen_output` is true can also be called with the outputs of the chosen actions alone, [batch].
Loss = Callable[[tf.Tensor, Batch], tf.Tensor]
_RANDOM_MODEL = -2  # Folded into a client's key for models that are random in training, for example with dropout.


class ClientUpdate(NamedTuple):
    """A client's update.

    Attributes:
      delta: New minus old weights, in the order of the model's weights; all zero where `is_finite` is false.
      loss_sum: float32 scalar, sum over all steps of the mini-batch's size times its mean loss before the step.
      is_finite: bool scalar, whether the norm of the delta was finite.
      loss_deviation: float32 scalar, standard deviation of the mini-batches' losses; 0 without a step.
    """

    delta: tuple[tf.Tensor, ...]
    loss_sum: tf.Tensor
    is_finite: tf.Tensor
    loss_deviation: tf.Tensor


@runtime_checkable
class ClientWork(Protocol):
    """Interface of a client's training. Equal instances have equal hashes and the same results.

    A user can pass a frozen dataclass with these two methods as `--client_work`; see `UserWork`.
    """

    def __hash__(self) -> int: ...

    def examples_trained(self, num_examples: tf.Tensor) -> tf.Tensor:
        """Total number of examples in the mini-batches of a client that has `num_examples` examples, int32."""

    def build(self, model: models.Model, loss: Loss) -> Callable[..., ClientUpdate]:
        """Builds the training function.

        Call this once, in the graph or eager context where the function will run, because it creates variables.

        Args:
          model: The model to train.
          loss: Mean loss of a mini-batch.

        Returns:
          A function of (weights, examples, key, learning_rate=None). `weights` are the weights at the start of the
          round, float32 in the model's order. `examples` is a mapping with `features` and everything that `loss` reads,
          with the examples on the first axis: in bandits `action` int32, `reward` and `propensity` float32, or
          `rewards` float32 [examples, actions] with full feedback. `key` is the client's int32 [2] key for the round.
          `learning_rate`, a float32 scalar, replaces the work's own learning rate unless it is None.
        """


@dataclasses.dataclass(frozen=True)
class LocalSgd:
    """SGD, or another optimizer, for either a number of epochs over shuffled mini-batches or a number of steps.

    The last mini-batch of an epoch may be smaller. With `steps`, each mini-batch is sampled uniformly with replacement,
    so it always has its full size. A client without examples takes no step.

    Attributes:
      learning_rate: Step size, unless one is passed to the training function.
      batch_size: Number of examples in a mini-batch.
      epochs: Number of passes over the examples; None with `steps`.
      steps: Number of steps, tau; None with `epochs`.
      momentum: Heavy-ball momentum of sgd. The velocity starts at zero in every round.
      corrections: Corrections that are applied to each step's gradients, in this order.
      optimizer: Optimizer of the steps: sgd, another name in `optimizers.OPTIMIZERS`, or the user's `UserObject`, which
        has its own learning rate. Its state is reset in every round.
      hyperparameters: (name, value) of the optimizer's hyperparameters that differ from their defaults; empty for sgd.

    Raises:
      ValueError: If not exactly one of `epochs` and `steps` is set.
    """

    learning_rate: float
    batch_size: int
    epochs: int | None = None
    steps: int | None = None
    momentum: float = 0.0
    corrections: tuple[Correction, ...] = ()
    optimizer: str = "sgd"
    hyperparameters: tuple[tuple[str, float], ...] = ()

    def __post_init__(self):
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(f"Give either epochs or steps, not epochs={self.epochs} and steps={self.steps}.")

    def examples_trained(self, num_examples: tf.Tensor) -> tf.Tensor:
        if self.steps is None:
            return num_examples * self.epochs
        return tf.where(num_examples > 0, self.steps * self.batch_size, 0)

    def num_steps(self, num_examples: tf.Tensor) -> tf.Tensor:
        """Number of steps of a client that has `num_examples` examples, int32."""
        if self.steps is None:
            return self.epochs * -(-num_examples // self.batch_size)
        return tf.where(num_examples > 0, self.steps, 0)

    def build(self, model: models.Model, loss: Loss) -> Callable[..., ClientUpdate]:
        # Anything but plain SGD also changes entries that no term reads, so it needs `build_walk`.
        is_plain = self.optimizer == "sgd" and not (self.momentum or self.corrections)
        by_terms = is_plain and model.terms and getattr(loss, "needs_only_chosen_output", False)
        walk = self._build_walk_by_terms(model, loss) if by_terms else self.build_walk(model, loss)

        @tf.function(autograph=False)
        def train(
            weights: Sequence[tf.Tensor], examples: Batch, key: tf.Tensor, learning_rate: tf.Tensor | None = None
        ) -> ClientUpdate:
            return _finite_update(*walk(weights, examples, key, learning_rate))

        return train

    def build_walk(
        self, model: models.Model, loss: Loss
    ) -> Callable[..., tuple[list[tf.Tensor], tf.Tensor, tf.Tensor]]:
        """Builds the function that takes all steps, to be called inside a `tf.function`; see `build`.

        Returns:
          A function of (weights, examples, key, learning_rate=None, on_step=None). It returns the deltas, which need
          not be finite, and the `loss_sum` and `loss_deviation` of `ClientUpdate`. After each step it calls `on_step`
          with the model's variables and the number of the step, int32 from 0.
        """
        variables = [tf.Variable(tf.zeros(shape), trainable=True) for shape in model.shapes.values()]
        velocities = [tf.Variable(tf.zeros(shape)) for shape in model.shapes.values()] if self.momentum else []
        is_sgd = self.optimizer == "sgd"
        optimizer = optimizers.build("client", self.optimizer, self.learning_rate, self.hyperparameters)
        initial = () if is_sgd else optimizer.initialize(model.specs)
        state = tf.nest.map_structure(tf.Variable, initial)

        def walk(weights, examples, key, learning_rate=None, on_step=None):
            rate = self.learning_rate if learning_rate is None else learning_rate
            for variable, weight in zip(variables, weights, strict=True):
                variable.assign(weight)
            for velocity in velocities:
                velocity.assign(tf.zeros_like(velocity))
            _assign(state, initial)
            if not is_sgd and self.optimizer in optimizers.OPTIMIZERS:
                state["learning_rate"].assign(rate)

            def step(position: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
                batch = _take(dict(examples), rows)
                with tf.GradientTape() as tape:
                    if model.training is None:
                        outputs = model.forward(variables, batch["features"])
                    else:
                        fold_in = tf.random.experimental.stateless_fold_in
                        step_key = fold_in(fold_in(key, _RANDOM_MODEL), position)
                        outputs = model.training(variables, batch["features"], step_key)
                    value = loss(outputs, batch)
                gradients = tape.gradient(value, variables)
                for correct in self.corrections:
                    dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
                    gradients = correct(Step(dense, variables, weights))
                if is_sgd:
                    for index, (variable, gradient) in enumerate(zip(variables, gradients, strict=True)):
                        self._step(variable, gradient, rate, velocities[index] if velocities else None)
                else:
                    before = state, tuple(variables)
                    slopes = tuple(map(tf.convert_to_tensor, gradients))
                    _assign(before, optimizer.next(*tf.nest.map_structure(tf.convert_to_tensor, before), slopes))
                if on_step:
                    on_step(variables, position)
                return value

            loss_sum, deviation = self._steps(examples, key, step)
            deltas = [variable - weight for variable, weight in zip(variables, weights, strict=True)]
            return deltas, loss_sum, deviation

        return walk

    def _build_walk_by_terms(self, model: models.Model, loss: Loss) -> Callable[..., tuple]:
        """Builds a version of `build_walk` that is about twice as fast, for models with `terms`.

        The loss must have the attribute `needs_only_chosen_output`. The steps read and change only the entries that
        the chosen actions need. They update the delta itself, which starts at zero, so no weights are copied.
        """
        deltas = [tf.Variable(tf.zeros(math.prod(shape)), trainable=False) for shape in model.shapes.values()]

        def walk(weights, examples, key, learning_rate=None):
            rate = self.learning_rate if learning_rate is None else learning_rate
            for delta in deltas:
                # Zeros from a constant would be copied before the first step.
                delta.assign(tf.raw_ops.Empty(shape=delta.shape, dtype=tf.float32, init=True))
            examples = dict(examples)
            terms = model.terms(examples.pop("features"), examples["action"])
            before = _sums([tf.reshape(weight, [-1]) for weight in weights], terms)

            def step(position: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
                outputs, of_batch, batch = _take((before, terms, examples), rows)
                outputs += _sums(deltas, of_batch)
                with tf.GradientTape() as tape:
                    tape.watch(outputs)
                    value = loss(outputs, batch)
                slope = tf.expand_dims(rate * tape.gradient(value, outputs), -1)
                for delta, (places, factors) in zip(deltas, of_batch, strict=True):
                    delta.scatter_nd_sub(tf.expand_dims(places, -1), slope * factors)
                return value

            loss_sum, deviation = self._steps(examples, key, step)
            shaped = [tf.reshape(delta, shape) for delta, shape in zip(deltas, model.shapes.values(), strict=True)]
            return shaped, loss_sum, deviation

        return walk

    def _steps(
        self, examples: Batch, key: tf.Tensor, step: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Takes all steps, and returns the `loss_sum` and `loss_deviation` of `ClientUpdate`.

        `step` maps the number of a step and the positions of its examples to the mini-batch's mean loss.
        """
        num_steps, rows_of = self._batches(_count(examples), key)

        def once(position: tf.Tensor, loss_sum: tf.Tensor, values: tf.TensorArray):
            rows = rows_of(position)
            value = step(position, rows)
            loss_sum += value * tf.cast(tf.size(rows), tf.float32)
            return position + 1, loss_sum, values.write(position, value)

        values = tf.TensorArray(tf.float32, size=num_steps, element_shape=())
        # Autograph would take about one second to convert a for loop into the same graph.
        _, loss_sum, values = tf.while_loop(
            lambda position, *_: position < num_steps, once, (tf.constant(0), tf.constant(0.0), values)
        )
        return loss_sum, _deviation(values.stack())

    def _batches(self, num_examples: tf.Tensor, key: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        """Number of steps, and a function from the number of a step to the positions of its examples."""
        num_steps = self.num_steps(num_examples)
        if self.steps is not None:
            shape = [num_steps, self.batch_size]
            positions = tf.random.stateless_uniform(shape, key, 0, tf.maximum(num_examples, 1), tf.int32)
            return num_steps, lambda step: positions[step]

        def shuffled(epoch: tf.Tensor) -> tf.Tensor:
            epoch_key = tf.random.experimental.stateless_fold_in(key, epoch)
            return tf.random.experimental.stateless_shuffle(tf.range(num_examples), epoch_key)

        orders = tf.map_fn(shuffled, tf.range(self.epochs))
        per_epoch = -(-num_examples // self.batch_size)

        def rows_of(step: tf.Tensor) -> tf.Tensor:
            start = step % per_epoch * self.batch_size
            return orders[step // per_epoch, start : start + self.batch_size]

        return num_steps, rows_of

    def _step(
        self,
        variable: tf.Variable,
        gradient: tf.Tensor | tf.IndexedSlices,
        learning_rate: float | tf.Tensor,
        velocity: tf.Variable | None,
    ) -> None:
        """Takes an SGD step in place. Without momentum, a sparse gradient changes only the rows that it contains."""
        if velocity is not None:
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=velocity.handle,
                lr=learning_rate,
                grad=tf.convert_to_tensor(gradient),
                momentum=self.momentum,
            )
        elif isinstance(gradient, tf.IndexedSlices):
            # `scatter_sub` adds in a random order if a client has several threads.
            variable.scatter_nd_sub(tf.expand_dims(gradient.indices, 1), learning_rate * gradient.values)
        else:
            tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=learning_rate, delta=gradient)


@dataclasses.dataclass(frozen=True)
class UserWork:
    """A client's training that the user provides.

    It is not run for a client without examples. A delta whose norm is not finite is replaced by zeros.

    Attributes:
      work: The user's training.
    """

    work: ClientWork

    def examples_trained(self, num_examples: tf.Tensor) -> tf.Tensor:
        return tf.where(num_examples > 0, self.work.examples_trained(num_examples), 0)

    def build(self, model: models.Model, loss: Loss) -> Callable[..., ClientUpdate]:
        train = self.work.build(model, loss)

        @tf.function(autograph=False)
        def train_on_examples(weights, examples, key, learning_rate=None) -> ClientUpdate:
            nothing = lambda: no_training(weights)  # noqa: E731
            update = tf.cond(_count(examples) > 0, lambda: train(weights, examples, key, learning_rate), nothing)
            return _finite_update(tuple(update.delta), update.loss_sum, update.loss_deviation)

        return train_on_examples


def of_user(given: UserObject) -> ClientWork:
    """Returns the user's training, given as a `ClientWork` or as a function that returns one.

    Raises:
      UsageError: If the object is neither.
    """
    return UserWork(given.made("client_work", ClientWork, "a client_work.ClientWork, such as a frozen dataclass"))


def check(work: ClientWork, model: models.Model, loss: Loss, examples: Batch) -> None:
    """Checks a client's training by running it once. For the arguments, see `ClientWork.build`.

    Raises:
      ValueError: If the result is not a `ClientUpdate` with the model's shapes and the right dtypes.
      tf.errors.InvalidArgumentError: If the delta or the loss is not finite, or `examples_trained` is not a scalar.
    """
    build = work.work.build if isinstance(work, UserWork) else work.build
    update = build(model, loss)(tuple(map(tf.constant, model.initial_weights(0))), examples, tf.constant([0, 1]))
    wanted = ClientUpdate(model.specs, tf.TensorSpec([]), tf.TensorSpec([], tf.bool), tf.TensorSpec([]))
    pairs = zip(tf.nest.flatten(update), tf.nest.flatten(wanted), strict=True)
    if not isinstance(update, ClientUpdate) or not all(spec.is_compatible_with(part) for part, spec in pairs):
        raise ValueError(f"it must return {wanted}, not {tf.nest.map_structure(tf.type_spec_from_value, update)}")
    tf.debugging.assert_all_finite(models.flatten([*update.delta, update.loss_sum]), "its update or loss is not finite")
    tf.ensure_shape(work.examples_trained(_count(examples)), [])


def _assign(variables, values) -> None:
    """Assigns a structure of values to a structure of variables."""
    tf.nest.map_structure(lambda variable, value: variable.assign(value), variables, values)


def _take(examples, rows: tf.Tensor):
    return tf.nest.map_structure(lambda values: tf.gather(values, rows), examples)


def _sums(arrays: Sequence[tf.Tensor], terms: Sequence[models.Terms]) -> tf.Tensor:
    """Sum of each example's terms over these flattened arrays: float32 [batch], or [batch, heads] with heads."""
    pairs = zip(arrays, terms, strict=True)
    # For single entries, `gather_nd` takes two thirds of the time of a plain gather.
    parts = [tf.gather_nd(array, tf.expand_dims(places, -1)) * factors for array, (places, factors) in pairs]
    return tf.add_n([tf.reduce_sum(part, axis=-1) for part in parts])


def _count(examples: Batch) -> tf.Tensor:
    return tf.shape(tf.nest.flatten(examples)[0])[0]


def _deviation(values: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.size(values) > 0, lambda: tf.math.reduce_std(values), lambda: tf.constant(0.0))


def has_finite_norm(delta: Sequence[tf.Tensor]) -> tf.Tensor:
    """Whether the L2 norm over all parts is finite, as clipping requires; bool scalar."""
    # Any non-finite number makes the norm non-finite. This reads the delta once and copies nothing.
    return tf.math.is_finite(2.0 * tf.add_n([tf.nn.l2_loss(part) for part in delta]))


def _finite_update(delta: Sequence[tf.Tensor], loss_sum: tf.Tensor, loss_deviation: tf.Tensor) -> ClientUpdate:
    """Update with this delta, or with zeros if its norm is not finite."""
    is_finite = has_finite_norm(delta)
    kept = tf.cond(is_finite, lambda: tuple(delta), lambda: tuple(tf.zeros_like(part) for part in delta))
    return ClientUpdate(kept, loss_sum, is_finite, loss_deviation)


def no_training(weights: Sequence[tf.Tensor]) -> ClientUpdate:
    """Update of a client that does not change the weights."""
    zeros = tuple(tf.zeros_like(weight) for weight in weights)
    return ClientUpdate(zeros, tf.constant(0.0), tf.constant(True), tf.constant(0.0))
