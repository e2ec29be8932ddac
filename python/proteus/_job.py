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
    """A job has failed. str(error) is the job's error line: what went wrong, as `proteus run` prints it.

    status  the exit status that `proteus run` or `proteus join` ended with: 2 for bad input, such as a wrong option or
            a missing file, 1 for other failures; negative, it is the signal that ended the program.
    report  a Report of what the job had reported until then.
    """

    def __init__(self, text, status, report):
        super().__init__(text)
        self.status, self.report = status, report


class Report:
    """What a job has reported. docs/proteus.md, "The report", says which keys the lines have.

    lines  all lines in their order: a list of dicts.
    """

    def __init__(self):
        self.lines = []

    def of_type(self, kind: str) -> list:
        """The lines of one type: "iteration", "clock", "event", "nodes", "usage", "note" or "summary"."""
        return [line for line in self.lines if line.get("type") == kind]

    @property
    def iterations(self) -> list:
        """A dict for each iteration: "iteration" (its number, from 1), "seconds" (since training began), "objective",
        the app's metrics under their names, and more."""
        return self.of_type("iteration")

    @property
    def events(self) -> list:
        """A dict for each event, such as a node that joins, leaves or fails, a change of stage, or a checkpoint.
        "event" says which it is."""
        return self.of_type("event")

    @property
    def notes(self) -> list:
        """What the app has said of the job, a text each: which line of the input it took for a header, say."""
        return [line.get("text", "") for line in self.of_type("note")]

    @property
    def summary(self) -> dict:
        """The last line: "ok", "error" if the job has failed, "iterations", "seconds" and more. Before the job's end it
        is an empty dict."""
        return self.lines[-1] if self.lines and self.lines[-1].get("type") == "summary" else {}

    def to_pandas(self, kind: str = "iteration"):
        """The lines of one type as a pandas.DataFrame, with a column for each key. Needs pandas."""
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


def _endpoint(controller):
    """A controller's address as the programs take it."""
    return controller if "://" in controller else f"tcp://{controller}"


def _rights(run_options):
    """Arguments by which other commands have the same rights at the job's controller as its nodes."""
    return _arguments({name: run_options[name] for name in ("key", "insecure") if name in run_options})


class Job:
    """A running job, from proteus.start. Wait for its end by job.wait(), or iterate over it:

        with proteus.start("mf", data="ratings.csv") as job:
            for line in job:
                print(line)

    gives each line of the report, a dict, as soon as it comes, and ends with the job. Both raise JobError if the job
    fails. At the end of a `with` statement a job that still runs is ended as by kill(), and so is one that nothing
    refers to any more.

    report  a Report of the lines that were read so far.
    """

    # run_options that are not the caller's to set, and why.
    _RESERVED = {"reliable": "by its argument reliable", "transient": "by its argument transient",
                 "report": "to return the report", "progress": "by its argument progress",
                 "log-level": "to read the job's messages", "log-format": "to read the job's messages"}

    def __init__(self, app, reliable, transient, options, run_options, controller=None):
        if _loading:
            raise RuntimeError("a node of a job starts another job: in a file with a class that runs in jobs, put what "
                               "calls proteus.run under `if __name__ == \"__main__\":`")
        run_options = {name.replace("_", "-"): value for name, value in run_options.items()}
        for name in run_options:
            if name in self._RESERVED:
                raise ValueError(f"run_options: {name}: expected none, as proteus.run sets --{name} "
                                 f"{self._RESERVED[name]}")
        self._folder = tempfile.TemporaryDirectory(prefix="proteus-")
        self._said = _Said(controller)
        self.report = Report()
        self._error = None
        self._all_read = self._ended = self._stopped = False
        self._rights = _rights(run_options)
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
        """The endpoint of the job's controller, such as "tcp://127.0.0.1:40001", for `proteus status` and other
        commands; None until it is known."""
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
                said = self._said
                texts = [*said.errors[-1:], self.report.summary.get("error"), *said.node_errors[-1:],
                         f"exit status {status}"]
                self._error = JobError(next(filter(None, texts)), status, self.report)
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
        """Ends the job well, and soon: it completes a clock and saves the model. Waits for that. A job whose controller
        is not there within 10 seconds is ended as by kill()."""
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
        """Ends the job at once, as failed: no model is saved, and wait() raises JobError."""
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self, progress: bool = False) -> Report:
        """Waits for the job's end, and returns its report. Raises JobError if the job fails.

        progress  show a line of how far the job is, on standard error.

        The first Ctrl-C ends the job well, as stop() does, a second one at once, as kill() does. In either case
        KeyboardInterrupt is raised when the job has ended."""
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
    (`proteus follow`): what proteus.start returns when it is given a controller. It is used as any Job, but:

    - At the first Ctrl-C in wait(), and at the end of a `with` statement before the job's, transient nodes leave in
      time, and the job goes on. If reliable nodes are among them, the job is ended well for all of its nodes, as it may
      have no others; they leave if the key does not allow that.
    - stop() ends the job for all its nodes, kill() ends the nodes of this machine.
    - A script that is killed can't end its nodes: they stay in the job.
    """

    _RESERVED = {"controller": "by its argument controller", "tier": "by its arguments reliable and transient",
                 "count": "by its arguments reliable and transient"}

    def __init__(self, app, reliable, transient, options, run_options, controller):
        if min(reliable, transient) < 0 or reliable + transient < 1:
            raise ValueError(f"reliable={reliable}, transient={transient}: expected nodes that join the job")
        self._reliable, self._leaving = reliable > 0, False
        super().__init__(app, reliable, transient, options, run_options, _endpoint(controller))
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
        """Ends the job well for all its nodes, and soon: it completes a clock and saves the model. Waits for that.
        Raises JobError where it is not possible, as with a key that does not allow it."""
        failed = self._ask_to_stop()
        if failed:
            raise JobError(failed, 2, self.report)

    def kill(self):
        """Ends this machine's nodes at once: for the job they have failed."""
        self._signal(signal.SIGINT)


def _stop_following(nodes, process):
    """Ends the following of a job that all our nodes have left. The job may have ended, too, and have said why."""
    failed = any([node.wait() != 0 for node in nodes])
    try:
        process.wait(_LAST_WORDS if failed else _LAST_LINES)
    except subprocess.TimeoutExpired:
        process.terminate()


def _show(line):
    """One line that is written over: iteration 3 of 20, the objective. What the app says stays."""
    if line.get("type") == "note":
        sys.stderr.write(f"\r{'note: ' + line.get('text', ''):<60}\n")
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
    """Starts a job and returns it, a Job, while it runs: to iterate over the lines of its report as they come, to stop
    it, or to wait for its end. The arguments are those of run."""
    kind = Job if controller is None else JoinedJob
    return kind(app, reliable, transient, options, run_options or {}, controller)


def run(app, reliable: int = 1, transient: int = 0, progress: bool | None = None, run_options: dict | None = None,
        controller: str | None = None, **options) -> Report:
    """Runs a job to its end, and returns its report. Raises JobError when it fails.

    app          a bundled app's name, such as "mf"; a program's path, such as "app.py"; a list of either and arguments,
                 such as ["mlr", "--data", "x"]; or a class that derives from App.
    reliable     how many of the job's nodes, which are processes of this machine, count as reliable ones.
    transient    how many more count as ones that may be lost at any time.
    progress     show a line of how far the job is, on standard error; None: on a terminal and in a notebook.
    run_options  a dict of options of `proteus run`, as {"stage": "2", "checkpoint": "folder"}.
    controller   None: a job of this machine alone. Otherwise the address, "HOST:PORT", of a controller (`proteus
                 controller`), whose job the nodes started here join, beside those of other machines. See below.
    options      the app's options: rank=8 for --rank 8, model_out="x" for --model-out x, True for a flag without a
                 value, a list for an option that is given several times. None and False: the option is left out.

    With `controller` all nodes of the job need the same app and options. run_options are those of `proteus join`, as
    {"key": "job.key", "listen": "10.0.0.2"}. The report has the lines that the controller still has, and those that
    follow, until the job's end; or, with a warning, until all nodes of this machine have left the job, as by `proteus
    evict`. With a key that is a node's token alone the report is empty.

    Ctrl-C ends the job well: at a clock soon, and the model is saved. With `controller` and reliable=0 only the nodes
    of this machine leave, in time, and the job goes on without them. With reliable nodes it is ended for all, as it may
    have no others; with a key that does not allow that, they leave. A second Ctrl-C ends this machine's nodes at once.
    Either raises KeyboardInterrupt."""
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules
    with start(app, reliable, transient, run_options, controller, **options) as job:
        return job.wait(progress)
