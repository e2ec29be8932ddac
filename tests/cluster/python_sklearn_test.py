#!/usr/bin/env python3
"""proteus.sklearn: the estimators pass scikit-learn's general checks, two of them on data made into pairs and counts,
and find what scikit-learn's find or plain numpy does. Skipped without scikit-learn (Debian's python3-sklearn). Finds
the programs by $PROTEUS_BIN and the package by $PYTHONPATH."""
import contextlib
import sys
import unittest
import unittest.mock

import numpy as np

sys.dont_write_bytecode = True
try:
    import scipy.sparse
    import sklearn
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.estimator_checks import check_estimator
except ImportError:
    sklearn = None
if sklearn is not None:
    from proteus.sklearn import LatentDirichletAllocation, LogisticRegression, MatrixFactorization

    class Pairs(MatrixFactorization):
        """Makes pairs of the numbers of scikit-learn's checks."""

        @staticmethod
        def _pairs(X):
            return MatrixFactorization._pairs(np.floor(10 * np.abs(X[:, :2].astype(np.float64))))

    class Counts(LatentDirichletAllocation):
        """Makes counts of the numbers of scikit-learn's checks."""

        @staticmethod
        def _counts(X):
            return LatentDirichletAllocation._counts((3 * scipy.sparse.csr_matrix(X)).floor())


@unittest.skipIf(sklearn is None, "no scikit-learn (Debian's python3-sklearn)")
class Sklearn(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(2)

    def test_general_checks(self):
        check_estimator(LogisticRegression())
        unlike = {"check_regressors_train"}  # it wants the factors of pairs to fit numbers that are linear in the pairs
        ran = set()
        for estimator in (Pairs(max_iter=3, rate=0.001), Counts(n_components=3, max_iter=5)):
            for one, check in check_estimator(estimator, generate_only=True):
                name = check.func.__name__
                if name not in unlike:
                    with self.subTest(estimator=estimator, check=name), contextlib.suppress(unittest.SkipTest):
                        check(one)
                        ran.add(name)
        self.assertLessEqual({"check_fit_idempotent", "check_methods_subset_invariance", "check_estimators_pickle",
                              "check_n_features_in", "check_transformer_general", "check_regressors_int"}, ran)

    def test_options(self):
        """What an estimator sets by itself can't be another option, too."""
        for name, estimator in (("data", MatrixFactorization), ("model-out", MatrixFactorization),
                                ("seed", LatentDirichletAllocation), ("iterations", LogisticRegression),
                                ("lambda", MatrixFactorization), ("alpha", LatentDirichletAllocation)):
            with self.assertRaisesRegex(ValueError, f"options: {name}: expected none, as {estimator.__name__} sets "
                                                    f"--{name} of "):
                estimator(options={name: 1}).fit([[1, 2], [3, 4]], [1, 2])
        model = LogisticRegression(max_iter=2, optimizer="momentum", options={"momentum": 0.5})
        self.assertEqual(model.fit([[1, 2], [3, 4]], [1, 2]).n_iter_, 2)

    def test_classifier(self):
        from sklearn.linear_model import LogisticRegression as Theirs

        y = np.array(["a", "b", "c"])[self.random.integers(0, 3, 600)]
        X = self.random.normal(size=(600, 5)) + 1.5 * (y[:, None] == np.array(["a", "b", "c", "d", "e"]))
        theirs = Theirs().fit(X[:400], y[:400]).score(X[400:], y[400:])
        for data in (X, scipy.sparse.csr_matrix(X)):
            mine = LogisticRegression(transient=1).fit(data[:400], y[:400])
            self.assertGreater(mine.score(data[400:], y[400:]), theirs - 0.03)
            self.assertEqual(mine.coef_.shape, (3, 5))
            self.assertGreaterEqual(mine.n_iter_, 10)
        search = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression(max_iter=5)),
                              {"logisticregression__alpha": [1e-4, 10]}, cv=2).fit(X, y)
        self.assertEqual(search.best_params_, {"logisticregression__alpha": 1e-4})

    def test_defaults(self):
        """No option is given that no parameter gives: the app chooses."""
        X = self.random.normal([0, 1.7e9, 3], [1e-3, 1e4, 100], (300, 3))
        y = X[:, 0] + X[:, 1] / 1e7 > 170
        for estimator, app, made in ((LogisticRegression(), "mlr", X), (MatrixFactorization(), "mf", None)):
            with unittest.mock.patch("proteus.sklearn.run", side_effect=InterruptedError) as run:
                with self.assertRaises(InterruptedError):
                    estimator.fit(made if made is not None else [[1, 2], [3, 4]], y if made is not None else [1, 2])
            given = {name for name, value in run.call_args.kwargs.items() if value not in (None, False)}
            self.assertEqual(run.call_args.args, (app,))
            self.assertEqual(given - {"reliable", "data", "model_out", "seed"},
                             {"mlr": {"format", "label_column", "optimizer"}, "mf": {"rank"}}[app])
        model = LogisticRegression().fit(X, y)
        self.assertEqual(model.model_.scale, "standard")
        self.assertGreater(model.score(X, y), 0.95)

    def test_coefficients(self):
        """They are for X as it is given, however mlr scales it."""
        X = self.random.normal([3, 1e6, 40], [0.01, 1e3, 5], (400, 3))
        noise = self.random.normal(size=400)
        y = (X[:, 0] - 3) * 100 + (X[:, 1] - 1e6) / 1e3 + noise > 0
        sparse = scipy.sparse.csr_matrix(np.maximum(self.random.normal(-10, 9, (400, 8)), 0))
        larger = sparse.toarray()[:, 0] > sparse.toarray()[:, 1]
        for data, labels in ((X, y), (X, y + 2 * (X[:, 2] > 40)), (sparse, larger)):
            for scale in ("auto", "standard", "max"):
                model = LogisticRegression(options={"scale": scale}).fit(data, labels)
                if model.model_.scale == "unit":
                    continue
                linear = data @ model.coef_.T + model.intercept_
                decision = model.decision_function(data).reshape(linear.shape)
                within = np.abs(linear - decision).max(axis=1) < 1e-3 * np.abs(linear).max()
                self.assertGreater(within.mean(), 0.95)  # but for values beyond 5 deviations
                dense = data.toarray() if scipy.sparse.issparse(data) else data
                np.testing.assert_allclose(model.decision_function(dense).reshape(linear.shape), decision, rtol=1e-4,
                                           atol=1e-4)

    def test_columns_far_apart(self):
        """Memory is for the columns that have values."""
        x = self.random.integers(0, 3, (300, 6)).astype(np.float64)
        y = x[:, 0] + x[:, 4] > x[:, 1] + x[:, 5]
        rows, places = np.nonzero(x)
        for columns in ([0, 7, 2**20, 2**21, 2**22 - 3, 2**22 - 1], [2, 7, 2**20, 2**30, 2**31 - 3, 2**31 - 2]):
            features = columns[-1] + 1
            wide = scipy.sparse.csr_matrix((x[rows, places], (rows, np.array(columns)[places])), (300, features))
            model = LogisticRegression(options={"scale": "max"}).fit(wide, y)
            self.assertGreater(model.score(wide, y), 0.9)
            self.assertEqual(model.coef_.shape, (1, features))
            self.assertEqual(scipy.sparse.issparse(model.coef_), features > 2**26)
            # Not by a product of sparse matrices: scipy makes an array of all columns for one.
            coef = scipy.sparse.csr_matrix(model.coef_)
            weights = dict(zip(coef.indices.tolist(), coef.data))
            self.assertLessEqual(set(weights), set(columns))
            linear = x @ [weights.get(column, 0) for column in columns]
            np.testing.assert_allclose(linear + model.intercept_, model.decision_function(wide), rtol=1e-4, atol=1e-4)

    def test_factorization(self):
        u, m = self.random.normal(0, 0.7, (2, 40, 3))
        X = np.array([(a, b) for a in range(40) for b in range(40)])
        y = 3 + (u[X[:, 0]] * m[X[:, 1]]).sum(axis=1)
        test = self.random.random(len(y)) < 0.1
        model = MatrixFactorization(rank=4, max_iter=60, rate=0.05).fit(X[~test], y[~test])
        self.assertGreater(model.score(X[test], y[test]), 0.8)
        self.assertEqual(len(model.recommend(3, n=4)), 4)
        for bad in ([[1, 2, 3]], [[-1, 2]], [[1.5, 2]]):
            with self.assertRaises(ValueError):
                model.predict(bad)

    def test_factorization_of_ids_that_are_texts(self):
        users, items = [f"A{n:02d}" for n in range(30)], [f'The "{n}", new' for n in range(19)] + ["7"]
        X = np.array([(user, item) for user in users for item in items])
        y = np.array([3 + (u % 3) * (i % 2) for u in range(30) for i in range(20)])
        model = MatrixFactorization(rank=2, max_iter=40).fit(X, y)
        self.assertGreater(model.score(X, y), 0.8)
        self.assertEqual({str(item) for item, _ in model.recommend("A02", n=20)}, set(items))
        self.assertEqual(model.predict([["nobody", "nothing"]])[0], np.float32(model.model_.mean))
        with self.assertRaises(ValueError):
            model.predict(np.array([["A01", ""]]))

    def test_topics(self):
        topics = self.random.dirichlet(np.full(30, 0.1), 3)
        X = np.array([self.random.multinomial(80, topics[d % 3]) for d in range(60)])
        model = LatentDirichletAllocation(n_components=3, doc_topic_prior=0.1, max_iter=60)
        shares = model.fit_transform(X)
        self.assertEqual(shares.shape, (60, 3))
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        main = shares.argmax(axis=1)
        self.assertEqual(sorted(np.bincount(main)), [20, 20, 20])
        self.assertTrue(all(len(set(main[k::3])) == 1 for k in range(3)))
        np.testing.assert_allclose(model.transform(np.zeros((1, 30))), 1 / 3)
        self.assertEqual(model.components_.sum(), X.sum())
        sparse = scipy.sparse.csr_matrix(X.astype(np.float64))
        sparse.data[:5] = 0
        before = sparse.copy()
        model.transform(sparse)
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(sparse, part), getattr(before, part))
        np.testing.assert_array_equal(model.transform(X[:20:-1]), shares[:20:-1])
        for bad in (-X, X + 0.5, X[:, :7]):
            with self.assertRaises(ValueError):
                model.transform(bad)


if __name__ == "__main__":
    unittest.main()
