"""Training steps whose computing is a pause, as on a device of the node's own: each worker takes steps of one length,
and changes the whole model in each. For bench/strategies --grow."""
import time

import numpy as np
import proteus

WIDTH = 256


class Step(proteus.App):
    """steps that pause"""

    name = "step"
    floats = proteus.Option(256 * 1024, minimum=WIDTH, help="of the model")
    pause = proteus.Option(0.1, help="seconds of a step")
    strategies = True
    clocks_per_iteration = 10
    model = proteus.Table(np.float32, width=WIDTH, whole=True)
    steps = proteus.Metric("mean")
    item = np.float32
    read_only_emits = True

    def configure(self, worker):
        self.model.rows = self.floats // WIDTH

    def read(self, worker):
        yield np.zeros(1024, np.float32)

    def clock(self, worker, items):
        time.sleep(self.pause)
        rows = worker.table("model").change()
        rows += np.float32(1e-3)
        worker.metric("steps", 1)


if __name__ == "__main__":
    proteus.main(Step)
