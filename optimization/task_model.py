"""A task as TensorFlow sees it: its model, and the types of several examples."""

import dataclasses

import tensorflow as tf

from data import tasks, text
from optimization import models


def build(task: tasks.Task) -> models.Model:
    """Returns the task's model."""
    model = getattr(models, task.model)(**task.model_arguments)
    return dataclasses.replace(model, kernels=task.initial_weights)


def feature_spec(task: tasks.Task) -> models.FeatureSpec:
    """Returns the shape and dtype of several examples' features, first axis None, or those of bags of words."""
    if isinstance(task.feature_spec, tuple):
        shape, dtype = task.feature_spec
        return tf.TensorSpec((None, *shape), dtype)
    return text.Bags(tf.TensorSpec((None,), tf.int32), tf.TensorSpec((None,)), tf.TensorSpec((None,), tf.int64))


def label_spec(task: tasks.Task) -> tf.TensorSpec:
    """Returns that of their labels."""
    if not task.multi_label:
        return tf.TensorSpec((None,), tf.int32)
    return tf.TensorSpec((None, len(task.rewards["exact"])))
