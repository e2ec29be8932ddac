#!/usr/bin/env python3
"""What is installed, by the components that Debian's packages are made of: lists of files, find_package(agileml), and
man pages and completion that have each option of --help. scripts/package-test tries the packages themselves. Finds the
build by $PROTEUS_BIN, the project by $PROTEUS_SOURCE."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve().parent
SOURCE = pathlib.Path(os.environ.get("PROTEUS_SOURCE", ".")).resolve()
PATIENCE_S = 120  # for what takes seconds; no time is asserted
PROGRAMS = ("proteus", "bidbrain", "spotmarket", "mf", "mlr", "net", "lda", "gnn")
ALONE = {"mf": ["--predict"], "mlr": ["--predict"], "net": ["--predict"], "lda": ["--infer"],
         "gnn": ["--pack", "--predict"]}


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}: {done.stdout} {done.stderr}"
    return done.stdout


def helps():
    """Of each command and program its words and what it prints."""
    for program in PROGRAMS:
        text = run(BUILD / "bin" / program, "--help", "all")
        yield (program,), text
        if program in ("proteus", "bidbrain"):
            for command in re.findall(r"^  ([a-z][a-z-]*)  ", text, re.M):
                yield (program, command), run(BUILD / "bin" / program, command, "--help", "all")
        for tool in ALONE.get(program, ()):
            yield (program,), run(BUILD / "bin" / program, tool, "--help")


def options(text):
    return re.findall(r"^  (--[a-z0-9-]+)", text, re.M)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="package-test-")).resolve()
        cls.addClassCleanup(shutil.rmtree, cls.home, True)
        cls.files = {}
        for component in ("programs", "library", "development", "python"):
            prefix = cls.home / component
            run("cmake", "--install", BUILD, "--prefix", prefix, "--component", component)
            cls.files[component] = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
        cls.prefix = cls.home / "programs"

    def has(self, component, *patterns):
        for pattern in patterns:
            self.assertTrue(any(re.fullmatch(pattern, name) for name in self.files[component]),
                            f"{pattern}: not in {component}")

    def test_files(self):
        self.has("programs", *(f"bin/{name}" for name in PROGRAMS), "share/man/man1/proteus-run.1",
                 "share/man/man1/bidbrain-check-config.1", "share/zsh/site-functions/_proteus",
                 *(f"share/man/man1/{name}.1" for name in PROGRAMS),
                 *(f"share/bash-completion/completions/{name}" for name in PROGRAMS), r"share/doc/\w+/README.md")
        self.assertEqual({name for name in self.files["programs"] if name.startswith(("bin/", "lib"))},
                         {f"bin/{name}" for name in PROGRAMS})
        self.assertEqual(len([name for name in self.files["library"] if "libagileml.so." in name]), 2)
        self.assertEqual(len(self.files["library"]), 2)
        self.has("development", "include/agileml.h", "include/agileml/types.h", ".*/libagileml.a", ".*/libagileml.so",
                 ".*/pkgconfig/agileml.pc", ".*/cmake/agileml/agileml-config.cmake", ".*/examples/average.c")
        self.has("python", ".*/examples/python/kmeans.py")
        if (BUILD / "python" / "proteus" / "_binding.abi3.so").exists():
            self.has("python", ".*/proteus/__init__.py", ".*/proteus/_binding.abi3.so")
        everything = [name for names in self.files.values() for name in names]
        self.assertEqual(len(everything), len(set(everything)), "a file is in two packages")

    def test_manual(self):
        zsh = (self.prefix / "share/zsh/site-functions/_proteus").read_text(encoding="utf-8")
        script = [f"source {self.prefix}/share/bash-completion/completions/proteus"]
        expected = []
        for words, text in helps():
            page = (self.prefix / "share/man/man1" / ("-".join(words) + ".1")).read_text(encoding="utf-8")
            page = page.replace("\\-", "-")
            for option in options(text):
                self.assertIn(f"\\fB{option}\\fR", page, words)
                if len(words) == 2 or words[0] not in ("proteus", "bidbrain"):
                    self.assertIn(f"'*{option}[", zsh, words)
            self.assertTrue(options(text) and ".SH NAME" in page)
            script += [f"COMP_WORDS=({' '.join(words)} --) COMP_CWORD={len(words)}; _proteus; echo ${{COMPREPLY[@]}}"]
            expected.append((words, options(text)))
        lines = run("bash", "-c", "\n".join(script)).splitlines()
        self.assertEqual(len(lines), len(expected))
        for (words, names), line in zip(expected, lines):
            self.assertEqual(set(names) - set(line.split()), set(), words)

    def test_pages_are_good(self):
        if shutil.which("groff") is None:
            self.skipTest("no groff")
        pages = sorted((self.prefix / "share/man/man1").iterdir())
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-Kutf8", "-z", *pages], capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def completed(self, *words):
        script = f"""source {self.prefix}/share/bash-completion/completions/proteus; cd {self.prefix}
            COMP_WORDS=({' '.join(words)}) COMP_CWORD={len(words) - 1}; _proteus; echo "${{COMPREPLY[@]}}" """
        return run("bash", "-c", script).split()

    def test_completion(self):
        self.assertEqual(self.completed("proteus", "ru"), ["run"])
        self.assertEqual(self.completed("bidbrain", "check"), ["check-config"])
        self.assertEqual(self.completed("proteus", "run", "--", "ml"), ["mlr"])
        self.assertEqual(self.completed("proteus", "run", "--reliable", "2", "--", "mf", "--ran"), ["--rank"])
        self.assertEqual(self.completed("proteus", "run", "--checkpoint", "sh"), ["share"])
        self.assertEqual(self.completed("proteus", "run", "--reliable", "sh"), [])
        self.assertEqual(self.completed("mf", "--data", "sh"), ["share"])
        for word in ("--inf", "--minimum-l"):
            self.assertEqual(len(self.completed("lda", word)), 1)

    def test_find_package(self):
        work = self.home / "work"
        work.mkdir()
        for component in ("library", "development"):
            run("cmake", "--install", BUILD, "--prefix", work / "prefix", "--component", component)
        shutil.copy(SOURCE / "examples" / "average.c", work)
        (work / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(example LANGUAGES C)\nfind_package(agileml 0.1 REQUIRED)\n"
            "foreach(kind agileml static)\n  add_executable(by_${kind} average.c)\n"
            "  target_link_libraries(by_${kind} PRIVATE agileml::${kind})\nendforeach()\n", encoding="utf-8")
        run("cmake", "-S", work, "-B", work / "build", f"-DCMAKE_PREFIX_PATH={work / 'prefix'}")
        run("cmake", "--build", work / "build")
        for kind in ("agileml", "static"):
            self.assertIn("average ratings", run(work / "build" / f"by_{kind}", "--help"))


if __name__ == "__main__":
    unittest.main()
