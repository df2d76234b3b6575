"""Converts published posts and tables to the files that tasks read.

The posts come from the dumps of Stack Exchange sites at https://archive.org/details/stackexchange, with one archive per
site. An archive's `Posts.xml` has one `<row>` for each post.

The tables are UCI's Heart Disease, and the answers of RouteLLM's models (Ong et al. 2024, "RouteLLM: Learning to Route
LLMs with Preference Data") to the questions of MMLU (Hendrycks et al. 2021).
"""

import collections
import contextlib
import csv
import gzip
import html
import io
import json
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from data import convert
from data.errors import UsageError

_SITES = ("cleveland", "hungarian", "switzerland", "va")
_COLUMNS = "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,target"
_MODELS = ("mixtral", "gpt-4")  # Prefixes of the column names, after the organization's name.
_ANSWERED = ("subject", "prompt", "mixtral_correct", "gpt4_correct")
_ANSWERS = {"True": 1, "False": 0}
UNKNOWN_USER = "posts whose owner is unknown or deleted"
MALFORMED = "malformed rows"
NO_QUESTION = "answers without their question"
OTHER_TYPE = "posts that are neither questions nor answers"

_QUESTION, _ANSWER = "1", "2"
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_TAG = re.compile(r"[^<>|\s]+")  # Tags are written `<a><b>` in dumps before 2024, and `|a|b|` in later ones.
# Comments, code elements with their content, and all other tags. Any other `<` is text.
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(pre|code)\b[^>]*>.*?(?:</\1\s*>|\Z)|</?[a-z][^>]*>", re.DOTALL | re.IGNORECASE
)


def stackexchange(source: pathlib.Path) -> Callable[[pathlib.Path], None]:
    """Converts posts of Stack Exchange sites to JSON lines, without HTML and code.

    Args:
      source: Folder with one subfolder per site, named after the site, that holds the dump's unpacked `Posts.xml`.

    Returns:
      Function that writes the compressed file to a path.

    Raises:
      UsageError: If there is no dump, or, when the function is called, if one is damaged.
    """
    if not (paths := sorted(source.glob("*/Posts.xml"))):
        raise UsageError(f"There is no folder with a Posts.xml in {source}: SOURCE must hold one for each site.")

    def write(target: pathlib.Path) -> None:
        report: collections.Counter[str] = collections.Counter()
        with target.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
            for path in paths:
                for post in read_dump(path, report):
                    report["posts"] += 1
                    file.write(f"{json.dumps(post, ensure_ascii=False)}\n".encode())
        print(", ".join(f"{what}: {count}" for what, count in report.items()), file=sys.stderr)

    return write


def read_dump(path: pathlib.Path, skipped: collections.Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields the posts in a dump's `Posts.xml`, whose folder is named after the site.

    Reads the file twice, because an answer may come before its question. Only the questions' titles and tags are kept
    in memory.

    Args:
      path: The file.
      skipped: Counts the rows that are not usable posts, by reason.

    Raises:
      UsageError: If the file cannot be read or is not valid, for example truncated; the message names the line.
    """
    site = path.absolute().parent.name
    questions = {}
    for row in _rows(path):
        with contextlib.suppress(KeyError, ValueError):
            if row["PostTypeId"] == _QUESTION:
                questions[_number(row["Id"])] = _question(row)
    for row in _rows(path):
        try:
            kind, _, _ = row["PostTypeId"], _number(row["PostTypeId"]), _number(row["Id"])
            if kind not in (_QUESTION, _ANSWER):
                skipped[OTHER_TYPE] += 1
                continue
            question = _question(row) if kind == _QUESTION else questions.get(_number(row["ParentId"]))
            body, user = plain_text(row["Body"]), _number(row.get("OwnerUserId", "-1"))
        except (KeyError, ValueError):
            skipped[MALFORMED] += 1
            continue
        if user < 0:
            skipped[UNKNOWN_USER] += 1
        elif question is None:
            skipped[NO_QUESTION] += 1
        else:
            title, tags = question
            yield {"site": site, "user": f"{site}/{user}", "title": title, "body": body, "tags": tags}


def _rows(path: pathlib.Path) -> Iterator[dict[str, str]]:
    """Yields each row's attributes, and frees the memory of earlier rows."""
    try:
        with path.open("rb") as file:
            events = ElementTree.iterparse(file, events=("start", "end"))
            _, root = next(events)
            if root.tag != "posts":
                raise convert.damaged(path, f"it holds <{root.tag}>, not the <posts> of a Posts.xml")
            for event, element in events:
                if event == "end":
                    if element.tag == "row":
                        yield element.attrib
                    root.clear()
    except UsageError:
        raise
    except (ElementTree.ParseError, OSError, LookupError, ValueError) as error:  # The last two: an unknown encoding.
        raise convert.damaged(path, error) from error


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:20]!r} is not a number")
    return int(text)


def _question(row: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Title and tags."""
    return row["Title"], tuple(sys.intern(tag) for tag in _TAG.findall(row["Tags"]))


def plain_text(markup: str) -> str:
    """Text of HTML without tags, comments, `<pre>` and `<code>`, with entities decoded.

    Anything that is removed separates words, and any run of white space becomes one space.
    """
    return " ".join(html.unescape(_MARKUP.sub(" ", markup)).split())


def heart_disease(source: pathlib.Path) -> bytes:
    """CSV table of patients with their hospitals, `site`; missing values are empty.

    Args:
      source: Folder with `processed.cleveland.data`, and the same for `hungarian`, `switzerland` and `va`.

    Raises:
      UsageError: If a file is missing, or a line does not have 14 values, each a number or `?`.
    """
    rows = [f"site,{_COLUMNS}"]
    for site in _SITES:
        path = convert.find(source, f"processed.{site}.data")
        for number, line in enumerate(path.read_text(encoding="latin-1").splitlines(), 1):
            if not line.strip():
                continue
            try:
                *measured, target = ("" if cell.strip() == "?" else str(float(cell)) for cell in line.split(","))
                if len(measured) != 13:
                    raise ValueError(f"{len(measured) + 1} values instead of 14")
                rows.append(",".join([site, *measured, str(int(float(target)))]))
            except ValueError as error:
                raise convert.damaged(path, f"line {number}: {error}") from error
    return ("\n".join(rows) + "\n").encode()


def routellm(source: pathlib.Path) -> bytes:
    """Gzipped CSV table with each question's subject and text, and whether each model answers correctly, 1 or 0.

    Args:
      source: Folder with the files `mmlu_SUBJECT.csv`: `routellm/evals/mmlu/responses` in RouteLLM's repository.

    Raises:
      UsageError: If there are no such files, or one lacks a column or has an answer other than True and False.
    """
    convert.find(source, "mmlu_abstract_algebra.csv")
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(_ANSWERED)
    for path in sorted(source.glob("mmlu_*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            names = {name.rpartition("/")[2].lower(): name for name in rows.fieldnames or ()}
            models = [names[name] for model in _MODELS for name in names if name.startswith(model)]
            if len(models) != len(_MODELS) or "prompt" not in names:
                raise convert.damaged(path, f"its columns are {', '.join(names)}")
            for row in rows:
                try:
                    answers = [_ANSWERS[row[model]] for model in models]
                except KeyError as error:
                    raise convert.damaged(path, f"line {rows.line_num}: {error} is neither True nor False") from error
                writer.writerow([path.stem.removeprefix("mmlu_"), row["prompt"], *answers])
    return gzip.compress(table.getvalue().encode(), mtime=0)
