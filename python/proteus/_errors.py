"""How the package's errors become error lines of the job."""

import linecache
import os
import socket
import sys
import traceback

from ._binding import ffi, lib


class InputError(Exception):
    """Bad input, such as a file or an option: ends the job with this text as its error line, without a traceback, and
    with exit status 2."""


class Stopped(BaseException):
    """A call of the library has failed, and has said why: the app's function ends, and the job with it. Not to be
    caught; it is no Exception, so `except Exception` lets it pass."""

    def __init__(self, code):
        super().__init__(f"the library returned {code}")
        self.code = code


def check(code):
    """Returns `code`, a result of the library, if it is not an error."""
    if code < 0:
        raise Stopped(code)
    return code


def _last_line(error):
    """The traceback's last line and where it comes from, as 'KeyError: 1, at app.py:7 in clock'."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()[-1]
    own = os.path.dirname(__file__)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if os.path.dirname(f.filename) != own]
    if frames:
        text += f", at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}"
    return text


_said = None


def _first_of_job(controller):
    """Whether no other process of this machine has printed a traceback for this job: a name in the kernel's table of
    abstract sockets, which is free again when the process ends."""
    global _said
    if _said is not None:
        return False
    _said = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        _said.bind(f"\0proteus-traceback-{controller}")
    except OSError:
        return False
    return True


def _controller():
    for at, argument in enumerate(sys.argv):
        if argument.startswith("--controller="):
            return argument.partition("=")[2]
        if argument == "--controller" and at + 1 < len(sys.argv):
            return sys.argv[at + 1]
    return str(os.getpid())


def _print(*texts):
    """Writes to standard error, if that is possible: it may be closed, or a pipe that nobody reads any more."""
    try:
        sys.stderr.write("".join(texts))
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


def end_process(error):
    """Ends this process with exit status 2, with the traceback and an error line on standard error: for callbacks that
    can't return an error. `proteus run` ends the job then."""
    _print(*traceback.format_exception(type(error), error, error.__traceback__), f"error: {_last_line(error)}\n")
    os._exit(2)


def describe(error):
    """The library's code and the error line for an exception that left a function of the app. Prints the traceback, if
    there is to be one."""
    if isinstance(error, InputError):
        return lib.AML_EINPUT, str(error)
    code, text = lib.AML_EINPUT, _last_line(error)
    if isinstance(error, MemoryError):
        code = lib.AML_ENOMEM
    elif isinstance(error, OSError) and not isinstance(error, (FileNotFoundError, IsADirectoryError,
                                                               NotADirectoryError, PermissionError)):
        code = lib.AML_EFAIL
    if _first_of_job(_controller()):
        linecache.checkcache()
        _print(*traceback.format_exception(type(error), error, error.__traceback__))
    return code, text


def report(worker, error):
    """Makes an exception that left a function of the app the job's error, and returns the function's result."""
    if isinstance(error, Stopped):
        return error.code
    code, text = describe(error)
    return lib.error_text(worker, code, ffi.new("char[]", text.encode("utf-8", "replace")))
