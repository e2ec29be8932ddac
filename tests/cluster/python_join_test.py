#!/usr/bin/env python3
"""proteus.run and the estimators with a controller's address: nodes of this machine in another one's job. Finds the
programs by $PROTEUS_BIN and the package by $PYTHONPATH."""
import contextlib
import faulthandler
import io
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import numpy as np
import proteus
from proteus._job import _read_lines

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

    def node(self, address, *app, tier="reliable"):
        """A node of another machine, say."""
        process = subprocess.Popen([sys.executable, APP, *app, f"--controller={address}", f"--tier={tier}"],
                                   stdout=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        return process

    def until(self, text):
        deadline = time.monotonic() + 100
        while not (self.report.exists() and text in self.report.read_text()):
            self.assertLess(time.monotonic(), deadline, f"no {text} in the report")
            time.sleep(0.02)

    def script(self, text):
        """A script that Ctrl-C can end, also where a test ignores it."""
        process = subprocess.Popen([sys.executable, "-c", f"import proteus\n{text}"], stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(self.end, process)
        return process

    def test_job(self):
        controller, address = self.controller("--reliable=1", "--transient=2")
        out = self.path / "out.npz"
        report = proteus.run(APP, transient=2, controller=address.removeprefix("tcp://"), out=out, iterations=4,
                             progress=False)
        self.assertEqual(controller.wait(), 0)
        self.assertEqual(len(report.iterations), 4)
        self.assertEqual(len(report.lines), len(self.report.read_text().splitlines()))
        np.testing.assert_array_equal(np.load(out)["whole"][0], 4 * 100)

    def test_read_late(self):
        """A report longer than a pipe holds, which nobody reads before the job's end."""
        controller, address = self.controller("--reliable=1")
        job = proteus.start(APP, controller=address, iterations=2000)
        self.assertEqual(controller.wait(), 0)
        self.assertGreater(self.report.stat().st_size, 2 * 65536)
        self.assertTrue(job.wait().summary["ok"])
        self.assertEqual(len(job.report.lines), len(self.report.read_text().splitlines()))

    def test_half_a_line(self):
        """What an ended process has left of a line is not the report's."""
        for text in ("", '{"type"', '{"a":1}\n', '{"a":1}\n{"b":2}\n{"a'):
            lines = queue.SimpleQueue()
            _read_lines(io.StringIO(text), lines)
            read = [lines.get() for _ in range(lines.qsize())]
            self.assertEqual(read, [*text.splitlines(True)[:text.count("\n")], None])

    def test_evicted(self):
        """When all nodes here have left, the job's end is not waited for."""
        controller, address = self.controller("--reliable=1")
        node = self.node(address, "--iterations=1000000", "--pause=0.01")
        said = io.StringIO()
        with contextlib.redirect_stderr(said), mock.patch("proteus._job._LAST_LINES", 0.5):
            job = proteus.start(APP, reliable=0, transient=1, controller=address, iterations=1000000, pause=0.01)
            for line in job:
                if line.get("event") == "take-part":
                    [evicted] = line["nodes"]
                    subprocess.run([PROTEUS, "evict", f"--controller={address}", evicted], check=True,
                                   stdout=subprocess.DEVNULL)
        self.assertIn("all nodes of this machine have left the job, which goes on", said.getvalue())
        self.assertEqual(job.report.summary, {})
        self.assertIsNone(node.poll())
        with proteus.start(APP, reliable=0, transient=1, controller=address, iterations=1000000, pause=0.01) as job:
            for line in job:
                if line.get("event") == "take-part" and evicted not in line["nodes"]:
                    break
        self.assertIsNone(node.poll())  # only our nodes have left
        subprocess.run([PROTEUS, "stop", f"--controller={address}"], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual((node.wait(), controller.wait()), (0, 0))

    def test_reliable_node_interrupted(self):
        """Ctrl-C where the job's only reliable node is: the job ends well, as it could not go on."""
        run = f"{str(APP)!r}, controller={{!r}}, iterations=1000000, pause=0.01"
        for script in (f"proteus.run({run})", f"with proteus.start({run}) as job:\n  for line in job: pass"):
            controller, address = self.controller("--reliable=1", "--transient=1")
            node = self.node(address, "--iterations=1000000", "--pause=0.01", tier="transient")
            joined = self.script(script.format(address))
            self.until('"type":"iteration"')
            joined.send_signal(signal.SIGINT)
            self.assertIn("KeyboardInterrupt", joined.communicate(timeout=100)[1])
            self.assertEqual((node.wait(), controller.wait()), (0, 0))

    def test_errors(self):
        controller, address = self.controller("--reliable=1")
        node = self.node(address, "--iterations=1000000", "--pause=0.01")
        self.until('"event":"start"')
        for app, options, expected in ((HERE / "python_transform_app.py", {}, "a job of mistaken, not of transformed"),
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
        with self.assertRaisesRegex(ValueError, "run_options: count: expected none, as proteus.run sets --count by "):
            proteus.run(APP, controller=address, run_options={"count": 3})

    def test_interrupted(self):
        """Ctrl-C has our nodes leave; the job goes on."""
        controller, address = self.controller("--reliable=1")
        node = self.node(address, "--iterations=1000000", "--pause=0.01")
        joined = self.script(f"proteus.run({str(APP)!r}, reliable=0, transient=1, controller={address!r}, "
                             "iterations=1000000, pause=0.01)")
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
            said = io.StringIO()
            with contextlib.redirect_stderr(said):  # HOST:PORT is enough
                there = LogisticRegression(max_iter=10, transient=1, controller=address.removeprefix("tcp://"),
                                           folder=folder).fit(X, y)
            self.assertEqual(controller.wait(), 0)
            self.assertEqual(f"proteus join --controller={address} --tier=transient" in said.getvalue(),
                             folder is not None)
            self.assertGreater((there.predict(X) == here.predict(X)).mean(), 0.98)
            self.assertEqual((there.n_iter_, len(there.report_.iterations)), (10, 10))
        self.assertTrue((self.path / "proteus-model").exists())
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
            for where, expected in (({}, "has ended, but has written no model to .*proteus-model"),
                                    ({"controller": address}, "proteus-model is not there: .*Expected folder=.* path$"),
                                    ({"controller": address, "folder": self.path}, "same path, as .* is not")):
                with self.assertRaisesRegex(proteus.JobError, expected), contextlib.redirect_stderr(io.StringIO()):
                    MatrixFactorization(**where).fit([[1, 2], [3, 4]], [1, 2])


if __name__ == "__main__":
    faulthandler.dump_traceback_later(280, exit=True)  # where it hangs, if it does, before the test's time is over
    unittest.main()
