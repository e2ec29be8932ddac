#!/usr/bin/env python3
"""Jobs whose data, model and checkpoints are objects of a real S3-compatible server (s3rver), with a relay in between
that checks signatures and fails (s3_proxy.py). Finds the programs by $PROTEUS_BIN. Skipped without node, s3rver
(scripts/setup-s3rver) or botocore. Each job is of one node, as sums of floats depend on the order in which nodes
send."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.dont_write_bytecode = True
try:
    import s3_proxy
except ImportError:
    s3_proxy = None

BIN = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
S3RVER = ROOT / "build-s3rver" / "node_modules" / "s3rver" / "bin" / "s3rver.js"
PATIENCE_S = 120  # for what takes seconds; no time is asserted
KEY, SECRET = "S3RVER", "S3RVER"
REASON = ("no node (Debian's nodejs)" if shutil.which("node") is None else
          "no s3rver (scripts/setup-s3rver installs it)" if not S3RVER.exists() else
          "no botocore (Debian's python3-botocore)" if s3_proxy is None else None)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@unittest.skipIf(REASON is not None, REASON)
class ObjectsJob(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="objects-job-test-"))
        cls.store = cls.folder / "store" / "bucket"
        port = free_port()
        cls.s3rver = subprocess.Popen(["node", S3RVER, "-s", "-d", cls.folder / "store", "-a", "127.0.0.1", "-p",
                                       str(port), "--no-vhost-buckets", "--configure-bucket", "bucket"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(PATIENCE_S * 10):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        cls.upstream = port

    @classmethod
    def tearDownClass(cls):
        cls.s3rver.kill()
        cls.s3rver.wait()
        shutil.rmtree(cls.folder, True)

    def setUp(self):
        self.proxy = s3_proxy.Proxy(self.upstream, KEY, SECRET)
        self.addCleanup(self.proxy.close)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self.environment.update(AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{self.proxy.port}", AWS_ACCESS_KEY_ID=KEY,
                                AWS_SECRET_ACCESS_KEY=SECRET, AWS_CONFIG_FILE="/nonexistent",
                                AWS_SHARED_CREDENTIALS_FILE="/nonexistent")

    def command(self, options, app):
        return [BIN / "proteus", "run", "--reliable", "1", "--progress", "plain", *options, "--", BIN / "mf", *app]

    def run_job(self, options, *app, status=0):
        done = subprocess.run(self.command(options, app), cwd=self.folder, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def make_data(self, name, users):
        """A file, and the same as an object."""
        text = "".join(f"{u} {(u * i) % 97 + 1} {1 + (u + i) % 5}\n" for u in range(1, users + 1) for i in range(1, 4))
        (self.folder / name).write_text(text, encoding="ascii")
        self.put(name)

    def put(self, name):
        """Uploads a file, signed by AWS's own library."""
        body = (self.folder / name).read_bytes()
        request = s3_proxy.signed_put(f"http://127.0.0.1:{self.upstream}/bucket/data/{name}", body, KEY, SECRET)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            self.assertEqual(answer.status, 200)

    def keys(self, prefix):
        """The objects below a prefix, as s3rver keeps them."""
        names = (str(path.relative_to(self.store)) for path in self.store.rglob("*") if path.is_file())
        objects = {re.sub(r"\._S3rver_object$", "", name) for name in names if name.endswith("._S3rver_object")}
        return sorted(name for name in objects if name.startswith(prefix))

    def object(self, key):
        return (self.store / (key + "._S3rver_object")).read_bytes()

    def test_killed_and_resumed(self):
        """What kill -9 of all processes leaves is resumed, with faults; the model is that of a local job."""
        self.make_data("small", 300)
        self.proxy.every = 5
        options = ("--checkpoint", "s3://bucket/root", "--checkpoint-every", "50")
        process = subprocess.Popen(self.command(options, ("--data", "s3://bucket/data/small", "--rank", "4",
                                                          "--rate", "0.02", "--decay", "0.99",
                                                          "--iterations", "1000000")), cwd=self.folder,
                                   env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        reached = None
        lines = []
        for line in process.stdout:
            lines.append(line)
            found = re.search(r"checkpoint: iteration (\d+),", line)
            if found:
                reached = int(found.group(1))
                break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        self.assertIsNotNone(reached, "".join(lines))
        app = ("--rank", "4", "--rate", "0.02", "--decay", "0.99", "--iterations", str(reached + 100))
        said = self.run_job(("--checkpoint", "s3://bucket/root", "--checkpoint-every", "50", "--resume",
                             "s3://bucket/root/"), "--data", "s3://bucket/data/small", *app, "--model-out",
                            "s3://bucket/out/model")
        self.assertIn("resume: from iteration", said)
        self.run_job((), "--data", "small", *app, "--model-out", "model")
        self.assertEqual(self.object("out/model"), (self.folder / "model").read_bytes())
        folders = {key.split("/")[1] for key in self.keys("root/")}
        self.assertLessEqual(len(folders), 2)
        for folder in folders:
            self.assertIn(f"root/{folder}/manifest.json", self.keys("root/"))
        self.assertTrue(all(count > 0 for count in self.proxy.made.values()), self.proxy.made)

    def test_large_model(self):
        """A model of several parts, of several data objects, with faults."""
        self.make_data("part-1", 20000)
        self.make_data("part-2", 10000)
        self.proxy.every = 4
        app = ("--rank", "108", "--iterations", "1", "--clocks-per-iteration", "1")
        self.run_job((), "--data", "s3://bucket/data/part-*", *app, "--model-out", "s3://bucket/out/large")
        self.run_job((), "--data", "part-1,part-2", *app, "--model-out", "large")
        self.assertGreater(len(self.object("out/large")), 8 << 20)
        self.assertEqual(self.object("out/large"), (self.folder / "large").read_bytes())

    def test_refused(self):
        """One line that says what to do, without the secret."""
        self.make_data("tiny", 20)
        self.environment["AWS_SECRET_ACCESS_KEY"] = "not-to-be-seen"
        said = self.run_job((), "--data", "s3://bucket/data/tiny", "--iterations", "2", status=2)
        self.assertIn("s3://bucket/data/tiny: status 403", said)
        self.assertIn("used those of environment", said)
        self.assertNotIn("not-to-be-seen", said)
        said = self.run_job(("--checkpoint", "s3://bucket/root2"), "--data", "tiny", "--iterations", "2", status=2)
        self.assertIn("--checkpoint: s3://bucket/root2", said)
        self.environment["AWS_SECRET_ACCESS_KEY"] = SECRET
        said = self.run_job((), "--data", "s3://bucket/data/none", "--iterations", "2", status=2)
        self.assertIn("s3://bucket/data/none: status 404: expected an object", said)
        said = self.run_job(("--resume", "s3://bucket/none"), "--data", "tiny", "--iterations", "2", status=2)
        self.assertIn("s3://bucket/none: holds no checkpoint", said)


if __name__ == "__main__":
    unittest.main()
