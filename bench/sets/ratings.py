"""Sets of ratings for bench/ordinary: those of ../shared/data, the same in other units, and made ones: hours of use
with a heavy tail, ratings that are all equal, yes and no. A tenth is held out, by seeds."""

import gzip
import os
from dataclasses import dataclass

import numpy as np

HELD_OUT = 0.1
FACTORS = [1e-20, 0.01, -3, 20, 1000, 1e20]
OFFSET = 1000


@dataclass
class Ratings:
    """Users and items from 0, and values in double precision."""
    users: np.ndarray
    items: np.ndarray
    values: np.ndarray

    def part(self, which):
        return Ratings(self.users[which], self.items[which], self.values[which])


@dataclass
class Row:
    """A row of the results: the mean of test RMSE over `splits` ways to hold ratings out, in units of `factor`."""
    name: str
    make: object  # returns Ratings
    splits: int = 1
    target: float = None
    like: str = None  # the row whose RMSE this one must have, but for the factor
    factor: float = 1.0
    bias_bound: bool = False  # the RMSE of biases alone is a bound
    note: str = None  # what the job has to say in a note
    size: float = 1.0  # of the values, to round by
    simple: bool = False  # beside biases alone: least squares in numpy takes minutes


def read(path, skip=0):
    with gzip.open(path, "rt", encoding="ascii") as file:
        table = np.loadtxt(file, usecols=(0, 1, 2), skiprows=skip)
    users, items = (np.unique(table[:, column], return_inverse=True)[1] for column in (0, 1))
    return Ratings(users, items, table[:, 2])


def split(ratings, seed):
    """(training, test)"""
    held = np.random.default_rng(seed).random(len(ratings.values)) < HELD_OUT
    return ratings.part(~held), ratings.part(held)


def write(path, ratings):
    with open(path, "w", encoding="ascii") as file:
        file.write("user,item,rating\n")
        for user, item, value in zip(ratings.users, ratings.items, ratings.values):
            file.write(f"{user},{item},{value:.9g}\n")


# ---- Made ratings ----


def pairs(rng, users, items, count):
    """Different pairs; a few users and items have most of them."""
    user = np.minimum((users * rng.random(2 * count) ** 2).astype(int), users - 1)
    item = np.minimum((items * rng.random(2 * count) ** 3).astype(int), items - 1)
    places = np.unique(user * items + item)
    places = rng.permutation(places)[:count]
    return places // items, places % items


def made_stars(rng, users=600, items=300, count=20000):
    """1 to 5 by biases, three factors and noise."""
    user, item = pairs(rng, users, items, count)
    left, right = rng.normal(size=(users, 3)), rng.normal(size=(items, 3))
    scores = (3.5 + rng.normal(size=users)[user] * 0.4 + rng.normal(size=items)[item] * 0.4
              + (left[user] * right[item]).sum(axis=1) * 0.4 + rng.normal(size=len(user)) * 0.6)
    return Ratings(user, item, np.clip(scores.round(), 1, 5))


def made_hours(rng, users=2000, items=500, count=60000):
    """Hours of use: what a user has in general, times what an item takes in general, times chance; up to thousands."""
    user, item = pairs(rng, users, items, count)
    logs = 1 + rng.normal(size=users)[user] * 0.8 + rng.normal(size=items)[item] + rng.normal(size=len(user)) * 1.2
    return Ratings(user, item, np.maximum(np.exp(logs).round(1), 0.1))


def made_plays(rng, users=1000, items=400, count=30000):
    """Counts of plays: mostly 1, some a hundred thousand."""
    user, item = pairs(rng, users, items, count)
    return Ratings(user, item, np.minimum(np.floor(rng.pareto(0.8, len(user)) + 1), 1e5))


def made_equal(value):
    def make(rng):
        ratings = made_stars(rng)
        return Ratings(ratings.users, ratings.items, np.full(len(ratings.values), value))
    return make


def made_yes_no(rng):
    ratings = made_stars(rng)
    return Ratings(ratings.users, ratings.items, (ratings.values > 3).astype(float))


def made_years(rng):
    """Values far from 0 beside their deviation."""
    ratings = made_stars(rng)
    return Ratings(ratings.users, ratings.items, ratings.values + 1e4)


def made_few(rng):
    return made_stars(rng, 12, 8, 60)


def made(make, seed):
    return lambda: make(np.random.default_rng(seed))


def in_other_units(make, factor, offset):
    def changed():
        ratings = make()
        return Ratings(ratings.users, ratings.items, factor * ratings.values + offset)
    return changed


def unit_rows(name, make):
    """The ratings of row `name` as k r + c."""
    rows = [Row(f"{name} x {factor:g}", in_other_units(make, factor, 0), like=name, factor=abs(factor))
            for factor in FACTORS]
    return [*rows, Row(f"{name} + {OFFSET}", in_other_units(make, 1, OFFSET), like=name)]


def rows(data, quick):
    stars = made(made_stars, 1)
    found = [Row("made stars", stars), *unit_rows("made stars", stars), Row("yes and no", made(made_yes_no, 1)),
             Row("all equal", made(made_equal(4.0), 1), note="equal"),
             Row("heavy-tailed hours", made(made_hours, 2), bias_bound=True)]
    if quick:
        return found
    found += [Row("all equal, 1e-30", made(made_equal(1e-30), 1), note="equal", size=1e-30),
              Row("counts of plays", made(made_plays, 3), bias_bound=True, note="log1p"),
              Row("stars + 10,000", made(made_years, 1), like="made stars"), Row("60 ratings", made(made_few, 4), 5)]
    ml_100k = lambda: read(os.path.join(data, "ratings-ml-100k", "u.data.gz"))
    ml_1m = lambda: read(os.path.join(data, "ratings-ml-1m", "ratings.tsv.gz"))
    anime = lambda: read(os.path.join(data, "ratings-anime", "anime_ratings.dat.gz"), 1)
    if os.path.isdir(os.path.join(data, "ratings-ml-100k")):
        found += [Row("ml-100k, first split", ml_100k), *unit_rows("ml-100k, first split", ml_100k),
                  Row("ml-100k", ml_100k, 3, 0.905, simple=True)]
    if os.path.isdir(os.path.join(data, "ratings-ml-1m")):
        found.append(Row("ml-1m", ml_1m, 1, 0.843, simple=True))
    if os.path.isdir(os.path.join(data, "ratings-anime")):
        found.append(Row("anime", anime, simple=True))
    return found
