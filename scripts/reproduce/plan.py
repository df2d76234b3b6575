"""Which figures and tables can be reproduced, and which runs each consists of: TOML files in `published/`.

A file holds the figures of one text. Nothing here reads data or imports TensorFlow.
"""

import dataclasses
import itertools
import pathlib
import re
import string
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits import studies
from data.errors import UsageError
from optimization.study import cli, presets
from scripts.grid import building
from scripts.grid import plan as grid_plan

PAPER, SMALL = "paper", "small"
SCALES = {
    PAPER: "the text's data, rounds and seeds: days on one machine",
    SMALL: "stand-in data and few rounds: minutes; shows that all works, not what the text found",
}
ALL = "all"
OWN_FIGURES = ("", "client_losses", "study")
_FOLDER = pathlib.Path(__file__).parent / "published"
_TEXT = "text"
_EVERY_ARM = "*"
_INIT = "Init"  # The row of the initial training, which all rows of its table share.
_KEYS = {
    *(
        "about",
        "also",
        "arms",
        "binary",
        "claims",
        "compared",
        "curves",
        "data",
        "flags",
        "grid",
        "measures",
        "own_figures",
    ),
    *("published", "repeat", "searched", "small", "study", "sweeps", "words"),
}
_SMALL_KEYS = {"arms", "at", "compared", "data", "flags", "only", "own", "repeat", "sweeps"}
_CLAIM_KINDS = ("order", "close", "near_best", "not_worse", "between", "steady")


@dataclasses.dataclass(frozen=True)
class Arm:
    """One curve of a figure, or row of a table.

    Attributes:
      label: Its name; those of several axes are joined by commas.
      words: The label's parts, one an axis.
      arguments: Flags of its binary.
      sweeps: Values to search, as `--sweep` of the grid; without any, it is one run a seed.
      grid: A published grid to search.
      is_drawn: Whether it is drawn, or only compared with.
    """

    label: str
    words: tuple[str, ...]
    arguments: tuple[str, ...]
    sweeps: tuple[str, ...] = ()
    grid: str | None = None
    is_drawn: bool = True


@dataclasses.dataclass(frozen=True)
class Measure:
    """One number of a run.

    Attributes:
      name: What it is called.
      column: Column of `metrics.csv`; or `FILE.npz:FIELD` of the run's folder.
      at: A round, or `last`, `first`, `mean`, `max`, `deviation` (of residuals to the mean over seeds), or
        `rounds to X`.
      smallest: Whether less is better.
    """

    name: str
    column: str
    at: int | str = "last"
    smallest: bool = False


@dataclasses.dataclass(frozen=True)
class Published:
    """A number that the text states.

    Attributes:
      arm: Label.
      measure: Name.
      value: The number.
      place: Where it stands in the text.
    """

    arm: str
    measure: str
    value: float
    place: str


@dataclasses.dataclass(frozen=True)
class Claim:
    """What the text says without a number for each, checked on ours.

    An operand is `label`, or `label @ measure`; `A | B` is the better of two.

    Attributes:
      says: The claim in short.
      place: Where it stands in the text.
      kind: `order`: each group's operands are better than all of the next group. `close`: the operands differ by at
        most `within`. `near_best`: the first is at most `within` behind the best of all drawn arms. `not_worse`: the
        first is at most `within` behind the second. `between`: the operand, or the distance of two, lies in
        `[low, high]`. `steady`: the operand's seeds deviate by at most `within`.
      operands: Groups of operands.
      within: Tolerance; where the text names none, it is our reading of its words.
      low: Of `between`.
      high: Of `between`.
    """

    says: str
    place: str
    kind: str
    operands: tuple[tuple[str, ...], ...]
    within: float = 0.0
    low: float = 0.0
    high: float = 0.0


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure or table at one scale.

    Attributes:
      name: As in `--figure`.
      text: Authors and year.
      about: What it is.
      also: Other names of it.
      binary: Name in `studies.STUDIES`.
      arms: What is run.
      repeat: Seeds.
      measures: What is taken of each run; the first decides searches.
      curves: Columns drawn over rounds.
      searched: Flags whose best values are reported.
      published: Numbers of the text.
      claims: Orderings of the text.
      own_figures: Which of the study's own pictures are drawn beside.
      study: The `run_mab_fl` study that the arms are taken from.
      stand_in: Which data stand in for the text's, if any do.
    """

    name: str
    text: str
    about: str
    also: tuple[str, ...]
    binary: str
    arms: tuple[Arm, ...]
    repeat: int
    measures: tuple[Measure, ...]
    curves: tuple[str, ...]
    searched: tuple[str, ...]
    published: tuple[Published, ...]
    claims: tuple[Claim, ...]
    own_figures: str | None
    study: str | None
    stand_in: str | None

    def runs(self, repeat: int, base: Sequence[str], folder: pathlib.Path) -> dict[str, list[grid_plan.Run]]:
        """Returns the runs of each arm.

        Args:
          repeat: Seeds.
          base: Flags that all runs share.
          folder: Where runs of earlier figures lie; what is the same run has the same folder.

        Raises:
          UsageError: If an arm's flags are not sound; it names the figure and arm.
        """
        return {arm.label: self._runs(arm, repeat, base, folder) for arm in self.arms}

    def check(self) -> None:
        """Checks the flags of each arm, of a search only one point: all of them take minutes.

        Raises:
          UsageError: As `runs`.
        """
        for arm in self.arms:
            self._runs(arm, 1, (), None)

    def _runs(self, arm: Arm, repeat: int, base: Sequence[str], folder: pathlib.Path | None) -> list[grid_plan.Run]:
        try:
            grid = building.build(
                (*arm.arguments, *base), sweeps=arm.sweeps, repeat=repeat, binary=self.binary, grid=arm.grid
            )
            if folder is not None:
                return grid.in_folder(folder).runs()
            first = {name: values[:1] for name, values in grid.blocks[0].items()}
            return dataclasses.replace(grid, blocks=(first,)).runs()
        except UsageError as error:
            raise UsageError(f"--figure={self.name}, {arm.label}: {error}") from error


def load(scale: str) -> dict[str, Figure]:
    """Returns all figures by name, in the order of the texts' files.

    Raises:
      ValueError: If a file is not sound; it names the figure.
    """
    found = {}
    for path in sorted(_FOLDER.glob("*.toml")):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        shared = tables.pop(_TEXT)
        text = shared.pop("title")
        for name, table in tables.items():
            try:
                found[name] = _read(name, text, shared | table, scale)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path.name}, {name}: {error!r}") from error
    return found


def choose(names: str, scale: str) -> list[Figure]:
    """Returns the figures of `--figure`: names separated by commas, or `all`.

    Raises:
      UsageError: If one is not known; it names those that are near.
    """
    known = load(scale)
    if names == ALL:
        return list(known.values())
    by_name = known | {other: figure for figure in known.values() for other in figure.also}
    found = {}
    for name in names.split(","):
        if name not in by_name:
            raise cli.unknown("figure", name, by_name, "--list prints their names.")
        found[by_name[name].name] = by_name[name]
    return list(found.values())


def listing() -> str:
    """Returns all figures as text, a line each."""
    lines = []
    for figure in load(PAPER).values():
        others = f" (also {', '.join(figure.also)})" if figure.also else ""
        lines.append(f"{figure.name:<24}{figure.text}, {figure.about}{others}")
    return "\n".join(lines)


def _read(name: str, text: str, table: Mapping[str, Any], scale: str) -> Figure:
    small = table.get("small", {})
    for where, keys, known in (("", table, _KEYS), ("small.", small, _SMALL_KEYS)):
        if unknown := set(keys) - known:
            raise ValueError(f"unknown {where}{', '.join(sorted(unknown))}")
    if table.get("own_figures", "") not in OWN_FIGURES:
        raise ValueError(f"own_figures must be one of {', '.join(OWN_FIGURES)}")
    is_small = scale == SMALL
    at = small.get("at", {}) if is_small else {}
    measures = tuple(
        Measure(one, **({key: value for key, value in values.items()} | ({"at": at[one]} if one in at else {})))
        for one, values in table["measures"].items()
    )
    arms = _arms(table, small if is_small else None)
    return Figure(
        name=name,
        text=text,
        about=table["about"],
        also=tuple(table.get("also", ())),
        binary=table["binary"],
        arms=arms,
        repeat=small["repeat"] if is_small else table["repeat"],
        measures=measures,
        curves=tuple(table.get("curves", ())),
        searched=tuple(table.get("searched", ())),
        published=(*_published(table, measures[0].name), *_preset_values(table)),
        claims=tuple(one for claim in table.get("claims", ()) for one in _claims(claim)),
        own_figures=table.get("own_figures") or None,
        study=table.get("study"),
        stand_in=f"{small['data']}, fewer rounds or seeds" if is_small else table.get("data"),
    )


def _arms(table: Mapping[str, Any], small: Mapping[str, Any] | None) -> tuple[Arm, ...]:
    axes: list[Mapping[str, str]] = table.get("arms", [])
    if "study" in table:
        from bandits.mab_fl import studies as mab_fl

        names = [one.name for one in mab_fl.load()[table["study"]].settings]
        axes = [{name: f"--preset={table['study']}/{name} --repeat=1" for name in names}]
    sweeps, grid, ends = table.get("sweeps", {}), table.get("grid"), [table.get("flags", "")]
    compared = table.get("compared", {})
    own: Mapping[str, str] = {}
    if small is not None:
        axes = small.get("arms", axes)
        only = set(small.get("only", ()))
        axes = [{label: axis[label] for label in axis if not only & set(axis) or label in only} for axis in axes]
        compared = {label: f"{compared[label]} {flags}" for label, flags in small.get("compared", {}).items()}
        sweeps, grid, own = small.get("sweeps", {}), None, small.get("own", {})
        ends.append(small["flags"])
    arms = []
    for words in itertools.product(*axes):
        label = ", ".join(words)
        flags = [axis[word] for axis, word in zip(axes, words, strict=True)]
        flags += ends + [own[word] for word in words if word in own]
        tried = sweeps.get(label, sweeps.get(_EVERY_ARM))
        found_by = grid if tried is None else None
        arms.append(Arm(label, words, _arguments(flags, table), tuple(_sweeps(tried or {})), found_by))
    others = [Arm(label, (label,), _arguments([flags], table), is_drawn=False) for label, flags in compared.items()]
    return (*arms, *others)


def _arguments(flags: Sequence[str], table: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(string.Template(" ".join(flags)).substitute(table.get("words", {})).split())


def _sweeps(values: Mapping[str, Iterable[Any]]) -> list[str]:
    return [f"{flag}={';'.join(map(grid_plan.as_text, tried))}" for flag, tried in values.items()]


def _published(table: Mapping[str, Any], measure: str) -> Iterable[Published]:
    """Yields the text's numbers. A list of them runs over the second axis; not a number stands for a dash."""
    for block in table.get("published", ()):
        for label, value in block["values"].items():
            labels = [label]
            if isinstance(value, list):
                labels = [f"{label}, {word}" for word in table["arms"][1]]
            for one, number in zip(labels, value if isinstance(value, list) else [value], strict=True):
                if number == number:
                    yield Published(one, block.get("measure", measure), float(number), block["place"])


def _preset_values(table: Mapping[str, Any]) -> Iterable[Published]:
    """Yields the values of searched flags that the arms' presets have: presets are the rows of published tables."""
    if "searched" not in table:
        return
    known = presets.load(studies.load(studies.STUDIES[table["binary"]]).presets)
    place = table["about"].partition(":")[0]
    for label, flags in table["arms"][0].items():
        preset = known[re.findall(r"--preset=(\S+)", flags)[0]]
        for flag in table["searched"]:
            if flag in preset.values and not (label != _INIT and flag.startswith("init_")):
                yield Published(label, flag, float(preset.values[flag]), place)


def _claims(claim: Mapping[str, Any]) -> Iterable[Claim]:
    """Yields a claim, or one for each label of the second axis."""
    (kind,) = [kind for kind in _CLAIM_KINDS if kind in claim]
    values = claim[kind]
    groups = [values] if isinstance(values, str) else values
    groups = [(group,) if isinstance(group, str) else tuple(group) for group in groups]
    numbers = {key: float(claim[key]) for key in ("within", "low", "high") if key in claim}
    for each in claim.get("for_each", [""]):
        operands = tuple(tuple(_with_word(operand, each) for operand in group) for group in groups)
        says = f"{claim['says']} ({each})" if each else claim["says"]
        yield Claim(says, claim["place"], kind, operands, **numbers)


def _with_word(operand: str, word: str) -> str:
    if not word:
        return operand
    names, at, measure = operand.partition(" @ ")
    return " | ".join(f"{name}, {word}" for name in names.split(" | ")) + at + measure
