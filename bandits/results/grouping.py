"""Which runs are one arm, which arms one part, and what arms are called."""

import json
import pathlib
from collections import Counter
from collections.abc import Iterable, Sequence

from bandits import registry, studies
from bandits.results import arms, names, runs
from data import frames
from optimization.study.frame import Study

_FRAME = "DataFrame"


def parts(found: Iterable[runs.Run]) -> list[arms.Part]:
    """Returns the arms of runs, by study and task."""
    together: dict[tuple, list[runs.Run]] = {}
    for run in found:
        data = run.data_report.get(arms.CONTENT) or run.flags.get("data_file")
        together.setdefault((_study(run), names.task(run.flags), data), []).append(run)
    made = []
    for (module, task, _), some in together.items():
        program = next((name for name, known in studies.STUDIES.items() if known == module), "")
        words = filter(None, (task, min(map(_table_name, some), key=lambda name: (name == _FRAME, name))))
        title = ": ".join(filter(None, (program, " ".join(words))))
        study = studies.load(module) if module else None
        groups = _groups(some)
        named = zip(_named(groups, study), groups, strict=True)
        some_arms = (arms.Arm(name, tuple(group), role(group[0])) for name, group in named)
        made.append(arms.Part(title or "Runs", study, tuple(some_arms)))
    return made


def _table_name(run: runs.Run) -> str:
    """Returns what the table of a run's data is called; empty if it has none."""
    name = str(run.flags.get("data_file") or "")
    return _FRAME if name.startswith(frames.PREFIX) else pathlib.Path(name).name


def _study(run: runs.Run) -> str | None:
    """Returns the module of the study that wrote a run's metrics."""
    found = (module for module in studies.STUDIES.values() if studies.load(module).ranked_by in run.metrics)
    return next(found, None)


def _seed(run: runs.Run) -> str:
    return str(run.flags.get("seed"))


def _owner(run: runs.Run) -> pathlib.Path:
    """Returns the folder that a run's seeds share."""
    return run.folder.parent if run.folder.name == f"seed_{_seed(run)}" else run.folder


def _groups(found: Iterable[runs.Run]) -> list[list[runs.Run]]:
    """Returns runs that differ in their seed alone; where a seed was played twice, by folder."""
    together: dict[str, list[runs.Run]] = {}
    for run in found:
        together.setdefault(json.dumps(arms.shared_flags(run), sort_keys=True, default=str), []).append(run)
    groups = []
    for group in together.values():
        if max(Counter(map(_seed, group)).values()) == 1:
            groups.append(group)
            continue
        by_folder: dict[pathlib.Path, list[runs.Run]] = {}
        for run in group:
            by_folder.setdefault(_owner(run), []).append(run)
        groups += by_folder.values()
    return [sorted(group, key=lambda run: (len(_seed(run)), _seed(run))) for group in groups]


def role(run: runs.Run) -> str:
    """Returns what a run bounds others as: `arms.CHANCE`, `arms.CEILING`, or empty for neither."""
    entry = registry.BANDITS.get(str(run.flags.get("bandits_type")))
    if entry is None:
        return ""
    return arms.CEILING if entry.supervised else arms.CHANCE if entry.policy == "uniform" else ""


def _named(groups: Sequence[Sequence[runs.Run]], study: Study | None) -> list[str]:
    """Returns what arms are called."""
    shown = study.shown_in_presets if study else ()
    return names.of([arms.shared_flags(group[0]) for group in groups], [_owner(group[0]) for group in groups], shown)
