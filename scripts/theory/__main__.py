"""`python -m scripts.theory`; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

from optimization.study import cli
from scripts.theory.command import define, program

if __name__ == "__main__":
    cli.main(define(), program)
