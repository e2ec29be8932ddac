"""GCN, GraphSAGE and GAT in torch, one thread: what people run without a GPU, for rates alone. Features are dense, as
torch_geometric's examples have them; averages are sparse products, and attention gathers and adds per edge as
torch_geometric does."""

import time
import warnings

import numpy
import torch
import torch.nn.functional as F

import reference

torch.set_num_threads(1)
warnings.filterwarnings("ignore", message="Sparse CSR")


def sparse(matrix):
    matrix = matrix.tocsr()
    matrix.sort_indices()
    return torch.sparse_csr_tensor(torch.from_numpy(matrix.indptr.astype(numpy.int64)),
                                   torch.from_numpy(matrix.indices.astype(numpy.int64)),
                                   torch.from_numpy(matrix.data.astype(numpy.float32)), matrix.shape)


class Average(torch.autograd.Function):
    """matrix @ x; `back` is the transposed matrix."""

    @staticmethod
    def forward(context, x, matrix, back):
        context.back = back
        return matrix @ x

    @staticmethod
    def backward(context, gradient):
        return context.back @ gradient, None, None


class Averaging(torch.nn.Module):
    def __init__(self, graph, settings, widths):
        super().__init__()
        matrix = reference.adjacency(graph)
        matrix = reference.mean(matrix) if settings.model == "sage" else reference.symmetric(matrix)
        self.matrix, self.back = sparse(matrix), sparse(matrix.T)
        self.part = settings.dropout
        pairs = list(zip(widths, widths[1:]))
        self.weights = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in pairs)
        self.own = torch.nn.ModuleList(torch.nn.Linear(*pair, bias=False) for pair in pairs
                                       if settings.model == "sage")

    def forward(self, x):
        for layer, weights in enumerate(self.weights):
            x = F.dropout(x if layer == 0 else F.relu(x), self.part, self.training)
            y = Average.apply(x @ weights.weight.T, self.matrix, self.back) + weights.bias
            x = y + self.own[layer](x) if self.own else y
        return x


class Attention(torch.nn.Module):
    def __init__(self, graph, settings, widths):
        super().__init__()
        matrix = reference.adjacency(graph).tocoo()
        own = numpy.arange(graph.vertices)
        self.one = torch.from_numpy(numpy.concatenate((matrix.row, own)).astype(numpy.int64))
        self.other = torch.from_numpy(numpy.concatenate((matrix.col, own)).astype(numpy.int64))
        self.part, self.edge_part = settings.dropout, settings.attention_dropout
        self.weights, self.vectors = torch.nn.ModuleList(), torch.nn.ParameterList()
        self.shapes = []
        for layer, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
            heads = settings.output_heads if layer == len(widths) - 2 else settings.heads
            inputs *= settings.heads if layer > 0 else 1
            self.shapes.append((heads, outputs))
            self.weights.append(torch.nn.Linear(inputs, heads * outputs, bias=False))
            self.vectors.append(torch.nn.Parameter(0.1 * torch.randn(2, heads, outputs)))

    def attend(self, z, vectors):
        l, r = (z * vectors[0]).sum(2), (z * vectors[1]).sum(2)
        s = F.leaky_relu(l[self.one] + r[self.other], reference.LEAKY)
        s = torch.exp(s - s.max())
        sums = torch.zeros_like(l).index_add(0, self.one, s)
        a = F.dropout(s / sums[self.one], self.edge_part, self.training)
        return torch.zeros_like(z).index_add(0, self.one, a[:, :, None] * z[self.other])

    def forward(self, x):
        for layer, (heads, width) in enumerate(self.shapes):
            x = F.dropout(x if layer == 0 else F.elu(x), self.part, self.training)
            o = self.attend(self.weights[layer](x).view(-1, heads, width), self.vectors[layer])
            x = o.mean(1) if layer == len(self.shapes) - 1 else o.reshape(len(o), -1)
        return x


def seconds_of_iteration(graph, settings):
    """CPU-seconds of a step, without measuring accuracy: the median."""
    widths = [graph.features.shape[1], *settings.layers, graph.classes]
    x = torch.from_numpy(reference.stored(reference.scaled(graph.features, settings.scale), "dense"))
    labels, train = torch.from_numpy(graph.labels), torch.from_numpy(graph.splits["train"])
    model = (Attention if settings.model == "gat" else Averaging)(graph, settings, widths)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.rate, weight_decay=settings.decay)
    times = []
    model.train()
    for _ in range(settings.iterations):
        start = time.process_time()
        optimizer.zero_grad()
        F.cross_entropy(model(x)[train], labels[train]).backward()
        optimizer.step()
        times.append(time.process_time() - start)
    return sorted(times)[len(times) // 2]
