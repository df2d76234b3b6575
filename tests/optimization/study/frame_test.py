import json
import pathlib
import signal
import sys
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bandits import studies
from data import objects
from data.errors import Failure, UsageError
from data.settings import Setting
from optimization.study import cli, frame, interruption, metrics, runner
from optimization.study.metrics import Metric

WEIGHT = Metric("toy/weight", "the weight", better="up")
ERROR = Metric("toy/error", "its error", better="down", evaluated=True)


class Rounds(runner.Rounds):
    def __init__(self, options: cli.Settings):
        self._options = options

    def initial_state(self):
        return np.float64(self._options.seed)

    def run_round(self, state, round_num):
        if {0.5: 2, 0.75: self._options.total_rounds}.get(self._options.rate) == round_num:
            signal.raise_signal(signal.SIGTERM)
        weight = state + self._options.rate
        return weight, {WEIGHT: weight}

    def evaluate(self, state):
        return {ERROR: abs(10 - state)}

    def model(self, state):
        return {"weight": np.asarray(state, np.float32)}


class Toy(frame.PlainStudy[cli.Settings, Any]):
    usage = "A toy."
    chosen = "rate"
    columns = (WEIGHT, ERROR)
    headline = ranked_by = WEIGHT
    rounds_per_checkpoint = 2
    name_help = "toy_RATE"

    def __init__(self, presets: pathlib.Path):
        self.presets = presets
        self.opened: list[int] = []
        self.reported: list[list[str]] = []

    def define(self, flags: cli.FlagSet) -> None:
        flags.add(
            Setting("rate", str, "what a round adds, one or several", "0.25"),
            Setting("clients", int, "clients", 3),
            Setting("clients_per_round", int, "clients in a cohort", 5, low=1),
            Setting("total_rounds", int, "rounds", 4, low=1),
        )

    def variants(self, settings):
        ((_, settings),) = super().variants(settings)
        rates = str(settings.rate).split(",")
        if len(rates) > 1 and not settings.is_given("experiment_name"):
            settings = settings.replace(experiment_name="toys")
        return [(f"rate_{rate}" if len(rates) > 1 else "", settings.replace(rate=rate)) for rate in rates]

    def resolve(self, settings: cli.Settings) -> cli.Settings:
        if float(settings.rate) > 1:
            raise UsageError(f"--rate={settings.rate} is above 1.")
        return settings.replace(rate=float(settings.rate))

    def default_name(self, settings: cli.Settings) -> str:
        return f"toy_{settings.rate}"

    def options(self, settings: cli.Settings) -> cli.Settings:
        return settings

    def length(self, options: cli.Settings) -> frame.Length:
        return frame.Length(options.total_rounds, 2, 2)

    def data_key(self, options: cli.Settings) -> Any:
        return options.clients

    def open(self, options: cli.Settings) -> Any:
        self.opened.append(options.clients)
        checksum = f"{options.clients} clients"
        return types.SimpleNamespace(clients=options.clients, checksum=checksum, report={}, statistics={"mean": 1.0})

    def population(self, options: cli.Settings, data: Any) -> int:
        return data.clients

    def check(self, options: cli.Settings, data: Any) -> Sequence[str]:
        if data.clients == 13:
            raise UsageError("--clients=13 is unlucky.")
        return [f"Warning: {data.clients} clients are few."]

    def rounds(self, run: frame.Run) -> Rounds:
        return Rounds(run.options)

    def label(self, options: cli.Settings) -> str:
        return f"rate {options.rate}"

    def start_worker(self, settings: cli.Settings) -> None:
        pass

    def report(self, runs) -> None:
        self.reported.append([run.folder.path.name for run in runs])


@pytest.fixture
def study(tmp_path):
    presets = tmp_path / "presets"
    presets.mkdir()
    (presets / "all.toml").write_text('[slow]\nabout = "A study, 1"\nrate = "0.125"\nclients_per_round = 5\n')
    return Toy(presets)


@pytest.fixture
def execute(study, tmp_path):
    def start(*arguments: str, callbacks: Sequence[Any] = ()) -> int:
        settings = frame.flag_set(study).parse(["toy", f"--root_output_dir={tmp_path / 'runs'}", *arguments])
        if callbacks:
            settings = settings.with_user_values(callbacks=[objects.of(one) for one in callbacks])
        return frame.program(study, settings)

    return start


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        (["--seed=0"], [("toy_0.25", 0, 0.25)]),
        (["--seed=3"], [("toy_0.25_seed_3", 3, 0.25)]),
        (["--seed=3", "--experiment_name=mine"], [("mine", 3, 0.25)]),
        (["--seed=3", "--repeat=2"], [("toy_0.25/seed_3", 3, 0.25), ("toy_0.25/seed_4", 4, 0.25)]),
        (["--seed=3", "--rate=0.5,0.1"], [("toys_seed_3/rate_0.5", 3, 0.5), ("toys_seed_3/rate_0.1", 3, 0.1)]),
        (["--rate=0.1,0.2", "--repeat=2"], [(f"toys/rate_{r}/seed_{s}", s, r) for r in (0.1, 0.2) for s in (0, 1)]),
    ],
)
def test_each_variant_and_seed_has_its_folder(study, arguments, runs):
    planned = frame.plan(study, frame.flag_set(study).parse(["", *arguments]))
    assert [(one.experiment_name, one.seed, one.rate) for one in planned] == runs


def test_runs_leave_their_folders_and_are_reported_together(study, execute, tmp_path, capsys):
    assert execute("--repeat=2", "--experiment_name=a") == 0
    assert capsys.readouterr().err.count("Warning: 3 clients are few.") == 1
    folder = tmp_path / "runs" / "a" / "seed_1"
    table = pd.read_csv(folder / "metrics.csv")
    assert list(table.columns) == ["round_num", WEIGHT, ERROR, "seconds"]
    assert table[WEIGHT].tolist() == [1.25, 1.5, 1.75, 2.0]
    assert table[ERROR].dropna().tolist() == [8.5, 8.0]
    config = json.loads((folder / "config.json").read_text())
    assert (config["flags"]["seed"], config["flags"]["repeat"], config["data_checksum"]) == (1, 1, "3 clients")
    assert json.loads((folder / "statistics.json").read_text()) == {"mean": 1.0}
    assert np.load(folder / "model" / "weights.npz")["weight"] == 2.0
    assert (study.opened, study.reported) == ([3], [["seed_0", "seed_1"]])


@pytest.mark.parametrize(
    ("arguments", "size", "message"),
    [
        ([], 3, ["--clients_per_round is reduced to 3, because there are no more clients."]),
        (["--clients_per_round=4"], 4, []),
        (["--preset=slow"], 3, ["--clients_per_round is reduced to 3, because there are no more clients."]),
    ],
)
def test_a_cohort_that_the_user_did_not_size_is_no_larger_than_the_population(
    execute, tmp_path, capsys, arguments, size, message
):
    execute("--experiment_name=a", *arguments)
    assert json.loads((tmp_path / "runs" / "a" / "config.json").read_text())["flags"]["clients_per_round"] == size
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("--")] == message
    execute("--experiment_name=a", *arguments)  # It is continued, not refused.


@pytest.mark.parametrize("name", ["run_federated", "run_client_selection", "run_posterior"])
def test_a_cohort_is_at_most_a_tables_clients(name, tmp_path):
    (tmp_path / "table.csv").write_text("site,x,y\n" + "a,1,0\nb,2,1\na,3,1\nb,0,0\n" * 3)
    study = studies.load(studies.STUDIES[name])
    flags = ["--task_type=tabular", f"--data_file={tmp_path / 'table.csv'}", "--client_column=site", "--label_column=y"]

    def prepared(*more: str) -> list[frame.Run]:
        argv = [name, f"--root_output_dir={tmp_path}", *flags, *more]
        return frame.prepare(study, frame.plan(study, frame.flag_set(study).parse(argv)))

    (run,) = prepared()
    assert json.loads(run.folder.config_path.read_text())["flags"]["clients_per_round"] == 2
    with pytest.raises(UsageError, match=r"--clients_per_round=3 (is more than|must be from)"):
        prepared("--clients_per_round=3")


def test_a_bad_last_variant_is_refused_before_any_folder_is_made(execute, tmp_path):
    with pytest.raises(UsageError, match="--rate=2 is above 1"):
        execute("--rate=0.1,2")
    with pytest.raises(UsageError, match="--clients=13 is unlucky"):
        execute("--clients=13")
    assert not (tmp_path / "runs").exists()


def test_a_signal_in_the_last_round_finishes_that_run_and_starts_no_other(study, execute, as_program, tmp_path):
    folders = [tmp_path / "runs" / "toy_0.75" / f"seed_{seed}" for seed in (0, 1)]
    assert execute("--rate=0.75", "--repeat=2") == 128 + signal.SIGTERM
    assert [(folder / "model" / "weights.npz").exists() for folder in folders] == [True, False]
    assert not (folders[1] / "metrics.csv").exists()
    assert study.reported == []
    with interruption.held() as received:
        assert execute("--rate=0.75", "--repeat=2") == 0  # Finished, though a signal came in the last round of all.
    assert received == [signal.SIGTERM]
    assert len(study.reported) == 1


class Observer:
    def __init__(self, fails_in: int = 0):
        self.seen: list[Any] = []
        self._fails_in = fails_in

    def on_start(self, run):
        self.seen.append(f"after {run.first_round}")

    def on_round(self, row):
        self.seen.append((row["round_num"], row[WEIGHT]))
        if row["round_num"] == self._fails_in:
            raise ConnectionError("no network")

    def on_end(self, run):
        self.run = run
        self.seen.append(run.status)


def test_callbacks_see_the_run_its_rounds_and_its_results(execute, tmp_path):
    observer = Observer()
    assert execute("--rate=0.5", "--clients=4", "--total_rounds=1", callbacks=[observer]) == 0
    assert observer.seen == ["after 0", (1, 0.5), "finished"]
    run = observer.run
    assert (run.folder, run.label) == (tmp_path / "runs" / "toy_0.5", "rate 0.5")
    assert (run.flags["clients"], list(run.columns)) == (4, [WEIGHT, ERROR])
    assert run.results().metrics[WEIGHT].tolist() == [0.5]
    assert run.results().weights == {"weight": np.float32(0.5)}


def test_a_stopped_run_says_how_to_go_on_and_calls_the_callbacks_of_its_continuation(
    study, execute, as_program, tmp_path, capsys
):
    observer, later = Observer(), Observer()
    assert execute("--rate=0.5", callbacks=[observer]) == 128 + signal.SIGTERM
    assert observer.seen == ["after 0", (1, 0.5), (2, 1.0), "SIGTERM"]
    where = tmp_path / "runs" / "toy_0.5"
    assert f"Stopped; finished rounds are saved. The same command continues {where}.\n" in capsys.readouterr().err
    assert not (where / "model" / "weights.npz").exists()
    assert study.reported == []
    assert execute("--rate=0.5", callbacks=[later]) == 0
    assert later.seen == ["after 2", (3, 1.5), (4, 2.0), "finished"]
    assert pd.read_csv(where / "metrics.csv")["round_num"].tolist() == [1, 2, 3, 4]


def test_a_callback_that_fails_is_named_once_its_round_is_saved(execute, tmp_path):
    observer = Observer(fails_in=3)
    with pytest.raises(Failure, match=r"callback Observer failed in on_round: ConnectionError: no network\. .*/toy"):
        execute(callbacks=[observer])
    assert observer.seen == ["after 0", (1, 0.25), (2, 0.5), (3, 0.75), "failed"]
    assert observer.run.results().metrics[WEIGHT].tolist() == [0.25, 0.5, 0.75]
    assert execute() == 0  # Callbacks may differ.
    table = pd.read_csv(tmp_path / "runs" / "toy_0.25" / "metrics.csv")
    assert table[WEIGHT].tolist() == [0.25, 0.5, 0.75, 1.0]


def test_a_callback_that_fails_twice_or_exits_is_reported_with_its_first_failure(execute):
    leaving = types.SimpleNamespace(on_round=lambda row: sys.exit("no quota"))
    with pytest.raises(Failure, match=r"on_round: SystemExit: no quota\. The run is in"):
        execute(callbacks=[leaving])
    failing = types.SimpleNamespace(on_round=leaving.on_round, on_end=lambda run: 1 / 0)
    with pytest.raises(
        Failure, match=r"on_round: SystemExit.* failed in on_end: ZeroDivisionError: division by zero\."
    ):
        execute("--experiment_name=other", callbacks=[failing])


def test_every_method_of_a_callback_is_optional_but_not_all(execute, tmp_path):
    assert execute(callbacks=[types.SimpleNamespace(on_end=lambda run: None)]) == 0
    with pytest.raises(UsageError, match="--callbacks: int needs a method on_start, on_round or on_end"):
        execute("--experiment_name=new", callbacks=[Observer(), 3])
    assert not (tmp_path / "runs" / "new").exists()


class Newer(Toy):
    def define(self, flags: cli.FlagSet) -> None:
        super().define(flags)
        flags.add(Setting("proximal", float, "pull to the start", 0.0))


def test_a_run_from_before_a_setting_goes_on_with_its_default_alone(study, execute, tmp_path):
    execute("--experiment_name=a")
    newer = Newer(study.presets)
    words = ["toy", f"--root_output_dir={tmp_path / 'runs'}", "--experiment_name=a", "--total_rounds=6"]
    with pytest.raises(UsageError, match=r"--proximal was 0\.0, is 0\.5"):
        frame.program(newer, frame.flag_set(newer).parse([*words, "--proximal=0.5"]))
    assert frame.program(newer, frame.flag_set(newer).parse(words)) == 0
    assert len(pd.read_csv(tmp_path / "runs" / "a" / "metrics.csv")) == 6


def test_a_run_that_diverged_ends_in_a_warning(execute, monkeypatch, capsys):
    def run_round(self, state, round_num):
        return state, {WEIGHT: 1.0, metrics.NONFINITE_CLIENTS: int(round_num > 2)}

    monkeypatch.setattr(Rounds, "run_round", run_round)
    monkeypatch.setattr(Toy, "columns", (*Toy.columns, metrics.NONFINITE_CLIENTS))
    assert execute() == 0
    assert "\nWarning: Training diverged: in 2 of 4 rounds, 2 updates" in capsys.readouterr().err


@pytest.mark.parametrize("module", studies.STUDIES.values())
def test_every_study_says_what_the_frame_needs(module):
    study = studies.load(module)
    assert {study.headline, study.ranked_by} <= set(study.columns)
    assert study.chosen in frame.flag_set(study).parse(["x"])
    assert study.ranked_by.better in ("up", "down")
    assert len(set(study.columns)) == len(study.columns)
    assert list(study.presets.glob("*.toml"))
