"""Drives a headless Chromium through chromedriver, by the WebDriver protocol over HTTP: as much of it as the tests of
the page and bench/page need."""
import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

PATIENCE_S = 60  # for what takes a second; no time is asserted
STARTS_MAX = 5
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]


def missing():
    """Says which program is missing, or returns None."""
    for programs, package in ((("chromium", "chromium-browser", "google-chrome"), "chromium"),
                              (("chromedriver",), "chromium-driver")):
        if not any(shutil.which(program) for program in programs):
            return f"{programs[0]} is not installed (Debian's package {package}): the page was not tried in a browser"
    return None


class Browser:
    """Use it in a with statement. Console errors and requests are kept from the start."""

    def __init__(self, width=1280, height=900, flags=()):
        self.profile = tempfile.mkdtemp(prefix="page-test-")
        try:
            self.start_driver()
            chromium = {"args": [*FLAGS, f"--user-data-dir={self.profile}", f"--window-size={width},{height}", *flags]}
            wanted = {"browserName": "chrome", "goog:chromeOptions": chromium,
                      "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
            session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self.base += f"/session/{session['sessionId']}"
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", "")
        finally:
            self.close()

    def renew(self):
        """Goes to a new window without cookies, and forgets what was kept, as if the browser had just started: to start
        one takes as long as most tests of a page."""
        self.devtools("Network.clearBrowserCookies")
        window = self.call("POST", "/window/new", {"type": "tab"})["handle"]
        self.call("DELETE", "/window")
        self.call("POST", "/window", {"handle": window})
        self.console_errors()
        self.requests()

    def close(self):
        self.close_driver()
        shutil.rmtree(self.profile, ignore_errors=True)

    def start_driver(self):
        """Starts chromedriver. It has ended at once before, probably as another program had the port that it chose for
        IPv4 on IPv6; then it is started again."""
        for _ in range(STARTS_MAX):
            self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                           stderr=subprocess.DEVNULL, text=True)
            for line in self.driver.stdout:
                if "started successfully on port " in line:
                    port = line.split("on port ")[1].rstrip(".\n")
                    self.base = f"http://127.0.0.1:{port}"
                    return
            self.close_driver()
        raise RuntimeError(f"chromedriver did not start in {STARTS_MAX} attempts")

    def close_driver(self):
        self.driver.terminate()
        self.driver.wait(PATIENCE_S)
        self.driver.stdout.close()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as problem:
            raise RuntimeError(json.load(problem)["value"]["message"]) from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """Runs the body of a function in the page, and returns its result."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def wait(self, script, *arguments, patience_s=PATIENCE_S):
        """Waits until the script's result is true, and returns it."""
        deadline = time.monotonic() + patience_s
        while True:
            result = self.run(script, *arguments)
            if result:
                return result
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {patience_s} s still not: {script}")
            time.sleep(0.1)

    def keys(self, text):
        """Presses keys, one after the other, in what has the focus."""
        presses = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": presses}]})

    def console_errors(self):
        """Errors since the last call: exceptions, refused by the page's policy, failed requests."""
        log = self.call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """The addresses that pages asked for since the last call, but for the browser's own pages."""
        log = self.call("POST", "/se/log", {"type": "performance"})
        log = [json.loads(entry["message"])["message"] for entry in log]
        sent = [entry["params"] for entry in log if entry["method"] == "Network.requestWillBeSent"]
        return [request["request"]["url"] for request in sent if not request["documentURL"].startswith("chrome:")]

    def save_figures(self, folder):
        """Presses every button of the page that saves a figure, and returns the files, which lie in `folder`."""
        folder.mkdir()
        self.devtools("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        self.wait("return document.querySelector('.chart .save:enabled')")
        count = self.run("return document.querySelectorAll('.save:enabled').length")
        for number in range(count):
            self.run("document.querySelectorAll('.save:enabled')[arguments[0]].click()", number)
            deadline = time.monotonic() + PATIENCE_S
            while len(list(folder.glob("*.svg"))) <= number:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"figure {number + 1} of {count} was not saved")
                time.sleep(0.05)
        return sorted(folder.glob("*.svg"))

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", "/screenshot")))

    def look(self, width, height, dark=False):
        """The size and colour scheme that the page sees."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                      mobile=False)
        self.devtools("Emulation.setScrollbarsHidden", hidden=True)
        self.devtools("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
