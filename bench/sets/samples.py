"""Tables of samples for bench/ordinary: those that scikit-learn ships, made ones, each with one thing that tables of
people have and that breaks defaults, and those of ../shared/data. The same ones every time."""

import gzip
import os
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn import datasets
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.model_selection import train_test_split

SPLITS = 5
HELD_OUT = 0.2


@dataclass
class Split:
    """What is trained on and tested on: as options of mlr, and as (features, labels) for others."""
    options: list
    train: tuple
    test: tuple


@dataclass
class Row:
    """A row of the results: the mean over splits. `make` takes a folder to write files to, and returns the splits."""
    name: str
    make: object
    target: float = None
    like: str = None  # the row whose loss this one must have, as only units differ
    solvers: tuple = ("lbfgs", "liblinear")


def write_table(path, x, y):
    """A csv of label and features with a header; libsvm if the features are sparse."""
    if sparse.issparse(x):
        dump_svmlight_file(x, y, path, zero_based=False)
        return
    with open(path, "w", encoding="ascii") as file:
        file.write(",".join(["label", *(f"x{column}" for column in range(x.shape[1]))]) + "\n")
        for label, values in zip(y, x):
            file.write(f"{label:g}," + ",".join(f"{value:.12g}" for value in values) + "\n")


def split_of(folder, name, train, test):
    paths = [os.path.join(folder, f"{name}.{part}") for part in ("train", "test")]
    for path, (x, y) in zip(paths, (train, test)):
        write_table(path, x, y)
    return Split(["--data", paths[0], "--test", paths[1]], train, test)


def splits_of(folder, name, x, y, count=1, alike=True):
    """Splits by seeds 0, 1, ...; `alike`: each class has the same share of both parts."""
    found = []
    for seed in range(count):
        x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=HELD_OUT, random_state=seed,
                                                            stratify=y if alike else None)
        found.append(split_of(folder, f"{name}-{seed}".replace(" ", "-"), (x_train, y_train), (x_test, y_test)))
    return found


# ---- Tables that scikit-learn ships ----


def shipped(name):
    bunch = getattr(datasets, "load_" + name)()
    return bunch.data, bunch.target


def other_units(x, seed):
    """Each column multiplied by 10^U(-6, 6)."""
    return x * 10 ** np.random.default_rng(seed).uniform(-6, 6, x.shape[1])


def small_rows(quick):
    count = 1 if quick else SPLITS
    targets = {"iris": 0.070, "wine": 0.055, "digits": 0.135, "breast_cancer": 0.090}
    rows = []
    for name, target in targets.items():
        # A bound on the mean of five splits says nothing about one of them.
        rows.append(Row(name, lambda folder, name=name: splits_of(folder, name, *shipped(name), count),
                        None if quick else target))
        rows.append(Row(f"{name}, other units", lambda folder, name=name: splits_of(
            folder, f"{name}-units", other_units(shipped(name)[0], 1), shipped(name)[1], count), like=name))
    return rows


# ---- Made tables ----


def drawn_classes(rng, scores):
    """A class for each row of scores, by their softmax."""
    noise = rng.gumbel(size=scores.shape)
    return (scores + noise).argmax(axis=1)


def plain(rng, rows=2000, columns=20, classes=3, strength=1.0):
    x = rng.normal(size=(rows, columns))
    return x, drawn_classes(rng, x @ rng.normal(size=(columns, classes)) * strength)


def made_units(rng):
    x, y = plain(rng)
    return other_units(x, 2), y


def made_offset(offset):
    def make(rng):
        x, y = plain(rng)
        return x + offset, y
    return make


def made_offsets_mixed(rng):
    x, y = plain(rng)
    return x + 10 ** rng.uniform(3, 9, x.shape[1]) * rng.choice([-1, 1], x.shape[1]), y


def made_constant(rng):
    x, y = plain(rng)
    return np.hstack([x, np.zeros((len(x), 3)), np.ones((len(x), 3)), np.full((len(x), 4), 123456789.125)]), y


def made_zeros(rng):
    return np.zeros((500, 8)), rng.choice(3, 500, p=[0.5, 0.3, 0.2])


def made_same_row(rng):
    return np.tile(rng.normal(size=8) * 1e3, (500, 1)), rng.choice(3, 500, p=[0.5, 0.3, 0.2])


def made_correlated(rng):
    hidden = rng.normal(size=(2000, 3))
    x = hidden @ rng.normal(size=(3, 30)) + 0.01 * rng.normal(size=(2000, 30))
    return x, drawn_classes(rng, hidden @ rng.normal(size=(3, 3)) * 2)


def made_copies(rng):
    x, y = plain(rng, columns=5)
    return np.hstack([x] * 10), y


def made_imbalance(rng):
    y = (np.arange(20000) < 20).astype(int)
    x = rng.normal(size=(20000, 10))
    x[y == 1, :3] += 1.5
    return x, y


def made_wide(rng):
    return plain(rng, 300, 1000, 2, 0.1)


def made_noise(rng):
    return rng.normal(size=(1000, 50)), rng.choice(3, 1000)


def made_small_noise(rng):
    return rng.normal(size=(60, 200)), np.arange(60) % 2


def made_lognormal(rng):
    x, y = plain(rng)
    return np.exp(2 * x), y


def made_cauchy(rng):
    x = rng.standard_cauchy(size=(2000, 20))
    return x, drawn_classes(rng, np.arctan(x) @ rng.normal(size=(20, 3)) * 1.5)


def made_outlier(rng):
    x, y = plain(rng)
    x[0, 0], x[1, 1], x[2, 2] = 1e12, -1e9, 1e6
    return x, y


def made_tiny(rng):
    y = np.arange(20) % 2
    return rng.normal(size=(20, 4)) + y[:, None], y


def made_duplicates(rng):
    x = np.repeat(rng.normal(size=(50, 10)), 40, axis=0)
    return x, drawn_classes(rng, x @ rng.normal(size=(10, 3)))


def made_lone(rng):
    """Columns that are 0 but in one row."""
    x, y = plain(rng, columns=10)
    lone = np.zeros((len(x), 10))
    lone[rng.choice(len(x), 10, replace=False), range(10)] = 1000
    return np.hstack([x, lone]), y


def made_separable(rng):
    y = np.arange(600) % 3
    return rng.normal(size=(600, 6)) + 8 * np.eye(6)[y], y


def made_mixed(rng):
    """As in a customers' table: age, income, a balance, counts, yes or no, a year, a post code."""
    rows = 3000
    age, income = rng.integers(18, 90, rows), np.exp(rng.normal(10.5, 0.7, rows)).round(2)
    balance, visits = rng.normal(500, 3000, rows).round(2), rng.poisson(3, rows)
    owner, year, post = rng.integers(0, 2, rows), rng.integers(1990, 2024, rows), rng.integers(1000, 99999, rows)
    score = 0.04 * (age - 50) + 0.8 * (np.log(income) - 10.5) + balance / 4000 + 0.2 * (visits - 3) + owner - 1
    x = np.column_stack([age, income, balance, visits, owner, year, post]).astype(float)
    return x, drawn_classes(rng, np.column_stack([np.zeros(rows), score]))


def made_one_hot(rng):
    """Ten fields of a thousand values each, drawn by a power law; a feature is one value of one field."""
    rows, fields, values = 5000, 10, 1000
    chosen = np.minimum(rng.zipf(1.5, size=(rows, fields)) - 1, values - 1)
    weights = rng.normal(size=(fields, values)) * 0.8
    places = chosen + np.arange(fields) * values
    x = sparse.csr_matrix((np.ones(places.size), places.ravel(), np.arange(rows + 1) * fields),
                          shape=(rows, fields * values))
    scores = weights[np.arange(fields), chosen].sum(axis=1) - 1
    return x, drawn_classes(rng, np.column_stack([np.zeros(rows), scores]))


def made_counts(rng, unit=1):
    """Words of documents of very different lengths, counted."""
    rows, words, classes = 2000, 3000, 4
    y = rng.choice(classes, rows)
    common = 1 / np.arange(1, words + 1)
    topics = common * np.exp(rng.normal(size=(classes, words)) * 0.7)
    topics /= topics.sum(axis=1, keepdims=True)
    x = np.stack([rng.multinomial(max(5, int(rng.lognormal(4, 1))), topics[label]) for label in y])
    return sparse.csr_matrix(x.astype(float) * unit), y


def made_large_counts(rng):
    return made_counts(rng, 1e6)


def made_sparse_units(rng):
    x, y = made_one_hot(rng)
    scale = sparse.diags(10 ** np.random.default_rng(3).uniform(-6, 6, x.shape[1]))
    return (x @ scale).tocsr(), y


QUICK = {"plain", "plain, other units", "offsets 1e6", "constant columns", "all zeros", "pure noise", "20 rows",
         "1000 to 1", "sparse one-hot"}


def made_rows(quick):
    makers = {"plain": plain, "plain, other units": made_units}
    makers.update({f"offsets {name}": made_offset(float(name)) for name in ("1e3", "1e6", "1e9")})
    makers.update({
        "offsets, mixed": made_offsets_mixed, "constant columns": made_constant, "all zeros": made_zeros,
        "all rows alike": made_same_row, "correlated": made_correlated, "copied columns": made_copies,
        "1000 to 1": made_imbalance, "300 x 1,000": made_wide, "pure noise": made_noise,
        "pure noise, 60 x 200": made_small_noise, "lognormal": made_lognormal, "Cauchy": made_cauchy,
        "outliers": made_outlier, "20 rows": made_tiny, "duplicates": made_duplicates, "0 but in one row": made_lone,
        "separable": made_separable, "mixed kinds": made_mixed, "sparse one-hot": made_one_hot,
        "sparse one-hot, other units": made_sparse_units, "sparse counts": made_counts,
        "sparse counts x 1e6": made_large_counts})
    like = {"plain, other units": "plain", "offsets 1e3": "plain", "offsets 1e6": "plain", "offsets 1e9": "plain",
            "offsets, mixed": "plain", "constant columns": "plain", "sparse one-hot, other units": "sparse one-hot",
            "sparse counts x 1e6": "sparse counts"}
    # Rows that are alike are drawn with one seed.
    seeds = {name: 100 + place for place, name in enumerate(makers)}
    return [Row(name, lambda folder, name=name, make=make: splits_of(
                folder, f"made-{name}".replace(",", ""), *make(np.random.default_rng(seeds[like.get(name, name)]))),
                like=like.get(name))
            for name, make in makers.items() if not quick or name in QUICK]


# ---- Tables of ../shared/data ----


def read_gzip(path):
    with gzip.open(path, "rb") as file:
        return file.read()


def letter(data):
    def make(folder):
        table = np.loadtxt(os.path.join(data, "class-letter", "letter.scale.gz"))
        return splits_of(folder, "letter", table[:, 1:], table[:, 0].astype(int))
    return make


def lightgbm(data):
    def make(_):
        paths = [os.path.join(data, "class-lightgbm-binary", f"binary.{part}.gz") for part in ("train", "test")]
        train, test = ((table[:, 1:], table[:, 0].astype(int)) for table in map(np.loadtxt, paths))
        return [Split(["--data", paths[0], "--test", paths[1]], train, test)]
    return make


def tdt2(data):
    def make(folder):
        x, y = load_svmlight_file(os.path.join(data, "class-tdt2", "tdt2.libsvm.gz"))
        return splits_of(folder, "tdt2", x, y.astype(int))
    return make


def mnist(data):
    def make(_):
        names = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
                 "t10k-labels-idx1-ubyte.gz"]
        paths = [os.path.join(data, "class-mnist", name) for name in names]
        x, y, u, v = (np.frombuffer(read_gzip(path), np.uint8, offset=16 if "images" in path else 8)
                      for path in paths)
        options = [part for pair in zip(("--data", "--labels", "--test", "--test-labels"), paths) for part in pair]
        return [Split(options, (x.reshape(-1, 784) / 255, y), (u.reshape(-1, 784) / 255, v))]
    return make


def criteo_fields(line):
    """What each field of a Criteo line holds, by name: of an integer its octave."""
    for place, text in enumerate(line.rstrip("\n").split("\t")[1:]):
        if place < 13 and text:
            number = int(text)
            text = f"{'-' if number < 0 else ''}{abs(number).bit_length()}"
        yield f"{place}={text}"


def criteo(data):
    def make(folder):
        source = os.path.join(data, "ctr-criteo")
        train_path = os.path.join(source, "criteo_train.tsv.gz")
        held_path = os.path.join(folder, "criteo.test")
        held = read_gzip(os.path.join(source, "criteo_dev.tsv.gz")) + read_gzip(
            os.path.join(source, "criteo_test.tsv.gz"))
        with open(held_path, "wb") as file:
            file.write(held)
        places = {}
        parts = []
        for text in (read_gzip(train_path).decode(), held.decode()):
            lines = text.splitlines()
            known = len(parts) > 0
            rows = [[places.get(name) if known else places.setdefault(name, len(places))
                     for name in criteo_fields(line)] for line in lines]
            rows = [[place for place in row if place is not None] for row in rows]
            ends = np.cumsum([0, *map(len, rows)])
            columns = np.concatenate([np.array(row, int) for row in rows])
            parts.append((sparse.csr_matrix((np.ones(len(columns)), columns, ends), shape=(len(rows), len(places))),
                          np.array([int(line[0]) for line in lines])))
        return [Split(["--data", train_path, "--test", held_path], *parts)]
    return make


def data_rows(data):
    found = [Row("LightGBM's binary", lightgbm(data), 0.636), Row("letter", letter(data), 0.875),
             Row("Criteo, 7,200 lines", criteo(data), 0.472),
             # By lbfgs a fit takes a minute, for a million weights, and there are fifty to choose C by.
             Row("tdt2", tdt2(data), 0.082, solvers=("liblinear",)),
             Row("MNIST", mnist(data), 0.269, solvers=("lbfgs",))]
    folders = ("class-lightgbm-binary", "class-letter", "ctr-criteo", "class-tdt2", "class-mnist")
    return [row for row, folder in zip(found, folders) if os.path.isdir(os.path.join(data, folder))]


# ---- For net ----


def network_rows(data, quick):
    """The small tables, letter and LightGBM's binary example; with `quick` two tables, and bounds for one split."""
    targets = {"iris": 0.25, "wine": 0.06, "digits": 0.11, "breast_cancer": 0.13, "letter": 0.25,
               "LightGBM's binary": 0.66}
    targets = {"iris": 0.5, "wine": 0.3} if quick else targets
    rows = small_rows(quick)
    rows = [row for row in rows if row.name.startswith(("iris", "wine"))] if quick else rows + data_rows(data)
    return [Row(row.name, row.make, targets.get(row.name), row.like) for row in rows
            if row.name in targets or row.like in targets]
