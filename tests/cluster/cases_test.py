#!/usr/bin/env python3
"""Small files of ../shared/cases, each as people have it, and what its README wants: to be read rightly, or refused
with a reason. Finds the programs by $PROTEUS_BIN, the project by $PROTEUS_SOURCE; skipped without the folder."""
import functools
import gzip
import http.server
import json
import math
import os
import pathlib
import re
import statistics
import struct
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

BIN = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve()
SOURCE = pathlib.Path(os.environ.get("PROTEUS_SOURCE", pathlib.Path(__file__).parent.parent.parent)).resolve()
SHARED = SOURCE.parent / "shared"
FILES = SHARED / "cases" / "files"
PATIENCE_S = 300  # for what takes seconds; no time is asserted
REFUSED = 2  # exit status


def case(name):
    return str(min(FILES.glob(name + ".*"), key=lambda path: len(path.name)))


def data(*names):
    path = SHARED.joinpath("data", *names)
    if not path.exists():
        raise unittest.SkipTest(f"no {path}")
    return path


def model_counts(content):
    """{word: tokens} of an lda model's file, whose words have names (docs/lda.md has the format)."""
    topics_at, rows_at, tail = 16, 40, 28
    vocabulary, = struct.unpack_from("<I", content, topics_at + 4)
    rows, _, _ = struct.unpack_from("<3Q", content, len(content) - tail)
    counts, at = {}, rows_at
    for _ in range(rows):
        word, pairs = struct.unpack_from("<2I", content, at)
        counts[word] = sum(struct.unpack_from(f"<{2 * pairs}I", content, at + 8)[1::2])
        at += 8 + 8 * pairs
    names = content[at:len(content) - tail].decode().splitlines()
    assert len(names) == vocabulary
    return {names[word]: count for word, count in counts.items()}


class Store(http.server.BaseHTTPRequestHandler):
    """A bucket `bkt`, which anyone may read, as S3 offers it by path."""
    objects = {}

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path, _, query = self.path.partition("?")
        key = urllib.parse.unquote(path).removeprefix("/bkt").removeprefix("/")
        if not key:
            self.answer(200, self.listing(urllib.parse.parse_qs(query).get("prefix", [""])[0]))
        elif key not in self.objects:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self.answer_object(self.objects[key])

    def listing(self, prefix):
        keys = "".join(f"<Contents><Key>{key}</Key><Size>{len(body)}</Size></Contents>"
                       for key, body in sorted(self.objects.items()) if key.startswith(prefix))
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{keys}</ListBucketResult>".encode()

    def answer_object(self, body):
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self.answer(200, body)
            return
        first = int(wanted.group(1))
        last = min(int(wanted.group(2) or len(body)), len(body) - 1)
        self.answer(206, body[first:last + 1], {"Content-Range": f"bytes {first}-{last}/{len(body)}"})

    def answer(self, status, body, more=()):
        self.send_response(status)
        for name, value in {"ETag": '"1"', "Content-Length": str(len(body)), **dict(more)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Job:
    """A job of one node that is over."""

    def __init__(self, status, output, lines):
        self.status = status
        self.output = output
        self.summary = next((line for line in lines if line["type"] == "summary"), {})
        self.items = next((line["items"] for line in lines if line["type"] == "iteration"), 0)


@unittest.skipUnless(FILES.is_dir(), f"no {FILES}")
class Cases(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cases-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}

    def job(self, app, *options):
        report = self.folder / "report"
        report.unlink(missing_ok=True)
        done = subprocess.run([BIN / "proteus", "run", "--progress", "plain", "--report", report, "--", BIN / app,
                               *options], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False, text=True, errors="replace")
        lines = report.read_text(encoding="utf-8").splitlines() if report.exists() else []
        return Job(done.returncode, done.stdout, [json.loads(line) for line in lines])

    def good(self, app, *options):
        """A job that ends well."""
        job = self.job(app, *options)
        self.assertEqual(job.status, 0, job.output)
        return job

    def refused(self, app, *options):
        """What a job that refuses its input says."""
        job = self.job(app, *options)
        self.assertEqual(job.status, REFUSED, job.output)
        return job.output

    def direct(self, app, *options):
        """The standard output of a program without a job, which ends well."""
        done = subprocess.run([BIN / app, *options], cwd=self.folder, capture_output=True, timeout=PATIENCE_S,
                              check=False, text=True, errors="replace")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def lines(self, name):
        return (self.folder / name).read_text(encoding="utf-8").splitlines()

    # ---- S: defaults ----

    def test_S1_counts_with_a_long_tail(self):
        values = [float(line.split(",")[2]) for line in pathlib.Path(case("S1")).read_text().splitlines()]
        self.assertLess(self.good("mf", "--data", case("S1")).summary["train_rmse"], statistics.pstdev(values))

    def test_S2_ratings_in_other_units(self):
        source = data("ratings-ml-100k", "u.data.gz")
        found = {}
        for factor in (0.01, 0.2, 1, 20, 1000):
            with gzip.open(source, "rt") as ratings, open(self.folder / "f.csv", "w", encoding="ascii") as file:
                for line in ratings:
                    user, item, rating, _ = line.split("\t")
                    file.write(f"{user},{item},{float(rating) * factor:g}\n")
            job = self.good("mf", "--data", "f.csv", "--test-fraction", "0.1", "--iterations", "30")
            found[factor] = job.summary["test_rmse"] / factor
        self.assertLess(found[1], 0.95)
        self.assertLess(max(found.values()) - min(found.values()), 0.005, found)

    def test_S4_a_small_table(self):
        self.assertLess(self.good("mlr", "--data", case("S4"), "--test", case("S4.test")).summary["test_loss"], 0.5)

    def test_S5_columns_of_different_scales(self):
        job = self.good("mlr", "--data", data("class-lightgbm-binary", "binary.train.gz"), "--test",
                        data("class-lightgbm-binary", "binary.test.gz"), "--iterations", "10")
        self.assertLess(job.summary["test_loss"], 0.69)

    # ---- F: foreign formats ----

    def counts(self):
        """The documents of F1, F4, F5, F7 and N18, which are the same, as {(document, word): count}."""
        entries = [line.split() for line in pathlib.Path(case("F1")).read_text().splitlines()[2:]]
        return {(int(document), int(word)): int(float(count)) for document, word, count in entries}

    def likelihood_of_the_same(self, topics):
        """What lda makes of these documents in a format that is its own."""
        counts = self.counts()
        name = self.write("same.uci", "40\n30\n%d\n" % len(counts) + "".join(
            f"{document} {word} {count}\n" for (document, word), count in sorted(counts.items())))
        return self.good("lda", "--data", name, "--topics", topics).summary["log_likelihood_per_token"]

    def test_F1_matrix_market_documents(self):
        job = self.good("lda", "--data", case("F1"), "--topics", "2", "--top-words", "8")
        self.assertEqual(job.items, 40)
        self.assertEqual(job.summary["log_likelihood_per_token"], self.likelihood_of_the_same("2"))

    def test_F3_matrix_market_ratings(self):
        self.assertEqual(self.good("mf", "--data", case("F3"), "--model-out", "m").items, 9)
        self.direct("mf", "--predict", "m", "--data", case("F3"), "--out", "predictions")
        self.assertEqual(len([line for line in self.lines("predictions") if line[0].isdigit()]), 9)

    def words(self, name, topics):
        """{word: how often it is in the documents}, by the model."""
        job = self.good("lda", "--data", case(name), "--topics", topics, "--model-out", "m")
        self.assertEqual(job.items, 40)
        return model_counts((self.folder / "m").read_bytes())

    def test_F4_vowpal_wabbit_documents(self):
        found = self.words("F4", "3")
        self.assertEqual(sum(found.values()), sum(self.counts().values()))

    def test_F5_vowpal_wabbit_with_namespaces(self):
        found = self.words("F5", "2")
        self.assertNotIn("text", found)
        self.assertNotIn("author", found)
        words = sum(count for word, count in found.items() if re.fullmatch("w[a-z]{2}x", word))
        self.assertEqual(words, sum(self.counts().values()))

    def test_F7_lines_of_id_and_text(self):
        found = self.words("F7", "2")
        self.assertEqual({word for word in found if not re.fullmatch("w[a-z]{2}x", word)}, set())

    def test_F8_pointer_of_git_lfs(self):
        for app in ("lda", "mf", "mlr"):
            self.assertIn("Git LFS", self.refused(app, "--data", case("F8")))

    # ---- H: headers ----

    def test_H1_index_and_header(self):
        self.assertLess(self.good("mf", "--data", case("H1"), "--test-fraction", "0.1").summary["test_rmse"], 0.6)

    def test_H3_time_first(self):
        self.assertLess(self.good("mf", "--data", case("H3"), "--test-fraction", "0.1").summary["test_rmse"], 0.6)

    def test_H4_items_first(self):
        rows = [line.split(",") for line in pathlib.Path(case("H4")).read_text().splitlines()[1:]]
        self.write("usual", "".join(f"{user},{item},{rating}\n" for item, user, rating in rows))
        self.write("pairs", "".join(f"{user},{item}\n" for item, user, _ in rows))
        answers = []
        for name in (case("H4"), "usual"):
            self.good("mf", "--data", name, "--model-out", "m")
            answers.append(self.direct("mf", "--predict", "m", "--data", "pairs"))
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(len(answers[0].splitlines()), 400)

    def test_H7_label_is_a_word_and_features_are_numbers(self):
        job = self.good("mlr", "--data", case("H7"), "--model-out", "m")
        self.assertEqual(job.items, 120)
        self.assertEqual(self.classes_of(case("H7")), {"0", "1", "2"})

    def classes_of(self, name):
        """The labels in what --predict writes for the training data."""
        self.direct("mlr", "--predict", "m", "--data", name, "--out", "predictions")
        return {line.split("\t")[0] for line in self.lines("predictions") if line.split("\t")[0] != "label"}

    # ---- C: identity and addresses ----

    def serve(self, objects):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(type(
            "Bucket", (Store,), {"objects": objects})))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.environment.update(AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{server.server_port}", AWS_ACCESS_KEY_ID="key",
                                AWS_SECRET_ACCESS_KEY="secret", AWS_CONFIG_FILE="/nonexistent",
                                AWS_SHARED_CREDENTIALS_FILE="/nonexistent")

    ratings = "".join(f"{user},{item},{1 + (user + item) % 5}\n" for user in range(20) for item in range(10))

    def test_C2_bucket_without_key(self):
        self.serve({"ratings.csv": self.ratings.encode()})
        self.assertIn("s3://BUCKET/KEY", self.refused("mf", "--data", "s3://bkt"))

    def test_C3_brackets_in_a_key(self):
        self.serve({"br[1].csv": self.ratings.encode(), "br1.csv": b"1,2,3\n"})
        self.assertEqual(self.good("mf", "--data", "s3://bkt/br[1].csv").items, 200)

    def test_C6_dollars_are_a_gauge(self):
        names = re.findall(r'"(bidbrain_dollars_\w+)"', (SOURCE / "web" / "metrics.c").read_text(encoding="utf-8"))
        self.assertIn("bidbrain_dollars_spent", names)
        self.assertNotIn("bidbrain_dollars_spent_total", names)

    # ---- L: labels ----

    def test_L1_label_nan_in_libsvm(self):
        self.assertRegex(self.refused("mlr", "--data", case("L1")), r"L1\.svm:1: .*label.*nan")

    def test_L2_label_nan_in_csv(self):
        self.assertRegex(self.refused("mlr", "--data", case("L2")), r"L2\.csv:2: .*label.*(?i:nan)")

    def test_L7_labels_above_2_to_the_53(self):
        self.good("mlr", "--data", case("L7"), "--model-out", "m")
        self.assertEqual(self.classes_of(case("L7")), {"9007199254740993", "9007199254740992", "5"})

    # ---- O: outputs ----

    def test_O3_probabilities_of_all_classes(self):
        self.good("mlr", "--data", case("S4"), "--model-out", "m")
        self.assertIn("--probabilities", self.direct("mlr", "--predict", "m", "--help"))
        self.direct("mlr", "--predict", "m", "--data", case("S4"), "--probabilities", "--out", "predictions")
        rows = [line.split("\t") for line in self.lines("predictions")]
        rows = [row for row in rows if re.fullmatch(r"[\d.e-]+", row[-1])][-120:]
        self.assertEqual(len(rows), 120)
        for row in rows:
            self.assertAlmostEqual(math.fsum(map(float, row[-3:])), 1, 3)

    # ---- N: readers ----

    def test_N1_ids_that_are_text(self):
        self.assertEqual(self.good("mf", "--data", case("N1"), "--model-out", "m").items, 400)
        self.direct("mf", "--predict", "m", "--data", case("N1"), "--out", "predictions")
        pairs = [line.split(",")[:2] for line in pathlib.Path(case("N1")).read_text().splitlines()[1:]]
        self.assertEqual([line.split("\t")[:2] for line in self.lines("predictions")][-400:], pairs)

    def test_N10_large_indexes(self):
        self.assertEqual(self.good("mlr", "--data", case("N10")).items, 24)

    def test_N11_keys_end_at_the_first_dot(self):
        self.check_images("N11")

    def test_N13_jpeg_in_cmyk(self):
        self.check_images("N13")

    def check_images(self, name):
        names = subprocess.run(["tar", "tf", case(name)], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(self.good("mlr", "--data", case(name)).items, sum(name.endswith(".jpg") for name in names))

    def test_N17_indexes_alone(self):
        lines = pathlib.Path(case("N17")).read_text()
        self.write("alike", re.sub("^(2 2 5)$", r"\1 7", lines, flags=re.M))  # no line is shorter than others
        libsvm = ("--format", "libsvm")
        for name, options in ((case("N17"), ()), (case("N17"), libsvm), ("alike", libsvm)):
            job = self.good("mlr", "--data", name, *options)
            self.assertEqual((job.items, job.summary["train_accuracy"]), (16, 1))

    def test_N18_counts_that_are_whole_floats(self):
        job = self.good("lda", "--data", case("N18"), "--topics", "3")
        self.assertEqual(job.items, 40)
        self.assertEqual(job.summary["log_likelihood_per_token"], self.likelihood_of_the_same("3"))

    def test_N3_dates(self):
        self.assertEqual(self.good("mf", "--data", case("N3")).items, 400)

    def test_N5_trailing_separators(self):
        job = self.good("mlr", "--data", case("N5"))
        self.write("without", re.sub(",$", "", pathlib.Path(case("N5")).read_text(), flags=re.M))
        self.assertEqual((job.items, job.summary["loss"]), (120, self.good("mlr", "--data", "without").summary["loss"]))

    def test_N8_qid(self):
        job = self.good("mlr", "--data", case("N8"))
        self.write("without", re.sub(" qid:0", "", pathlib.Path(case("N8")).read_text()))
        self.assertEqual((job.items, job.summary["loss"]), (24, self.good("mlr", "--data", "without").summary["loss"]))


if __name__ == "__main__":
    unittest.main()
