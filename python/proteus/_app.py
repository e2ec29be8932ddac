"""An app: the class that apps derive from, and what runs it."""

import copy
import os
import pathlib
import sys

import numpy as np

from . import _worker
from ._binding import ffi, lib
from ._declare import Metric, Option, Optimizer, Transform, Steps, Table
from ._errors import InputError, describe, end_process, report

_running = None  # libagileml runs one app in a process


_DECLARED = {Table: "proteus.Table", Metric: "proteus.Metric", Option: "proteus.Option",
              Transform: "method with @proteus.transform()"}


def _shape_of(item):
    """The dtype and the shape that `item` of an app or of a transform says."""
    if isinstance(item, tuple):
        return np.dtype(item[0]), tuple(np.atleast_1d(item[1]).tolist())
    dtype = np.dtype(item)
    return (dtype.base, dtype.shape) if dtype.subdtype else (dtype, ())


class App:
    """A machine-learning app. Derive a class from it, with tables (Table), metrics (Metric) and options (Option) as
    attributes, and call `proteus.main(TheClass)`. The class's docstring is the summary for --help. Each process of a
    job has one object of the class, in which an option's attribute is the option's value.

    The functions, in the order in which they are called. `worker` is a Worker, by which they reach the library:

    configure(self, worker)        Optional: checks options, completes tables, `item` and the like. In every process.
    read(self, worker)             Reads the whole input and emits all items, the same in every process; the library
                                   keeps those that this process is to work on. Items are emitted by worker.emit, or
                                   `read` is a generator of what it takes: arrays, or dicts of its arguments.
    begin(self, worker)            Optional: before a process's first clock, and when its items or nodes have changed.
    clock(self, worker, items)     Works on the process's part of one clock: reads and changes rows, adds to metrics.
    evaluate(self, worker, items)  Optional: measures on test items after a clock, and changes no rows.
    finish(self, worker)           Optional: saves the model. In one process, after the last clock.

    `items` is Items, or VariedItems where `varied` is set. Methods with the decorator `transform` make something of an
    item before `clock` gets it. An exception that leaves any of these functions ends the job.

    Other attributes, each with its default. agileml.h says more of them, under the same names:

    name = None              the app's name in the report; None: the class's name in lower case.
    item = None              what an item carries: a dtype, or a dtype and a shape, as (numpy.float32, (28, 28)).
    item_rows = ()           the names of the tables in each of which an item names a row: up to two.
    varied = False           True: items differ in size, and name any rows (worker.emit_varied). `item` is then the
                             dtype of their data.
    evaluate_always = False  True: `evaluate` is called even without test items.
    read_only_emits = False  True: `read` does nothing but emit items. Then processes may divide the input files, and a
                             node may take items from others rather than call `read`.
    lots = False             True: the app can be used with --lots: `clock` is then called several times in a clock,
                             also for items of other processes that are late. It may use nothing that the app keeps for
                             its own process's items.
    slices = False           True: `clock` works in worker.slices(items), and the app can be used with --slice.
    strategies = False       True: the app can be used with --strategy (see worker.strategy).
    iterations = 20          default of --iterations: passes over the data.
    clocks_per_iteration = 1  default of --clocks-per-iteration: parts of a pass, after each of which processes exchange
                             their updates. `configure` may set it.
    phases = 1               how many clocks in turn work on each part of a pass: its phases (worker.phase). The default
                             of clocks_per_iteration is then this number, and it must be a multiple of it.
    evaluate_every = 1       default of --evaluate-every: clocks from one evaluation to the next. An iteration's last
                             clock is evaluated in any case.
    """

    name: str | None = None
    item = None
    item_rows: tuple = ()
    varied = evaluate_always = read_only_emits = lots = slices = strategies = False
    iterations, clocks_per_iteration, phases, evaluate_every = 20, 1, 1, 1

    configure = begin = evaluate = finish = None

    def read(self, worker):
        raise NotImplementedError("the app has no function read")

    def clock(self, worker, items):
        raise NotImplementedError("the app has no function clock")

    def __init__(self):
        self._tables, self._metrics, self._options, self._transforms = {}, {}, {}, {}
        kinds = {Table: self._tables, Metric: self._metrics, Option: self._options, Transform: self._transforms}
        declared_in = {}
        for base in reversed(type(self).__mro__):
            for name, value in vars(base).items():
                kind = next((kind for kind in kinds if isinstance(value, kind)), None)
                first = declared_in.get(name)
                if first is not None and kind is not first[0]:  # the library would go on with the class before
                    if value is not None:
                        raise TypeError(f"{base.__name__}.{name}: expected a {_DECLARED[first[0]]}, as in "
                                        f"{first[1].__name__}, or None")
                    del kinds[first[0]][name], declared_in[name], self.__dict__[name]
                elif kind is not None:
                    declared_in[name] = (kind, base)
                    kinds[kind][name] = copy.copy(value)
                    setattr(self, name, kinds[kind][name] if kind is not Option else value.default)
        for known in self._tables, self._metrics, self._transforms:
            for index, declared in enumerate(known.values()):
                declared.index = index

    def item_shape(self):
        """The dtype and the shape of what an item carries."""
        return (np.dtype("V0"), ()) if self.item is None else _shape_of(self.item)

    def __setattr__(self, name, value):
        if name in getattr(self, "_tables", ()) and value is not self._tables[name]:
            raise AttributeError(f"{name} is a table: change its rows in clock, by worker.table({name!r})")
        super().__setattr__(name, value)


class _Program:
    """An app with its structs for the library, which must stay where they are until aml_main returns."""

    def __init__(self, app):
        self.app = app
        self.keep = []
        self.struct = ffi.new("struct aml_app *")
        self.binding = ffi.new("struct binding *")
        self.targets = {}
        self.made = {}  # with transforms: the dtype and shape of what `clock` and `evaluate` get
        self.by_index = list(app._tables.values())
        self.transforms = list(app._transforms.values())
        self._fill()

    def text(self, value):
        kept = ffi.new("char[]", os.fsencode(value))
        self.keep.append(kept)
        return kept

    def array(self, kind, values):
        kept = ffi.new(kind, values)
        self.keep.append(kept)
        return kept

    def _fill(self):
        app, struct = self.app, self.struct
        summary = (type(app).__doc__ or "").strip().splitlines()
        struct.name = self.text(app.name or type(app).__name__.lower())
        struct.summary = self.text(summary[0] if summary else "an app in Python")
        self._fill_options()
        self.tables = self.array("struct aml_table[]", max(1, len(app._tables)))
        struct.tables, struct.table_count = self.tables if app._tables else ffi.NULL, len(app._tables)
        struct.metrics = self.array("struct aml_metric[]", len(app._metrics)) if app._metrics else ffi.NULL
        struct.metric_count = len(app._metrics)
        metrics = ffi.cast("struct aml_metric *", struct.metrics)
        for metric in app._metrics.values():
            metrics[metric.index].name = self.text(metric.name)
            metrics[metric.index].kind = Metric.KINDS[metric.kind]
            metrics[metric.index].evaluated = int(metric.evaluated)
        struct.iterations, struct.evaluate_every = int(app.iterations), int(app.evaluate_every)
        struct.clock_alone = 1  # one thread of a process calls Python
        struct.configure, struct.read, struct.clock = lib.app_configure, lib.app_read, lib.app_clock
        struct.begin = lib.app_begin if app.begin is not None else ffi.NULL
        struct.evaluate = lib.app_evaluate if app.evaluate is not None else ffi.NULL
        struct.finish = lib.app_finish if app.finish is not None else ffi.NULL
        struct.context = self.binding

    def _fill_options(self):
        kinds = {bool: (lib.AML_OPTION_FLAG, "bool *"), int: (lib.AML_OPTION_INTEGER, "int64_t *"),
                 float: (lib.AML_OPTION_REAL, "double *"), str: (lib.AML_OPTION_WORD, "char **"),
                 pathlib.Path: (lib.AML_OPTION_STRING, "char **"),
                 list: (lib.AML_OPTION_STRINGS, "struct aml_strings *")}
        options = self.app._options
        table = self.array("struct aml_option[]", len(options) + 1)
        for at, option in enumerate(options.values()):
            kind, target = kinds[option.type]
            value = ffi.new(target)
            self.keep.append(value)
            self.targets[option.name] = value
            if option.default is not None and option.type is not list:
                value[0] = self.text(str(option.default)) if option.type in (str, pathlib.Path) else option.default
            metavar = option.metavar or {bool: None, int: "N", float: "X", str: "WORD"}.get(option.type, "FILE")
            table[at].name = self.text(option.flag[2:])
            table[at].value = self.text(metavar) if metavar else ffi.NULL
            table[at].type, table[at].target = kind, value
            limits = {int: (-(2**53), 2**53), float: (-1.7e308, 1.7e308)}.get(option.type, (0, 0))
            table[at].minimum = limits[0] if option.minimum is None else option.minimum
            table[at].maximum = limits[1] if option.maximum is None else option.maximum
            table[at].help = self.text(option.help)
        self.struct.options = table
        steering = [self.text(option.flag[2:]) for option in options.values() if option.steers]
        self.struct.steering = self.array("char *[]", steering + [ffi.NULL])

    def take_options(self):
        """Sets the app's attributes to the options' values."""
        for option in self.app._options.values():
            value = self.targets[option.name]
            if option.type is list:
                taken = [pathlib.Path(os.fsdecode(ffi.string(value.values[i]))) for i in range(value.count)]
            elif option.type in (str, pathlib.Path):
                taken = None if value[0] == ffi.NULL else option.type(os.fsdecode(ffi.string(value[0])))
            else:
                taken = option.type(value[0])
            if option.required and (taken is None or taken == []):
                raise InputError(f"{option.flag} is missing")
            if option.choices is not None and taken is not None and taken not in option.choices:
                raise InputError(f"{option.flag} {taken}: expected one of {', '.join(map(str, option.choices))}")
            setattr(self.app, option.name, taken)

    def complete(self, seed):
        """Takes over what `configure` may have set."""
        app, struct = self.app, self.struct
        struct.phases = int(app.phases)
        clocks = int(app.clocks_per_iteration)
        struct.clocks_per_iteration = clocks if clocks != 1 else max(1, struct.phases)
        struct.evaluate_always, struct.read_only_emits = int(app.evaluate_always), int(app.read_only_emits)
        struct.item_varied = int(app.varied)
        struct.lots, struct.slices, struct.strategies = int(app.lots), int(app.slices), int(app.strategies)
        if app.item_shape()[0].hasobject:
            raise TypeError(f"item: dtype {app.item_shape()[0]}: Python objects can't go from process to process")
        if not app.varied:
            element, shape = app.item_shape()
            struct.item_bytes = _worker.bytes_of(element, shape)
            rows = (app.item_rows,) if isinstance(app.item_rows, str) else tuple(app.item_rows)
            app.item_rows = rows
            if len(rows) > 2:
                raise ValueError(f"item_rows: {len(rows)} tables: expected two at most")
            struct.item_rows = len(rows)
            for at, name in enumerate(rows):
                if name not in app._tables:
                    raise KeyError(f"item_rows: no table {name!r}")
                struct.item_tables[at] = app._tables[name].index
        if len(app._tables) > lib.BINDING_TABLES_MAX:
            raise ValueError(f"{len(app._tables)} tables: expected {lib.BINDING_TABLES_MAX} at most")
        for table in app._tables.values():
            self._complete_table(table, seed)
        self._complete_transforms()

    def _complete_transforms(self):
        if len(self.transforms) > lib.AML_TRANSFORMS_MAX:
            raise ValueError(f"{len(self.transforms)} transforms: expected {lib.AML_TRANSFORMS_MAX} at most")
        specs = self.array("struct aml_transform[]", len(self.transforms) + 1)
        made = (_worker.varied_dtype(self.app), None) if self.app.varied else self.app.item_shape()
        tested = None if self.app.varied else made  # what test items become
        before = ffi.NULL
        for transform, spec in zip(self.transforms, specs):
            transform.gets = made
            if transform.item is None and made[1] is None:
                raise TypeError(f"transform {transform.name}: no item: expected dtype and shape of what it returns, as "
                                "what it gets differs in size")
            made = made if transform.item is None else _shape_of(transform.item)
            if made[0].hasobject:
                raise TypeError(f"transform {transform.name}: item: dtype {made[0]}: Python objects can't go between "
                                "process")
            if transform.train and made != transform.gets:
                raise TypeError(f"transform {transform.name}: item {made[0]} {made[1]}: expected {transform.gets[0]} "
                                f"{transform.gets[1]} as it gets, since it is left out for test items")
            transform.makes = made
            tested = tested if transform.train else made
            spec.name = self.text(transform.name)
            setattr(spec, "from", before)
            before = spec.name
            spec.flags = lib.AML_TRANSFORM_STATE * transform.state | lib.AML_TRANSFORM_TRAIN * transform.train
            spec.bytes = _worker.bytes_of(*made)
            spec.run = lib.transform_for(transform.index)
        if self.transforms:
            self.struct.transforms = specs
            self.made = {"clock": made, "evaluate": tested}

    def _complete_table(self, table, seed):
        table.check()
        spec = self.tables[table.index]
        spec.name = self.text(table.name)
        spec.type, spec.width, spec.rows, spec.whole = table.type, int(table.width), int(table.rows), int(table.whole)
        spec.mode = lib.AML_PUT if table.mode == "put" else lib.AML_ADD
        kind, a, b = table.start_kind()
        self.binding.starts[table.index] = {"kind": kind, "type": table.type, "width": int(table.width), "a": a, "b": b,
                                            "seed": lib.aml_mix(seed, table.index)}
        spec.start = lib.start_for(table.index) if kind != lib.START_ZERO else ffi.NULL
        spec.changes_given = int(table.changes_given)
        if isinstance(table.optimizer, Optimizer):
            handle = ffi.new_handle(table)
            self.keep.append(handle)
            spec.apply_rows, spec.parameters, spec.state_width = lib.apply_python, handle, table.optimizer.state
        elif table.optimizer is not None:
            name = table.optimizer.name
            spec.apply = ffi.addressof(lib, f"aml_apply_{name}")
            spec.parameters = self.array(f"struct aml_{name} *", table.optimizer.values)
            spec.state_width = getattr(lib, f"aml_{name}_state")(int(table.width))


def _call(function, handle, body, kind=None, bits=None):
    """Runs body(worker) as a function of the app. Returns its result for the library."""
    call = _worker.Call(function, kind)
    try:
        body(_worker.Worker(_running.app, handle, call, bits))
        call.end()
        return 0
    except BaseException as error:  # SystemExit too: nothing may pass the library's C functions
        call.ended = True
        return report(handle, error)


_callback = ffi.def_extern(error=lib.AML_EFAIL)  # should describing an exception fail, too: 0 would be success


@_callback
def app_configure(handle, struct):
    def configure(worker):
        _running.take_options()
        if struct.clocks_per_iteration > 0:
            _running.app.clocks_per_iteration = struct.clocks_per_iteration
        if _running.app.configure is not None:
            _running.app.configure(worker)
        _running.complete(worker.seed)

    return _call("configure", handle, configure)


def _emit(worker, what):
    if isinstance(what, dict):
        (worker.emit_varied if _running.app.varied else worker.emit)(**what)
    else:
        worker.emit(what)


@_callback
def app_read(handle, context):
    def read(worker):
        emitted = _running.app.read(worker)
        if emitted is not None:
            for what in emitted:
                _emit(worker, what)

    return _call("read", handle, read)


@_callback
def app_begin(handle, context):
    return _call("begin", handle, lambda worker: _running.app.begin(worker))


def _with_items(function, handle, items, count):
    def run(worker):
        app = _running.app
        getattr(app, function)(worker, _worker.items_at(app, worker.call, f"the items of {function}", items, count,
                                                        _running.made.get(function)))

    return _call(function, handle, run)


@_callback
def app_clock(handle, items, count, context):
    return _with_items("clock", handle, items, count)


@_callback
def app_evaluate(handle, items, count, context):
    return _with_items("evaluate", handle, items, count)


@_callback
def app_finish(handle, context):
    return _call("finish", handle, lambda worker: _running.app.finish(worker))


@_callback
def each_ratings(handle, ratings, count, context):
    each = ffi.from_handle(context)
    return _call("read", handle,
                 lambda worker: each(worker, worker.call.view("ratings", ratings, _worker.RATING, (count,))))


@_callback
def each_lines(handle, lines, context):
    each = ffi.from_handle(context)
    return _call("read", handle, lambda worker: each(worker, _worker.Lines(worker, lines)))


@_callback
def each_whole_file(handle, file, context):
    each = ffi.from_handle(context)
    return _call("read", handle, lambda worker: each(worker, os.fsdecode(ffi.string(file.path))))


@_callback
def each_file(handle, path, context):
    ffi.from_handle(context).append(os.fsdecode(ffi.string(path)))
    return 0


@_callback
def each_rows(context, keys, rows, count):
    state = ffi.from_handle(context)
    try:
        state.take(keys, rows, count)
        return 0
    except BaseException as error:
        state.error = error
        return lib.AML_EFAIL


@ffi.def_extern()
def start_python(index, key, row):
    table = _running.by_index[index]
    try:
        values = _worker.as_values(f"start of table {table.name}, key {key}", table.start(key), table.dtype,
                                   (table.width,))
        np.frombuffer(ffi.buffer(row, table.width * table.dtype.itemsize), table.dtype)[:] = values
    except BaseException as error:  # the library expects no failure here: without the row this process can't go on
        end_process(error)


def _transform_item(call, transform, source):
    """What a transform gets: an array over the library's memory."""
    dtype, shape = transform.gets
    if shape is None:  # a varied item without rows
        item = ffi.cast("struct aml_item *", source)
        if item.size % dtype.itemsize != 0:
            raise ValueError(f"an item of {item.size} bytes: expected a multiple of {dtype.itemsize}, as of {dtype}")
        source, shape = item + 1, (item.size // dtype.itemsize,)
    return call.view(f"the item of transform {transform.name}", source, dtype, shape)


@_callback
def run_transform(handle, index, random, source, target):
    transform = _running.transforms[index]

    def run(worker):
        dtype, shape = transform.makes
        made = transform.function(_running.app, worker, _transform_item(worker.call, transform, source))
        if made is None:
            raise TypeError(f"transform {transform.name} has returned nothing: expected an array of {dtype} {shape}")
        values = _worker.as_values(f"what transform {transform.name} returned", made, dtype, shape, spread=False)
        ffi.memmove(target, values.tobytes(), values.nbytes)

    kind = "a transform with state" if transform.state else "a transform"
    return _call(f"transform {transform.name}", handle, run, kind, random)


@_callback
def apply_python(steps, table):
    table = ffi.from_handle(table)
    call = _worker.Call(f"the optimizer of table {table.name}")

    def view(what, pointer, width):
        return call.view(f"the {what} of table {table.name}", pointer, table.dtype, (steps.count, width),
                         writable=True)

    def run():
        keys = np.frombuffer(ffi.buffer(steps.keys, 8 * steps.count), np.uint64).copy()
        returned = table.optimizer.apply(Steps(view("rows", steps.rows, steps.width),
                                               view("states", steps.states, steps.state_width),
                                               view("sums", steps.sums, steps.width), keys, steps.clock))
        if returned is not None:
            raise TypeError(f"{call.function} has returned something: expected it to change steps.rows in place")

    try:
        run()
        call.end()
        return 0
    except BaseException as error:
        code, text = describe(error)
        encoded = text.encode("utf-8", "replace")[:steps.error_bytes - 1] + b"\0"
        ffi.memmove(steps.error, encoded, len(encoded))
        return code


def main(app, argv=None):
    """Runs the program: parses the command line, takes part in the job, and ends the process with the exit status. To
    be called once in a process, at the script's end:

        if __name__ == "__main__":
            proteus.main(MyApp)

    app   a class that derives from App, or its object.
    argv  the command line, the program first; None: sys.argv."""
    global _running
    if _running is not None:
        raise RuntimeError("proteus.main: expected one call in a process")
    argv = sys.argv if argv is None else argv
    _running = _Program(app() if isinstance(app, type) else app)
    arguments = [ffi.new("char[]", os.fsencode(argument)) for argument in argv]
    sys.stdout.flush()
    status = lib.aml_main(_running.struct, len(arguments), ffi.new("char *[]", arguments + [ffi.NULL]))
    sys.exit(status)
