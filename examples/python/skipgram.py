"""Word vectors: skip-gram with negative sampling (Mikolov et al., 2013). Pairs of words that stand close to each other
are the items."""

from collections import Counter
from pathlib import Path

import numpy as np
import proteus


class SkipGram(proteus.App):
    """vectors of words, from the words beside them"""

    data = proteus.Option(type=Path, required=True, help="text: a sentence in each line")
    out = proteus.Option(type=Path, help="write words and vectors there, as .npz")
    width = proteus.Option(32, minimum=1, help="numbers of a vector")
    window = proteus.Option(2, minimum=1, help="words before and after that count")
    negatives = proteus.Option(5, minimum=1, help="words by chance beside each pair")
    rate = proteus.Option(0.2, minimum=0, help="length of a vector's first steps")

    vectors = proteus.Table(np.float32, whole=True, optimizer=proteus.AdaGrad(0.2))
    contexts = proteus.Table(np.float32, whole=True, optimizer=proteus.AdaGrad(0.2))
    loss = proteus.Metric("mean")

    item = (np.int32, 2)
    read_only_emits = True
    clocks_per_iteration = 20

    def configure(self, worker):
        with open(self.data, encoding="utf-8") as file:
            self.sentences = [line.split() for line in file]
        counts = Counter(word for sentence in self.sentences for word in sentence)
        self.words = sorted(counts)
        self.numbers = {word: number for number, word in enumerate(self.words)}
        self.chance = np.array([counts[word] for word in self.words]) ** 0.75
        self.chance /= self.chance.sum()
        for table in self.vectors, self.contexts:
            table.rows, table.width, table.optimizer = len(self.words), self.width, proteus.AdaGrad(self.rate)
        self.vectors.start = proteus.Uniform(-0.5 / self.width, 0.5 / self.width)

    def read(self, worker):
        worker.input_file(self.data)
        for sentence in self.sentences:
            numbers = [self.numbers[word] for word in sentence]
            pairs = [(a, b) for at, a in enumerate(numbers)
                     for b in numbers[max(0, at - self.window):at] + numbers[at + 1:at + 1 + self.window]]
            if pairs:
                yield np.array(pairs, np.int32)

    def clock(self, worker, items):
        random = worker.random(worker.clock)
        n, vectors, contexts = len(items), worker.table("vectors"), worker.table("contexts")
        center = items.data[:, 0]
        beside = np.hstack([items.data[:, 1:], random.choice(len(self.words), (n, self.negatives), p=self.chance)])
        v, c = vectors.rows[center], contexts.rows[beside]
        p = 1 / (1 + np.exp(-np.einsum("nk,nmk->nm", v, c)))
        real = np.arange(1 + self.negatives) == 0
        worker.metric("loss", -np.log(np.where(real, p, 1 - p) + 1e-7).sum(), n)
        error = p - real
        vectors.add(center, np.einsum("nm,nmk->nk", error, c))
        contexts.add(beside.ravel(), (error[:, :, None] * v[:, None, :]).reshape(-1, self.width))

    def finish(self, worker):
        if self.out is not None:
            np.savez(self.out, words=np.array(self.words), vectors=worker.scan("vectors")[1])


if __name__ == "__main__":
    proteus.main(SkipGram)
