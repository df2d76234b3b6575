"""Options of a task."""

import dataclasses

from data.schema import Schema


@dataclasses.dataclass(frozen=True)
class TaskOptions(Schema):
    """Everything that decides what a task is: tasks of equal options are one. Each task reads some of it.

    Those of tables and logs are the roles of their columns, see `Schema`.

    Attributes:
      task_type: A key of `registry.TASKS`.
      variant: `paper` or `reference_code`, the published code of the bandits' study, where they differ.
      data_dir: Folder of the task's files; None for its usual place.
      cache_dir: Folder for downloads; None for `~/.cache/federated_bandits`.
      random_data: Whether random examples of the same size replace a download.
      public_statistics: File of statistics that are otherwise learned from clients (`data.statistics`), or None.

      num_tags: Posts: number of the most frequent tags, which are the actions.
      vocabulary_size: Posts, texts: number of the most frequent words, which are the features.
      max_words: Posts, texts: maximum number of distinct words.
      text_normalisation: Posts, texts: `mean` or `l2`, see `data.text.bags`.
      keep_untagged: Posts: whether those with none of the tags stay.

      model: Digits, images, tables: name of the model; None for the task's.
      hidden: Digits, images, tables: widths of the hidden layers of the model `mlp`; None for the task's.
      norm: Normalization of a ResNet, `group` or `batch`.
      initial_weights: Images: initialization of kernels, one of `models.INITIAL_WEIGHTS`; None for the task's default.

      partition_clients: Synthetic clients: their number.
      partition_seed: Synthetic clients: seed of their examples.
      partition_by: Synthetic clients: whose shares are Dirichlet, `client` or `label`.
      partition_alpha: Synthetic clients: Dirichlet parameter of their labels.
      partition_beta: CIFAR-100: that of classes within superclasses; None for classes alone.
      partition_examples: Synthetic clients: examples of each; 0 for all.
      synthetic_alpha: Variance of the means of clients' models.
      synthetic_beta: Variance of the means of clients' features.

      action_prices: Table: price of each action, which its rewards are less by, as ACTION=PRICE pairs or in the order
        of `reward_columns`, separated by commas; None for none.
      reward_bounds: Table with rewards, log: smallest and largest reward, `LOW,HIGH`; None to recognize or learn them.
      init_labels: Table, posts: labels or tags that the initial training of a shift rewards; None for half of the
        labels, and for the study's number of tags.
      learn_from: Log: source of the labels, a key of `logged.LEARN_FROM`.
    """

    task_type: str
    variant: str = "paper"
    data_dir: str | None = None
    cache_dir: str | None = None
    random_data: bool = False
    public_statistics: str | None = None

    num_tags: int = 50
    vocabulary_size: int = 10000
    max_words: int = 200
    text_normalisation: str = "mean"
    keep_untagged: bool = False

    model: str | None = None
    hidden: tuple[int, ...] | None = None
    norm: str = "group"
    initial_weights: str | None = None

    partition_clients: int = 100
    partition_seed: int = 0
    partition_by: str = "client"
    partition_alpha: float = 1.0
    partition_beta: float | None = None
    partition_examples: int = 0
    synthetic_alpha: float = 1.0
    synthetic_beta: float = 1.0

    action_prices: str | None = None
    reward_bounds: str | None = None
    init_labels: int | None = None
    learn_from: str = "simulator"

    @property
    def is_published(self) -> bool:
        """Whether the published program counts, not the paper."""
        return self.variant == "reference_code"
