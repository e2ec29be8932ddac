"""For test cases in Python that run programs of ours beside them, in a folder of their own. Finds the programs in
$PROTEUS_BIN."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

PROGRAMS = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve()
PATIENCE_S = 120  # for what takes seconds; no time is asserted


class Background(unittest.TestCase):
    """`begin`, of the subclass, prepares `folder` and starts what all its tests need. What runs at the end is ended."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{cls.__name__.lower()}-test-"))
        cls.processes = []
        try:
            cls.begin()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        for process in cls.processes:
            if process.poll() is None:
                process.terminate()
                process.wait(PATIENCE_S)
        shutil.rmtree(cls.folder, True)

    @classmethod
    def start(cls, said, name, *command):
        """Starts a program of ours, whose output goes to NAME.out. Returns the word that it prints behind `said`."""
        output = cls.folder / f"{name}.out"
        with open(output, "w", encoding="utf-8") as file:
            process = subprocess.Popen([PROGRAMS / command[0], *command[1:]], cwd=cls.folder, stdout=file, stderr=file)
        cls.processes.append(process)
        for _ in range(PATIENCE_S * 20):
            found = re.search(re.escape(said) + r"(\S+)\s", output.read_text(encoding="utf-8"))
            if found:
                return found.group(1)
            time.sleep(0.05)
        raise AssertionError(output.read_text(encoding="utf-8"))
