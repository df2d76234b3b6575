"""Tests of flags that belong to a choice, as they are declared to a FlagSet."""

import pytest

from data.errors import UsageError
from optimization.study import cli

# Two policies share a name, with defaults and bounds of their own; a third name is the same to both of its owners.
_SHARE = cli.Parameter(0.5, "a share", high=1.0)
_OWNED = {
    "greedy": {},
    "falcon": {"gamma": cli.Parameter(1000.0, "an inverse gap")},
    "exp3": {"gamma": cli.Parameter(0.1, "a part at random", high=1.0, above=True), "share": _SHARE},
    "mixed": {"share": _SHARE},
    "uniform": {},
    "softmax": {},
}


def _flag_set() -> cli.FlagSet:
    flags = cli.FlagSet("")
    flags.group("Choices")
    flags.choice("policy", "greedy", list(_OWNED), "the policy")
    flags.text("selectors", "all", "one or several")
    flags.choice("model", None, ["linear", "cnn"], "the model")
    flags.parameters("bandits_", "policy", _OWNED)
    flags.integer("candidates", 3, "how many")
    flags.belong("candidates", selectors=["few", "some"])
    flags.number("rate", None, "a rate")
    flags.integer("after", 1, "rounds until it falls")
    flags.belong("after", rate=True)
    flags.integer("words", 9, "words to learn")
    flags.belong("words", rate=False)
    flags.switch("tries", False, "try all")
    flags.belong("tries", policy=[name for name in _OWNED if name != "greedy"])
    flags.group("Of images", policy=("falcon", "exp3"))
    flags.integer("depth", 2, "layers")
    flags.integer("width", 4, "channels")
    flags.belong("width", policy=("exp3",), model=("cnn",))
    return flags


def _settled(*arguments: str) -> cli.Settings:
    return _flag_set().parse(["program", *arguments]).settled()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bandits_gamma=1"], "--bandits_gamma belongs to --policy=falcon or exp3, not to greedy."),
        (["--policy=falcon", "--bandits_share=1"], "--bandits_share belongs to --policy=exp3 or mixed, not to falcon."),
        (
            ["--selectors=all, none", "--candidates=3"],
            "--candidates belongs to --selectors=few or some, not to all, none.",
        ),
        (["--after=2"], "--after belongs to --rate: give both, or neither."),
        (["--rate=0", "--words=2"], "--words does not go with --rate: leave one out."),
        (["--notries"], "--tries does not belong to --policy=greedy."),
        (["--depth=1"], "--depth belongs to --policy=falcon or exp3, not to greedy."),
        (["--policy=falcon", "--model=cnn", "--width=1"], "--width belongs to --policy=exp3, not to falcon."),
        (["--policy=exp3", "--width=1"], "--width belongs to --model=cnn, not to its default."),
        (["--policy=exp3", "--model=linear", "--width=1"], "--width belongs to --model=cnn, not to linear."),
    ],
)
def test_a_flag_of_another_choice_is_refused(arguments, message):
    with pytest.raises(UsageError) as caught:
        _settled(*arguments)
    assert str(caught.value) == message


def test_a_flag_is_taken_beside_its_choice():
    settings = _settled(
        "--policy=exp3", "--model=cnn", "--width=1", "--selectors=all,some", "--candidates=5", "--tries"
    )
    assert (settings.width, settings.candidates, settings.tries) == (1, 5, True)
    assert _settled("--rate=0", "--after=2").after == 2
    assert _settled("--words=2").words == 2


def test_only_flags_that_are_given_are_refused():
    preset = _flag_set().parse(["program"]).with_defaults({"bandits_gamma": 5.0, "depth": 7})
    assert (preset.settled().bandits_gamma, preset.settled().depth) == (5.0, 7)


@pytest.mark.parametrize(("policy", "gamma"), [("falcon", 1000.0), ("exp3", 0.1), ("greedy", 1000.0)])
def test_a_shared_name_has_the_default_of_the_chosen_owner_or_of_the_first(policy, gamma):
    assert _settled(f"--policy={policy}").bandits_gamma == gamma


def test_what_all_owners_agree_on_is_the_default_before_anything_is_chosen():
    assert _flag_set().parse(["program"]).bandits_share == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--policy=exp3", "--bandits_gamma=2"],
            "--bandits_gamma=2.0: 2 is not a number above 0 and at most 1, as --policy=exp3 needs.",
        ),
        (
            ["--policy=exp3", "--bandits_gamma=0"],
            "--bandits_gamma=0.0: 0 is not a number above 0 and at most 1, as --policy=exp3 needs.",
        ),
        (["--bandits_gamma=-1"], "--bandits_gamma=-1.0: -1 is not a number of at least 0"),
        (["--bandits_share=2"], "--bandits_share=2.0: 2 is not a number of at least 0 and at most 1"),
    ],
)
def test_a_value_must_suit_the_chosen_owner(arguments, message):
    with pytest.raises(UsageError) as caught:
        _settled(*arguments)
    assert str(caught.value) == message
    assert _settled("--policy=falcon", "--bandits_gamma=2").bandits_gamma == 2.0


def test_a_presets_value_must_suit_the_chosen_owner_too():
    settings = _flag_set().parse(["program", "--policy=exp3"]).with_defaults({"bandits_gamma": 1000.0})
    with pytest.raises(UsageError, match="1000 is not a number above 0 and at most 1, as --policy=exp3 needs"):
        settings.settled()


def test_settling_twice_changes_nothing():
    settings = _settled("--policy=exp3", "--bandits_share=0.3")
    assert dict(settings.settled()) == dict(settings)


def test_help_says_what_a_flag_belongs_to():
    text = " ".join(_flag_set().help().split())
    assert (
        "--bandits_gamma: falcon: an inverse gap (default: 1000.0); exp3: a part at random (default: 0.1); "
        "only for --policy=falcon, exp3 " in text
    )
    assert "--bandits_share: a share (default: 0.5); only for --policy=exp3, mixed " in text
    assert "--after: rounds until it falls (default: 1); only with --rate " in text
    assert "--words: words to learn (default: 9); not with --rate " in text
    assert "--tries: try all (default: false); not for --policy=greedy " in text
    assert "Of images, only for --policy=falcon, exp3: --depth: layers (default: 2) --width" in text
    assert "--width: channels (default: 4); only for --policy=exp3; only for --model=cnn" in text


def test_flags_that_are_given_in_another_way_count_as_given():
    settings = _flag_set().parse(["program"]).give(depth=3)
    assert settings.given == {"depth"}
    with pytest.raises(UsageError, match="--depth belongs to"):
        settings.settled()


def test_filled_replaces_no_value():
    settings = _flag_set().parse(["program"]).filled({"rate": 0.5, "depth": 9})
    assert (settings.rate, settings.depth, settings.given) == (0.5, 2, frozenset())
