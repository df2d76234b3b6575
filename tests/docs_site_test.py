"""The site's list of keywords. Not for Bazel, which hides the docs."""

import importlib.util
import inspect
import pathlib
import re

import pytest

import bandits
from bandits import ads

_PATH = pathlib.Path(__file__).resolve().parents[1] / "docs/site/keywords.py"
_SPEC = importlib.util.spec_from_file_location("keywords", _PATH)
keywords = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(keywords)


@pytest.mark.parametrize("package", [bandits, ads])
def test_the_site_lists_each_keyword_of_a_study(package):
    listed = re.findall(r"^- \*\*`(\w+)`\*\*: \S", keywords.markdown(package.__name__), re.MULTILINE)
    assert set(listed) == set(inspect.signature(package.run).parameters)
