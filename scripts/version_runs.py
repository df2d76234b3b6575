"""Runs checkouts of this project, for `compare_versions`; what is done is not run again."""

import dataclasses
import hashlib
import json
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence

from data import files
from data.errors import Failure
from optimization.study import interruption

_SOURCES = ("bandits", "data", "optimization")
_SETTINGS = pathlib.Path(__file__).with_name("compare_versions.toml")
_FIELDS = pathlib.Path(__file__).resolve().with_name("version_fields.py")
_SHARED, _RENAMED = "shared", "renamed_fields"


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is run, as compare_versions.toml says; without rounds, a program that only writes to --output_dir."""

    name: str
    binary: str
    flags: str
    rounds: int = 0
    is_resumed: bool = False
    tolerance: float = 0.0
    expected: Sequence[str] = ()
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Side:
    """A checkout, and where its runs lie: in a folder named after its role and the digest of its sources."""

    checkout: pathlib.Path
    folder: pathlib.Path

    @classmethod
    def of(cls, role: str, checkout: pathlib.Path, output: pathlib.Path) -> "Side":
        """Returns the side of this role, `old` or `new`."""
        digest = hashlib.sha256()
        for path in sorted(path for room in _SOURCES for path in (checkout / room).rglob("*")):
            if path.suffix in (".py", ".toml"):
                digest.update(f"{path.relative_to(checkout)}\0".encode() + path.read_bytes())
        return cls(checkout, output / f"{role}_{digest.hexdigest()[:12]}")

    def command(self, binary: str, *flags: str) -> list[str]:
        """Returns the command line of a program."""
        return [str(self.checkout / "scripts" / "python"), "-m", binary, *flags]

    def run(self, setting: Setting, is_resumed: bool = False) -> pathlib.Path:
        """Runs a setting; returns the folder of its runs.

        Args:
          setting: What is run.
          is_resumed: Whether it stops at half of its rounds and goes on.

        Raises:
          Failure: If it ends in an error.
        """
        half = self._run(setting, "half", setting.rounds // 2) if is_resumed else None
        return self._run(setting, "resumed" if is_resumed else "whole", setting.rounds, half)

    def _run(self, setting: Setting, name: str, rounds: int, begun: pathlib.Path | None = None) -> pathlib.Path:
        root, data = self.folder / setting.name, self.folder.parent / "data"
        folder, done = root / name, root / f"{name}_done.txt"
        what = f"{setting.binary} {setting.flags} {rounds}"
        if done.exists() and done.read_text() == what:
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        root.mkdir(parents=True, exist_ok=True)
        if begun:
            shutil.copytree(begun, folder)
        _make_posts(data / "stackexchange_posts.jsonl")
        where = [f"--root_output_dir={root}", f"--experiment_name={name}", "--seed=3", f"--total_rounds={rounds}"]
        places = {"data": data, "tables": self.checkout / "data" / "examples", "runs": self.folder}
        flags = setting.flags.format_map(places).split() + (where if rounds else [f"--output_dir={folder}"])
        words = [str(self.checkout / "scripts" / "python"), str(_FIELDS), setting.binary, *flags]
        run(words, root / f"{name}_log.txt")
        files.replace(done, what.encode())
        return folder


def settings() -> dict[str, Setting]:
    """Returns all settings by name."""
    tables = tomllib.loads(_SETTINGS.read_text())
    del tables[_RENAMED]
    shared = tables.pop(_SHARED)
    for table in tables.values():
        for name, flags in shared.items():
            table["flags"] = table["flags"].replace(f"{{{name}}}", flags)
    return {name: Setting(name, **table) for name, table in tables.items()}


def renamed_fields() -> dict[str, str]:
    """Returns the newer name of each field of checkpoints that was renamed, by the older one."""
    return tomllib.loads(_SETTINGS.read_text())[_RENAMED]


def run(words: Sequence[str], log: pathlib.Path) -> None:
    """Runs a command of a checkout, with its output in `log`.

    Raises:
      Failure: If it ends in an error.
    """
    # The checkout's own modules, not those of who asks; `-m` looks for them in the working directory first.
    folder = pathlib.Path(words[0]).parents[1]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with open(log, "wb") as file:
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )
    stopped: list[int] = []

    def stop(signum: int) -> None:
        stopped.append(signum)
        process.send_signal(signum)

    with interruption.answered(stop):
        status = process.wait()
    if stopped:
        sys.exit(128 + stopped[0])
    if status:
        raise Failure(f"{shlex.join(words)} ended with status {status}: see {log}.")


def _make_posts(path: pathlib.Path) -> None:
    """Writes posts of 60 users, some of whose words are tags."""
    if path.exists():
        return
    draw, lines = random.Random(0), []
    for index in range(900):
        words = [f"word{int(draw.expovariate(0.03))}" for _ in range(draw.randrange(3, 30))]
        post = {"site": "made", "user": f"made/{index % 60}", "title": words[0], "body": " ".join(words)}
        lines.append(json.dumps(post | {"tags": sorted({word for word in words if len(word) == len("word1")})}))
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, "\n".join(lines).encode() + b"\n")
