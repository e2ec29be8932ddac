"""What scikit-learn makes of samples: LogisticRegression whose C is chosen by cross-validation, of features scaled as
its documentation advises. And what the best constant makes of them."""

import time
import warnings

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler, normalize

GRID = [10.0 ** power for power in range(-4, 4)]
MOST_ROWS, LEAST_ROWS = 3000, 500  # to choose C on
MOST_PRODUCTS = 4e6  # values times classes, of these rows
ITERATIONS = 300
LEAST_PROBABILITY = 1e-38


def log_loss(probabilities, classes, y):
    places = np.searchsorted(classes, y)
    return float(-np.log(np.maximum(probabilities[np.arange(len(y)), places], LEAST_PROBABILITY)).mean())


def constant_loss(y, v):
    """The shares of classes in y as the prediction for each of v."""
    classes, counts = np.unique(y, return_counts=True)
    return log_loss(np.tile(counts / len(y), (len(v), 1)), classes, v)


def scalers(x):
    if not sparse.issparse(x):
        return [StandardScaler()]
    return [MaxAbsScaler(), FunctionTransformer(normalize, accept_sparse=True)]


def least_class(y):
    return int(np.unique(y, return_counts=True)[1].min())


def folds(y):
    wanted = 10 if len(y) < 500 else 5 if len(y) < 2000 else 3
    return max(2, min(wanted, least_class(y)))


def validated_loss(x, y, c, solver):
    """The mean over folds; a class that a fold lacks has no probability there."""
    classes = np.unique(y)
    losses = []
    for train, test in StratifiedKFold(folds(y), shuffle=True, random_state=0).split(x, y):
        model = LogisticRegression(C=c, solver=solver, max_iter=100).fit(x[train], y[train])
        probabilities = np.zeros((len(test), len(classes)))
        probabilities[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(x[test])
        losses.append(log_loss(np.maximum(probabilities, 1e-9), classes, y[test]))
    return float(np.mean(losses))


def choose(x, y, solver):
    """The scaler and C with the least loss; stops where two in a row are worse."""
    products = (x.nnz if sparse.issparse(x) else x.size) / len(y) * len(np.unique(y))
    rows = int(np.clip(MOST_PRODUCTS / products, LEAST_ROWS, MOST_ROWS))
    chosen = np.random.default_rng(0).permutation(len(y))[:rows]
    if len(np.unique(y[chosen])) < len(np.unique(y)) or least_class(y[chosen]) < 2:
        chosen = np.arange(len(y))
    best = (np.inf, None, None)
    for scaler in scalers(x):
        scaled = scaler.fit_transform(x[chosen])
        worse, least = 0, np.inf
        for c in GRID:
            loss = validated_loss(scaled, y[chosen], c, solver)
            worse, least = (0, loss) if loss < least else (worse + 1, least)
            if loss < best[0]:
                best = (loss, scaler, c)
            if worse == 2:
                break
    return best[1], best[2]


def measure(split, solver):
    """{loss, accuracy, c, cpu}: of the test samples, and what all of it took."""
    (x, y), (u, v) = split.train, split.test
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that are not converged
        scaler, c = choose(x, y, solver)
        model = LogisticRegression(C=c, solver=solver, max_iter=ITERATIONS).fit(scaler.fit_transform(x), y)
        probabilities = model.predict_proba(scaler.transform(u))
    return {"loss": log_loss(probabilities, model.classes_, v),
            "accuracy": float((model.classes_[probabilities.argmax(axis=1)] == v).mean()), "c": c,
            "cpu": time.process_time() - began}
