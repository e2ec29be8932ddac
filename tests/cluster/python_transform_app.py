"""An app for python_transform_test: transforms, an optimizer of its own, elements of wide rows, slices; right in all,
but for the mistake that --mistake names."""
import pathlib
import sys

import numpy as np
import proteus

ITEMS = 300
WEIGHTS = 8
COLUMNS = 20
KEYS = 5000  # more rows than a call of the optimizer has
kept = []


class Transformd(proteus.App):
    """transforms, an optimizer of its own and slices"""

    name = "transformed"
    mistake = proteus.Option("none", help="what to do wrong")
    for_lots = proteus.Option(False, help="work in lots, too")
    out = proteus.Option(type=pathlib.Path, help="write all tables there, as .npz")
    sums = proteus.Table(np.int64, width=COLUMNS, rows=3, whole=True, changes_given=True)
    counts = proteus.Table(np.int64, width=WEIGHTS, rows=1, whole=True)  # the transform `weigh` reads it
    stepped = proteus.Table(np.float64, width=3)
    lots_done = proteus.Metric("sum")
    tested = proteus.Metric("sum", evaluated=True)
    item = (np.int32, 3)
    iterations = 3
    read_only_emits = slices = True

    def configure(self, worker):
        if self.for_lots:
            self.lots, self.sums.changes_given = True, False
        self.decode.item = (np.int64, 2)  # as of an option
        self.stepped.optimizer = proteus.Optimizer(self.step, state=2)
        if self.mistake == "transform-item":
            self.shift.item = (np.int64, 3)
        if self.mistake == "optimizer-type":
            self.stepped.optimizer = self.step

    def read(self, worker):
        numbers = np.arange(ITEMS, dtype=np.int32)
        yield {"data": numbers[:, None] * np.array([1, 2, 3], np.int32), "numbers": numbers, "test": numbers % 10 == 9}

    @proteus.transform()
    def decode(self, worker, item):
        mistake = self.mistake
        if item.dtype != np.int32 or item.shape != (3,) or item[2] != 3 * item[0]:
            raise AssertionError(f"decode gets {item!r}")
        if mistake == "transform-shape":
            return item
        if mistake == "transform-scalar":
            return item[0]
        if mistake == "transform-one":
            return item[:1].copy()
        if mistake == "transform-dtype":
            return np.zeros(2, complex)
        if mistake == "transform-nothing":
            return None
        if mistake == "transform-keep":
            kept.append(item[1:])
        if mistake == "transform-write":
            item[0] = 1
        if mistake == "transform-raise":
            {}["x"]
        if mistake == "transform-table":
            worker.table("counts")
        if mistake == "transform-clock":
            worker.clock
        return [int(item[0]), worker.bits % 7 + worker.random().integers(0, 5)]

    @proteus.transform(train=True)
    def shift(self, worker, item):
        return item + np.array([0, 1000])

    @proteus.transform((np.int64, 3), state=True)
    def weigh(self, worker, item):
        if self.mistake == "transform-update":
            worker.table("counts").update(0, np.ones(WEIGHTS, int))
        if self.mistake == "transform-rows":
            worker.table("counts").rows
        count = worker.table("counts").read(0)[item[0] % WEIGHTS]
        return [item[0], item[1], count * worker.iteration]

    def step(self, steps):
        """Row += sum times the number of this row's steps."""
        mistake = self.mistake
        if mistake == "apply-stderr":
            sys.stderr.close()
        if mistake in ("apply-raise", "apply-stderr"):
            {}["x"]
        if mistake == "apply-assign":
            steps.rows = steps.rows + steps.sums
        if mistake == "apply-shape":
            steps.rows += np.ones(2)
        if mistake == "apply-keep":
            kept.append(steps.states[:1])
        if steps.rows.shape != steps.sums.shape or steps.states.shape != (len(steps.keys), 2) or steps.clock < 1:
            raise AssertionError(f"steps of {steps.rows.shape}, {steps.states.shape}")
        steps.states[:, 0] += 1
        steps.states[:, 1] = steps.keys
        steps.rows += steps.sums * steps.states[:, :1]
        return steps.rows if mistake == "apply-return" else None

    def clock(self, worker, items):
        sums, mistake = worker.table("sums"), self.mistake
        if mistake == "element-column":
            sums.add_elements([0], [COLUMNS], [1])
        if mistake == "element-shape":
            sums.add_elements([0, 1], [1], [1, 2])
        if mistake == "element-dtype":
            sums.add_elements([0], [1], [1.5])
        if mistake == "element-add":
            sums.add([0], np.ones((1, COLUMNS), int))
        if mistake == "bits":
            worker.bits
        if mistake == "slice":
            items[3]
        if mistake == "clock-stderr":
            sys.stderr.close()
            {}["x"]
        done = 0
        for part in worker.slices(items):
            numbers, made, weighed = part.data.T
            done += len(part)
            for row, values in enumerate((np.ones_like(numbers), made, weighed)):
                sums.add_elements(np.full(len(part), row), numbers % COLUMNS, values)
        if done != len(items):
            raise AssertionError(f"slices of {done} items of {len(items)}")
        numbers = items.data[:, 0]
        worker.table("counts").add([0], np.bincount(numbers % WEIGHTS, minlength=WEIGHTS)[None])
        keys = np.arange(KEYS)
        mine = np.isin(keys % ITEMS, numbers)
        worker.table("stepped").update(keys[mine], keys[mine, None] * np.array([0, 1, 2.0]))
        worker.metric("lots_done", len(items))
        if worker.strategy != "ssgd" or worker.averages or worker.local_step != 0 or not 0 < worker.share <= 1:
            raise AssertionError("strategy")

    def evaluate(self, worker, items):
        if items.data.shape[1:] != (3,) or (items.data[:, 1] >= 1000).any():
            raise AssertionError(f"evaluate gets {items.data[:3]}")  # `shift` is for training items alone
        worker.metric("tested", items.data[:, 0].sum())

    def finish(self, worker):
        if self.out is not None:
            tables = {}
            for name in "sums", "counts", "stepped":
                tables[name + "_keys"], tables[name] = worker.scan(name)
            np.savez(self.out, **tables)


if __name__ == "__main__":
    proteus.main(Transformd)
