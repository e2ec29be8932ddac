"""PageRank. Each iteration's ranks stand in rows of their own: a clock reads those of the iteration before, which
nothing changes any more. So the result is the same on any number of nodes, whichever of them come, go or die
(docs/api.md)."""

from pathlib import Path

import numpy as np
import proteus


class PageRank(proteus.App):
    """ranks of a graph's nodes by their links (Brin, Page, 1998)"""

    data = proteus.Option(type=Path, required=True, help="links: lines of from, to; nodes are numbers from 0 on")
    out = proteus.Option(type=Path, help="write the ranks there, as .npy")
    damping = proteus.Option(0.85, minimum=0, maximum=1, help="the part of a node's rank that follows its links")

    ranks = proteus.Table(np.float64)
    change = proteus.Metric("sum")

    # A link with its part of the rank that leaves `source`; for each node one more item, with the target -1.
    item = np.dtype([("source", np.int32), ("target", np.int32), ("part", np.float64)])
    read_only_emits = True
    iterations = 50

    def links(self):
        links = np.unique(np.loadtxt(self.data, np.int64, ndmin=2), axis=0)
        if links.shape[1] != 2 or links.min() < 0:
            raise proteus.InputError(f"{self.data}: expected lines of two numbers from 0 on")
        return links

    def configure(self, worker):
        if worker.staleness > 0:  # the ranks of the iteration before would not be complete
            raise proteus.InputError(f"--staleness {worker.staleness}: expected 0")
        self.nodes = int(self.links().max()) + 1

    def read(self, worker):
        worker.input_file(self.data)
        links = self.links()
        degree = np.bincount(links[:, 0], minlength=self.nodes)
        items = np.zeros(len(links) + self.nodes, self.item)
        items["source"] = np.append(links[:, 0], np.arange(self.nodes))
        items["target"] = np.append(links[:, 1], np.full(self.nodes, -1))
        items["part"][:len(links)] = 1 / degree[links[:, 0]]
        items["part"][len(links):] = np.where(degree == 0, 1 / self.nodes, 0)  # no links: as if to all
        yield items

    def keys(self, iteration):
        return np.arange(self.nodes, dtype=np.uint64) + np.uint64(iteration * self.nodes)

    def ranks_after(self, worker, iteration):
        if iteration == 0:
            return np.full(self.nodes, 1 / self.nodes)
        return (1 - self.damping) / self.nodes + worker.table("ranks").read(self.keys(iteration))[:, 0]

    def clock(self, worker, items):
        ranks = self.ranks_after(worker, worker.iteration - 1)
        source, target = items.data["source"], items.data["target"]
        flow = self.damping * items.data["part"] * ranks[source]
        node = target < 0
        moved = np.bincount(target[~node], flow[~node], self.nodes) + flow[node].sum()
        worker.table("ranks").update(self.keys(worker.iteration), moved[:, None])
        if worker.iteration > 1:
            before = self.ranks_after(worker, worker.iteration - 2)
            worker.metric("change", np.abs(ranks - before)[source[node]].sum())

    def finish(self, worker):
        if self.out is not None:
            np.save(self.out, self.ranks_after(worker, worker.iteration))


if __name__ == "__main__":
    proteus.main(PageRank)
