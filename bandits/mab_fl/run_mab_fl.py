"""Runs MAB-FL, personalised federated learning by combination; see `--help`.

Flags are checked, the participants' data opened and the runs' folders claimed before TensorFlow Federated is imported.
All runs of a command share one TFF worker and its compiled computations.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import csv
import dataclasses
import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandits.mab_fl import combinations, flags, studies
from data import silos
from data.errors import UsageError
from optimization.study import cli, files, run_folder, worker_flags


@dataclasses.dataclass(frozen=True)
class Run:
    """One run, ready to be played.

    Attributes:
      setting: Its setting.
      settings: Its flags, with its own seed.
      participants: All participants' rows.
      target: Index of the target.
      choices: Combinations to choose from; empty if they are to be proposed.
      earlier: Mean rewards of `--warm_start`.
      folder: Its folder.
    """

    setting: flags.Setting
    settings: cli.Settings
    participants: silos.Silos
    target: int
    choices: Sequence[str]
    earlier: Mapping[str, float]
    folder: run_folder.RunFolder


def find_target(settings: cli.Settings, participants: silos.Silos) -> int:
    """Returns the target's index, once it is clear that its AUC can be measured and that all participants can train.

    Raises:
      UsageError: If the target is no participant, or rows or classes are missing.
    """
    default = silos.GENERATED_TARGET if settings.task_type == "generator" else participants.names[0]
    name = settings.target or default
    if name not in participants.names:
        raise UsageError(f"--target={name} is not among the participants {', '.join(participants.names)}.")
    target = participants.names.index(name)
    for part, flag in (("validation", "--validation_fraction"), ("test", "--train_fraction, --validation_fraction")):
        labels = getattr(participants.silos[target], part).labels
        if not len(labels):
            raise UsageError(f"--target={name} has no {part} row: change {flag}.")
        if labels.min() == labels.max():
            raise UsageError(
                f"--target={name}: its {len(labels)} {part} rows are all of class {labels[0]}, so that there is no "
                f"AUC. Change {flag}, or choose another target."
            )
    for other, silo in zip(participants.names, participants.silos, strict=True):
        if len(silo.train.labels) < 2:
            count = len(silo.train.labels)
            raise UsageError(f"Participant {other} has {count} training rows, and needs 2: raise --train_fraction.")
    return target


def find_choices(settings: cli.Settings, participants: silos.Silos, target: int) -> list[str]:
    """Returns the combinations to choose from; none if they are to be proposed.

    Raises:
      UsageError: If they are too many, or `--fixed_combination` is none.
    """
    count = len(participants.names)
    if settings.decision_rule == flags.TARGET_ALONE:
        return [combinations.code([target], count)]
    if settings.decision_rule == flags.FEDAVG:
        return ["1" * count]
    if settings.decision_rule == flags.FIXED:
        fixed = settings.fixed_combination
        if len(fixed) != count or set(fixed) - set("01") or fixed[target] != "1":
            raise UsageError(
                f"--fixed_combination={fixed} must be a 0 or 1 for each of {', '.join(participants.names)}, with a 1 "
                f"for the target {participants.names[target]}."
            )
        return [fixed]
    if settings.propose != "none":
        return []
    if settings.combinations == "pairs":
        return combinations.pairs(target, count)
    if count > combinations.MAX_PARTICIPANTS_FOR_ALL:
        raise UsageError(
            f"--combinations=all would be {2 ** (count - 1):,} combinations of {count} participants, any two of which "
            f"share {combinations.expected_overlap(count):.1f} others on average: a training could try few, and hardly "
            f"tell them apart. It is for up to {combinations.MAX_PARTICIPANTS_FOR_ALL} participants; give "
            "--combinations=pairs or --propose=cosine_clusters."
        )
    return combinations.all_with(target, count)


def read_earlier(settings: cli.Settings, choices: Sequence[str]) -> dict[str, float]:
    """Returns the mean rewards of `--warm_start`, by combination.

    Raises:
      UsageError: If the folder holds none, of other rewards, or of no combination that can be chosen.
    """
    if not settings.warm_start:
        return {}
    folder = pathlib.Path(settings.warm_start)
    try:
        with open(folder / "combinations.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        found = {row["combination"]: float(row["mean_reward"]) for row in rows if row["mean_reward"]}
        before = json.loads((folder / "config.json").read_text())["flags"]
        differing = [name for name in ("reward", "threshold", "compare_with") if before[name] != settings[name]]
        if not np.isfinite([*found.values()]).all():
            raise ValueError("not finite")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"--warm_start={settings.warm_start} holds no estimates: name the folder of a finished run."
        ) from error
    if differing:
        name = differing[0]
        raise UsageError(
            f"--warm_start: that run had --{name}={before[name]}, this one has {settings[name]}; their rewards cannot "
            "be compared."
        )
    if choices and not set(found) & set(choices):
        raise UsageError(f"--warm_start={settings.warm_start} knows none of the combinations {', '.join(choices)}.")
    return found


def prepare(chosen: Sequence[flags.Setting], study: studies.Study | None) -> list[Run]:
    """Opens data and folders of all runs."""
    opened: dict[silos.SiloOptions, silos.Silos] = {}
    checked = []
    for setting in chosen:
        one = setting.settings
        for seed in cli.seeds(one):
            name = one.experiment_name
            name += f"/{setting.name}" if study else ""
            name += f"/seed_{seed}" if one.repeat > 1 else ""
            mine = one.replace(seed=seed, experiment_name=name, repeat=1)
            options = flags.silo_options(mine)
            if options not in opened:
                opened[options] = silos.load(options)
            participants = opened[options]
            target = find_target(mine, participants)
            mine = mine.replace(target=participants.names[target])
            choices = find_choices(mine, participants, target)
            checked.append((setting, mine, participants, target, choices, read_earlier(mine, choices)))
    runs = []
    for setting, mine, *rest in checked:
        folder = run_folder.RunFolder(f"{mine.root_output_dir}/{mine.experiment_name}")
        # The target's own rounds begin after the last: with them, a run cannot be made longer.
        fixed = {"tuning_begins_after": mine.total_rounds} if mine.tuning_rounds else {}
        folder.open({**mine, **fixed}, rest[0].checksum, rest[0].report)
        runs.append(Run(setting, mine, *rest, folder))
    return runs


def play(run: Run) -> tuple[dict[str, Any], int | None]:
    """Plays one run; returns its row of `results.csv`, and the signal that stopped it, if any."""
    from bandits.mab_fl import experiment, figures

    mab_fl = experiment.MabFl(run.settings, run.participants, run.target, run.choices, run.earlier)
    if run.settings.propose != "none":
        choices = mab_fl.propose()
        mab_fl = dataclasses.replace(mab_fl, choices=choices, earlier=read_earlier(run.settings, choices))
    outcome = experiment.play(mab_fl, run.folder, run.setting.name or run.settings.decision_rule)
    if outcome.signum is not None:
        return {}, outcome.signum
    progress = outcome.state
    test_auc = mab_fl.test_auc(progress.best_weights)
    favourite = int(np.argmax(progress.adoptions))
    row = {
        "setting": run.setting.name or run.settings.decision_rule,
        "seed": run.settings.seed,
        "rounds": outcome.round_num,
        "best_round": int(progress.best_round),
        "validation_auc": float(progress.best_auc),
        "test_auc": test_auc,
        "favourite": mab_fl.choices[favourite],
        "favourite_share": progress.adoptions[favourite] / progress.adoptions.sum(),
        "communications": int(progress.communications),
    }
    if not run.setting.name:
        figures.draw_run(run.folder.path, f"{run.settings.task_type}, target {run.settings.target}")
    print(
        f"{row['setting']}, seed {row['seed']}: {outcome.round_num} rounds, best model of round {row['best_round']} "
        f"with test AUC {test_auc:.4f}; combination {row['favourite']} in {row['favourite_share']:.0%} of rounds; "
        f"{row['communications']} communications.",
        flush=True,
    )
    return row, None


def program(settings: cli.Settings) -> int:
    """Runs all settings and seeds; returns 0, or 128 + the signal that stopped it."""
    if settings.list_presets:
        print(studies.text())
        return 0
    chosen, study = flags.plan(settings)
    runs = prepare(chosen, study)
    worker_flags.start(settings)

    import pandas as pd

    from bandits.mab_fl import figures

    rows = []
    for run in runs:
        row, signum = play(run)
        if signum is not None:
            told = f"Stopped in {run.folder.path}; what was done is saved. {run_folder.continuing(run.settings)} it."
            print(told, file=sys.stderr)
            return 128 + signum
        rows.append(row)
    top = pathlib.Path(chosen[0].settings.root_output_dir) / chosen[0].settings.experiment_name
    if len(runs) > 1:
        results = pd.DataFrame(rows)
        files.replace(top / "results.csv", results.to_csv(index=False, float_format="%.6g").encode())
        summary = results.groupby("setting", sort=False)["test_auc"].agg(["mean", "std", "count"])
        print(summary.to_string(float_format="{:.4f}".format))
    if study:
        figures.draw_study(study, [(run.setting, run.settings, run.folder.path) for run in runs], top)
    print(f"Results in {top}")
    return 0


if __name__ == "__main__":
    cli.main(flags.define(), program)
