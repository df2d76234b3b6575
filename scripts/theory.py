"""Compares the regret of simulated learners in known environments with bounds and published results; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses

from data.settings import setting
from optimization.study import cli

_USAGE = """
Simulates learners in environments whose true rewards are known. Each figure takes a minute or two.

  theory                                 # epsilon-greedy: rates of regret, and equation (8) of Agarwal et al. 2023
  theory --figure=fedlinucb_synthetic    # federated linear bandits: regret and messages, and those in He et al. 2022
"""
_RATES, _FEDLINUCB = "rates", "fedlinucb_synthetic"


@dataclasses.dataclass(frozen=True)
class _Flags:
    """Flags."""

    figure: str = setting(_RATES, "Learners to simulate, as above", (_RATES, _FEDLINUCB))
    seed: int = setting(0, "First random seed")
    repeat: int = setting(None, "Number of seeds", low=2, only={"figure": (_FEDLINUCB,)}, applied_default=20)


def define() -> cli.FlagSet:
    """Flags of `theory`."""
    return cli.FlagSet(_USAGE).group("Flags", _Flags)


def program(settings: cli.Settings) -> None:
    """Prints the tables of a figure."""
    settings = settings.checked()
    from bandits import fedlinucb, theory
    from bandits.results import tables

    if settings.figure == _RATES:
        rates = theory.rates(settings.seed)
        print(tables.markdown(list(rates), rates.to_numpy().tolist()))
        return
    for name in fedlinucb.EXPERIMENTS:
        table, verdict = fedlinucb.compare(name, settings.seed, settings.repeat)
        print(f"\n{name}, {settings.repeat} seeds, mean ± standard deviation\n")
        print(tables.markdown(list(table), table.to_numpy().tolist()))
        print(f"\n{verdict}", flush=True)


if __name__ == "__main__":
    cli.main(define(), program)
