"""Tests of optimization.study.flag_set."""

import pathlib
import tomllib

import pytest

from data.errors import UsageError
from optimization.study import flag_set
from optimization.study.flag_set import FlagSet, user_path
from optimization.study.settings import Settings


def _flag_set() -> FlagSet:
    flag_set = FlagSet("\nWhat it is for.\n")
    flag_set.group("First")
    flag_set.text("name", None, "a name")
    flag_set.integer("count", 3, "a count", low=1, high=9)
    flag_set.integer("size", None, "a size")
    flag_set.group("Second")
    flag_set.number("share", 0.5, "a share", high=1.0)
    flag_set.number("scale", 2.0, "a scale", above=True)
    flag_set.number("decay", None, "a decay", high=1.0, below=True)
    flag_set.switch("fast", True, "be fast")
    flag_set.choice("kind", "round", ["round", "flat"], "the kind")
    flag_set.choice("metal", None, {"iron": "it rusts", "gold": "it does not"}, "the metal")
    return flag_set


def _parse(*arguments: str) -> Settings:
    return _flag_set().parse(["program", *arguments])


def test_other_spellings_of_flags_and_words_mean_the_same():
    flag_set = _flag_set()
    flag_set.spelled("count", "how_many")
    flag_set.choice("wood", None, ["oak"], "the wood", spellings={"quercus": "oak"})
    for arguments in (["--how_many=4"], ["-how_many", "4"], ["--how_many", "4"]):
        settings = flag_set.parse(["program", *arguments, "--wood=quercus", "--name=how_many"])
        assert (settings.count, settings.wood, settings.name) == (4, "oak", "how_many")
        assert settings.given == {"count", "wood", "name"}
    with pytest.raises(UsageError, match=r"--count=x: .* 'x'"):
        flag_set.parse(["program", "--how_many=x"])
    with pytest.raises(UsageError, match="--how_many_more is not known"):
        flag_set.parse(["program", "--how_many_more=1"])


def test_flags_that_are_not_given_have_their_defaults():
    assert dict(_parse()) == {
        "name": None,
        "count": 3,
        "size": None,
        "share": 0.5,
        "scale": 2.0,
        "decay": None,
        "fast": True,
        "kind": "round",
        "metal": None,
    }


def test_given_flags_have_the_values_of_their_types():
    settings = _parse("--name=x y", "--count=9", "--share=1", "--nofast", "--kind", "flat", "--metal=gold")
    assert dict(settings) == {
        "name": "x y",
        "count": 9,
        "size": None,
        "share": 1.0,
        "scale": 2.0,
        "decay": None,
        "fast": False,
        "kind": "flat",
        "metal": "gold",
    }
    assert isinstance(settings.share, float)


def test_the_last_of_two_values_counts():
    assert _parse("--count=4", "--count=5").count == 5


@pytest.mark.parametrize("argument", ["--fast", "--fast=true", "--fast=1"])
def test_a_switch_is_turned_on_by(argument):
    assert _parse("--nofast", argument).fast is True


def test_two_flag_sets_do_not_share_values():
    flag_set = _flag_set()
    assert _parse("--count=4").count == 4
    assert flag_set.parse(["program"]).count == 3


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--share=1.01", "--share=1.01: 1.01 is not a number of at least 0 and at most 1"),
        ("--share=-0.5", "--share=-0.5: -0.5 is not a number of at least 0 and at most 1"),
        ("--share=nan", "--share=nan: nan is not a finite number of at least 0 and at most 1"),
        ("--scale=0", "--scale=0.0: 0 is not a number above 0"),
        ("--scale=inf", "--scale=inf: inf is not a finite number above 0"),
        ("--decay=1", "--decay=1.0: 1 is not a number of at least 0 and below 1"),
        ("--share=much", "--share=much: could not convert string to float: 'much'"),
        ("--count=0", "--count=0: 0 is not an integer in the range [1, 9]"),
        ("--count=10", "--count=10: 10 is not an integer in the range [1, 9]"),
        ("--count=2.5", "--count=2.5: invalid literal for int() with base 10: '2.5'"),
        ("--size=-1", "--size=-1: -1 is not a non-negative integer"),
        ("--kind=square", "--kind=square: value should be one of <round|flat>"),
        ("--metal=tin", "--metal=tin: value should be one of <iron|gold>"),
        ("--name", "Missing value for --name"),
        ("--fats", "--fats is not known: did you mean --fast?"),
        ("count=4", "Unexpected argument 'count=4': settings are given as --flag=value."),
    ],
)
def test_bad_usage_is_answered_with(argument, message):
    with pytest.raises(UsageError) as caught:
        _parse(argument)
    assert str(caught.value) == message


def test_bounds_themselves_are_allowed_unless_excluded():
    settings = _parse("--share=0", "--count=1", "--size=0", "--decay=0")
    assert (settings.share, settings.count, settings.size, settings.decay) == (0.0, 1, 0, 0.0)


def test_an_argument_after_two_dashes_is_refused_too():
    with pytest.raises(UsageError, match="Unexpected argument 'rest'"):
        _parse("--", "rest")


def test_arguments_that_are_wanted_may_stand_anywhere():
    flag_set = FlagSet("", positional="folders")
    flag_set.group("Only")
    flag_set.integer("count", 3, "a count")
    settings = flag_set.parse(["program", "a,b", "--count=4", "c", "--", "--d"])
    assert dict(settings) == {"count": 4, "folders": ("a,b", "c", "--d")}
    assert flag_set.parse(["program"]).folders == ()


def test_flags_of_other_programs_are_kept_in_their_order_where_they_are_wanted():
    flag_set = FlagSet("", "rest", known_only=True)
    flag_set.group("Flags")
    flag_set.texts("sweep", "several")
    flag_set.integer("count", 1, "a count")
    settings = flag_set.parse(
        ["program", "--a", "5", "--sweep=x=1", "--nob", "--count=2", "--sweep", "y=2,3", "--c=--d"]
    )
    assert dict(settings) == {"sweep": ["x=1", "y=2,3"], "count": 2, "rest": ("--a", "5", "--nob", "--c=--d")}
    assert settings.given == {"sweep", "count"}
    assert "--sweep: several\n" in flag_set.help()


@pytest.mark.parametrize("name", ["a", "a/b.c/seed_0", "日本", "with blank"])
def test_the_name_of_a_folder_may_be_any_below_another(name):
    flag_set = FlagSet("")
    flag_set.group("Only")
    flag_set.folder("experiment_name", "its name")
    assert flag_set.parse(["program", f"--experiment_name={name}"]).experiment_name == name


def test_settings_are_read_by_attribute_and_by_key():
    settings = _parse("--count=4")
    assert settings.count == settings["count"] == 4
    assert len(settings) == len(list(settings)) == 9


def test_an_unknown_setting_is_an_attribute_error():
    with pytest.raises(AttributeError, match="colour"):
        _ = _parse().colour


def test_given_names_the_flags_of_the_command_line_even_at_their_defaults():
    assert _parse("--count=3", "--nofast").given == {"count", "fast"}


def test_replace_changes_a_copy_and_keeps_what_was_given():
    settings = _parse("--count=4")
    changed = settings.replace(count=7, share=0.1)
    assert (changed.count, changed.share, settings.count, settings.share) == (7, 0.1, 4, 0.5)
    assert changed.given == {"count"}


def test_with_defaults_fills_in_only_what_was_not_given():
    settings = _parse("--count=4").with_defaults({"count": 8, "size": 6, "share": 0.2})
    assert (settings.count, settings.size, settings.share) == (4, 6, 0.2)


def test_a_flag_that_was_given_at_its_default_keeps_it():
    assert _parse("--count=3").with_defaults({"count": 8}).count == 3


def test_help_shows_groups_flags_defaults_and_choices():
    lines = _flag_set().help().splitlines()
    assert lines[:4] == ["What it is for.", "", "First:", "  --name: a name"]
    assert "  --count: a count (default: 3)" in lines
    assert "  --fast: be fast (default: true)" in lines
    assert "  --kind: the kind: round, flat (default: round)" in lines
    after_metal = lines[lines.index("  --metal: the metal") + 1 :]
    assert [line.split(maxsplit=1) for line in after_metal[:2]] == [["iron", "it rusts"], ["gold", "it does not"]]


def test_help_wraps_long_lines():
    flag_set = FlagSet("")
    flag_set.group("Only")
    flag_set.text("name", None, "word " * 100)
    assert max(len(line) for line in flag_set.help().splitlines()) <= 110


def test_a_relative_path_starts_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("BUILD_WORKING_DIRECTORY", raising=False)
    monkeypatch.chdir(tmp_path)
    assert user_path("runs/../other") == str(tmp_path / "other")


def test_a_relative_path_starts_where_the_user_is_under_bazel(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    assert user_path("runs") == str(tmp_path / "runs")


def test_absolute_paths_and_the_home_folder_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_path(str(tmp_path / "a")) == str(tmp_path / "a")
    assert user_path("~/a") == str(tmp_path / "a")


def test_a_path_is_absolute_once_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    flag_set = FlagSet("")
    flag_set.group("Only")
    flag_set.path("output", "runs", "where to")
    flag_set.path("table", None, "what")
    assert dict(flag_set.parse(["program"])) == {"output": f"{tmp_path}/runs", "table": None}
    assert flag_set.parse(["program", "--table=a/../b"]).table == f"{tmp_path}/b"
    assert "--output: where to (default: runs)" in flag_set.help()


def _with_file(tmp_path, text: str, *arguments: str) -> Settings:
    """Parses arguments beside a file of flags."""
    flag_set = _flag_set()
    flag_set.file("config", lambda path: tomllib.loads(pathlib.Path(path).read_text()), "a file")
    flag_set.path("table", None, "a table")
    flag_set.number("rust", None, "how much")
    flag_set.belong("rust", metal=("iron",))
    (tmp_path / "x.toml").write_text(text)
    return flag_set.parse(["program", f"--config={tmp_path / 'x.toml'}", *arguments])


def test_values_of_a_file_are_given_and_those_of_the_command_line_win(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", "/where/the/user/is")
    text = 'count = 4\nshare = 1\nfast = false\nkind = "flat"\ntable = "a.csv"\nsize = 7\n'
    settings = _with_file(tmp_path, text, "--size=8")
    assert (settings.count, settings.share, settings.fast, settings.kind) == (4, 1.0, False, "flat")
    assert isinstance(settings.share, float)
    assert (settings.table, settings.size) == ("/where/the/user/is/a.csv", 8)
    assert settings.given == {"config", "count", "share", "fast", "kind", "table", "size"}
    assert settings.from_file == {"count", "share", "fast", "kind", "table"}


def test_a_choice_of_the_command_line_wins_over_what_belongs_to_the_files(tmp_path):
    text = 'metal = "gold"\nrust = 0.5\n'
    with pytest.raises(UsageError, match="--rust belongs to --metal=iron, not to gold"):
        _with_file(tmp_path, text).settled()
    settings = _with_file(tmp_path, text.replace("gold", "iron"), "--metal=gold").settled()
    assert (settings.given, settings.rust) == ({"config", "metal"}, None)
    assert _with_file(tmp_path, text, "--metal=iron").settled().rust == 0.5


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("count = 10", "count = 10: 10 is not an integer in the range [1, 9]"),
        ("share = 1.01", "share = 1.01: 1.01 is not a number of at least 0 and at most 1"),
        ("share = nan", "share = nan: nan is not a finite number of at least 0 and at most 1"),
        ('kind = "square"', "kind = square: value should be one of <round|flat>"),
        ('name = ""', "name = : is empty: give it a value, or leave it out"),
        ('count = "4"', "count takes a whole number, not a text."),
        ("count = 4.0", "count takes a whole number, not 4.0."),
        ("count = true", "count takes a whole number, not true."),
        ("share = [0.1, 0.2]", "share takes a number, not a list."),
        ("name = 2026-01-01", "name takes a text in quotes, not a date or time."),
        ("name = 3", "name takes a text in quotes, not 3."),
        ("fast = 1", "fast takes true or false, not 1."),
        ("counts = 4", "counts is no flag: did you mean count?"),
        ("colour = 4", "colour is no flag: --help lists all."),
    ],
)
def test_a_bad_value_of_a_file_is_told_with_the_file(tmp_path, line, message):
    with pytest.raises(UsageError) as caught:
        _with_file(tmp_path, line)
    assert str(caught.value) == f"{tmp_path / 'x.toml'}: {message}"


def test_defaults_from_elsewhere_are_checked_as_the_command_line():
    assert isinstance(_parse().with_defaults({"share": 1}).share, float)
    with pytest.raises(UsageError, match="count = 10: 10 is not an integer"):
        _parse("--count=3").with_defaults({"count": 10})


def test_an_unknown_flag_is_answered_with_those_that_take_its_value():
    flag_set = FlagSet("")
    flag_set.group("Only")
    flag_set.number("share", 0.5, "a share")
    flag_set.choice("metal_type", None, ["iron"], "its type")
    flag_set.number("metal_share", None, "its share")
    for argument, meant in [("--metal=iron", "metal_type"), ("--shares=1", "share"), ("--metal=0.5", "metal_share")]:
        with pytest.raises(UsageError, match=f"is not known: did you mean --{meant}[?]$"):
            flag_set.parse(["program", argument])


# Names that are near.


NAMES = [
    "bandits_type",
    "bandits_epsilon",
    "clients_per_round",
    "total_rounds",
    "rounds_per_eval",
    "server_adam_epsilon",
    "client_learning_rate",
    "epsilon_greedy",
    "emnist_chars",
    "emnist62_linear",
    "mnist",
    "table3/ucb_c=0.05",
    "table3/ucb_recency_c=0.05_alpha=0.5",
]


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("rounds", ["total_rounds", "rounds_per_eval"]),
        ("epsilon", ["bandits_epsilon", "epsilon_greedy", "server_adam_epsilon"]),
        ("emnist", ["emnist_chars"]),
        ("eps_greedy", ["epsilon_greedy"]),
        ("Total-Round", ["total_rounds"]),
        ("lr", ["client_learning_rate"]),
        ("mnits", ["mnist"]),
        ("table3/ucb_c=0.5", ["table3/ucb_c=0.05"]),
        ("type_of_bandit", []),
        ("x", []),
        ("__", []),
    ],
)
def test_the_names_that_a_word_may_stand_for_are(word, near):
    assert flag_set.near_names(word, NAMES) == near


def test_at_most_three_are_told():
    assert flag_set.did_you_mean("ab", "ask") == "did you mean a or b?"
    assert flag_set.did_you_mean("abcd", "ask") == "did you mean a, b or c?"
    assert flag_set.did_you_mean("a", "ask") == "did you mean a?"
    assert flag_set.did_you_mean("", "ask") == "ask"
