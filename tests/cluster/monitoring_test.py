#!/usr/bin/env python3
"""What deploy/monitoring offers: rules, their cases, the scrape configuration, the dashboard; and a real Prometheus
that scrapes a real job. Finds the programs by $PROTEUS_BIN; skips what needs Prometheus where it is missing."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "deploy" / "monitoring"
PROTEUS = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve() / "proteus"
PATIENCE_S = 120


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not there: Debian's package prometheus has it")


def written():
    """The names that web/metrics.c writes."""
    text = (ROOT / "web" / "metrics.c").read_text(encoding="utf-8")
    names = set(re.findall(r'"((?:proteus|bidbrain)_[a-z_]+)"', text))
    parts = ("bucket", "sum", "count")
    return names | {f"{name}_{part}" for name in names for part in parts if name.endswith("_seconds")}


class Files(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run(["promtool", *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @needs("promtool")
    def test_rules_and_configuration(self):
        self.promtool("check", "rules", "alerts.yml")
        self.promtool("test", "rules", "alerts_test.yml")
        self.promtool("check", "config", "--syntax-only", "prometheus.yml")

    def test_every_metric_is_one_that_there_is(self):
        for name in ("alerts.yml", "alerts_test.yml", "dashboard.json"):
            used = set(re.findall(r"\b((?:proteus|bidbrain)_[a-z_]+)\b", (FOLDER / name).read_text(encoding="utf-8")))
            self.assertGreater(len(used), 5)
            self.assertEqual(used - written(), set(), name)

    def test_rates_are_of_counters(self):
        for name in ("alerts.yml", "dashboard.json"):
            text = (FOLDER / name).read_text(encoding="utf-8")
            rated = re.findall(r"\b(?:rate|increase)\(((?:proteus|bidbrain)_[a-z_]+)", text)
            self.assertTrue(rated)
            self.assertEqual([metric for metric in rated if not metric.endswith(("_total", "_bucket"))], [], name)

    def test_every_metric_of_the_documentation_is_one_that_there_is(self):
        """/metrics describes each metric; the page says more of some."""
        text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
        section = text.split("\n## Metrics\n")[1].split("\n## ")[0]
        named = set(re.findall(r"`((?:proteus|bidbrain)_[a-z_]+)[`{]", section))
        self.assertGreater(len(named), 5)
        self.assertEqual(named - written(), set())

    def test_the_dashboard(self):
        dashboard = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
        self.assertGreater(len(dashboard["panels"]), 8)
        for panel in dashboard["panels"]:
            self.assertTrue(panel["title"] and panel["targets"])


class Scrape(unittest.TestCase):
    def ask(self, port, query):
        """The value of a query of one series; None: there is none yet."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={query}", timeout=10) as answer:
                found = json.load(answer)["data"]["result"]
                return float(found[0]["value"][1]) if found else None
        except (OSError, urllib.error.URLError):
            return None

    def wait(self, condition):
        until = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), until, "it did not come")
            time.sleep(0.1)

    @needs("prometheus")
    def test_a_real_prometheus(self):
        with tempfile.TemporaryDirectory(prefix="monitoring-test-") as name:
            folder = pathlib.Path(name)
            (folder / "ratings").write_text(
                "".join(f"{user} {user * 7 % 50 + 1} {user % 5 + 1}\n" for user in range(1, 500)), encoding="ascii")
            job = subprocess.Popen([PROTEUS, "run", "--http", "auto", "--progress", "plain", "--transient", "2", "--",
                                    "mf", "--data", "ratings", "--rank", "4", "--iterations", "100000000"],
                                   cwd=folder, stdout=subprocess.PIPE, text=True)
            self.addCleanup(job.stdout.close)
            self.addCleanup(job.wait)
            self.addCleanup(job.kill)
            address = next(line for line in job.stdout if "page at " in line).split("//")[1].strip().rstrip("/")
            (folder / "prometheus.yml").write_text(
                "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: proteus, static_configs: "
                f"[{{targets: ['{address}']}}]}}]\n", encoding="ascii")
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            server = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml",
                                       f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            self.wait(lambda: self.ask(port, "up") == 1)
            self.wait(lambda: (self.ask(port, "proteus_iterations_total") or 0) > 10)
            self.wait(lambda: self.ask(port, "sum(proteus_node_up)") == 3)
            before = self.ask(port, "proteus_iterations_total")
            self.wait(lambda: self.ask(port, "proteus_iterations_total") > before)
            job.terminate()
            job.wait(timeout=PATIENCE_S)
            self.wait(lambda: self.ask(port, "up") == 0)
            server.terminate()


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
