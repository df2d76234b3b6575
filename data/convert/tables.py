"""Published tables as those that tasks read: UCI Heart Disease, and RouteLLM's answers to MMLU's questions.

Ong et al. 2024, "RouteLLM: Learning to Route LLMs with Preference Data"; questions of Hendrycks et al. 2021.
"""

import csv
import gzip
import io
import pathlib

from data import convert

_SITES = ("cleveland", "hungarian", "switzerland", "va")
_COLUMNS = "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,target"
_MODELS = ("mixtral", "gpt-4")  # Beginnings of the columns' names, behind an organization's.
_ANSWERED = ("subject", "prompt", "mixtral_correct", "gpt4_correct")
_ANSWERS = {"True": 1, "False": 0}


def heart_disease(source: pathlib.Path) -> bytes:
    """Table with the hospital of each patient, missing values empty.

    Args:
      source: Folder of `processed.cleveland.data`, and so for `hungarian`, `switzerland` and `va`.

    Raises:
      UsageError: If a file is missing, or has a line of other than 14 numbers.
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
    """Gzipped CSV table with the subject and text of each question, and 1 for each model that answers correctly.

    Args:
      source: Folder of `mmlu_SUBJECT.csv`, in the repository `routellm/evals/mmlu/responses`.

    Raises:
      UsageError: If there is none, or if one lacks a column or holds another answer than True and False.
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
