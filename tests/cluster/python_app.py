"""An app for python_test: right in all it does, but for the mistake that --mistake names."""
import pathlib
import sys
import threading
import time

import numpy as np
import proteus

ITEMS = 100
kept = []
addresses = set()
threading.Thread(target=threading.Event().wait, daemon=True).start()  # as numpy's libraries do, but on any machine


class Mistaken(proteus.App):
    """does what a test asks for"""

    name = "mistaken"
    mistake = proteus.Option("none", help="what to do wrong")
    size = proteus.Option("small", choices=["small", "large"])
    pause = proteus.Option(0.0, minimum=0, help="seconds that a clock takes longer")
    out = proteus.Option(type=pathlib.Path, help="write all tables there, as .npz")
    whole = proteus.Table(np.float64, width=4, rows=10, whole=True)
    large = proteus.Table(np.int64, width=512, rows=64, whole=True)
    sparse = proteus.Table(np.int64, width=2)
    adam = proteus.Table(np.float32, width=3, rows=5, whole=True, optimizer=proteus.Adam(0.1), start=1.0)
    started = proteus.Table(np.float32, width=2, start=lambda key: [key, 2])
    loss = proteus.Metric("mean")
    item = (np.float64, 3)
    iterations = 3
    read_only_emits = True

    def read(self, worker):
        if self.mistake == "emit-shape":
            yield np.zeros((10, 4))
        if self.mistake == "emit-dtype":
            yield np.zeros((10, 3), complex)
        if self.mistake == "emit-keys":
            yield {"data": np.zeros((10, 3)), "keys": np.zeros(10, int)}
        if self.mistake == "table-in-read":
            worker.table("whole")
        worker.note("read: 100 %s of \u00e4")
        yield np.arange(ITEMS * 3.0).reshape(ITEMS, 3)

    def clock(self, worker, items):
        large = worker.table("large")
        for first in (32, 0):
            large.change(np.arange(first, first + 32))[first:first + 32] += len(items)
            large.done(first, 32)
        whole, sparse, adam = worker.table("whole"), worker.table(self.sparse), worker.table("adam")
        addresses.add(whole.rows.__array_interface__["data"][0])
        time.sleep(self.pause)
        self.mistaken(worker, items, whole, sparse)
        # Views: what is written into one is seen in the other.
        seen = whole.rows
        changed = whole.change([1])
        before = seen[1, 0]
        changed[1, 0] += len(items)
        if not np.shares_memory(seen, changed) or seen[1, 0] != before + len(items):
            raise AssertionError("rows are a copy")
        whole.add(np.arange(10), np.full((10, 4), len(items)))
        whole.add([2, 2], np.full((2, 4), len(items)))
        sparse.update([1, 2**63 + 5, 1], len(items) * np.array([[1, 2], [3, 4], [5, 6]]))
        adam.gradients([2])[2] += len(items)
        adam.add([1], -len(items))
        key = 7 + worker.clock
        if worker.table("started").read(key)[0] != key:
            raise AssertionError("start values")
        worker.table("started").update(key, [0, len(items)])
        if items.data.shape[1:] != (3,) or len(items.slots.T) != 0:
            raise AssertionError(f"items of shape {items.data.shape}")
        worker.metric("loss", items.data.sum(), len(items))

    def mistaken(self, worker, items, whole, sparse):
        mistake = self.mistake
        if mistake == "keep":
            kept.append(whole.rows)
        elif mistake == "keep-slice":
            kept.append(items.data[3:4, 1:])
        elif mistake == "late-worker":
            if kept:
                kept[0].table("whole")
            kept.append(worker)
        elif mistake == "late-rows":
            if kept:
                kept[0].rows
            kept.append(whole)
        elif mistake == "write":
            whole.rows[0] = 1
        elif mistake == "write-items":
            items.data[:] += 1
        elif mistake == "overflow":
            sparse.update([1], np.array([[2**63, 1]], np.uint64))
        elif mistake == "slot":
            whole.add([10], np.ones((1, 4)))
        elif mistake == "negative-slot":
            whole.add([-1], np.ones((1, 4)))
        elif mistake == "shape":
            whole.add([1, 2], np.ones((2, 3)))
        elif mistake == "dtype":
            sparse.update([1], np.ones((1, 2)))
        elif mistake == "key-dtype":
            sparse.update([1.5], np.ones((1, 2), int))
        elif mistake == "negative-key":
            sparse.read([-1])
        elif mistake == "key":
            whole.read([10])
        elif mistake == "table":
            worker.table("nothing")
        elif mistake == "metric":
            worker.metric("nothing", 1)
        elif mistake == "exit":
            sys.exit(3)
        elif mistake == "raise":
            {}["x"]
        elif mistake == "input":
            raise proteus.InputError("the file x: expected y")
        elif mistake == "put":
            whole.put([1], np.ones((1, 4)))
        elif mistake == "change-optimizer":
            worker.table("adam").change()
        elif mistake == "scan":
            worker.scan("whole")
        elif mistake == "done-sparse":
            sparse.done(0, 1)
        elif mistake == "done-negative":
            whole.done(-1, 1)
        elif mistake == "done-change":
            worker.table("large").change([7])

    def finish(self, worker):
        if len(addresses) > 1:
            raise AssertionError("the rows of a whole table have moved")
        worker.note(f"finish: {self.size}\n")
        if self.out is not None:
            tables = {}
            for name in "whole", "large", "sparse", "adam", "started":
                tables[name + "_keys"], tables[name] = worker.scan(name)
            np.savez(self.out, **tables)


if __name__ == "__main__":
    proteus.main(Mistaken)
