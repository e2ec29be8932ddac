"""What simple programs make of ratings: the mean; biases of users and items; and matrix factorization by alternating
least squares in numpy, with its regularization chosen on a tenth of the training data."""

import time

import numpy as np

from ratings import Ratings

RANK = 16
PASSES = 12
GRID = [0.05, 0.1, 0.2, 0.4]
BIAS_GRID = [1, 3, 10]
CHUNK = 1 << 22  # floats at once


def rmse(values, predictions):
    # Values may be as large as 1e20 or as small as 1e-20: squares are taken in units of the largest.
    errors = values - predictions
    unit = np.abs(errors).max() or 1.0
    return float(unit * np.sqrt(np.mean((errors / unit) ** 2)))


def group_sums(places, values, count):
    return np.bincount(places, values, count)


def fit_biases(train, users, items, penalty):
    """(mean, of users, of items): means of what the others leave, as if each had `penalty` more ratings of 0."""
    mean = train.values.mean()
    user, item = np.zeros(users), np.zeros(items)
    for _ in range(10):
        left = train.values - mean - user[train.users]
        item = group_sums(train.items, left, items) / (np.bincount(train.items, minlength=items) + penalty)
        left = train.values - mean - item[train.items]
        user = group_sums(train.users, left, users) / (np.bincount(train.users, minlength=users) + penalty)
    return mean, user, item


def predict_biases(model, ratings):
    mean, user, item = model
    return mean + user[ratings.users] + item[ratings.items]


def solve_side(own, others, values, factors, count, penalty):
    """Least squares of each row: (sum q q' + penalty n I) p = sum r q, over its n ratings."""
    order = np.argsort(own, kind="stable")
    own, others, values = own[order], others[order], values[order]
    gram, right = np.zeros((count, RANK * RANK)), np.zeros((count, RANK))
    for begin in range(0, len(own), CHUNK // (RANK * RANK)):
        part = slice(begin, begin + CHUNK // (RANK * RANK))
        q = factors[others[part]]
        starts = np.flatnonzero(np.diff(own[part], prepend=-1))
        rows = own[part][starts]
        gram[rows] += np.add.reduceat((q[:, :, None] * q[:, None, :]).reshape(len(q), -1), starts)
        right[rows] += np.add.reduceat(q * values[part][:, None], starts)
    n = np.maximum(np.bincount(own, minlength=count), 1)
    gram = gram.reshape(count, RANK, RANK) + (penalty * n)[:, None, None] * np.eye(RANK)
    return np.linalg.solve(gram, right[:, :, None])[:, :, 0]


def fit_factors(train, users, items, penalty):
    biases = fit_biases(train, users, items, 3)
    left = train.values - predict_biases(biases, train)
    rng = np.random.default_rng(0)
    q = rng.normal(size=(items, RANK)) * 0.1
    for _ in range(PASSES):
        p = solve_side(train.users, train.items, left, q, users, penalty)
        q = solve_side(train.items, train.users, left, p, items, penalty)
    return biases, p, q


def predict_factors(model, ratings):
    biases, p, q = model
    return predict_biases(biases, ratings) + (p[ratings.users] * q[ratings.items]).sum(axis=1)


def best(train, users, items, fit, predict, grid):
    held = np.random.default_rng(1).random(len(train.values)) < 0.1
    return min(grid, key=lambda penalty: rmse(train.values[held], predict(
        fit(train.part(~held), users, items, penalty), train.part(held))))


def measure(train, test, simple=False):
    """{constant, biases, factors, cpu}: test RMSE of each, and what the factors took. `simple`: without factors."""
    users, items = (1 + max(left.max(), right.max())
                    for left, right in ((train.users, test.users), (train.items, test.items)))
    mean, deviation = train.values.mean(), train.values.std() or 1.0
    scaled = [Ratings(part.users, part.items, (part.values - mean) / deviation) for part in (train, test)]
    low, high = scaled[0].values.min(), scaled[0].values.max()
    found = {"constant": rmse(test.values, np.full(len(test.values), mean))}
    models = (("biases", fit_biases, predict_biases, BIAS_GRID), ("factors", fit_factors, predict_factors, GRID))
    for name, fit, predict, grid in models[:1] if simple else models:
        began = time.process_time()
        penalty = best(scaled[0], users, items, fit, predict, grid)
        predictions = np.clip(predict(fit(scaled[0], users, items, penalty), scaled[1]), low, high)
        found[name] = deviation * rmse(scaled[1].values, predictions)
        found["cpu"] = time.process_time() - began
    return found
