"""Tag prediction on posts: bags of words, the most frequent tags as actions, a linear model with bias."""

import sys
from typing import Any

import numpy as np

from data import clients, stackexchange, stackoverflow, statistics, tasks, text
from data.tasks import rewards
from data.tasks.options import TaskOptions


def load_stackexchange(options: TaskOptions) -> tasks.Task:
    """Returns the task of Stack Exchange sites: the data set that users bring, or a small shared one.

    Which users are held out depends on no run's seed: runs of all seeds, and a model trained by another run, have the
    same words and tags in the same places.

    Raises:
      UsageError: If there are no posts or too few.
    """
    corpus = stackexchange.load(options.data_dir, **_options(options))
    print(f"Stack Exchange: {stackexchange.describe(corpus.report)}", file=sys.stderr)
    names = tuple(corpus.statistics.tags)
    return _task(options, corpus.train, corpus.held_out, corpus.statistics, report=corpus.report, action_names=names)


def load_stackoverflow(options: TaskOptions) -> tasks.Task:
    """Returns the task of TensorFlow Federated's Stack Overflow (Agarwal et al. 2023, section 4.1).

    Raises:
      UsageError: If the database is missing or damaged, or cannot be downloaded.
    """
    opened = stackoverflow.load(options.data_dir, options.cache_dir, random=options.random_data, **_options(options))
    return _task(options, opened.train, opened.held_out, opened.statistics)


def _options(options: TaskOptions) -> dict[str, Any]:
    """Returns the arguments that both have in common."""
    return {
        "vocabulary_size": options.vocabulary_size,
        "num_tags": options.num_tags,
        "max_words": options.max_words,
        "normalisation": options.text_normalisation,
        "keep_untagged": options.keep_untagged,
        "known": statistics.read_posts(options.public_statistics),
    }


def _task(
    options: TaskOptions,
    population: clients.ClientData,
    held_out: clients.ClientData,
    counted: statistics.OfPosts,
    **fields: Any,
) -> tasks.Task:
    num_tags, tag_counts = len(counted.tags), np.array(list(counted.tags.values()), np.int64)
    return tasks.Task(
        clients=population,
        held_out=held_out,
        num_actions=num_tags,
        feature_spec=text.Bags,
        model="bag_of_words",
        model_arguments={"vocabulary_size": len(counted.vocabulary), "num_outputs": num_tags},
        rewards=rewards.tag_rewards(tag_counts, reference_code=options.is_published, initial_tags=options.init_labels),
        multi_label=True,
        **tasks.learned(options, counted),
        **fields,
    )
