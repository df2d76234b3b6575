"""RouteLLM's answers of two language models to MMLU's questions as one table.

Ong et al. 2024, "RouteLLM: Learning to Route LLMs with Preference Data"; questions of Hendrycks et al. 2021.
"""

import csv
import gzip
import io
import pathlib

from data import convert

_FILES = "mmlu_*.csv"
_MODELS = ("mixtral", "gpt-4")  # Beginnings of the columns' names, behind an organization's.
_COLUMNS = ("subject", "prompt", "mixtral_correct", "gpt4_correct")
_ANSWERS = {"True": 1, "False": 0}


def routellm(source: pathlib.Path) -> bytes:
    """Gzipped CSV table with the subject and text of each question, and 1 for each model that answers correctly.

    Args:
      source: Folder of `mmlu_SUBJECT.csv`, in the repository `routellm/evals/mmlu/responses`.

    Raises:
      UsageError: If there is none, or if one lacks a column or holds another answer than True and False.
    """
    convert.find(source, "mmlu_abstract_algebra.csv")
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(_COLUMNS)
    for path in sorted(source.glob(_FILES)):
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
