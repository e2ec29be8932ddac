"""bench/empty_clock.c in Python. Also writes how its memory grows, and that a table's rows stay where they are."""
import resource

import numpy as np
import proteus

WIDTH = 100


class EmptyClock(proteus.App):
    """clocks that do nothing"""

    name = "empty_clock"
    items = proteus.Option(1000000, minimum=1, help="items of a clock")
    rows = proteus.Option(10, minimum=1, help="rows of 100 floats")
    update = proteus.Option(False, help="add to each row in each clock")
    w = proteus.Table(np.float32, width=WIDTH, whole=True)
    none = proteus.Metric("mean")
    item = np.float32
    read_only_emits = True
    memory_early = 0
    address = None

    def configure(self, worker):
        self.w.rows = self.rows

    def read(self, worker):
        yield np.arange(self.items, dtype=np.float32)

    def clock(self, worker, items):
        if self.update:
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


if __name__ == "__main__":
    proteus.main(EmptyClock)
