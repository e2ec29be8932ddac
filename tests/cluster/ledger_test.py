#!/usr/bin/env python3
"""bidbrain's caps and bills by its ledger, read by the checker of the benchmarks (bench/elastic/ledger.py): a job whose
market takes machines passes no cap and is billed as by the market; a ledger that is forged is told. Finds the programs
in $PROTEUS_BIN, the project in $PROTEUS_SOURCE."""
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import unittest
import urllib.request

sys.dont_write_bytecode = True
from background import PATIENCE_S, PROGRAMS, Background

SOURCE = pathlib.Path(os.environ.get("PROTEUS_SOURCE", ".")).resolve()
CHECKER = SOURCE / "bench" / "elastic" / "ledger.py"
LIMITS = {"most_machines": 3, "most_vcpus": 7, "most_dollars_per_hour": 0.2, "budget_dollars": 1}
PRICES = {"m3.large-us-east-1a": [("02-25", 0.019), ("02-29T12:00:00", 0.018), ("03-01T00:20:00", 1.0),
                                  ("03-01T00:50:00", 0.018), ("04-01", 0.018)],
          "c3.xlarge-us-east-1a": [("02-25", 0.06), ("02-29T12:00:00", 0.05), ("04-01", 0.05)]}


class Ledger(Background):
    @classmethod
    def begin(cls):
        (cls.folder / "prices").mkdir()
        for name, points in PRICES.items():
            lines = [f"2016-{when if 'T' in when else when + 'T00:00:00'}Z,{price}" for when, price in points]
            (cls.folder / "prices" / f"{name}.csv").write_text("\n".join(["timestamp_utc,price_usd", *lines, ""]))
        ratings = [f"{user} {item} {1 + user * item % 5}" for user in range(60) for item in range(40)]
        (cls.folder / "ratings").write_text("\n".join(ratings) + "\n")
        keys = cls.folder / "credentials"
        keys.touch(0o600)
        keys.write_text("[default]\naws_access_key_id = AKIDTEST\naws_secret_access_key = secret\n")
        market = cls.start("spotmarket at ", "market", "spotmarket", "--prices", "prices", "--credentials",
                           "credentials", "--folder", "cloud", "--start", "2016-03-01T00:00:00Z", "--speed",
                           "240", "--model", "ec2-2016", "--notice", "600")
        controller = cls.start("listening on ", "controller", "proteus", "controller", "--listen", "tcp://127.0.0.1:0",
                               "--reliable", "1", "--transient", "0", "--store", "store")
        config = {"job": "test", "provider": "ec2", "region": "us-east-1", "endpoint": market,
                  "clock": f"{market}/clock", "model": "ec2-2016", "state": "state.db",
                   "launch": {"image": "ami-12345678"},
                  "markets": {"types": ["m3.large", "c3.xlarge"], "zones": ["us-east-1a"]},
                  "node": {"app": "mf", "binary": str(PROGRAMS / "mf"), "threads": 1, "arguments": [
                      "--data", str(cls.folder / "ratings"), "--iterations", "0", "--seconds", "8",
                      "--poll-notice", "0.05"]},
                  "controller": controller, "on_demand": {"type": "m3.large"}, "notice_seconds": 1200,
                  "application": {"phi": 0.9, "measure": False}, "limits": LIMITS}
        cls.write_config("bidbrain.json", config)
        done = subprocess.run([PROGRAMS / "bidbrain", "run", "--config", "bidbrain.json", "--report", "report.jsonl"],
                              cwd=cls.folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                              env={**os.environ, "AWS_SHARED_CREDENTIALS_FILE": "credentials",
                                   "AWS_CONFIG_FILE": "/dev/null"})
        assert done.returncode == 0, done.stdout + done.stderr
        name, value = (cls.folder / "cloud" / "authorization").read_text().strip().split(": ")
        request = urllib.request.Request(f"{market}/bill", headers={name: value})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE_S) as answer:
            (cls.folder / "bill.json").write_bytes(answer.read())

    @classmethod
    def write_config(cls, name, config):
        (cls.folder / name).write_text(json.dumps(config))

    def check(self, config="bidbrain.json"):
        return subprocess.run([sys.executable, CHECKER, "--config", config, "--report", "report.jsonl", "--bill",
                               "bill.json"], cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE_S,
                              check=False)

    def assert_told(self, breach, **changes):
        config = json.loads((self.folder / "bidbrain.json").read_text())
        config["limits"].update(changes.pop("limits", {}))
        self.write_config("forged.json", {**config, **changes})
        done = self.check("forged.json")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, breach)

    def test_a_real_ledger_is_right(self):
        done = self.check()
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertRegex(done.stdout, r"most of each: 3 machines, 6 vCPUs, \$0\.18")
        bill = json.loads((self.folder / "bill.json").read_text())
        self.assertTrue(any(machine["how"] == "evicted" for machine in bill["instances"]))

    def test_passed_caps_are_told(self):
        self.assert_told(": 3 machines, the cap is 2", limits={"most_machines": 2})
        self.assert_told(": 6 vcpus, the cap is 5", limits={"most_vcpus": 5})
        self.assert_told(r": 0\.18\d* dollars per hour, the cap is 0\.18", limits={"most_dollars_per_hour": 0.18})
        self.assert_told(r": 0\.\d+ dollars, the cap is 0\.1", limits={"budget_dollars": 0.1})

    def test_a_forged_machine_is_told(self):
        for suffix in (".db", "-prices.db"):
            with sqlite3.connect(self.folder / f"state{suffix}") as real, \
                    sqlite3.connect(self.folder / f"forged{suffix}") as forged:
                real.backup(forged)
        with sqlite3.connect(self.folder / "forged.db") as forged:
            columns = [row[1] for row in forged.execute("PRAGMA table_info(machine)") if row[1] not in ("number", "id")]
            forged.execute(f"INSERT INTO machine (id, {', '.join(columns)}) SELECT 'i-forged', {', '.join(columns)} "
                           "FROM machine WHERE kind = 0 AND how = 2 LIMIT 1")
        self.assert_told(": 4 machines, the cap is 3", state="forged.db")
        with sqlite3.connect(self.folder / "forged.db") as forged:
            forged.execute("UPDATE machine SET how = 1 WHERE id = 'i-forged'")
        self.assert_told("i-forged: 0 units by the market, [1-9]", state="forged.db")


if __name__ == "__main__":
    unittest.main()
