"""Tag prediction on posts of Stack Exchange sites: the data set that users bring, or a small shared one."""

import sys
from collections.abc import Mapping
from typing import Any

from data import stackexchange, statistics, tasks, text
from data.tasks import rewards


def load(settings: Mapping[str, Any], variant: str = "") -> tasks.Task:
    """Returns the task: bags of words, the most frequent tags as actions, a linear model with bias.

    Which users are held out does not depend on `--seed`: runs of all seeds, and a model trained by another run, have
    the same words and tags in the same places.

    Args:
      settings: Flags; `data_dir` says where the posts are, `num_tags`, `vocabulary_size`, `max_words`,
        `text_normalisation`, `keep_untagged` and `public_statistics` what is made of them.
      variant: Not used.

    Raises:
      UsageError: If there are no posts or too few.
    """
    del variant
    corpus = stackexchange.load(
        settings["data_dir"],
        num_tags=settings["num_tags"],
        vocabulary_size=settings["vocabulary_size"],
        max_words=settings["max_words"],
        normalisation=settings["text_normalisation"],
        keep_untagged=settings["keep_untagged"],
        known=statistics.read_posts(settings["public_statistics"]),
    )
    print(f"Stack Exchange: {stackexchange.describe(corpus.report)}", file=sys.stderr)
    num_tags = len(corpus.tags)
    return tasks.Task(
        clients=corpus.train,
        held_out=corpus.held_out,
        num_actions=num_tags,
        feature_spec={"ids": ((None,), "int32"), "values": ((None,), "float32")},
        model="bag_of_words",
        model_arguments={"vocabulary_size": len(corpus.vocabulary), "num_outputs": num_tags},
        rewards=rewards.tag_rewards(corpus.tag_counts, reference_code=settings["variant"] == "reference_code"),
        normalise=text.trimmed,
        report=corpus.report,
        **tasks.learned(settings, corpus.statistics),
        multi_label=True,
    )
