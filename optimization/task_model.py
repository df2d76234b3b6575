"""A task as TensorFlow sees it: its model, and the types of several examples."""

import tensorflow as tf

from data import clients, tasks
from optimization import models


def build(task: tasks.Task) -> models.Model:
    """Returns the task's model."""
    return getattr(models, task.model)(**task.model_arguments)


def feature_spec(task: tasks.Task):
    """Returns the `tf.TensorSpec` of several examples' features, first axis None, or several by name."""
    return clients.map_features(lambda spec: tf.TensorSpec((None, *spec[0]), spec[1]), task.feature_spec)


def label_spec(task: tasks.Task) -> tf.TensorSpec:
    """Returns that of their labels."""
    return tf.TensorSpec((None, task.num_actions)) if task.multi_label else tf.TensorSpec((None,), tf.int32)
