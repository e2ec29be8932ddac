"""Graph neural networks in numpy and scipy, full graph, one thread: what gnn is compared with. GCN (Kipf and Welling,
ICLR 2017), GraphSAGE with the mean (Hamilton et al., NIPS 2017) and GAT (Velickovic et al., ICLR 2018), trained by
Adam. They start with the weights that gnn starts with, so losses without dropout are the same."""

import dataclasses
import time

import numpy
import scipy.sparse

LEAKY = 0.2
DENSE_FROM = 0.1  # the part of features that are not 0 from which dense products are faster than scipy's
EACH_PART = 1000  # of the key of start weights, for each layer
WEIGHTS, SELF, LEFT, RIGHT = range(4)  # parts of a layer


@dataclasses.dataclass
class Settings:
    model: str = "gcn"          # or sage, gat
    layers: tuple = (16,)       # widths of hidden layers; of gat that of a head
    heads: int = 8
    output_heads: int = 1
    dropout: float = 0.5
    attention_dropout: float = 0.6
    rate: float = 0.01
    decay: float = 5e-4         # lambda: of gcn and sage of the first layer, of gat of all
    aggregate: str = "each"     # or once: dropout on the averages of features instead of on features
    init: str = "xavier"        # or he
    anneal: int = 0             # the rate falls to 0 in so many iterations, along a cosine; 0: constant
    iterations: int = 200
    scale: str = "sum"          # rows of features are divided by their magnitudes' sum; unit: by their length; or none
    seed: int = 1
    storage: str = "auto"       # of features: sparse, dense or auto


# ---- Start weights ----

def hash_mix(key):
    with numpy.errstate(over="ignore"):
        key = key + numpy.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return key ^ (key >> numpy.uint64(31))


def aml_mix(seed, value):
    return hash_mix(numpy.asarray(seed, numpy.uint64) ^ hash_mix(numpy.asarray(value, numpy.uint64)))


def start_weights(settings, layer, part, inputs, outputs, shape=None):
    """Uniform within the bound of Xavier or He, for an inputs x outputs matrix; `shape`, if it is another."""
    shape = shape or (inputs, outputs)
    size = int(numpy.prod(shape))
    random = aml_mix(aml_mix(settings.seed, EACH_PART * (layer + 1) + part), numpy.arange(size, dtype=numpy.uint64))
    unit = ((random >> numpy.uint64(40)).astype(numpy.float64) + 0.5) / 2 ** 24
    bound = (6 / (inputs + outputs if settings.init == "xavier" else inputs)) ** 0.5
    return ((2 * unit - 1) * bound).astype(numpy.float32).reshape(shape)


# ---- The graph as matrices ----

def adjacency(graph):
    """A, without edges of a vertex to itself."""
    one, other = graph.edges[:, 0], graph.edges[:, 1]
    chosen = one != other
    one, other = one[chosen], other[chosen]
    ones = numpy.ones(2 * len(one), numpy.float32)
    matrix = scipy.sparse.csr_matrix((ones, (numpy.concatenate((one, other)), numpy.concatenate((other, one)))),
                                     shape=(graph.vertices, graph.vertices))
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def symmetric(matrix):
    """D^-1/2 (A + I) D^-1/2."""
    matrix = (matrix + scipy.sparse.identity(matrix.shape[0], numpy.float32, "csr")).tocsr()
    scale = scipy.sparse.diags(numpy.asarray(matrix.sum(1)).ravel() ** -0.5)
    return (scale @ matrix @ scale).tocsr().astype(numpy.float32)


def mean(matrix):
    """D^-1 A; of a vertex without neighbours zeros."""
    degrees = numpy.maximum(numpy.asarray(matrix.sum(1)).ravel(), 1)
    return (scipy.sparse.diags(1 / degrees) @ matrix).tocsr().astype(numpy.float32)


def scaled(features, how):
    """Rows divided as Settings.scale says."""
    if how == "none":
        return features
    size = abs(features) if how == "sum" else features.multiply(features) if scipy.sparse.issparse(features) \
        else features * features
    sums = numpy.asarray(size.sum(1)).ravel()
    sums = sums if how == "sum" else numpy.sqrt(sums)
    factors = numpy.divide(1, sums, out=numpy.zeros_like(sums), where=sums > 0)
    return (scipy.sparse.diags(factors) @ features).astype(numpy.float32)


def stored(features, storage):
    """In the form that computes faster, or the one that is asked for."""
    if not scipy.sparse.issparse(features):
        return numpy.ascontiguousarray(features, numpy.float32)
    part = features.nnz / (features.shape[0] * features.shape[1])
    if storage == "dense" or (storage == "auto" and part > DENSE_FROM):
        return features.toarray().astype(numpy.float32)
    return features.astype(numpy.float32)


# ---- Layers ----

class Model:
    """Parameters, their gradients and Adam; `forward` and `backward` are the models' own."""

    def __init__(self, graph, settings):
        self.settings = settings
        self.random = numpy.random.default_rng(settings.seed)
        self.values, self.decays, self.gradients = {}, {}, {}
        self.means, self.squares, self.steps = {}, {}, 0
        self.training = False
        self.prepare(graph, scaled(graph.features, settings.scale))
        widths = [graph.features.shape[1], *settings.layers, graph.classes]
        self.depth = len(widths) - 1
        for layer in range(self.depth):
            self.add_layer(layer, widths[layer], widths[layer + 1])

    def add(self, name, value, decay):
        self.values[name], self.decays[name] = value, decay
        self.means[name], self.squares[name] = numpy.zeros_like(value), numpy.zeros_like(value)

    def drop(self, values, part=None):
        """The values with some set to 0, and the factors (None: without dropout)."""
        part = self.settings.dropout if part is None else part
        if not self.training or part == 0:
            return values, None
        sparse = scipy.sparse.issparse(values)
        flat = values.data if sparse else values
        factors = self.random.random(flat.shape, numpy.float32)
        numpy.greater_equal(factors, numpy.float32(part), out=factors)
        factors *= numpy.float32(1 / (1 - part))
        flat = flat * factors
        if sparse:
            flat = scipy.sparse.csr_matrix((flat, values.indices, values.indptr), values.shape, copy=False)
        return flat, factors

    def step(self, iteration):
        settings = self.settings
        part = min((iteration + 0.5) / settings.anneal, 1) if settings.anneal else 0
        rate = settings.rate * (1 + numpy.cos(numpy.pi * part)) / 2
        self.steps += 1
        first, second = 1 - 0.9 ** self.steps, 1 - 0.999 ** self.steps
        for name, value in self.values.items():
            gradient = self.gradients[name]
            if self.decays[name] > 0:
                gradient = gradient + self.decays[name] * value
            m, v = self.means[name], self.squares[name]
            m *= 0.9
            m += 0.1 * gradient
            v *= 0.999
            v += 0.001 * gradient * gradient
            value -= numpy.float32(rate / first) * m / (numpy.sqrt(v / numpy.float32(second)) + numpy.float32(1e-8))


class Averaging(Model):
    """GCN and GraphSAGE: a layer is average(x) w + b, of GraphSAGE + x v."""

    def prepare(self, graph, features):
        self.own = self.settings.model == "sage"
        matrix = adjacency(graph)
        self.average = mean(matrix) if self.own else symmetric(matrix)
        self.back = self.average.T.tocsr() if self.own else self.average
        self.once = self.settings.aggregate == "once"
        if self.once:
            self.aggregated = stored(self.average @ features, self.settings.storage)
        self.features = stored(features, self.settings.storage)

    def add_layer(self, layer, inputs, outputs):
        decay = self.settings.decay if layer == 0 else 0
        self.add(("w", layer), start_weights(self.settings, layer, WEIGHTS, inputs, outputs), decay)
        if self.own:
            self.add(("v", layer), start_weights(self.settings, layer, SELF, inputs, outputs), decay)
        self.add(("b", layer), numpy.zeros(outputs, numpy.float32), decay)

    def forward(self):
        self.inputs, self.factors, x = [], [], self.features
        for layer in range(self.depth):
            once = self.once and layer == 0
            needed = not once or self.own
            x, factors = self.drop(x) if needed else (None, None)
            gathered = self.drop(self.aggregated)[0] if once else None
            self.inputs.append((x, gathered))
            self.factors.append(factors)
            y = gathered @ self.values["w", layer] if once else self.average @ (x @ self.values["w", layer])
            if self.own:
                y += x @ self.values["v", layer]
            y += self.values["b", layer]
            x = numpy.maximum(y, 0, out=y) if layer < self.depth - 1 else y
        return x

    def backward(self, dy):
        for layer in reversed(range(self.depth)):
            x, gathered = self.inputs[layer]
            self.gradients["b", layer] = dy.sum(0)
            if self.own:
                self.gradients["v", layer] = x.T @ dy
            if gathered is not None:
                self.gradients["w", layer] = gathered.T @ dy
                return
            back = self.back @ dy
            self.gradients["w", layer] = x.T @ back
            if layer == 0:
                return
            dx = back @ self.values["w", layer].T
            if self.own:
                dx += dy @ self.values["v", layer].T
            if self.factors[layer] is not None:
                dx *= self.factors[layer]
            dy = dx * (x > 0)  # a value that was dropped is 0 as well


class Attention(Model):
    """GAT: each head's average is weighted by what both ends say of an edge. Heads lie side by side; in the last layer
    they are averaged."""

    def prepare(self, graph, features):
        self.features = stored(features, self.settings.storage)
        matrix = (adjacency(graph) + scipy.sparse.identity(graph.vertices, numpy.float32, "csr")).tocsr()
        matrix.sort_indices()
        self.offsets, self.other = matrix.indptr, matrix.indices
        self.degrees = numpy.diff(matrix.indptr)
        self.one = numpy.repeat(numpy.arange(graph.vertices, dtype=numpy.int32), self.degrees)
        entries = len(self.other)
        ones = numpy.ones(entries, numpy.float32)
        places = numpy.arange(entries)
        shape = (graph.vertices, entries)
        self.by_one = scipy.sparse.csr_matrix((ones, places, matrix.indptr), shape)
        self.by_other = scipy.sparse.csr_matrix((ones, (self.other, places)), shape)
        self.shape = matrix.shape

    def add_layer(self, layer, inputs, outputs):
        settings = self.settings
        last = layer == len(settings.layers)
        inputs *= settings.heads if layer > 0 else 1
        heads = settings.output_heads if last else settings.heads
        self.add(("w", layer), start_weights(settings, layer, WEIGHTS, inputs, heads * outputs), settings.decay)
        for name, part in (("l", LEFT), ("r", RIGHT)):
            self.add((name, layer), start_weights(settings, layer, part, outputs, 1, (heads, outputs)), settings.decay)
        self.add(("b", layer), numpy.zeros(outputs if last else heads * outputs, numpy.float32),
                 settings.decay)

    def matrix(self, values):
        return scipy.sparse.csr_matrix((values, self.other, self.offsets), self.shape, copy=False)

    def attend(self, z, layer):
        """Returns o[n][K][F] of z[n][K][F]; keeps for backward what it needs."""
        left, right = self.values["l", layer], self.values["r", layer]
        l, r = (z * left).sum(2), (z * right).sum(2)
        s = l[self.one] + r[self.other]
        slope = numpy.where(s > 0, numpy.float32(1), numpy.float32(LEAKY))
        top = l + r.max(0)  # at least the greatest of the list: softmax is the same with any shift
        top = numpy.maximum(top, LEAKY * top)
        a = numpy.exp(s * slope - top[self.one])
        a /= (self.by_one @ a)[self.one]
        kept, factors = self.drop(a, self.settings.attention_dropout)
        o = numpy.stack([self.matrix(numpy.ascontiguousarray(kept[:, k])) @ z[:, k] for k in range(z.shape[1])], 1)
        return o, (z, slope, a, kept, factors)

    def attend_back(self, do, layer, kept_values):
        """Returns dz of do, both [n][K][F]; sets the gradients of the attention's vectors."""
        z, slope, a, kept, factors = kept_values
        dz, da = numpy.empty_like(z), numpy.empty_like(a)
        for k in range(z.shape[1]):
            dz[:, k] = self.matrix(numpy.ascontiguousarray(kept[:, k])).T @ do[:, k]
            da[:, k] = numpy.einsum("ef,ef->e", do[:, k][self.one], z[:, k][self.other])
        if factors is not None:
            da *= factors
        da *= a
        ds = (da - a * (self.by_one @ da)[self.one]) * slope
        dl, dr = self.by_one @ ds, self.by_other @ ds
        left, right = self.values["l", layer], self.values["r", layer]
        self.gradients["l", layer] = (dl[:, :, None] * z).sum(0)
        self.gradients["r", layer] = (dr[:, :, None] * z).sum(0)
        dz += dl[:, :, None] * left
        dz += dr[:, :, None] * right
        return dz

    def forward(self):
        self.kept, x = [], self.features
        for layer in range(self.depth):
            x, factors = self.drop(x)
            heads, width = self.values["l", layer].shape
            o, kept = self.attend((x @ self.values["w", layer]).reshape(-1, heads, width), layer)
            if layer == self.depth - 1:
                y = o.mean(1) + self.values["b", layer]
                self.kept.append((x, factors, kept, None))
                return y
            y = o.reshape(len(o), -1) + self.values["b", layer]
            y = numpy.where(y > 0, y, numpy.expm1(numpy.minimum(y, 0)))  # ELU
            self.kept.append((x, factors, kept, y))
            x = y
        return x

    def backward(self, dy):
        for layer in reversed(range(self.depth)):
            x, factors, kept, _ = self.kept[layer]
            heads, width = self.values["l", layer].shape
            self.gradients["b", layer] = dy.sum(0)
            if layer == self.depth - 1:
                do = numpy.repeat(dy[:, None, :] / numpy.float32(heads), heads, 1)
            else:
                do = dy.reshape(-1, heads, width)
            dz = self.attend_back(do, layer, kept).reshape(len(dy), -1)
            self.gradients["w", layer] = x.T @ dz
            if layer == 0:
                return
            dx = dz @ self.values["w", layer].T
            if factors is not None:
                dx *= factors
            y = self.kept[layer - 1][3]
            dy = dx * numpy.where(y > 0, numpy.float32(1), y + 1)


# ---- Training ----

def probabilities(scores):
    scores = numpy.exp(scores - scores.max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True)


def loss_of(chances, labels, vertices):
    return float(-numpy.log(numpy.maximum(chances[vertices, labels[vertices]], 1e-38)).mean())


def measured(model, graph):
    """What gnn reports of an iteration, but for the training loss."""
    model.training = False
    chances = probabilities(model.forward())
    right = chances.argmax(1) == graph.labels
    line = {"validation_loss": loss_of(chances, graph.labels, graph.splits["val"])}
    for part, name in (("train", "train"), ("val", "validation"), ("test", "test")):
        line[name + "_accuracy"] = float(right[graph.splits[part]].mean())
    return line


def train_once(model, graph, iteration):
    """A step; returns the loss before it."""
    model.training = True
    train = graph.splits["train"]
    chances = probabilities(model.forward())
    loss = loss_of(chances, graph.labels, train)
    errors = numpy.zeros_like(chances)
    errors[train] = chances[train] / numpy.float32(len(train))
    errors[train, graph.labels[train]] -= numpy.float32(1 / len(train))
    model.backward(errors)
    model.step(iteration)
    return loss


def run(graph, settings, every=1):
    """Trains; returns a line for each iteration, or for one in `every` and the last, as gnn's report has it: iteration
    1 measures the start."""
    model = (Attention if settings.model == "gat" else Averaging)(graph, settings)
    lines = []
    for iteration in range(1, settings.iterations + 1):
        line = measured(model, graph) if iteration % every == 0 or iteration == settings.iterations else None
        loss = train_once(model, graph, iteration - 1)
        if line is not None:
            lines.append({"iteration": iteration, "loss": loss, **line})
    return lines


def seconds_of_iteration(graph, settings, evaluated):
    """CPU-seconds of a step, with or without measuring, after the first ones."""
    model = (Attention if settings.model == "gat" else Averaging)(graph, settings)
    times = []
    for iteration in range(settings.iterations):
        start = time.process_time()
        if evaluated:
            measured(model, graph)
        train_once(model, graph, iteration)
        times.append(time.process_time() - start)
    return sorted(times)[len(times) // 2]
