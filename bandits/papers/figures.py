"""Figures and tables that can be reproduced: one TOML file per paper in `published/`."""

import dataclasses
import itertools
import math
import pathlib
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits import studies
from bandits.papers import claims, plan
from bandits.papers.plan import PAPER, SMALL, Claim, Figure, Published, parse_operand
from bandits.plans.plan import Configuration, as_text
from bandits.results import runs
from data.errors import UsageError
from optimization.study import cli, presets

SCALES = {
    PAPER: "the paper's data, rounds and seeds: takes days on one machine",
    SMALL: "stand-in data and few rounds: takes minutes; checks the program, not the paper's findings",
}
ALL, OWN = "all", "flagship"
_FOLDER = pathlib.Path(__file__).parent / "published"
_INIT = "Init"  # The row of the initial training, which all rows of its table share.
# Keys that describe configurations, and others that are not attributes of `Figure`.
_OTHER_KEYS = {"arms", "compared", "flags", "grid", "searched", "sweeps", "words", "no_small", "not_judged", "small"}
_OTHER_KEYS |= {"small_data_kind", "accounted", "study"}
_PARTIAL = ("order", "close")  # Kinds of claims that can be restricted to some of their configurations.


def _files() -> Iterable[tuple[pathlib.Path, dict[str, Any], dict[str, Any]]]:
    """Each paper's file, the settings that its figures share, and the figures' tables by name."""
    return presets.tables(_FOLDER, "text")


def load(scale: str) -> dict[str, Figure]:
    """All figures by name, in the order of the files; this project's figures have only the scale `paper`.

    Args:
      scale: A key of `SCALES`.

    Raises:
      ValueError: If a file is invalid; the message names the figure.
    """
    figures = {}
    for path, shared, tables in _files():
        title = shared.pop("title")
        for name, table in tables.items():
            if scale == SMALL and (shared.get("own") or "no_small" in table):
                continue
            try:
                figures[name] = _read(name, title, shared | table, scale)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path.name}, {name}: {error!r}") from error
    return figures


def without_small() -> dict[str, str]:
    """Reasons why some figures of papers have no small scale, by name of the figure."""
    tables = {name: table for *_, some in _files() for name, table in some.items()}
    return {name: table["no_small"] for name, table in tables.items() if "no_small" in table}


def choose(names: str, scale: str) -> list[Figure]:
    """Figures of `--figure`.

    Args:
      names: Names separated by commas. A number without a letter stands for all panels (`1` for `1a` to `1d`), and the
        name of a file for all its figures. `all` stands for the papers' figures, and `flagship` for this project's.
      scale: A key of `SCALES`.

    Raises:
      UsageError: If a name is unknown; the message suggests similar names.
    """
    known = load(scale)
    groups: dict[str, list[str]] = {name: [] for *_, tables in _files() for name in (OWN, ALL, *tables)}
    groups |= runs.grouped(known, lambda name: OWN if known[name].own else ALL)
    groups |= {path.stem: [name for name in tables if name in known] for path, _, tables in _files()}
    groups |= runs.grouped(known, _whole)
    groups |= {other: [name] for name, figure in known.items() for other in (name, *figure.also)}
    chosen: dict[str, Figure] = {}
    for name in names.split(","):
        if scale == SMALL and name in (lacking := without_small()):
            raise UsageError(f"--figure={name} has no --scale={SMALL}: {lacking[name]}")
        if name not in groups:
            raise cli.unknown("figure", name, groups, "--list prints their names.")
        if not groups[name]:
            raise UsageError(f"--figure={name} exists only with --scale={PAPER}.")
        chosen |= {figure: known[figure] for figure in groups[name]}
    return list(chosen.values())


def _whole(name: str) -> str:
    """Number of the figure that a panel belongs to; the name itself if it is not a panel."""
    return name[:-1] if re.fullmatch(r"\d+[a-z]", name) else name


def listing() -> str:
    """All figures as text, one line each, by paper."""
    known, lines = load(PAPER), []
    for path, shared, tables in _files():
        lines.append(f"{path.stem:<26}{shared['title']}: all figures below")
        for name in tables:
            others = f" (also {', '.join(known[name].also)})" if known[name].also else ""
            lines.append(f"  {name:<24}{known[name].about}{others}")
    return "\n".join(lines)


def _read(name: str, text: str, table: Mapping[str, Any], scale: str) -> Figure:
    small, is_small = table.get("small", {}), scale == SMALL
    configurations = _configurations_of(table, small if is_small else None)
    rounds = small.get("at", {}) if is_small else {}
    measures = tuple(
        plan.Measure(measure, **values | ({"at": rounds[measure]} if measure in rounds else {}))
        for measure, values in table["measures"].items()
    )
    first = plan.FIRST_TUNING_SEED
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    values |= {
        "published_seeds": table.get("published_seeds", table["repeat"]),
        "tuning_seeds": tuple(range(first, first + table.get("tuning_seeds", 1))),
        "published": (*_published(table, measures[0].name), *_preset_values(table), *_accounted(table)),
        "measures": measures,
        "claims": tuple(
            _restricted(each, configurations) if is_small else each
            for claim in table.get("claims", ())
            for each in _claims(claim)
        ),
    }
    if is_small:
        kind = small.get("data_kind", table.get("small_data_kind"))
        about = f"{small['data']}; settings of the small scale"
        values |= {"repeat": small["repeat"], "data": about, "data_kind": kind}
    values = {key: value for key, value in values.items() if key not in _OTHER_KEYS}
    return Figure(name=name, text=text, configurations=configurations, scale=scale, **values)


def _configurations_of(table: Mapping[str, Any], small: Mapping[str, Any] | None) -> tuple[Configuration, ...]:
    axes: list[Mapping[str, str]] = table.get("arms", [])
    if "study" in table:
        from bandits.mab_fl import flags as mab_fl

        settings = mab_fl.load_studies()[table["study"]].settings
        axes = [{name: f"--preset={table['study']}/{name} --repeat=1" for name in settings}]
    sweeps, grid, compared = table.get("sweeps", {}), table.get("grid"), table.get("compared", {})
    of_scale: dict[str, Any] = {"flags": "", "own": {}}
    if small is not None:
        of_scale |= small
        only = set(small.get("only", ()))
        axes = [
            {label: flags for label, flags in axis.items() if label in only or not only & set(axis)}
            for axis in small.get("arms", axes)
        ]
        compared = {label: f"{compared[label]} {flags}" for label, flags in small.get("compared", {}).items()}
        sweeps, grid = small.get("sweeps", {}), None
    configurations = []
    for words in itertools.product(*axes):
        label = ", ".join(words)
        # The last value of a flag counts: an axis overrides the shared flags, and the small scale overrides both.
        flags = [table.get("flags", ""), *(axis[word] for axis, word in zip(axes, words, strict=True))]
        flags += [of_scale["flags"], *(of_scale["own"].get(word, "") for word in words)]
        tried: Mapping[str, Any] = next((sweeps[key] for key in (label, *words, "*") if key in sweeps), {})
        searched = tuple(f"{flag}={';'.join(map(as_text, some))}" for flag, some in tried.items())
        configurations.append(Configuration(label, words, _arguments(flags, table), searched, None if tried else grid))
    configurations += [
        Configuration(label, (label,), _arguments([flags], table), is_drawn=False) for label, flags in compared.items()
    ]
    return tuple(configurations)


def _arguments(flags: Sequence[str], table: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(string.Template(" ".join(flags)).substitute(table.get("words", {})).split())


def _published(table: Mapping[str, Any], measure: str) -> Iterable[Published]:
    """The paper's numbers. A list has one number for each label of the second axis; NaN stands for a dash."""
    for block in table.get("published", ()):
        lists = {label: value if isinstance(value, list) else [value] for label, value in block["values"].items()}
        of, place = block.get("measure", measure), block["place"]
        unit = _unit(itertools.chain.from_iterable(lists.values()))
        for label, numbers in lists.items():
            is_list = isinstance(block["values"][label], list)
            labels = [f"{label}, {word}" for word in table["arms"][1]] if is_list else [label]
            is_other = block.get("other_settings", False) or label in table.get("not_judged", ())
            for full_label, number in zip(labels, numbers, strict=True):
                if not math.isnan(number):
                    yield Published(full_label, of, float(number), place, unit, is_other)


def _unit(numbers: Iterable[float]) -> float:
    """Unit of the last digit of the most precise number."""
    return 10.0 ** -max(0 if math.isnan(number) else len(str(number).partition(".")[2]) for number in numbers)


def _accounted(table: Mapping[str, Any]) -> Iterable[Published]:
    """The paper's epsilons."""
    for block in table.get("accounted", ()):
        flags = " ".join(block["flags"].split())
        yield Published(block["says"], "", block["value"], block["place"], _unit([block["value"]]), privacy_flags=flags)


def _preset_values(table: Mapping[str, Any]) -> Iterable[Published]:
    """Values of searched flags in the configurations' presets, which are the rows of published tables."""
    if "searched" not in table:
        return
    known = presets.load(studies.load(studies.STUDIES[table["binary"]]).presets)
    place = table["about"].partition(":")[0]
    for label, flags in table["arms"][0].items():
        preset = known.get("".join(re.findall(r"--preset=(\S+)", flags)))
        if preset is None:
            continue
        for flag in table["searched"]:
            if flag in preset.values and not (label != _INIT and flag.startswith("init_")):
                yield Published(label, flag, float(preset.values[flag]), place)


def _claims(table: Mapping[str, Any]) -> Iterable[Claim]:
    """A claim, or one for each label of the second axis."""
    claim = dict(table)
    kind = next((kind for kind in claims.KINDS if kind in claim), "")
    values, says = claim.pop(kind, []), claim.pop("says")
    groups = [values] if isinstance(values, str) else values
    groups = [(group,) if isinstance(group, str) else tuple(group) for group in groups]
    premises = claim.pop("premises", ())
    for each in claim.pop("for_each", [""]):
        operands = tuple(tuple(_with_word(operand, each) for operand in group) for group in groups)
        needed = tuple(_with_word(operand, each) for operand in premises)
        yield Claim(f"{says} ({each})" if each else says, kind=kind, operands=operands, premises=needed, **claim)


def _restricted(claim: Claim, configurations: Sequence[Configuration]) -> Claim:
    """The claim, restricted to the configurations of a smaller scale; unchanged if that is not possible."""
    labels = {configuration.label for configuration in configurations}
    left = [tuple(operand for operand in group if set(parse_operand(operand)[0]) <= labels) for group in claim.operands]
    groups = tuple(filter(None, left))
    is_whole = set(groups) <= set(claim.operands)
    is_possible = len(groups) > 1 and is_whole if len(left) > 1 else any(len(group) > 1 for group in groups)
    if claim.kind not in _PARTIAL or not is_possible or groups == claim.operands:
        return claim
    return dataclasses.replace(claim, says=f"{claim.says} (some configurations)", operands=groups)


def _with_word(operand: str, word: str) -> str:
    if not word:
        return operand
    labels, measure = parse_operand(operand)
    return " | ".join(f"{label}, {word}" for label in labels) + f" @ {measure}" * bool(measure)
