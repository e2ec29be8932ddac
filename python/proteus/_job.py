"""Jobs from a script or a notebook: `proteus run` as a function."""

import inspect
import json
import os
import pathlib
import queue
import re
import shutil
import signal
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
_LAST_WORDS = 2.0  # seconds that we wait for what an ended process has written
_LAST_LINES = 10.0  # seconds in which a job that all nodes here have left must end, or we wait for its end no longer
_ERROR = re.compile(r"[^ ]+: error: (.*)$")


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
    """What a job's standard error has said of the job: the controller's address, the error lines of proteus itself, and
    those of nodes."""

    def __init__(self, controller=None):
        self.controller, self.errors, self.node_errors = controller, [], []

    def listen(self, stream):
        """Passes the rest of the stream on."""
        with stream:
            for line in stream:
                found, error = _CONTROLLER.match(line.rstrip("\n")), _ERROR.match(line.rstrip("\n"))
                if found:
                    self.controller = found[1]
                elif error and line.startswith("proteus: "):
                    self.errors.append(error[1])
                elif not _INFO.match(line):
                    sys.stderr.write(line)
                    self.node_errors += [error[1]] if error else []


def _read_lines(stream, lines):
    """Puts the stream's lines into a queue, and None behind the last, at once: a job must not wait for its report to be
    read. What has no line's end is part of a line whose writer was ended."""
    with stream:
        for text in stream:
            if text.endswith("\n"):
                lines.put(text)
    lines.put(None)


def _end(processes, signals):
    """Ends a job that nobody waits for."""
    running = [process for process in processes if process.poll() is None]
    for process, number in zip(processes, signals):
        if process in running:
            process.send_signal(number)
    for process in running:
        process.wait()


def _popen(command, **more):
    """Starts a program, which finds this package. In a session of its own: Ctrl-C is for this process, which then ends
    the job well."""
    package = str(pathlib.Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
                            env={**os.environ, "PYTHONPATH": path}, text=True, errors="replace", **more)


class Job:
    """A running job: iterate over it for the report's lines as they come, or wait for it. In a `with` statement it is
    ended at the statement's end, if it still runs; so it is when nothing refers to it any more."""

    _OWN = ("reliable", "transient", "report", "progress", "log-level", "log-format")  # not for run_options

    def __init__(self, app, reliable, transient, options, run_options, controller=None):
        if _loading:
            raise RuntimeError("a node of a job starts another job: in a file with a class that runs in jobs, put what "
                               "calls proteus.run under `if __name__ == \"__main__\":`")
        run_options = {name.replace("_", "-"): value for name, value in run_options.items()}
        for name in run_options:
            if name in self._OWN:
                raise ValueError(f"run_options: {name}: proteus.run sets it by itself")
        self._folder = tempfile.TemporaryDirectory(prefix="proteus-")
        self._said = _Said(controller)
        self.report = Report()
        self._error = None
        self._all_read = self._ended = self._stopped = False
        self._rights = _arguments({name: run_options[name] for name in ("key", "insecure") if name in run_options})
        running = _command(app, self._folder.name) + _arguments(options)
        self._process, self._nodes, stream = self._start(running, reliable, transient, run_options)
        processes = [self._process, *self._nodes]
        self._left = weakref.finalize(self, _end, processes, [signal.SIGTERM] + [signal.SIGINT] * len(self._nodes))
        self._listeners = [threading.Thread(target=self._said.listen, args=[process.stderr], daemon=True)
                           for process in processes]
        self._lines = queue.SimpleQueue()  # of the report
        reader = threading.Thread(target=_read_lines, args=[stream, self._lines], daemon=True)
        for thread in [reader, *self._listeners]:
            thread.start()

    def _start(self, running, reliable, transient, run_options):
        """Starts the job. Returns the process that ends with it, those of nodes beside it, and the report."""
        program = find_program("proteus")
        reading, writing = os.pipe()
        lines = os.fdopen(reading, encoding="utf-8", errors="replace")
        try:
            process = _popen([program, "run", f"--reliable={reliable}", f"--transient={transient}", "--progress=none",
                              "--log-level=info", f"--report=/dev/fd/{writing}", *_arguments(run_options), "--",
                              *running], pass_fds=[writing])
        finally:
            os.close(writing)
        return process, [], lines

    @property
    def controller(self) -> str | None:
        """The address of the job's controller, once it is known."""
        return self._said.controller

    def __iter__(self):
        while not self._all_read and not self.report.summary:  # the last line; a process may have the pipe longer
            text = self._lines.get()
            if text is None:
                self._all_read = True
                break
            line = json.loads(text)
            self.report.lines.append(line)
            yield line
        self._finish()

    def _wait_for_end(self):
        """Waits for the processes, and returns the job's exit status."""
        return self._process.wait()

    def _finish(self):
        if not self._ended:
            status = self._wait_for_end()
            self._ended = True
            self._left.detach()
            for listener in self._listeners:
                listener.join(_LAST_WORDS)
            self._folder.cleanup()
            if status != 0:
                said = self._said.errors[-1:] or [self.report.summary.get("error") or f"exit status {status}"]
                self._error = JobError(said[0], status, self.report)
        if self._error is not None:
            raise self._error

    def _ask_to_stop(self):
        """`proteus stop`. Returns its error line; "": it worked, now or before. Lines of the report that are read after
        it must not have it called again, as it then waits for a controller that has gone."""
        if self._stopped:
            return ""
        done = subprocess.run([find_program("proteus"), "stop", f"--controller={self.controller}", *self._rights],
                              check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              start_new_session=True, text=True, errors="replace")
        self._stopped = done.returncode == 0
        return done.stderr.strip().removeprefix("proteus: error: ")

    def stop(self):
        """Ends the job well, at a clock soon: the model is saved. A job that has not begun after some seconds is ended
        as failed."""
        for _ in range(100):
            if self._process.poll() is not None or self.controller is not None:
                break
            time.sleep(0.1)
        if self._process.poll() is None and self.controller is not None:
            self._ask_to_stop()
        else:
            self.kill()

    def _interrupt(self):
        """The first Ctrl-C."""
        self.stop()

    def _leave(self):
        """The end of a `with` statement before the job's."""
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
                (self.kill if stopping else self._interrupt)()
                stopping = True
                lines = iter(self)  # a generator that was interrupted is over
            except JobError as error:
                if stopping:
                    raise KeyboardInterrupt from error
                raise
        if progress:
            sys.stderr.write("\n")
        if stopping:
            raise KeyboardInterrupt
        return self.report

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if not self._ended:
            self._leave()
            try:
                for _ in self:
                    pass
            except JobError:
                pass


class JoinedJob(Job):
    """Nodes of this machine in the job of a controller somewhere else (`proteus join`), and that job's report
    (`proteus follow`). At the end of a `with` statement they leave as at the first Ctrl-C in `run`. A script that is
    killed can't end them: they then stay in the job."""

    _OWN = ("controller", "tier", "count")

    def __init__(self, app, reliable, transient, options, run_options, controller):
        if min(reliable, transient) < 0 or reliable + transient < 1:
            raise ValueError(f"reliable={reliable}, transient={transient}: expected nodes that join the job")
        controller = controller if "://" in controller else f"tcp://{controller}"
        self._reliable, self._leaving = reliable > 0, False
        super().__init__(app, reliable, transient, options, run_options, controller)
        threading.Thread(target=_stop_following, args=[self._nodes, self._process], daemon=True).start()

    def _start(self, running, reliable, transient, run_options):
        counts = {tier: count for tier, count in (("reliable", reliable), ("transient", transient)) if count > 0}
        program, controller = find_program("proteus"), f"--controller={self.controller}"
        commands = [[program, "join", controller, f"--tier={tier}", f"--count={count}", *_arguments(run_options), "--",
                     *running] for tier, count in counts.items()]
        nodes = []
        try:
            for command in commands:
                nodes.append(_popen(command))
            process = _popen([program, "follow", controller, *self._rights], stdout=subprocess.PIPE)
        except BaseException:
            _end(nodes, [signal.SIGINT] * len(nodes))
            raise
        return process, nodes, process.stdout

    def _wait_for_end(self):
        following, ends = self._process.wait(), [node.wait() for node in self._nodes]
        for listener in self._listeners:
            listener.join(_LAST_WORDS)
        said, self._said.errors = self._said.errors, []
        if self.report.summary:  # whatever became of our nodes
            return following
        if not any(ends):
            if following != -signal.SIGTERM:
                sys.stderr.write(f"proteus: warning: the job's report can't be read: {(said or [following])[-1]}\n")
            elif not self._leaving:
                sys.stderr.write("proteus: warning: all nodes of this machine have left the job, which goes on: its "
                                 "report ends here\n")
            return 0
        self._said.errors = self._said.node_errors or said
        return max(ends, key=abs)

    def _interrupt(self):
        """The first Ctrl-C: our nodes leave in time, and the job goes on without them. Without its reliable nodes it
        might fail, so with such nodes of ours it is ended well, if our key allows that."""
        if not self._reliable or self._ask_to_stop():
            self._signal(signal.SIGTERM)

    _leave = _interrupt

    def _signal(self, number):
        self._leaving = True
        for node in self._nodes:
            if node.poll() is None:
                node.send_signal(number)
        if self._process.poll() is None and not self.report.summary:
            self._process.terminate()

    def stop(self):
        """Ends the job well for all its nodes, at a clock soon: the model is saved. Raises JobError where that is not
        possible, as with a key that does not allow it."""
        failed = self._ask_to_stop()
        if failed:
            raise JobError(failed, 2, self.report)

    def kill(self):
        """Ends this machine's nodes at once."""
        self._signal(signal.SIGINT)


def _stop_following(nodes, process):
    """Ends the following of a job that all our nodes have left. The job may have ended, too, and have said why."""
    failed = any([node.wait() != 0 for node in nodes])
    try:
        process.wait(_LAST_WORDS if failed else _LAST_LINES)
    except subprocess.TimeoutExpired:
        process.terminate()


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


def start(app, reliable: int = 1, transient: int = 0, run_options: dict | None = None, controller: str | None = None,
          **options) -> Job:
    """Starts a job on this machine, or nodes here of another machine's job, and returns it, to iterate over. For the
    arguments see run."""
    kind = Job if controller is None else JoinedJob
    return kind(app, reliable, transient, options, run_options or {}, controller)


def run(app, reliable: int = 1, transient: int = 0, progress: bool | None = None, run_options: dict | None = None,
        controller: str | None = None, **options) -> Report:
    """Runs a job to its end, and returns its report. Raises JobError when it fails.

    app          a class that derives from App; or a program's path, with arguments in a list: "mf", "app.py",
                 ["mlr", "--data", "x"].
    reliable, transient  how many nodes of each kind, a process each.
    progress     show a line of how far it is; None: on a terminal and in a notebook.
    run_options  further options of `proteus run`, as {"stage": "2", "checkpoint": "folder"}.
    controller   None: a job of this machine alone. Otherwise "HOST:PORT" of a controller (`proteus controller`): the
                 nodes are started here and join its job, which other machines' nodes may be in. Its app and options
                 must be these. run_options are then those of `proteus join`: {"key": "job.key", "listen": "10.0.0.2"}.
                 The report has the job's lines that the controller still has, and those that follow, until the job's
                 end or, with a warning, until all nodes of this machine have left it (as by `proteus evict`). With a
                 key that is a token of a node alone it is empty.
    options      the app's options: iterations=10 for --iterations 10, True for a flag.

    Ctrl-C ends the job well: at a clock soon, and the model is saved. With `controller` and reliable=0 only the nodes
    of this machine leave, in time, and the job goes on without them. With reliable nodes it is ended for all, as it may
    have no others; with a key that does not allow that, they leave. A second Ctrl-C ends this machine's nodes at once.
    Either raises KeyboardInterrupt."""
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules
    with start(app, reliable, transient, run_options, controller, **options) as job:
        return job.wait(progress)
