#!/usr/bin/env python3
"""Transforms, feeders, slices, lots and optimizers of an app's own in Python, in real jobs: the same results on any
nodes, and mistakes, which end in one clear error. Finds the programs by $PROTEUS_BIN and the package by $PYTHONPATH."""
import faulthandler
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import proteus

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
PROTEUS = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve() / "proteus"
APP = HERE / "python_transform_app.py"
ITEMS, WEIGHTS, COLUMNS, KEYS, ITERATIONS = 300, 8, 20, 5000, 3  # as in the app

MISTAKES = {  # what the job's error line must have
    "transform-shape": "ValueError: what transform decode returned: shape (3,): expected (2,)",
    "transform-scalar": "ValueError: what transform decode returned: shape (): expected (2,)",
    "transform-one": "ValueError: what transform decode returned: shape (1,): expected (2,)",
    "transform-dtype": "TypeError: what transform decode returned: dtype complex128: expected int64",
    "transform-nothing": "TypeError: transform decode has returned nothing: expected an array of int64 (2,)",
    "transform-keep": "transform decode has kept an array of the item of transform decode after its return",
    "transform-write": "ValueError: assignment destination is read-only, at python_transform_app.py:",
    "transform-raise": "KeyError: 'x', at python_transform_app.py:",
    "transform-table": "in transform decode: expected in begin, clock, evaluate, finish, a transform with state, at",
    "transform-clock": "RuntimeError: called in transform decode: expected in begin, clock, evaluate, finish, at",
    "transform-update": "RuntimeError: called in transform weigh: expected in clock, at python_transform_app.py:",
    "transform-rows": "RuntimeError: called in transform weigh: expected in begin, clock, evaluate, finish, at",
    "transform-item": "TypeError: transform shift: item int64 (3,): expected int64 (2,) as it gets, since it is left",
    "optimizer-type": "expected a proteus.Momentum, AdaGrad, Adam, FTRL or Optimizer",
    "apply-raise": "error: table stepped: apply_rows: KeyError: 'x', at python_transform_app.py:",
    "apply-assign": "AttributeError: steps.rows is set to another object, which nothing would read",
    "apply-stderr": "error: table stepped: apply_rows: KeyError: 'x', at python_transform_app.py:",
    "clock-stderr": "KeyError: 'x', at python_transform_app.py:",
    "apply-shape": "ValueError: operands could not be broadcast together",
    "apply-keep": "RuntimeError: the optimizer of table stepped has kept an array of the states of table stepped",
    "apply-return": "TypeError: the optimizer of table stepped has returned something: expected it to change",
    "element-column": "IndexError: table sums: columns 20 to 20: expected 0 to 19, at python_transform_app.py:",
    "element-shape": "ValueError: table sums: columns of shape (1,): expected (2,), as the slots have",
    "element-dtype": "TypeError: deltas for table sums: dtype float64: expected int64",
    "element-add": "TypeError: table sums has changes_given: expected add_elements, not add",
    "bits": "RuntimeError: worker.bits: called in clock: expected in a transform",
    "slice": "TypeError: items[3]: expected a slice; item 3 is items.data[3]",
}


class Base(proteus.App):
    @proteus.transform()
    def half(self, worker, item):
        return item / 2


class Other(Base):
    def half(self, worker, item):
        return item


class Without(Base):
    half = None


class Transforms(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="python-transform-test-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def job(self, *app, run=()):
        command = [PROTEUS, "run", "--quiet", "--failure-timeout=60", *run, "--", sys.executable, APP, *app]
        return subprocess.run(command, capture_output=True, text=True, timeout=200)

    def tables(self, *app, run=()):
        out = self.path / "out.npz"
        job = self.job("--out", out, *app, run=run)
        self.assertEqual((job.returncode, job.stderr), (0, ""))
        return np.load(out)

    def check(self, tables):
        """All but the random sums are what the training items make of them."""
        numbers = np.arange(ITEMS)[np.arange(ITEMS) % 10 != 9]
        counts = np.bincount(numbers % WEIGHTS, minlength=WEIGHTS)
        np.testing.assert_array_equal(tables["counts"][0], ITERATIONS * counts)
        np.testing.assert_array_equal(tables["sums"][0], ITERATIONS * np.bincount(numbers % COLUMNS, minlength=COLUMNS))
        keys = np.flatnonzero(np.isin(np.arange(KEYS) % ITEMS, numbers))
        np.testing.assert_array_equal(tables["stepped_keys"], keys)
        np.testing.assert_array_equal(tables["stepped"], (1 + 2 + 3) * keys[:, None] * np.array([0, 1, 2]))

    def test_the_same_on_any_nodes(self):
        plain = self.tables()
        self.check(plain)
        # Each item has `shift`'s 1000, and 0 to 10 of its random numbers, which differ from iteration to iteration.
        seen = plain["sums"][0] > 0
        mean = plain["sums"][1][seen] / plain["sums"][0][seen] - 1000
        self.assertTrue(((mean > 3) & (mean < 7)).all(), mean)
        # `weigh` finds what the clocks before have counted: in the second iteration once, in the third twice.
        numbers = np.arange(ITEMS)[np.arange(ITEMS) % 10 != 9]
        counts = np.bincount(numbers % WEIGHTS, minlength=WEIGHTS)
        self.assertEqual(plain["sums"][2].sum(), ((1 * 2 + 2 * 3) * counts[numbers % WEIGHTS]).sum())
        for run in (["--reliable=2", "--transient=1"], ["--feeders=2"], ["--reliable=2", "--threads=2"]):
            other = self.tables(run=run)
            for name in "sums", "counts", "stepped":
                np.testing.assert_array_equal(plain[name], other[name], f"{run} {name}")

    def test_slices_and_lots(self):
        self.check(self.tables("--slice=7", run=["--reliable=2"]))
        self.check(self.tables("--for-lots", "--lots=4", run=["--reliable=2"]))

    def test_checked(self):
        """The library's own checks (PROTEUS_CHECK) find nothing."""
        os.environ["PROTEUS_CHECK"] = "1"
        self.addCleanup(os.environ.pop, "PROTEUS_CHECK")
        self.check(self.tables())

    def test_killed(self):
        """An optimizer's rows and states are as if each sum had been applied once."""
        (self.path / "events").write_text("iteration 1 kill node-3\n")
        self.check(self.tables(run=["--transient=2", "--events", self.path / "events"]))

    def test_mistakes(self):
        with ThreadPoolExecutor(3) as pool:
            jobs = dict(zip(MISTAKES, pool.map(lambda mistake: self.job("--mistake", mistake), MISTAKES)))
        for mistake, job in jobs.items():
            with self.subTest(mistake):
                self.assertEqual(job.returncode, 2, job.stderr)
                self.assertIn(MISTAKES[mistake], job.stderr.splitlines()[-1])

    def test_declared(self):
        with self.assertRaisesRegex(TypeError, "expected a function of the steps"):
            proteus.Optimizer(3)
        with self.assertRaisesRegex(ValueError, "optimizer: state -1: expected a whole number from 0 on"):
            proteus.Optimizer(len, state=-1)
        with self.assertRaisesRegex(TypeError, r"expected parentheses, as @proteus.transform\(\)"):
            proteus.transform(len)
        with self.assertRaisesRegex(TypeError, r"Other.half: expected a method with @proteus.transform\(\), as in"):
            Other()
        self.assertEqual(list(Without()._transforms), [])
        self.assertEqual(list(Base()._transforms), ["half"])
        self.assertIs(proteus.stage, proteus.transform)  # an earlier name
        for text in (proteus.transform.__doc__, proteus.Optimizer.__doc__, proteus.Steps.__doc__):
            self.assertIn("[n", text)

    def test_varied_items(self):
        """Items that differ in size, made one of one size: of a class in a file, and of one in none, as in a
        notebook."""
        text = """import numpy as np, proteus
def twice(steps):
    steps.rows += 2 * steps.sums
class Words(proteus.App):
    item = np.uint8
    varied = True
    out = proteus.Option(required=True)
    lengths = proteus.Table(np.int64, width=1, rows=12, whole=True, optimizer=proteus.Optimizer(twice))
    def read(self, worker):
        for number in range(12):
            worker.emit_varied(number, {}, b"x" * number)
    @proteus.transform(np.int64)
    def length(self, worker, item):
        assert bytes(item) == b"x" * len(item)
        return len(item)
    @proteus.transform()
    def more(self, worker, item):
        return item + 10
    def clock(self, worker, items):
        worker.table("lengths").update(items.data - 10, items.data[:, None])
    def finish(self, worker):
        np.save(self.out, worker.scan("lengths")[1])
"""
        (self.path / "words.py").write_text(text + "if __name__ == '__main__': proteus.main(Words)\n")
        apps = [self.path / "words.py"]
        try:
            import cloudpickle  # noqa: F401

            names = {"__name__": "__main__"}
            exec(text, names)
            apps.append(names["Words"])
        except ImportError:  # Debian's python3-cloudpickle
            pass
        for app in apps:
            report = proteus.run(app, reliable=2, iterations=2, out=self.path / "lengths.npy", progress=False)
            self.assertTrue(report.summary["ok"])
            np.testing.assert_array_equal(np.load(self.path / "lengths.npy")[:, 0], 4 * (10 + np.arange(12)))

    def test_files_and_groups(self):
        """Files are dealt out whole; lines of one document come together."""
        for number in range(5):
            np.save(self.path / f"part-{number}.npy", np.arange(10.0) + 10 * number)
        (self.path / "words").write_text("".join(f"{line // 3} {line}\n" for line in range(3000)))
        app = self.path / "app.py"
        app.write_text("""import numpy as np, proteus
class Reader(proteus.App):
    item, iterations, read_only_emits = np.float64, 1, True
    parts, words = proteus.Option(required=True), proteus.Option(required=True)
    total = proteus.Metric('sum')
    def read(self, worker):
        worker.read_files(self.parts, lambda worker, file: worker.emit(np.load(file)))
        worker.read_groups(self.words, self.document)
    def document(self, worker, lines):
        pairs = np.array([line.split() for line in lines.text.split(b'\\n')[:-1]], int)
        assert all((pairs[:, 0] == k).sum() in (0, 3) for k in set(pairs[:, 0])), pairs
        worker.emit(np.full(len(pairs), 1000.0))
    def clock(self, worker, items): worker.metric('total', items.data.sum())
if __name__ == '__main__': proteus.main(Reader)
""")
        for nodes in 1, 3:
            report = proteus.run(app, reliable=nodes, parts=self.path / "part-*.npy", words=self.path / "words",
                                 progress=False)
            self.assertEqual(report.iterations[0]["total"], 49 * 50 / 2 + 3000 * 1000)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(280, exit=True)  # where it hangs, if it does, before the test's time is over
    unittest.main()
