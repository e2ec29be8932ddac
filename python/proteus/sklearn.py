"""Estimators in the manner of scikit-learn, whose `fit` runs a job of mf, mlr, lda or gnn.
Needs scikit-learn (Debian's python3-sklearn).

    from proteus.sklearn import LogisticRegression
    LogisticRegression(transient=3).fit(X, y).score(X_test, y_test)

All of them have the parameters

    reliable, transient  nodes of the job: processes that count as reliable, and others that may be killed.
    random_state         a whole number, or a numpy RandomState: the job's seed. None: 1, so `fit` is repeatable anyway.
    options              a dict of more options of the app (mlr, mf, lda or gnn), as {"momentum": 0.9}; none that `fit`
                         sets by the other parameters. What no parameter and no option says the app chooses.
    run_options          a dict of more options of `proteus run`, with `controller` of `proteus join`.
    controller           None: the job is one of this machine alone. "HOST:PORT" of a controller (`proteus controller
                         --reliable 1 --transient 2`) that waits for nodes: those of this machine join it. It is for one
                         `fit`, as it ends with its job.
    folder               with `controller`, for jobs in which other machines' nodes are, too: a folder that all of them
                         have under this path. `fit` writes the data there, as `proteus-data` (a graph as several files
                         whose names begin so), and the job the model, as `proteus-model`: both replace those of an
                         earlier `fit`. It prints the command line by which the other machines' nodes then join.

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
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from . import _graph, models
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
    """What the estimators share: they run a job on data that `write` puts into a file. Its name is the app's --data,
    unless `write` returns a dict of options: then it has made files whose names begin with that."""

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
        files = write(data) or {"data": data}
        if os.path.exists(model):
            os.unlink(model)  # of an earlier fit
        seed = 1 if self.random_state is None else self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = int(seed.randint(1 << 31))
        options = {"model_out": model, "seed": seed, "iterations": self.max_iter, **options, **files,
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


def _is_missing(label):
    """Whether it is None, NaN, pandas' NA, or -1."""
    return label is None or label is getattr(sys.modules.get("pandas"), "NA", None) or bool(
        label != label or (not isinstance(label, (str, bytes)) and label == -1))


def _labelled(y):
    """Which labels are known, [n]."""
    if y.dtype.kind == "f":
        return ~np.isnan(y) & (y != -1)
    if y.dtype.kind == "O":
        return ~np.array([_is_missing(label) for label in y], bool)
    if y.dtype.kind == "U":  # of a list of texts with -1 or NaN in it numpy makes texts
        return ~np.isin(y, ["-1", "nan"])
    return y != -1 if y.dtype.kind in "iu" else np.ones(len(y), bool)


def _one_type(labels):
    """Labels of an array of objects as one of texts or numbers."""
    if labels.dtype.kind != "O":
        return labels
    if len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError("y: expected labels that are all texts or all numbers, got both")
    return np.array(labels.tolist())


def _save(path, array):
    with open(path, "wb") as file:  # numpy.save adds .npy to a name
        np.save(file, array)


def _with_last_column(X):
    """A CSR matrix [n, d] with a value in column d - 1, if 0: a libsvm file has as many columns as occur."""
    X = X.copy()
    X.sum_duplicates()
    first = X.indptr[1]
    if first > 0 and X.indices[first - 1] == X.shape[1] - 1:
        return X
    starts = X.indptr + (np.arange(X.shape[0] + 1) > 0)
    return scipy.sparse.csr_matrix((np.insert(X.data, first, 0), np.insert(X.indices, first, X.shape[1] - 1), starts),
                                   X.shape)


_GRAPH_FILES = ("edges", "features", "labels", "split", "graph", "pack", "predict", "train_per_class",
                "validation_per_class")  # options that `fit` sets, or that would be others for these


def _write_graph(path, edges, X, numbers, splits):
    """Writes gnn's files. Returns the options that name them."""
    files = {name: f"{path}-{name}" for name in ("edges", "features", "labels", "split")}
    _save(files["edges"], edges)
    if scipy.sparse.issparse(X):
        dump_svmlight_file(_with_last_column(X), numbers, files["features"], zero_based=False)
        del files["labels"]  # they are among the features
    else:
        _save(files["features"], X)
        _save(files["labels"], numbers)
    with open(files["split"], "w", encoding="ascii") as file:
        for name, mask in splits.items():
            file.write(f"{name}: {' '.join(map(str, np.flatnonzero(mask)))}\n")
    return files


class GraphClassifier(ClassifierMixin, _Job, BaseEstimator):
    """Classes of a graph's vertices by gnn: from their features, the edges, and the labels of some of them. By default
    gnn chooses, as its documentation says.

        model = GraphClassifier().fit(A, X, y)
        model.predict(A, X)[y == -1]

    model       "gcn" (averages of neighbours), "sage" (those beside the vertex's own values) or "gat" (attention).
    layers      the width of the hidden layer, or a tuple with that of each; of gat those of each head. None: gnn's.
    heads       gat's heads in hidden layers; None: gnn's.
    dropout     part of the values that are 0 in training, by chance; None: gnn's.
    alpha       L2 regularization (gnn's --lambda); None: gnn's.
    rate        learning rate of the first step; None: gnn's.
    max_iter    iterations over the whole graph, of which the first only measures the start; None: gnn's.
    directed    False: A has to be symmetric. True: A[u, v] is an edge from u to v, by which v learns of u.
    validation  labelled vertices that are not trained on, but whose loss and accuracy the report has: a part of each
                class from 0 to below 1, chosen by random_state; or a mask [n]. None: none.

    fit, predict, predict_proba and score take a graph, so it is none of the estimators that work in scikit-learn's
    pipelines and searches, and check_estimator can't apply to it. X and y are checked as elsewhere:

    A  the graph [n, n], scipy.sparse or an array: A[u, v] is not 0 where there is an edge. Other values than 1 raise a
       warning, as edges have no weights. A[v, v] changes nothing.
    X  the features [n, d], scipy.sparse or an array, not scaled.
    y  the labels [n], of any kind, but -1, NaN and None: not known.

    Another graph than that of `fit` can be predicted, too, with features of the same meaning.

    Attributes: classes_ [K], n_features_in_.
    """

    def __init__(self, model="gcn", layers=None, heads=None, dropout=None, alpha=None, rate=None, max_iter=None,
                 directed=False, validation=None, reliable=1, transient=0, random_state=None, options=None,
                 run_options=None, controller=None, folder=None):
        self.model, self.layers, self.heads, self.dropout = model, layers, heads, dropout
        self.alpha, self.rate, self.max_iter = alpha, rate, max_iter
        self.directed, self.validation = directed, validation
        self.reliable, self.transient, self.random_state = reliable, transient, random_state
        self.options, self.run_options, self.controller, self.folder = options, run_options, controller, folder

    def _labels(self, y, vertices):
        """Sets classes_. Returns the labels' numbers, [n]; -1: not known."""
        if y is None:
            raise ValueError("GraphClassifier requires y to be passed, but the target y is None")
        y = column_or_1d(y, warn=True)
        if len(y) != vertices:
            raise ValueError(f"y: expected a label for each of X's {vertices} rows (-1: not known), got {len(y)}")
        known = _labelled(y)
        if not known.any():
            raise ValueError("y: expected labels, but all of them are -1, NaN or None, which mean: not known")
        found = _one_type(y[known])
        check_classification_targets(found)
        self.classes_ = unique_labels(found)
        if len(self.classes_) < 2:
            raise ValueError(f"y: Classifier can't train when only one class is present: {self.classes_[0]!r}, beside "
                             "labels that are not known (-1, NaN or None)")
        numbers = np.full(vertices, -1, np.int32)
        numbers[known] = np.searchsorted(self.classes_, found)
        return numbers

    def _validating(self, numbers):
        """Which vertices are for validation, [n]."""
        part = self.validation
        if part is None:
            return np.zeros(len(numbers), bool)
        if np.ndim(part) > 0:
            mask = np.asarray(part)
            if mask.shape != numbers.shape or mask.dtype != bool:
                raise ValueError(f"validation: expected a part, or a mask of bool [{len(numbers)}], got {mask.dtype} "
                                 f"{list(mask.shape)}")
            if (numbers[mask] < 0).any():
                raise ValueError(f"validation: vertex {np.flatnonzero(mask & (numbers < 0))[0]} has no label")
            return mask
        if not 0 <= part < 1:
            raise ValueError(f"validation={part}: expected a part from 0 to below 1, or a mask")
        mask = np.zeros(len(numbers), bool)
        random = check_random_state(1 if self.random_state is None else self.random_state)
        for number in range(len(self.classes_)):
            vertices = random.permutation(np.flatnonzero(numbers == number))
            mask[vertices[:min(round(part * len(vertices)), len(vertices) - 1)]] = True
        return mask

    def fit(self, A, X, y):
        """Returns self."""
        X = _checked(self, X, accept_sparse="csr", dtype=np.float32)
        numbers = self._labels(y, X.shape[0])
        validating = self._validating(numbers)
        if len(np.unique(numbers[(numbers >= 0) & ~validating])) < 2:
            raise ValueError("validation: expected training vertices of at least two classes beside it")
        u, v = _graph.edges_of(A, self.directed, X.shape[0])
        if u.size == 0:
            raise ValueError("A: expected edges between vertices, it has none")
        if not self.directed:
            u, v = u[u < v], v[u < v]

        splits = {"train": (numbers >= 0) & ~validating, "validation": validating, "test": []}
        layers = self.layers
        if layers is not None and not isinstance(layers, str):
            layers = ",".join(map(str, np.atleast_1d(layers)))
        return self._run("gnn", lambda path: _write_graph(path, np.stack([u, v]), X, numbers, splits),
                         model=self.model, layers=layers, heads=self.heads, dropout=self.dropout, rate=self.rate,
                         directed=self.directed, **{"lambda": self.alpha}, **dict.fromkeys(_GRAPH_FILES))

    def predict_proba(self, A, X):
        """Probabilities [n, K] of all vertices, in the order of classes_."""
        check_is_fitted(self)
        X = _checked(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        return self.model_.predict_proba(A, X)

    def predict_log_proba(self, A, X):
        """Logarithms of predict_proba."""
        return np.log(self.predict_proba(A, X))

    def predict(self, A, X):
        """The likeliest class of each vertex."""
        places = self.predict_proba(A, X).argmax(axis=1)
        return self.classes_[places]

    def score(self, A, X, y, sample_weight=None):
        """The accuracy on the vertices whose labels are known: of a test, y has -1 for those of the training."""
        y = column_or_1d(y, warn=True)
        found = self.predict(A, X)
        check_consistent_length(found, y)
        known = _labelled(y)
        if not known.any():
            raise ValueError("y: expected labels, but all of them are -1, NaN or None, which mean: not known")
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return accuracy_score(_one_type(y[known]), found[known], sample_weight=weights)
