#!/usr/bin/env python3
"""proteus.sklearn: the classifier passes scikit-learn's general checks, all estimators find what scikit-learn's find or
plain numpy does. Skipped without scikit-learn (Debian's python3-sklearn). Finds the programs by $PROTEUS_BIN and the
package by $PYTHONPATH."""
import sys
import unittest

import numpy as np

sys.dont_write_bytecode = True
try:
    import sklearn
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.estimator_checks import check_estimator
except ImportError:
    sklearn = None
if sklearn is not None:
    from proteus.sklearn import LatentDirichletAllocation, LogisticRegression, MatrixFactorization


@unittest.skipIf(sklearn is None, "no scikit-learn (Debian's python3-sklearn)")
class Sklearn(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(2)

    def test_general_checks(self):
        check_estimator(LogisticRegression(max_iter=30))

    def test_classifier(self):
        import scipy.sparse
        from sklearn.linear_model import LogisticRegression as Theirs

        y = np.array(["a", "b", "c"])[self.random.integers(0, 3, 600)]
        X = self.random.normal(size=(600, 5)) + 1.5 * (y[:, None] == np.array(["a", "b", "c", "d", "e"]))
        theirs = Theirs().fit(X[:400], y[:400]).score(X[400:], y[400:])
        for data in (X, scipy.sparse.csr_matrix(X)):
            mine = LogisticRegression(transient=1).fit(data[:400], y[:400])
            self.assertGreater(mine.score(data[400:], y[400:]), theirs - 0.03)
            self.assertEqual(mine.coef_.shape, (3, 5))
            self.assertEqual(mine.n_iter_, 100)
        search = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression(max_iter=5)),
                              {"logisticregression__alpha": [1e-4, 10]}, cv=2).fit(X, y)
        self.assertEqual(search.best_params_, {"logisticregression__alpha": 1e-4})

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
        for bad in (-X, X + 0.5, X[:, :7]):
            with self.assertRaises(ValueError):
                model.transform(bad)


if __name__ == "__main__":
    unittest.main()
