"""What an app declares as attributes of its class: tables, metrics, options."""

import pathlib

import numpy as np

from ._binding import lib

_TYPE = type  # a parameter below has its name
_TYPES = {
    np.dtype(np.float32): lib.AML_FLOAT32,
    np.dtype(np.float64): lib.AML_FLOAT64,
    np.dtype(np.int32): lib.AML_INT32,
    np.dtype(np.int64): lib.AML_INT64,
}


class Uniform:
    """Start values from `low` to `high`, by row and column alone (and --seed)."""

    def __init__(self, low: float, high: float):
        self.kind, self.a, self.b = lib.START_UNIFORM, float(low), float(high)


class Normal:
    """Normally distributed start values, by row and column alone (and --seed)."""

    def __init__(self, stddev: float, mean: float = 0.0):
        self.kind, self.a, self.b = lib.START_NORMAL, float(mean), float(stddev)


class Momentum:
    """Gradient descent with momentum, run by the servers: v = momentum v + g + l2 w; w -= rate v."""

    def __init__(self, rate: float, momentum: float = 0.9, l2: float = 0.0, nesterov: bool = False):
        self.name = "momentum"
        self.values = {"rate": rate, "momentum": momentum, "l2": l2, "nesterov": int(nesterov)}


class AdaGrad:
    """AdaGrad (Duchi, Hazan, Singer, 2011), run by the servers."""

    def __init__(self, rate: float, l2: float = 0.0, initial: float = 0.0, epsilon: float = 1e-8):
        self.name = "adagrad"
        self.values = {"rate": rate, "l2": l2, "initial": initial, "epsilon": epsilon}


class Adam:
    """Adam (Kingma, Ba, 2015), run by the servers."""

    def __init__(self, rate: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                 l2: float = 0.0):
        self.name = "adam"
        self.values = {"rate": rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "l2": l2}


class FTRL:
    """FTRL-Proximal (McMahan et al., 2013), run by the servers. Rows should start as zeros."""

    def __init__(self, alpha: float = 0.1, beta: float = 1.0, l1: float = 0.0, l2: float = 0.0):
        self.name = "ftrl"
        self.values = {"alpha": alpha, "beta": beta, "l1": l1, "l2": l2}


class Table:
    """A table of parameters: rows of `width` elements of `dtype`, named by whole numbers from 0 to 2**64 - 1.

    dtype      float32, float64, int32 or int64.
    width      elements of a row. `configure` may set it.
    rows       the number of rows, whose keys are then 0 to rows - 1; 0: any keys, rows appear when first used.
    mode       "add": the updates of a clock are summed; "put": a row has one writer at a time, whose value stands.
    whole      True: each process holds all rows, in the order of their keys. Needs `rows`.
    start      how rows begin: None (zeros), a number, Uniform, Normal, or a function that returns the row for a key.
               A function must depend on the key alone. Servers call it, and wait for Python's lock then: for large
               tables use one of the others.
    optimizer  None, or Momentum, AdaGrad, Adam, FTRL: what `add` and `update` get are then gradients.
    """

    def __init__(self, dtype=np.float32, width: int = 1, rows: int = 0, mode: str = "add", whole: bool = False,
                 start=None, optimizer=None):
        self.dtype, self.width, self.rows, self.mode = np.dtype(dtype), width, rows, mode
        self.whole, self.start, self.optimizer = whole, start, optimizer
        self.name = ""
        self.index = -1

    def __set_name__(self, owner, name):
        self.name = name

    def check(self):
        """Raises what is wrong with it."""
        where = f"table {self.name}"
        if self.dtype not in _TYPES:
            raise TypeError(f"{where}: dtype {self.dtype}: expected float32, float64, int32 or int64")
        if self.mode not in ("add", "put"):
            raise ValueError(f"{where}: mode {self.mode!r}: expected 'add' or 'put'")
        for name in "width", "rows":
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < (1 if name == "width" else 0):
                raise ValueError(f"{where}: {name} {value!r}: expected a whole number from "
                                 f"{1 if name == 'width' else 0} on")

    @property
    def type(self):
        return _TYPES[self.dtype]

    def start_kind(self):
        """The kind with its numbers, or START_PYTHON for a function."""
        if self.start is None:
            return lib.START_ZERO, 0.0, 0.0
        if isinstance(self.start, (Uniform, Normal)):
            return self.start.kind, self.start.a, self.start.b
        if callable(self.start):
            return lib.START_PYTHON, 0.0, 0.0
        return lib.START_CONSTANT, float(self.start), 0.0


class Metric:
    """A number in the report. The first metric of an app is the objective.

    kind       "sum", "mean" (sum / weight), "root_mean" (RMSE of squared errors) or "exp_mean" (perplexity).
    evaluated  False: `clock` adds to it. True: `evaluate` does, and the latest clock counts.
    """

    KINDS = {"sum": lib.AML_SUM, "mean": lib.AML_MEAN, "root_mean": lib.AML_ROOT_MEAN, "exp_mean": lib.AML_EXP_MEAN}

    def __init__(self, kind: str = "mean", evaluated: bool = False):
        if kind not in self.KINDS:
            raise ValueError(f"metric kind {kind!r}: expected one of {', '.join(self.KINDS)}")
        self.kind, self.evaluated = kind, evaluated
        self.name = ""
        self.index = -1

    def __set_name__(self, owner, name):
        self.name = name


class Option:
    """An option of the command line, --like-this for an attribute like_this; in the app's object the attribute is the
    option's value.

    default    also tells the type, if `type` does not: a bool (a flag), an int, a float, a str, a pathlib.Path.
    type       bool, int, float, str, pathlib.Path, or list: paths, as the option may be given several times.
               Numbers, flags and str values must be the same in all processes of a job; paths need not be.
    help       one line for --help.
    minimum, maximum  of numbers.
    choices    of a str: other values are refused.
    required   True: a str or path that must be given.
    steers     True: a job that goes on from a checkpoint may change it.
    """

    def __init__(self, default=None, type=None, help: str = "", minimum=None, maximum=None, choices=None,
                 required: bool = False, steers: bool = False, metavar: str | None = None):
        if type is None:
            type = str if default is None else default.__class__
        if isinstance(type, _TYPE) and issubclass(type, pathlib.PurePath):
            type = pathlib.Path
        if type not in (bool, int, float, str, pathlib.Path, list):
            raise TypeError(f"option: type {type!r}: expected bool, int, float, str, pathlib.Path or list")
        if type is bool and default not in (None, False):
            raise ValueError("option: a flag is off unless it is given: expected the default False")
        self.default, self.type, self.help = default, type, help
        self.minimum, self.maximum, self.choices = minimum, maximum, choices
        self.required, self.steers, self.metavar = required, steers, metavar
        self.name = ""

    def __set_name__(self, owner, name):
        self.name = name

    @property
    def flag(self):
        """The option as it is given: --like-this."""
        return "--" + self.name.replace("_", "-")
