"""Flags for runs on a bandit's log, and checks of flags that conflict with them."""

from data.errors import UsageError
from data.settings import Setting
from data.tasks import options as task_options
from data.tasks.options import REPLAY, SIMULATOR, TaskOptions
from optimization.study import cli

_TASK = "logged"
_COLUMNS_OF_TABLE = ("client_column", "action_column", "reward_column", "propensity_column")
_ACTING = ("bandits_type", "importance_weighting", "importance_weights", "bandits_deploy_delay", "cache")

SIMULATED = (
    "Rewards are sampled from a regression on the log, so values here have the bias of the direct method. On held-out "
    "data, with 95% intervals over clients:"
)


LEARN_FROM = Setting(
    "learn_from",
    task_options.LEARN_FROM,
    "How the run uses the rows of --data_file",
    SIMULATOR,
    only={"task_type": (_TASK,)},
)


def is_simulated(options: TaskOptions) -> bool:
    """Whether a task's rewards are sampled from a regression model of a log."""
    return options.task_type == _TASK and options.learn_from == SIMULATOR


def check(settings: cli.Settings) -> None:
    """Checks that flags do not conflict with learning from a log.

    Raises:
      UsageError: If a flag conflicts or has no effect, or if names of columns are missing.
    """
    if settings.task_type != _TASK:
        return
    flag = f"--learn_from={settings.learn_from}"
    columns = [name for name in _COLUMNS_OF_TABLE if name != "action_column" or not settings.chosen_column]
    lacking = [f"--{name}" for name in columns if not settings[name]]
    if lacking and len(lacking) < len(columns):
        raise UsageError(f"Your own log needs {' and '.join(lacking)} as well; a run's log needs no column names.")
    if settings.scenario == "init_shift":
        raise UsageError(f"--scenario=init_shift: --task_type={_TASK} has no reward shift to study.")
    if settings.learn_from == SIMULATOR:
        return
    if settings.log_interactions:
        raise UsageError(f"--log_interactions: with {flag}, clients learn from a log that already exists.")
    if settings.scenario != "scratch":
        raise UsageError(f"--scenario={settings.scenario} conflicts with {flag}, which needs --scenario=scratch.")
    if settings.learn_from == REPLAY:
        for name in ("cache", "max_examples_per_client", "redraw_examples", "client_selection"):
            if name in settings.set_by_user:
                raise UsageError(f"--{name} conflicts with {flag}, which offers each row only once, in one round.")
        if settings.bandits_type.startswith("supervised"):
            raise UsageError(f"--bandits_type={settings.bandits_type} needs all actions' rewards; {flag} has only one.")
        return
    for name in _ACTING:
        if name in settings.set_by_user:
            raise UsageError(f"--{name} has no effect with {flag}, which trains on the log without acting.")
    if settings.learn_from == "dr" and (settings.noise_multiplier or settings.target_epsilon):
        raise UsageError(f"{flag} fits a reward model without noise: for privacy, use --learn_from=regression or ips.")
