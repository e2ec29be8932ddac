#!/usr/bin/env python3
"""The HTTP server of a job: real controllers and jobs, real sockets. Finds the programs by $PROTEUS_BIN."""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import browser

BIN = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve()
PROTEUS = BIN / "proteus"
PATIENCE_S = 120  # for what takes seconds; no time is asserted
TOKEN = "0123456789abcdef0123"
READERS = 500
READERS_BYTES = 96 << 20  # that the controller may grow by for them: 32 KiB a connection, its buffers, and the lines


class Folder(unittest.TestCase):
    endpoint = None  # of the last controller

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="server-test-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "token").write_text(TOKEN + "\n", encoding="ascii")
        (self.folder / "token").chmod(0o600)

    def start(self, *arguments, until="page at ", program=PROTEUS):
        """Starts the program and waits for the line with the page's address, which it returns: host, port."""
        process = subprocess.Popen([program, *arguments], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in process.stdout:
            self.endpoint = line.split()[2] if line.startswith("listening on ") else self.endpoint
            if until in line:
                found = re.search(r"//(\[.*\]|[^:/]*):(\d+)/", line)
                self.process = process
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return found.group(1).strip("[]"), int(found.group(2))
        self.fail("no line with the page's address")
        return None

    def controller(self, *arguments):
        self.address = self.start("controller", "--listen", "tcp://127.0.0.1:0", "--http", "auto", "--progress",
                                  "plain", "--start-timeout", "3600", *arguments)

    def job(self, *arguments, app=()):
        """A job of mf that goes on until it is stopped."""
        with open(self.folder / "ratings", "w", encoding="ascii") as file:
            for user in range(1, 101):
                file.writelines(f"{user} {(user * item) % 97 + 1} {1 + (user + item) % 5}\n" for item in range(1, 21))
        self.address = self.start("run", "--http", "auto", "--progress", "plain", "--report",
                                  "report", *arguments, "--", "mf", "--data", "ratings", "--rank", "4",
                                  "--iterations", "100000000", *app)

    def connect(self, **more):
        return http.client.HTTPConnection(*self.address, timeout=PATIENCE_S, **more)

    def ask(self, path, method="GET", body=None, token=None, **headers):
        """Returns status, headers and text."""
        connection = self.connect()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def post(self, path, body, token=TOKEN, **headers):
        return self.ask(path, "POST", json.dumps(body), token, **{"Content_Type": "application/json", **headers})

    def history(self):
        status, _, text = self.ask("/api/history")
        self.assertEqual(status, 200)
        lines = [json.loads(line) for line in text.splitlines()]
        return lines[0], lines[1:]

    def wait(self, condition):
        until = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), until, "it did not come")
            time.sleep(0.02)

    def wait_for_event(self, event, times=1):
        self.wait(lambda: (self.folder / "report").read_text(encoding="utf-8").count(f'"event":"{event}"') >= times)


class Access(Folder):
    def status(self, *arguments, **more):
        return self.ask(*arguments, **more)[0]

    def test_without_a_token(self):
        self.controller()
        for path in ("/", "/healthz", "/api/status", "/api/history", "/api/report"):
            self.assertEqual(self.status(path), 200, path)
        self.assertEqual(self.status("/readyz"), 503)
        self.assertEqual(self.status("/nothing"), 404)
        self.assertEqual(json.loads(self.ask("/api/status")[2])["phase"], "gather")
        for host in ("evil.example", "evil.example:80", "127.evil.example", ""):
            self.assertEqual(self.status("/api/status", Host=host), 403, host)
        for host in ("localhost", "127.0.0.1:80", "[::1]:80", "127.1.2.3"):
            self.assertEqual(self.status("/api/status", Host=host), 200, host)
        for path in ("/api/login", "/api/evict", "/api/stop", "/api/checkpoint"):
            self.assertEqual(self.post(path, {})[0], 403, path)
            self.assertEqual(self.post(path, {}, token=None)[0], 403, path)
            self.assertEqual(self.status(path), 405, path)
        self.assertIn("without --http-token", self.post("/api/stop", {})[2])
        self.assertIn("expected localhost", self.ask("/api/status", Host="evil.example")[2])
        for path in ("/api/report", "/api/events"):
            for place in ("x", "-1", "1x", ""):
                self.assertEqual(self.status(f"{path}?from={place}"), 400, (path, place))
        for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
            self.assertEqual(self.status("/api/status", method), 405, method)
        self.assertIsNone(self.process.poll())

    def test_headers_of_every_answer(self):
        self.controller()
        for path in ("/", "/healthz", "/nothing", "/api/status"):
            headers = self.ask(path)[1]
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"], path)
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["X-Frame-Options"], "DENY")
            self.assertEqual(headers["Cache-Control"], "no-store")

    def test_the_token(self):
        self.controller("--http-token", "token")
        for path in ("/api/status", "/api/history", "/api/report", "/api/events"):
            for wrong in (None, TOKEN[:-1], TOKEN + "0", TOKEN[:-1] + "x", ""):
                answer = self.ask(path, token=wrong)
                self.assertEqual((answer[0], answer[1]["WWW-Authenticate"]), (401, "Bearer"), (path, wrong))
        self.assertIn("expected the header", self.ask("/metrics")[2])
        self.assertIn("not the token", self.ask("/metrics", token=TOKEN + "0")[2])
        self.assertEqual(self.status("/api/status", token=TOKEN), 200)
        self.assertEqual(self.status("/api/status", Authorization=f"Basic {TOKEN}"), 401)
        self.assertEqual(self.status("/"), 200)
        self.assertEqual(self.status("/healthz"), 200)
        self.assertEqual(self.post("/api/login", {}, token="guess")[0], 401)
        answer = self.post("/api/login", {})
        self.assertEqual(answer[0], 204)
        cookie = answer[1]["Set-Cookie"]
        self.assertIn("HttpOnly; SameSite=Strict", cookie)
        session = cookie.split(";")[0]
        self.assertNotIn(TOKEN, session)
        self.assertEqual(self.status("/api/status", Cookie=session), 200)
        self.assertEqual(self.status("/api/status", Cookie=session[:-1] + "g"), 401)
        self.assertEqual(self.post("/api/stop", {}, token=None, Cookie=session)[0], 401, "a cookie may only read")
        own = f"http://{self.address[0]}:{self.address[1]}"
        for origin in ("http://evil.example", "null", own + "0", "https://evil.example:1"):
            self.assertEqual(self.post("/api/stop", {}, Origin=origin)[0], 403, origin)
        self.assertEqual(self.post("/api/login", {}, Origin=own)[0], 204)
        self.assertEqual(self.ask("/api/stop", "POST", "now=1", TOKEN,
                                  Content_Type="application/x-www-form-urlencoded")[0], 400)
        for path, body in (("/api/stop", []), ("/api/stop", {"now": 1}), ("/api/stop", {"nwo": True}),
                           ("/api/stop", {"now": True, "more": 1}), ("/api/checkpoint", {"now": True}),
                           ("/api/evict", {}),
                           ("/api/evict", {"nodes": []}), ("/api/evict", {"nodes": [""]}),
                           ("/api/evict", {"nodes": ["x" * 64]}), ("/api/evict", {"nodes": ["n"], "notice": 30}),
                           ("/api/evict", {"nodes": ["n"], "notice_seconds": 86401}),
                           ("/api/evict", {"nodes": ["n"], "notice_seconds": -1})):
            answer = self.post(path, body)
            self.assertEqual(answer[0], 400, (path, body))
            self.assertIn("expected {", json.loads(answer[2])["text"])
        self.assertIsNone(self.process.poll())

    def test_limits(self):
        self.controller("--http-token", "token")
        self.assertEqual(self.post("/api/evict", {"nodes": ["x"], "more": "x" * (70 << 10)})[0], 413)
        for path, headers in (("/" + "x" * (64 << 10), {}), ("/", {"X_Long": "x" * (64 << 10)})):
            try:
                status = self.ask(path, **headers)[0]
            except (ConnectionError, http.client.HTTPException):
                status = 400  # it was closed
            self.assertGreaterEqual(status, 400)
        for bytes_sent in (b"G\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST /api/stop HTTP/1.1\r\n"
                           b"Host: localhost\r\nContent-Length: -1\r\n\r\n", b"\x16\x03\x01" + b"\xff" * 200):
            with socket.create_connection(self.address, timeout=PATIENCE_S) as connection:
                connection.sendall(bytes_sent)  # an incomplete line may wait for more
            with socket.create_connection(self.address, timeout=PATIENCE_S) as connection:
                connection.sendall(bytes_sent + b"\r\n\r\n")
                self.assertNotIn(b" 200 ", connection.recv(1 << 16)[:20])
        self.assertEqual(self.status("/healthz"), 200)

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def certificate(self, name, *more):
        """NAME.pem and NAME.key, signed by itself or, with `more`, by ca.pem."""
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                     "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem", *more)
        (self.folder / f"{name}.key").chmod(0o600)

    def test_tls_and_certificates(self):
        self.certificate("server", "-addext", "subjectAltName=IP:127.0.0.1")
        self.certificate("ca")
        self.certificate("client", "-CA", "ca.pem", "-CAkey", "ca.key")
        self.certificate("stranger")
        files = ["--http-cert", "server.pem", "--http-cert-key", "server.key"]
        self.controller(*files, "--http-token", "token")

        def status(path, name=None, **headers):
            context = ssl.create_default_context(cafile=self.folder / "server.pem")
            if name:
                context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
            connection = http.client.HTTPSConnection(*self.address, timeout=PATIENCE_S, context=context)
            try:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                self.assertTrue(answer.headers["Strict-Transport-Security"])
                return answer.status
            except (ssl.SSLError, ConnectionError, http.client.HTTPException):
                return 0
            finally:
                connection.close()

        self.assertEqual(status("/healthz"), 200)
        self.assertEqual(status("/api/status"), 401)
        self.assertEqual(status("/api/status", Authorization=f"Bearer {TOKEN}"), 200)
        self.controller(*files, "--http-client-ca", "ca.pem")
        self.assertIn(status("/api/status"), (0, 403))
        self.assertIn(status("/api/status", "stranger"), (0, 403))
        self.assertEqual(status("/api/status", "client"), 200)

    def test_bad_options(self):
        (self.folder / "short").write_text("abc\n", encoding="ascii")
        (self.folder / "two").write_text(f"{TOKEN}\n{TOKEN}\n", encoding="ascii")
        (self.folder / "open").write_text(TOKEN, encoding="ascii")
        for name in ("short", "two"):
            (self.folder / name).chmod(0o600)
        (self.folder / "open").chmod(0o644)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for message, *arguments in (
                    ("expected HOST:PORT", "--http", "nonsense"), ("expected HOST:PORT", "--http", "::1:80"),
                    ("a port from 0 to 65535", "--http", "127.0.0.1:99999"),
                    ("--http ", "--http", "no.such.host.invalid:1"),
                    ("other machines reach this address", "--http", "0.0.0.0:0"),
                    ("in the clear", "--http", "0.0.0.0:0", "--http-token", "token"),
                    ("expected both or none", "--http", "auto", "--http-cert", "x"),
                    ("expected --http-cert with it", "--http", "auto", "--http-client-ca", "x"),
                    ("--http-token: expected --http HOST:PORT with it", "--http-token", "token"),
                    ("--http-cert-key: expected --http HOST:PORT with it", "--http-cert-key", "token"),
                    ("--http-token missing: No such file", "--http", "auto", "--http-token", "missing"),
                    ("--http-token: no such file; expected the path", "--http", "auto", "--http-token", TOKEN),
                    ("expected one line of 16 to", "--http", "auto", "--http-token", "short"),
                    ("expected one line of 16 to", "--http", "auto", "--http-token", "two"),
                    ("open", "--http", "auto", "--http-token", "open"),
                    ("in PEM format", "--http", "auto", "--http-cert", "token", "--http-cert-key", "token"),
                    ("Address already in use", "--http", f"127.0.0.1:{taken.getsockname()[1]}")):
                done = subprocess.run([PROTEUS, "controller", "--listen", "tcp://127.0.0.1:0", *arguments],
                                      cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), (arguments, done.stderr))
                self.assertIn(message, done.stderr)
                self.assertNotIn(TOKEN, done.stderr)


class Job(Folder):
    def events(self, query):
        """Yields (event, id, data) of a stream until it ends."""
        connection = self.connect()
        connection.request("GET", "/api/events" + query)
        answer = connection.getresponse()
        self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
        fields = {}
        try:
            for line in answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    fields[name.rstrip(":")] = value
                elif fields:
                    yield fields.get("event", "message"), int(fields.get("id", -1)), fields.get("data", "")
                    fields = {}
        finally:
            connection.close()

    def test_a_stream_and_a_controller_that_is_killed(self):
        """A reader gets each line once, whatever happens to the controller; so does one that comes late or lags."""
        (self.folder / "events").write_text("iteration 60 kill controller\niteration 70 start controller\n"
                                            "seconds 6.5 kill controller\nseconds 7 start controller\n",
                                            encoding="ascii")  # the history's file is written after 5 s
        self.job("--transient", "2", "--events", "events", app=["--seconds", "12"])
        head, lines = self.history()
        self.assertTrue(head["whole"])
        place, run, ended, connections = head["next"], head["run"], False, 0
        while not ended:
            connections += 1
            try:
                if connections > 1:
                    late = self.events(f"?run={run}&from=3")
                    self.assertEqual([next(late)[1] for _ in range(3)], [3, 4, 5])
                for event, number, data in self.events(f"?run={run}&from={place}"):
                    self.assertNotEqual(event, "reset", "the history was lost")
                    ended = event == "end"
                    if event == "message":
                        self.assertEqual(number, place)
                        place += 1
                        lines.append(json.loads(data))
            except (ConnectionError, http.client.HTTPException):
                self.assertIsNone(self.process.poll(), "the job ended before its readers")
                time.sleep(0.05)
        self.assertGreaterEqual(connections, 3)
        self.process.wait(timeout=PATIENCE_S)
        report = [json.loads(line) for line in (self.folder / "report").read_text(encoding="utf-8").splitlines()]
        self.assertEqual(lines, report)

    def test_readers_that_ask_for_what_is_not_there(self):
        self.job()
        head, _ = self.history()
        for query in ("?run=0000000000000000&from=0", f"?run={head['run']}&from=1000000000"):
            self.assertEqual([event for event, _, _ in self.events(query)], ["reset"], query)
        stream = self.events(f"?run={head['run']}&from=0")
        self.assertEqual([next(stream)[1] for _ in range(3)], [0, 1, 2])
        stream.close()
        self.wait_for_event("start")
        connection = self.connect()
        connection.request("GET", "/api/events", headers={"Last-Event-ID": "1"})
        self.assertEqual(connection.getresponse().readline(), b"id: 2\n")
        connection.close()
        def report():
            return (self.folder / "report").read_text(encoding="utf-8").splitlines()

        self.wait(lambda: self.history()[0]["next"] > 20 and len(report()) > 20)
        lines = self.ask("/api/report?from=2")[2].splitlines()
        self.assertEqual(json.loads(lines[0])["from"], 2)
        self.assertEqual(lines[1:11], report()[2:12])

    def metrics(self, **headers):
        """{series: value} of /metrics, whose format is checked by promtool where that is there."""
        status, answer, text = self.ask("/metrics", **headers)
        self.assertEqual(status, 200)
        found = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                series, _, value = line.rpartition(" ")
                self.assertNotIn(series, found, "twice")
                found[series] = float(value)
        if not headers and shutil.which("promtool"):
            checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True,
                                     check=False)
            self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))
        self.assertEqual(text.endswith("# EOF\n"), "openmetrics" in answer["Content-Type"])
        return found

    def test_metrics(self):
        (self.folder / "events").write_text("iteration 100 kill transient 1\n", encoding="ascii")
        self.job("--transient", "3", "--events", "events", "--checkpoint", "checkpoints")
        self.wait_for_event("recover")
        self.wait_for_event("checkpoint")
        self.wait(lambda: self.metrics()["proteus_recovery_seconds_count"] == 1)
        first = self.metrics()
        self.assertEqual(first["proteus_failures_total"], 1)
        self.assertEqual(first['proteus_recovery_seconds_bucket{le="+Inf"}'], 1)
        self.assertGreaterEqual(first["proteus_checkpoints_total"], 1)
        self.assertEqual(first['proteus_events_total{event="start"}'], 1)
        self.assertEqual(sum(value for series, value in first.items() if series.startswith("proteus_nodes{")), 3)
        self.assertEqual(len([series for series in first if series.startswith("proteus_node_up{")]), 3)
        self.wait(lambda: self.metrics()["proteus_iterations_total"] > first["proteus_iterations_total"] + 10)
        later = self.metrics(Accept="application/openmetrics-text; version=1.0.0")
        counters = [series for series in first if "_total" in series]
        self.assertGreater(len(counters), 20)
        for series in counters:
            self.assertGreaterEqual(later[series], first[series], series)

    def test_requests_to_the_job(self):
        self.job("--transient", "3", "--checkpoint", "checkpoints", "--http-token", "token")
        self.assertEqual(self.ask("/api/status")[0], 401)
        self.wait_for_event("start")
        self.wait(lambda: self.ask("/readyz")[0] == 200)
        status, _, text = self.post("/api/evict", {"nodes": ["node-9"]})
        self.assertEqual((status, json.loads(text)["ok"]), (400, False))
        self.assertIn("node-9", json.loads(text)["text"])
        status, _, text = self.post("/api/evict", {"nodes": ["node-4"], "notice_seconds": 60})
        self.assertEqual((status, json.loads(text)), (200, {"ok": True, "text": ""}))
        self.wait_for_event("evicted")
        status, _, text = self.post("/api/evict", {"nodes": ["node-9", "node-3"], "notice_seconds": 60})
        self.assertEqual((status, json.loads(text)["ok"]), (400, False))
        self.assertIn("'node-9'; the other nodes leave", json.loads(text)["text"])
        self.wait_for_event("evicted", 2)
        status, _, text = self.post("/api/checkpoint", {})
        self.assertEqual(status, 200, text)
        self.assertIn("checkpoints/clock-", json.loads(text)["text"])
        self.assertEqual(self.post("/api/stop", {})[0], 200)
        self.assertEqual(self.process.wait(timeout=PATIENCE_S), 0)
        summary = json.loads((self.folder / "report").read_text(encoding="utf-8").splitlines()[-1])
        self.assertEqual((summary["ok"], summary["evictions"], summary["failures"]), (True, 2, 0))

    def resident(self):
        """Bytes of the controller's memory."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid), "-f", "proteus controller"], capture_output=True,
                               text=True, check=True).stdout.split()
        text = pathlib.Path(f"/proc/{found[0]}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s*(\d+) kB", text).group(1)) << 10

    def test_readers_that_read_nothing(self):
        """They cost bounded memory, and neither the job nor others wait for them."""
        self.job()
        self.wait_for_event("start")
        self.wait(lambda: self.history()[0]["next"] > 500)
        before = self.resident()
        readers = []
        for number in range(READERS):
            reader = socket.socket()
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(self.address)
            path = ("/api/events?from=0", "/api/history", "/api/status", "/")[number % 4]
            reader.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            readers.append(reader)
        at = self.history()[0]["next"]
        self.wait(lambda: self.history()[0]["next"] > at + 2000)
        self.assertEqual(self.ask("/healthz")[0], 200)
        if "PROTEUS_SANITIZED" not in os.environ:
            self.assertLess(self.resident() - before, READERS_BYTES)
        for reader in readers:
            reader.close()
        self.assertEqual(self.ask("/api/status")[0], 200)
        self.process.send_signal(signal.SIGINT)
        self.assertNotEqual(self.process.wait(timeout=PATIENCE_S), 0)


class Money(Folder):
    """The page of bidbrain itself, which buys in a market of its own for a job at a controller."""

    def setUp(self):
        super().setUp()
        (self.folder / "prices").mkdir()
        for kind, dollars in (("m3.large", 0.02), ("c3.xlarge", 0.04)):
            lines = (f"2016-0{month}-{day:02}T00:00:00Z,{dollars}\n" for month in (2, 3) for day in range(1, 29))
            (self.folder / "prices" / f"{kind}-us-east-1a.csv").write_text(
                "timestamp_utc,price_usd\n" + "".join(lines), encoding="ascii")
        with open(self.folder / "ratings", "w", encoding="ascii") as file:
            for user in range(1, 101):
                file.writelines(f"{user} {(user * item) % 97 + 1} {1 + (user + item) % 5}\n" for item in range(1, 21))
        self.start("controller", "--listen", "tcp://127.0.0.1:0", "--reliable", "1", "--transient", "0",
                   "--http", "auto", "--progress", "plain", "--report", "report", "--store", "store",
                   "--start-timeout", "3600")
        (self.folder / "bidbrain.json").write_text(json.dumps({
            "job": "test", "provider": "local", "prices": "prices", "model": "ec2", "state": "state.db",
            "clock": {"start": "2016-03-01T00:00:00Z", "speed": 60}, "notice_seconds": 1200,
            "markets": {"types": ["m3.large", "c3.xlarge"], "zones": ["us-east-1a"]},
            "node": {"app": "mf", "binary": str(BIN / "mf"), "threads": 1,
                     "arguments": ["--data", str(self.folder / "ratings"), "--iterations", "0", "--seconds", "1000",
                                   "--poll-notice", "0.05"]},
            "controller": self.endpoint, "on_demand": {"type": "m3.large"},
            "application": {"phi": 0.9, "measure": False}, "limits": {"most_vcpus": 8}}), encoding="ascii")

    def bidbrain(self, *arguments):
        self.address = self.start("run", "--config", "bidbrain.json", "--report", "bids", *arguments,
                                  program=BIN / "bidbrain")

    def lines(self, kind):
        return [line for line in self.history()[1] if line["type"] == kind]

    def look_at_the_page(self):
        """Nothing that is about a job is shown."""
        if browser.missing():
            print(browser.missing(), file=sys.stderr)
            return
        shown = "return [...document.querySelectorAll('section')].filter(one => !one.hidden).map(one => one.id)"
        with browser.Browser() as page:
            page.open(f"http://{self.address[0]}:{self.address[1]}/")
            self.wait(lambda: page.run("return document.querySelector('h1').textContent") == "BidBrain: test")
            self.assertEqual(page.run(shown), ["money"])
            self.assertEqual(page.run("return document.getElementById('state').textContent"), "running")

    def test_the_page_of_bidbrain(self):
        self.bidbrain("--http", "auto")
        self.wait(lambda: any(line["spot_dollars"] > 0 for line in self.lines("money")))
        money, decisions = self.lines("money"), self.lines("decision")
        self.assertTrue(any("markets" in line and line["markets"] for line in money))
        self.assertTrue(decisions)
        self.assertTrue(all(line["seconds"] >= 0 and "iteration" in line for line in money + decisions))
        status = json.loads(self.ask("/api/status")[2])
        self.assertEqual(status["job"], "test")
        self.assertGreaterEqual(status["machines"], 2)
        self.assertEqual(self.ask("/readyz")[0], 200)
        self.assertEqual(self.ask("/healthz")[0], 200)
        for path in ("/api/evict", "/api/stop", "/api/checkpoint"):
            self.assertEqual(self.post(path, {})[0], 404, path)
        for name in ("text/plain", "application/openmetrics-text"):
            text = self.ask("/metrics", Accept=name)[2]
            kinds = dict(re.findall(r"^# TYPE (bidbrain_[a-z_]+) (\w+)$", text, flags=re.M))
            self.assertEqual([name for name, kind in kinds.items() if kind != "gauge"],
                             ["bidbrain_decisions" if "openmetrics" in name else "bidbrain_decisions_total"])
            self.assertIn('bidbrain_dollars_spent{kind="spot"}', text)
            self.assertIn('bidbrain_machines{market="m3.large/us-east-1a on demand"} 1', text)
            self.assertNotIn('bidbrain_spot_price_dollars{market="m3.large/us-east-1a on demand"}', text)
            self.assertNotIn("proteus_", text)
        if shutil.which("promtool"):
            checked = subprocess.run(["promtool", "check", "metrics"], input=self.ask("/metrics")[2], text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.assertEqual((checked.returncode, checked.stdout), (0, ""))
        self.look_at_the_page()
        # Killed and started again it goes on with its history, as far as that was in its file.
        before = self.history()[1]
        kept = self.folder / "state.db-history"
        self.wait(lambda: kept.exists() and before[-1]["time"] in kept.read_text(encoding="utf-8"))
        self.process.kill()
        self.process.wait()
        self.bidbrain("--http", "auto")
        self.assertEqual([line["time"] for line in self.history()[1]][:len(before)], [line["time"] for line in before])
        self.wait(lambda: len(self.history()[1]) > len(before))
        secret = (self.folder / "machines" / "credentials").read_text(encoding="ascii").split()[-1]
        self.assertNotIn(secret, self.ask("/api/history")[2] + self.ask("/api/report")[2])
        self.process.terminate()
        self.process.wait()

    def test_wrong_options(self):
        for arguments in (["--http", "0.0.0.0:0"], ["--http", "nowhere"], ["--http-token", "token"],
                          ["--http", "auto", "--http-cert", "token"]):
            refused = subprocess.run([BIN / "bidbrain", "run", "--config", "bidbrain.json", *arguments],
                                     cwd=self.folder, capture_output=True, text=True, check=False)
            self.assertEqual(refused.returncode, 2, arguments)
            self.assertIn("bidbrain: error: --http", refused.stderr)
        self.assertFalse((self.folder / "state.db").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
