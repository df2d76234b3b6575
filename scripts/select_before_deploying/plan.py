"""Which runs the study consists of: of each task an initial model, the candidates, and deployments that write logs.

Nothing here reads data or imports TensorFlow.
"""

import dataclasses
import pathlib
import tomllib
from collections.abc import Mapping, Sequence

from bandits.evaluation import reward_model
from bandits.evaluation.bounds import Bounds
from bandits.plans.plan import Run, as_text, build
from data.errors import UsageError
from optimization.study import cli

BINARY = "run_federated"
CANDIDATE_SEED = 100  # Of the initial model, too: no log has it.
_SETTINGS = pathlib.Path(__file__).parent / "settings.toml"


@dataclasses.dataclass(frozen=True)
class Study:
    """The study on one task.

    Attributes:
      name: What it is called.
      flags: Of all its runs.
      initial: More of the run whose model all others start from.
      deployed: More of candidates and logging deployments.
      logged: More of logging deployments alone.
      sweep: Rates of the candidates' models, as `--sweep` of the grid: each point is a run.
      temperatures: Of softmax: each model with each of these is a candidate.
      reward_model: Flags of `evaluate_policy` that say how the estimators' model is trained.
      largest_weight: W of private values.
      max_rows_per_client: m of private values.
      epsilons: Of private values.
      populations: How many clients each one of a log stands for, where noise is added: 1, and planned ones.
    """

    name: str
    flags: str
    initial: str
    deployed: str
    logged: str
    sweep: tuple[str, ...]
    temperatures: tuple[float, ...]
    reward_model: str
    largest_weight: float
    max_rows_per_client: int
    epsilons: tuple[float, ...]
    populations: tuple[int, ...]

    @property
    def bounds(self) -> Bounds:
        """What a client may contribute at most to private values."""
        return Bounds(self.largest_weight, self.max_rows_per_client)

    def reward_model_settings(self, seed: int) -> cli.Settings:
        """Returns the flags of the reward model of the log with this seed.

        Raises:
          UsageError: If they are not sound.
        """
        flags = cli.FlagSet("")
        reward_model.define(flags)
        flags.integer("seed", seed, "of the model's training and its folds")
        try:
            return flags.parse([self.name, *self.reward_model.split()]).settled()
        except UsageError as error:
            raise UsageError(f"--task={self.name}: reward_model: {error}") from error

    def initial_run(self, base: Sequence[str], folder: pathlib.Path) -> Run:
        """Returns the run of the initial model.

        Args:
          base: Flags that all runs share.
          folder: Where all runs lie.

        Raises:
          UsageError: If its flags are not sound.
        """
        (run,) = self._runs(self.initial, (), (CANDIDATE_SEED,), base, folder)
        return run

    def candidate_runs(self, base: Sequence[str], folder: pathlib.Path) -> list[Run]:
        """Returns the runs of the candidates' models; see `initial_run`."""
        return self._runs(self.deployed, self.sweep, (CANDIDATE_SEED,), self._started(base, folder), folder)

    def log_runs(self, base: Sequence[str], folder: pathlib.Path, repeat: int) -> list[Run]:
        """Returns the runs of so many logging deployments; see `initial_run`."""
        flags = f"{self.deployed} {self.logged} --log_interactions"
        return self._runs(flags, (), range(repeat), self._started(base, folder), folder)

    def _started(self, base: Sequence[str], folder: pathlib.Path) -> tuple[str, ...]:
        return *base, f"--initial_model_path={folder / self.initial_run(base, folder).name}"

    def _runs(
        self, more: str, sweep: Sequence[str], seeds: Sequence[int], base: Sequence[str], folder: pathlib.Path
    ) -> list[Run]:
        try:
            grid = build((*self.flags.split(), *more.split(), *base), sweeps=sweep, binary=BINARY)
            return dataclasses.replace(grid, seeds=tuple(seeds)).in_folder(folder).runs()
        except UsageError as error:
            raise UsageError(f"--task={self.name}: {error}") from error


def label(run: Run, temperature: float) -> str:
    """Returns what a candidate is called: what tells its run from the others', and its temperature."""
    rates = [f"{name} {as_text(run.settings[name])}" for name in run.numbers]
    return ", ".join([*rates, f"temperature {temperature:g}"]).replace("_", " ")


def load(path: pathlib.Path | None) -> Mapping[str, Study]:
    """Returns the studies of a settings file by task, of the published one for None.

    Raises:
      UsageError: If it is not sound; it names the file and the key.
    """
    path = path or _SETTINGS
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--settings: {path} cannot be read as TOML ({error}).") from error
    names = [field.name for field in dataclasses.fields(Study) if field.name != "name"]
    found = {}
    for task, table in tables.items():
        if not isinstance(table, dict) or set(table) != set(names):
            raise UsageError(f"--settings: [{task}] of {path} must have exactly the keys {', '.join(names)}.")
        lists = {name: tuple(table[name]) for name in ("sweep", "temperatures", "epsilons", "populations")}
        found[task] = Study(name=task, **(table | lists))
    return found
