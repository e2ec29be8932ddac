#!/usr/bin/env python3
"""Apps in Python, in real jobs: right results, on one node and on several that are killed and stopped; mistakes, which
end in one clear error; proteus.run. Finds the programs by $PROTEUS_BIN and the package by $PYTHONPATH."""
import faulthandler
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from unittest import mock

import numpy as np
import proteus

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROTEUS = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve() / "proteus"
APP = HERE / "python_app.py"
ITEMS = 100  # as in python_app.py

MISTAKES = {  # what the job's error line must have
    "emit-shape": "ValueError: data of items: shape (10, 4): expected (10, 3)",
    "emit-dtype": "TypeError: data of items: dtype complex128: expected float64",
    "emit-keys": "TypeError: emit: keys: expected 0 for each item",
    "table-in-read": "called in read: expected in begin, clock, evaluate, finish, a transform with state, at",
    "keep": "RuntimeError: clock has kept an array of the rows of table whole after its return",
    "keep-slice": "RuntimeError: clock has kept an array of the items of clock after its return",
    "late-worker": "RuntimeError: a worker is used after clock has returned, at python_app.py:",
    "late-rows": "RuntimeError: a worker is used after clock has returned, at python_app.py:",
    "write": "ValueError: assignment destination is read-only, at python_app.py:",
    "write-items": "output array is read-only, at python_app.py:",
    "overflow": "OverflowError: deltas for table sparse: 9223372036854775808: expected -9223372036854775808 to",
    "slot": "IndexError: table whole: slots 10 to 10: expected 0 to 9, at python_app.py:",
    "negative-slot": "IndexError: table whole: slots -1 to -1: expected 0 to 9, at python_app.py:",
    "shape": "ValueError: deltas for table whole: shape (2, 3): expected (2, 4), at python_app.py:",
    "dtype": "TypeError: deltas for table sparse: dtype float64: expected int64, at python_app.py:",
    "key-dtype": "TypeError: keys of dtype float64: expected whole numbers, at python_app.py:",
    "negative-key": "ValueError: key -1: expected 0 or more, at python_app.py:",
    "key": "aml_read_params: table whole: row 10, expected 0 to 9",
    "table": "no table 'nothing': the app has whole, large, sparse, adam, started",
    "metric": "no metric 'nothing': the app has loss",
    "exit": "SystemExit: 3, at python_app.py:",
    "raise": "KeyError: 'x', at python_app.py:",
    "input": "the file x: expected y",
    "put": "TypeError: table whole adds updates: expected mode='put', or add, at python_app.py:",
    "change-optimizer": "TypeError: table adam has an optimizer",
    "scan": "RuntimeError: called in clock: expected in finish, at python_app.py:",
    "done-sparse": "aml_rows_done: table sparse: expected a table that is whole, with AML_ADD",
    "done-negative": "ValueError: table whole: 1 rows from -1 on: expected numbers from 0 on, at python_app.py:",
    "done-change": "clock: table large: row 7 was updated in clock 1 after aml_rows_done had declared it done",
}


STRATEGY_APP = """import proteus, numpy as np
class Stepped(proteus.App):
    name, item, strategies, clocks_per_iteration = "stepped", (np.float64, 1), True, 4
    row = proteus.Table(np.float64, width=1, rows=1, whole=True)
    loss = proteus.Metric("mean")
    def read(self, worker):
        yield np.ones((40, 1))
    def clock(self, worker, items):
        if worker.strategy != "{0}":
            raise AssertionError("strategy " + worker.strategy)
        worker.table("row").add([0], np.ones((1, 1)))
        worker.metric("loss", 1)
proteus.main(Stepped)
"""


# Each vertex of a ring takes its neighbour's mark in phase 0 and puts it into its own row in phase 1: marks move on by
# one vertex an iteration.
PHASES_APP = """import proteus, numpy as np
class Ring(proteus.App):
    name, item, phases, iterations = "ring", np.int64, 2, 5
    kept = proteus.Table(np.int64, width=1, rows=8, whole=True)
    marks = proteus.Table(np.int64, width=1, rows=8, whole=True, start=lambda key: [key])
    def read(self, worker):
        yield np.arange(8)
    def clock(self, worker, items):
        if worker.phase != (worker.clock - 1) % 2 or worker.clocks_per_iteration != 2:
            raise AssertionError(f"phase {worker.phase} of clock {worker.clock}")
        kept, marks = worker.table("kept"), worker.table("marks")
        numbers = np.array(items.data).ravel()
        if worker.phase == 0:
            kept.add(numbers, marks.read((numbers + 1) % 8) - kept.read(numbers))
        else:
            marks.add(numbers, kept.read(numbers) - marks.read(numbers))
    def finish(self, worker):
        keys, rows = worker.scan("marks")
        if not (np.array(rows).ravel() == (np.array(keys) + 5) % 8).all():
            raise AssertionError(f"{keys} {rows}")
proteus.main(Ring)
"""


class Python(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="python-test-")
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def job(self, *app, nodes=("--reliable", "2"), more=()):
        return subprocess.run([PROTEUS, "run", "--quiet", *nodes, *more, "--", sys.executable, APP, *app],
                              capture_output=True, text=True, timeout=200)

    def check_tables(self, path, clocks):
        """All tables are what `clocks` clocks of all items make of them, each once."""
        tables = np.load(path)
        n = ITEMS * clocks
        whole = np.full((10, 4), float(n))
        whole[2] *= 3
        whole[1, 0] *= 2
        np.testing.assert_array_equal(tables["whole"], whole)
        np.testing.assert_array_equal(tables["large"], np.full((64, 512), n))
        np.testing.assert_array_equal(tables["sparse_keys"], np.array([1, 2**63 + 5], np.uint64))
        np.testing.assert_array_equal(tables["sparse"], n * np.array([[6, 8], [3, 4]]))
        adam = np.ones((5, 3))
        adam[1] += 0.1 * clocks
        adam[2] -= 0.1 * clocks
        np.testing.assert_allclose(tables["adam"], adam, rtol=1e-4, atol=1e-5)  # rows may be near 0
        keys = np.arange(8, 8 + clocks)
        np.testing.assert_array_equal(tables["started_keys"], keys)
        np.testing.assert_array_equal(tables["started"], np.stack([keys, np.full(clocks, 2 + ITEMS)], axis=1))

    def test_tables(self):
        for nodes, options in ((1, ()), (3, ()), (3, ("--flush-early",))):
            out = self.path / f"{nodes}{len(options)}.npz"
            job = self.job("--out", out, *options, nodes=("--reliable", str(nodes), "--partitions", "2"))
            self.assertEqual((job.returncode, job.stderr), (0, ""))
            self.check_tables(out, 3)

    @staticmethod
    def transient_children(parent):
        """The process ids of transient nodes that `parent` has started."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) == parent
                        and b"--tier=transient" in (folder / "cmdline").read_bytes()):
                    found.append(int(folder.name))
            except (OSError, ValueError):
                pass  # it has ended
        return found

    def test_killed_and_stopped(self):
        """A node is killed, another one is stopped until it has failed: it executes itself anew, with its
        interpreter."""
        out = self.path / "out.npz"
        report = self.path / "report"
        command = [PROTEUS, "run", "--reliable=1", "--transient=3", "--failure-timeout=2", "--report", report,
                   "--progress=none", "--", sys.executable, APP, "--out", out, "--iterations=60", "--pause=0.05"]
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

        def until(text):
            while job.poll() is None and not (report.exists() and text in report.read_text()):
                time.sleep(0.02)
            self.assertIsNone(job.poll(), f"{report.read_text()} ended before {text}")

        until('"iteration":3,')
        nodes = self.transient_children(job.pid)
        os.kill(nodes[0], signal.SIGKILL)
        until('"event":"failure"')
        os.kill(nodes[1], signal.SIGSTOP)
        until("no heartbeat")
        os.kill(nodes[1], signal.SIGCONT)
        _, errors = job.communicate(timeout=200)
        self.assertEqual(job.returncode, 0, errors)
        self.assertIn("starting anew as a new node", errors)
        self.check_tables(out, 60)

    def mistaken_job(self, mistake):
        early = mistake == "done-change"
        return self.job("--mistake", mistake, *(["--flush-early"] if early else []),
                        nodes=("--reliable", "2" if mistake == "raise" or early else "1", "--partitions", "2"))

    def test_mistakes(self):
        with ThreadPoolExecutor(3) as pool:
            jobs = dict(zip(MISTAKES, pool.map(self.mistaken_job, MISTAKES)))
        for mistake, job in jobs.items():
            with self.subTest(mistake):
                self.assertEqual(job.returncode, 2, job.stderr)
                self.assertIn(MISTAKES[mistake], job.stderr.splitlines()[-1])
                # A traceback, once for all nodes; of a node that fails when the first one has ended, once more.
                said = [0] if mistake in ("input", "key", "done-sparse", "done-change") else [1, 2]
                self.assertIn(job.stderr.count("Traceback"), said, job.stderr)

    def test_options(self):
        job = self.job("--size", "huge")
        self.assertEqual((job.returncode, job.stderr),
                         (2, "mistaken: error: --size huge: expected one of small, large\n"))
        text = subprocess.run([sys.executable, APP, "--help"], capture_output=True, text=True).stdout
        self.assertIn("mistaken - does what a test asks for", text)
        self.assertIn("--pause X", text)

    def test_strategies(self):
        """worker.strategy names each strategy as --strategy does."""
        for strategy in "ssgd", "sma", "adpsgd":
            app = self.path / f"{strategy}.py"
            app.write_text(STRATEGY_APP.format(strategy))
            job = subprocess.run([PROTEUS, "run", "--quiet", "--reliable=2", "--", sys.executable, app, "--strategy",
                                  strategy], capture_output=True, text=True, timeout=200)
            self.assertEqual((job.returncode, job.stderr), (0, ""))

    def test_phases(self):
        app = self.path / "ring.py"
        app.write_text(PHASES_APP)
        job = [PROTEUS, "run", "--quiet", "--reliable=2", "--", sys.executable, app]
        done = subprocess.run(job, capture_output=True, text=True, timeout=200)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        refused = subprocess.run([*job, "--clocks-per-iteration=1"], capture_output=True, text=True, timeout=200)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--clocks-per-iteration 1: expected a multiple of 2, as ring works on each part in 2 phases",
                      refused.stderr)

    def test_a_table_that_is_too_large_to_send(self):
        app = self.path / "large.py"
        app.write_text(STRATEGY_APP.format("adpsgd").replace("rows=1,", "rows=1 << 28,"))
        job = subprocess.run([PROTEUS, "run", "--quiet", "--reliable=1", "--", sys.executable, app, "--strategy",
                              "adpsgd"], capture_output=True, text=True, timeout=200)
        self.assertEqual(job.returncode, 2)
        self.assertIn("--strategy adpsgd: table row has 2147483648 bytes: expected at most 1073741824", job.stderr)

    def test_example(self):
        """The example's centers are the same on any number of nodes."""
        points = np.concatenate([np.random.default_rng(k).normal([3 * k, 5 - k], 0.3, (50, 2)) for k in range(4)])
        np.savetxt(self.path / "points", points)
        found = []
        for nodes in (1, 3):
            out = self.path / f"centers-{nodes}"
            report = proteus.run(ROOT / "examples" / "python" / "kmeans.py", reliable=nodes, data=self.path / "points",
                                 centers=4, out=out)
            self.assertTrue(report.summary["ok"])
            found.append(np.loadtxt(out))
        np.testing.assert_allclose(found[0], found[1], rtol=1e-6)

    def test_start_values(self):
        """A start function that fails ends the job: its rows must not be zeros without a word."""
        app = self.path / "app.py"
        for start in ("[1, 2, 3]", "{}[key]", "[2**40, 0]"):
            app.write_text("import numpy as np, proteus\nclass A(proteus.App):\n    item = np.float32\n"
                           f"    w = proteus.Table(np.int32, width=2, start=lambda key: {start})\n"
                           "    def read(self, worker): yield np.zeros(9)\n"
                           "    def clock(self, worker, items): worker.table('w').update([1], [[1, 1]])\n"
                           "if __name__ == '__main__': proteus.main(A)\n")
            job = subprocess.run([PROTEUS, "run", "--quiet", "--", sys.executable, app], capture_output=True, text=True,
                                 timeout=200)
            self.assertNotEqual(job.returncode, 0, job.stderr)
            self.assertIn("in <lambda>" if "{}" in start else "start of table w, key 1", job.stderr)

    def test_lines(self):
        """Each line of a file is read once in the job, by whichever node, and a bad one is named."""
        app, data = self.path / "app.py", self.path / "lines"
        app.write_text("import numpy as np, proteus\nclass A(proteus.App):\n    item = np.float64\n"
                       "    data = proteus.Option(required=True)\n    sums = proteus.Table(np.float64, width=1)\n"
                       "    total = proteus.Metric('sum')\n    read_only_emits = True\n    iterations = 1\n"
                       "    def read(self, worker): worker.read_lines(self.data, self.some)\n"
                       "    def some(self, worker, lines):\n        at = 0\n"
                       "        for line in lines.text.splitlines(keepends=True):\n"
                       "            if not line.strip().isdigit():\n"
                       "                raise proteus.InputError(f'line {lines.number(at)}: expected a number')\n"
                       "            worker.emit(np.array([float(line)]))\n            at += len(line)\n"
                       "    def clock(self, worker, items): worker.metric('total', items.data.sum())\n"
                       "if __name__ == '__main__': proteus.main(A)\n")
        data.write_text("".join(f"{number}\n" for number in range(1, 1001)))
        report = proteus.run([app], reliable=2, data=data)
        self.assertEqual(report.iterations[-1]["total"], 500500)
        data.write_text("1\n2\nthree\n")
        with self.assertRaisesRegex(proteus.JobError, "line 3: expected a number"):
            proteus.run([app], reliable=1, data=data)

    def test_a_node_starts_no_job(self):
        script = self.path / "script.py"
        script.write_text("import proteus\nfrom python_app import Mistaken\nclass Mine(Mistaken): pass\n"
                          "proteus.run(Mine)\n")
        environment = {**os.environ, "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{HERE}"}
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment,
                              timeout=200)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a node of a job starts another job", done.stderr)

    def test_tutorial(self):
        """The code of docs/python.md, in its order, on made-up ratings."""
        random = np.random.default_rng(5)
        with open(self.path / "ratings.csv", "w") as file:
            file.writelines(f"{user},50,{1 + user % 5}\n" for user in range(1000))  # a movie that many have rated
            for user, movie in {(int(u), int(m)) for u, m in random.integers(1, 40, (700, 2))}:
                file.write(f"{user},{movie},{1 + (user + movie) % 5}\n")
        text = (ROOT / "docs" / "python.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```", text, re.S)
        self.assertEqual(len(blocks), 3)
        environment = {**os.environ, "PROTEUS_BIN": str(PROTEUS.parent)}
        for number, block in enumerate(blocks):
            named = re.match(r"# file: (\S+)\n", block)
            path = self.path / (named[1] if named else f"block{number}.py")
            path.write_text(block)
            if named is None:
                done = subprocess.run([sys.executable, path], cwd=self.path, env=environment, capture_output=True,
                                      text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 11)
        self.assertLess(float(lines[9].split()[1]), 1.5)  # the RMSE of means is 1.41

    def test_run(self):
        sys.path.insert(0, str(HERE))
        import python_app

        types = [line["type"] for line in proteus.start(python_app.Mistaken, iterations=4)]
        self.assertEqual(types.count("iteration"), 4)
        self.assertEqual(types[-1], "summary")
        report = proteus.run(python_app.Mistaken, transient=1, iterations=2, out=self.path / "run.npz")
        self.assertEqual(report.iterations[-1]["loss"], 3 * (3 * ITEMS - 1) / 2)
        self.check_tables(self.path / "run.npz", 2)
        self.assertEqual(report.notes, ["read: 100 %s of \u00e4", "finish: small "])
        with self.assertRaisesRegex(proteus.JobError, "the file x: expected y") as failed:
            proteus.run(python_app.Mistaken, mistake="input")
        self.assertEqual(failed.exception.status, 2)
        with self.assertRaisesRegex(FileNotFoundError, "no-such-app"):
            proteus.run("no-such-app")

    def test_stop(self):
        """A job that is stopped saves its model; one that is left is ended."""
        out = self.path / "stopped.npz"
        job = proteus.start([APP], iterations=1000000, out=out)
        for line in job:
            if line["type"] == "iteration" and line["iteration"] >= 2 and not job.report.summary:
                job.stop()
        self.assertTrue(job.report.summary["ok"])
        self.check_tables(out, job.report.summary["clocks"])
        with mock.patch("proteus._job.subprocess.run") as asks:  # it has been asked to, and need not be there any more
            job.stop()
        asks.assert_not_called()
        with proteus.start([APP], iterations=1000000) as job:
            next(iter(job))
        self.assertIsNotNone(job._process.returncode)
        job = proteus.start([APP], iterations=1000000)
        process = job._process
        next(iter(job))
        del job
        self.assertIsNotNone(process.returncode)
        job = proteus.start([APP])
        self.assertEqual(len([line for line in job if line["type"] == "iteration"]), 3)
        self.assertEqual(len(job.wait().iterations), 3)

    def test_interrupted(self):
        """Ctrl-C ends a job well, and then the script."""
        out = self.path / "out.npz"
        script = f"import proteus; proteus.run([{str(APP)!r}], iterations=1000000, out={str(out)!r}, progress=True)"
        done = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True,
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # ours may ignore it
        shown = ""
        while "[" not in shown and (more := done.stderr.read(1)):  # the app's notes come before the bar
            shown += more
        self.assertIn("[", shown)
        done.send_signal(signal.SIGINT)
        errors = done.communicate(timeout=200)[1]
        self.assertIn("KeyboardInterrupt", errors)
        self.assertTrue(out.exists(), errors)

    def test_progress(self):
        shown = io.StringIO()
        with redirect_stderr(shown):
            proteus.run([APP], progress=True)
        self.assertIn("] 3/3", shown.getvalue())


if __name__ == "__main__":
    faulthandler.dump_traceback_later(280, exit=True)  # where it hangs, if it does, before the test's time is over
    unittest.main()
