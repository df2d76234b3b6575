"""Hooks of the site: pages outside docs/, notebooks, a page of the API for each folder, search without a server.

They also write the style of code, which needs no network, and the keywords of each study's `run`.
"""

import ast
import json
import os
import pathlib
import re
import subprocess

import nbconvert
from properdocs.config.defaults import ProperDocsConfig
from properdocs.plugins import event_priority
from properdocs.structure.files import File, Files, InclusionLevel
from properdocs.structure.pages import Page
from pygments.formatters import HtmlFormatter

ROOT = pathlib.Path(__file__).resolve().parents[2]
_PACKAGES = ("bandits", "optimization", "data", "scripts")
# Pages by their place in the site.
_OUTSIDE = {"index.md": "README.md"} | {name: name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")}
_STYLE = "css/site.css"
# Pygments' styles on a bright and on a dark page.
_CODE = {".highlight": "default", "[data-bs-theme=dark] .highlight": "github-dark"}
# Wide tables scroll, so that a page fits a phone.
_TABLES = ".col-md-9 table { display: block; width: fit-content; max-width: 100%; overflow-x: auto; }"
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: ProperDocsConfig) -> Files:
    """Adds the pages from outside docs/, notebooks, the files that pages link to, and the API reference."""
    pages = {uri: (ROOT / source).read_text(encoding="utf-8") for uri, source in _OUTSIDE.items()}
    for uri, text in {**pages, **_api_pages()}.items():
        files.append(File.generated(config, uri, content=text))
    for path in sorted((ROOT / "docs").glob("*.ipynb")):
        place = {"unique_key": path.stem, "output_files_dir": "notebooks"}
        text, resources = nbconvert.MarkdownExporter().from_filename(path, resources=place)
        files.append(File.generated(config, f"{path.stem}.md", content=text))
        for name, content in resources["outputs"].items():
            files.append(File.generated(config, name, content=content, inclusion=InclusionLevel.INCLUDED))
    styles = [HtmlFormatter(style=style).get_style_defs(selector) for selector, style in _CODE.items()]
    content = "\n".join([*styles, _TABLES])
    files.append(File.generated(config, _STYLE, content=content, inclusion=InclusionLevel.INCLUDED))
    linked = {
        target
        for file in files.documentation_pages()
        for _, name, _ in _LINK.findall(file.content_string)
        if (target := _target(file.src_uri, name)) and not _is_page(target)
    }
    for target in sorted(linked):
        place, content = _uri(target), target.read_bytes()
        if old := files.get_file_from_path(place):
            files.remove(old)
        files.append(File.generated(config, place, content=content, inclusion=InclusionLevel.INCLUDED))
    return files


def on_page_markdown(markdown: str, page: Page, config: ProperDocsConfig, files: Files) -> str:
    """Turns links between files of the project into links between those of the site."""

    def link(found: re.Match) -> str:
        target = _target(page.file.src_uri, found[2])
        if target is None:
            return found[0]
        return found[1] + os.path.relpath(_uri(target), pathlib.PurePath(page.file.src_uri).parent) + found[3]

    return _LINK.sub(link, markdown)


@event_priority(-100)  # After the search plugin, whose files this replaces.
def on_post_build(config: ProperDocsConfig) -> None:
    """Has browsers load the index as a script: from files they run no worker and read no JSON."""
    search = pathlib.Path(config.site_dir, "search")
    index = json.loads((search / "search_index.json").read_text(encoding="utf-8"))
    (search / "search_index.js").write_text(f"var SEARCH_INDEX = {json.dumps(index)};\n", encoding="utf-8")
    (search / "search_index.json").unlink()
    (search / "worker.js").unlink()
    shim = pathlib.Path(__file__).with_name("search.js").read_text(encoding="utf-8")
    main = (search / "main.js").read_text(encoding="utf-8")
    (search / "main.js").write_text(shim + main, encoding="utf-8")


def _target(uri: str, link: str) -> pathlib.Path | None:
    """The project's file that a page's link leads to; None for a link of the site's own."""
    folder = ROOT if uri in _OUTSIDE else (ROOT / "docs" / uri).parent
    target = (folder / link).resolve()
    return target if target.is_file() and target.is_relative_to(ROOT) else None


def _is_page(target: pathlib.Path) -> bool:
    return target.suffix in (".md", ".ipynb")


def _uri(target: pathlib.Path) -> str:
    """A file's place in the site."""
    name = target.relative_to(ROOT).as_posix()
    places = {source: uri for uri, source in _OUTSIDE.items()}
    return places.get(name) or name.removeprefix("docs/").replace(".ipynb", ".md")


def _modules(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in sorted(folder.glob("*.py")) if path.name != "__main__.py" and _doc(path)]


def _doc(path: pathlib.Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _dotted(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _api_pages() -> dict[str, str]:
    """A page for each folder, and an index of all modules with the first lines of their docstrings."""
    index = ["# API reference\n", "From the docstrings, a page for each folder. `bandits` is what notebooks import.\n"]
    pages = {}
    program = [str(ROOT / "scripts/python"), "docs/site/keywords.py"]
    keywords = json.loads(subprocess.run(program, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    for package in _PACKAGES:
        for folder in sorted({path.parent for path in (ROOT / package).rglob("*.py")}):
            if not (modules := _modules(folder)):
                continue
            name = _dotted(folder)
            parts = [f"# {name}\n", *(f"::: {_dotted(path)}\n" for path in modules)]
            parts.insert(2, keywords.get(name, "") + "\n")  # After the package, before its modules.
            pages[f"api/{name}.md"] = "\n".join(parts)
            index += [f"## [{name}]({name}.md)\n", "| module | |", "|---|---|"]
            for path in modules:
                first = _doc(path).partition("\n")[0].replace("|", "\\|")
                index.append(f"| [{_dotted(path)}]({name}.md#{_dotted(path)}) | {first} |")
            index.append("")
    return {"api/index.md": "\n".join(index), **pages}
