"""Tag prediction on TensorFlow Federated's Stack Overflow (Agarwal et al. 2023, section 4.1)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from data import stackoverflow, statistics, tasks, text
from data.tasks import rewards


def load(settings: Mapping[str, Any], variant: str = "") -> tasks.Task:
    """Returns the task: bags of words, the most frequent tags as actions, a linear model with bias.

    Args:
      settings: Flags; `data_dir` and `cache_dir` say where the database is, or goes; `num_tags`, `vocabulary_size`,
        `max_words`, `text_normalisation`, `keep_untagged` and `public_statistics` what is made of it.
      variant: Not used.

    Raises:
      UsageError: If the database is missing or damaged, or cannot be downloaded.
    """
    del variant
    found = stackoverflow.load(
        settings["data_dir"],
        settings["cache_dir"],
        vocabulary_size=settings["vocabulary_size"],
        num_tags=settings["num_tags"],
        max_words=settings["max_words"],
        normalisation=settings["text_normalisation"],
        keep_untagged=settings["keep_untagged"],
        known=statistics.read_posts(settings["public_statistics"]),
    )
    num_tags = len(found.statistics.tags)
    tag_counts = np.array(list(found.statistics.tags.values()), np.int64)
    return tasks.Task(
        clients=found.train,
        held_out=found.held_out,
        num_actions=num_tags,
        feature_spec={"ids": ((None,), "int32"), "values": ((None,), "float32")},
        model="bag_of_words",
        model_arguments={"vocabulary_size": len(found.statistics.vocabulary), "num_outputs": num_tags},
        rewards=rewards.tag_rewards(tag_counts, reference_code=settings["variant"] == "reference_code"),
        normalise=text.trimmed,
        **tasks.learned(settings, found.statistics),
        multi_label=True,
    )
