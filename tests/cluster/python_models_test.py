#!/usr/bin/env python3
"""proteus.load: models that jobs write, as numpy arrays. Predictions are those of the programs, before and after
`save`; a file that is damaged in any byte is refused. Finds the programs by $PROTEUS_BIN and the package by
$PYTHONPATH."""
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import numpy as np
import proteus

try:
    import scipy.sparse
except ImportError:
    scipy = None

sys.dont_write_bytecode = True
BIN = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve()


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="python-models-test-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.model, self.data = self.path / "a.model", self.path / "data"
        self.random = np.random.default_rng(7)

    def program(self, *command):
        done = subprocess.run([BIN / command[0], *command[1:]], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def train(self, app, **options):
        proteus.run(app, data=self.data, model_out=self.model, **options)
        return proteus.load(self.model)

    def saved(self, model):
        again = self.path / "again.model"
        model.save(again)
        return again

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

    def test_mf(self):
        users, items = self.random.integers(1, 30, 600), self.random.integers(1, 40, 600)
        ratings = np.unique(np.stack([users, items], axis=1), axis=0)
        values = self.random.integers(1, 6, len(ratings))
        self.data.write_text("".join(f"{u}\t{i}\t{v}\n" for (u, i), v in zip(ratings, values)))
        for more in ({}, {"no_biases": True}):
            model = self.train("mf", iterations=5, rank=4, **more)
            self.assertEqual(model.rank, 4)
            pairs = np.array([[u, i] for u in range(33) for i in range(43)])  # also of keys that it does not have
            (self.path / "pairs").write_text("".join(f"{u} {i}\n" for u, i in pairs))
            mine = model.predict(pairs[:, 0], pairs[:, 1])
            for path in (self.model, self.saved(model)):
                text = self.program("mf", "--predict", path, "--data", self.path / "pairs")
                theirs = np.array([float(line.split()[2]) for line in text.splitlines()])
                np.testing.assert_allclose(mine, theirs, atol=2e-4)
            best = model.recommend(5, 3, without=model.items[:2])
            rest = model.items[2:]
            self.assertEqual(len(best), 3)
            self.assertAlmostEqual(best[0][1], model.predict(5, rest).max(), places=5)
        self.check_damage()

    def test_mf_of_ids_that_are_texts(self):
        users, items = [f"A{u:03d}" for u in range(12)], ['The "X", part 2', "007", "0345104502", "7", "Größe"]
        quoted = ['"' + item.replace('"', '""') + '"' for item in items]
        pairs = [(u, i) for u in range(len(users)) for i in range(len(items))]
        self.data.write_text("user_id,title,stars\n" +
                             "".join(f"{users[u]},{quoted[i]},{1 + (u + i) % 5}\n" for u, i in pairs))
        model = self.train("mf", iterations=5, rank=4)
        self.assertEqual(sorted(model.user_names.values()), users)
        self.assertEqual(sorted(model.item_names.values()), sorted(set(items) - {"7"}))
        self.assertIn(7, model.items)
        mine = model.predict([users[u] for u, _ in pairs], [items[i] for _, i in pairs])
        for path in (self.model, self.saved(model)):
            lines = self.program("mf", "--predict", path, "--data", self.data, "--columns", "user=1,item=2,rating=3",
                                 "--out", self.path / "out") and (self.path / "out").read_text().splitlines()
            self.assertEqual([line.split("\t")[:2] for line in lines], [[users[u], items[i]] for u, i in pairs])
            np.testing.assert_allclose(mine, [float(line.split("\t")[2]) for line in lines], atol=2e-4)
        self.assertEqual({item for item, _ in model.recommend(users[0], 5)}, set(items) - {"7"} | {7})
        self.assertEqual(len(model.recommend(users[0], 5, without=["007"])), 4)
        self.assertEqual(model.predict("nobody", "nothing"), np.float32(model.mean))
        self.check_damage()

    def test_mlr(self):
        x = self.random.normal(size=(300, 5)).astype(np.float32)
        y = np.array(["7", "8", "word"])[np.argmax(x[:, :3], axis=1)]
        self.data.write_text("".join(",".join([label] + [f"{v:.5f}" for v in row]) + "\n" for label, row in zip(y, x)))
        x = np.array([[float(f"{v:.5f}") for v in row] for row in x], np.float32)
        for scale in ("none", "max", "unit", "standard"):
            model = self.train("mlr", iterations=40, scale=scale)
            self.assertEqual((model.labels, model.scale), (["7", "8", "word"], scale))
            self.assertGreater((model.predict(x) == y).mean(), 0.7)
            for path in (self.model, self.saved(model)):
                self.program("mlr", "--predict", path, "--data", self.data, "--out", self.path / "out")
                lines = [line.split() for line in (self.path / "out").read_text().splitlines()]
                np.testing.assert_allclose(model.predict_proba(x).max(axis=1), [float(line[-1]) for line in lines],
                                           atol=2e-4)
                self.assertEqual(model.predict(x).tolist(), [line[-2] for line in lines])
        self.check_damage()

    def test_standardized_columns_of_any_size(self):
        """Offsets that floats do not hold, values far from all others, a column that is always the same."""
        for scale, offset in ((1e-6, 0), (1, 1.7e9), (3e4, -5e6)):
            x = self.random.normal(offset, scale, (200, 3))
            x[:, 2] = offset
            y = np.where(x[:, 0] > offset, "up", "down")
            x[:3, 1] += 1000 * scale
            self.data.write_text("".join(f"{label},{','.join(map(repr, row))}\n" for label, row in zip(y, x.tolist())))
            model = self.train("mlr")
            self.assertEqual((model.scale, model.factors[2]), ("standard", 0))
            self.assertGreater((model.predict(x) == y).mean(), 0.9)
            weights, biases = model.unscaled()
            np.testing.assert_allclose(x[3:] @ weights + biases, model.logits(x[3:]), atol=1e-3)
            self.assertGreater(np.abs(x[:3] @ weights + biases - model.logits(x[:3])).max(), 1e-3)  # limited
            self.check_predictions(x)

    def check_predictions(self, x):
        """The probabilities of the samples in self.data are mlr's, before and after `save`."""
        model = proteus.load(self.model)
        for path in (self.model, self.saved(model)):
            self.program("mlr", "--predict", path, "--data", self.data, "--out", self.path / "out", "--probabilities")
            lines = (self.path / "out").read_text().splitlines()[1:]
            theirs = [[float(value) for value in line.split()[-len(model.labels):]] for line in lines]
            np.testing.assert_allclose(proteus.load(path).predict_proba(x), theirs, atol=2e-4)

    @unittest.skipIf(scipy is None, "no scipy (Debian's python3-scipy)")
    def test_sparse_samples(self):
        """As libsvm's lines: zeros have values where there are centres, the number of columns need not be right."""
        for filled, scale in ((0.1, "auto"), (0.1, "none"), (0.1, "byte"), (0.1, "max"), (0.1, "unit"),
                              (0.1, "standard"), (0.6, "standard"), (0.6, "max")):
            with self.subTest(filled=filled, scale=scale):
                x = self.random.normal(2, 3, (300, 12)).round(3) * (self.random.random((300, 12)) < filled)
                x[0, 11] = 400
                y = np.where(x[:, :6].sum(axis=1) > x[:, 6:].sum(axis=1), "4", "9")
                lines = [" ".join([label] + [f"{c + 1}:{row[c]:.9g}" for c in np.flatnonzero(row)])
                         for label, row in zip(y, x)]
                self.data.write_text("\n".join(lines) + "\n")
                model = self.train("mlr", iterations=20, scale=scale)
                self.assertEqual(model.centres is not None, (filled, scale) == (0.6, "standard"))
                self.assertGreater((model.predict(x) == y).mean(), 0.7)
                more = scipy.sparse.csr_matrix(np.hstack([x, np.ones((300, 2))]))
                for sparse in (scipy.sparse.csr_matrix(x), scipy.sparse.coo_matrix(x), more):
                    self.check_predictions(sparse)
                np.testing.assert_allclose(model.logits(more), model.logits(x), rtol=1e-5, atol=1e-5)
                few = scipy.sparse.csc_matrix(x[:, :10])
                np.testing.assert_allclose(model.logits(few), model.logits(np.where(np.arange(12) < 10, x, 0)),
                                           rtol=1e-5, atol=1e-5)
                self.assertEqual(few.nnz, np.count_nonzero(x[:, :10]))  # it is as it was

    @unittest.skipIf(scipy is None, "no scipy (Debian's python3-scipy)")
    def test_indexes_far_apart(self):
        """The model has those that occur; others of a matrix are left out."""
        for first, scale in ((1, "auto"), (0, "max"), (1, "unit"), (0, "none")):
            with self.subTest(first=first, scale=scale):
                columns = np.concatenate([[0, 3], np.sort(self.random.choice(2**31 - 9, 9)), [2**31 - 1 - first]])
                columns = np.unique(columns)
                filled = self.random.random((300, columns.size)) < 0.3
                x = self.random.normal(2, 3, filled.shape).round(3) * filled
                x[0] = np.arange(columns.size) + 1
                y = np.where(x[:, :6].sum(axis=1) > x[:, 6:].sum(axis=1), "4", "9")
                lines = [" ".join([label] + [f"{columns[c] + first}:{row[c]:.9g}" for c in np.flatnonzero(row)])
                         for label, row in zip(y, x)]
                self.data.write_text("\n".join(lines) + "\n")
                model = self.train("mlr", iterations=20, scale=scale)
                self.assertEqual(model.indexes.tolist(), (columns + first).tolist())
                self.assertEqual(model.index_base, first)
                self.assertGreater((model.predict(x) == y).mean(), 0.7)
                rows, places = np.nonzero(x)
                wide = scipy.sparse.csr_matrix((x[rows, places], (rows, columns[places])), (300, 2**31 - first))
                self.check_predictions(wide)
                other = scipy.sparse.csr_matrix((np.ones(300), (np.arange(300), np.full(300, 2))), wide.shape)
                np.testing.assert_allclose(model.logits(wide + other)[:, 0] if scale != "unit" else 0,
                                           model.logits(wide)[:, 0] if scale != "unit" else 0, rtol=1e-5, atol=1e-5)
        self.check_damage()
        for indexes in ([5] * model.features, range(-1, model.features - 1), [1, 2]):
            with self.assertRaises(ValueError):
                proteus.LogisticRegressionModel(model.labels, model.weights, model.biases, indexes=indexes)

    def test_names_of_columns(self):
        x = self.random.normal(size=(60, 2)).astype(np.float32)
        y = np.where(x[:, 0] > 0, "up", "down")
        rows = [f"{a:.5f},{label},{b:.5f}\n" for (a, b), label in zip(x, y)]
        self.data.write_text("first,target,second\n" + "".join(rows))
        model = self.train("mlr", iterations=10)
        self.assertEqual((model.label_name, model.feature_names), ("target", ["first", "second"]))
        swapped = self.path / "swapped"
        swapped.write_text("second,first\n" + "".join(f"{b:.5f},{a:.5f}\n" for a, b in x))
        for path in (self.model, self.saved(model)):
            lines = self.program("mlr", "--predict", path, "--data", swapped).splitlines()
            self.assertEqual(model.predict(x).tolist(), [line.split()[0] for line in lines])
        self.check_damage()
        model = self.train("net", iterations=2, layers="dense 4")
        self.assertEqual((model.label_name, model.feature_names), ("target", ["first", "second"]))

    def test_net(self):
        x = self.random.normal(size=(200, 36)).astype(np.float32)
        y = np.where(x[:, :18].sum(axis=1) > x[:, 18:].sum(axis=1), "1", "2")
        self.data.write_text("".join(",".join([label] + [f"{v:.5f}" for v in row]) + "\n" for label, row in zip(y, x)))
        x = np.array([[float(f"{v:.5f}") for v in row] for row in x], np.float32)
        for layers, more in (("dense 8, norm, dense 5", {}), ("conv 3x3, norm, pool 2, dropout 0.1, conv 2x2, dense 4",
                                                              {"image_width": 6})):
            model = self.train("net", iterations=4, layers=layers, **more)
            self.program("net", "--predict", self.model, "--data", self.data, "--out", self.path / "out")
            lines = [line.split() for line in (self.path / "out").read_text().splitlines()]
            theirs = [float(line[-1]) for line in lines]
            np.testing.assert_allclose(model.predict_proba(x).max(axis=1), theirs, atol=2e-4)
        self.check_damage()

    def test_lda(self):
        words = [f"word{n}" for n in range(20)]
        documents = [" ".join(self.random.choice(words[10 * (d % 2):][:10], 30)) for d in range(40)]
        self.data.write_text("\n".join(documents) + "\n")
        model = self.train("lda", iterations=10, topics=3)
        self.assertEqual(sorted(model.vocabulary), sorted(words))
        np.testing.assert_allclose(model.topics.sum(axis=1), 1)
        self.assertEqual(len(model.top_words(0, 4)), 4)
        found = model.infer(documents[:4])
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=2e-3)
        again = proteus.load(self.saved(model))
        np.testing.assert_array_equal(again.infer(documents[:4]), found)
        numbered = [{model.vocabulary.index(w): d.split().count(w) for w in set(d.split())} for d in documents[:4]]
        self.assertEqual(model.infer(numbered).shape, found.shape)
        self.check_damage()

    def test_short_words(self):
        self.data.write_text("ab ab plum ab\ncd cd plum cd\n" * 20)
        model = self.train("lda", iterations=20, topics=2, minimum_length=1)
        shares = model.infer(["ab ab ab ab ab", "cd cd cd cd cd", "unknown"])
        np.testing.assert_allclose(shares.sum(axis=1), [1, 1, 0], atol=2e-3)

    def test_forged(self):
        """Headers that promise too much, with a right checksum."""
        for start in (b"AMLMFMDL" + struct.pack("<IIIfffQQ", 1, 0, 2**31, 3, 1, 5, 2**60, 2**60),
                      b"AMLMFMDL" + struct.pack("<IIIfffQQ", 1, 0, 4, float("nan"), 5, 1, 0, 0),
                      b"AMLMLMDL" + struct.pack("<5I", 1, 0, 1, 2**32 - 1, 2) + bytes(200),
                      b"AMLMLMDL" + struct.pack("<5I", 1, 0, 1, 4, 2) + b"1".ljust(56, b"\0") + b"2".ljust(56, b"\0"),
                      self.standard(features=2**26), self.standard(features=0),
                      self.standard(flags=2), self.standard(factor=float("nan")), self.standard(centre=float("inf")),
                      self.standard(kind=3), self.standard(version=1),
                      b"AMLLDAMD" + struct.pack("<4Idd", 1, 0, 2**32 - 1, 2**32 - 1, 1, 1) + bytes(24),
                      b"AMLNNMDL" + struct.pack("<11I", 1, 0, 1, 1, 1, 1, 1, 1, 2, 4, 0) + b"conv" + bytes(112)):
            self.model.write_bytes(start + struct.pack("<I", zlib.crc32(start)))
            with self.assertRaises(proteus.ModelError):
                proteus.load(self.model)
        start = self.standard()
        self.model.write_bytes(start + struct.pack("<I", zlib.crc32(start)))
        np.testing.assert_allclose(proteus.load(self.model).logits([[5], [7], [99]]), [[1, 0], [4, 0], [13, 0]])

    @staticmethod
    def standard(version=4, kind=4, features=1, flags=1, factor=0.5, centre=3):
        """A model of one feature, whose weights are 3 and 0 and biases -2 and 0, without its checksum."""
        labels = b"1".ljust(56, b"\0") + b"2".ljust(56, b"\0")
        return (b"AMLMLMDL" + struct.pack("<5I", version, kind, 1, features, 2) + labels +
                struct.pack("<Idd", flags, factor, centre) + struct.pack("<IffIff", 0, 3, 0, 1, -2, 0))

    def test_refused(self):
        self.model.write_text("nothing of the kind")
        with self.assertRaisesRegex(proteus.ModelError, "no model of mf, mlr, net, lda or gnn"):
            proteus.load(self.model)
        with self.assertRaises(FileNotFoundError):
            proteus.load(self.path / "missing")
        for keys in ([1.5], [-1], [np.nan], [1, 2.5]):
            with self.assertRaises((TypeError, ValueError)):
                proteus.MatrixFactorizationModel(keys, np.ones((len(keys), 3)), [1], np.ones((1, 3)), 0, 0, 1)
        far = proteus.MatrixFactorizationModel([2**63 + 1, 1], [[1], [2]], [5], [[3]], 0, 0, 9)
        self.assertEqual(far.predict([2**63 + 1, 1], 5).tolist(), [3, 6])
        with self.assertRaises(TypeError):
            far.predict([1.9], [5])
        for counts, words in (([[0.9]], None), ([[2**32 + 1]], None), ([[1]], ["a b"]), ([[1]], ["a\n"])):
            with self.assertRaises((OverflowError, TypeError, ValueError)):
                proteus.TopicModel(counts, 0.1, 0.1, words)
        link = self.path / "link"
        link.symlink_to(self.path / "target")
        far.save(link)
        self.assertTrue(link.is_symlink() and proteus.load(self.path / "target").rank == 1)
        with self.assertRaisesRegex(ValueError, "expected each key once"):
            proteus.MatrixFactorizationModel([1, 1], np.ones((2, 3)), [1], np.ones((1, 3)), 0, 0, 1)


if __name__ == "__main__":
    unittest.main()
