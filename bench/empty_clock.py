"""bench/empty_clock.c in Python. Also writes how its memory grows, and that a table's rows stay where they are."""
import resource
import sys

import numpy as np
import proteus

WIDTH = 100


class EmptyClock(proteus.App):
    """clocks that do nothing"""

    name = "empty_clock"
    items = proteus.Option(1000000, minimum=1, help="items of a clock")
    rows = proteus.Option(10, minimum=1, help="rows of 100 floats")
    update = proteus.Option(False, help="add to each row in each clock")
    optimizer = proteus.Option("none", choices=["none", "momentum", "python"], help="of the rows, with --update")
    w = proteus.Table(np.float32, width=WIDTH, whole=True)
    none = proteus.Metric("mean")
    item = np.float32
    read_only_emits = True
    memory_early = 0
    address = None

    def configure(self, worker):
        self.w.rows = self.rows
        if self.optimizer == "momentum":
            self.w.optimizer = proteus.Momentum(0.1)
        elif self.optimizer == "python":
            self.w.optimizer = proteus.Optimizer(self.momentum, state=WIDTH)

    def momentum(self, steps):
        steps.states *= 0.9
        steps.states += steps.sums
        steps.rows -= 0.1 * steps.states

    def read(self, worker):
        yield np.arange(self.items, dtype=np.float32)

    def clock(self, worker, items):
        if self.update and self.optimizer != "none":
            sums = worker.table("w").gradients()
            sums += 1
        elif self.update:
            rows = worker.table("w").change()
            rows += 1
            address = rows.__array_interface__["data"][0]
            if self.address not in (None, address):
                raise AssertionError("the rows have moved")
            self.address = address
        worker.metric("none", 0, len(items))
        if worker.clock == 1000:
            self.memory_early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def finish(self, worker):
        if self.memory_early > 0:
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.memory_early
            print(f"memory grown since clock 1000: {grown} KiB", flush=True)


class Staged(EmptyClock):
    """clocks that do nothing, of items that a stage passes on"""

    staged = proteus.Option(False, help="run a stage on each item")

    @proteus.stage()
    def same(self, worker, item):
        return item


if __name__ == "__main__":
    proteus.main(Staged if "--staged" in sys.argv else EmptyClock)
