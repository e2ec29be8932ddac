"""Corpora of ../shared/data for bench/ordinary, each as two files of lda-c: a tenth of the documents, by a seed, is to
be tested on by document completion. And what scikit-learn's LatentDirichletAllocation and the shares of words make of
them."""

import gzip
import os
import time
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.decomposition import LatentDirichletAllocation

HELD_OUT = 0.1
TOPICS = 100
PASSES = 10


@dataclass
class Row:
    """A row of the results; `make` returns the documents as counts, a row each."""
    name: str
    make: object
    target: float
    options: list


def read_lda_c(path):
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="ascii")) as file:
        documents = [[pair.split(":") for pair in line.split()[1:]] for line in file]
    pairs = np.array([pair for document in documents for pair in document], dtype=int)
    ends = np.cumsum([0, *map(len, documents)])
    return sparse.csr_matrix((pairs[:, 1], pairs[:, 0], ends))


def read_uci(path):
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, skiprows=3, dtype=int)
    return sparse.csr_matrix((table[:, 2], (table[:, 0] - 1, table[:, 1] - 1)))


def read_libsvm(path):
    return load_svmlight_file(path)[0].astype(int).tocsr()


def split(counts):
    """(training documents, test documents)"""
    held = np.random.default_rng(0).random(counts.shape[0]) < HELD_OUT
    return counts[~held], counts[held]


def write(path, counts):
    with open(path, "w", encoding="ascii") as file:
        for begin, end in zip(counts.indptr, counts.indptr[1:]):
            pairs = zip(counts.indices[begin:end], counts.data[begin:end])
            file.write(" ".join([str(end - begin), *(f"{word}:{count}" for word, count in pairs)]) + "\n")


def halves(test):
    """Every other token of each document: what gives its topics, and what is scored."""
    parts = []
    for first in (0, 1):
        rows, words = [], []
        for row in range(test.shape[0]):
            span = slice(test.indptr[row], test.indptr[row + 1])
            tokens = np.repeat(test.indices[span], test.data[span])[first::2]
            rows.append(np.full(len(tokens), row))
            words.append(tokens)
        rows, words = np.concatenate(rows), np.concatenate(words)
        parts.append(sparse.csr_matrix((np.ones(len(rows)), (rows, words)), shape=test.shape))
    return parts


def constant_perplexity(train, test):
    """Each word's share of the training tokens as the prediction."""
    counts = np.asarray(train.sum(axis=0)).ravel() + 0.5
    scored = np.asarray(halves(test)[1].sum(axis=0)).ravel()
    return float(np.exp(-(scored @ np.log(counts / counts.sum())) / scored.sum()))


def measure(train, test):
    """{perplexity, cpu}"""
    began = time.process_time()
    model = LatentDirichletAllocation(TOPICS, learning_method="online", max_iter=PASSES, total_samples=train.shape[0],
                                      random_state=0).fit(train)
    given, scored = halves(test)
    shares = model.transform(given)
    topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
    scored = scored.tocoo()
    logs = np.log(np.einsum("ik,ki->i", shares[scored.row], topics[:, scored.col]))
    return {"perplexity": float(np.exp(-(logs @ scored.data) / scored.data.sum())), "cpu": time.process_time() - began}


def rows(data):
    def path(*names):
        return os.path.join(data, *names)
    found = [
        Row("reuters395", lambda: read_lda_c(path("bow-reuters395", "reuters.ldac")), 1095,
            ["--vocabulary", path("bow-reuters395", "reuters.tokens")]),
        Row("ap", lambda: read_lda_c(path("bow-ap", "ap.dat.gz")), 2380,
            ["--vocabulary", path("bow-ap", "vocab.txt.gz")]),
        Row("kos", lambda: read_uci(path("bow-kos", "docword.kos.txt.gz")), 1590, []),
        Row("tdt2", lambda: read_libsvm(path("class-tdt2", "tdt2.libsvm.gz")), 2240, [])]
    folders = ("bow-reuters395", "bow-ap", "bow-kos", "class-tdt2")
    return [row for row, folder in zip(found, folders) if os.path.isdir(path(folder))]
