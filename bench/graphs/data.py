"""The graphs of ../shared/data for bench/gnn: reading them, choosing splits, writing what both gnn and the reference
programs read."""

import dataclasses
import gzip
import os

import numpy
import scipy.sparse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(os.path.dirname(ROOT), "shared", "data")
SETS = {"cora": "graph-cora/cora", "citeseer": "graph-citeseer/citeseer",
        "photo": "graph-amazon-photo/amazon-photo", "computers": "graph-amazon-computers/amazon-computers",
        "cs": "graph-coauthor-cs/coauthor-cs", "physics": "graph-coauthor-physics/coauthor-physics"}
PUBLIC = ("cora", "citeseer")  # sets with a split that everybody uses
TRAIN, VALIDATION = 20, 30     # vertices of a class, where there is none (Shchur et al., 2018)
PARTS = ("train", "val", "test")


@dataclasses.dataclass
class Graph:
    name: str
    edges: numpy.ndarray           # [e][2], each undirected edge once
    features: object               # scipy's CSR or an array, [vertices][columns], as read
    labels: numpy.ndarray          # [vertices]
    splits: dict                   # part: vertices
    options: list                  # of gnn, that name the same files

    @property
    def vertices(self):
        return len(self.labels)

    @property
    def classes(self):
        return int(self.labels.max()) + 1


def file_of(name, kind):
    return os.path.join(DATA, SETS[name] + f".{kind}.gz")


def present():
    """The sets that are here."""
    return [name for name in SETS if os.path.exists(file_of(name, "features"))]


def numbers(text, kind):
    return numpy.fromstring(text, kind, sep=" ")


def read_features(path):
    """Features and labels from lines `label index:value ...`, indices from 1."""
    with gzip.open(path, "rt") as file:
        text = file.read()
    lines = text.splitlines()
    counts = numpy.array([line.count(":") for line in lines])
    labels = numpy.array([int(line.split(" ", 1)[0]) for line in lines])
    pairs = numbers(" ".join(line.partition(" ")[2] for line in lines).replace(":", " "), numpy.float64).reshape(-1, 2)
    offsets = numpy.concatenate(([0], numpy.cumsum(counts)))
    columns = pairs[:, 0].astype(numpy.int32) - 1
    values = pairs[:, 1].astype(numpy.float32)
    return scipy.sparse.csr_matrix((values, columns, offsets), shape=(len(lines), int(columns.max()) + 1)), labels


def read_split(path):
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="ascii") as file:
        lines = [line.split() for line in file]
    return {words[0]: numpy.array(words[1:], numpy.int64) for words in lines if words}


def choose_split(labels, seed):
    """TRAIN and VALIDATION vertices of each class by chance; all others are for testing."""
    order = numpy.random.default_rng(seed).permutation(len(labels))
    train, validation = [], []
    for label in numpy.unique(labels):
        of_class = order[labels[order] == label]
        train.append(of_class[:TRAIN])
        validation.append(of_class[TRAIN:TRAIN + VALIDATION])
    train, validation = numpy.sort(numpy.concatenate(train)), numpy.sort(numpy.concatenate(validation))
    return {"train": train, "val": validation,
            "test": numpy.setdiff1d(numpy.arange(len(labels)), numpy.concatenate((train, validation)))}


def write_split(path, splits):
    with open(path, "w", encoding="ascii") as file:
        for part in PARTS:
            file.write(part + " " + " ".join(map(str, splits[part])) + "\n")


def load(name):
    """The graph, with its public split if it has one, else without: use `with_split`."""
    with gzip.open(file_of(name, "edges"), "rt") as file:
        edges = numbers(file.read(), numpy.int64).reshape(-1, 2)
    features, labels = read_features(file_of(name, "features"))
    options = ["--edges", file_of(name, "edges"), "--features", file_of(name, "features")]
    if name not in PUBLIC:
        return Graph(name, edges, features, labels, {}, options)
    return Graph(name, edges, features, labels, read_split(file_of(name, "split")),
                 [*options, "--split", file_of(name, "split")])


def with_split(graph, seed, folder):
    """The graph with the split of this seed, written into the folder; one with a public split as it is."""
    if graph.name in PUBLIC:
        return graph
    path = os.path.join(folder, f"{graph.name}-{seed}.split")
    splits = choose_split(graph.labels, seed)
    write_split(path, splits)
    return dataclasses.replace(graph, splits=splits, options=[*graph.options, "--split", path])


def load_made(folder, options):
    """A graph of graph_lines, whose edges are in .npy."""
    return Graph("made-up", numpy.load(os.path.join(folder, "edges.npy")).astype(numpy.int64),
                 numpy.load(os.path.join(folder, "features.npy")),
                 numpy.loadtxt(os.path.join(folder, "labels.txt"), numpy.int64),
                 read_split(os.path.join(folder, "split.txt")), options)
