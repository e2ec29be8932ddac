"""Estimators in the manner of scikit-learn, whose `fit` runs a job of mf, mlr or lda.
Needs scikit-learn (Debian's python3-sklearn).

    from proteus.sklearn import LogisticRegression
    LogisticRegression(transient=3).fit(X, y).score(X_test, y_test)

All of them have the parameters

    reliable, transient  nodes of the job: processes that count as reliable, and others that may be killed.
    random_state         a whole number, or a numpy RandomState: the job's seed. None: 1, so `fit` is repeatable anyway.
    options              a dict of more options of the app (mlr, mf or lda), as {"momentum": 0.9}; none that `fit` sets
                         by the other parameters. What no parameter and no option says the app chooses.
    run_options          a dict of more options of `proteus run`, with `controller` of `proteus join`.
    controller           None: the job is one of this machine alone. "HOST:PORT" of a controller (`proteus controller
                         --reliable 1 --transient 2`) that waits for nodes: those of this machine join it. It is for one
                         `fit`, as it ends with its job.
    folder               with `controller`, for jobs in which other machines' nodes are, too: a folder that all of them
                         have under this path. `fit` writes the data there, as `proteus-data`, and the job the
                         model, as `proteus-model`: both replace those of an earlier `fit`. It prints the command line
                         by which the other machines' nodes then join.

and after `fit` the attributes report_ (a proteus.Report), model_ (of a class of proteus.models) and n_iter_ (passes
over the data). With one node the same data and seed give the same model; with several, sums of floats differ in their
last bits from run to run.
"""

import os
import shlex
import sys
import tempfile

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.datasets import dump_svmlight_file
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted

from . import models
from ._job import JobError, _arguments, _endpoint, _rights, run


def _checked(estimator, X, y=None, reset=True, **how):
    """X, or X and y, as arrays, by scikit-learn's rules."""
    given = {"X": X} if y is None else {"X": X, "y": y}
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:  # before scikit-learn 1.6
        return estimator._validate_data(**given, reset=reset, **how)
    return validate_data(estimator, **given, reset=reset, **how)


COEF_DENSE_MAX = 1 << 26  # features


class _Job:
    """What the estimators share: they run a job on data that `write` puts into a file."""

    def _run(self, app, write, **options):
        for name in self.options or {}:
            if name.replace("-", "_") in {"data", "model_out", "seed", "iterations", *options}:
                raise ValueError(f"options: {name}: expected none, as {type(self).__name__} sets "
                                 f"--{name.replace('_', '-')} of {app} by its data or its own parameters")
        if self.folder is not None:
            if self.controller is None:
                raise ValueError(f"folder={self.folder!r}: expected controller= with it")
            self._run_in(os.fspath(self.folder), app, write, options)
        else:
            with tempfile.TemporaryDirectory(prefix="proteus-") as folder:
                self._run_in(folder, app, write, options)
        iterations = self.report_.summary.get("iterations", self.max_iter)
        self.n_iter_ = None if iterations is None else int(iterations)  # a report that the key does not allow to read
        return self

    def _missing(self, model):
        """The error line for a model that is not there after the job."""
        if self.controller is None:
            return f"the job has ended, but has written no model to {model}"
        return (f"the job at {self.controller} has ended, but {model} is not there: one of its reliable nodes on "
                "another machine has saved the model. Expected folder=, a folder that all machines of the job have "
                f"under the same path{'' if self.folder is None else f', as {self.folder} is not'}")

    def _run_in(self, folder, app, write, options):
        data, model = os.path.join(folder, "proteus-data"), os.path.join(folder, "proteus-model")
        write(data)
        if os.path.exists(model):
            os.unlink(model)  # of an earlier fit
        seed = 1 if self.random_state is None else self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = int(seed.randint(1 << 31))
        options = {"data": data, "model_out": model, "seed": seed, "iterations": self.max_iter, **options,
                   **(self.options or {})}
        if self.folder is not None:
            given = self.run_options or {}
            join = ["proteus", "join", f"--controller={_endpoint(self.controller)}", "--tier=transient", "--count=1",
                    *_rights(given), *(["--listen=ITS-ADDRESS"] if {"listen", "advertise"} & given.keys() else []),
                    "--", app, *_arguments(options)]
            sys.stderr.write(f"proteus: info: nodes of other machines join by: {shlex.join(join)}\n")
        self.report_ = run(app, reliable=self.reliable, transient=self.transient, progress=False,
                           controller=self.controller, run_options=self.run_options, **options)
        if not os.path.exists(model):
            raise JobError(self._missing(model), 1, self.report_)
        self.model_ = models.load(model)


class LogisticRegression(ClassifierMixin, _Job, BaseEstimator):
    """Multinomial logistic regression by mlr. By default mlr chooses by the data, as its documentation says.

    alpha      L2 regularization, of all weights but the biases (mlr's --lambda); None: by cross-validation.
    max_iter   passes over the data; None: at least 10, and 2,000 steps.
    batch      samples of a step, of all nodes together; None: a 16th of the samples, from 8 to 256.
    rate       learning rate of the first iteration; None: by the data.
    optimizer  "auto", which is Adam for most data; "sgd"; or, in the servers, "momentum", "adagrad", "adam" or "ftrl".

    Attributes: classes_ [K], coef_ [K, d] and intercept_ [K] (of two classes [1, d] and [1]), n_features_in_. With more
    than 2^26 features coef_ is sparse: it has those that occur.
    X is dense or sparse (scipy), [n, d]. Weights are float32.

    mlr scales features by the data, as options={"scale": ...} says. coef_ and intercept_ are for X as it is given: the
    decision is X @ coef_.T + intercept_. There are two exceptions: standardized values are limited to -5..5, so
    decision_function differs where a value is more than 5 deviations from its feature's mean; and with scale "unit",
    which mlr may choose for sparse data, samples are to be scaled to length 1 first. model_.scale says which it was.
    """

    def __init__(self, alpha=None, max_iter=None, batch=None, rate=None, optimizer="auto", reliable=1, transient=0,
                 random_state=None, options=None, run_options=None, controller=None, folder=None):
        self.alpha, self.max_iter, self.batch, self.rate, self.optimizer = alpha, max_iter, batch, rate, optimizer
        self.reliable, self.transient, self.random_state = reliable, transient, random_state
        self.options, self.run_options, self.controller, self.folder = options, run_options, controller, folder

    def fit(self, X, y):
        """X [n, d], y [n]: labels of any kind. Returns self."""
        if y is None:
            raise ValueError("LogisticRegression requires y to be passed, but the target y is None")
        X, y = _checked(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = unique_labels(y)
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        labels = np.searchsorted(self.classes_, y)

        def write(path):
            if scipy.sparse.issparse(X):
                dump_svmlight_file(X, labels, path, zero_based=False)
            else:
                np.savetxt(path, np.column_stack([labels, X]), fmt=["%d"] + ["%.16g"] * X.shape[1], delimiter=",")

        sparse = scipy.sparse.issparse(X)
        self._run("mlr", write, format="libsvm" if sparse else "csv", index_base=1 if sparse else None,
                  label_column=None if sparse else 1, batch=self.batch and min(self.batch, X.shape[0]),
                  optimizer=self.optimizer, rate=self.rate, **{"lambda": self.alpha})
        weights, biases = self.model_.unscaled()
        if len(self.classes_) == 2:
            weights, biases = weights[:, 1:] - weights[:, :1], biases[1:] - biases[:1]
        self.coef_, self.intercept_ = self._coefficients(weights.T, X.shape[1]), biases
        return self

    def _coefficients(self, weights, features):
        """Weights [K, features of the model] as coef_: features that have no values have none in the model."""
        columns = self.model_.columns
        if features > COEF_DENSE_MAX:
            rows = np.repeat(np.arange(len(weights)), len(columns))
            return scipy.sparse.csr_matrix((weights.ravel(), (rows, np.tile(columns, len(weights)))),
                                           (len(weights), features))
        coef = np.zeros((len(weights), features))
        coef[:, columns] = weights
        return coef

    def decision_function(self, X):
        """Logits [n, K]; of two classes [n], the second one's beside the first one's."""
        check_is_fitted(self)
        X = _checked(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        logits = self.model_.logits(X if scipy.sparse.issparse(X) else X[:, self.model_.columns])
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X):
        """Probabilities [n, K], in the order of classes_."""
        logits = self.decision_function(X)
        if logits.ndim == 1:
            logits = np.column_stack([np.zeros_like(logits), logits])
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X):
        """Logarithms of predict_proba."""
        return np.log(self.predict_proba(X))

    def predict(self, X):
        """The likeliest class of each sample."""
        logits = self.decision_function(X)
        return self.classes_[(logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(axis=1)]


class MatrixFactorization(RegressorMixin, _Job, BaseEstimator):
    """Ratings of pairs by mf: X [n, 2] has users and items, whole numbers from 0 on or str; y [n] ratings.

    rank      factors of a user and an item.
    alpha     L2 regularization (mf's --lambda), for ratings with standard deviation 1, as mf makes them; None: 0.04.
    rate      learning rate of the first iteration, likewise; None: by max_iter.
    max_iter  passes over the data; None: 20.
    biases    whether each user and each item also has a bias, which is added to its predictions.

    Attributes: n_features_in_, which is 2.
    """

    def __init__(self, rank=16, alpha=None, rate=None, max_iter=None, biases=True, reliable=1, transient=0,
                 random_state=None, options=None, run_options=None, controller=None, folder=None):
        self.rank, self.alpha, self.rate, self.max_iter, self.biases = rank, alpha, rate, max_iter, biases
        self.reliable, self.transient, self.random_state = reliable, transient, random_state
        self.options, self.run_options, self.controller, self.folder = options, run_options, controller, folder

    @staticmethod
    def _pairs(X):
        if X.shape[1] != 2:
            raise ValueError(f"X has {X.shape[1]} feature(s), which are its columns: expected two, user and item")
        if X.dtype.kind == "U" or (X.dtype.kind == "O" and all(isinstance(id, (str, int)) for id in X.flat) and
                                   any(isinstance(id, str) for id in X.flat)):
            pairs = X.astype(str)
            if any(not id or not id.isprintable() for id in pairs.flat):
                raise ValueError("X: expected users and items of at least one letter, without control characters")
            return pairs
        pairs = X.astype(np.uint64)
        if (pairs != X).any():
            raise ValueError("X: expected users and items as whole numbers from 0 on")
        return pairs

    def fit(self, X, y):
        """Returns self."""
        if y is None:
            raise ValueError("MatrixFactorization requires y to be passed, but the target y is None")
        X, y = _checked(self, X, y, dtype=None, y_numeric=True)
        pairs = self._pairs(X)
        if y.min() == y.max():
            raise ValueError(f"y: all ratings are {y[0]} (n_samples={len(y)}): expected ratings that differ")

        def write(path):
            texts = pairs.dtype.kind == "U"
            ids = np.char.replace(pairs, '"', '""') if texts else pairs
            rows = np.empty(len(y), [("user", ids.dtype), ("item", ids.dtype), ("value", np.float64)])
            rows["user"], rows["item"], rows["value"] = ids[:, 0], ids[:, 1], y
            form = '"%s"' if texts else "%d"
            np.savetxt(path, rows, fmt=[form, form, "%.16g"], delimiter="\t", encoding="utf-8")

        self._run("mf", write, rank=self.rank, rate=self.rate, no_biases=not self.biases, **{"lambda": self.alpha})
        return self

    def predict(self, X):
        """Predicted ratings, within the range of the training ratings."""
        check_is_fitted(self)
        pairs = self._pairs(_checked(self, X, dtype=None, reset=False))
        return self.model_.predict(pairs[:, 0], pairs[:, 1])

    def recommend(self, user, n=10, without=()):
        """The n items with the highest predicted ratings for a user: a list of (item, prediction)."""
        check_is_fitted(self)
        return self.model_.recommend(user, n, without)


class LatentDirichletAllocation(TransformerMixin, _Job, BaseEstimator):
    """Topics of documents by lda: X [n, words], dense or sparse, has how often each word occurs, whole numbers.

    n_components      topics.
    doc_topic_prior   alpha, the prior of each topic in a document; None: begins with 5 / n_components and is adapted to
                      the documents.
    topic_word_prior  beta, the prior of each word in a topic; None: 0.05.
    max_iter          passes over the tokens.

    Attributes: components_ [topics, words], how many tokens of each word have each topic; n_features_in_. What
    transform gives for a document does not depend on the other documents in X.
    """

    def __init__(self, n_components=10, doc_topic_prior=None, topic_word_prior=None, max_iter=100, reliable=1,
                 transient=0, random_state=None, options=None, run_options=None, controller=None, folder=None):
        self.n_components, self.max_iter = n_components, max_iter
        self.doc_topic_prior, self.topic_word_prior = doc_topic_prior, topic_word_prior
        self.reliable, self.transient, self.random_state = reliable, transient, random_state
        self.options, self.run_options, self.controller, self.folder = options, run_options, controller, folder

    @staticmethod
    def _counts(X):
        X = scipy.sparse.csr_matrix(X, copy=scipy.sparse.issparse(X))
        X.sum_duplicates()
        X.eliminate_zeros()
        if (X.data < 0).any() or (X.data != np.floor(X.data)).any():
            raise ValueError("X: expected counts of words: whole numbers from 0 on. Negative values in data passed to "
                             "LatentDirichletAllocation have no meaning")
        return X

    @staticmethod
    def _documents(X):
        for row in range(X.shape[0]):
            span = slice(X.indptr[row], X.indptr[row + 1])
            yield dict(zip(X.indices[span].tolist(), X.data[span].astype(np.int64).tolist()))

    def fit(self, X, y=None):
        """Returns self. y is ignored."""
        X = self._counts(_checked(self, X, accept_sparse="csr", dtype=np.float64))
        if X.nnz == 0:
            raise ValueError("X has no words")

        def write(path):
            with open(path, "w", encoding="ascii") as file:
                for document in self._documents(X):
                    file.write(" ".join([str(len(document))] + [f"{w}:{c}" for w, c in document.items()]) + "\n")

        self._run("lda", write, format="lda-c", topics=self.n_components, alpha=self.doc_topic_prior,
                  beta=self.topic_word_prior)
        self.components_ = np.zeros((self.n_components, X.shape[1]))
        self.components_[:, :len(self.model_.counts)] = self.model_.counts.T
        return self

    def transform(self, X):
        """Shares of the topics [n, n_components]. Words that no training document had do not count; a document without
        words has equal shares."""
        check_is_fitted(self)
        X = self._counts(_checked(self, X, accept_sparse="csr", dtype=np.float64, reset=False))
        known = set(np.flatnonzero(self.components_.any(axis=0)).tolist())
        documents = [{word: count for word, count in document.items() if word in known}
                     for document in self._documents(X)]
        shares = np.full((X.shape[0], self.n_components), 1 / self.n_components)
        some = [number for number, document in enumerate(documents) if document]
        if some:
            found = self.model_.infer([documents[number] for number in some])
            shares[some] = found / found.sum(axis=1, keepdims=True)
        return shares

    def _more_tags(self):
        return {"requires_positive_X": True}
