"""Simulates federated learners in known environments, and writes a page that compares their regret with bounds."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import pathlib

from data import files
from optimization.study import cli
from optimization.study.settings import setting

_USAGE = """
Simulates environments whose true rewards are known, and compares regret with bounds of theory: 20 seeds, in minutes.

  theory                                                # prints the page
  theory --quick                                        # a tenth of most of it, in a minute or two
  theory --page=docs/evidence/theory.md --picture=docs/pictures/theory.png
"""


class _Flags:
    """Flags.

    Attributes:
      quick: A tenth of most runs, and fewer rounds: the same tables, with wider intervals and fewer rows.
      seed: Seed of all randomness.
      page: Markdown file to write; printed if left out.
      picture: Picture to write, a .png, .pdf or .svg file.
    """

    quick: bool = setting(False)
    seed: int = setting(0)
    page: pathlib.Path = setting()
    picture: pathlib.Path = setting()


def define() -> cli.FlagSet:
    """Flags of `theory`."""
    flags = cli.FlagSet(_USAGE)
    flags.group(_Flags)
    return flags


def program(settings: cli.Settings) -> None:
    """Runs all experiments."""
    for name, formats in (("page", (".md",)), ("picture", files.PICTURES)):
        if settings[name]:
            files.check_output(name, pathlib.Path(settings[name]), formats)
    from bandits.theory import findings, page

    def print_time(experiment: str, seconds: float) -> None:
        print(f"{experiment:<110}{seconds:6.1f} s", flush=True)

    text, curves = page.made(findings.Scale(settings.quick, settings.seed), print_time if settings.page else None)
    if settings.picture:
        page.draw(curves, pathlib.Path(settings.picture))
    if settings.page:
        files.replace(pathlib.Path(settings.page), text.encode())
    else:
        print(text)


if __name__ == "__main__":
    cli.main(define(), program)
