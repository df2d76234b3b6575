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
      data_dir: Folder of the task's files (default: FEDBANDITS_DATA_DIR in the environment; for what can be downloaded,
        the cache folder).
      cache_dir: Folder for downloads, and for compiled rounds of run_federated (default: ~/.cache/federated_bandits).
      random_data: Random examples of the data set's size instead of a download, to measure time and memory; rewards
        are meaningless (default: no).
      public_statistics: File of means, categories and labels, or of words and tags, from public data, such as a run's
        statistics.json (default: learned from the clients, which no privacy guarantee covers).

      num_tags: Number of the most frequent tags, which are the actions.
      vocabulary_size: Number of the most frequent words, which are the features; also of --text_columns.
      max_words: Maximum number of distinct words of a post or row.
      text_normalisation: Word counts divided by their sum, or by their L2 norm, which the learning rates are tuned for
        (default: l2).
      keep_untagged: Keep posts with none of the tags, which reward no action (default: no, but yes with
        --variant=reference_code).

      model: Model (default: the task's); digits and tables take linear or mlp.
      hidden: Widths of the hidden layers of mlp, separated by commas, such as 256,128 (default: the task's).
      norm: Normalization.
      initial_weights: Initialization of kernels; with --variant=reference_code, the default of cnn is glorot_normal, of
        linear_l2 zeros.

      partition_clients: Number of clients (default: 100, synthetic 30).
      partition_seed: Seed of the partition, independent of --seed.
      partition_by: Shares that follow a Dirichlet distribution.
      partition_alpha: Dirichlet parameter of a client's labels; small values give few labels (default: 0.3;
        digits, tabular 1).
      partition_beta: Dirichlet parameter of the classes within each of the 20 superclasses, whose parameter is then
        --partition_alpha (default: no superclasses).
      partition_examples: Examples of a client; 0 for all.
      synthetic_alpha: Variance of the means of clients' models; by definition it changes no label.
      synthetic_beta: Variance of the means of clients' features.

      action_prices: Price of each action, which its rewards are less by, such as small=0,large=0.1; without names, in
        the order of --reward_columns (default: none).
      reward_bounds: LOW,HIGH: smallest and largest reward, after prices, of a table with rewards or a log. Training
        maps them to 0 and 1, and clips rewards outside (default: recognized, or learned from observed rewards).
      init_labels: Init_shift: number of most frequent labels or tags that the initial training rewards (default: half
        of the labels, 10 tags; with --variant=reference_code three fifths of the tags).
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
