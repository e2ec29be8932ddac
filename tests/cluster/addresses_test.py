#!/usr/bin/env python3
"""Addresses of data as people write them, before a small server that answers as S3 does, and as a web server: a bucket
without a key, keys with brackets, blanks and signs, redirects. Does not check signatures (identity_test.py does). Finds
the programs in $PROTEUS_BIN."""
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import unittest
import urllib.parse

sys.dont_write_bytecode = True
from background import PATIENCE_S, PROGRAMS, Background

# The number of ratings tells the objects apart.
OBJECTS = {"br[1].csv": 11, "br1.csv": 12, "br2.csv": 13, "dir/part-1.csv": 14, "dir/part-2.csv": 15,
           "a b+c%20#1.csv": 16, "what?.csv": 17, "whats.csv": 18, "star*.csv": 19, "stars.csv": 20,
           "\u00e4/\u00f6[0].csv": 21, "e/../f.csv": 22, "only[12].csv": 23}
READ = [("br[1].csv", 11), ("br[12].csv", 25), ("br?.csv", 25), ("dir/", 29), ("dir/part-*.csv", 29),
        ("a b+c%20#1.csv", 16), ("what?.csv", 17), ("star*.csv", 19), ("\u00e4/\u00f6[0].csv", 21), ("e/../f.csv", 22),
        ("only[12].csv", 23)]
REFUSED = [("s3://bkt", "expected s3://BUCKET/KEY"), ("s3://bkt/none.csv", "s3://bkt/none.csv"),
           ("s3://bkt/none[1].csv", "nothing there that matches"), ("s3://bkt/dir", "s3://bkt/dir"),
           ("gs://bkt/br1.csv", "an address of a kind that is not known"),
           ("SERVER/moved", "it redirects to https://elsewhere.example/new"),
           ("s3://bkt/elsewhere", "elsewhere.example")]


def ratings(count):
    return "".join(f"{n % 7},{n},{n % 5 + 1}\n" for n in range(count)).encode()


def encoded(key):
    return urllib.parse.quote_plus(key, safe="/")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def list(self, query):
        prefix = query.get("prefix", [""])[0]
        keys = sorted((key for key in OBJECTS if key.startswith(prefix)), key=str.encode)
        slash = query.get("delimiter", [""])[0]
        folders = sorted({prefix + key[len(prefix):].partition("/")[0] + "/" for key in keys
                          if slash and "/" in key[len(prefix):]})
        items = [f"<Contents><Key>{encoded(key)}</Key><Size>{len(ratings(OBJECTS[key]))}</Size></Contents>"
                 for key in keys if not slash or "/" not in key[len(prefix):]]
        items += [f"<CommonPrefixes><Prefix>{encoded(folder)}</Prefix></CommonPrefixes>" for folder in folders]
        self.reply(200, f"<ListBucketResult><EncodingType>url</EncodingType>{''.join(items)}<IsTruncated>false"
                        "</IsTruncated></ListBucketResult>".encode())

    def do_GET(self):
        path, _, query = self.path.partition("?")
        key = urllib.parse.unquote(path).removeprefix("/bkt/")
        if "list-type=2" in query:
            self.list(urllib.parse.parse_qs(query))
        elif key in ("/moved", "elsewhere"):
            self.reply(302, Location="https://elsewhere.example/new?signature=secret")
        elif key not in OBJECTS:
            self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            body = ratings(OBJECTS[key])
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if found is None:
                self.reply(200, body, ETag='"1"')
            else:
                first, last = int(found.group(1)), min(int(found.group(2)), len(body) - 1)
                self.reply(206, body[first:last + 1], ETag='"1"',
                           Content_Range=f"bytes {first}-{last}/{len(body)}")

    do_HEAD = do_GET


class Addresses(Background):
    @classmethod
    def begin(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.url = f"http://127.0.0.1:{cls.server.server_port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()
        super().tearDownClass()

    def train(self, data):
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment = {**own, "AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "S", "AWS_ENDPOINT_URL_S3": self.url}
        report = self.folder / "report"
        report.unlink(missing_ok=True)
        done = subprocess.run([PROGRAMS / "proteus", "run", "--progress", "plain", "--report", report, "--",
                               PROGRAMS / "mf", "--iterations", "1", "--data", data], env=environment, cwd=self.folder,
                              capture_output=True, text=True, timeout=PATIENCE_S)
        return done, report

    def test_the_object_of_the_whole_name_goes_first(self):
        for key, count in READ:
            with self.subTest(key=key):
                done, report = self.train(f"s3://bkt/{key}")
                self.assertEqual(done.returncode, 0, done.stderr)
                lines = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
                self.assertEqual([line["items_processed"] for line in lines if line["type"] == "summary"], [count])

    def test_what_is_no_data_is_named(self):
        for address, said in REFUSED:
            with self.subTest(address=address):
                done, _ = self.train(address.replace("SERVER", self.url))
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(said, done.stderr)
                self.assertNotIn("secret", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
