"""Runs a federated multi-armed bandit over ads, and a centralised one on the same impressions; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from bandits.ads import flags, metrics
from bandits.ads.flags import AdsOptions
from data import ads
from data.errors import UsageError
from optimization.study import frame, run_folder

if TYPE_CHECKING:
    from bandits.ads import experiment
    from optimization.study import runner

_MOST_CLICKS = 10**9


class AdsStudy(frame.PlainStudy[AdsOptions, ads.Impressions]):
    """Federated MAB: devices run epsilon-greedy or another rule, and the server averages changes in action values."""

    flags = flags
    usage = flags.USAGE
    presets = flags.PRESETS
    shown_in_presets = ("decision_rule", "client_weighting")
    chosen = "decision_rule"
    columns = metrics.COLUMNS
    headline = metrics.column("federated", metrics.AVERAGE_CLICKS)
    ranked_by = metrics.column("federated", metrics.TOTAL_REWARD)
    rounds_per_checkpoint = 10
    name_help = "ads_PRESET or ads_RULE"

    def open(self, options: AdsOptions) -> ads.Impressions:
        if not options.rates:
            return ads.from_table(ads.find_table(options.data_file), options.num_clients, options.seed)
        if (made := options.num_clients * options.impressions_per_client * len(options.rates)) > _MOST_CLICKS:
            raise UsageError(
                f"--clients={options.num_clients} with --impressions_per_client={options.impressions_per_client} need "
                f"{made:,} sampled clicks for all ads, but the maximum is {_MOST_CLICKS:,}: lower one of them."
            )
        return ads.bernoulli(options.rates, options.num_clients, options.impressions_per_client, options.seed)

    def check(self, options: AdsOptions, impressions: ads.Impressions) -> Sequence[str]:
        _, share, num_ads = impressions.clicks.shape
        if options.tries_all_first and options.local_pulls <= num_ads:
            raise UsageError(
                f"--decision_rule={options.decision_rule} tries every ad once per round before it chooses, so "
                f"--local_pulls={options.local_pulls} with {num_ads} ads shows them uniformly. Use more than {num_ads} "
                "pulls, or federated_ucb, which keeps its intervals between rounds."
            )
        each = options.pulls_per_impression
        pulls = options.local_pulls * options.total_rounds
        if pulls > share * each:
            repeats = f"each is shown {each} times" if each > 1 else "none is shown twice"
            raise UsageError(
                f"--local_pulls={options.local_pulls} in --total_rounds={options.total_rounds} make {pulls} pulls, but "
                f"each of the {options.num_clients} clients has {share} impressions, and {repeats}."
            )
        return ()

    def rounds(self, run: frame.Run) -> "experiment.AdsRounds":
        from bandits.ads import experiment

        return experiment.AdsRounds(run.options, run.data)

    def label(self, options: AdsOptions) -> str:
        return options.decision_rule

    def finish(self, run: frame.Run, rounds: Any, outcome: "runner.Outcome") -> None:
        folder = run.folder
        spent = rounds.mechanism.report(outcome.round_num)
        folder.write_json(run_folder.PRIVACY_FILE, run_folder.with_disclosures(spent))
        if outcome.signum:
            return
        last = pd.read_csv(folder.metrics_path).iloc[-1]
        for learner in metrics.LEARNERS:
            clicks, share, reward, regret = (last[metrics.column(learner, name)] for name in metrics.METRICS)
            shown = f"{clicks:.3f} clicks per impression, best ad in {share:.1%} of pulls"
            shown = "no participants" if math.isnan(share) else shown
            print(f"{learner}: {int(reward)} clicks, regret {regret:.1f}; in the last round {shown}.")
        print(spent["summary"])
        if rounds.mechanism.kind != "none":
            print(run_folder.NOTICE)
        print(f"Results in {folder.path}: metrics.csv, config.json, privacy.json")


STUDY = AdsStudy()

if __name__ == "__main__":
    frame.main(STUDY)
