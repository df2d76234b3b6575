import dataclasses

import pytest

from data.errors import UsageError
from data.settings import Parameter, make_options, parameters, setting
from optimization.study import cli

# Two policies share a name, with defaults and bounds of their own; a third name is the same to both of its owners.
_SHARE = Parameter(0.5, "a share", high=1.0)
_OWNED = {
    "greedy": {},
    "falcon": {"gamma": Parameter(1000.0, "an inverse gap")},
    "exp3": {"gamma": Parameter(0.1, "a part at random", high=1.0, above=True), "share": _SHARE},
    "mixed": {"share": _SHARE},
    "uniform": {},
    "softmax": {},
}


@dataclasses.dataclass(frozen=True)
class _Choices:
    """Choices."""

    policy: str = setting("greedy", "Policy", list(_OWNED))
    selectors: str = setting("all", "One or several")
    model: str = setting(None, "Model", ["linear", "cnn"])
    candidates: int = setting(3, "How many", only={"selectors": ["few", "some"]})
    rate: float = setting(None, "Rate")
    after: int = setting(1, "Rounds until it falls", only={"rate": True})
    words: int = setting(9, "Words to learn", only={"rate": False})
    tries: bool = setting(False, "Try all", only={"policy": [name for name in _OWNED if name != "greedy"]})
    way: str = setting(None, "How", ["walk", "run"], only={"model": ("cnn",)}, applied_default="walk")
    speed: float = setting(None, "How fast", only={"way": ("walk",)}, applied_default=4.0)


@dataclasses.dataclass(frozen=True)
class _OfImages:
    """Settings of images."""

    depth: int = setting(2, "Layers")
    width: int = setting(4, "Channels", only={"policy": ("exp3",), "model": ("cnn",)})


def _flag_set() -> cli.FlagSet:
    flags = cli.FlagSet("")
    flags.group("Choices", _Choices, *parameters("bandits_", "policy", _OWNED))
    flags.group("Of images", _OfImages, policy=("falcon", "exp3"))
    return flags


def _settled(*arguments: str) -> cli.Settings:
    return _flag_set().parse(["program", *arguments]).checked()


@pytest.mark.parametrize(
    ("arguments", "name", "flag"),
    [
        (["--bandits_gamma=1"], "bandits_gamma", "policy"),
        (["--policy=falcon", "--bandits_share=1"], "bandits_share", "policy"),
        (["--selectors=all, none", "--candidates=3"], "candidates", "selectors"),
        (["--rate=0", "--words=2"], "words", "rate"),
        (["--notries"], "tries", "policy"),
        (["--depth=1"], "depth", "policy"),
        (["--policy=falcon", "--model=cnn", "--width=1"], "width", "policy"),
        (["--policy=exp3", "--model=linear", "--width=1"], "width", "model"),
        (["--model=cnn", "--way=run", "--speed=1"], "speed", "way"),
    ],
)
def test_a_setting_of_another_choice_is_refused(arguments, name, flag):
    with pytest.raises(UsageError, match=f"^--{name} .*--{flag}"):
        _settled(*arguments)


def test_a_setting_has_its_value_where_it_applies_and_elsewhere_none():
    assert (_settled("--model=cnn").way, _settled("--model=cnn").speed) == ("walk", 4.0)
    assert _settled("--model=cnn", "--speed=5").speed == 5.0
    assert (_settled("--model=cnn", "--way=run").speed, _settled().way, _settled().speed) == (None, None, None)


@dataclasses.dataclass(frozen=True)
class _Computed:
    """Computed."""

    last: int = setting(lambda settings: settings.middle + 1, "Last")
    middle: int = setting(lambda settings: 10 * settings.first, "Middle", convert=lambda value, _: min(value, 50))
    first: int = setting(2, "First")


@pytest.mark.parametrize(
    ("arguments", "expected"), [([], (21, 20, 2)), (["--first=9"], (51, 50, 9)), (["--middle=3"], (4, 3, 2))]
)
def test_defaults_follow_other_settings_in_any_order_of_fields(arguments, expected):
    flags = cli.FlagSet("")
    flags.group("Computed", _Computed)
    settings = flags.parse(["program", *arguments]).checked()
    assert tuple(make_options(_Computed, settings).__dict__.values()) == expected
    assert settings.default("middle") == 20 or arguments == ["--first=9"]
    assert settings.without("middle").last == (51 if "--first=9" in arguments else 21)
    assert settings.replace(last=7).default("last") == 7  # What the program sets is a default, too.


def test_a_flag_is_taken_beside_its_choice():
    settings = _settled(
        "--policy=exp3", "--model=cnn", "--width=1", "--selectors=all,some", "--candidates=5", "--tries"
    )
    assert (settings.width, settings.candidates, settings.tries) == (1, 5, True)
    assert _settled("--rate=0", "--after=2").after == 2
    assert _settled("--words=2").words == 2


def test_only_flags_that_are_given_are_refused():
    preset = _flag_set().parse(["program"]).with_defaults({"bandits_gamma": 5.0, "depth": 7})
    assert (preset.checked().bandits_gamma, preset.checked().depth) == (5.0, 7)


@pytest.mark.parametrize(("policy", "gamma"), [("falcon", 1000.0), ("exp3", 0.1), ("greedy", 1000.0)])
def test_a_shared_name_has_the_default_of_the_chosen_owner_or_of_the_first(policy, gamma):
    assert _settled(f"--policy={policy}").bandits_gamma == gamma


@pytest.mark.parametrize("arguments", [["--policy=exp3", "--bandits_gamma=2"], ["--bandits_gamma=-1"]])
def test_a_value_must_suit_the_chosen_owner(arguments):
    with pytest.raises(UsageError, match=arguments[-1]):
        _settled(*arguments)
    assert _settled("--policy=falcon", "--bandits_gamma=2").bandits_gamma == 2.0
