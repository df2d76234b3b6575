import dataclasses
import pathlib
import tomllib

import pytest

from data.errors import UsageError
from data.settings import no_folder, setting
from optimization.study.flag_set import FlagSet
from optimization.study.settings import Settings


@dataclasses.dataclass(frozen=True)
class _First:
    """First."""

    name: str = setting(None, "Name", basic=True)
    config: pathlib.Path = setting(None, "File")
    count: int = setting(3, "Number of things", low=1, high=9, alias="how_many")
    size: int = setting(None, "Size", applied_default=7)


@dataclasses.dataclass(frozen=True)
class _Second:
    """Second."""

    share: float = setting(0.5, "Share", high=1.0)
    scale: float = setting(2.0, "Scale", above=True)
    decay: float = setting(None, "Decay", high=1.0, below=True)
    fast: bool = setting(True, "Be fast")
    kind: str = setting("round", "Kind", ["round", "flat"])
    metal: str = setting(None, "Metal", {"iron": "it rusts", "gold": "it does not"}, spellings={"ferrum": "iron"})
    table: pathlib.Path = setting(None, "Table")
    rust: float = setting(None, "How much", only={"metal": ("iron",)})
    chips: int = setting(None, "Number of chips", only={"rust": True})
    folder: str = setting(None, "Folder", check=no_folder)


_DEFAULTS = {"count": 3, "share": 0.5, "scale": 2.0, "fast": True, "kind": "round"}
_DEFAULTS |= dict.fromkeys(["name", "config", "size", "decay", "metal", "table", "rust", "chips", "folder"])


def _flag_set() -> FlagSet:
    flag_set = FlagSet("\nWhat it is for.\n")
    flag_set.group("First")
    flag_set.file(_First, "config", lambda path: tomllib.loads(pathlib.Path(path).read_text()))
    flag_set.group("Second", _Second)
    return flag_set


def _parse(*arguments: str) -> Settings:
    return _flag_set().parse(["program", *arguments])


def test_other_spellings_of_flags_and_words_mean_the_same():
    for arguments in (["--how_many=4"], ["-how_many", "4"], ["--how_many", "4"]):
        settings = _parse(*arguments, "--metal=ferrum", "--name=how_many")
        assert (settings.count, settings.metal, settings.name) == (4, "iron", "how_many")
        assert settings.set_by_user == {"count", "metal", "name"}


@pytest.mark.parametrize("argument", ["--fast", "--fast=true", "--fast=1"])
def test_a_switch_is_turned_on_by(argument):
    assert _parse("--nofast", argument).fast is True


# By flag, values that are refused as they would be in a file.
_BAD = {
    "share": [1.01, -0.5, float("nan")],
    "scale": [0.0, float("inf"), 1e-50, 1e39],
    "decay": [1.0],
    "count": [0, 10],
    "size": [-1, 2**31],
    "kind": ["square"],
    "metal": ["tin"],
    "folder": ["../a", "a/../b", "/a", "a//b", "a\n"],
    "name": [""],
    "table": [""],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in _BAD.items() for value in values])
def test_a_bad_value_is_refused_on_the_command_line_in_a_file_and_in_presets(tmp_path, name, value):
    with pytest.raises(UsageError, match=f"^--{name}="):
        _parse(f"--{name}={value}")
    text = f"{name} = {value!r}" if isinstance(value, str) else f"{name} = {value}"
    (tmp_path / "x.toml").write_text(text.replace("'", '"'))
    with pytest.raises(UsageError, match=f"^--config={tmp_path}/x.toml: {name} = "):
        _parse(f"--config={tmp_path}/x.toml")
    with pytest.raises(UsageError, match=f"^{name} = "):
        _parse().with_defaults({name: value})


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("--share=much", "--share=much"),
        ("--count=2.5", "--count=2.5"),
        ("--fats", "did you mean --fast?"),
        ("--how_many=x", "--count=x"),
        ("--how_many_more=1", "--how_many_more is not known"),
        ("--colour=1", "--helpfull"),
        ("count=4", "'count=4'"),
    ],
)
def test_bad_usage_is_answered_with(argument, named):
    with pytest.raises(UsageError) as caught:
        _parse(argument)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    ['count = "4"', "count = 4.0", "count = true", "share = [0.1, 0.2]", "name = 2026-01-01", "name = 3", "fast = 1"],
)
def test_a_value_of_another_type_is_refused_in_a_file(tmp_path, line):
    (tmp_path / "x.toml").write_text(line)
    with pytest.raises(UsageError, match=f"x.toml: {line.partition(' ')[0]} takes "):
        _parse(f"--config={tmp_path}/x.toml")


def test_values_of_a_file_are_given_and_those_of_the_command_line_win(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", "/where/the/user/is")
    text = 'count = 4\nshare = 1\nfast = false\nkind = "flat"\ntable = "a.csv"\nsize = 7\n'
    (tmp_path / "x.toml").write_text(text)
    settings = _parse(f"--config={tmp_path}/x.toml", "--size=8")
    assert (settings.count, settings.share, settings.fast, settings.kind) == (4, 1.0, False, "flat")
    assert isinstance(settings.share, float)
    assert (settings.table, settings.size) == ("/where/the/user/is/a.csv", 8)
    assert settings.set_by_user == {"config", "count", "share", "fast", "kind", "table", "size"}
    assert settings.from_file == {"count", "share", "fast", "kind", "table"}


def test_a_choice_of_the_command_line_wins_over_what_applies_to_the_files(tmp_path):
    (tmp_path / "gold.toml").write_text('metal = "gold"\nrust = 0.5\n')
    with pytest.raises(UsageError, match=r"--rust .*--metal"):
        _parse(f"--config={tmp_path}/gold.toml").checked()
    (tmp_path / "iron.toml").write_text('metal = "iron"\nrust = 0.5\n')
    settings = _parse(f"--config={tmp_path}/iron.toml", "--metal=gold").checked()
    assert (settings.set_by_user, settings.rust) == ({"config", "metal"}, None)
    assert _parse(f"--config={tmp_path}/gold.toml", "--metal=iron").checked().rust == 0.5
    (tmp_path / "deep.toml").write_text('metal = "iron"\nrust = 0.5\nchips = 3\n')
    assert _parse(f"--config={tmp_path}/deep.toml").chips == 3
    assert _parse(f"--config={tmp_path}/deep.toml", "--metal=gold").checked().chips is None


def test_full_help_shows_groups_defaults_words_and_what_a_setting_applies_to():
    lines = _flag_set().help(full=True).splitlines()
    assert lines[:4] == ["What it is for.", "", "First:", "  --name: Name"]
    assert {"  --count: Number of things (default: 3)", "  --size: Size (default: 7)"} <= set(lines)
    assert "  --fast: Be fast (default: true)" in lines
    assert "  --kind: Kind: round, flat (default: round)" in lines
    after_metal = lines[lines.index("  --metal: Metal") + 1 :]
    assert [line.split(maxsplit=1) for line in after_metal[:2]] == [["iron", "it rusts"], ["gold", "it does not"]]
    assert lines[lines.index("Second, only for --metal=iron:") + 1] == "  --rust: How much"
    assert sum(line.startswith("  --rust") for line in lines) == 1
