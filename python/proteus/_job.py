"""Jobs from a script or a notebook: `proteus run` as a function."""

import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref

from ._app import App

_loading = False  # in a node: the file of its app is being loaded

_CONTROLLER = re.compile(r"proteus: info: controller at (\S+)$")
_INFO = re.compile(r"[^ ]+: info: ")


class JobError(Exception):
    """The job has failed; the text is its error line. `status` is the exit status of `proteus run`, `report` what was
    reported until then."""

    def __init__(self, text, status, report):
        super().__init__(text)
        self.status, self.report = status, report


class Report:
    """What a job has reported: lists of dicts, with the keys of docs/proteus.md, "The report"."""

    def __init__(self):
        self.lines = []

    def of_type(self, kind: str) -> list:
        """The lines of a type: iteration, clock, event, nodes, usage, summary."""
        return [line for line in self.lines if line.get("type") == kind]

    @property
    def iterations(self) -> list:
        """A dict for each iteration, with the metrics under their names."""
        return self.of_type("iteration")

    @property
    def events(self) -> list:
        """A dict for each event: nodes that join, leave or fail, stages, checkpoints."""
        return self.of_type("event")

    @property
    def summary(self) -> dict:
        """The last line; empty before the job's end."""
        return self.lines[-1] if self.lines and self.lines[-1].get("type") == "summary" else {}

    def to_pandas(self, kind: str = "iteration"):
        """The lines of a type as a pandas.DataFrame."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: install python3-pandas, or use report.iterations") from error
        return pandas.DataFrame(self.of_type(kind))

    def __repr__(self):
        end = self.summary
        state = "not ended" if not end else "succeeded" if end.get("ok") else "failed"
        return f"<proteus.Report: {len(self.iterations)} iterations, {state}>"


def find_program(name: str) -> str:
    """The path of a program of Proteus: where this package was built, beside the program proteus, or in $PATH."""
    folders = [os.environ.get("PROTEUS_BIN"), pathlib.Path(__file__).resolve().parents[2] / "bin"]
    proteus = shutil.which("proteus")
    if proteus is not None:  # Debian's /usr/bin/proteus is a link to where all of them are
        folders.append(pathlib.Path(proteus).resolve().parent)
    for folder in folders:
        if folder and os.access(pathlib.Path(folder) / name, os.X_OK):
            return str(pathlib.Path(folder) / name)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"no program {name!r}: it is neither in $PROTEUS_BIN nor in $PATH")
    return found


def _command(app, folder):
    """The command line that runs an app: a program's, or that of a class."""
    if isinstance(app, (str, os.PathLike)):
        app = [app]
    if not isinstance(app, type):
        first, *rest = [os.fspath(part) for part in app]
        if first.endswith(".py"):
            return [sys.executable, first, *rest]
        return [first if os.sep in first else find_program(first), *rest]
    if not issubclass(app, App):
        raise TypeError(f"{app}: expected a class that derives from proteus.App, or a command line")
    try:
        path = inspect.getfile(app)
    except (OSError, TypeError):
        path = ""
    package = getattr(sys.modules.get(app.__module__), "__package__", "")
    if package and app.__module__ != "__main__" and "<locals>" not in app.__qualname__:
        return [sys.executable, "-m", "proteus", app.__module__, app.__qualname__]
    if os.path.isfile(path) and "<locals>" not in app.__qualname__:
        return [sys.executable, "-m", "proteus", os.path.abspath(path), app.__qualname__]
    try:  # of a notebook or a function: there is no file to run
        import cloudpickle
    except ImportError as error:
        raise ImportError(f"{app.__qualname__} is in no file, and to send it to processes needs cloudpickle: install "
                          "python3-cloudpickle, or put the class into a file") from error
    pickled = os.path.join(folder, "app.pickle")
    with open(pickled, "wb") as file:
        cloudpickle.dump(app, file)
    return [sys.executable, "-m", "proteus", pickled, app.__qualname__]


def _arguments(options):
    """{"like_this": 1} as --like-this=1. True: a flag; None and False: left out; a list: given several times."""
    arguments = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is True:
                arguments.append(flag)
            elif each is not None and each is not False:
                arguments.append(f"{flag}={os.fspath(each) if isinstance(each, os.PathLike) else each}")
    return arguments


class _Said:
    """What a job's standard error has said of the job."""

    def __init__(self):
        self.controller, self.errors = None, []

    def listen(self, stream):
        """Passes the rest of the stream on."""
        for line in stream:
            found = _CONTROLLER.match(line.rstrip("\n"))
            if found:
                self.controller = found[1]
            elif line.startswith("proteus: error: "):
                self.errors.append(line[len("proteus: error: "):].rstrip("\n"))
            elif not _INFO.match(line):
                sys.stderr.write(line)


def _end(process, lines):
    """Ends a job that nobody waits for."""
    lines.close()  # a job that waits for its report to be read goes on, and ends
    if process.poll() is None:
        process.terminate()
        process.wait()


class Job:
    """A running job: iterate over it for the report's lines as they come, or wait for it. In a `with` statement it is
    ended at the statement's end, if it still runs; so it is when nothing refers to it any more."""

    def __init__(self, app, reliable, transient, options, run_options):
        if _loading:
            raise RuntimeError("a node of a job starts another job: in a file with a class that runs in jobs, put what "
                               "calls proteus.run under `if __name__ == \"__main__\":`")
        for name in run_options:
            if name.replace("_", "-") in ("reliable", "transient", "report", "progress", "log-level", "log-format"):
                raise ValueError(f"run_options: {name}: proteus.run sets it by itself")
        self._folder = tempfile.TemporaryDirectory(prefix="proteus-")
        self._said = _Said()
        self.report = Report()
        self._error = None
        self._ended = False
        program, running = find_program("proteus"), _command(app, self._folder.name)
        reading, writing = os.pipe()
        command = [program, "run", f"--reliable={reliable}", f"--transient={transient}", "--progress=none",
                   "--log-level=info", f"--report=/dev/fd/{writing}", *_arguments(run_options), "--", *running,
                   *_arguments(options)]
        environment = dict(os.environ)
        package = str(pathlib.Path(__file__).resolve().parents[1])
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH")]))
        # A session of its own: Ctrl-C is for this process, which then ends the job well.
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=[writing],
                                         env=environment, start_new_session=True, text=True, errors="replace")
        os.close(writing)
        self._lines = os.fdopen(reading, encoding="utf-8", errors="replace")
        self._listener = threading.Thread(target=self._said.listen, args=[self._process.stderr], daemon=True)
        self._listener.start()
        self._left = weakref.finalize(self, _end, self._process, self._lines)

    @property
    def controller(self) -> str | None:
        """The address of the job's controller, once it is known."""
        return self._said.controller

    def __iter__(self):
        for text in () if self._ended else self._lines:
            line = json.loads(text)
            self.report.lines.append(line)
            yield line
        self._finish()

    def _finish(self):
        if not self._ended:
            status = self._process.wait()
            self._ended = True
            self._left.detach()
            self._listener.join()
            self._lines.close()
            self._process.stderr.close()
            self._folder.cleanup()
            if status != 0:
                said = self._said.errors[-1:] or [self.report.summary.get("error") or f"exit status {status}"]
                self._error = JobError(said[0], status, self.report)
        if self._error is not None:
            raise self._error

    def stop(self):
        """Ends the job well, at a clock soon: the model is saved. A job that has not begun after some seconds is ended
        as failed."""
        for _ in range(100):
            if self._process.poll() is not None or self.controller is not None:
                break
            time.sleep(0.1)
        if self._process.poll() is None and self.controller is not None:
            subprocess.run([find_program("proteus"), "stop", f"--controller={self.controller}"], check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        else:
            self.kill()

    def kill(self):
        """Ends the job at once, as failed."""
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self, progress: bool = False) -> Report:
        """Waits for the job's end. With `progress` shows a line of how far it is, on a terminal or in a notebook.
        Ctrl-C ends the job well, a second one at once; then KeyboardInterrupt is raised."""
        stopping = False
        lines = iter(self)
        while True:
            try:
                for line in lines:
                    if progress:
                        _show(line)
                break
            except KeyboardInterrupt:
                (self.kill if stopping else self.stop)()
                stopping = True
                lines = iter(self)  # a generator that was interrupted is over
            except JobError:
                if stopping:
                    break
                raise
        if progress:
            sys.stderr.write("\n")
        if stopping:
            raise KeyboardInterrupt
        return self.report

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self._process.poll() is None:
            self.kill()
            for _ in self._lines:
                pass
        try:
            self._finish()
        except JobError:
            pass


def _show(line):
    """One line that is written over: iteration 3 of 20, the objective."""
    if line.get("type") != "iteration":
        return
    at, of = line["iteration"], line.get("iterations")
    width = 30
    bar = "[" + ("#" * (width * at // of)).ljust(width) + f"] {at}/{of}" if of else f"iteration {at}"
    numbers = f"  {line['objective']:.6g}" if isinstance(line.get("objective"), (int, float)) else ""
    sys.stderr.write(f"\r{bar}  {line['seconds']:.1f} s{numbers}  ")
    sys.stderr.flush()


def start(app, reliable: int = 1, transient: int = 0, run_options: dict | None = None, **options) -> Job:
    """Starts a job on this machine and returns it, to iterate over. For the arguments see run."""
    return Job(app, reliable, transient, options, run_options or {})


def run(app, reliable: int = 1, transient: int = 0, progress: bool | None = None, run_options: dict | None = None,
        **options) -> Report:
    """Runs a job on this machine to its end, and returns its report. Raises JobError when it fails.

    app          a class that derives from App; or a program's path, with arguments in a list: "mf", "app.py",
                 ["mlr", "--data", "x"].
    reliable, transient  how many nodes of each kind, a process each.
    progress     show a line of how far it is; None: on a terminal and in a notebook.
    run_options  further options of `proteus run`, as {"stage": "2", "checkpoint": "folder"}.
    options      the app's options: iterations=10 for --iterations 10, True for a flag.

    Ctrl-C ends the job well: at a clock soon, and the model is saved. A second one ends it at once. Either raises
    KeyboardInterrupt."""
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules
    with start(app, reliable, transient, run_options, **options) as job:
        return job.wait(progress)
