"""Compares the regret of simulated learners in known environments with theoretical bounds; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses

from data.settings import setting
from optimization.study import cli

_USAGE = """
Simulates epsilon-greedy in environments whose true rewards are known, and compares the rates at which regret falls with
those of Agarwal et al. 2023, equation (8). It runs 20 seeds, which takes a minute or two.
"""


@dataclasses.dataclass(frozen=True)
class _Flags:
    """Flags."""

    seed: int = setting(0, "Random seed")


def define() -> cli.FlagSet:
    """Flags of `theory`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("Flags", _Flags)
    return flags


def program(settings: cli.Settings) -> None:
    """Prints the table of rates."""
    from bandits import theory
    from bandits.results import tables

    rates = theory.rates(settings.seed)
    print(tables.markdown(list(rates), rates.to_numpy().tolist()))


if __name__ == "__main__":
    cli.main(define(), program)
