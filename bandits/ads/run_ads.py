"""Runs a federated multi-armed bandit over ads, and a centralised one on the same impressions; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import sys

from bandits.ads import flags, metrics
from data import ads
from data.errors import UsageError
from optimization.study import cli, presets, run_folder, worker_flags

_MOST_CLICKS = 10**9


def load_impressions(settings: cli.Settings) -> ads.Impressions:
    """Opens the table, or draws impressions, and checks that they suffice.

    Raises:
      UsageError: If the table is not sound, or the clients pull more often than they have impressions, or so seldom in
        a round that the rule cannot choose.
    """
    if settings.rates:
        rates = ads.parse_rates(settings.rates)
        if (made := settings.clients * settings.impressions_per_client * len(rates)) > _MOST_CLICKS:
            raise UsageError(
                f"--clients={settings.clients} with --impressions_per_client={settings.impressions_per_client} are "
                f"{made:,} clicks to draw for all ads: give fewer, at most {_MOST_CLICKS:,}."
            )
        impressions = ads.bernoulli(rates, settings.clients, settings.impressions_per_client, settings.seed)
    else:
        impressions = ads.from_table(ads.find_table(settings.data_file), settings.clients, settings.seed)
    _, share, num_ads = impressions.clicks.shape
    if settings.decision_rule in flags.TRIES_ALL_FIRST and settings.local_pulls <= num_ads:
        raise UsageError(
            f"--decision_rule={settings.decision_rule} tries every ad once in each round before it chooses: "
            f"--local_pulls={settings.local_pulls} of {num_ads} ads are a uniform display. Give more than {num_ads} "
            "pulls, or federated_ucb, whose intervals last."
        )
    pulls = settings.local_pulls * settings.total_rounds
    if pulls > share:
        raise UsageError(
            f"--local_pulls={settings.local_pulls} in --total_rounds={settings.total_rounds} are {pulls} pulls, but "
            f"each of --clients={settings.clients} has {share} impressions, and none is shown twice."
        )
    return impressions


def run(settings: cli.Settings, impressions: ads.Impressions, folder: run_folder.RunFolder) -> int:
    """Plays one run and returns the exit status."""
    from bandits.ads import experiment, figures
    from optimization.study import runner

    outcome = runner.run(
        experiment.build(settings, impressions),
        folder,
        total_rounds=settings.total_rounds,
        rounds_per_eval=0,
        rounds_per_checkpoint=settings.rounds_per_checkpoint,
        label=settings.decision_rule,
    )
    spent = experiment.mechanism(settings).report(outcome.round_num)
    folder.write_json(run_folder.PRIVACY_FILE, spent)
    if outcome.signum:
        print(f"Stopped; what was done is saved. {run_folder.continuing(settings)} {folder.path}.", file=sys.stderr)
        return 128 + outcome.signum
    table = figures.read(folder.metrics_path)
    figures.draw({settings.decision_rule: [table]}, folder.path / "ads.png", impressions.rates.max())
    last = table.iloc[-1]
    for learner in metrics.LEARNERS:
        clicks, share, reward, regret = (last[metrics.column(learner, name)] for name in metrics.METRICS)
        print(
            f"{learner}: {int(reward)} clicks, regret {regret:.1f}; in the last round {clicks:.3f} clicks an "
            f"impression, best ad {share:.1%}."
        )
    print(spent["summary"])
    print(f"Results in {folder.path}: metrics.csv, ads.png, config.json, privacy.json")
    return 0


def program(settings: cli.Settings) -> int:
    """Runs `--repeat` runs after another; returns the first exit status that is not 0."""
    if settings.list_presets:
        print(presets.table(flags.PRESETS, ("decision_rule", "client_weighting")))
        return 0
    settings = flags.resolve(settings)
    runs = []
    for seed in cli.seeds(settings):
        name = settings.experiment_name if settings.repeat == 1 else f"{settings.experiment_name}/seed_{seed}"
        one = settings.replace(seed=seed, experiment_name=name, repeat=1)
        impressions = load_impressions(one)
        folder = run_folder.RunFolder(f"{settings.root_output_dir}/{name}")
        folder.open(one, impressions.checksum, {"ads": impressions.names, "rates": impressions.rates.tolist()})
        runs.append((one, impressions, folder))

    worker_flags.start(settings)
    for one, impressions, folder in runs:
        if status := run(one, impressions, folder):
            return status
    return 0


if __name__ == "__main__":
    cli.main(flags.define(), program)
