"""README.md and docs/: commands are understood, links lead somewhere, and the README's commands run as they stand.

Not for Bazel, which hides the pages.
"""

import functools
import importlib
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from bandits import studies
from bandits.papers import figures
from bandits.plans import estimate
from optimization.study import cli, frame
from scripts import reproduce

ROOT = pathlib.Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
_GUIDES = (ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md")
_SPEED = ROOT / "docs" / "speed.md"
_GENERATED = ROOT / "docs" / "results.md"  # Ignored by git; there after `reproduce --page`.
PAGES = (
    README,
    *_GUIDES,
    *sorted({*(ROOT / "docs").glob("*.md")} - {_GENERATED}),
    *sorted((ROOT / "docs/papers").glob("*.md")),
    *sorted((ROOT / "docs/recipes").glob("*.md")),
)
# Programs of others, whose flags are not known here.
_TOOLS = ("mypy", "pip", "pytest", "ruff", "tensorboard.main")
# What a test cannot install, or would be played in: its targets and flags are checked instead.
_NOT_PLAYED = ("apt-get", "bazel", "-m pytest", "scripts/test")
_OTHER_FLAGS = {"help", "helpfull", "logdir", "no"}  # `--no-deps` of pip.
_RECORDER = '#!/bin/sh\n{ printf \'%s\\n\' "${0##*/}" "$@"; printf "\\036"; } >>"$RECORD"\n'


def _id(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _blocks(path: pathlib.Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


def _prose(path: pathlib.Path) -> str:
    return re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def _headings(path: pathlib.Path) -> set[str]:
    """Returns the anchors that GitHub gives a page's headings."""
    titles = re.findall(r"^#+ (.*)$", _prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _scripts(path: pathlib.Path) -> list[str]:
    spans = re.findall(r"`(\./scripts/python -m [^`]+)`", _prose(path))
    return _blocks(path, "sh") + [span.replace("\n", " ") for span in spans]


@pytest.fixture(scope="module")
def commands(tmp_path_factory) -> Iterator[dict[pathlib.Path, list[list[str]]]]:
    """The words of each page's commands, as the shell expands them; nothing is played.

    Tests are then where the commands were, beside the files that they wrote.
    """
    folder = tmp_path_factory.mktemp("spoken")
    (folder / "data").symlink_to(ROOT / "data")
    for name in ("bin/apt-get", "bin/bazel", "scripts/python", "scripts/test", ".ci/run"):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(_RECORDER)
        file.chmod(0o755)
    for block in _blocks(ROOT / "docs" / "own_parts.md", "python"):
        name, _, content = block.partition("\n")
        (folder / name.removeprefix("# ")).write_text(content)
    record = folder / "record"
    environment = {"PATH": str(folder / "bin"), "RECORD": str(record), "PROJECT": str(folder)}
    shell = shutil.which("bash") or "/bin/bash"
    found = {}
    for path in PAGES:
        record.write_text("")
        for script in _scripts(path):
            command = [shell, "-euc", script]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
            assert (done.returncode, done.stderr) == (0, ""), f"{path}: {script}{done.stderr}"
        found[path] = [words.splitlines() for words in record.read_text().split("\036")[:-1]]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield found


def _binary(module: str) -> types.ModuleType:
    found = importlib.import_module(module)
    return importlib.import_module(f"{module}.__main__") if hasattr(found, "__path__") else found


def _settings(module: str, flags: list[str]) -> Mapping[str, Any]:
    """Returns what a program would understand, without reading any data.

    Raises:
      UsageError: If it would refuse the flags.
    """
    if module in studies.STUDIES.values():
        settings = studies.flag_set(module).parse([module, *flags])
        if not settings.list_presets:
            frame.plan(studies.load(module), settings)
        return settings
    binary = _binary(module)
    if not hasattr(binary, "define"):
        assert flags == [], f"{module} takes no flags"
        return {}
    settings = binary.define().parse([module, *flags])
    return settings.checked() if isinstance(settings, cli.Settings) else vars(settings)


@pytest.mark.parametrize("path", PAGES, ids=_id)
def test_a_pages_commands_are_understood(commands, path):
    for program, *words in commands[path]:
        if program == "bazel":
            _check_bazel(words)
        elif words[:2] == ["-m", "pytest"]:
            assert [word for word in words[2:] if "/" in word and not (ROOT / word).exists()] == []
        elif program == "python" and words[0] == "-m" and words[1] not in _TOOLS and "--help" not in words:
            _check_data_file(_settings(words[1], words[2:]))


@pytest.mark.slow
def test_no_command_meets_the_run_of_another(commands):
    planned: dict[str, cli.Settings] = {}
    met = []
    for program, *words in itertools.chain(*commands.values()):
        module, flags = _bazel_program(words) if program == "bazel" else (words[1] if words[1:] else "", words[2:])
        if module not in studies.STUDIES.values() or "--help" in flags:
            continue
        settings = studies.flag_set(module).parse([module, *flags])
        for run in [] if settings.list_presets else frame.plan(studies.load(module), settings):
            folder = f"{run.root_output_dir}/{run.experiment_name}"
            if dict(planned.setdefault(folder, run)) != dict(run):
                met.append(" ".join(words))
    assert met == []


def _check_bazel(words: list[str]) -> None:
    """Checks that the target is there, and that its program understands the flags."""
    command, label, *rest = words
    package, _, name = label.removeprefix("//").partition(":")
    if label != "//...":
        assert f'name = "{name}"' in (ROOT / package / "BUILD").read_text()
    if command == "run":
        assert rest[0] == "--"
        _settings(*_bazel_program(words))


def _bazel_program(words: list[str]) -> tuple[str, list[str]]:
    """Returns the module and the flags of `bazel run //PACKAGE:NAME -- FLAGS`."""
    return words[1].removeprefix("//").replace("/", ".").replace(":", "."), words[3:]


def _check_data_file(settings: Mapping[str, Any]) -> None:
    """Checks that a table is shipped, or that the page of data says where it comes from."""
    path = settings.get("data_file")
    if path and not pathlib.Path(path).resolve().is_relative_to(ROOT / "data/examples"):
        assert f"`{pathlib.Path(path).name}`" in (ROOT / "docs/data.md").read_text()


@functools.cache
def _all_flags() -> set[str]:
    sets = [studies.flag_set(module) for module in studies.STUDIES.values()]
    for room in ("scripts", "data"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if "cli.main(" in path.read_text():
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                sets.append(importlib.import_module(module).define())
    spellings = {setting.alias for flags in sets for setting in flags.declared.values() if setting.alias}
    return spellings | {name for flags in sets for name in re.findall(r"^  --(\w+):", flags.help(), re.MULTILINE)}


@pytest.mark.parametrize("path", PAGES, ids=_id)
def test_flags_that_a_page_mentions_exist(path):
    spans = re.findall(r"`[^`]+`", _prose(path))
    mentioned = {name for span in spans for name in re.findall(r"(?<!\S)`?--(\w+)", span)}
    assert {name for name in mentioned if name == name.lower()} - _all_flags() - _OTHER_FLAGS == set()


def _links(path: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
    for link in re.findall(r"\]\(([^)\s]+)\)", _prose(path)):
        if not link.startswith("http"):
            file, _, anchor = link.partition("#")
            yield (path.parent / file if file else path), anchor


@pytest.mark.parametrize("path", [*PAGES, ROOT / "CHANGELOG.md"], ids=_id)
def test_links_lead_somewhere(path):
    for file, anchor in _links(path):
        assert file.exists()
        assert not anchor or anchor in _headings(file)


def test_every_page_is_reached_from_the_readme():
    reached = {file.resolve() for file, _ in _links(README)}
    assert {_id(page) for page in set(PAGES) - reached} == {"README.md"}


def test_the_picture_of_the_packages_has_every_folder_with_modules():
    drawn = re.findall(r"<text[^>]*>(\w+/?)</text>", (ROOT / "docs/pictures/packages.svg").read_text())
    packages = [name.rstrip("/") for name in drawn if name.endswith("/")]
    folders = {path.parent.name for name in packages for path in (ROOT / name).glob("*/*.py")}
    assert packages == ["scripts", "bandits", "optimization", "data"]
    assert {name for name in drawn if not name.endswith("/")} - {"imports"} == folders


@pytest.mark.parametrize("path", PAGES, ids=_id)
def test_a_pages_python_is_sound(path):
    for block in _blocks(path, "python"):
        compile(block, path.name, "exec")


@pytest.mark.slow
def test_programs_that_use_tff_run_as_they_stand(capsys, tff_worker):
    programs = _blocks(ROOT / "docs" / "tff.md", "python")
    for program in programs:
        exec(compile(program, "tff.md", "exec"), found := {})
        assert capsys.readouterr().out
        if "fedkp" in found:
            weights = np.ravel(found["fedkp"].get_model_weights(found["state"]).trainable)
            np.testing.assert_allclose(weights, [1, -2], atol=0.05)
        elif "bandit" in found:
            assert len(program.splitlines()) <= 25
            assert found["metrics"].reward_sum / found["metrics"].examples > 0.6
        elif "supervised" in found:
            assert len(program.splitlines()) <= 25
            assert found["metrics"].loss_sum / found["metrics"].batch_examples < 0.4
        else:
            assert found["rule"].estimates(found["memory"]).numpy().max() > 0.7
    assert len(programs) == 4


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> pathlib.Path:
    """A copy of what a fresh clone has, with this environment."""
    folder = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.mark.slow
def test_the_readmes_commands_run_as_they_stand_from_top_to_bottom(checkout):
    left_out = {"FEDBANDITS_DATA_DIR", "PYTHONPATH", "BUILD_WORKING_DIRECTORY"}
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    played, shortened = 0, 0
    for language, block in re.findall(r"^```(sh|python)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL):
        if any(words in block for words in _NOT_PLAYED):
            continue
        command = ["bash", "-euc", block] if language == "sh" else ["./scripts/python", "-c", block]
        shortened += block.count("--minutes=3")
        command[-1] = block.replace("--minutes=3", "--minutes=1")  # `advise` uses all its minutes.
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{block}{done.stderr}"
        played += 1
    assert (played >= 4, shortened) == (True, 1)
    pictures = re.findall(r"--output=(\S+)", "".join(_blocks(README, "sh")))
    assert [name for name in pictures if not (checkout / name).stat().st_size] == []


@pytest.mark.slow
def test_a_page_with_all_tables_is_made_from_the_records(tmp_path):
    (tmp_path / "evidence").symlink_to(ROOT / "docs" / "evidence")
    assert reproduce.write_page(tmp_path / "results.md") == 0
    assert (tmp_path / "results.md").read_text(encoding="utf-8").count("\n### ") >= 25


@pytest.mark.parametrize("count", [2, pytest.param(None, marks=pytest.mark.slow)])
def test_the_table_of_costs_has_the_runs_and_rounds_of_each_figure(count):
    """A row: figures, data, runs a seed, rounds a seed, hours a seed, runs of the search and their time."""
    rows = re.findall(
        r"^\| (`.+?) \| [\w ]+ \| (\d+) \| ([\d,]+) \| [\d.]+ \| (?:(\d+) runs)?", _SPEED.read_text(), re.M
    )
    named = {name: row[1:] for row in rows for name in re.findall(r"`(.+?)`", row[0])}
    expected = {}
    for figure in figures.choose("agarwal2023", figures.PAPER)[:count]:
        some = {arm: figure.runs_of(arm, 1, (), pathlib.Path("unused")) for arm in figure.configurations}
        rounds = sum(group[0].rounds + estimate.init_rounds(group[0].settings) for group in some.values())
        search = sum(len(group) for arm, group in some.items() if arm.is_searched)
        expected[figure.name] = (f"{len(some)}", f"{rounds:,}", f"{search}" if search else "")
    assert {name: row for name, row in named.items() if name in expected} == expected
