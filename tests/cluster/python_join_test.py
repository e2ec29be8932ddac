#!/usr/bin/env python3
"""proteus.run and the estimators with a controller's address: nodes of this machine in another one's job. Finds the
programs by $PROTEUS_BIN and the package by $PYTHONPATH."""
import contextlib
import faulthandler
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import numpy as np
import proteus

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
PROTEUS = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve() / "proteus"
APP = HERE / "python_app.py"


class Join(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="python-join-test-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.report = self.path / "report"

    def controller(self, *options):
        """Starts a controller, and returns it with its address."""
        self.report.unlink(missing_ok=True)
        process = subprocess.Popen([PROTEUS, "controller", "--listen=tcp://127.0.0.1:0", "--report", self.report,
                                    "--start-timeout=100", *options], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process, process.stdout.readline().split()[2]

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def node(self, address, *app):
        """A node of another machine, say."""
        process = subprocess.Popen([sys.executable, APP, *app, f"--controller={address}", "--tier=reliable"],
                                   stdout=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        return process

    def until(self, text):
        while not (self.report.exists() and text in self.report.read_text()):
            time.sleep(0.02)

    def test_job(self):
        controller, address = self.controller("--reliable=1", "--transient=2")
        out = self.path / "out.npz"
        report = proteus.run(APP, transient=2, controller=address.removeprefix("tcp://"), out=out, iterations=4,
                             progress=False)
        self.assertEqual(controller.wait(), 0)
        self.assertEqual(len(report.iterations), 4)
        self.assertEqual(len(report.lines), len(self.report.read_text().splitlines()))
        np.testing.assert_array_equal(np.load(out)["whole"][0], 4 * 100)

    def test_errors(self):
        controller, address = self.controller("--reliable=1")
        node = self.node(address, "--iterations=1000000", "--pause=0.01")
        self.until('"event":"start"')
        for app, options, expected in ((HERE / "python_stage_app.py", {}, "this is a job of mistaken, not of staged"),
                                       (APP, {"iterations": 7}, "other options than node-1 .*--iterations 7"),
                                       (APP, {"size": "huge"}, "--size huge: expected one of small, large")):
            with self.assertRaisesRegex(proteus.JobError, expected) as failed, \
                    contextlib.redirect_stderr(io.StringIO()):
                proteus.run(app, reliable=0, transient=1, controller=address, progress=False, **options)
            self.assertEqual(failed.exception.status, 2)
        job = proteus.start(APP, reliable=0, transient=1, controller=address, iterations=1000000, pause=0.01)
        for line in job:
            if line.get("event") == "take-part":
                job.stop()
        self.assertTrue(job.report.summary["ok"])
        self.assertEqual((node.wait(), controller.wait()), (0, 0))
        with self.assertRaisesRegex(proteus.JobError, "has not answered for"), \
                contextlib.redirect_stderr(io.StringIO()):
            proteus.run(APP, controller=address, connect_timeout=1, progress=False)
        with self.assertRaisesRegex(ValueError, "reliable=0, transient=0: expected nodes"):
            proteus.run(APP, reliable=0, controller=address)
        with self.assertRaisesRegex(ValueError, "run_options: count: proteus.run sets it by itself"):
            proteus.run(APP, controller=address, run_options={"count": 3})

    def test_interrupted(self):
        """Ctrl-C has our nodes leave; the job goes on."""
        controller, address = self.controller("--reliable=1")
        node = self.node(address, "--iterations=1000000", "--pause=0.01")
        script = (f"import proteus; proteus.run({str(APP)!r}, reliable=0, transient=1, controller={address!r}, "
                  "iterations=1000000, pause=0.01)")
        joined = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True,
                                  preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # ours may ignore it
        self.addCleanup(self.end, joined)
        self.until('"event":"take-part"')
        joined.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", joined.communicate(timeout=100)[1])
        self.until('"event":"evicted"')
        self.assertIsNone(node.poll())
        subprocess.run([PROTEUS, "stop", f"--controller={address}"], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual((node.wait(), controller.wait()), (0, 0))

    def test_keys(self):
        """A node's token is enough to join, but not for the report."""
        key, token = self.path / "job.key", self.path / "node.token"
        subprocess.run([PROTEUS, "keygen", key], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([PROTEUS, "keygen", "--role=node", f"--key={key}", token], check=True, stdout=subprocess.DEVNULL)
        for file, lines in ((key, 2), (token, 0)):
            controller, address = self.controller("--reliable=1", f"--key={key}")
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                report = proteus.run(APP, controller=address, iterations=2, run_options={"key": file}, progress=False)
            self.assertEqual(controller.wait(), 0)
            self.assertEqual(len(report.iterations), lines)
            self.assertEqual("warning: the job's report can't be read: " in said.getvalue(), lines == 0)

    def test_estimators(self):
        try:
            from proteus.sklearn import LogisticRegression, MatrixFactorization
        except ImportError:
            self.skipTest("no scikit-learn (Debian's python3-sklearn)")
        random = np.random.default_rng(3)
        y = random.integers(0, 3, 300)
        X = random.normal(size=(300, 4)) + 3 * np.eye(3, 4)[y]
        here = LogisticRegression(max_iter=10).fit(X, y)
        for folder in (None, self.path):
            controller, address = self.controller("--reliable=1", "--transient=1")
            there = LogisticRegression(max_iter=10, transient=1, controller=address, folder=folder).fit(X, y)
            self.assertEqual(controller.wait(), 0)
            self.assertGreater((there.predict(X) == here.predict(X)).mean(), 0.98)
            self.assertEqual((there.n_iter_, len(there.report_.iterations)), (10, 10))
        self.assertTrue((self.path / "model").exists())
        with self.assertRaisesRegex(ValueError, "folder=.*: expected controller= with it"):
            LogisticRegression(folder=self.path).fit(X, y)
        controller, address = self.controller("--reliable=1")
        node = self.node(address, "--iterations=1000000", "--pause=0.01")
        self.until('"event":"start"')
        with self.assertRaisesRegex(proteus.JobError, "this is a job of mistaken, not of mf"), \
                contextlib.redirect_stderr(io.StringIO()):
            MatrixFactorization(reliable=0, transient=1, controller=address).fit([[1, 2], [3, 4]], [1, 2])
        node.kill()
        with mock.patch("proteus.sklearn.run", return_value=proteus.Report()):
            with self.assertRaisesRegex(proteus.JobError, "model is not there: .*Expected folder="):
                MatrixFactorization(controller=address).fit([[1, 2], [3, 4]], [1, 2])


if __name__ == "__main__":
    faulthandler.dump_traceback_later(280)  # where it hangs, if it does, before the test's time is over
    unittest.main()
