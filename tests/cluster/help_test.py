#!/usr/bin/env python3
"""What programs print with --help, --help all and --help TOPIC, and the documents' tables of options, which
scripts/manual makes of it. Finds the build by $PROTEUS_BIN, the project by $PROTEUS_SOURCE."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve()
SOURCE = pathlib.Path(os.environ.get("PROTEUS_SOURCE", ".")).resolve()
PATIENCE_S = 120  # for what takes seconds; no time is asserted
TOPICS = {
    ("mf",): ["job", "data", "exchange", "uneven", "feeders", "elastic", "network", "logs"],
    ("mlr",): ["job", "data", "exchange", "uneven", "feeders", "elastic", "network", "logs"],
    ("proteus", "run"): ["job", "uneven", "elastic", "network", "page", "logs", "market", "feeders"],
    ("proteus", "controller"): ["job", "uneven", "elastic", "network", "page", "logs"],
    ("bidbrain", "run"): ["page", "logs"],
    ("spotmarket",): ["market", "machines", "service"],
}


def run(words, *arguments):
    return subprocess.run([BIN / words[0], *words[1:], *arguments], capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False)


def options(text):
    return re.findall(r"^  --([a-z0-9-]+)", text, re.M)


class Help(unittest.TestCase):
    def shown(self, words, *arguments):
        done = run(words, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), (words, arguments))
        self.assertEqual([line for line in done.stdout.splitlines() if len(line) > 80 and line.startswith("  ")], [])
        return done.stdout

    def test_topics(self):
        """What all shows is what --help shows and the topics' options, each once."""
        for words, topics in TOPICS.items():
            first, everything = self.shown(words, "--help"), self.shown(words, "--help", "all")
            self.assertIn("usage: ", first)
            self.assertIn("\nmore by --help TOPIC: ", first)
            self.assertNotIn("more by", everything)
            self.assertEqual(self.shown(words, "-h"), first)
            shown = options(first)
            for topic in topics:
                text = self.shown(words, "--help", topic)
                self.assertRegex(text, rf"^{topic} \(.*\):\n")
                self.assertIn(f"{topic} (", re.sub(r"\s+", " ", first))
                self.assertIn(text, everything)
                self.assertNotEqual(options(text), [])
                shown += options(text)
            self.assertEqual(shown, options(everything))
            self.assertEqual(len(shown), len(set(shown)))

    def test_unknown_topics(self):
        for words, topics in TOPICS.items():
            done = run(words, "--help", "nothing")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr,
                             f"{words[0]}: error: --help: expected {', '.join(topics)} or all, got 'nothing'\n")

    def test_a_first_job(self):
        """One screen has what a first job needs."""
        text = self.shown(("mf",), "--help")
        self.assertLessEqual(len(text.splitlines()), 45)
        for option in "data", "test-fraction", "rank", "model-out", "iterations", "seed", "check", "help":
            self.assertIn(option, options(text))
        for option in "reliable", "transient", "threads", "checkpoint", "report", "help":
            self.assertIn(option, options(self.shown(("proteus", "run"), "--help")))

    def test_defaults_of_apps(self):
        """An app says which default of the library's it chooses by the data."""
        self.assertRegex(self.shown(("mf",), "--help"), r"--iterations N .*\(default: 20\)")
        self.assertRegex(self.shown(("lda",), "--help"), r"--iterations N .*\(default: 100\)")
        text = self.shown(("mlr",), "--help", "all")
        self.assertRegex(text, r"--iterations N .*by the data\n")
        self.assertEqual(options(text).count("iterations"), 1)

    def test_help_of_an_app_behind_run(self):
        text = self.shown(("mf",), "--help", "data")
        self.assertEqual(self.shown(("proteus", "run"), "--", "mf", "--help", "data"), text)
        self.assertTrue(self.shown(("proteus", "run"), "--help", "--", "mf").startswith("usage: proteus run "))

    def test_schemes_of_simulate(self):
        """--help and docs/bidbrain.md name each scheme."""
        study = (SOURCE / "bidbrain" / "study" / "study.c").read_text(encoding="utf-8")
        schemes = re.findall(r'^    \{\.name = "([a-z+-]+)"', study, re.M)
        self.assertIn("uniform+checkpoint", schemes)
        shown = re.sub(r"\s+", " ", self.shown(("bidbrain", "simulate"), "--help"))
        document = (SOURCE / "docs" / "bidbrain.md").read_text(encoding="utf-8")
        for scheme in schemes:
            for text in shown, document:
                self.assertRegex(text, rf"(?<![a-z+-]){re.escape(scheme)}(?![a-z+-])|"
                                       rf"[^a-z]{re.escape(scheme.removeprefix('proteus'))}(?![a-z+-])")

    def test_tables_of_documents(self):
        done = subprocess.run([sys.executable, SOURCE / "scripts" / "manual", "--bin", BIN, "--docs", SOURCE / "docs",
                               "--check"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_table_that_takes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder) / "net.md"
            for word in "--rank", "nothing", "--rate,--decay":
                document.write_text(f"<!-- options: net | --rate, {word} -->\n<!-- end of options -->\n",
                                    encoding="utf-8")
                done = subprocess.run([sys.executable, SOURCE / "scripts" / "manual", "--bin", BIN, "--docs", folder],
                                      capture_output=True, text=True, timeout=PATIENCE_S, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"manual: net.md: options: net: '{word}': expected", done.stderr)


if __name__ == "__main__":
    unittest.main()
