#!/usr/bin/env python3
"""The page of a job in a headless Chromium: as a file that `proteus report` has made, and what that command refuses.
Without Chromium and chromedriver only the command is tested. Finds the programs by $PROTEUS_BIN."""
import contextlib
import functools
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree

import browser
import made_report

PROTEUS = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve() / "proteus"
LIVE_PAGE = PROTEUS.parent.parent / "web" / "page" / "page.html"
PATIENCE_S = 120  # for what takes seconds; no time is asserted


@functools.cache
def the_browser():
    started = browser.Browser()
    unittest.addModuleCleanup(started.__exit__)
    return started


@contextlib.contextmanager
def renewed_browser():
    """All tests have one browser, one after the other."""
    the_browser().renew()
    yield the_browser()


def in_browser(test):
    reason = "the browser is not sanitized" if "PROTEUS_SANITIZED" in os.environ else browser.missing()
    return unittest.skipIf(reason, reason)(test)


class Folder(unittest.TestCase):
    """Each test has a folder, in which it runs `proteus report`."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="page-test-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def make(self, name, **job):
        """Writes a made-up report, and returns its lines."""
        lines = list(made_report.Job(**job).lines())
        self.write(name, "".join(json.dumps(line) + "\n" for line in lines))
        return lines

    def report(self, *arguments):
        return subprocess.run([PROTEUS, "report", *arguments], cwd=self.folder, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)

    def page(self, *arguments):
        done = self.report(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return (self.folder / "report.html").as_uri()


class Command(Folder):
    def assert_refused(self, message, *arguments):
        done = self.report(*arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(message, done.stderr)
        self.assertEqual([path.name for path in self.folder.glob("*.html*")], [], "half a page was left")

    def test_what_is_no_report(self):
        self.make("good.jsonl", seconds=5)
        self.write("empty.jsonl", "")
        self.write("damaged.jsonl", '{"type":"event","event":"start"}\n{"type":"event",\n{"type":"summary"}\n')
        self.write("other.jsonl", '{"type":"event","event":"start"}\n{"name":"x"}\n')
        self.write("text.jsonl", "iteration 1\niteration 2\n")
        self.write("gap.jsonl", '{"type":"event","event":"start"}\n\n{"type":"summary"}\n')
        self.write("bidbrain.jsonl", '{"type":"launch","time":"2026-03-01T00:01:03Z"}\n{"type":"summary"}\n')
        self.write("long.jsonl", '{"type":"event","reason":"' + "x" * (1 << 20) + '"}\n')
        self.assert_refused("no file; expected 'proteus report")
        self.assert_refused("missing.jsonl", "missing.jsonl")
        self.assert_refused("empty.jsonl: no line", "empty.jsonl")
        self.assert_refused("damaged.jsonl:2: ", "damaged.jsonl")
        self.assert_refused("other.jsonl:2: no type", "other.jsonl")
        self.assert_refused("text.jsonl:1: ", "text.jsonl")
        self.assert_refused("gap.jsonl:2: an empty line", "gap.jsonl")
        self.assert_refused("bidbrain.jsonl:1: a line of the report of 'bidbrain run'", "bidbrain.jsonl")
        self.assert_refused("long.jsonl:1: a line of more than 1 MiB", "long.jsonl")
        self.assert_refused("damaged.jsonl:2: ", "good.jsonl", "damaged.jsonl")
        self.assert_refused("11 files, expected at most 10", *["good.jsonl"] * 11)
        self.assert_refused("--out good.jsonl: that is one of the reports", "--out", "good.jsonl", "good.jsonl")
        self.assert_refused("unknown option", "--output", "x.html", "good.jsonl")

    def test_options_behind_the_reports(self):
        self.make("good.jsonl", seconds=5)
        done = self.report("good.jsonl", "--out", "page.html")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue((self.folder / "page.html").exists())

    def test_a_line_that_a_kill_cut_off(self):
        self.write("cut.jsonl", '{"type":"event","event":"start","seconds":0}\n{"type":"iteration","itera')
        done = self.report("cut.jsonl")
        self.assertEqual(done.returncode, 0)
        self.assertIn("cut.jsonl:2: the last line is cut off", done.stderr)
        page = (self.folder / "report.html").read_text(encoding="utf-8")
        self.assertIn('"event":"start"', page)
        self.assertNotIn('"itera"', page)

    def test_nothing_in_a_report_becomes_a_part_of_the_page(self):
        evil = '</script><script>document.title="taken"</script><!--'
        self.write('a"<b>&.jsonl', json.dumps({"type": "event", "event": "failure", "seconds": 1, "nodes": [evil],
                                               "reason": evil}) + "\n")
        self.page('a"<b>&.jsonl')
        page = (self.folder / "report.html").read_text(encoding="utf-8")
        self.assertNotIn("<script>document", page)
        self.assertIn('data-name="a&quot;&lt;b&gt;&amp;.jsonl"', page)

    def test_a_long_report_is_thinned(self):
        """Of curves the page has points from the beginning to the end."""
        lines = self.make("long.jsonl", nodes=6, seconds=20000, churn=0.0005)
        self.assertGreater((self.folder / "long.jsonl").stat().st_size, 16e6)
        self.page("long.jsonl")
        page = (self.folder / "report.html").read_text(encoding="utf-8")
        self.assertLess(len(page), 6e6)
        data = page.split('class="report"')[1].split("</script>")[0].split(">")[1]
        kept = [json.loads(line) for line in data.splitlines()]
        for kind in ("iteration", "clock", "usage"):
            times = [line["seconds"] for line in kept if line["type"] == kind]
            before = [line["seconds"] for line in lines if line["type"] == kind]
            self.assertEqual((times[0], times[-1]), (before[0], before[-1]), kind)
            self.assertGreater(len(times), 500)
            self.assertLess(max(b - a for a, b in zip(times, times[1:])), before[-1] / 200)
        self.assertEqual(kept[-1]["type"], "summary")

    def test_usages_of_many_nodes_stay_together(self):
        """A usage of more than 500 nodes is several lines, which are one point of the curves."""
        lines = self.make("wide.jsonl", nodes=700, seconds=6000, step=5, churn=0)
        self.assertGreater(sum(len(json.dumps(line)) for line in lines if line["type"] == "usage"), 2e6)
        self.page("wide.jsonl")
        page = (self.folder / "report.html").read_text(encoding="utf-8")
        names = {}
        for line in re.findall(r'^{"type": "usage".*$', page, flags=re.M):
            usage = json.loads(line)
            names.setdefault(usage["seconds"], set()).update(node[0] for node in usage["nodes"])
        self.assertGreater(len(names), 8)
        self.assertEqual({len(found) for found in names.values()}, {700})

    def test_an_earlier_page_is_replaced_or_kept(self):
        self.make("good.jsonl", seconds=5)
        self.write("bad.jsonl", "{}\n")
        self.write("out.html", "earlier")
        self.assertEqual(self.report("--out", "out.html", "bad.jsonl").returncode, 2)
        self.assertEqual((self.folder / "out.html").read_text(encoding="utf-8"), "earlier")
        self.assertEqual(self.report("--out", "out.html", "good.jsonl").returncode, 0)
        self.assertIn("<title>Proteus</title>", (self.folder / "out.html").read_text(encoding="utf-8"))


def contrast(one, other):
    """The contrast ratio of two colours #rrggbb, by WCAG 2."""
    def luminance(colour):
        parts = [int(colour[place:place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


class Colours(unittest.TestCase):
    def test_contrast(self):
        """Texts and marks' letters have a contrast of 4.5, what is drawn one of 3, in the light and the dark look."""
        looks = re.findall(r":root {(.*?)}", LIVE_PAGE.read_text(encoding="utf-8"), flags=re.S)
        self.assertEqual(len(looks), 2)
        for look in looks:
            colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", look))
            for text in ("text", "dim", "link", "bad", "good"):
                for ground in ("ground", "panel"):
                    self.assertGreaterEqual(contrast(colours[text], colours[ground]), 4.5, (text, ground))
            for letter in ("c4", "c7", "c9", "leaving", "lost"):
                self.assertGreaterEqual(contrast(colours[letter], colours["ground"]), 4.5, letter)
            drawn = [name for name in colours if name not in ("ground", "panel", "line", "grid", "stripe")]
            self.assertGreater(len(drawn), 20)
            for name in drawn:
                self.assertGreaterEqual(contrast(colours[name], colours["ground"]), 3, name)
            for served in ("paramserv", "activeps", "backupps"):
                self.assertGreaterEqual(contrast(colours[served], colours["stripe"]), 3, served)


# What the page shows, as a reader of it would find out.
POINTS = """return Object.fromEntries([...document.querySelectorAll(arguments[0] + " figure")].map(figure =>
    [figure.querySelector("figcaption").textContent, figure.querySelector(".plot").getAttribute("aria-label")]))"""
ROWS = "return document.querySelectorAll(arguments[0] + ' tbody tr').length"
TEXT = "return document.querySelector(arguments[0]).textContent"
NOTES = "return document.querySelectorAll('#notes li').length"
COLOURED = """const canvas = document.getElementById("timeline-canvas");
    const bytes = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const wanted = [16, 8, 0].map(shift => arguments[0] >> shift & 255);
    for (let b = 0; b < bytes.length; b += 4) {
        if (wanted.every((part, place) => bytes[b + place] === part)) return true;
    }
    return false"""
CUT = """return [...document.querySelectorAll("dt, dd, .legend, figcaption")].filter(one =>
    one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1).map(one => one.textContent)"""
LABEL = "return document.getElementById('timeline-canvas').ariaLabel"
SHOW = "document.querySelector(arguments[0]).scrollIntoView()"


@in_browser
class FilePage(Folder):
    def open(self, page, address):
        page.open(address)
        page.wait("return document.getElementById('state').textContent !== 'reading the report'")

    def section(self, page, name):
        page.run(SHOW, f"#{name}")

    def assert_clean(self, page, address):
        """No error on the console, and no request to anywhere but the file itself."""
        self.assertEqual(page.console_errors(), [])
        self.assertEqual(set(page.requests()) - {address, "about:blank", "data:,"}, set())

    def points(self, page, section):
        """How many points the charts of a section have."""
        self.section(page, section)
        page.wait("return [...document.querySelectorAll(arguments[0] + ' .plot')].some(plot => plot.ariaLabel)",
                  f"#{section}")
        labels = page.run(POINTS, f"#{section}")
        return {name: int(re.search(r"(\d+) points?,", label).group(1)) for name, label in labels.items() if label}

    def test_a_report(self):
        lines = self.make("job.jsonl", nodes=8, seconds=60, money=True)
        address = self.page("job.jsonl")
        with renewed_browser() as page:
            self.open(page, address)
            self.assertEqual(page.run(TEXT, "#state"), "ended well")
            notes = [line["text"] for line in lines if line["type"] == "note"]
            self.assertEqual(page.run("return document.getElementById('notes').innerText").splitlines(), notes)
            iterations = [line for line in lines if line["type"] == "iteration"]
            tested = [line for line in iterations if line["test_rmse"] is not None]
            expected = {"Objective: train rmse": len(iterations), "Test rmse": len(tested)}
            self.assertEqual(self.points(page, "learning"), expected)
            usages = sum(1 for line in lines if line["type"] == "usage")
            self.assertEqual(set(self.points(page, "work").values()), {usages - 1})
            self.assertEqual(len(self.points(page, "money")), 4)
            self.section(page, "timeline")
            page.run("document.querySelector('#timeline-table').open = true")
            names = {node["name"] for line in lines if line["type"] == "nodes" for node in line["nodes"]}
            page.wait(f"{ROWS} === arguments[1]", "#timeline-table", len(names))
            self.assertIn(f"Timeline of {len(names)} nodes", page.run(LABEL))
            active = page.run("return getComputedStyle(document.documentElement).getPropertyValue('--activeps')")
            self.assertTrue(page.run(COLOURED, int(active.strip()[1:], 16)), "no ActivePS is drawn")
            self.section(page, "placement")
            page.wait(f"{ROWS} > 0", "#placement")
            self.assertNotIn("undefined", page.run("return document.body.innerText"))
            self.assertNotIn("NaN", page.run("return document.body.innerText"))
            self.assert_clean(page, address)

    def test_over_iterations_and_by_keys(self):
        self.make("job.jsonl", nodes=8, seconds=60)
        address = self.page("job.jsonl")
        with renewed_browser() as page:
            self.open(page, address)
            page.run("document.querySelector('input[value=iteration]').click()")
            page.wait("return document.querySelector('#learning .plot').ariaLabel?.includes('over iteration')")
            self.section(page, "timeline")
            page.wait(f"{LABEL}.includes('over iteration')")
            page.run("document.getElementById('timeline-canvas').focus()")
            page.keys("\ue015")  # arrow down
            page.wait(f"{TEXT}.startsWith('node-1 (reliable')", "#timeline-at")
            page.keys("\ue015++\ue014\ue00e\ue011")  # down, zoom, right, taller rows, all
            page.wait(f"{TEXT}.startsWith('node-2 (transient')", "#timeline-at")
            self.section(page, "events")
            page.wait(f"{ROWS} > 8", "#events")
            page.run("const box = document.querySelector('#events input'); box.value = 'node-3';"
                     "box.dispatchEvent(new Event('input'))")
            shown = page.run("return [...document.querySelectorAll('#events tbody tr')].map(row => row.textContent)")
            self.assertGreater(len(shown), 0)
            self.assertEqual([row for row in shown if "node-3" not in row], [])
            self.assert_clean(page, address)

    def test_several_reports(self):
        self.make("first.jsonl", nodes=4, seconds=30)
        self.make("second.jsonl", nodes=9, seconds=50, seed=2)
        address = self.page("first.jsonl", "second.jsonl")
        with renewed_browser() as page:
            self.open(page, address)
            self.points(page, "learning")
            legend = page.run(TEXT, "#learning .legend")
            self.assertRegex(legend, r"first\.jsonl .*second\.jsonl ")
            before = page.run(LABEL)
            page.run("const choice = document.getElementById('report'); choice.value = '1';"
                     "choice.dispatchEvent(new Event('change'))")
            self.section(page, "timeline")
            page.wait(f"{LABEL} !== arguments[0]", before)
            self.assert_clean(page, address)

    def test_who_takes_part_in_a_thinned_report(self):
        """The page does not have the lines any more that say when most nodes came and went."""
        lines = self.make("job.jsonl", nodes=200, seconds=500, churn=0.01)
        self.assertGreater(sum(len(json.dumps(line)) for line in lines if line["type"] == "nodes"), 6e6)
        present = {}
        for line in lines:
            for node in line["nodes"] if line["type"] == "nodes" else []:
                present[node["name"]] = node
        present = [node for node in present.values() if node["state"] not in ("left", "lost")]
        reliable = sum(node["tier"] == "reliable" for node in present)
        address = self.page("job.jsonl")
        with renewed_browser() as page:
            self.open(page, address)
            self.assertEqual(page.run(TEXT, "#notice"), "Some older lines of this long report were left out.")
            figures = dict(page.run("""return [...document.querySelectorAll("#figures div")]
                .map(figure => [...figure.children].map(part => part.textContent))"""))
            self.assertEqual(figures["Reliable + transient"], f"{reliable} + {len(present) - reliable}")
            self.section(page, "nodes")
            page.wait(f"{TEXT}.endsWith(' of ' + arguments[1])", "#nodes .pager span", len(present))

    def test_the_slowness_of_nodes_in_a_report(self):
        lines = self.make("job.jsonl", nodes=4, seconds=30)
        for line in lines:
            for n, node in enumerate(line["nodes"] if line["type"] == "usage" else []):
                node.append(1.37 if n == 0 else None)
        self.write("job.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        address = self.page("job.jsonl")
        with renewed_browser() as page:
            self.open(page, address)
            self.section(page, "nodes")
            page.wait(f"{TEXT}.includes('1.37')", "#nodes .holder")

    def test_charts_that_make_room(self):
        """A third chart has its row alone until a fourth comes: then neither is drawn over the other."""
        lines = self.make("job.jsonl", nodes=4, seconds=30)
        more = [{**line, "accuracy": 0.9, "loss": 1.5} if line["type"] == "iteration" else line for line in lines]
        self.write("job.jsonl", "".join(json.dumps(line) + "\n" for line in more))
        address = self.page("job.jsonl")
        with renewed_browser() as page:
            self.open(page, address)
            self.assertEqual(len(self.points(page, "learning")), 4)
            page.wait("""return [...document.querySelectorAll("#learning .plot")].every(plot =>
                plot.querySelector("canvas").getBoundingClientRect().width <= plot.clientWidth + 1)""")

    def figure(self, path):
        """A saved figure's elements, which need nothing else: (tag, attributes, text)."""
        root = xml.etree.ElementTree.parse(path).getroot()
        width, height = (float(side) for side in root.get("viewBox").split()[2:])
        self.assertGreater(min(width, height), 50)
        elements = [(element.tag.split("}")[1], element.attrib, "".join(element.itertext())) for element in root.iter()]
        for tag, at, _ in elements:
            self.assertIn(tag, ("svg", "g", "rect", "path", "text", "clipPath"))
            self.assertFalse({"class", "style", "href"} & set(at), (path.name, tag, at))
        return elements

    def test_figures_are_saved(self):
        lines = self.make("a.jsonl", seconds=40, money=True, nodes=9)
        evil = "</text><script>&\u00e9"
        node = {"name": evil, "tier": "reliable", "state": "started"}
        lines.append({"type": "nodes", "seconds": 41, "nodes": [node]})
        self.write("a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        address = self.page("a.jsonl")
        with renewed_browser() as page:
            page.look(1240, 5000)
            self.open(page, address)
            figures = {path.stem: self.figure(path) for path in page.save_figures(self.folder / "figures")}
            self.assertEqual(page.console_errors(), [])
        self.assertLessEqual({"objective-train-rmse", "items-per-second", "network-bytes-per-second",
                              "timeline-of-nodes", "prices-an-hour-and-our-bids", "dollars"}, set(figures))
        for name in ("objective-train-rmse", "items-per-second", "dollars"):
            longest = max(at["d"].count("L") for tag, at, _ in figures[name] if tag == "path")
            self.assertGreaterEqual(longest, 10, name)
        self.assertIn("Items per second", [text for tag, _, text in figures["items-per-second"] if tag == "text"])
        self.assertTrue(any("stroke-dasharray" in at for _, at, _ in figures["prices-an-hour-and-our-bids"]), "no bids")
        names = {node["name"] for line in lines if line["type"] == "nodes" for node in line["nodes"]}
        texts = {text for tag, _, text in figures["timeline-of-nodes"] if tag == "text"}
        self.assertLessEqual({name for name in names if len(name) < 16}, texts)

    def test_the_look(self):
        """Nothing sticks out at any width; dark where the reader wants it."""
        self.make("job.jsonl", nodes=200, seconds=40, money=True)
        address = self.page("job.jsonl")
        with renewed_browser() as page:
            for width, dark in ((1280, False), (1000, True), (700, False), (390, False), (390, True)):
                page.look(width, 900, dark)
                self.open(page, address)
                self.points(page, "money")
                self.assertLessEqual(page.run("return document.documentElement.scrollWidth"), width)
                self.assertEqual(page.run(CUT), [], f"cut off at a width of {width}")
                ground = page.run("return getComputedStyle(document.body).backgroundColor")
                self.assertEqual(ground, "rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
            self.assert_clean(page, address)


SHIFTS = """window.shifts = [];
    new PerformanceObserver(list => window.shifts.push(...list.getEntries().map(entry =>
        entry.sources.map(source => source.node?.id || source.node?.className || source.node?.nodeName).join())))
        .observe({ type: "layout-shift" })"""
NOTICES = """window.notices = [];
    const notice = document.getElementById("notice");
    new MutationObserver(() => window.notices.push(notice.textContent)).observe(notice, { childList: true })"""
SECTIONS = ("learning", "work", "timeline", "nodes", "placement", "events")


class Stub(http.server.ThreadingHTTPServer):
    """Answers as a job's server does, but as a test wants it: `lines` are the report, of which the history has those
    before `known`. `down`: every connection ends at once. `token`: what a login has to show."""
    daemon_threads = True

    def __init__(self, lines, known, token=None):
        super().__init__(("127.0.0.1", 0), StubHandler)
        self.lines, self.known, self.token, self.run = lines, known, token, "first"
        self.until = known  # events are sent up to here
        self.down = self.over = False
        self.asked = []  # the paths
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """A browser that goes away is no error."""


class StubHandler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, kind, text, status=200, **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(text.encode())), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_POST(self):
        good = self.headers["Authorization"] == f"Bearer {self.server.token}"
        self.answer("text/plain", "", 200 if good else 401, **({"Set_Cookie": "job=yes"} if good else {}))

    def do_GET(self):
        stub = self.server
        stub.asked.append(self.path)
        path = self.path.split("?")[0]
        if stub.down:
            self.close_connection = True
        elif path == "/":
            self.answer("text/html", LIVE_PAGE.read_text(encoding="utf-8"))
        elif stub.token and "job=yes" not in self.headers.get("Cookie", ""):
            self.answer("text/plain", "", 401)
        elif path == "/api/history":
            first = {"type": "history", "run": stub.run, "next": stub.known, "whole": True}
            lines = [first, *stub.lines[:stub.known]]
            self.answer("application/x-ndjson", "".join(json.dumps(line) + "\n" for line in lines))
        elif path == "/api/status":
            self.answer("application/json", json.dumps({"app": "made-up", "phase": "train", "nodes": []}))
        else:
            self.events(f"run={stub.run}&" in self.path, int(self.path.split("from=")[1]))

    def events(self, same_run, place):
        stub = self.server
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        if not same_run:
            self.wfile.write(b"event: reset\ndata:\n\n")
        while same_run and not stub.down:
            while place < stub.until:
                self.wfile.write(f"id: {place}\ndata: {json.dumps(stub.lines[place])}\n\n".encode())
                place += 1
            if stub.over:
                self.wfile.write(b"event: end\ndata:\n\n")
                return
            time.sleep(0.02)


@in_browser
class LivePage(unittest.TestCase):
    """A page that watches a server, through all that may happen between them."""

    def serve(self, **more):
        self.lines = list(made_report.Job(nodes=4, seconds=40).lines())
        stub = Stub(self.lines, len(self.lines) // 3, **more)
        self.addCleanup(stub.server_close)
        self.addCleanup(stub.shutdown)
        self.address = f"http://127.0.0.1:{stub.server_port}/"
        return stub

    def events_until(self, place):
        return sum(1 for line in self.lines[:place] if line["type"] == "event")

    def assert_shows(self, page, place):
        """The table of events counts those of the lines before `place`, each once."""
        page.run(SHOW, "#events")
        page.wait(f"{TEXT}.endsWith(' of ' + arguments[1])", "#events .pager span", self.events_until(place))

    def test_lines_come_as_they_are_written(self):
        stub = self.serve()
        with renewed_browser() as page:
            page.open(self.address)
            self.assert_shows(page, stub.known)
            page.wait(f"{TEXT} === 'training'", "#state")
            self.assertEqual(page.run(NOTES), 1)
            stub.until = len(self.lines) * 2 // 3
            self.assert_shows(page, stub.until)
            stub.until = len(self.lines)
            stub.over = True
            self.assert_shows(page, stub.until)
            page.wait(f"{TEXT} === 'the job has ended'", "#notice")
            page.wait(f"{TEXT} === 'ended well'", "#state")
            self.assertEqual(page.run(NOTES), 2)
            self.assertEqual(page.console_errors(), [])
            self.assertEqual([url for url in page.requests() if not url.startswith((self.address, "data:,"))], [])

    def test_nothing_moves_while_lines_come(self):
        stub = self.serve()
        with renewed_browser() as page:
            page.open(self.address)
            for section in SECTIONS:
                page.run(SHOW, f"#{section}")
            self.assert_shows(page, stub.known)
            page.run(SHIFTS)
            for place, section in enumerate(SECTIONS, 1):
                page.run(SHOW, f"#{section}")
                stub.until = stub.known + (len(self.lines) - stub.known) * place // len(SECTIONS)
                lines = [line for line in self.lines[:stub.until] if line["type"] == "iteration"]
                page.wait("return document.querySelector('#figures dd').textContent.startsWith(arguments[0])",
                          f"{lines[-1]['iteration']} of ")
            self.assertEqual(page.run("return window.shifts"), [])

    def test_a_lost_connection(self):
        stub = self.serve()
        with renewed_browser() as page:
            page.open(self.address)
            self.assert_shows(page, stub.known)
            stub.down = True
            page.wait(f"{TEXT} === 'connection lost, trying again'", "#notice")
            stub.until = len(self.lines) // 2
            stub.asked.clear()
            stub.down = False
            page.wait(f"{TEXT} === ''", "#notice")
            self.assert_shows(page, stub.until)
            self.assertNotIn("/api/history", stub.asked, "it goes on where it was")

    def test_another_job_behind_the_same_address(self):
        stub = self.serve()
        with renewed_browser() as page:
            page.open(self.address)
            self.assert_shows(page, stub.known)
            stub.down = True
            page.wait(f"{TEXT} === 'connection lost, trying again'", "#notice")
            self.lines = list(made_report.Job(nodes=7, seconds=9, seed=5).lines())
            stub.lines, stub.run, stub.known, stub.until = self.lines, "second", 12, 12
            stub.down = False
            self.assert_shows(page, 12)

    def test_the_token(self):
        stub = self.serve(token="secret")
        with renewed_browser() as page:
            page.open(self.address)
            page.wait("return !document.getElementById('login').hidden")
            self.assertTrue(page.run("return document.activeElement.id === 'token'"))
            page.keys("guess\ue007")
            page.wait(f"{TEXT} === 'The server does not take this token.'", "#login-error")
            page.run("document.getElementById('token').value = ''")
            page.keys("secret\ue007")
            page.wait("return document.getElementById('login').hidden")
            self.assert_shows(page, stub.known)


@in_browser
class Job(Folder):
    """The page of a real job, `proteus run --http auto`, while nodes join and the controller is killed."""

    def setUp(self):
        super().setUp()
        ratings = (f"{user} {item} {1 + (user * item) % 5}\n" for user in range(100) for item in range(50))
        self.write("ratings", "".join(ratings))
        self.app = ["mf", "--data", "ratings", "--seconds", "1000"]

    def start(self, *options):
        job = subprocess.Popen([PROTEUS, "run", "--http", "auto", "--reliable", "1", "--transient", "2", "--report",
                                "job.jsonl", *options, "--", *self.app], cwd=self.folder, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait, PATIENCE_S)
        self.addCleanup(job.terminate)
        self.controller = self.page_address = None
        while not (self.controller and self.page_address):
            line = job.stdout.readline()
            self.assertNotEqual(line, "", "the job ended before it had said its addresses")
            self.controller = self.controller or next(iter(re.findall(r"tcp://[\w.:]+", line)), None)
            self.page_address = self.page_address or next(iter(re.findall(r"http://[\w.:]+/?", line)), None)
        threading.Thread(target=job.stdout.read, daemon=True).start()
        return job

    def proteus(self, command, *arguments):
        subprocess.run([PROTEUS, command, "--controller", self.controller, *arguments], cwd=self.folder, check=True,
                       capture_output=True, timeout=PATIENCE_S)

    def rows(self, page, count):
        page.run(SHOW, "#timeline")
        page.wait(f"{LABEL}.startsWith('Timeline of ' + arguments[0] + ' nodes')", count)

    def shown_events(self, page):
        page.run(SHOW, "#events")
        page.wait(f"{ROWS} > 0", "#events")
        return int(page.run(TEXT, "#events .pager span").split(" of ")[1])

    def report_lines(self):
        with open(self.folder / "job.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_joins_and_a_reload(self):
        job = self.start()
        with renewed_browser() as page:
            page.open(self.page_address)
            self.rows(page, 3)
            joiner = subprocess.Popen([PROTEUS, "join", "--controller", self.controller, "--tier", "transient", "--",
                                       *self.app], cwd=self.folder, stdout=subprocess.DEVNULL)
            self.addCleanup(joiner.wait, PATIENCE_S)
            self.rows(page, 4)
            before = self.shown_events(page)
            page.run("location.reload()")
            page.wait("return document.getElementById('state').textContent === 'training'")
            self.assertGreaterEqual(self.shown_events(page), before)
            self.rows(page, 4)
            self.assertGreater(page.run("return document.querySelectorAll('#timeline-key li').length"), 7)
            self.assertEqual(page.console_errors(), [])
            self.assertEqual([url for url in page.requests() if not url.startswith((self.page_address, "data:,"))], [])
            self.proteus("stop")
            page.wait(f"{TEXT} === 'ended well'", "#state")
        self.assertEqual(job.wait(PATIENCE_S), 0)

    def test_the_token(self):
        self.write("token", "0123456789abcdef-secret\n")
        (self.folder / "token").chmod(0o600)
        self.start("--http-token", "token")
        with renewed_browser() as page:
            page.open(self.page_address)
            page.wait("return !document.getElementById('login').hidden")
            page.keys("0123456789abcdef-guess\ue007")
            page.wait(f"{TEXT} === 'The server does not take this token.'", "#login-error")
            page.run("document.getElementById('token').value = ''")
            page.keys("0123456789abcdef-secret\ue007")
            page.wait(f"{TEXT} === 'training'", "#state")
            self.rows(page, 3)
            page.run("location.reload()")
            self.rows(page, 3)

    def kill_controller(self, job):
        """Kills it; `proteus run` starts another."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                status = (process / "stat").read_bytes().rpartition(b")")[2].split()
                words = (process / "cmdline").read_bytes().split(b"\0")
                if int(status[1]) == job.pid and words[:2] == [b"proteus", b"controller"]:
                    os.kill(int(process.name), signal.SIGKILL)
                    return
            except (OSError, ValueError):
                pass  # it has ended meanwhile
        self.fail("there is no controller")

    def test_a_controller_that_is_killed(self):
        job = self.start()
        with renewed_browser() as page:
            page.open(self.page_address)
            self.rows(page, 3)
            before = self.shown_events(page)
            page.run(NOTICES)
            self.kill_controller(job)
            page.wait("return window.notices.includes('connection lost, trying again')")
            page.wait(f"{TEXT} === ''", "#notice")
            self.assertGreaterEqual(self.shown_events(page), before)
            page.run("location.reload()")
            page.wait("return document.getElementById('state').textContent === 'training'")
            self.assertGreaterEqual(self.shown_events(page), before)
            self.proteus("stop")
            page.wait(f"{TEXT} === 'ended well'", "#state")
            self.assertEqual(self.shown_events(page), sum(1 for line in self.report_lines() if line["type"] == "event"))
        self.assertEqual(job.wait(PATIENCE_S), 0)


if __name__ == "__main__":
    if browser.missing():
        print(browser.missing(), file=sys.stderr)
    unittest.main()
