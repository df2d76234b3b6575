"""Converts logs of Vowpal Wabbit to a table with one row per decision and offered action.

Two formats are read, as the wiki of https://github.com/VowpalWabbit/vowpal_wabbit describes them: `dsjson`, with one
JSON object per line, and the text of `--cb_adf`, in which blank lines separate the decisions.
"""

import collections
import fileinput
import itertools
import json
import math
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction import DictVectorizer

from data import convert
from data.errors import UsageError, counted

_Feature = tuple[str, str, float]  # Name `namespace^name`, text or "", and number, which is 1 for texts.
# Line, name, time, shared features; id and features of each action; position, cost and probability of the chosen one.
_Decision = tuple[int, str, str | None, list[_Feature], list[tuple[str | None, list[_Feature]]], int, float, float]
_SEVERAL_SLOTS = "several slots per decision (CCB, slates) are not supported, only one choice per decision"
# The text before the first bar: label with cost and probability, and id.
_HEAD = re.compile(r"(shared|ccb|slates|[^\s:]+:([^\s:]+):([^\s:]+))?(?:^|\s+|$)'?(.*)")
_WORD = re.compile(r"([^:=]*)(?::([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|[:=](.*))?")  # Name, and number or text.


def vw(source: pathlib.Path, *, client_feature: str | None = None, max_features: int = 200) -> convert.Converted:
    """Converts the labelled decisions of a log to a table.

    Rewards are costs with the opposite sign. Only the rows of chosen actions have rewards and propensities. A number is
    a column `namespace^name`; a text is a column `namespace^name=text` that counts it.

    Args:
      source: The file; `.gz` is decompressed.
      client_feature: Feature `namespace^name` of the shared context that names the client; None for no such column.
      max_features: Number of columns of features. The features that occur in the most rows are kept.

    Raises:
      UsageError: If the file cannot be read or is malformed. The message names the line.
    """
    skipped, rows, vectorizer = collections.Counter[str](), list[tuple](), DictVectorizer(dtype=np.float32)
    with fileinput.FileInput(source, encoding="utf-8-sig", openhook=fileinput.hook_compressed) as lines:
        try:
            first = next((line for line in lines if line.strip()), "")
            read = _dsjson(lines, first, skipped) if first.lstrip().startswith(("{", "[")) else _text(lines, first)
            matrix = vectorizer.fit_transform(_features(read, client_feature, rows))
        except Exception as error:  # Malformed lines raise many types of errors.
            is_other = isinstance(error, (AttributeError, TypeError))
            reason = "this line is not in a format of Vowpal Wabbit" if is_other else error
            raise UsageError(f"{source}, line {lines.lineno()}: {reason}.") from error
    counts = matrix.getnnz(axis=0)
    kept = np.sort(np.argsort(-counts, kind="stable")[:max_features])
    features = pd.DataFrame(matrix[:, kept].toarray(), columns=vectorizer.get_feature_names_out()[kept])
    table = pd.DataFrame(rows, columns=["client", "decision", "action", "chosen", "reward", "propensity", "time"])
    incomplete = [name for name in ("client", "action", "time") if table[name].isna().any()]
    notes = [
        f"{counted(table['decision'].nunique(), 'decision')}, {counted(len(table), 'row')}. The reward is -cost.",
        f"{counted(len(kept), 'feature')}, {len(counts) - len(kept):,} rarer ones are left out (see --max_features).",
        *(f"Left out: {what} ({number:,})." for what, number in skipped.items()),
        *(f"No column {name}: some decisions lack it." for name in incomplete if table[name].notna().any()),
    ]
    flags = ["--task_type=logged", *(f"--{name}_column={name}" for name in table.columns.drop(incomplete))]
    if client_feature is None:
        flags.append("--client_column=rows:20")
        notes.append("No feature names the clients: train with --client_column=rows:N, for N synthetic clients.")
    return [pd.concat([table.drop(columns=incomplete), features], axis=1)], flags, notes


def _features(read: Iterable[_Decision], client_feature: str | None, rows: list[tuple]) -> Iterator[dict[str, float]]:
    """Yields the features of each offered action, and appends its other columns to `rows`."""
    lines: dict[str, int] = {}
    for line, name, time, shared, actions, chosen, cost, probability in read:
        if (earlier := lines.setdefault(name, line)) != line:
            raise ValueError(f"the decision {name} is in line {earlier}, too: remove one of them")
        ids = [action for action, _ in actions if action]
        if len(set(ids)) < len(ids):
            raise ValueError(f"the decision of line {line} offers the action {max(ids, key=ids.count)} twice")
        if not math.isfinite(cost) or not 0 < probability <= 1:
            raise ValueError(f"the cost is {cost}, the probability {probability}: it must be above 0 and at most 1")
        client = next((str(text or number) for key, text, number in shared if key == client_feature), None)
        if client is None and client_feature:
            raise ValueError(f"the shared context lacks the feature {client_feature}, which --client_feature names")
        context = [feature for feature in shared if feature[0] != client_feature]
        for position, (action, own) in enumerate(actions):
            outcome = (0.0 - cost, probability) if position == chosen else (None, None)
            rows.append((client, name, action, int(position == chosen), *outcome, time))
            sums = collections.defaultdict[str, float](float)
            for key, text, number in (*context, *own):
                if not math.isfinite(number):
                    raise ValueError(f"the feature {key} is {number}")
                sums[f"{key}={text}" if text else key] += number
            yield sums
    if not lines:
        raise ValueError("no decision in this file has a label")


def _dsjson(lines: fileinput.FileInput, first: str, skipped: collections.Counter[str]) -> Iterator[_Decision]:
    pdrop = None
    for line in itertools.chain([first], lines):
        if line.startswith("["):
            skipped["lines in brackets, such as [CHECKPOINT INFO LINE]"] += 1
        if not line.strip() or line.startswith("["):
            continue
        event = json.loads(line, parse_constant=int)  # Refuses NaN.
        if "c" not in event and ("Observations" in event or "RewardValue" in event):
            skipped["observations without their decision"] += 1
        elif "_outcomes" in event or "_slots" in event.get("c", ()):
            raise ValueError(_SEVERAL_SLOTS)
        elif "c" in event and "_label_cost" not in event:
            skipped["events without a label"] += 1
        elif event.get("_skipLearn"):
            skipped["events with _skipLearn"] += 1
        elif event.get("pdrop", 0) != (pdrop := event.get("pdrop", 0) if pdrop is None else pdrop):
            raise ValueError("pdrop must be the same in all events, because a log has no weights")
        else:
            yield _decision(event, lines.lineno())


def _decision(event: dict[str, Any], line: int) -> _Decision:
    actions = event.get("c", {}).pop("_multi", [])
    index = event.get("_labelIndex", event.get("_label_Action", 0) - 1)
    if index not in range(len(actions)):
        raise ValueError(f"_labelIndex, {index}, is no position in _multi, which has {len(actions)} actions")
    if event.get("_label_Action", index + 1) != index + 1:
        raise ValueError(f"_labelIndex, {index}, and _label_Action, {event['_label_Action']}, are different actions")
    offered = [(action.get("_tag") or None, list(_of_json(action))) for action in actions]
    cost, probability = float(event["_label_cost"]), float(event.get("_label_probability", "nan"))
    name, shared = str(event.get("EventId", line)), list(_of_json(event["c"]))
    return line, name, event.get("Timestamp"), shared, offered, index, cost, probability


def _of_json(value: Any, namespace: str = "", name: str = "") -> Iterator[_Feature]:
    """Yields the features of a JSON value. The namespace of a feature is the key of the object that it is in.

    Names with a leading underscore are ignored, except `_text`, each word of which is a feature.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "_text":
                yield from ((f"{name}^{word}", "", 1) for word in inner.split())
            elif not key.startswith("_"):
                yield from _of_json(inner, name, key)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _of_json(inner, name, name if isinstance(inner, dict) else f"[{position}]")
    elif value is not None:
        yield f"{namespace}^{name}", *((value, 1) if isinstance(value, str) else ("", value))


def _text(lines: fileinput.FileInput, first: str) -> Iterator[_Decision]:
    for is_blank, block in itertools.groupby(itertools.chain([first], lines), key=lambda line: not line.strip()):
        if is_blank:
            continue
        start, shared, actions = lines.lineno(), list[_Feature](), list[tuple[str | None, list[_Feature]]]()
        labels = list[tuple[int, float, float]]()
        for line in block:
            head, *namespaces = line.split("|")
            label, cost, probability, action = _HEAD.fullmatch(head.strip()).groups()  # type: ignore[union-attr]
            features = [feature for written in namespaces for feature in _of_text(written)]
            if label in ("ccb", "slates"):
                raise ValueError(_SEVERAL_SLOTS)
            if cost:
                labels.append((len(actions), float(cost), float(probability)))
            if label == "shared":
                shared += features
            else:
                actions.append((action or None, features))
        if len(labels) != 1:
            raise ValueError(f"the decision from line {start} on has {len(labels)} chosen actions, not one")
        yield start, str(start), None, shared, actions, *labels[0]


def _of_text(written: str) -> Iterator[_Feature]:
    """Yields the features in a namespace such as `user:0.5 age:31 city=Rome new`."""
    words = written.split()
    namespace, _, weight = words.pop(0).partition(":") if written[:1].strip() else ("", "", "")
    scale = float(weight) if weight else 1
    for name, number, text in (_WORD.fullmatch(word).groups("") for word in words):  # type: ignore[union-attr]
        yield f"{namespace}^{name}", text, scale * (int(number) if number.isdecimal() else float(number or 1))
