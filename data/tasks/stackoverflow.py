"""Tag prediction on TensorFlow Federated's Stack Overflow (Agarwal et al. 2023, section 4.1)."""

import numpy as np

from data import stackoverflow, statistics, tasks, text
from data.tasks import rewards
from data.tasks.options import TaskOptions


def load(options: TaskOptions) -> tasks.Task:
    """Returns the task: bags of words, the most frequent tags as actions, a linear model with bias.

    Raises:
      UsageError: If the database is missing or damaged, or cannot be downloaded.
    """
    found = stackoverflow.load(
        options.data_dir,
        options.cache_dir,
        vocabulary_size=options.vocabulary_size,
        num_tags=options.num_tags,
        max_words=options.max_words,
        normalisation=options.text_normalisation,
        keep_untagged=options.keep_untagged,
        known=statistics.read_posts(options.public_statistics),
        random=options.random_data,
    )
    num_tags = len(found.statistics.tags)
    tag_counts = np.array(list(found.statistics.tags.values()), np.int64)
    return tasks.Task(
        clients=found.train,
        held_out=found.held_out,
        num_actions=num_tags,
        feature_spec=text.Bags,
        model="bag_of_words",
        model_arguments={"vocabulary_size": len(found.statistics.vocabulary), "num_outputs": num_tags},
        rewards=rewards.tag_rewards(tag_counts, reference_code=options.is_published, initial_tags=options.init_labels),
        **tasks.learned(options, found.statistics),
        multi_label=True,
    )
