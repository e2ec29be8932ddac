"""What bench/feed and bench/feed-cluster share: running a program of build/bench that simulates, reading its report."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import job


def options(description):
    """The command line; what it does not know goes to the program."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.environ.get("PROTEUS_BIN", os.path.join(job.FOLDER, "build", "bin")),
                        help="folder of proteus; the program is looked for in ../bench from there")
    parser.add_argument("--figures", default="", metavar="DIR", help="write SVG plots there")
    return parser.parse_known_args()


def run(chosen, name, words):
    """Has the program print its tables. Returns its exit status and the lines of its report."""
    program = os.path.join(os.path.dirname(os.path.abspath(chosen.bin)), "bench", name)
    if not os.access(program, os.X_OK):
        job.skip(f"no {program}")
    sys.stdout.flush()
    with tempfile.NamedTemporaryFile("r", encoding="ascii") as report:
        done = subprocess.run([program, "--report", report.name, *words], check=False)
        return done.returncode, [json.loads(line) for line in report]
