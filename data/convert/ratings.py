"""Converts MovieLens and Last.fm to tables with the reward of every offered action; clients are users.

MovieLens 100k and ml-latest-small (Harper and Konstan 2015, "The MovieLens Datasets: History and Context") are at
https://grouplens.org/datasets/movielens, and Last.fm (Cantador, Brusilovsky and Kuflik 2011, "HetRec 2011") at
https://grouplens.org/datasets/hetrec-2011.
"""

import csv
import io
import pathlib
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from data import convert, keys
from data.errors import UsageError, counted

_LIKED = 4  # Lowest rating whose reward is 1.
_DIMENSIONS = 25
_GENRES = [
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"),
]
_TEXTS = ("title", "date", "video", "url", "genres", "gender", "occupation")
_FLAGS = ("--task_type=tabular", *(f"--{role}_column={role}" for role in ("client", "decision", "action", "reward")))


def movielens(source: pathlib.Path, *, set_size: int = 10) -> convert.Converted:
    """Converts ratings to sets of movies that a user rated one after another, with reward 1 for ratings of 4 and more.

    A user rated every movie of a set, so no reward is invented. The features of actions are year and genres. The
    context is the user's age, gender and occupation, which only MovieLens 100k has.

    Args:
      source: Folder or zip archive with `u.data`, `u.item` and `u.user`, or with `ratings.csv` and `movies.csv`.
      set_size: Number of movies in a set. The last set of a user may have fewer, but at least two.

    Raises:
      UsageError: If a file is missing or damaged.
    """
    folder = convert.find_folder(source, ("u.data", "u.item", "u.user"), ("ratings.csv", "movies.csv"))
    columns = ("client", "action", "rating", "time")
    if (folder / "u.data").is_file():
        rows = _read(folder / "u.data", "\t", columns, header=None)
        users = _read(folder / "u.user", "|", ("client", "age", "gender", "occupation"), header=None)
        movies = _read(folder / "u.item", "|", ("action", "title", "date", "video", "url", *_GENRES), header=None)
        rows, years, genres = rows.merge(users, "left"), movies["date"].str[-4:], movies[_GENRES]
    else:
        rows = _read(folder / "ratings.csv", ",", columns)
        movies = _read(folder / "movies.csv", ",", ("action", "title", "genres"))
        years, genres = movies["title"].str.extract(r"\((\d{4})\)\s*$")[0], movies["genres"].str.get_dummies()
    is_unknown = ~rows["action"].isin(movies["action"]) | rows.isna().any(axis=1)
    if (wrong := is_unknown | rows.duplicated(["client", "action"])).any():
        raise convert.damaged(folder, f"rating {wrong.argmax() + 1} is a duplicate, or its user or movie is not listed")
    rows = rows.sort_values(["client", "time", "action"], ignore_index=True)
    rows["decision"] = rows.groupby(["client", rows.groupby("client").cumcount() // set_size]).ngroup()
    sets = rows.groupby("decision")
    rows["time"] = sets["time"].transform("max")
    rows["reward"] = (rows.pop("rating") >= _LIKED).astype(int)
    is_alone = sets["action"].transform("size") == 1
    years = pd.to_numeric(years, errors="coerce").rename("year")
    actions = pd.concat([movies["action"], years.fillna(years.median()), genres], axis=1)
    notes = [
        f"The reward is 1 for ratings of {_LIKED} and more. Users rated all movies of their sets; none were added.",
        f"Left out: {counted(is_alone.sum(), 'rating')} that would be the only one of a set.",
        f"{counted(years.isna().sum(), 'movie')} without a year: the table has the median.",
    ]
    return [rows[~is_alone], actions], [*_FLAGS, "--time_column=time"], notes


def lastfm(source: pathlib.Path, *, set_size: int = 25, seed: int = 0) -> convert.Converted:
    """Makes sets of an artist whom a user heard, with reward 1, and distractors whom the user did not, with reward 0.

    Distractors are sampled without replacement, in proportion to their numbers of listeners. With uniform distractors,
    a policy that chooses the most popular artist would win. The features of actions are a truncated SVD of the TF-IDF
    weights of the tags that users gave to artists. There is no context.

    Args:
      source: Folder or zip archive with `user_artists.dat` and `user_taggedartists.dat`.
      set_size: Number of artists in a set.
      seed: Random seed of the distractors.

    Raises:
      UsageError: If a file is missing or damaged, or if there are too few artists for a set.
    """
    folder = convert.find_folder(source, ("user_artists.dat", "user_taggedartists.dat"))
    plays = _read(folder / "user_artists.dat", "\t", ("client", "action"))
    artists, chosen = np.unique(plays["action"], return_inverse=True)
    listeners, sets = np.bincount(chosen), np.empty((len(plays), set_size), int)
    for user, own in pd.Series(chosen).groupby(plays["client"]):
        weights = np.where(np.isin(np.arange(len(artists)), own), 0, listeners)
        if np.count_nonzero(weights) < set_size - 1:
            raise UsageError(f"--set_size={set_size}: there are not that many artists that user {user} did not hear.")
        generator = keys.generator(seed, keys.Purpose.DISTRACTORS, int(user))
        for row, artist in own.items():
            others = generator.choice(len(artists), set_size - 1, replace=False, p=weights / weights.sum())
            sets[row] = generator.permutation([artist, *others])
    rows = plays[["client"]].reset_index(names="decision").loc[np.repeat(plays.index, set_size)]
    rows["action"], rows["reward"] = artists[np.ravel(sets)], (sets == chosen[:, np.newaxis]).ravel().astype(int)
    tagged = _read(folder / "user_taggedartists.dat", "\t", ("client", "action", "tag"))
    tags = tagged["tag"].astype(str).groupby(tagged["action"]).agg(" ".join).reindex(artists, fill_value="")
    if len(set(" ".join(tags).split())) < 2:
        raise convert.damaged(folder / "user_taggedartists.dat", "artists that users heard have fewer than two tags")
    words = TfidfVectorizer(token_pattern=r"\S+").fit_transform(tags)
    reduced = TruncatedSVD(min(_DIMENSIONS, *words.shape), random_state=0).fit_transform(words).round(6) + 0.0
    actions = pd.DataFrame(reduced, artists).add_prefix("tags_").reset_index(names="action")
    notes = [
        f"Each set has one artist whom the user heard, and {set_size - 1} drawn by popularity whom the user did not.",
        f"{counted((tags == '').sum(), 'artist')} without tags: their features are 0.",
    ]
    return [rows, actions], _FLAGS, notes


def _read(path: pathlib.Path, separator: str, columns: Sequence[str], header: int | None = 0) -> pd.DataFrame:
    """Reads the first columns of a file. All except those in `_TEXTS` must be numbers.

    Raises:
      UsageError: If the file is damaged, or a number is missing.
    """
    form = {"sep": separator, "header": header, "quoting": csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE}
    try:
        table = pd.read_csv(io.BytesIO(path.read_bytes()), usecols=range(len(columns)), encoding="latin-1", **form)
    except Exception as error:  # Pandas and zipfile raise many types of errors for a damaged file.
        raise convert.damaged(path, error) from error
    table.columns = pd.Index(columns)
    for name in set(columns) - {*_TEXTS}:
        table[name] = pd.to_numeric(table[name], errors="coerce")
        if table[name].isna().any():
            raise convert.damaged(path, f"row {table[name].isna().argmax() + 1} has no number as {name}")
    return table
