#!/usr/bin/env python3
"""The examples in Python, with a node that is killed while they train: what they find is what plain numpy finds from
the same data. Finds the programs by $PROTEUS_BIN and the package by $PYTHONPATH."""
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import proteus

sys.dont_write_bytecode = True
EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "python"


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="python-examples-test-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.random = np.random.default_rng(11)

    def run_killed(self, example, **options):
        """Runs an example on 1 + 2 nodes, of which one is killed after the second iteration."""
        (self.path / "events").write_text("iteration 2 kill node-2\n")
        report = proteus.run(EXAMPLES / example, transient=2, progress=False, data=self.path / "data",
                             out=self.path / "out", run_options={"events": self.path / "events"}, **options)
        self.assertEqual([event["event"] for event in report.events].count("failure"), 1)
        return report

    def test_pagerank(self):
        np.savetxt(self.path / "data", self.random.integers(0, 100, (300, 2)), fmt="%d")
        self.run_killed("pagerank.py", iterations=60)
        links = np.unique(np.loadtxt(self.path / "data", int), axis=0)
        n = links.max() + 1
        matrix = np.zeros((n, n))
        matrix[links[:, 1], links[:, 0]] = 1
        degree = matrix.sum(axis=0)
        matrix = np.where(degree > 0, matrix / np.maximum(degree, 1), 1 / n)
        ranks = np.linalg.solve(np.eye(n) - 0.85 * matrix, np.full(n, 0.15 / n))
        np.testing.assert_allclose(np.load(self.path / "out.npy"), ranks, rtol=1e-3)

    def test_kmeans(self):
        centers = np.array([[0, 0], [0, 9], [9, 0], [9, 9]])
        points = (centers[:, None] + self.random.normal(0, 0.5, (4, 200, 2))).reshape(-1, 2)
        np.savetxt(self.path / "data", points, fmt="%.6f")
        report = self.run_killed("kmeans.py", centers=4, iterations=30)
        found = np.loadtxt(self.path / "out")
        # Another iteration in plain numpy changes nothing: these are the means of their own points.
        nearest = ((points[:, None] - found) ** 2).sum(axis=2).argmin(axis=1)
        means = [points[nearest == k].mean(axis=0) for k in range(4) if (nearest == k).any()]
        np.testing.assert_allclose(found[np.unique(nearest)], means, atol=1e-4)
        self.assertAlmostEqual(report.iterations[-1]["squared_distance"],
                               ((points - found[nearest]) ** 2).sum(axis=1).mean(), places=4)

    def test_logistic(self):
        labels = self.random.integers(0, 4, 2000)
        x = self.random.normal(size=(2000, 6)) + 2.5 * np.eye(6)[labels]
        np.savetxt(self.path / "data", np.column_stack([labels, x]), fmt="%.5g")
        report = self.run_killed("logistic.py", iterations=20)
        train = np.arange(2000) % 5 != 0
        ones = np.hstack([x, np.ones((2000, 1))])
        w = np.zeros((7, 4))
        for _ in range(600):
            p = np.exp(ones[train] @ w)
            p /= p.sum(axis=1, keepdims=True)
            w -= 0.5 * ones[train].T @ (p - np.eye(4)[labels[train]]) / train.sum()
        plain = ((ones[~train] @ w).argmax(axis=1) == labels[~train]).mean()
        self.assertGreater(report.iterations[-1]["accuracy"], plain - 0.02)

    def ratings(self):
        u, m = self.random.normal(0, 0.7, (2, 60, 3))
        pairs = np.array([(a, b) for a in range(60) for b in range(60)])
        values = 3 + (u[pairs[:, 0]] * m[pairs[:, 1]]).sum(axis=1) + self.random.normal(0, 0.1, len(pairs))
        np.savetxt(self.path / "data", np.column_stack([pairs, values]), fmt=["%d", "%d", "%.4f"])
        return pairs, values

    def test_machine(self):
        pairs, values = self.ratings()
        report = self.run_killed("machine.py", iterations=40, rank=4)
        self.check_factors(report, pairs, values)

    def test_factorize(self):
        pairs, values = self.ratings()
        report = self.run_killed("factorize.py", iterations=60, rank=4, rate=0.03, slower=0.99, decay=0.02)
        self.check_factors(report, pairs, values)

    def check_factors(self, report, pairs, values):
        """The test error is at most a quarter above that of alternating least squares."""
        test = (pairs[:, 0] * 31 + pairs[:, 1]) % 10 == 0
        (users, movies), target = pairs[~test].T, values[~test] - values[~test].mean()
        u, m = self.random.normal(0, 0.1, (2, 60, 4))
        for _ in range(20):
            for own, other, mine, theirs in ((u, m, users, movies), (m, u, movies, users)):
                for k in range(60):
                    x = other[theirs[mine == k]]
                    own[k] = np.linalg.solve(x.T @ x + 0.1 * np.eye(4), x.T @ target[mine == k])
        plain = np.sqrt(np.mean((values[test] - values[~test].mean()
                                 - (u[pairs[test, 0]] * m[pairs[test, 1]]).sum(axis=1)) ** 2))
        self.assertLess(report.iterations[-1]["test_rmse"], 1.25 * plain)

    def test_skipgram(self):
        groups = [[f"{group}{number}" for number in range(10)] for group in "abc"]
        with open(self.path / "data", "w") as file:
            for sentence in range(900):
                file.write(" ".join(self.random.choice(groups[sentence % 3], 10)) + "\n")
        self.run_killed("skipgram.py", iterations=6)
        model = np.load(self.path / "out.npz")
        vectors = model["vectors"] / np.linalg.norm(model["vectors"], axis=1)[:, None]
        alike = vectors @ vectors.T - 2 * np.eye(len(vectors))
        group = np.array([word[0] for word in model["words"]])
        self.assertEqual((group[alike.argmax(axis=1)] == group).mean(), 1)


if __name__ == "__main__":
    unittest.main()
