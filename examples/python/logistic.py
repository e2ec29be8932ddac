"""Multinomial logistic regression with Adam, which runs in the servers: workers send gradients, and servers make steps
of their sums."""

from pathlib import Path

import numpy as np
import proteus


class Logistic(proteus.App):
    """classes of samples by logistic regression"""

    data = proteus.Option(type=Path, required=True, help="samples: lines of numbers, a class from 0 on first")
    out = proteus.Option(type=Path, help="write the weights there, as .npy; the last row is the biases")
    rate = proteus.Option(0.02, minimum=0, help="learning rate", steers=True)
    decay = proteus.Option(1e-4, minimum=0, help="L2 regularization")

    weights = proteus.Table(np.float32, whole=True)
    loss = proteus.Metric("mean")
    accuracy = proteus.Metric("mean", evaluated=True)

    read_only_emits = True
    clocks_per_iteration = 20

    def configure(self, worker):
        samples = np.loadtxt(self.data, np.float32, ndmin=2)
        self.weights.rows, self.weights.width = samples.shape[1], int(samples[:, 0].max()) + 1
        self.weights.optimizer = proteus.Adam(self.rate)
        self.item = (np.float32, samples.shape[1])

    def read(self, worker):
        worker.input_file(self.data)
        samples = np.loadtxt(self.data, np.float32, ndmin=2)
        yield {"data": samples, "test": np.arange(len(samples)) % 5 == 0}

    def forward(self, worker, items):
        x = np.hstack([items.data[:, 1:], np.ones((len(items), 1), np.float32)])
        labels = items.data[:, 0].astype(int)
        logits = x @ worker.table("weights").rows
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return x, labels, p / p.sum(axis=1, keepdims=True)

    def clock(self, worker, items):
        x, labels, p = self.forward(worker, items)
        worker.metric("loss", -np.log(p[np.arange(len(items)), labels]).sum(), len(items))
        p[np.arange(len(items)), labels] -= 1
        samples = worker.total_items / worker.clocks_per_iteration  # of all nodes in this clock, about
        gradients = worker.table("weights").gradients()
        gradients += x.T @ p / samples + self.decay / worker.nodes * worker.table("weights").rows

    def evaluate(self, worker, items):
        _, labels, p = self.forward(worker, items)
        worker.metric("accuracy", (p.argmax(axis=1) == labels).sum(), len(items))

    def finish(self, worker):
        if self.out is not None:
            np.save(self.out, worker.scan("weights")[1])


if __name__ == "__main__":
    proteus.main(Logistic)
