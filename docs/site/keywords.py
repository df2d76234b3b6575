"""Prints the keywords of each study's `run` as Markdown, in a JSON object by package.

The site's environment has no TensorFlow, so its hooks start this program in the project's environment.
"""

import importlib
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from bandits import studies

_START = "Settings, with their defaults:\n"


def markdown(package: str) -> str:
    """Returns the keywords of `PACKAGE.run`, from its docstring, which is derived from the declared settings.

    Args:
      package: Package of the study, such as `bandits`.
    """
    about, _, settings = importlib.import_module(package).run.__doc__.partition(_START)
    objects = re.findall(r"^  (\w+): (.*)$", about.partition("Args:\n")[2].partition("\n\n")[0], re.MULTILINE)
    lines = [f"## Keywords of {package}.run", "", "None means that a keyword is not given.", ""]
    lines += ["#### Objects", "", *(f"- **`{name}`**: {text}" for name, text in objects), ""] * bool(objects)
    for line in settings.splitlines():  # `list_presets` is for the command line only.
        if setting := re.fullmatch(r" {2}(\w+): (.*)", line):
            lines.append(f"- **`{setting[1]}`**: {_text(setting[2])}")
        elif choice := re.fullmatch(r" {6}(\S+) {2,}(.*)", line):
            lines.append(f"    - `{choice[1]}`: {_text(choice[2])}")
        elif line.startswith(" "):  # The text of the line above is wrapped.
            lines[-1] += f" {_text(line.strip())}"
        else:
            lines += ["", f"#### {_text(line)}" if line else "", ""]
    shown = [line.removesuffix(":") for line in lines if not line.startswith("- **`list_presets`**")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(shown))


def _text(words: str) -> str:
    """Escapes words for Markdown."""
    return re.sub(r"([*_<>|\[\]])", r"\\\1", words)


if __name__ == "__main__":
    packages = [module.rpartition(".")[0] for module in studies.STUDIES.values()]
    print(json.dumps({package: markdown(package) for package in packages}))
