"""FedPA's shrinkage covariance (Al-Shedivat et al. 2021, section 4), which the thesis' Algorithm 5 inverts."""

import tensorflow as tf


def inverse_times_mean(samples: tf.Tensor, shrinkage: float) -> tf.Tensor:
    """Applies the inverse of the samples' covariance to their mean, in O(samples^2 parameters).

    The covariance of l samples is rho_l I + (1 - rho_l) S with the sample covariance S and
    rho_l = 1 / (1 + (l - 1) shrinkage). It is rho_l (I + shrinkage C'C) with the centred samples C, so by the matrix
    inversion lemma only I + shrinkage CC', [samples, samples], is inverted: the result and the order of Al-Shedivat
    et al.'s recursion, which takes one sample after the other, as matrix products. Its eigenvalues are at least 1, also
    where S is singular, so the result is finite wherever the samples are; otherwise it is not.

    Args:
      samples: float32 [samples, parameters], models minus the model that the client was given.
      shrinkage: At least 0; with 0 the covariance is the identity, so the result is the mean.

    Returns:
      float32 [parameters], the client's delta.

    Raises:
      ValueError: if the shrinkage is negative.
    """
    if shrinkage < 0:
        raise ValueError(f"shrinkage={shrinkage} must be at least 0.")
    mean = tf.reduce_mean(samples, axis=0)
    centred = samples - mean
    gram = tf.matmul(centred, centred, transpose_b=True)
    # The decomposition raises an error for a matrix that is not finite.
    gram = tf.where(tf.math.is_finite(tf.reduce_sum(gram)), gram, 0.0)
    eigenvalues, eigenvectors = tf.linalg.eigh(tf.cast(gram, tf.float64))
    axes = tf.matmul(tf.cast(eigenvectors, tf.float32), centred, transpose_a=True)
    shares = shrinkage / (1 + shrinkage * tf.maximum(tf.cast(eigenvalues, tf.float32), 0.0))
    solution = mean - tf.linalg.matvec(axes, shares * tf.linalg.matvec(axes, mean), transpose_a=True)
    return (1 + shrinkage * tf.cast(tf.shape(samples)[0] - 1, tf.float32)) * solution
