"""Questions and answers of Stack Exchange sites, read one at a time: a site's dump, or JSON lines.

Dumps are at https://archive.org/details/stackexchange: an archive for each site, `Posts.xml` in it one `<row>` a post.
Files may be of any size; of a dump's, the questions' titles and tags are kept in memory.
"""

import collections
import contextlib
import gzip
import html
import json
import os
import pathlib
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from xml.etree import ElementTree

from data.errors import UsageError

UNKNOWN_USER = "owner unknown or deleted"
MALFORMED = "row malformed"
NO_QUESTION = "answer without its question"
OTHER_TYPE = "neither question nor answer"

_QUESTION, _ANSWER = "1", "2"
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_TAG = re.compile(r"[^<>|\s]+")  # Of `<a><b>`, as dumps wrote tags before 2024, or of `|a|b|`.
# Comments, code with what it holds, and the other tags. A `<` that starts none of them is text.
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(pre|code)\b[^>]*>.*?(?:</\1\s*>|\Z)|</?[a-z][^>]*>", re.DOTALL | re.IGNORECASE
)


class Post(NamedTuple):
    """A question, or an answer with its question's title and tags.

    Attributes:
      site: Name of the site.
      user: Its author, `site/number`.
      title: Plain text.
      body: Plain text without code.
      tags: The question's tags.
    """

    site: str
    user: str
    title: str
    body: str
    tags: tuple[str, ...]


class _Question(NamedTuple):
    title: str
    tags: tuple[str, ...]


def read_jsonl(path: str | os.PathLike) -> Iterator[Post]:
    """Yields posts from a file with one JSON object a line, compressed if its name ends in `.gz`.

    An object has `site`, `user`, `title` and `body`, all text, and `tags`, a list of text; more is ignored, and so are
    empty lines.

    Args:
      path: The file.

    Raises:
      UsageError: If the file is not readable, or a line is no such object; names the line.
    """
    path = pathlib.Path(path)
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for line in file:
                number += 1
                if line.strip():
                    yield _parse_line(line)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is not readable at or after line {number} ({error}). Name a sound file with --data_dir."
        ) from error


def _parse_line(line: bytes) -> Post:
    record = json.loads(line.decode("utf-8-sig"))
    if not isinstance(record, dict):
        raise ValueError("this is no JSON object")
    names, tags = Post._fields[:-1], record.get("tags")
    if not all(isinstance(record.get(name), str) for name in names):
        raise ValueError(f"the object needs texts as {', '.join(names)}")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError("the object needs a list of texts as tags")
    return Post(**{name: record[name] for name in names}, tags=tuple(tags))


def read_dump(path: str | os.PathLike, skipped: collections.Counter[str]) -> Iterator[Post]:
    """Yields the posts of a dump's `Posts.xml`, whose folder is named like the site.

    Reads it twice: an answer may come before its question.

    Args:
      path: The file.
      skipped: Where rows that are no usable post are counted, by reason.

    Raises:
      UsageError: If the file is not readable or no such XML, such as a truncated one; names the line.
    """
    path = pathlib.Path(path)
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
            yield Post(site, f"{site}/{user}", question.title, body, question.tags)


def _rows(path: pathlib.Path) -> Iterator[dict[str, str]]:
    """Yields the attributes of the rows; what was read is forgotten."""
    try:
        with path.open("rb") as file:
            events = ElementTree.iterparse(file, events=("start", "end"))
            _, root = next(events)
            if root.tag != "posts":
                raise UsageError(
                    f"{path} holds <{root.tag}>, not the <posts> of a Posts.xml: name one with --data_dir."
                )
            for event, element in events:
                if event == "end":
                    if element.tag == "row":
                        yield element.attrib
                    root.clear()
    except UsageError:
        raise
    except ElementTree.ParseError as error:
        raise UsageError(
            f"{path}, line {error.position[0]}: the file is truncated or damaged ({error}). Name a sound one with "
            "--data_dir."
        ) from error
    except (OSError, LookupError, ValueError) as error:  # The latter two of an encoding that is not supported.
        raise UsageError(f"{path} is not readable ({error}). Name a sound file with --data_dir.") from error


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:20]!r} is no number")
    return int(text)


def _question(row: Mapping[str, str]) -> _Question:
    return _Question(row["Title"], tuple(sys.intern(tag) for tag in _TAG.findall(row["Tags"])))


def plain_text(markup: str) -> str:
    """Returns the text of HTML: tags, comments, `<pre>` and `<code>` with their content left out, entities decoded.

    What is left out separates words; any white space becomes one blank.
    """
    return " ".join(html.unescape(_MARKUP.sub(" ", markup)).split())
