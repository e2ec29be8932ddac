"""What an app's functions get: the worker, the rows of its tables, and items. All arrays are views of the library's
memory, without a copy, and valid until the function returns."""

import gc
import operator
import os
import weakref

import numpy as np

from ._binding import ffi, lib
from ._errors import check

AFTER_LOADING = ("begin", "clock", "evaluate", "finish")  # functions of the app that are called when the data is loaded
READS_STATE = (*AFTER_LOADING, "a transform with state")  # functions that may read rows by key, and totals
STRATEGIES = {lib.AML_SSGD: "ssgd", lib.AML_SMA: "sma", lib.AML_ADPSGD: "adpsgd"}


class _Memory:
    """Memory of the library, as numpy takes it. Arrays keep it alive, and by that show that they are alive."""

    __slots__ = ("__array_interface__", "__weakref__", "what")

    def __init__(self, what, address, size, writable):
        self.what = what
        self.__array_interface__ = {"data": (address, not writable), "typestr": "|u1", "shape": (size,), "version": 3}


def bytes_of(dtype, shape):
    """The bytes of an array of this dtype and shape."""
    return dtype.itemsize * int(np.prod(shape, dtype=np.int64))


def _strides(dtype, shape):
    """The bytes from one element to the next in each dimension, of elements that lie one behind the other."""
    if not shape:
        return ()
    steps = [dtype.itemsize]
    for n in reversed(shape[1:]):
        steps.append(steps[-1] * n)
    return tuple(reversed(steps))


class Call:
    """One call of a function of the app: knows the arrays that were made in it."""

    def __init__(self, function, kind=None):
        self.function, self.kind = function, kind or function
        self.memories = []
        self.ended = False

    def view(self, what, pointer, dtype, shape, strides=None, writable=False):
        """An array over the library's memory."""
        if 0 in shape or pointer == ffi.NULL:
            return np.empty(shape, dtype)
        if strides is None:
            strides = _strides(dtype, shape)
        size = sum((n - 1) * step for n, step in zip(shape, strides)) + dtype.itemsize
        memory = _Memory(what, int(ffi.cast("uintptr_t", pointer)), size, writable)
        self.memories.append(weakref.ref(memory))
        return np.ndarray(shape, dtype, np.asarray(memory), strides=strides)

    def end(self):
        """Raises when the app has kept an array: its memory may be used for other things from now on."""
        self.ended = True
        if any(memory() is not None for memory in self.memories):
            gc.collect()
        kept = [memory().what for memory in self.memories if memory() is not None]
        if kept:
            raise RuntimeError(f"{self.function} has kept an array of {kept[0]} after its return: arrays are views of "
                               "memory that is then used for other things; keep a copy (array.copy())")


def as_keys(keys):
    """Keys as the library takes them: uint64, one behind the other."""
    array = np.asarray(keys)
    if array.dtype.kind in "fO" and not isinstance(keys, np.ndarray):  # numpy makes floats of [1, 2**63]
        listed = np.array(keys, dtype=object)
        if all(isinstance(key, (int, np.integer)) and 0 <= key < 2**64 for key in listed.flat):
            array = listed.astype(np.uint64)
    if array.dtype.kind not in "iu" and array.size > 0:
        raise TypeError(f"keys of dtype {array.dtype}: expected whole numbers")
    if array.dtype.kind == "i" and array.size > 0 and array.min() < 0:
        raise ValueError(f"key {array.min()}: expected 0 or more")
    return np.asarray(array, np.uint64, order="C")


def as_values(what, values, dtype, shape, spread=True):
    """`values` as an array of this dtype and shape, one row behind the other; or an error that names `what`. Floats may
    be rounded; whole numbers and strings have to fit. With `spread` a single value may stand for all."""
    array = np.asarray(values)
    whole = dtype.kind in "iu" and array.dtype.kind in "iu"
    if not whole and not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TypeError(f"{what}: dtype {array.dtype}: expected {dtype}")
    if whole and array.size > 0:
        limits = np.iinfo(dtype)
        for value in (int(array.min()), int(array.max())):
            if not limits.min <= value <= limits.max:
                raise OverflowError(f"{what}: {value}: expected {limits.min} to {limits.max}, as of {dtype}")
    if dtype.kind in "SU" and array.dtype.itemsize > dtype.itemsize:
        raise ValueError(f"{what}: dtype {array.dtype}: expected {dtype}, which is shorter")
    if array.shape != shape and not (spread and array.ndim <= len(shape) and array.size == 1):
        raise ValueError(f"{what}: shape {array.shape}: expected {shape}")
    array = np.broadcast_to(array, shape)
    if dtype.names is None:
        return np.asarray(array, dtype, order="C")
    filled = np.zeros(shape, dtype)  # also what lies between the fields, which must be the same in all processes
    filled[...] = array
    return filled


def _pointer(kind, array):
    return ffi.from_buffer(kind, array) if array.size > 0 else ffi.NULL


class Rows:
    """The rows of a table in this process (worker.table). A row's key is its name in the whole job. Its slot is its
    place in this process, which is what `items.slots` has. `rows`, `add`, `change`, `gradients` and `put` are by slot,
    `read` and `update` by key."""

    def __init__(self, worker, table):
        self._worker, self._table = worker, table
        self._taken = None

    def _in_place(self):
        handle = self._worker.handle  # refuses a worker of an earlier call
        self._worker.only_in(*AFTER_LOADING)
        if self._taken is None:
            taken = lib.aml_table_rows(handle, self._table.index)
            self._taken = ffi.new("struct aml_rows *", taken)
        return self._taken

    def _view(self, base, writable):
        rows, table = self._in_place(), self._table
        return self._worker.call.view(f"the rows of table {table.name}", base, table.dtype,
                                      (rows.count, table.width), (rows.stride, table.dtype.itemsize), writable)

    def __len__(self):
        return self._in_place().count

    @property
    def rows(self) -> np.ndarray:
        """The rows, [slot, column], to read. Of a table that is whole, slot and key are the same. In `begin`, `clock`,
        `evaluate` and `finish`."""
        return self._view(self._in_place().base, False)

    def _slots(self, slots):
        array = np.asarray(slots)
        if array.dtype.kind not in "iu" and array.size > 0:
            raise TypeError(f"table {self._table.name}: slots of dtype {array.dtype}: expected whole numbers")
        if array.ndim != 1:
            raise ValueError(f"table {self._table.name}: slots of shape {array.shape}: expected one dimension")
        count = self._in_place().count
        if array.size > 0 and (int(array.min()) < 0 or int(array.max()) >= count):
            raise IndexError(f"table {self._table.name}: slots {array.min()} to {array.max()}: expected 0 to "
                             f"{count - 1}")
        return np.ascontiguousarray(array, dtype=np.uint32)

    def _touch(self, slots, instead):
        self._worker.only_in("clock")
        self._not_given(instead)
        rows = self._in_place()
        if slots is None:
            lib.rows_touch_all(rows)
        else:
            slots = self._slots(slots)
            lib.rows_touch(rows, _pointer("uint32_t[]", slots), slots.size)

    def _not_given(self, function):
        if self._table.changes_given:
            raise TypeError(f"table {self._table.name} has changes_given: expected add_elements, not {function}")

    def change(self, slots=None) -> np.ndarray:
        """Marks the rows of `slots` (None: all) as changed, and returns all rows, [slot, column], to be changed in
        place there. Rows begin at multiples of 16 bytes, so a .ravel() of them is a copy. In `clock`; not for a table
        with an optimizer."""
        if self._table.optimizer is not None:
            raise TypeError(f"table {self._table.name} has an optimizer, which changes its rows: give it gradients by "
                            "add, update or gradients")
        self._touch(slots, "change")
        return self._view(self._in_place().base, True)

    def gradients(self, slots=None) -> np.ndarray:
        """Of a table with an optimizer: marks the rows of `slots` (None: all) as updated, and returns the sums of this
        process's updates in this clock, [slot, column]. Add to them in place; never assign, as they hold what was added
        before. In `clock`."""
        if self._table.optimizer is None:
            raise TypeError(f"table {self._table.name} has no optimizer: change its rows by add, put or change")
        self._touch(slots, "gradients")
        return self._view(self._in_place().sums, True)

    def add(self, slots, deltas):
        """Adds deltas[i] to the row slots[i]; a slot that appears more than once gets all its deltas. With an optimizer
        the deltas are gradients. In `clock`."""
        self._worker.only_in("clock")
        self._not_given("add")
        slots = self._slots(slots)
        table = self._table
        deltas = as_values(f"deltas for table {table.name}", deltas, table.dtype, (slots.size, table.width))
        lib.rows_add(self._in_place(), table.type, table.width, _pointer("uint32_t[]", slots), slots.size,
                     _pointer("char[]", deltas))

    def add_elements(self, slots, columns, deltas):
        """Adds deltas[i] to column columns[i] of the row slots[i], each of them [n]; an element that appears more than
        once gets all its deltas. For a few elements of wide rows; the only way to change a table with changes_given in
        place. In `clock`."""
        self._worker.only_in("clock")
        table, slots = self._table, self._slots(slots)
        what = f"table {table.name}: "
        columns = np.asarray(columns)
        if columns.dtype.kind not in "iu" and columns.size > 0:
            raise TypeError(f"{what}columns of dtype {columns.dtype}: expected whole numbers")
        if columns.shape != slots.shape:
            raise ValueError(f"{what}columns of shape {columns.shape}: expected {slots.shape}, as the slots have")
        if columns.size > 0 and (int(columns.min()) < 0 or int(columns.max()) >= table.width):
            raise IndexError(f"{what}columns {columns.min()} to {columns.max()}: expected 0 to {table.width - 1}")
        deltas = as_values(f"deltas for table {table.name}", deltas, table.dtype, slots.shape)
        if slots.size == 0:
            return
        order = np.lexsort((columns, slots))
        slots, columns, deltas = slots[order], columns[order].astype(np.uint32), deltas[order]
        first = np.flatnonzero(np.r_[True, (slots[1:] != slots[:-1]) | (columns[1:] != columns[:-1])])
        slots, columns, deltas = slots[first], columns[first], np.add.reduceat(deltas, first, dtype=table.dtype)
        check(lib.rows_add_elements(self._worker.handle, table.index, int(table.changes_given), self._in_place(),
                                    table.type, _pointer("uint32_t[]", slots), _pointer("uint32_t[]", columns),
                                    _pointer("char[]", deltas), slots.size))

    def put(self, slots, values):
        """Sets the row slots[i] to values[i]. In `clock`; for a table with mode "put"."""
        self._worker.only_in("clock")
        table = self._table
        if table.mode != "put":
            raise TypeError(f"table {table.name} adds updates: expected mode='put', or add")
        slots = self._slots(slots)
        values = as_values(f"values for table {table.name}", values, table.dtype, (slots.size, table.width))
        lib.rows_put(self._in_place(), table.width * table.dtype.itemsize, _pointer("uint32_t[]", slots), slots.size,
                     _pointer("char[]", values))

    def done(self, first: int, count: int):
        """Declares that rows first to first + count - 1 of a whole table will not be changed any more in this clock, so
        that --flush-early may send their updates while `clock` goes on: after the backward pass of each layer, say.
        Without that option it does nothing. A change of such a row before the next clock is an error, but one through
        an array of change() or gradients() that was kept is lost, and found by PROTEUS_CHECK=1 alone. Rows can still be
        read, but not their gradients(), which may be zero by then. In `clock`."""
        self._worker.only_in("clock")
        table = self._table
        first, count = operator.index(first), operator.index(count)
        if first < 0 or count < 0:
            raise ValueError(f"table {table.name}: {count} rows from {first} on: expected numbers from 0 on")
        check(lib.aml_rows_done(self._worker.handle, table.index, first, count))

    def read(self, keys) -> np.ndarray:
        """Copies of the rows of `keys`, [i, column]; for one key [column]. Rows that are not in this process's cache
        yet are fetched, all by one trip. In `begin`, `clock`, `evaluate`, `finish` and transforms with state."""
        self._worker.only_in(*READS_STATE)
        keys = as_keys(keys)
        values = np.empty(keys.shape + (self._table.width,), self._table.dtype)
        check(lib.aml_read_params(self._worker.handle, self._table.index, _pointer("uint64_t[]", keys), keys.size,
                                  _pointer("char[]", values)))
        self._taken = None  # there may be more rows than before
        return values

    def update(self, keys, deltas):
        """Adds deltas[i] to the row of keys[i]; with mode "put" sets it. With an optimizer the deltas are gradients.
        In `clock`."""
        self._worker.only_in("clock")
        keys = as_keys(keys)
        table = self._table
        deltas = as_values(f"deltas for table {table.name}", deltas, table.dtype, keys.shape + (table.width,))
        check(lib.aml_update_params(self._worker.handle, table.index, _pointer("uint64_t[]", keys), keys.size,
                                    _pointer("char[]", deltas)))
        self._taken = None  # there may be more rows than before


class Items:
    """Items of one size, as `clock` and `evaluate` get them.

    data   [n, ...], of the dtype and shape that the app's `item` says.
    slots  [n, rows]: the slots of the rows that each names, one for each table of the app's `item_rows`.
    """

    __slots__ = ("data", "slots")

    def __init__(self, data, slots):
        self.data, self.slots = data, slots

    def __len__(self):
        return len(self.data)

    def __getitem__(self, part: slice) -> "Items":
        """Some of the items: items[begin:end]."""
        if not isinstance(part, slice):
            raise TypeError(f"items[{part!r}]: expected a slice; item {part!r} is items.data[{part!r}]")
        return Items(self.data[part], self.slots[part])


class VariedItem:
    """One item of its own size: the slots of its rows, in the order in which it was emitted with them, and its data."""

    __slots__ = ("slots", "data")

    def __init__(self, slots, data):
        self.slots, self.data = slots, data


class VariedItems:
    """Items that differ in size: a sequence of VariedItem."""

    def __init__(self, places, values, dtype):
        self._places, self._bytes, self._dtype = places, values, dtype

    @classmethod
    def at(cls, call, what, pointer, count, dtype):
        """Those that lie from `pointer` on."""
        places = np.empty(count + 1, np.uint64)
        lib.items_places(pointer, count, _pointer("uint64_t[]", places))
        return cls(places, call.view(what, pointer, np.dtype(np.uint32), (int(places[-1]) // 4,)), dtype)

    def __len__(self):
        return len(self._places) - 1

    def __getitem__(self, at):
        """An item; or items, as items[begin:end]."""
        if isinstance(at, slice):
            begin, end, step = at.indices(len(self))
            if step != 1:
                raise ValueError(f"items[::{step}]: expected a slice without a step")
            return VariedItems(self._places[begin:max(begin, end) + 1], self._bytes, self._dtype)
        if not -len(self) <= at < len(self):
            raise IndexError(f"item {at} of {len(self)}")
        begin = int(self._places[at % len(self)]) // 4
        rows, size = int(self._bytes[begin]), int(self._bytes[begin + 1])
        data = begin + 2 + rows
        return VariedItem(self._bytes[begin + 2:data],
                          self._bytes[data:data + (size + 3) // 4].view(np.uint8)[:size].view(self._dtype))


def varied_dtype(app):
    """The dtype of varied items' data."""
    return np.dtype(np.uint8 if app.item is None else app.item)


def items_at(app, call, what, pointer, count, made=None):
    """Items as `read` has emitted them, or with `made` as that dtype and shape, of a transform."""
    if app.varied and made is None:
        return VariedItems.at(call, what, pointer, count, varied_dtype(app))
    element, shape = made or app.item_shape()
    rows = len(app.item_rows)
    size = (4 * rows + bytes_of(element, shape) + 3) // 4 * 4
    slots = call.view(what, pointer, np.dtype(np.uint32), (count, rows), (size, 4))
    data = call.view(what, ffi.cast("char *", pointer) + 4 * rows, element, (count,) + shape,
                     (size,) + _strides(element, shape))
    return Items(data, slots)


class Worker:
    """The library, as a function of the app sees it. Valid until the function returns. For what each call means see
    agileml.h, whose functions have the same names behind aml_."""

    def __init__(self, app, handle, call, bits=None):
        self._app, self._handle, self.call, self._bits = app, handle, call, bits
        self._tables = {}

    @property
    def handle(self):
        if self.call.ended:
            raise RuntimeError(f"a worker is used after {self.call.function} has returned")
        return self._handle

    def only_in(self, *functions):
        """Refuses a call of the library outside of these functions of the app."""
        self.handle
        if self.call.kind not in functions:
            raise RuntimeError(f"called in {self.call.function}: expected in {', '.join(functions)}")

    def _table(self, table):
        name = table if isinstance(table, str) else table.name
        found = self._app._tables.get(name)
        if found is None:
            raise KeyError(f"no table {name!r}: the app has {', '.join(self._app._tables) or 'none'}")
        return found

    # ---- Rows ----

    def table(self, table) -> Rows:
        """The rows of a table, by its name or by the app's attribute."""
        self.only_in(*READS_STATE)
        found = self._table(table)
        rows = self._tables.get(found.name)
        if rows is None:
            rows = self._tables[found.name] = Rows(self, found)
        return rows

    def scan(self, table, each=None):
        """All rows of a table, from all servers: keys [n] and rows [n, width], by ascending keys. Rows that no clock
        has changed may be missing. With `each` calls each(keys, rows) for some thousands at a time, in any order, and
        returns nothing. In `finish`."""
        self.only_in("finish")
        found = self._table(table)
        parts = []
        state = Scan(found, each or (lambda keys, rows: parts.append((keys, rows))))
        handle = ffi.new_handle(state)
        result = lib.aml_scan(self.handle, found.index, lib.each_rows, handle)
        if state.error is not None:
            raise state.error
        check(result)
        if each is not None:
            return None
        keys = np.concatenate([part[0] for part in parts]) if parts else np.empty(0, np.uint64)
        rows = np.concatenate([part[1] for part in parts]) if parts else np.empty((0, found.width), found.dtype)
        order = np.argsort(keys, kind="stable")
        return keys[order], rows[order]

    # ---- Input ----

    def emit(self, data=None, keys=None, test=None, numbers=None, totals=None, maxima=None) -> int:
        """Emits many items by one call, and returns how many of them this process keeps.

        data     [n, ...]: what each carries, as the app's `item` says.
        keys     [n, rows]: the rows that each names ([n] when each names one).
        test     [n] of bool: which are test items; one bool for all.
        numbers  [n]: the items' numbers in the input, for items without rows.
        totals   [n, t]: adds [:, i] to total i. maxima [n, m]: raises maximum i.

        In `read`."""
        self.only_in("read")
        app = self._app
        if app.varied:
            raise TypeError("the app's items are varied: expected emit_varied")
        element, shape = app.item_shape()
        given = [len(np.asarray(a)) for a in (data, keys) if a is not None]
        if not given:
            raise TypeError("emit: expected data or keys")
        n = given[0]
        rows = len(app.item_rows)
        if (data is None) != (element.itemsize == 0 or shape == (0,)):
            raise TypeError(f"emit: {'no ' if data is None else ''}data: expected "
                            f"{'it' if data is None else 'none'}, as the app's item has {element.itemsize} bytes")
        if (keys is None) != (rows == 0):
            raise TypeError(f"emit: {'no ' if keys is None else ''}keys: expected {rows} for each item, as the app's "
                            "item_rows say")
        batch = ffi.new("struct batch *", {"count": n, "item_rows": rows})
        keep = [batch]

        def give(field, kind, array):
            keep.append(array)
            setattr(batch, field, _pointer(kind, array))

        if data is not None:
            array = as_values("data of items", data, element, (n,) + shape)
            batch.item_bytes = bytes_of(element, shape)
            give("data", "unsigned char[]", array)
        if keys is not None:
            array = as_keys(keys)
            if array.shape != (n, rows) and array.shape != ((n,) if rows == 1 else ()):
                raise ValueError(f"keys of items: shape {array.shape}: expected {(n, rows)}")
            give("keys", "uint64_t[]", array)
        if test is not None:
            give("test", "unsigned char[]", as_values("test", test, np.dtype(bool), (n,)).view(np.uint8))
        if numbers is not None:
            if rows > 0:
                raise TypeError("emit: numbers: expected none, as the app's items name rows")
            array = as_keys(numbers)
            if array.shape != (n,):
                raise ValueError(f"numbers of items: shape {array.shape}: expected {(n,)}")
            give("numbers", "uint64_t[]", array)
        for field, values, count in (("totals", totals, "total_count"), ("maxima", maxima, "maximum_count")):
            if values is not None:
                array = np.asarray(values, np.float64)
                if array.ndim != 2 or len(array) != n or not 1 <= array.shape[1] <= 8:
                    raise ValueError(f"{field}: shape {array.shape}: expected {(n, '1 to 8')}")
                setattr(batch, count, array.shape[1])
                give(field, "double[]", np.ascontiguousarray(array))
        return check(lib.emit_batch(self.handle, batch))

    def emit_varied(self, key: int, runs, data=b"", test: bool = False) -> bool:
        """Emits one item of its own size. runs: {table: keys}, the rows that it names, in this order; data: bytes, or
        an array of the app's `item`. `key` (a document's number, say) decides which process gets it. Returns whether
        this process keeps it. In `read`."""
        self.only_in("read")
        if not self._app.varied:
            raise TypeError("the app's items have one size: expected emit")
        arrays = [(self._table(table).index, as_keys(keys).ravel()) for table, keys in dict(runs).items()]
        listed = ffi.new("struct aml_keys[]", len(arrays))
        for at, (table, keys) in enumerate(arrays):
            listed[at] = {"table": table, "count": keys.size, "keys": _pointer("uint64_t[]", keys)}
        if self._app.item is not None and not isinstance(data, (bytes, bytearray, memoryview)):
            array = np.asarray(data)
            data = as_values("data of an item", array, np.dtype(self._app.item), array.shape).tobytes()
        data = bytes(data)
        return check(lib.aml_emit_varied(self.handle, 1 if test else 0, int(key), listed, len(arrays), data,
                                         len(data))) == 1

    def read_ratings(self, path, each):
        """Reads files of ratings (lines of user, item, rating). Calls each(worker, ratings) with arrays of the fields
        user, item and value, in several threads, each time with a worker to emit by. In `read`."""
        self._read(lib.aml_read_ratings, lib.each_ratings, path, each)

    def read_lines(self, path, each):
        """Reads files of lines, plain, gzip or zstd. Calls each(worker, lines) with a Lines of whole lines, in several
        threads, each time with a worker to emit by. In `read`."""
        self._read(lib.aml_read_lines, lib.each_lines, path, each)

    def read_groups(self, path, each):
        """read_lines for lines that belong together, such as those of a document: lines that follow each other and have
        the same first field (up to a blank, a tab, a comma or a semicolon) come in one call of `each`. In `read`."""
        self._read(lib.read_groups, lib.each_lines, path, each)

    def read_files(self, path, each):
        """Divides files of any format, such as archives or .npy, among the processes: calls each(worker, file) with the
        paths of those that this process is to read, one after the other, with a worker to emit by. In `read`."""
        self._read(lib.aml_read_files, lib.each_whole_file, path, each)

    def _read(self, function, callback, path, each):
        self.only_in("read")
        handle = ffi.new_handle(each)
        check(function(self.handle, os.fsencode(path), callback, handle))

    def files(self, value) -> list:
        """The files that an option's value names: a file, a folder, a pattern, several with commas between them. In
        `configure` and `read`."""
        self.only_in("configure", "read")
        found = []
        handle = ffi.new_handle(found)
        check(lib.aml_files(self.handle, os.fsencode(value), lib.each_file, handle))
        return found

    def input_file(self, path):
        """Reports a file that the app reads by itself. In `read`."""
        self.only_in("read")
        lib.aml_input_file(self.handle, os.fsencode(path))

    def input_mark(self, what: str, value: int):
        """Reports a hash, 0 to 2**64 - 1, of what this process has found in its input by itself; zlib.crc32, say, as
        Python's own hash() differs from process to process. In `configure`."""
        self.only_in("configure")
        lib.aml_input_mark(self.handle, what.encode(), int(value))

    # ---- Notes ----

    def note(self, text: str):
        """Says a line to the people who run the job, such as what was read; once for each text, whichever processes say
        it. In all functions but transforms."""
        self.only_in("configure", "read", *AFTER_LOADING)
        lib.note_text(self.handle, text.encode(errors="replace"))

    # ---- Metrics ----

    def metric(self, metric, total: float, weight: float = 1.0):
        """Adds to a metric's sums, by its name or by the app's attribute: as worker.metric("rmse", (errors**2).sum(),
        len(errors)). `clock` adds to metrics that are not `evaluated`, `evaluate` to the others."""
        self.only_in("clock", "evaluate")
        name = metric if isinstance(metric, str) else metric.name
        found = self._app._metrics.get(name)
        if found is None:
            raise KeyError(f"no metric {name!r}: the app has {', '.join(self._app._metrics) or 'none'}")
        lib.aml_metric_add(self.handle, found.index, float(total), float(weight))

    # ---- Where the job stands ----

    @property
    def clock(self) -> int:
        """The clock that is worked on or evaluated, from 1."""
        self.only_in(*AFTER_LOADING)
        return lib.aml_clock(self.handle)

    @property
    def iteration(self) -> int:
        """The iteration that the clock belongs to, from 1."""
        self.only_in(*READS_STATE)
        return lib.aml_iteration(self.handle)

    @property
    def clocks_per_iteration(self) -> int:
        """Parts of a pass over the data."""
        self.only_in(*AFTER_LOADING)
        return lib.aml_clocks_per_iteration(self.handle)

    @property
    def phase(self) -> int:
        """The clock's phase, from 0 to the app's phases - 1."""
        self.only_in(*AFTER_LOADING)
        return lib.aml_phase(self.handle)

    @property
    def last(self) -> bool:
        """Whether this is the evaluation of the job's last clock."""
        self.only_in("evaluate")
        return lib.aml_last(self.handle) != 0

    @property
    def lag(self) -> int:
        """By how many clocks the rows that this clock sees lag, at most --staleness."""
        self.only_in("clock")
        return lib.aml_lag(self.handle)

    @property
    def seed(self) -> int:
        """--seed."""
        return lib.aml_seed(self.handle)

    def random(self, *numbers: int) -> np.random.Generator:
        """A generator of random numbers, which follow from --seed and the numbers given here alone (in a transform also
        from the item and the iteration), so they are the same in every process: worker.random(worker.clock), say.
        Each call begins anew."""
        bits = self.seed if self._bits is None else self._bits
        for number in numbers:
            bits = lib.aml_mix(bits, int(number) & (2**64 - 1))
        return np.random.default_rng(bits)

    @property
    def bits(self) -> int:
        """64 random bits that follow from --seed, the item and the iteration: much cheaper than random(). In a
        transform."""
        if self._bits is None:
            raise RuntimeError(f"worker.bits: called in {self.call.function}: expected in a transform")
        return self._bits

    # ---- Slices and strategies ----

    def slices(self, items):
        """The items of `clock` in parts of about equal sizes, at most --slice each; one without that option. For apps
        with `slices`: all parts are to be computed from the same rows. In `clock`."""
        self.only_in("clock")
        done, count = 0, len(items)
        while (more := lib.aml_slice(self.handle, count, done)) > 0:
            yield items[done:done + more]
            done += more

    @property
    def averages(self) -> bool:
        """Whether --strategy is other than ssgd."""
        return lib.aml_averages(self.handle) != 0

    @property
    def strategy(self) -> str:
        """How nodes agree in this clock: "ssgd" (updates are summed), "sma" (local steps, then the mean of all
        processes' rows) or "adpsgd" (as sma, and rows are averaged with a random process's between local steps, so
        each call of `clock` takes them anew). In `clock`."""
        self.only_in("clock")
        strategy = lib.aml_strategy(self.handle)
        if strategy not in STRATEGIES:
            raise RuntimeError(f"worker.strategy: {strategy}: expected one of {STRATEGIES}")
        return STRATEGIES[strategy]

    @property
    def local_step(self) -> int:
        """The number of this call of `clock` among the local steps that belong together, from 0. In `clock`."""
        self.only_in("clock")
        return lib.aml_local_step(self.handle)

    @property
    def share(self) -> float:
        """This process's share of the data in this clock, 0 to 1: with strategy "ssgd" a step from the mean of its own
        items is to be multiplied by it. In `clock`."""
        self.only_in("clock")
        return lib.aml_share(self.handle)

    @property
    def total_items(self) -> int:
        """Training items of all nodes."""
        self.only_in(*AFTER_LOADING)
        return lib.aml_total_items(self.handle)

    @property
    def node_items(self) -> int:
        """Training items of this node."""
        self.only_in(*AFTER_LOADING)
        return lib.aml_node_items(self.handle)

    @property
    def nodes(self) -> int:
        """Nodes that work on the data in this clock."""
        self.only_in(*AFTER_LOADING)
        return lib.aml_nodes(self.handle)

    @property
    def staleness(self) -> int:
        """--staleness."""
        return lib.aml_staleness(self.handle)

    def total(self, index: int) -> float:
        """Total `index` over the whole input."""
        self.only_in(*READS_STATE)
        return lib.aml_total(self.handle, self._index(index))

    def maximum(self, index: int) -> float:
        """Maximum `index` over the whole input."""
        self.only_in(*READS_STATE)
        return lib.aml_total_maximum(self.handle, self._index(index))

    @staticmethod
    def _index(index):
        if not 0 <= index < 8:
            raise IndexError(f"total {index}: expected 0 to 7")
        return index

    @property
    def items(self):
        """This node's training items, of all clocks of an iteration, as `read` has emitted them."""
        self.only_in("begin", "clock", "evaluate")
        count = ffi.new("size_t *")
        pointer = lib.aml_items(self.handle, count)
        return items_at(self._app, self.call, "the node's items", pointer, count[0])

    @property
    def items_on_disk(self) -> bool:
        """Whether this node's items don't fit --memory."""
        self.only_in(*AFTER_LOADING)
        return lib.aml_items_on_disk(self.handle) != 0


class Scan:
    """What aml_scan calls back with."""

    def __init__(self, table, each):
        self.table, self.each, self.error = table, each, None

    def take(self, keys, rows, count):
        size = self.table.width * self.table.dtype.itemsize
        got = np.frombuffer(ffi.buffer(keys, count * 8), np.uint64).copy()
        values = np.frombuffer(ffi.buffer(rows, count * size), self.table.dtype).reshape(count, self.table.width).copy()
        self.each(got, values)


RATING = np.dtype({"names": ["user", "item", "value"], "formats": [np.uint64, np.uint64, np.float32],
                   "offsets": [ffi.offsetof("struct aml_rating", name) for name in ("user", "item", "value")],
                   "itemsize": ffi.sizeof("struct aml_rating")})


class Lines:
    """Whole lines of a file: `text` (bytes), and the place that names each line: (file, split, offset + its place in
    the text) is the same whichever process reads the line."""

    def __init__(self, worker, lines):
        self._worker, self._lines = worker, lines
        self.text = bytes(ffi.buffer(lines.text, lines.size))
        self.file, self.split, self.offset, self.first = lines.file, lines.split, lines.offset, lines.first != 0

    def number(self, at: int) -> int:
        """The number in its file, from 1, of the line at text[at]: for errors. Reads the file up to there."""
        return lib.aml_line_number(self._worker.handle, self._lines, self._lines.text + at)
