"""Recommends a strategy for a federated bandit: `python -m scripts.advise`; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

from bandits.advice.command import define, program
from optimization.study import cli

if __name__ == "__main__":
    cli.main(define(), program)
