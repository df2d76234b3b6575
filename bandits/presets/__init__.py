"""Published settings by name: TOML files in this folder, read by `--preset`."""

import dataclasses
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any

_SHARED = "shared"


@dataclasses.dataclass(frozen=True)
class Preset:
    """One published setting.

    Attributes:
      about: Where it was published.
      values: Flags and their values.
    """

    about: str
    values: Mapping[str, Any]


def load() -> dict[str, Preset]:
    """Returns all presets by name, in the order of the files."""
    found = {}
    for path in sorted(pathlib.Path(__file__).parent.glob("*.toml")):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        shared = tables.pop(_SHARED, {})
        for name, values in tables.items():
            about = values.pop("about")
            found[name] = Preset(about, shared | values)
    return found


def table() -> str:
    """Returns the presets as text, a line each: name, where it was published, what differs most."""
    lines = []
    for name, preset in load().items():
        values = preset.values
        rates = f"server {values.get('server_learning_rate', '-')}, client {values.get('client_learning_rate', '-')}"
        exploration = ", ".join(
            f"{key.removeprefix('bandits_')} {values[key]}"
            for key in ("bandits_temperature", "bandits_mu", "bandits_gamma", "bandits_epsilon")
            if key in values
        )
        lines.append(f"{name:<42}{preset.about:<24}{rates:<30}{exploration}".rstrip())
    return "\n".join(lines)
