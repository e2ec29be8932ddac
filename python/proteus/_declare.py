"""What an app declares as attributes of its class: tables, metrics, options."""

import pathlib
from collections.abc import Callable

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
    """Gradient descent with momentum, run by the servers: v = momentum v + g + l2 w; w -= rate v. As with the other
    optimizers, g is the sum of all processes' updates of a row in a clock, which are to be gradients; see
    agileml/optimizers.h."""

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


class Steps:
    """The steps of an optimizer of the app's own (Optimizer): n rows, in one clock.

    rows    [n, width], of the table's dtype: to be changed in place.
    states  [n, state]: to be changed in place.
    sums    [n, width]: the sums of all workers' updates of these rows in the clock. May be changed.
    keys    [n] of uint64: the rows' keys. clock: the clock, from 1.
    """

    __slots__ = ("rows", "states", "sums", "keys", "clock")

    def __init__(self, rows, states, sums, keys, clock):
        for name, value in zip(self.__slots__, (rows, states, sums, keys, clock)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name, value):
        if name in self.__slots__ and value is getattr(self, name):
            return  # steps.rows -= x changes the array, and then sets it
        raise AttributeError(f"steps.{name} is set to another object, which nothing would read: change the array in "
                             f"place, as steps.{name}[:] = ... or steps.{name} -= ...")


class Optimizer:
    """An optimizer of the app's own, which the servers run: it changes rows, and a state beside each that only servers
    see, by the sums of all workers' updates of a clock.

    apply  a function of a Steps, which changes steps.rows and steps.states in place and returns nothing.
    state  elements of a row's state, of the table's dtype, which are zeros at first; 0: none.

        def momentum(steps):
            steps.states *= 0.9
            steps.states += steps.sums
            steps.rows -= 0.1 * steps.states

        weights = proteus.Table(np.float32, width=8, optimizer=proteus.Optimizer(momentum, state=8))

    With options of the app `configure` sets it: self.weights.optimizer = proteus.Optimizer(self.step, state=8). Each
    row is stepped once for each clock in which a worker has updated it; calls have some thousands of rows, in any
    order. What becomes of a row must follow from its values, state, sum and key, and from the clock, alone: any node
    calls the function, after a failure perhaps for a clock again. Its arrays, [n, width] and [n, state], are
    views and valid until it returns. An exception ends the job."""

    def __init__(self, apply: Callable[[Steps], None], state: int = 0):
        if not callable(apply):
            raise TypeError(f"optimizer: {apply!r}: expected a function of the steps")
        if not isinstance(state, (int, np.integer)) or state < 0:
            raise ValueError(f"optimizer: state {state!r}: expected a whole number from 0 on")
        self.apply, self.state = apply, int(state)


class Transform:
    """A transform of the input (see the decorator `transform`). As an attribute of the app's object: `configure` may
    set `item`; `function` is the method."""

    def __init__(self, function, item, train, state):
        self.function, self.item, self.train, self.state = function, item, train, state
        self.name = function.__name__
        self.index = -1


def transform(item=None, train: bool = False, state: bool = False) -> Callable[[Callable], Transform]:
    """Makes a method a transform: what becomes of each item, anew in each iteration, before `clock` gets it, as when
    images are decoded and shifted. They form a chain, in the order in which the class has them: the first gets the item
    as `read` has emitted it, each other what the one before has returned, and `clock` and `evaluate` get what the last
    has returned. Feeders (run_options={"feeders": 2}) run transforms on other machines or processors.

    item   what the transform returns: a dtype, or a dtype and a shape, as (numpy.float32, (28, 28)). None: the same as
           it gets. `configure` may set it: self.decode.item = ...
    train  True: it is left out for test items, and returns what it gets in dtype and shape.
    state  True: it may also use worker.table(...).read, worker.iteration, worker.total and worker.maximum. Then it runs
           where the item is trained on.

        @proteus.transform((np.float32, (28, 28)), train=True)
        def shift(self, worker, item):
            return np.roll(item, worker.random().integers(-2, 3, 2), axis=(0, 1))

    It is called for one item at a time: `item` is an array as the app's `item` says (of varied items [n]), read-only
    and valid until the transform returns. worker.random() and worker.bits follow from --seed, item and iteration
    alone, and so must what it returns. Another dtype or shape than `item` says is an error, as for `emit`. For apps
    whose items name no rows."""
    if callable(item) and not isinstance(item, type):
        raise TypeError("transform: expected parentheses, as @proteus.transform()")
    return lambda function: Transform(function, item, train, state)


Stage, stage = Transform, transform  # earlier names


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
    optimizer  None, or Momentum, AdaGrad, Adam, FTRL, or an Optimizer of the app's own: what `add` and `update` get are
               then gradients, or what else it takes.
    changes_given  True: rows change by worker.table(...).add_elements alone, in place. For wide rows of whole numbers
               of which a clock changes a few elements: they take half the memory, and less time.
    """

    def __init__(self, dtype=np.float32, width: int = 1, rows: int = 0, mode: str = "add", whole: bool = False,
                 start=None, optimizer=None, changes_given: bool = False):
        self.dtype, self.width, self.rows, self.mode = np.dtype(dtype), width, rows, mode
        self.whole, self.start, self.optimizer, self.changes_given = whole, start, optimizer, changes_given
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
        if self.optimizer is not None and not isinstance(self.optimizer, (Momentum, AdaGrad, Adam, FTRL, Optimizer)):
            raise TypeError(f"{where}: optimizer {self.optimizer!r}: expected a proteus.Momentum, AdaGrad, Adam, FTRL "
                            "or Optimizer")

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
    """A number in the report, which the app adds to by worker.metric(metric, total, weight). It is of the sums over all
    processes and an iteration's clocks. The first metric of an app is the objective, which --tolerance watches.

    kind       "sum" (total), "mean" (total / weight), "root_mean" (the mean's root, as RMSE of squared errors) or
               "exp_mean" (e to the power of the mean, as perplexity).
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
    minimum    of a number, and maximum: other values are refused.
    choices    of a str: other values are refused.
    required   True: a str or path that must be given.
    steers     True: a job that goes on from a checkpoint may change it.
    metavar    what --help shows for the value, as N in --rank N.
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
