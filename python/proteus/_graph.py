"""The arithmetic of gnn in numpy and scipy: an adjacency matrix as lists of neighbours, the scale of features, and the
layers of apps/gnn/network.h without dropout. Knows neither files nor jobs. Values are float32, as the app's."""

import warnings

import numpy as np

KINDS = ("gcn", "gat", "sage")  # in the order of apps/gnn/network.h
SCALES = ("none", "unit", "rows", "standard")  # in the order of apps/gnn/graph.h
SLOPE = np.float32(0.2)  # of leaky relu in gat's attention
STANDARD_LIMIT = np.float32(5)  # standardized values beyond this have it


def _scipy_sparse():
    try:
        import scipy.sparse
    except ImportError as error:
        raise ImportError("graphs need scipy: install python3-scipy") from error
    return scipy.sparse


# ---- Edges ----

def _square(A, vertices):
    """A as a scipy.sparse.coo_matrix without repeats: one entry for each edge."""
    sparse = _scipy_sparse()
    if not sparse.issparse(A):
        A = np.asarray(A)
        if A.ndim != 2:
            raise ValueError(f"A: expected a square matrix, got an array of {A.ndim} dimension(s)")
    if A.dtype.kind not in "biuf":
        raise ValueError(f"A: expected a matrix of numbers, got {A.dtype}")
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"A: expected a square matrix, got shape {A.shape}")
    if A.shape[0] != vertices:
        raise ValueError(f"A: expected shape ({vertices}, {vertices}), as X has {vertices} rows, got {A.shape}")
    edges = sparse.csr_matrix(A, copy=sparse.issparse(A))
    edges.sum_duplicates()
    if not np.isfinite(edges.data).all():
        raise ValueError("A: expected finite numbers, got NaN or infinity")
    edges.eliminate_zeros()
    return edges.tocoo()


def edges_of(A, directed, vertices):
    """The edges u, v (two arrays) where A[u, v] is not 0 and u is not v. Raises ValueError if A is not square, or, for
    an undirected graph, not symmetric. Warns of weights."""
    entries = _square(A, vertices)
    apart = entries.row != entries.col  # the models add an edge from each vertex to itself
    u, v = entries.row[apart], entries.col[apart]
    if (entries.data[apart] != 1).any():
        warnings.warn("A has values other than 0 and 1: they are ignored, as edges have no weights", stacklevel=3)
    if not directed:
        _check_symmetric(u, v, vertices)
    return u, v


def _check_symmetric(u, v, vertices):
    sparse = _scipy_sparse()
    ones = np.ones(u.size, bool)
    ahead, back = (sparse.csr_matrix((ones, pair), (vertices, vertices)) for pair in ((u, v), (v, u)))
    if (ahead.indptr == back.indptr).all() and (ahead.indices == back.indices).all():
        return
    single = (ahead > back).tocoo()
    i, j = single.row[0], single.col[0]
    raise ValueError(f"A is not symmetric: A[{i}, {j}] is not 0, but A[{j}, {i}] is. Expected a symmetric matrix, or a "
                     "directed graph (directed=True), where A[u, v] is an edge from u to v")


class Neighbours:
    """A vertex's list has the vertices with an edge to it."""

    def __init__(self, u, v, vertices):
        sparse = _scipy_sparse()
        ones = np.ones(u.size, np.float32)
        self.lists = sparse.csr_matrix((ones, (v, u)), (vertices, vertices))
        self.degrees = np.diff(self.lists.indptr).astype(np.float32)

    def symmetric(self, values):
        """D^-1/2 (A + I) D^-1/2 values, with d = in-degree + 1."""
        factors = (1 / np.sqrt(self.degrees + 1))[:, None]
        values = factors * values
        return factors * (self.lists @ values + values)

    def mean(self, values):
        """D^-1 A values, with d = in-degree; 0 for a vertex without neighbours."""
        return self.lists @ values / np.maximum(self.degrees, 1)[:, None]

    def attention(self, values, left, right):
        """For each head the sums of neighbours' values and the vertex's own, by softmax of leaky(left . z_i + right .
        z_j). values [n, heads, width], left and right [heads, width]. Returns [n, heads, width]."""
        sparse = _scipy_sparse()
        vertices = len(values)
        lists = (self.lists + sparse.identity(vertices, np.float32, "csr")).tocsr()
        starts, counts = lists.indptr[:-1], np.diff(lists.indptr)
        found = np.empty_like(values)
        for head in range(values.shape[1]):
            z = np.ascontiguousarray(values[:, head])
            scores = np.repeat(z @ left[head], counts) + (z @ right[head])[lists.indices]
            scores = np.where(scores < 0, SLOPE * scores, scores)
            scores = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), counts))
            parts = sparse.csr_matrix((scores, lists.indices, lists.indptr), lists.shape)
            found[:, head] = parts @ z / np.add.reduceat(scores, starts)[:, None]
        return found


# ---- Features ----

def features_of(X, columns):
    """X as float32, dense or CSR, [n, columns]. Columns of a sparse matrix beyond these are left out, and missing ones
    are 0."""
    sparse = _scipy_sparse()
    if sparse.issparse(X):
        X = sparse.csr_matrix(X, dtype=np.float32, copy=True)
        X.sum_duplicates()
        X.resize(X.shape[0], columns)
        values = X.data
    else:
        X = values = np.array(X, np.float32)  # a copy
        if X.ndim != 2 or X.shape[1] != columns:
            raise ValueError(f"X: expected {columns} features for each vertex, got shape {X.shape}")
    if not np.isfinite(values).all():
        raise ValueError("X: expected finite numbers, got NaN, infinity or a value too large for float32")
    return X


def _divided(X, sizes):
    """Each row divided by its size."""
    if not _scipy_sparse().issparse(X):
        return (X / sizes[:, None]).astype(np.float32)
    X.data = (X.data / np.repeat(sizes, np.diff(X.indptr))).astype(np.float32)
    return X


def _sums(X, function):
    """The sums of the rows' values after `function`, float64."""
    if not _scipy_sparse().issparse(X):
        return function(X.astype(np.float64)).sum(axis=1)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.bincount(rows, function(X.data.astype(np.float64)), X.shape[0])


def _standardized(values, centres, factors):
    return np.clip((values - centres) * factors, -STANDARD_LIMIT, STANDARD_LIMIT)


class Features:
    """Scaled features: `values`, and `base` [columns], which is added to each row, or None."""

    def __init__(self, X, scale, centres=None, factors=None):
        self.base = None
        if scale == "rows":
            X = _divided(X, np.maximum(_sums(X, np.abs), 1))
        elif scale == "unit":
            lengths = np.sqrt(_sums(X, np.square))
            X = _divided(X, np.where(lengths > 0, lengths, 1))
        elif scale == "standard" and _scipy_sparse().issparse(X):
            zeros = _standardized(np.float32(0), centres, factors)
            X.data = _standardized(X.data, centres[X.indices], factors[X.indices]) - zeros[X.indices]
            self.base = zeros if zeros.any() else None
        elif scale == "standard":
            X = _standardized(X, centres, factors)
        self.values = X

    def __matmul__(self, weights):
        product = np.asarray(self.values @ weights)
        return product if self.base is None else product + self.base @ weights


# ---- Layers ----

def blocks_of(kind, features, classes, widths, heads, output_heads):
    """The parameters of each layer, in the order of the model's file: a list of (name, shape). The widths are those of
    hidden layers. gat's have the shape [..., heads, width]."""
    blocks, size = [], features
    for number, width in enumerate([*widths, classes]):
        last = number == len(widths)
        heads_here = 1 if kind != "gat" else output_heads if last else heads
        shape = (heads_here, width) if kind == "gat" else (width,)
        blocks.append((f"{number}.weights", (size, *shape)))
        if kind == "sage":
            blocks.append((f"{number}.self", (size, *shape)))
        elif kind == "gat":
            blocks += [(f"{number}.left", shape), (f"{number}.right", shape)]
        size = width if last else heads_here * width
        blocks.append((f"{number}.biases", (size,)))
    return blocks


def _layer(kind, neighbours, below, layer, last):
    """Values of a layer before act."""
    weights = layer["weights"]
    made = below @ weights.reshape(weights.shape[0], -1)
    if kind == "gcn":
        return neighbours.symmetric(made) + layer["biases"]
    if kind == "sage":
        return neighbours.mean(made) + below @ layer["self"] + layer["biases"]
    found = neighbours.attention(made.reshape(-1, *weights.shape[1:]), layer["left"], layer["right"])
    return (found.mean(axis=1) if last else found.reshape(len(found), -1)) + layer["biases"]


def _act(kind, values):
    return np.maximum(values, 0) if kind != "gat" else np.where(values < 0, np.expm1(np.minimum(values, 0)), values)


def logits_of(kind, neighbours, features, layers):
    """[n, classes]. `layers`: a dict of each layer's parameters by name."""
    values = features
    for number, layer in enumerate(layers):
        last = number == len(layers) - 1
        values = _layer(kind, neighbours, values, layer, last)
        values = values if last else _act(kind, values)
    return values
