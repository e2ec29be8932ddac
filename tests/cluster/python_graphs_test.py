#!/usr/bin/env python3
"""Graph neural networks in Python: proteus.load's models of gnn predict as `gnn --predict` does, for all kinds of
networks, scales and graphs, before and after `save`; proteus.sklearn.GraphClassifier learns from a matrix, and checks
its input. Skipped without scipy, and the classifier's without scikit-learn (Debian's python3-scipy, python3-sklearn).
Finds the programs by $PROTEUS_BIN, the package by $PYTHONPATH, and the data by $PROTEUS_SOURCE."""
import gzip
import os
import pathlib
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings
import zlib

import numpy as np
import proteus

try:
    import scipy.sparse
except ImportError:
    scipy = None
try:
    import sklearn.utils.estimator_checks as checks
    from sklearn.base import clone, is_classifier
    from sklearn.exceptions import DataConversionWarning, NotFittedError

    from proteus.sklearn import GraphClassifier
except ImportError:
    checks = None

sys.dont_write_bytecode = True
BIN = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve()
DATA = pathlib.Path(os.environ.get("PROTEUS_SOURCE", ".")).resolve().parent / "shared/data"
CLASSES = 3
VERTICES = 240


def made_graph(generator, columns, filled):
    """A directed graph [n, n] of 0 and 1 whose classes show in edges and features, with edges from vertices to
    themselves and vertices without any; features [n, columns], `filled` of them not 0; and classes [n]."""
    y = generator.integers(0, CLASSES, VERTICES)
    A = generator.random((VERTICES, VERTICES)) < np.where(y[:, None] == y, 0.05, 0.003)
    A[:5], A[:, :5] = False, False
    A[10, 10] = A[11, 11] = A[12, 13] = True
    A[13, 12] = False
    X = generator.normal(1, 2, (VERTICES, columns)) + 1.5 * (np.arange(columns) % CLASSES == y[:, None])
    return A, np.where(generator.random(X.shape) < filled, X.round(2), 0), y


@unittest.skipIf(scipy is None, "no scipy (Debian's python3-scipy)")
class Graphs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="python-graphs-test-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.model = self.path / "a.model"
        self.random = np.random.default_rng(11)

    # ---- Models ----

    def write_graph(self, A, X, y):
        np.save(self.path / "edges.npy", np.stack(np.nonzero(A)))
        np.save(self.path / "features.npy", X)
        np.save(self.path / "labels.npy", y)

    def files(self):
        return {name: self.path / f"{name}.npy" for name in ("edges", "features")}

    def train(self, **options):
        proteus.run("gnn", labels=self.path / "labels.npy", train_per_class=20, model_out=self.model, **self.files(),
                    **{"iterations": 10, "rate": 0.1, "dropout": 0.2, **options})
        return proteus.load(self.model)

    def predicted(self, path):
        """Labels and probabilities by the program."""
        options = [part for name, file in self.files().items() for part in (f"--{name}", file)]
        out = self.path / "out"
        done = subprocess.run([BIN / "gnn", "--predict", path, *options, "--probabilities", "--out", out],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split("\t") for line in out.read_text().splitlines()[1:]]
        return [line[1] for line in lines], np.array([line[3:] for line in lines], np.float64)

    def check_model(self, model, A, X):
        """The model's predictions are the program's, before and after `save`, for every form of the same graph."""
        again = self.path / "again.model"
        model.save(again)
        self.assertEqual(again.read_bytes(), self.model.read_bytes())
        labels, theirs = self.predicted(again)
        for matrix in (A, A.astype(float), scipy.sparse.coo_matrix(A), scipy.sparse.csc_matrix(A)):
            for features in (X, scipy.sparse.csr_matrix(X), scipy.sparse.coo_matrix(X)):
                np.testing.assert_allclose(model.predict_proba(matrix, features), theirs, atol=1e-5)
        self.assertEqual(model.predict(A, X).tolist(), labels)

    def test_kinds(self):
        A, X, y = made_graph(self.random, 12, 1)
        for directed in (False, True):
            graph = A if directed else A | A.T
            self.write_graph(graph, X, y)
            for kind, more in (("gcn", {}), ("gcn", {"layers": "9,5"}), ("sage", {}), ("sage", {"layers": "7,6,5"}),
                               ("gat", {}), ("gat", {"layers": "3,5", "heads": 3, "output_heads": 2})):
                with self.subTest(kind=kind, directed=directed, **more):
                    model = self.train(model=kind, directed=directed, **more)
                    self.assertEqual((model.kind, model.directed, model.features), (kind, directed, 12))
                    self.assertEqual(model.labels, ["0", "1", "2"])
                    self.assertGreater(model.predict_proba(graph, X).std(axis=0).max(), 0.02)  # they differ
                    self.check_model(model, graph, X)
        self.check_damage()

    def test_scales(self):
        for filled in (0.1, 1):
            A, X, y = made_graph(self.random, 40, filled)
            A |= A.T
            X[20:25] = 0
            X[:, 7] = 3  # constant
            self.write_graph(A, X, y)
            for scale in ("none", "unit", "rows", "standard"):
                with self.subTest(scale=scale, filled=filled):
                    model = self.train(scale=scale)
                    self.assertEqual(model.scale, scale)
                    self.check_model(model, A, X)
                    if scale == "standard":
                        self.assertEqual(model.centres.any(), filled == 1)

    def test_centres_and_sparse_features(self):
        """A zero has the same value in a sparse matrix as in an array, also in one that the program keeps sparse."""
        A, X, y = made_graph(self.random, 12, 1)
        A |= A.T
        self.write_graph(A, X, y)
        model = self.train(scale="standard")
        few = np.where(self.random.random(X.shape) < 0.1, X, 0)
        self.write_graph(A, few, y)
        self.check_model(model, A, few)

    def test_columns_of_sparse_features(self):
        A, X, y = made_graph(self.random, 12, 0.2)
        A |= A.T
        self.write_graph(A, X, y)
        model, sparse = self.train(), scipy.sparse.csr_matrix(X)
        more = scipy.sparse.hstack([sparse, np.ones((VERTICES, 2))]).tocsr()
        np.testing.assert_array_equal(model.logits(A, more), model.logits(A, sparse))
        few = np.where(np.arange(12) < 10, X, 0)
        np.testing.assert_allclose(model.logits(A, sparse[:, :10]), model.logits(A, few), rtol=1e-5, atol=1e-5)
        self.assertEqual((more.shape, sparse.nnz), ((VERTICES, 14), np.count_nonzero(X)))  # they are as they were

    def test_edges(self):
        """Weights are ignored, with a warning; repeats, zeros that are written, and edges of a vertex to itself."""
        A, X, y = made_graph(self.random, 6, 1)
        A |= A.T
        self.write_graph(A, X, y)
        model = self.train()
        before = model.logits(A, X)
        i, j = np.nonzero(A)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(model.logits(A.astype(np.int8), X), before)
            loops = A + 5 * np.eye(VERTICES)
            np.testing.assert_array_equal(model.logits(loops * (A | np.eye(VERTICES, dtype=bool)), X), before)
            written = scipy.sparse.coo_matrix((np.append(np.ones(i.size), 0), (np.append(i, 0), np.append(j, 1))))
            written.resize(VERTICES, VERTICES)
            np.testing.assert_array_equal(model.logits(written, X), before)
        for weighted in (A * 0.5, A * -1, scipy.sparse.coo_matrix((np.ones(2 * i.size), (np.tile(i, 2), np.tile(j, 2))),
                                                                  A.shape)):
            with self.assertWarnsRegex(UserWarning, "they are ignored"):
                np.testing.assert_array_equal(model.logits(weighted, X), before)
        model.logits(np.zeros(A.shape), X)  # without edges

    def test_errors(self):
        A, X, y = made_graph(self.random, 6, 1)
        self.write_graph(A | A.T, X, y)
        model = self.train()
        even, holes = A | A.T, X.copy()
        holes[3, 2] = np.nan
        for graph, features, text in (
                (A, X, r"A is not symmetric: A\[\d+, \d+\] is not 0, but A\[\d+, \d+\] is.*directed=True"),
                (even[:9], X, r"A: expected a square matrix, got shape \(9, 240\)"),
                (even[:9, :9], X, r"A: expected shape \(240, 240\), as X has 240 rows, got \(9, 9\)"),
                (even[0], X, "A: expected a square matrix, got an array of 1 dim"),
                (np.where(even, np.nan, 0), X, "A: expected finite numbers"),
                (even.astype(complex), X, "A: expected a matrix of numbers, got complex"),
                (even.astype(str), X, "A: expected a matrix of numbers"),
                (even, X[:, :5], r"X: expected 6 features for each vertex, got shape \(240, 5\)"),
                (even, X[:, 0], "X: expected 6 features"), (even, holes, "X: expected finite numbers"),
                (even, scipy.sparse.csr_matrix(holes), "X: expected finite numbers")):
            with self.assertRaisesRegex(ValueError, text):
                model.predict(graph, features)
        with self.assertRaisesRegex(ValueError, "expected one of gcn, gat, sage"):
            proteus.GraphNetworkModel("gin", ["a", "b"], "4", [], 3)
        with self.assertRaisesRegex(ValueError, "parameters: expected 0.weights, 0.biases, 1.weights, 1.biases"):
            proteus.GraphNetworkModel("gcn", ["a", "b"], "4", [], 3)
        with unittest.mock.patch.dict(sys.modules, {"scipy": None, "scipy.sparse": None}):
            with self.assertRaisesRegex(ImportError, "graphs need scipy: install python3-scipy"):
                model.predict(even, X)

    def check_damage(self):
        """Each changed byte, a missing end and more bytes are refused."""
        whole = self.model.read_bytes()
        for at in random.Random(3).sample(range(len(whole)), min(300, len(whole))):
            self.model.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1:])
            with self.assertRaises(proteus.ModelError):
                proteus.load(self.model)
        for damaged in (whole[:-1], whole[:20], b"", whole + b"x"):
            self.model.write_bytes(damaged)
            with self.assertRaises(proteus.ModelError):
                proteus.load(self.model)

    @staticmethod
    def forged(version=1, kind=0, features=2, classes=2, heads=8, output_heads=1, layers=2, text=b"1", directed=0,
               scale=0, values=(1, 2, 0, 3, 4, 0, 0)):
        """A model whose numbers may be wrong, with a right checksum."""
        content = b"AMLGNNMD" + struct.pack("<10I12x", version, kind, features, classes, heads, output_heads, layers,
                                            len(text), directed, scale)
        content += text + struct.pack("<I1sI1s", 1, b"a", 1, b"b") + struct.pack(f"<{len(values)}f", *values)
        return content + struct.pack("<I", zlib.crc32(content))

    def test_forged(self):
        self.model.write_bytes(self.forged())
        model = proteus.load(self.model)
        np.testing.assert_allclose(model.logits([[0]], [[5, 7]]), [[3 * 19, 4 * 19]])
        for wrong in (
                {"version": 2}, {"version": 17}, {"kind": 1}, {"kind": 3}, {"directed": 2}, {"scale": 3}, {"scale": 4},
                {"features": 0}, {"features": 2**24}, {"features": 2**24 + 1}, {"classes": 1}, {"classes": 3},
                {"classes": 2**31}, {"heads": 0}, {"heads": 65}, {"output_heads": 2**32 - 1}, {"layers": 3},
                {"text": b""}, {"text": b"0"}, {"text": b"4097"}, {"text": b"1,"}, {"text": b"1" * 65},
                {"text": b"\xff"}, {"text": b"1,1,1,1,1,1,1", "layers": 8}, {"values": (1, 2, 0, 3, 4, 0)},
                {"values": (1, 2, 0, 3, 4, 0, float("nan"))}, {"values": range(8)}):
            with self.subTest(**wrong):
                self.model.write_bytes(self.forged(**wrong))
                with self.assertRaises(proteus.ModelError):
                    proteus.load(self.model)

    # ---- The classifier ----

    @staticmethod
    def halved(y, generator, unknown=-1):
        """Labels with half of them unknown, and those that are then unknown alone."""
        test = generator.random(len(y)) < 0.5
        return np.where(test, unknown, y), np.where(test, y, unknown)

    @unittest.skipIf(checks is None, "no scikit-learn (Debian's python3-sklearn)")
    def test_classifier(self):
        for filled in (1, 0.4):
            A, X, y = made_graph(self.random, 12, filled)
            A |= A.T
            X[:, 11] = 0
            for features in (X, scipy.sparse.csr_matrix(X)):
                known, hidden = self.halved(y, self.random)
                for kind in ("gcn", "sage", "gat"):
                    model = GraphClassifier(kind, transient=1, max_iter=40).fit(A, features, known)
                    self.assertEqual((model.model_.kind, model.n_iter_, model.n_features_in_), (kind, 40, 12))
                    self.assertEqual(model.model_.features, 12)
                    self.assertEqual(model.classes_.tolist(), [0, 1, 2])
                    self.assertGreater(model.score(A, features, hidden), 0.8)
                    probabilities = model.predict_proba(A, features)
                    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
                    self.assertEqual(model.predict(A, features).tolist(), probabilities.argmax(axis=1).tolist())
                    np.testing.assert_allclose(np.exp(model.predict_log_proba(A, features)), probabilities, atol=1e-6)
        self.assertTrue(is_classifier(model))
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(A, X), model.predict_proba(A, X))

    @unittest.skipIf(checks is None, "no scikit-learn (Debian's python3-sklearn)")
    def test_other_graph(self):
        """An edge from u to v has v learn of u, in a graph that the model was not trained on, too."""
        A, X, y = made_graph(self.random, 12, 1)
        model = GraphClassifier(directed=True, layers=8, max_iter=40).fit(A, X, y)
        self.assertTrue(model.model_.directed)
        A, X, y = made_graph(self.random, 12, 1)
        before = model.predict_proba(A, X)
        self.assertGreater(model.score(A, X, y), 0.8)
        A[20, :], A[:, 20] = False, False
        A[20, 30] = True
        changed = X.copy()
        changed[20] += 9
        moved = np.abs(model.predict_proba(A, changed) - model.predict_proba(A, X)).max(axis=1) > 1e-6
        reached = A.T @ A[20] | A[20]  # within two layers
        self.assertTrue(moved[30] and moved[20])
        self.assertLessEqual(set(np.flatnonzero(moved)), set(np.flatnonzero(reached | (A.T @ reached))) | {20})
        self.assertEqual(before.shape, (VERTICES, CLASSES))

    @unittest.skipIf(checks is None, "no scikit-learn (Debian's python3-sklearn)")
    def test_labels(self):
        """Of all kinds, and all that mean a label is not known."""
        A, X, y = made_graph(self.random, 6, 1)
        A |= A.T
        test = np.arange(VERTICES) % 2 == 1
        names = np.array(["red", "7", "blue"])[y]
        found = None
        for labels in (np.where(test, -1, y), np.where(test, -1, y).tolist(), np.where(test, np.nan, y),
                       np.where(test, None, y), np.where(test, np.nan, y.astype(object)), np.where(test, -1.0, y),
                       np.where(test, -1, 10 * y + 3), np.where(test, None, names), np.where(test, "-1", names),
                       [-1 if no else name for no, name in zip(test, names.tolist())]):
            model = GraphClassifier(max_iter=3).fit(A, X, labels)
            self.assertEqual(len(model.classes_), 3)
            if model.classes_.dtype.kind == "U":
                self.assertEqual(model.classes_.tolist(), ["7", "blue", "red"])
                self.assertIn(model.predict(A, X)[0], ["7", "blue", "red"])
                self.assertEqual(model.score(A, X, names), (model.predict(A, X) == names).mean())
            else:
                found = model.predict_proba(A, X) if found is None else found
                np.testing.assert_array_equal(model.predict_proba(A, X), found)
        with self.assertWarns(DataConversionWarning):
            GraphClassifier(max_iter=2).fit(A, X, y[:, None])
        GraphClassifier(max_iter=2).fit(A, X, y == 1)

    @unittest.skipIf(checks is None, "no scikit-learn (Debian's python3-sklearn)")
    def test_validation(self):
        A, X, y = made_graph(self.random, 6, 1)
        A |= A.T
        known, _ = self.halved(y, self.random)
        mask = (known >= 0) & (self.random.random(VERTICES) < 0.3)
        for validation, expected in ((0.25, None), (mask, np.flatnonzero(mask).tolist()), (None, []), (0, [])):
            with unittest.mock.patch("proteus.sklearn.run", side_effect=self.read_split) as run:
                with self.assertRaises(InterruptedError):
                    GraphClassifier(validation=validation).fit(A, X, known)
            self.assertEqual(run.call_args.args, ("gnn",))
            given = {name for name, value in run.call_args.kwargs.items() if value not in (None, False)}
            self.assertEqual(given - {"reliable", "model", "model_out", "seed"},
                             {"edges", "features", "labels", "split"})
            train, validate, test = self.split
            self.assertEqual(sorted(train + validate), np.flatnonzero(known >= 0).tolist())
            self.assertEqual(test, [])
            if expected is not None:
                self.assertEqual(validate, expected)
            else:
                self.assertEqual(np.bincount(known[validate]).tolist(),
                                 [round(count / 4) for count in np.bincount(known[known >= 0])])
        report = GraphClassifier(validation=0.25, max_iter=20).fit(A, X, known).report_
        self.assertGreater(report.iterations[-1]["validation_accuracy"], 0.5)

    def read_split(self, *_, split, **__):
        self.split = [[int(v) for v in line.split()[1:]] for line in pathlib.Path(split).read_text().splitlines()]
        raise InterruptedError

    @unittest.skipIf(checks is None, "no scikit-learn (Debian's python3-sklearn)")
    def test_conventions(self):
        """What scikit-learn's checks ask for, but for those that call fit(X, y)."""
        for check in (checks.check_no_attributes_set_in_init, checks.check_get_params_invariance,
                      checks.check_set_params, checks.check_parameters_default_constructible):
            check("GraphClassifier", GraphClassifier())
        A, X, y = made_graph(self.random, 6, 1)
        A |= A.T
        X, inputs = X.astype(np.float32), (A.copy(), X.astype(np.float32), y.copy())
        estimator = GraphClassifier(max_iter=3, validation=y == 0)
        with self.assertRaises(NotFittedError):
            estimator.predict(A, X)
        self.assertEqual(clone(estimator).get_params().keys(), estimator.get_params().keys())
        estimator = GraphClassifier(max_iter=3, random_state=np.random.RandomState(5), layers=(4, 3))
        one = estimator.fit(A, X, y).predict_proba(A, X)
        self.assertEqual(estimator.model_.layers, "4,3")
        np.testing.assert_array_equal(estimator.set_params(random_state=np.random.RandomState(5)).fit(A, X, y)
                                      .predict_proba(A, X), one)
        self.assertTrue(all((now == before).all() for now, before in zip((A, X, y), inputs)))
        with self.assertRaisesRegex(ValueError, "X has 5 features, but GraphClassifier is expecting 6"):
            estimator.predict(A, X[:, :5])

    @unittest.skipIf(checks is None, "no scikit-learn (Debian's python3-sklearn)")
    def test_classifier_errors(self):
        A, X, y = made_graph(self.random, 6, 1)
        even, holes, half = A | A.T, X.copy(), np.where(y == 0, -1, y)
        holes[3, 2] = np.inf
        for arguments, more, text in (
                ((A, X, y), {}, "A is not symmetric"), ((even[:, :9], X, y), {}, "A: expected a square matrix"),
                ((even[:9, :9], X, y), {}, r"A: expected shape \(240, 240\)"),
                ((even & False, X, y), {}, "A: expected edges between vertices, it has none"),
                ((np.eye(VERTICES), X, y), {}, "A: expected edges between vertices"),
                ((even, holes, y), {}, "contains infinity"), ((even, X[:, 0], y), {}, "Expected 2D array"),
                ((even, X, None), {}, "requires y to be passed"),
                ((even, X, y[:9]), {}, r"y: expected a label for each of X's 240 rows"),
                ((even, X, np.full(VERTICES, -1)), {}, "y: expected labels, but all of them are -1"),
                ((even, X, np.where(y == 0, 0, -1)), {}, "only one class is present: 0, beside"),
                ((even, X, y + 0.5), {}, "Unknown label type"),
                ((even, X, [["a", 1, None][c] for c in y]), {}, "all texts or all numbers"),
                ((even, X, y), {"validation": 1}, "validation=1: expected a part"),
                ((even, X, y), {"validation": y}, "validation: expected a part, or a mask of bool"),
                ((even, X, half), {"validation": y == 0}, r"validation: vertex \d+ has no label"),
                ((even, X, half), {"validation": y == 1}, "expected training vertices of at least two classes"),
                ((even, X, y), {"options": {"train-per-class": 3}}, "options: train-per-class: expected none"),
                ((even, X, y), {"options": {"graph": "x"}}, "options: graph: expected none"),
                ((even, X, y), {"folder": "x"}, "expected controller= with it")):
            with self.subTest(text=text), self.assertRaisesRegex(ValueError, text):
                GraphClassifier(**more).fit(*arguments)
        with self.assertRaisesRegex(proteus.JobError, "--heads: expected --model gat"):
            GraphClassifier(heads=2).fit(even, X, y)
        with self.assertWarnsRegex(UserWarning, "they are ignored"):
            model = GraphClassifier(max_iter=2).fit(even * 0.3, X, y)
        with self.assertRaisesRegex(ValueError, "y: expected labels, but all"):
            model.score(even, X, np.full(VERTICES, -1))
        with self.assertRaisesRegex(ValueError, "inconsistent numbers"):
            model.score(even, X, y[:3])

    @unittest.skipIf(checks is None, "no scikit-learn (Debian's python3-sklearn)")
    @unittest.skipUnless((DATA / "graph-cora").is_dir(), "no data")
    def test_cora(self):
        from sklearn.datasets import load_svmlight_file

        with gzip.open(DATA / "graph-cora/cora.features.gz") as file:
            X, y = load_svmlight_file(file, n_features=1433)
        u, v = np.loadtxt(DATA / "graph-cora/cora.edges.gz", int, unpack=True)
        with gzip.open(DATA / "graph-cora/cora.split.gz", "rt") as file:
            train, validation, test = (np.array(line.split()[1:], int) for line in file)
        A = scipy.sparse.coo_matrix((np.ones(2 * u.size), (np.append(u, v), np.append(v, u))))
        mask = np.zeros(len(y), bool)
        mask[validation] = True
        known, hidden = np.full((2, len(y)), -1.0)
        known[train], known[validation], hidden[test] = y[train], y[validation], y[test]
        model = GraphClassifier(transient=1, validation=mask).fit(A, X, known)
        self.assertGreater(model.score(A, X, hidden), 0.79)
        self.assertGreater(model.report_.iterations[-1]["validation_accuracy"], 0.75)


if __name__ == "__main__":
    unittest.main()
