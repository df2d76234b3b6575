"""Runs MAB-FL, federated learning in which a bandit chooses whose models to average; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import itertools
import os
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from bandits.mab_fl import flags, metrics
from bandits.mab_fl.flags import MabFlOptions
from data import files
from data.errors import UsageError
from data.tasks import silos
from optimization.study import cli, frame

if TYPE_CHECKING:
    from bandits.mab_fl import experiment
    from optimization.study import runner

_MOST_PARTICIPANTS = 8  # Limit for --combinations=all.


def find_target(options: MabFlOptions, participants: silos.Silos) -> int:
    """Index of the target, after checks that its AUC is defined and that all participants can train.

    Raises:
      UsageError: If the target is not a participant, or rows or classes are missing.
    """
    default = silos.GENERATED_TARGET if options.silos.task_type == "generator" else participants.names[0]
    name = options.target or default
    if name not in participants.names:
        raise UsageError(f"--target={name} is not among the participants {', '.join(participants.names)}.")
    target = participants.names.index(name)
    for part, flag in (("validation", "--validation_fraction"), ("test", "--train_fraction or --validation_fraction")):
        labels = getattr(participants.silos[target], part).labels
        if not len(labels):
            raise UsageError(f"--target={name} has no {part} row: change {flag}.")
        if labels.min() == labels.max():
            raise UsageError(
                f"--target={name}: its {len(labels)} {part} rows are all of class {labels[0]}, so the AUC "
                f"is undefined. Change {flag}, or choose another target."
            )
    for other, silo in zip(participants.names, participants.silos, strict=True):
        if len(silo.train.labels) < 2:
            count = len(silo.train.labels)
            raise UsageError(f"Participant {other} has {count} training rows, but needs 2: raise --train_fraction.")
    return target


def find_choices(options: MabFlOptions, participants: silos.Silos, target: int) -> list[str]:
    """Combinations to choose from, as binary codes: 0110 is the second and third of four participants.

    Raises:
      UsageError: If there are too many, or `--fixed_combination` is not a valid combination.
    """
    count = len(participants.names)

    def code(members: Collection[int]) -> str:
        return "".join("01"[index in members] for index in range(count))

    named = {
        flags.TARGET_ALONE: [code([target])],
        flags.FEDAVG: ["1" * count],
        flags.PAIRS: [code([target, other]) for other in range(count) if other != target],
    }
    if options.choices in named:
        return named[options.choices]
    if options.choices == flags.FIXED:
        fixed = options.fixed_combination or ""
        if len(fixed) != count or set(fixed) - set("01") or fixed[target] != "1":
            raise UsageError(
                f"--fixed_combination={fixed} must have a 0 or 1 for each of {', '.join(participants.names)}, with a 1 "
                f"for the target {participants.names[target]}."
            )
        return [fixed]
    if count > _MOST_PARTICIPANTS:
        raise UsageError(
            f"--combinations=all would try {2 ** (count - 1):,} combinations of {count} participants. The limit is "
            f"{_MOST_PARTICIPANTS} participants: use --combinations=pairs."
        )
    codes = ("".join(bits) for bits in itertools.product("01", repeat=count))
    return [code for code in codes if code[target] == "1"]


def result(folder: pathlib.Path) -> dict[str, Any]:
    """A finished run's row of `results.csv`."""
    rounds = pd.read_csv(folder / "metrics.csv")
    learned = pd.read_csv(folder / "combinations.csv", dtype={"combination": str})
    last, best = rounds.iloc[-1], rounds.loc[rounds[metrics.GLOBAL_AUC].idxmax()]
    favourite = learned.loc[learned["adoptions"].idxmax()]
    return {
        "rounds": int(last["round_num"]),
        "best_round": int(best["round_num"]),
        "validation_auc": last[metrics.BEST_AUC],
        "test_auc": best[metrics.TEST_AUC],
        "favourite": favourite["combination"],
        "favourite_share": favourite["adoptions"] / learned["adoptions"].sum(),
        "communications": int(last[metrics.COMMUNICATIONS]),
    }


class MabFlStudy(frame.PlainStudy[MabFlOptions, silos.Silos]):
    """MAB-FL: a bandit chooses which participants a target is averaged with. A preset is a study of many settings."""

    flags = flags
    usage = flags.USAGE
    presets = flags.PRESETS
    shown_in_presets = ()
    chosen = "decision_rule"
    columns = metrics.COLUMNS
    headline = metrics.GLOBAL_AUC
    ranked_by = metrics.BEST_AUC
    rounds_per_checkpoint = 5
    name_help = "the name of the preset, or mab_fl_TASK_RULE"

    def presets_text(self) -> str:
        return flags.studies_text()

    def variants(self, settings: cli.Settings) -> Sequence[tuple[str, cli.Settings]]:
        if not settings.preset:
            return [("", settings)]
        chosen = flags.chosen_settings(settings.preset)
        if "/" in settings.preset:
            return [("", settings.with_defaults(values)) for values in chosen.values()]
        is_named = settings.is_given("experiment_name")
        whole = settings if is_named else settings.replace(experiment_name=settings.preset)
        return [
            (name, whole.with_defaults(values).replace(preset=f"{settings.preset}/{name}"))
            for name, values in chosen.items()
        ]

    def length(self, options: MabFlOptions) -> frame.Length:
        return frame.Length(options.total_rounds, 1, options.rounds_per_checkpoint)

    def data_key(self, options: MabFlOptions) -> silos.SiloOptions:
        return options.silos

    def open(self, options: MabFlOptions) -> silos.Silos:
        return silos.load(options.silos)

    def check(self, options: MabFlOptions, participants: silos.Silos) -> Sequence[str]:
        target = find_target(options, participants)
        find_choices(options, participants, target)
        corrupted = options.corrupted_participant
        others = [name for name in participants.names if name != participants.names[target]]
        if corrupted is not None and corrupted not in others:
            raise UsageError(
                f"--corrupted_participant={corrupted} must be a participant other than the target: one of "
                f"{', '.join(others)}."
            )
        return ()

    def recorded(self, options: MabFlOptions, participants: silos.Silos) -> Mapping[str, Any]:
        return {"target": participants.names[find_target(options, participants)]}

    def rounds(self, run: frame.Run) -> "experiment.MabFlRounds":
        from bandits.mab_fl import experiment

        target = find_target(run.options, run.data)
        return experiment.MabFlRounds(run.options, run.data, target, find_choices(run.options, run.data, target))

    def label(self, options: MabFlOptions) -> str:
        return options.setting or options.decision_rule

    def finish(self, run: frame.Run, rounds: Any, outcome: "runner.Outcome") -> None:
        if outcome.signum:
            return
        folder, options = run.folder.path, run.options
        files.replace(folder / "combinations.csv", rounds.combinations_csv(outcome.state))
        row = result(folder)
        print(
            f"{self.label(options)}, seed {options.seed}: {row['rounds']} rounds, best model in round "
            f"{row['best_round']} with test AUC {row['test_auc']:.4f}; combination {row['favourite']} in "
            f"{row['favourite_share']:.0%} of rounds; {row['communications']} communications.",
            flush=True,
        )

    def report(self, runs: Sequence[frame.Run]) -> None:
        top = pathlib.Path(os.path.commonpath([run.folder.path for run in runs]))
        if len(runs) > 1:
            results = pd.DataFrame(
                {"setting": self.label(run.options), "seed": run.options.seed} | result(run.folder.path) for run in runs
            )
            files.replace(top / "results.csv", files.as_csv(results, float_format="%.6g"))
            summary = results.groupby("setting", sort=False)["test_auc"].agg(["mean", "std", "count"])
            print(summary.to_string(float_format="{:.4f}".format))
        print(f"Results in {top}")


STUDY = MabFlStudy()

if __name__ == "__main__":
    frame.main(STUDY)
