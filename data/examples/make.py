"""Makes the table that lies beside this module: `python -m data.examples.make`.

`sklearn_wine.csv` is scikit-learn's wine data (UCI: 178 Italian wines of three cultivars, chemically analysed). Two
things in it are made: the cellar of each wine, dealt with Dirichlet label skew, so that cellars differ in what they
grow; and the colour, which is a class of the measured intensity and stands in its place.
"""

import csv
import io
import os
import pathlib

import numpy as np

from data import keys, partition

PATH = pathlib.Path(__file__).with_name("sklearn_wine.csv")
CLIENT, LABEL = "cellar", "cultivar"
_NUM_CLIENTS = 25
_CONCENTRATION = 1.0
_SEED = 0
_MEASURED_COLOUR = "color_intensity"
_COLOURS = ("pale", "medium", "deep")
_COLOUR_BOUNDS = (3.0, 6.0)


def table() -> bytes:
    """Returns the file's content: UTF-8, a header line, then 178 rows in the order of their cellars."""
    from sklearn import datasets

    wine = datasets.load_wine()
    draw = keys.generator(_SEED, keys.Purpose.PARTITION)
    cellar_of_row = partition.dirichlet_label_skew(wine.target, _NUM_CLIENTS, _CONCENTRATION, draw)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ["colour" if name == _MEASURED_COLOUR else name.replace("/", "_") for name in wine.feature_names]
    writer.writerow([CLIENT, *names, LABEL])
    for row in np.argsort(cellar_of_row, kind="stable"):
        values = [
            _COLOURS[np.searchsorted(_COLOUR_BOUNDS, value)] if name == _MEASURED_COLOUR else f"{value:g}"
            for name, value in zip(wine.feature_names, wine.data[row], strict=True)
        ]
        writer.writerow([f"cellar_{cellar_of_row[row] + 1:02d}", *values, wine.target_names[wine.target[row]]])
    return text.getvalue().encode()


def main() -> None:
    """Writes the table over the one that is there."""
    part = PATH.with_name(f"{PATH.name}.part{os.getpid()}")
    part.write_bytes(table())
    os.replace(part, PATH)
    print(PATH)


if __name__ == "__main__":
    main()
