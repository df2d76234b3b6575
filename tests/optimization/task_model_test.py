"""Tests of optimization.task_model: model, features and labels fit each other."""

import dataclasses

import numpy as np
import tensorflow as tf

from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization import task_model


def test_the_model_takes_what_the_specs_say():
    task = registry.load(TaskOptions("digits"))
    model, examples = task_model.build(task), task.held_out.load(0)
    assert task_model.feature_spec(task).is_compatible_with(tf.constant(examples.features))
    assert task_model.label_spec(task).is_compatible_with(tf.constant(examples.labels))
    outputs = model.forward(model.initial_weights(0), task.normalise(examples.features))
    assert outputs.shape == (len(examples.labels), task.num_actions)


def test_kernels_are_drawn_as_the_task_says():
    task = registry.load(TaskOptions("digits"))
    zeros = task_model.build(dataclasses.replace(task, initial_weights="zeros"))
    assert [model.initial_weights(0)[0].any() for model in (task_model.build(task), zeros)] == [True, False]


def test_several_labels_are_a_row_each():
    task = dataclasses.replace(registry.load(TaskOptions("digits")), multi_label=True)
    assert task_model.label_spec(task) == tf.TensorSpec((None, 10), tf.float32)


def test_batches_hold_every_example_once_and_in_order():
    task = dataclasses.replace(registry.load(TaskOptions("digits")), normalise=lambda pixels: pixels + 1)
    examples = task.held_out.load(0).take(np.arange(7))
    for even, sizes in ((False, [3, 3, 1]), (True, [3, 2, 2])):
        batches = list(task.batches(examples, 3, even=even))
        assert [len(batch.labels) for batch in batches] == sizes
        np.testing.assert_array_equal(np.concatenate([batch.labels for batch in batches]), examples.labels)
        np.testing.assert_array_equal(np.concatenate([batch.features for batch in batches]), examples.features + 1)
