"""`python -m scripts.client_selection_benchmark`; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

from optimization.study import cli
from scripts.benchmark.client_selection import define, program

if __name__ == "__main__":
    cli.main(define(), program)
