"""Tests of data.settings: declarations of settings and the options made from them."""

import dataclasses

import pytest

from data.settings import Count, Fraction, Positive, declared, make_options, names, numbers, setting


@dataclasses.dataclass(frozen=True)
class _Group:
    count: Count = setting(3, "Number of clients", basic=True)
    share: Fraction | None = setting(None, "Share of clients")
    width: Positive = setting(None, "Width of a layer", unset=2.5, name="layer_width")
    label: str = ""


def test_declared_settings_have_the_bounds_of_their_types():
    count, share, width = declared(_Group, share={"default": 0.5})
    assert names(_Group) == ("count", "share", "layer_width")
    assert (count.type, count.help, count.basic, share.default) == (int, "Number of clients", True, 0.5)
    for declaration, valid, wrong in ((count, 1, 0), (share, 0.0, 1.5), (share, 1.0, -0.1), (width, 1e-3, 0.0)):
        assert declaration.wrong(valid) == ""
        assert declaration.wrong(wrong).startswith(f"{wrong:g} is not a number ")


def test_options_keep_the_unset_value_of_a_setting_without_a_value():
    assert make_options(_Group, {"count": 4}) == _Group(4, None, 2.5)
    assert make_options(_Group, {"count": 4, "layer_width": 1.0}, label="a") == _Group(4, None, 1.0, "a")


@pytest.mark.parametrize("text", ["1,0", "1,2.5", "1,900", "a", ""])
def test_a_list_of_whole_numbers_refuses_others(text):
    parser = numbers(whole=True, high=100)
    assert parser.parse("1,20") == (1, 20)
    with pytest.raises(ValueError, match="must be whole numbers above 0 up to 100"):
        parser.parse(text)
