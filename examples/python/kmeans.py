"""k-means: the centers of groups of points."""

from pathlib import Path

import numpy as np
import proteus


class KMeans(proteus.App):
    """centers of groups of points"""

    data = proteus.Option(type=Path, required=True, help="points: lines of --columns numbers")
    columns = proteus.Option(2, minimum=1, maximum=4, help="numbers in a point")
    centers = proteus.Option(8, minimum=1, help="centers to find")
    out = proteus.Option(type=Path, help="write the centers there")

    sums = proteus.Table(np.float64)  # of an iteration's points at each center, and how many they are
    squared_distance = proteus.Metric("mean")

    read_only_emits = True

    def configure(self, worker):
        if worker.staleness > 0:  # the sums of the iteration before would not be complete
            raise proteus.InputError(f"--staleness {worker.staleness}: expected 0")
        self.item = (np.float32, self.columns)
        self.sums.width = self.columns + 1

    def read(self, worker):
        worker.input_file(self.data)
        points = np.loadtxt(self.data, np.float32, ndmin=2)
        if points.shape[1] != self.columns:
            raise proteus.InputError(f"{self.data}: {points.shape[1]} numbers in a line: expected {self.columns}")
        yield {"data": points, "maxima": np.hstack([points, -points])}

    def keys(self, iteration):
        return np.arange(self.centers, dtype=np.uint64) + np.uint64(iteration * self.centers)

    def centers_after(self, worker, iteration):
        """The centers that the iteration after this one begins with."""
        low = np.array([-worker.maximum(self.columns + c) for c in range(self.columns)])
        high = np.array([worker.maximum(c) for c in range(self.columns)])
        start = worker.random().uniform(low, high, (self.centers, self.columns))
        if iteration == 0:
            return start
        sums = worker.table("sums").read(self.keys(iteration))
        count = sums[:, -1:]
        return np.where(count > 0, sums[:, :-1] / np.maximum(count, 1), start)

    def clock(self, worker, items):
        centers = self.centers_after(worker, worker.iteration - 1)
        distances = ((items.data[:, None, :] - centers) ** 2).sum(axis=2)
        nearest = distances.argmin(axis=1)
        sums = np.zeros((self.centers, self.columns + 1))
        np.add.at(sums, nearest, np.hstack([items.data, np.ones((len(items), 1))]))
        worker.table("sums").update(self.keys(worker.iteration), sums)
        worker.metric("squared_distance", distances.min(axis=1).sum(), len(items))

    def finish(self, worker):
        if self.out is not None:
            np.savetxt(self.out, self.centers_after(worker, worker.iteration), fmt="%.9g", delimiter="\t")


if __name__ == "__main__":
    proteus.main(KMeans)
