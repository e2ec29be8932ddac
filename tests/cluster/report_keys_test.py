#!/usr/bin/env python3
"""The table of a report's keys (agileml/wire/report_keys.def): the page and the Python programs read only keys that it
has, and a job's report has only its types, keys, kinds and events. Finds the build by $PROTEUS_BIN, the project by
$PROTEUS_SOURCE."""
import ast
import importlib.machinery
import importlib.util
import json
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
# What the page and the Python programs call a line, a status, or a part of one of them.
JAVASCRIPT = re.compile(r"(?<![\w.])(line|status|summary|node|one|terms|last|first)\??\.([a-z]\w*)\b(?!\()")
PYTHON = {"line", "lines", "summary", "status", "end", "event", "iteration", "last"}
EVENTS = """\
iteration 2 join transient 1
iteration 10 evict node-3 notice 60s
iteration 100 kill node-2
iteration 100000 kill node-1
"""


def manual():
    """scripts/manual, which reads the table."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("manual", str(SOURCE / "scripts" / "manual"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("manual", loader))
    loader.exec_module(module)
    return module


ROWS = manual().report_rows
TYPES = {name: kind for kind, name, _ in ROWS("TYPE")}
TABLES = {macro: {name: (types.split(" | "), kind) for types, kind, name, _ in ROWS(macro)}
          for macro in ("KEY", "NODE", "PLACE")}
HAPPENINGS = {name for _, name, _, _ in ROWS("HAPPENS")}
ALL = {name for table in TABLES.values() for name in table}
WHOLE, REAL = (int,), (float, int, type(None))
KINDS = {"WHOLE": WHOLE, "BYTES": WHOLE, "REAL": REAL, "SECONDS": REAL, "HOURS": REAL, "DOLLARS": REAL, "SHARE": REAL,
         "COUNTED": (int, list), "TEXT": (str,), "NAME": (str, type(None)), "TRUTH": (bool,), "STAGE": (int, str),
         "NODE_LIST": (list,), "MACHINE_LIST": (list,), "PLACE_LIST": (list,)}


class Readers(unittest.TestCase):
    def test_the_page_reads_keys_of_the_table(self):
        own = {"job", "whole", "run", "next",  # of bidbrain's status, and of a history's first line
               "length", "end", "role", "works", "rows", "values", "points", "names"}  # of the page's own objects
        found = set()
        for path in (SOURCE / "web" / "page").glob("*.js"):
            if path.name in ("model.js", "figures.js", "source.js"):
                for name, key in JAVASCRIPT.findall(path.read_text(encoding="utf-8")):
                    self.assertIn(key, ALL | own, f"{path.name}: {name}.{key}")
                    found.add(key)
        self.assertGreater(len(found & ALL), 40)

    def test_the_page_draws_events_and_curves_of_the_table(self):
        page = SOURCE / "web" / "page"
        figures = (page / "figures.js").read_text(encoding="utf-8")
        model = (page / "model.js").read_text(encoding="utf-8")
        marks = re.search(r"^const MARKS = \{\n(.*?)^\};", model, re.M | re.S)[1]
        events = set(re.findall(r'^    "?([a-z-]+)"?: \{', marks, re.M))
        self.assertGreater(len(events), 5)
        self.assertLessEqual(events, HAPPENINGS)
        curves = set(re.findall(r'curve\((?:\w+, )?"(\w+)"', figures))
        for keys in re.findall(r"drawCurves\(this\.\w+, \{(.*?)\}, curve\)", figures, re.S):
            curves |= set(re.findall(r"(\w+): \[", keys))
        self.assertGreater(len(curves), 9)
        self.assertLessEqual(curves, ALL)

    def python_keys(self, path):
        """(line, key) of line["key"] and line.get("key"), for names in PYTHON."""
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            what, key = None, None
            if isinstance(node, ast.Subscript):
                what, key = node.value, node.slice
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
                what, key = node.func.value, node.args[0] if node.args else None
            what = what.value if isinstance(what, ast.Subscript) else what  # lines[-1]["key"]
            name = getattr(what, "id", getattr(what, "attr", None))
            if name in PYTHON and isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield node.lineno, key.value

    def test_python_programs_read_keys_of_the_table(self):
        metrics = {"loss", "perplexity", "test_accuracy", "test_loss", "test_rmse", "validation_accuracy",
                   "validation_loss"}
        others = {"ledger.py", "market.py", "feed", "feed-cluster"}  # they read no report of a job
        count = 0
        for folder in ("python", "bench"):
            for path in sorted((SOURCE / folder).rglob("*")):
                if path.name in others or not path.is_file():
                    continue
                if path.suffix == ".py" or path.read_bytes().startswith(b"#!/usr/bin/env python3"):
                    for number, key in self.python_keys(path):
                        self.assertIn(key, ALL | metrics, f"{path}:{number}")
                        count += 1
        self.assertGreater(count, 20)


class Lines(unittest.TestCase):
    def check_value(self, kind, name, shape, value, line):
        """`shape` is the kind of the key's value."""
        self.assertIsInstance(value, KINDS[shape], line)
        self.assertEqual(isinstance(value, bool), shape == "TRUTH", line)
        for one in value if shape.endswith("_LIST") else []:
            if kind == "EVENT":
                self.assertIsInstance(one, str, line)
            elif kind == "USAGE":
                self.assertEqual([type(part) for part in one[:5]], [str, int, int, int, int], line)
            else:
                inner = "PLACE" if shape == "PLACE_LIST" else "NODE"
                self.check_keys("EXPECTED" if shape == "MACHINE_LIST" else kind, inner, one, line)

    def check_keys(self, kind, macro, given, line, metrics=()):
        for key, value in given.items():
            if key in metrics:
                self.assertIsInstance(value, REAL, line)
            else:
                types, shape = TABLES[macro].get(key, ([], ""))
                self.assertIn(kind, types, f"{key}: {line}")
                self.check_value(kind, key, shape, value, line)

    def test_a_job(self):
        """A report that many events have gone into, and the job's status."""
        with tempfile.TemporaryDirectory(prefix="report-keys-test-") as folder:
            at = pathlib.Path(folder)
            (at / "events").write_text(EVENTS, encoding="ascii")
            (at / "ratings").write_text("".join(f"{n % 97} {n * 7 % 89} {1 + n % 5}\n" for n in range(20000)),
                                        encoding="ascii")
            options = ["--reliable", "1", "--transient", "2", "--report", at / "report", "--events", at / "events",
                       "--checkpoint", at / "checkpoints", "--checkpoint-every", "100", "--failure-timeout", "5"]
            app = ["mf", "--data", at / "ratings", "--iterations", "400", "--clocks-per-iteration", "2"]
            done = subprocess.run([BIN / "proteus", "run", *options, "--progress", "none", "--", *app],
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = (at / "report").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        for line in lines:
            self.assertIn(line["type"], TYPES, line)
            measured = line["type"] in ("clock", "iteration", "summary")
            self.check_keys(TYPES[line["type"]], "KEY", line, line, ["train_rmse", "test_rmse"] if measured else [])
            self.assertIn(line.get("event", "join"), HAPPENINGS, line)
        events = {line["event"] for line in lines if line["type"] == "event"}
        self.assertLessEqual({"join", "take-part", "start", "evict", "evicted", "failure", "recover", "checkpoint",
                              "missed"}, events)
        self.assertLessEqual({"event", "clock", "iteration", "nodes", "summary"}, {line["type"] for line in lines})


if __name__ == "__main__":
    unittest.main()
