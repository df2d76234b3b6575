"""`python -m scripts.flags_benchmark`; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

from optimization.study import cli
from scripts.benchmark.flags import define, program

if __name__ == "__main__":
    cli.main(define(), program)
