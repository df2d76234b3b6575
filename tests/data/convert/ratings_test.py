"""Tests of data.convert.ratings, on small files in the published forms, sound and damaged."""

import collections
import zipfile

import numpy as np
import pandas as pd
import pytest

from data.convert import ratings
from data.errors import UsageError

NO_GENRES = "|".join("0" * 19)
COMEDY = "|".join("0000010000000000000")
MOVIES_100K = {
    # User, movie, rating, time. User 8 rated first; two ratings of user 7 have the same time.
    "u.data": "7\t3\t5\t20\n7\t1\t3\t10\n8\t2\t4\t5\n7\t2\t2\t20\n8\t1\t5\t6\n7\t4\t4\t30\n",
    "u.user": "7|24|M|technician|85711\n8|53|F|other|94043\n",
    "u.item": (
        f'1|Caf\xe9 (1995)|01-Jan-1995||http://a|{COMEDY}\n2|"Two|02-Feb-1997||http://b|{NO_GENRES}\n'
        f"3|unknown||||1{NO_GENRES[1:]}\n4|Four|01-Jan-1999||x|{NO_GENRES}\n"
    ),
}
SMALL = {
    "ratings.csv": "userId,movieId,rating,timestamp\n1,10,3.5,5\n1,20,4.5,4\n2,10,4.0,3\n",
    "movies.csv": 'movieId,title,genres\n10,"One, The (1994)",Comedy|Drama\n20,Two,(no genres listed)\n',
}
TAGS = [(2, 51, 13), (2, 52, 15), (3, 52, 13), (3, 60, 18), (3, 999, 13)]
LASTFM = {
    "user_artists.dat": "userID\tartistID\tweight\r\n2\t51\t13883\r\n2\t52\t90\r\n3\t52\t5\r\n3\t60\t5\r\n4\t70\t1\r\n",
    "user_taggedartists.dat": "userID\tartistID\ttagID\tday\tmonth\tyear\r\n"
    + "".join(f"{user}\t{artist}\t{tag}\t1\t4\t2009\r\n" for user, artist, tag in TAGS),
}


def _folder(path, contents):
    path.mkdir()
    for name, text in contents.items():
        (path / name).write_bytes(text.encode("latin-1"))
    return path


def _archive(path, contents, folder=""):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in contents.items():
            archive.writestr(folder + name, text.encode("latin-1"))
    return path


def test_a_users_movies_form_sets_in_the_order_of_their_ratings(tmp_path):
    (rows, movies), flags, notes = ratings.movielens(_folder(tmp_path / "ml", MOVIES_100K), set_size=3)
    seven, eight = (20, 24, "M", "technician"), (6, 53, "F", "other")
    expected = [
        (7, 0, 1, 0, *seven), (7, 0, 2, 0, *seven), (7, 0, 3, 1, *seven), (8, 2, 2, 1, *eight), (8, 2, 1, 1, *eight),
    ]  # fmt: skip
    columns = ["client", "decision", "action", "reward", "time", "age", "gender", "occupation"]
    assert set(rows) == set(columns)
    assert [*rows[columns].itertuples(index=False, name=None)] == expected
    assert movies["action"].tolist() == [1, 2, 3, 4]
    assert movies["year"].tolist() == [1995, 1997, 1997, 1999]
    assert movies.columns[2:].tolist() == ratings._GENRES
    assert (movies["Comedy"].tolist(), movies["unknown"].tolist()) == ([1, 0, 0, 0], [0, 0, 1, 0])
    assert "Left out: 1 rating that would be the only one of a set." in notes
    assert "1 movie without a year: the table has the median." in notes
    assert "--reward_column=reward" in flags


def test_an_archive_gives_the_same_as_its_folder(tmp_path):
    (rows, movies), *_ = ratings.movielens(_folder(tmp_path / "ml", MOVIES_100K))
    (others, other_movies), *_ = ratings.movielens(_archive(tmp_path / "ml.zip", MOVIES_100K, "ml-100k/"))
    pd.testing.assert_frame_equal(rows, others)
    pd.testing.assert_frame_equal(movies, other_movies)


def test_ratings_of_ml_latest_small_have_no_context(tmp_path):
    (rows, movies), *_ = ratings.movielens(_folder(tmp_path / "ml", SMALL))
    assert rows[["client", "action", "reward"]].to_numpy().tolist() == [[1, 20, 1], [1, 10, 0]]
    assert set(rows) == {"client", "decision", "action", "reward", "time"}
    genres = {"(no genres listed)": [0, 1], "Comedy": [1, 0], "Drama": [1, 0]}
    assert movies.to_dict("list") == {"action": [10, 20], "year": [1994, 1994]} | genres


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("u.data", "7\t1\t3\t10\n7\tx\t3\t10\n", "u.data is damaged .row 2 has no number as action"),
        ("u.data", "", r"u\.data is damaged"),
        ("u.data", "7\t1\t3\t10\n7\t1\t4\t11\n", "rating 2 is a duplicate"),
        ("u.data", "7\t9\t3\t10\n", "rating 1 .*its user or movie is not listed"),
        ("u.item", "1|One|01-Jan-1995||x|0|1\n", r"u\.item is damaged"),
    ],
)
def test_damaged_ratings_are_refused(tmp_path, file, content, problem):
    with pytest.raises(UsageError, match=problem):
        ratings.movielens(_folder(tmp_path / "ml", MOVIES_100K | {file: content}))


def test_a_source_without_the_files_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"no u\.data and u\.item and u\.user, or ratings\.csv and movies\.csv in"):
        ratings.movielens(_archive(tmp_path / "ml.zip", {"u.data": ""}))
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(UsageError, match="neither a folder nor a zip archive"):
        ratings.lastfm(tmp_path / "text")


def test_sets_have_one_artist_of_the_user_and_others_that_the_user_did_not_hear(tmp_path):
    (rows, _), _, notes = ratings.lastfm(_archive(tmp_path / "lastfm.zip", LASTFM), set_size=3)
    heard = {2: {51, 52}, 3: {52, 60}, 4: {70}}
    sets = rows.groupby("decision")
    assert sets.ngroups == 5
    assert sets["action"].nunique().eq(3).all()
    assert sets["reward"].sum().eq(1).all()
    for user, action, reward in rows[["client", "action", "reward"]].to_numpy():
        assert (action in heard[user]) == bool(reward)
    assert rows[rows["reward"] == 1]["action"].tolist() == [51, 52, 52, 60, 70]
    assert "1 artist without tags: their features are 0." in notes


def test_distractors_are_sampled_by_popularity_and_the_seed(tmp_path):
    plays = [(user, artist) for artist, count in ((1, 300), (2, 100), (3, 100)) for user in range(10, 10 + count)]
    plays += [(user, 4) for user in range(1000, 1400)]
    heard = "u\ta\tw\n" + "\n".join(f"{user}\t{artist}\t1" for user, artist in plays)
    tagged = "u\ta\tt\n1\t1\t5\n1\t2\t6\n"
    source = _folder(tmp_path / "lastfm", {"user_artists.dat": heard, "user_taggedartists.dat": tagged})
    (rows, _), *_ = ratings.lastfm(source, set_size=2)
    counts = collections.Counter(rows[(rows["client"] >= 1000) & (rows["reward"] == 0)]["action"])
    # Of 400 distractors, three fifths are expected to be artist 1, with a standard deviation of 9.8.
    assert counts[1] == pytest.approx(240, abs=40)
    assert counts[2] == pytest.approx(80, abs=35)
    assert rows.groupby("decision")["reward"].first().mean() == pytest.approx(0.5, abs=0.07)
    (again, _), *_ = ratings.lastfm(source, set_size=2)
    (other, _), *_ = ratings.lastfm(source, set_size=2, seed=1)
    pd.testing.assert_frame_equal(rows, again)
    assert not rows["action"].equals(other["action"])


def test_features_of_artists_have_the_inner_products_of_their_tags_tf_idf_weights(tmp_path):
    (_, artists), *_ = ratings.lastfm(_folder(tmp_path / "lastfm", LASTFM), set_size=2)
    assert artists["action"].tolist() == [51, 52, 60, 70]
    # Tag 13 has two of four artists, tags 15 and 18 one each; as scikit-learn defines it, idf = ln(5 / (1 + n)) + 1.
    common, rare = np.log(5 / 3) + 1, np.log(5 / 2) + 1
    weights = np.array([[common, 0, 0], [common, rare, 0], [0, 0, rare], [0, 0, 0]])
    weights /= np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-9)
    found = artists.drop(columns="action").to_numpy()
    np.testing.assert_allclose(found @ found.T, weights @ weights.T, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "size", "problem"),
    [
        ({}, 4, "--set_size=4: there are not that many artists that user 2 did not hear"),
        ({"user_artists.dat": "userID\tartistID\tweight\nx\t1\t1\n"}, 2, "row 1 has no number as client"),
        ({"user_taggedartists.dat": "u\ta\tt\n2\t999\t13\n"}, 2, "artists that users heard have fewer than two tags"),
    ],
)
def test_unusable_plays_are_refused(tmp_path, changes, size, problem):
    with pytest.raises(UsageError, match=problem):
        ratings.lastfm(_folder(tmp_path / "lastfm", LASTFM | changes), set_size=size)
