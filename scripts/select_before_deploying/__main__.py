"""`python -m scripts.select_before_deploying`; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

from optimization.study import cli
from scripts.select_before_deploying.command import define, program

if __name__ == "__main__":
    cli.main(define(), program)
