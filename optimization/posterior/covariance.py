"""FedPA's shrinkage covariance (Al-Shedivat et al. 2021, section 4), which the thesis' Algorithm 5 inverts."""

import tensorflow as tf

_CHUNK = 1 << 20  # Parameters worked on at once: no second copy of the samples is made.


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
    count, size = tf.shape(samples)[0], tf.shape(samples)[1]
    mean = tf.reduce_mean(samples, axis=0)

    def each_chunk(body, *given):
        """Folds (start, centred samples, their mean's part, *given) -> given over chunks of the parameters."""

        def step(start, *before):
            means = mean[start : start + _CHUNK]
            return start + _CHUNK, *body(start, samples[:, start : start + _CHUNK] - means, means, *before)

        return tf.while_loop(lambda start, *_: start < size, step, (tf.constant(0), *given), parallel_iterations=1)[1:]

    def products(start, centred, own, gram, alike):
        del start
        gram += tf.cast(tf.matmul(centred, centred, transpose_b=True), tf.float64)
        return gram, alike + tf.cast(tf.linalg.matvec(centred, own), tf.float64)

    gram, alike = each_chunk(products, tf.zeros([count, count], tf.float64), tf.zeros([count], tf.float64))
    # The decomposition raises an error for a matrix that is not finite.
    gram = tf.where(tf.math.is_finite(tf.reduce_sum(gram)), gram, 0.0)
    eigenvalues, eigenvectors = tf.linalg.eigh(gram)
    shares = shrinkage / (1 + shrinkage * tf.maximum(eigenvalues, 0.0))
    along = shares * tf.linalg.matvec(eigenvectors, alike, transpose_a=True)
    coefficients = tf.cast(tf.linalg.matvec(eigenvectors, along), tf.float32)

    def solve(start, centred, own, parts):
        return (parts.write(start // _CHUNK, own - tf.linalg.matvec(centred, coefficients, transpose_a=True)),)

    parts = tf.TensorArray(tf.float32, -(-size // _CHUNK), infer_shape=False, element_shape=[None])
    (parts,) = each_chunk(solve, parts)
    return (1 + shrinkage * tf.cast(count - 1, tf.float32)) * parts.concat()
