#!/usr/bin/env python3
"""The documents, in the source tree and as installed: every link leads to a file and a heading that are there. The
README's commands compile the installed example against the installed library. Finds the build by $PROTEUS_BIN, the
project by $PROTEUS_SOURCE."""
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


def documents(root):
    """The Markdown files under a folder, but for those of builds and of version control."""
    found = []
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if not name.startswith((".git", "build"))]
        found += [pathlib.Path(folder, name) for name in files if name.endswith(".md")]
    return found


def prose(path):
    """A document without its blocks of code, in which brackets are no links."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    return re.sub(r"^    .*$", "", text, flags=re.M)


def anchors(path):
    """What its headings are called in links."""
    headings = re.findall(r"^#+ (.*)$", prose(path), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def links(path):
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)) if not re.match(r"[a-z]+:", link)]


def broken_links(root):
    broken = []
    for document in documents(root):
        for link in links(document):
            name, _, heading = link.partition("#")
            target = (document.parent / name).resolve() if name else document
            inside = target == root or root in target.parents
            if not inside or not target.exists():
                broken.append(f"{document.relative_to(root)}: {link}: no such file")
            elif heading and heading not in anchors(target):
                broken.append(f"{document.relative_to(root)}: {link}: no such heading")
    return broken


def sources():
    return [path for folder in ("include", "apps", "workers", "agileml", "proteus", "bidbrain", "spotmarket")
            for path in (SOURCE / folder).rglob("*.[ch]")]


class Map(unittest.TestCase):
    """design.md follows a flush and a price through the code by names of files and functions."""

    def test_its_names_are_in_the_code(self):
        text = (SOURCE / "docs" / "design.md").read_text(encoding="utf-8")
        words = re.findall(r"`([\w/.]+)`", re.search(r"^## A map$(.*?)^## ", text, flags=re.S | re.M).group(1))
        files = sources()
        names = {str(path.relative_to(SOURCE)) for path in files} | {path.name for path in files}
        known = set(re.findall(r"\w+", " ".join(path.read_text(encoding="utf-8") for path in files)))
        functions = [word for word in words if re.fullmatch(r"[a-z]\w*_\w+", word)]
        self.assertGreater(len(functions), 20)
        self.assertEqual([word for word in functions if word not in known], [])
        self.assertEqual([word for word in words if re.search(r"\.[ch]$", word) and word not in names], [])


class Links(unittest.TestCase):
    def test_in_the_source_tree(self):
        self.assertGreater(sum(len(links(document)) for document in documents(SOURCE)), 50)
        self.assertEqual(broken_links(SOURCE), [])

    def test_broken_ones_are_found(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name).resolve()
            (root / "a.md").write_text("# A `b`, c\n"
                                       "[x](b.md) [y](a.md#a-b-c) [z](#nowhere) [u](../etc) [v](https://host)\n"
                                       "```\n[no link](no.md)\n```\n", encoding="utf-8")
            self.assertEqual(broken_links(root), ["a.md: b.md: no such file", "a.md: #nowhere: no such heading",
                                                  "a.md: ../etc: no such file"])


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="docs-test-")).resolve()
        cls.prefix = cls.home / "proteus"
        cls.addClassCleanup(shutil.rmtree, cls.home, True)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], check=True, capture_output=True,
                       timeout=PATIENCE_S)
        cls.docs = next(cls.prefix.glob("share/doc/*"))

    def test_links(self):
        self.assertTrue((self.docs / "README.md").exists())
        self.assertEqual(broken_links(self.docs), [])

    @unittest.skipIf("PROTEUS_SANITIZED" in os.environ, "a program outside would need the sanitizer's libraries")
    def test_the_example_as_the_readme_says(self):
        """The commands as they stand there, with another $HOME."""
        readme = (self.docs / "README.md").read_text(encoding="utf-8")
        commands = re.search(r"\nAfter `cmake --install build --prefix \$HOME/proteus`.*?\n\n((?:    .*\n)+)", readme)
        self.assertIsNotNone(commands)
        self.assertTrue((self.prefix / "lib" / "pkgconfig" / "agileml.pc").exists(), "where the README looks for it")
        work = self.home / "work"
        work.mkdir()
        shutil.copytree(self.docs / "examples", work / "examples")  # as beside the README
        with open(work / "ratings.csv", "w", encoding="ascii") as file:
            for user in range(60):
                for item in range(40):
                    file.write(f"{user},{item},{1 + item % 5}\n")
        environment = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        done = subprocess.run(["sh", "-e", "-c", commands.group(1)], cwd=work, capture_output=True, text=True,
                              timeout=PATIENCE_S, env={**environment, "HOME": str(self.home)}, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        averages = dict(line.split("\t") for line in (work / "averages.tsv").read_text(encoding="ascii").splitlines())
        self.assertEqual(len(averages), 40)
        for item, average in averages.items():
            self.assertAlmostEqual(float(average), 1 + int(item) % 5, delta=0.01)

    @unittest.skipIf("PROTEUS_SANITIZED" in os.environ, "a program outside would need the sanitizer's libraries")
    def test_the_first_app(self):
        """docs/first-app.md: its program and all its commands, with another $HOME."""
        text = (self.docs / "docs" / "first-app.md").read_text(encoding="utf-8")
        program = re.search(r"^```c\n(.*?)^```$", text, flags=re.S | re.M).group(1)
        work = self.home / "first"
        work.mkdir()
        (work / "line.c").write_text(program, encoding="utf-8")
        commands = "".join(re.findall(r"^    .*\n", text.replace(program, ""), flags=re.M))
        environment = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        done = subprocess.run(["sh", "-e", "-c", commands], cwd=work, capture_output=True, text=True,
                              timeout=PATIENCE_S, env={**environment, "HOME": str(self.home)}, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        for found, right in zip((work / "w.txt").read_text(encoding="ascii").split(), (1, 2, -3, 0.5)):
            self.assertAlmostEqual(float(found), right, delta=0.01)


if __name__ == "__main__":
    unittest.main()
