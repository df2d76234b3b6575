"""What the rest of the program asks of the runtime, once TFF is imported; `worker.start` says what that is."""

import tensorflow as tf
import tensorflow_federated as tff

from optimization.runtime import cohort_parts, serialization

written_ahead = serialization.written_ahead


def fused(process: tff.templates.IterativeProcess) -> tff.templates.IterativeProcess:
    """Returns the process with its rounds in MapReduce form: each client does all its work in one computation.

    As written, a round is many small computations: training, a norm, clipping, weighing, a sum for each metric. TFF's
    worker calls them one by one for every client and keeps what each returns. In TFF's MapReduce form they are few: all
    that a client computes, how two clients' results are summed, and all that the server computes.

    Args:
      process: A process of rounds (state, clients) -> (state, metrics) that broadcast, map, aggregate and update.
    """
    # The worker optimizes graphs itself when it first runs them.
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    form = tff.backends.mapreduce.get_map_reduce_form_for_computation(process.next, config)
    next_round = tff.backends.mapreduce.get_computation_for_map_reduce_form(form)
    # The form forgets which Python containers, such as named tuples, the structures are.
    next_round = tff.framework.ConcreteComputation.with_type(next_round, process.next.type_signature)
    return tff.templates.IterativeProcess(process.initialize, next_round)


def at_hand() -> cohort_parts.CohortPartsContext:
    """Returns what plays rounds for this thread."""
    return tff.framework.get_context_stack().current
