"""UCI Heart Disease's four files as one table."""

import pathlib

from data import convert

_SITES = ("cleveland", "hungarian", "switzerland", "va")
_COLUMNS = "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,target"


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
