"""Tag prediction on posts of Stack Exchange sites: the data set that users bring, or a small shared one."""

import sys

from data import stackexchange, statistics, tasks, text
from data.tasks import rewards
from data.tasks.options import TaskOptions


def load(options: TaskOptions) -> tasks.Task:
    """Returns the task: bags of words, the most frequent tags as actions, a linear model with bias.

    Which users are held out depends on no run's seed: runs of all seeds, and a model trained by another run, have the
    same words and tags in the same places.

    Raises:
      UsageError: If there are no posts or too few.
    """
    corpus = stackexchange.load(
        options.data_dir,
        num_tags=options.num_tags,
        vocabulary_size=options.vocabulary_size,
        max_words=options.max_words,
        normalisation=options.text_normalisation,
        keep_untagged=options.keep_untagged,
        known=statistics.read_posts(options.public_statistics),
    )
    print(f"Stack Exchange: {stackexchange.describe(corpus.report)}", file=sys.stderr)
    num_tags = len(corpus.tags)
    return tasks.Task(
        clients=corpus.train,
        held_out=corpus.held_out,
        num_actions=num_tags,
        feature_spec=text.Bags,
        model="bag_of_words",
        model_arguments={"vocabulary_size": len(corpus.vocabulary), "num_outputs": num_tags},
        rewards=rewards.tag_rewards(
            corpus.tag_counts, reference_code=options.is_published, initial_tags=options.init_labels
        ),
        report=corpus.report,
        **tasks.learned(options, corpus.statistics),
        multi_label=True,
        action_names=tuple(corpus.tags),
    )
