"""Contexts with sets of actions that change from row to row.

A row offers some entries of a catalogue. A slot is a column of the array of offered entries. If actions have features,
each row's entries fill its slots from the left, and the action that a policy chooses is a slot. Otherwise, slot k
belongs to action k, which a row offers or not.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from data import text


class ActionSets(NamedTuple):
    """Contexts of several rows, and the actions that they offer.

    Attributes:
      contexts: float32 [rows, ...], or bags of words; [rows, 0] without contexts.
      entries: int32 [rows, slots], the catalogue entry in each slot; -1 where no action is offered.
      actions: float32 [rows, slots, features], features of the offered entries, 0 where none is offered. The last
        axis is empty if actions have no features, or if only the catalogue holds them; see `normalized`.
    """

    contexts: Any
    entries: Any
    actions: Any

    def take(self, rows: np.ndarray) -> "ActionSets":
        """The rows at these positions."""
        return ActionSets(text.take(self.contexts, rows), self.entries[rows], self.actions[rows])


class Spec(NamedTuple):
    """Format of a task's sets of actions.

    Attributes:
      contexts: (shape, dtype name) of one context, or `text.Bags`.
      num_features: Number of features of an action; 0 if slots are actions.
    """

    contexts: Any
    num_features: int = 0


def of_entries(contexts: np.ndarray | text.Bags, entries: np.ndarray) -> ActionSets:
    """Sets of these catalogue entries, without features."""
    return ActionSets(contexts, entries.astype(np.int32), np.zeros((*entries.shape, 0), np.float32))


def joined(parts: Sequence[Any]) -> Any:
    """Concatenates arrays, bags of words, or sets of actions, which are padded to the same number of slots."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    if isinstance(parts[0], text.Bags):
        return text.joined(parts)
    slots = max(part.entries.shape[1] for part in parts)
    padded = [(part, (0, slots - part.entries.shape[1])) for part in parts]
    return ActionSets(
        joined([part.contexts for part in parts]),
        np.concatenate([np.pad(part.entries, [(0, 0), pad], constant_values=-1) for part, pad in padded]),
        np.concatenate([np.pad(part.actions, [(0, 0), pad, (0, 0)]) for part, pad in padded]),
    )


def catalogued(sets: ActionSets, actions: np.ndarray | None) -> tuple[ActionSets, np.ndarray, np.ndarray]:
    """Moves the features of actions from sets to a catalogue, which `with_features` reverses.

    Args:
      sets: The sets, with features.
      actions: int32 [entries], the action of each entry of the catalogue. None if there is no catalogue yet; each
        offered action then becomes an entry, whose action is its slot.

    Returns:
      The sets without features; the catalogue, float32 [entries, features]; and the action of each entry, int32
      [entries].
    """
    is_offered, entries = sets.entries >= 0, sets.entries.copy()
    if actions is None:
        actions = np.nonzero(is_offered)[1].astype(np.int32)
        entries[is_offered] = np.arange(len(actions))
    catalogue = np.zeros((len(actions), sets.actions.shape[2]), np.float32)
    catalogue[entries[is_offered]] = sets.actions[is_offered]
    return of_entries(sets.contexts, entries), catalogue, actions


def with_features(sets: ActionSets, catalogue: np.ndarray) -> ActionSets:
    """Looks up the features of offered actions in a catalogue, float32 [entries, features]."""
    actions = np.where(sets.entries[..., np.newaxis] >= 0, catalogue[sets.entries], np.float32(0))
    return sets._replace(actions=actions)


def normalized(sets: ActionSets, catalogue: np.ndarray) -> ActionSets:
    """Drops the last slots if no row uses them, and looks up the features of the others; see `with_features`."""
    slots = max(1, int((sets.entries >= 0).sum(axis=1).max(initial=0)))
    return with_features(sets._replace(entries=sets.entries[:, :slots]), catalogue)
