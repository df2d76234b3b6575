"""What a report says of arms in worlds that change: their regret to a ceiling of each world, as HTML and as lines."""

import html
import math
from collections.abc import Collection, Iterator, Sequence

from bandits import options, world_flags
from bandits.results import ceiling_command, dynamic_regret, plots, tables
from bandits.results.arms import ROLES, Arm, Part, deployed_otherwise, environment
from bandits.results.dynamic_regret import Regret, Segment, World
from optimization.study import cli
from optimization.study.intervals import Interval

_MOST_SEGMENTS = 10  # That are told each: there can be more seasons than worlds.
WHAT_IT_IS = (
    "In each round: the final reward (mean of the last tenth of its rounds) of the full-feedback baseline that was "
    "trained in that round's environment alone, minus the configuration's reward. The baseline is trained, so dynamic "
    "regret can be negative."
)
_MIXED = (
    "Between two environments the mixture of both baselines is the reference. The best policy of the mixture earns at "
    "most as much, so there the regret is an upper bound."
)


def world_of(arm: Arm) -> World | None:
    """Returns in which worlds an arm played; None where rewards stayed as they were."""
    flags = arm.runs[0].flags
    drift = world_flags.drift_of(cli.Settings(flags, frozenset()))
    if drift.kind == "none" or drift.only is not None:
        return None
    every = int(flags.get("bandits_deploy_freq") or 1) if flags.get("cache") == "persistent" else 1
    return World(drift, lambda rounds: options.acted_in(rounds, every))


def found(part: Part) -> list[tuple[Arm, World, Regret]]:
    """Returns the dynamic regret of the arms of a part that have a ceiling of each world."""
    return [(arm, world, one) for arm, world, needed in _changing(part) if (one := _regret(part, arm, world, needed))]


def missing(part: Part) -> list[str]:
    """Returns what is to say of worlds without a ceiling, once for all arms that lack the same."""
    told: dict[tuple, list[str]] = {}
    for arm, world, needed in _changing(part):
        lacking = sorted(needed - set(part.ceilings_of_worlds(arm)))
        key = (*map(str, environment(arm.flags)), *lacking)
        if not lacking and not _regret(part, arm, world, needed):
            told[(*key, arm.name)] = [
                f"{arm.name} has no dynamic regret: it shares no seed with the full-feedback baseline of each "
                "environment."
            ]
        if not lacking or key in told:
            continue
        commands = [one for world in lacking if (one := ceiling_command.of_world(arm, world))]
        needs = f"needs the full-feedback baseline of {' and '.join(f'world {world}' for world in lacking)}"
        told[key] = [f"The dynamic regret of {arm.name} {needs}{_how(lacking, commands)}", *commands]
    return [line for lines in told.values() for line in lines]


def _how(lacking: Sequence[int], commands: Sequence[str]) -> str:
    """Returns how the ceilings of worlds come to be, as the end of a sentence."""
    if commands:
        return ": run these:"
    worlds = " and ".join(f"--drift_world={world}" for world in lacking)
    return f": run the same with --bandits_type={ceiling_command.CEILING}, and {worlds}."


def section(part: Part) -> str:
    """Returns the section "Dynamic regret" of a part's page; empty where rewards stayed as they were."""
    lacking = "".join(f'<p class="note">{html.escape(line)}</p>' for line in missing(part))
    shown = found(part)
    if not shown:
        return f"<h3>Dynamic regret</h3>{lacking}" if lacking else ""
    several = [_table(some) for some in _by_segments([(arm, regret) for arm, _, regret in shown])]
    notes = " ".join([WHAT_IT_IS, *[_MIXED] * _is_mixed(shown), *_otherwise(part, shown)])
    return f'<h3>{html.escape(_title(shown))}</h3>{"".join(several)}<p class="note">{html.escape(notes)}</p>{lacking}'


def lines(parts: Sequence[Part]) -> list[str]:
    """Returns the same for the terminal."""
    told = []
    for part in parts:
        if not (shown := found(part)):
            continue
        told.append(f"{part.title}: {_title(shown)[:1].lower()}{_title(shown)[1:]}. {WHAT_IT_IS}")
        told += [*[_MIXED] * _is_mixed(shown), *_otherwise(part, shown)]
        for arm, _, regret in shown:
            told.append(f"  {_named(arm)}: total {_words(regret.total)}, per round {_words(regret.a_round)}")
            told += [
                f"    {_about(segment)}: per round {_words(mean)}; in its last tenth {_words(end)}"
                for segment, mean, end in regret.segments[:_MOST_SEGMENTS]
            ]
            told += [f"    {more}"] if (more := _more(regret)) else []
    return told


def _changing(part: Part) -> Iterator[tuple[Arm, World, set[int]]]:
    """Yields the arms whose rewards changed, and the worlds that they saw."""
    for arm in part.arms if part.columns else ():
        if world := world_of(arm):
            yield arm, world, set(world.needed(dynamic_regret.rounds_of(arm.runs)))


def _regret(part: Part, arm: Arm, world: World, needed: Collection[int]) -> Regret | None:
    """Returns the regret of an arm; None without a ceiling of each world, or a seed that is theirs, too."""
    ceilings = part.ceilings_of_worlds(arm)
    if not set(needed) <= set(ceilings):
        return None
    return dynamic_regret.of_arm(
        arm.runs,
        part.columns[0],
        world,
        {one: ceilings[one].values(part.columns[0]) for one in needed},
        is_unpaired=arm.is_unpaired or any(ceilings[one].is_unpaired for one in needed),
        better=part.columns[0].better or "up",
    )


def _otherwise(part: Part, shown: Sequence[tuple[Arm, World, Regret]]) -> list[str]:
    """Returns a sentence about the ceilings that are deployed otherwise than an arm; nothing if none is."""
    told: dict[str, list[str]] = {}
    for arm, world, regret in shown:
        ceilings = part.ceilings_of_worlds(arm)
        for one in world.needed(regret.rounds):
            if differ := deployed_otherwise(ceilings[one], arm):
                told.setdefault(arm.name, []).append(f"world {one} ({differ})")
    words = "; ".join(f"for {arm} those of {' and '.join(worlds)}" for arm, worlds in told.items())
    return [f"Baselines with another deployment period than the configuration: {words}."] if words else []


def _is_mixed(shown: Sequence[tuple[Arm, World, Regret]]) -> bool:
    return any(len(segment.worlds) > 1 for _, _, regret in shown for segment, *_ in regret.segments)


def _title(shown: Sequence[tuple[Arm, World, Regret]]) -> str:
    counts = sorted({len(world.needed(regret.rounds)) for _, world, regret in shown})
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Dynamic regret to {number} full-feedback baseline{'s' * (counts[-1] > 1)}"


def _named(arm: Arm) -> str:
    return f"{arm.name} ({ROLES[arm.role]})" if arm.role else arm.name


def _about(segment: Segment) -> str:
    rounds = f"rounds {segment.first} to {segment.last}" if segment.last > segment.first else f"round {segment.first}"
    kind = "world" if len(segment.worlds) == 1 else "between worlds"
    return f"{rounds} ({kind} {' and '.join(map(str, segment.worlds))})"


def _words(found: Interval) -> str:
    if math.isnan(found.mean):
        return "unknown"
    return f"{found.mean:.4g}" + (f" ({found.low:.4g} to {found.high:.4g})" if math.isfinite(found.low) else "")


def _by_segments(shown: Sequence[tuple[Arm, Regret]]) -> list[list[tuple[Arm, Regret]]]:
    """Returns the arms, those of the same segments together."""
    together: dict[tuple[Segment, ...], list[tuple[Arm, Regret]]] = {}
    for arm, regret in shown:
        together.setdefault(tuple(segment for segment, *_ in regret.segments), []).append((arm, regret))
    return list(together.values())


def _table(shown: Sequence[tuple[Arm, Regret]]) -> str:
    segments = [segment for segment, *_ in shown[0][1].segments[:_MOST_SEGMENTS]]
    heads = ["Configuration", "Seeds", "Total", "Per round", *(plots.capital(_about(segment)) for segment in segments)]
    digits = [
        tables.decimals([one.mean for _, regret in shown if not math.isnan((one := pick(regret)).mean)])
        for pick in (lambda regret: regret.total, lambda regret: regret.a_round)
    ]
    rows = []
    for arm, regret in sorted(shown, key=lambda pair: pair[1].a_round.mean):
        cells = [f'<th scope="row" data-value="{html.escape(arm.name)}">{html.escape(_named(arm))}</th>']
        cells.append(f'<td data-value="{regret.a_round.size}">{regret.a_round.size}</td>')
        cells += [_cell(regret.total, digits[0]), _cell(regret.a_round, digits[1])]
        for _, mean, end in regret.segments[:_MOST_SEGMENTS]:
            cells.append(_cell(mean, digits[1], end))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    rest = f'<p class="note">{more}</p>' if (more := _more(shown[0][1])) else ""
    return tables.table(heads, rows) + rest


def _more(regret: Regret) -> str:
    more = len(regret.segments) - _MOST_SEGMENTS
    return f"Segments included in the total only: {more}." if more > 0 else ""


def _cell(found: Interval, digits: int, end: Interval | None = None) -> str:
    if math.isnan(found.mean):
        return '<td data-value="">–</td>'
    ends = f"<small>{found.low:.{digits}f} to {found.high:.{digits}f}</small>" if math.isfinite(found.low) else ""
    ends += f"<small>last tenth: {end.mean:.{digits}f}</small>" if end and not math.isnan(end.mean) else ""
    return f'<td data-value="{found.mean!r}"><b>{found.mean:.{digits}f}</b>{ends}</td>'
