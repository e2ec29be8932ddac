"""Trained models of mf, mlr, net, lda and gnn, as numpy arrays: load reads a file that a job's --model-out wrote,
`save` writes one that the programs read. Predictions follow the programs' rules; sums of floats may differ from theirs
in the last bits."""

import io
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import zlib

import numpy as np

from . import _graph
from ._job import find_program
from ._worker import as_keys, as_values


class ModelError(Exception):
    """A file that is no model, or is damaged: the text names the file and what is wrong."""


class _Reader:
    """The bytes of a model's file, from its beginning."""

    def __init__(self, path, data):
        self.path, self.data, self.at = path, data, 0

    def refuse(self, what):
        raise ModelError(f"{self.path}: {what}")

    def bytes(self, count):
        if count > len(self.data) - self.at:
            self.refuse(f"damaged: it ends at byte {len(self.data)}, before its content does")
        self.at += count
        return self.data[self.at - count:self.at]

    def numbers(self, layout):
        return struct.unpack("<" + layout, self.bytes(struct.calcsize("<" + layout)))

    def array(self, dtype, count):
        dtype = np.dtype(dtype)
        return np.frombuffer(self.bytes(dtype.itemsize * count), dtype).copy()

    def floats(self, count):
        values = self.array("<f4", count)
        if not np.isfinite(values).all():
            self.refuse("damaged: a number is not finite")
        return values

    def standard(self, features):
        """The factors and centres of standardized features; without centres None."""
        flags, = self.numbers("I")
        _within("flags", flags, 0, 1)
        arrays = [self.array("<f8", features) for _ in range(1 + flags)]
        if not np.isfinite(arrays).all():
            self.refuse("damaged: a number is not finite")
        return arrays[0], arrays[1] if flags else None

    def labels(self, count):
        return [self.bytes(56).split(b"\0", 1)[0].decode("utf-8", "replace") for _ in range(count)]

    def column_names(self):
        """The label's name and those of the features, or None and None: they are a section at the end of a file whose
        version has 16 more (apps/samples/model.h), which is taken off. Before the version is read."""
        version, = struct.unpack_from("<I", self.data, self.at)
        if version < 16:
            return None, None
        length, = struct.unpack_from("<I", self.data, len(self.data) - 4)
        begin = len(self.data) - 4 - length
        if begin < self.at + 4:
            self.refuse("damaged: its names of columns are longer than the file")
        section, at, names = self.data[begin:-4], 0, []
        while at < length:
            names.append(section[at + 1:at + 1 + section[at]].decode("utf-8", "replace"))
            at += 1 + section[at]
        if at != length or not names:
            self.refuse("damaged: its names of columns do not end where they should")
        self.data = self.data[:self.at] + struct.pack("<I", version - 16) + self.data[self.at + 4:begin]
        return names[0], names[1:]

    def end(self):
        if self.at != len(self.data):
            self.refuse(f"damaged: {len(self.data) - self.at} bytes too many")


def load(path):
    """Reads a model's file. Returns a MatrixFactorizationModel, LogisticRegressionModel, NetworkModel, TopicModel or
    GraphNetworkModel. Raises ModelError for a file that is no model or is damaged in any byte, OSError when it can't be
    read."""
    data = pathlib.Path(path).read_bytes()
    kind = _KINDS.get(data[:8])
    if kind is None:
        raise ModelError(f"{path}: no model of mf, mlr, net, lda or gnn")
    if len(data) < 16 or zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        raise ModelError(f"{path}: damaged: its checksum differs")
    reader = _Reader(path, data[:-4])
    reader.bytes(8)
    try:
        model = kind._read(reader)
    except (ValueError, IndexError, OverflowError, MemoryError) as error:
        raise ModelError(f"{path}: damaged: {error}") from error
    reader.end()
    return model


def _write(path, content):
    """Writes a whole file or none. A symbolic link stays one."""
    path = pathlib.Path(path).resolve()
    content += struct.pack("<I", zlib.crc32(content))
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o666 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _within(what, value, low, high):
    if not low <= value <= high:
        raise ValueError(f"{what} {value}: expected {low} to {high}")
    return value


def _finite(what, array, shape, dtype=np.float32):
    array = np.ascontiguousarray(array, dtype)
    if array.shape != shape:
        raise ValueError(f"{what}: shape {array.shape}: expected {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what}: expected finite numbers")
    return array


class MatrixFactorizationModel:
    """A model of mf: prediction = mean + user bias + item bias + user factors . item factors, clipped to the range of
    the training ratings.

    users, items                [n] uint64: the keys, ascending. An id that is a number is its own key.
    user_names, item_names      {key: str} of the ids that are texts, such as ISBNs; empty if there are none.
    user_factors, item_factors  [n, rank] float32.
    user_biases, item_biases    [n] float32; None if the model has no biases.
    mean                        of the training ratings.
    rating_min, rating_max      the least and the greatest of them.
    log1p                       whether all these numbers are of log(1 + rating) (mf --log1p); predictions are ratings.
    """

    def __init__(self, users, user_factors, items, item_factors, mean, rating_min, rating_max, user_biases=None,
                 item_biases=None, user_names=None, item_names=None, log1p=False):
        self.log1p = bool(log1p)
        self.users, self.user_factors, self.user_biases = self._sorted("user", users, user_factors, user_biases)
        self.items, self.item_factors, self.item_biases = self._sorted("item", items, item_factors, item_biases)
        self.user_names, self.item_names = dict(user_names or {}), dict(item_names or {})
        self._user_keys = {name: key for key, name in self.user_names.items()}
        self._item_keys = {name: key for key, name in self.item_names.items()}
        if self.user_factors.shape[1] != self.item_factors.shape[1]:
            raise ValueError(f"factors of users {self.user_factors.shape} and items {self.item_factors.shape}: "
                             "expected one rank")
        if (user_biases is None) != (item_biases is None):
            raise ValueError("biases: expected those of users and items, or none")
        self.mean, self.rating_min, self.rating_max = float(mean), float(rating_min), float(rating_max)
        if not np.isfinite([self.mean, self.rating_min, self.rating_max]).all() or self.rating_min > self.rating_max:
            raise ValueError(f"ratings: mean {mean}, from {rating_min} to {rating_max}: expected finite numbers in "
                             "order")

    @staticmethod
    def _sorted(what, keys, factors, biases):
        keys = as_keys(keys)
        order = np.argsort(keys, kind="stable")
        if keys.size > 1 and (np.diff(keys[order]) == 0).any():
            raise ValueError(f"{what}s: expected each key once")
        factors = _finite(f"{what} factors", factors, (keys.size, np.asarray(factors).shape[1]))
        return keys[order], factors[order], None if biases is None else _finite(f"{what} biases", biases,
                                                                                (keys.size,))[order]

    @property
    def rank(self):
        """Factors of a user and an item."""
        return self.user_factors.shape[1]

    @classmethod
    def _read(cls, reader):
        version, flags, rank = reader.numbers("III")
        if version not in (1, 2) or flags & ~(4 + 2 * version - 1):
            reader.refuse(f"version {version}, flags {flags}: expected version 1 or 2")
        biases, named, log1p = flags & 1, flags & 2, flags & 4
        _within("rank", rank, 1, 4096)
        mean, low, high = reader.numbers("fff")
        counts = reader.numbers("QQ")
        row = np.dtype([("key", "<u8"), ("values", "<f4", (rank + biases,))])
        rest = len(reader.data) - reader.at - (counts[0] + counts[1]) * row.itemsize
        if rest < 0 or (rest > 0 and not named):
            reader.refuse("damaged: its size does not follow from its header")
        tables = [reader.array(row, count) for count in counts]
        for table in tables:
            if not np.isfinite(table["values"]).all():
                reader.refuse("damaged: a number is not finite")
        (users, items) = tables
        names = cls._read_names(reader, tables) if named else ({}, {})
        return cls(users["key"], users["values"][:, :rank], items["key"], items["values"][:, :rank], mean, low, high,
                   users["values"][:, rank] if biases else None, items["values"][:, rank] if biases else None, *names,
                   log1p=log1p)

    @staticmethod
    def _read_names(reader, tables):
        names = ({}, {})
        for table, known, count in zip(tables, names, reader.numbers("QQ")):
            keys = set(table["key"].tolist())
            for _ in range(count):
                key, length = reader.numbers("QI")
                if key not in keys or key in known or length == 0:
                    reader.refuse("damaged: a name has no row, or a row two names")
                known[key] = reader.bytes(length).decode("utf-8", "surrogateescape")
        return names

    def save(self, path):
        """Writes the model for `mf --predict` and load."""
        named = bool(self.user_names or self.item_names)
        flags = (self.user_biases is not None) + 2 * named + 4 * self.log1p
        content = b"AMLMFMDL" + struct.pack("<IIIfffQQ", 1 + named, flags, self.rank, self.mean,
                                            self.rating_min, self.rating_max, self.users.size, self.items.size)
        for keys, factors, biases in ((self.users, self.user_factors, self.user_biases),
                                      (self.items, self.item_factors, self.item_biases)):
            values = factors if biases is None else np.hstack([factors, biases[:, None]])
            rows = np.empty(keys.size, [("key", "<u8"), ("values", "<f4", (values.shape[1],))])
            rows["key"], rows["values"] = keys, values
            content += rows.tobytes()
        if named:
            content += struct.pack("<QQ", len(self.user_names), len(self.item_names))
            for names in (self.user_names, self.item_names):
                texts = ((key, name.encode("utf-8", "surrogateescape")) for key, name in names.items())
                content += b"".join(struct.pack("<QI", key, len(text)) + text for key, text in texts)
        _write(path, content)

    @staticmethod
    def _keys(known, named, ids):
        """The keys of ids: whole numbers, which are keys, or str. A name that is not known gets an unknown key."""
        array = np.asarray(ids)
        if array.dtype.kind not in "UO" or not all(isinstance(name, str) for name in array.flat):
            return as_keys(ids)
        unknown = next(key for key in range(2**63, 2**64) if key not in known)
        number = r"(?:0|[1-9][0-9]{0,18})(?:\.0*)?"
        keys = [named[name] if name in named else int(name.split(".")[0]) if re.fullmatch(number, name) else unknown
                for name in array.flat]
        return np.array(keys, np.uint64).reshape(array.shape)

    @staticmethod
    def _find(known, keys):
        """The places of keys, and which of them are known."""
        if known.size == 0:
            return np.zeros(keys.shape, np.int64), np.zeros(keys.shape, bool)
        places = np.minimum(np.searchsorted(known, keys), known.size - 1)
        return places, known[places] == keys

    def predict(self, users, items) -> np.ndarray:
        """Predicted ratings of pairs, float32 of the shape of both, which may be broadcast. Users and items are keys,
        or ids as str. The bias and the factors of a user or item that the model does not have are left out."""
        users = self._keys(self.users, self._user_keys, users)
        items = self._keys(self.items, self._item_keys, items)
        users, items = np.broadcast_arrays(users, items)
        (u, has_u), (i, has_i) = self._find(self.users, users), self._find(self.items, items)
        value = np.full(users.shape, self.mean)
        if self.user_biases is not None:
            value += np.where(has_u, self.user_biases[u] if self.users.size else 0, 0)
            value += np.where(has_i, self.item_biases[i] if self.items.size else 0, 0)
        if self.users.size and self.items.size:
            products = np.einsum("...k,...k", self.user_factors[u].astype(np.float64),
                                 self.item_factors[i].astype(np.float64))
            value += np.where(has_u & has_i, products, 0)
        value = np.clip(value, self.rating_min, self.rating_max)
        return (np.expm1(value) if self.log1p else value).astype(np.float32)

    def recommend(self, user, n: int = 10, without=()) -> list:
        """The n items with the highest predicted ratings for a user (a key, or an id as str), but for those in
        `without` (rated already, say): a list of (item, prediction), the best first; of equal ones the smaller key. An
        item that has a name is given by it."""
        rest = self.items[~np.isin(self.items, self._keys(self.items, self._item_keys, list(without)))]
        # Not clipped: else the best ones may all be equal.
        user = self._keys(self.users, self._user_keys, user)
        place, known = self._find(self.users, user)
        at = np.searchsorted(self.items, rest)
        scores = np.zeros(rest.size) if self.item_biases is None else self.item_biases[at].astype(np.float64)
        if known:
            scores = scores + self.item_factors[at].astype(np.float64) @ self.user_factors[place]
        best = np.lexsort((rest, -scores))[:n]
        items = [self.item_names.get(item, item) for item in rest[best].tolist()]
        return list(zip(items, self.predict(user, rest[best]).tolist()))

    def __repr__(self):
        return f"<{type(self).__name__}: {self.users.size} users, {self.items.size} items, rank {self.rank}>"


def _label_order(label):
    try:
        number = float(label)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        return 1, 0, label.encode()
    whole, _, zeros = label.partition(".")  # doubles do not hold all whole numbers
    exact = int(whole) if whole.lstrip("+-").isdigit() and not zeros.strip("0") else int(number)
    return 0, number, exact


SCALES = ("none", "byte", "max", "unit", "standard")
INDEX_MAX = 2**31 - 1  # of libsvm files
STANDARD_LIMIT = 5  # standardized values beyond this have it


def _scale(kind, maxima, samples):
    """Samples [n, features] as in training: by 1/255, by each feature's largest value, or each to length 1."""
    if kind == "byte":
        return samples * np.float32(1 / 255)
    if kind == "max":
        return np.where(maxima > 0, samples / np.where(maxima > 0, maxima, 1), 0).astype(np.float32)
    if kind == "unit":
        squares = (samples.astype(np.float64)**2).sum(axis=1)
        return samples * (1 / np.sqrt(np.where(squares > 0, squares, 1)))[:, None].astype(np.float32)
    return samples


def _limited(values):
    """Standardized values, as mlr limits and rounds them."""
    return np.clip(values, -STANDARD_LIMIT, STANDARD_LIMIT).astype(np.float32)


def _softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


class _Classifier:
    """What models with classes share."""

    def _rows(self, samples, dtype):
        """Samples [n, ...] as [n, features], not scaled yet."""
        array = np.asarray(samples, dtype)
        if array.ndim < 2:
            raise ValueError(f"samples of shape {array.shape}: expected one for each row")
        array = array.reshape(len(array), int(np.prod(array.shape[1:])))
        if array.shape[1] != self.features:
            raise ValueError(f"samples of {array.shape[1]} features: expected {self.features}")
        return array

    def _samples(self, samples):
        if self.scale != "standard":
            return _scale(self.scale, self.maxima, self._rows(samples, np.float32))
        array = self._rows(samples, np.float64)
        return _limited((array if self.centres is None else array - self.centres) * self.factors)

    def predict(self, samples) -> np.ndarray:
        """The likeliest label of each sample [n, ...], as the training data wrote it; of equal ones the first."""
        return np.asarray(self.labels)[self.predict_proba(samples).argmax(axis=1)]


class LogisticRegressionModel(_Classifier):
    """A model of mlr: the probabilities are the softmax of scaled samples times weights, plus biases.

    labels   list of str: the classes, in their order.
    weights  [features, classes] float32.
    biases   [classes] float32.
    scale    "none", "byte", "max" (with `maxima`, [features]), "unit" or "standard": values minus `centres` [features],
             or None for 0, times `factors` [features], limited to -5..5.
    hash_bits, crosses  of a model of Criteo lines, whose samples are hashed; else 0 and (). Such models predict by
             `mlr --predict` alone.
    image_shape  (width, height, channels) of a model of images in tar files; else None.
    label_name, feature_names  the columns' names, if the training data had a header; else None.
    indexes  [features] int64, ascending: the features' indexes in libsvm files, where mlr numbers those that occur as
             they are far apart; else None: those from index_base on.
    """

    def __init__(self, labels, weights, biases, scale="none", maxima=None, index_base=1, hash_bits=0, crosses=(),
                 image_shape=None, label_name=None, feature_names=None, factors=None, centres=None, indexes=None):
        self.labels, self.scale, self.index_base = [str(label) for label in labels], scale, index_base
        if scale not in SCALES:
            raise ValueError(f"scale {scale!r}: expected one of {', '.join(SCALES)}")
        if len(self.labels) < 2 or self.labels != sorted(set(self.labels), key=_label_order):
            raise ValueError("labels: expected two or more, each once, in mlr's order: numbers by their values, then "
                             "words")
        self.features = np.asarray(weights).shape[0]
        self.weights = _finite("weights", weights, (self.features, len(self.labels)))
        self.biases = _finite("biases", biases, (len(self.labels),))
        self.maxima = _finite("maxima", maxima, (self.features,)) if scale == "max" else None
        standard, shape = scale == "standard", (self.features,)
        self.factors = _finite("factors", factors, shape, np.float64) if standard else None
        centred = standard and centres is not None
        self.centres = _finite("centres", centres, shape, np.float64) if centred else None
        self.hash_bits, self.crosses, self.image_shape = hash_bits, tuple(crosses), image_shape
        self.label_name, self.feature_names = label_name, None if feature_names is None else list(feature_names)
        if self.feature_names is not None and len(self.feature_names) != self.features:
            raise ValueError(f"feature_names: expected {self.features}, got {len(self.feature_names)}")
        self.indexes = None if indexes is None else self._checked_indexes(indexes)

    def _checked_indexes(self, indexes):
        indexes = as_values("indexes", indexes, np.dtype(np.int64), (self.features,))
        if indexes[0] < self.index_base or indexes[-1] > INDEX_MAX or (np.diff(indexes) <= 0).any():
            raise ValueError(f"indexes: expected numbers from {self.index_base} to {INDEX_MAX}, ascending")
        if self.hash_bits or self.image_shape or self.feature_names:
            raise ValueError("indexes: expected none of samples that are hashed, images or tables with names")
        return indexes

    @property
    def columns(self):
        """The features' columns in a scipy.sparse matrix, whose first column has the index index_base: [features]
        int64."""
        return np.arange(self.features) if self.indexes is None else self.indexes - self.index_base

    @classmethod
    def _read(cls, reader):
        label_name, feature_names = reader.column_names()
        version, scale, index_base, features, classes = reader.numbers("IIIII")
        standard = scale == SCALES.index("standard")
        if version not in (1, 2, 3, 4, 5) or scale >= len(SCALES) or (standard and version < 4) or (
                version == 4 and not standard):
            reader.refuse(f"version {version}, scale {scale}: expected a version from 1 to 5")
        _within("features", features, 1, 1 << 26)
        _within("classes", classes, 2, 1 << 16)
        bits, crosses, image = 0, (), None
        if version == 2:
            bits, count = reader.numbers("II")
            crosses = tuple(tuple(pair) for pair in reader.array("u1", 2 * count).reshape(count, 2).tolist())
        if version == 3:
            image = reader.numbers("III")
        labels = reader.labels(classes)
        indexes = reader.array("<u4", features) if version == 5 else None
        maxima = reader.floats(features) if SCALES[scale] == "max" else None
        factors, centres = reader.standard(features) if standard else (None, None)
        row = np.dtype([("number", "<u4"), ("values", "<f4", (classes,))])
        count, rest = divmod(len(reader.data) - reader.at, row.itemsize)
        rows = reader.array(row, count)
        if (rest or not np.isfinite(rows["values"]).all() or (rows["number"] > features).any()
                or (rows["number"] == features).sum() != 1):
            reader.refuse("damaged: its rows are not as its header says")
        weights = np.zeros((features + 1, classes), np.float32)
        weights[rows["number"]] = rows["values"]
        return cls(labels, weights[:-1], weights[-1], SCALES[scale], maxima, index_base, bits, crosses, image,
                   label_name, feature_names, factors, centres, indexes)

    def save(self, path):
        """Writes the model for `mlr --predict` and load."""
        version = (2 if self.hash_bits else 3 if self.image_shape else 5 if self.indexes is not None else
                   4 if self.scale == "standard" else 1)
        content = io.BytesIO()
        named = 16 if self.feature_names else 0
        content.write(b"AMLMLMDL" + struct.pack("<IIIII", version + named, SCALES.index(self.scale), self.index_base,
                                                self.features, len(self.labels)))
        if version == 2:
            content.write(struct.pack("<II", self.hash_bits, len(self.crosses)) + bytes(sum(self.crosses, ())))
        if version == 3:
            content.write(struct.pack("<III", *self.image_shape))
        for label in self.labels:
            text = label.encode()
            if not 1 <= len(text) <= 55:
                raise ValueError(f"label {label!r}: expected 1 to 55 bytes")
            content.write(text.ljust(56, b"\0"))
        if version == 5:
            content.write(self.indexes.astype("<u4").tobytes())
        if self.maxima is not None:
            content.write(self.maxima.astype("<f4").tobytes())
        if self.factors is not None:
            content.write(struct.pack("<I", self.centres is not None) + self.factors.astype("<f8").tobytes())
            content.write(b"" if self.centres is None else self.centres.astype("<f8").tobytes())
        used = np.flatnonzero(self.weights.any(axis=1))
        rows = np.empty(used.size + 1, [("number", "<u4"), ("values", "<f4", (len(self.labels),))])
        rows["number"], rows["values"] = np.append(used, self.features), np.vstack([self.weights[used], self.biases])
        content.write(rows.tobytes())
        if named:
            names = [name.encode()[:255] for name in [self.label_name or "", *self.feature_names]]
            section = b"".join(bytes([len(name)]) + name for name in names)
            content.write(section + struct.pack("<I", len(section)))
        _write(path, content.getvalue())

    def logits(self, samples) -> np.ndarray:
        """What predict_proba takes the softmax of, [n, classes], for samples [n, ...] with the features of the training
        data, not scaled yet; or [n, any number] of scipy.sparse, as mlr reads libsvm: features that the training data
        does not have are left out, and those that are missing are 0."""
        if self.hash_bits:
            raise ValueError("the model is of Criteo lines, which are hashed: use mlr --predict")
        if hasattr(samples, "tocsr"):
            return self._sparse_logits(samples)
        return self._samples(samples).astype(np.float64) @ self.weights.astype(np.float64) + self.biases

    def predict_proba(self, samples) -> np.ndarray:
        """Probabilities [n, classes] of samples as those of `logits`."""
        return _softmax(self.logits(samples))

    def unscaled(self):
        """Weights [features, classes] and biases [classes], float64, for samples that are not scaled: their logits are
        samples @ weights + biases, but for standardized values beyond the limit. With scale "unit" samples are still
        to be scaled to length 1."""
        weights, biases = self.weights.astype(np.float64), self.biases.astype(np.float64)
        if self.scale == "byte":
            weights /= 255
        if self.scale == "max":
            weights *= (self.maxima > 0)[:, None] / np.where(self.maxima > 0, self.maxima, 1)[:, None]
        if self.scale == "standard":
            weights *= self.factors[:, None]
        return weights, biases if self.centres is None else biases - self.centres @ weights

    def _sparse_logits(self, samples):
        samples = samples.tocsr().astype(np.float64)  # a copy
        samples.sum_duplicates()
        samples = samples[:, :self.features] if self.indexes is None else self._numbered(samples)
        samples.data, zeros = self._sparse_values(samples)
        logits = samples @ self.weights[:samples.shape[1]].astype(np.float64)
        if zeros is not None:
            logits += zeros @ self.weights.astype(np.float64)
        return logits + self.biases

    def _numbered(self, samples):
        """CSR samples [n, any number] as [n, features]: the columns that the model has."""
        places = np.minimum(np.searchsorted(self.columns, samples.indices), self.features - 1)
        known = self.columns[places] == samples.indices
        starts = np.concatenate([[0], np.cumsum(known)])[samples.indptr]
        return type(samples)((samples.data[known], places[known], starts), (samples.shape[0], self.features))

    def _sparse_values(self, samples):
        """The scaled values, and None; with centres less those of a sample of zeros, [features], and these."""
        values, columns = samples.data, samples.indices
        if self.scale == "standard":
            if self.centres is None:
                return _limited(values * self.factors[columns]).astype(np.float64), None
            zeros = _limited(-self.centres * self.factors).astype(np.float64)
            return _limited((values - self.centres[columns]) * self.factors[columns]) - zeros[columns], zeros
        if self.scale == "byte":
            return values / 255, None
        if self.scale == "max":
            maxima = self.maxima[columns]
            return np.where(maxima > 0, values / np.where(maxima > 0, maxima, 1), 0), None
        if self.scale == "unit":
            rows = np.repeat(np.arange(samples.shape[0]), np.diff(samples.indptr))
            squares = np.bincount(rows, values**2, samples.shape[0])
            return values / np.sqrt(np.where(squares > 0, squares, 1))[rows], None
        return values, None

    def __repr__(self):
        return f"<{type(self).__name__}: {self.features} features, {len(self.labels)} classes>"


NETWORK_BATCH = 64  # samples at once: a convolution copies all of its patches


class NetworkModel(_Classifier):
    """A model of net.

    layers      str: the layers as --layers describes them.
    parameters  a list of (name, array), in the order of the layers: of conv the weights [k, k, channels, filters] and
                the biases, of dense the weights [in, out] and the biases, of norm gain and bias.
    labels, scale, maxima, factors, centres, label_name, feature_names  as those of LogisticRegressionModel.
    shape       (height, width, channels) of a sample.
    """

    def __init__(self, labels, layers, shape, image, parameters, scale, maxima, index_base, factors=None,
                 centres=None):
        self.labels, self.layers, self.shape, self.image = labels, layers, shape, image
        self.scale, self.maxima, self.index_base = scale, maxima, index_base
        self.factors, self.centres = factors, centres
        self.label_name = self.feature_names = None
        self.features = int(np.prod(shape))
        self._steps, self.parameters = self._arrange(parameters)

    @classmethod
    def _read(cls, reader):
        label_name, feature_names = reader.column_names()
        version, scale, base, features, height, width, channels, image, classes, length, count = reader.numbers("11I")
        if (version not in (1, 2) or scale >= len(SCALES) or (SCALES[scale] == "standard") != (version == 2)
                or height * width * channels != features):
            reader.refuse(f"version {version}, scale {scale}: expected version 1 or 2")
        layers = reader.bytes(length).decode("utf-8", "replace")
        labels = reader.labels(classes)
        maxima = reader.floats(features) if SCALES[scale] == "max" else None
        factors, centres = reader.standard(features) if version == 2 else (None, None)
        parameters = reader.floats(count)
        model = cls(labels, layers, (height, width, channels), bool(image), parameters, SCALES[scale], maxima, base,
                    factors, centres)
        model.label_name, model.feature_names = label_name, feature_names
        return model

    def _arrange(self, flat):
        """The network's steps, by the rules of apps/net/network.h, and its parameters in their shapes."""
        named, at = [], 0

        def take(name, *shape):
            nonlocal at
            size = int(np.prod(shape))
            if at + size > flat.size:
                raise ValueError("its layers need more parameters than it has")
            named.append((name, flat[at:at + size].reshape(shape)))
            at += size
            return named[-1][1]

        steps = []
        height, width, channels = self.shape
        image = self.image
        described = [part.split() for part in self.layers.split(",") if part.strip()] + [["output", len(self.labels)]]
        for number, (kind, *values) in enumerate(described):
            name = f"{number}.{kind}"
            if kind == "conv":
                filters, k = (int(value) for value in values[0].split("x"))
                weights, bias = take(name + ".weights", k, k, channels, filters), take(name + ".biases", filters)
                steps.append(lambda x, w=weights, b=bias: _conv(x, w, b))
                channels = filters
            elif kind == "pool":
                k = int(values[0])
                steps.append(lambda x, k=k: _pool(x, k))
                height, width = height // k, width // k
            elif kind in ("dense", "output"):
                units = int(values[0])
                size = height * width * channels
                weights, bias = take(name + ".weights", size, units), take(name + ".biases", units)
                steps.append(lambda x, w=weights, b=bias: x.reshape(len(x), -1) @ w + b)
                height, width, channels, image = 1, 1, units, False
            elif kind == "norm":
                size = channels if image else height * width * channels
                gain, bias = take(name + ".gain", size), take(name + ".bias", size)
                steps.append(lambda x, g=gain, b=bias: _norm(x, g, b))
            elif kind != "dropout":
                raise ValueError(f"layer {kind!r}: expected one that this version knows")
            relu = kind in ("conv", "dense") and described[number + 1][0] != "norm" or (
                kind == "norm" and number > 0 and described[number - 1][0] in ("conv", "dense"))
            if relu:
                steps.append(lambda x: np.maximum(x, 0))
        if at != flat.size:
            raise ValueError("it has more parameters than its layers need")
        return steps, named

    def predict_proba(self, samples) -> np.ndarray:
        """Probabilities [n, classes] of samples [n, ...], not scaled yet."""
        samples = self._samples(samples)
        found = np.empty((len(samples), len(self.labels)), np.float32)
        for begin in range(0, len(samples), NETWORK_BATCH):
            part = slice(begin, begin + NETWORK_BATCH)
            values = samples[part].reshape((-1,) + self.shape) if self.image else samples[part]
            for step in self._steps:
                values = step(values)
            found[part] = _softmax(values)
        return found

    def __repr__(self):
        return f"<{type(self).__name__}: {self.layers or 'no hidden layer'}, {len(self.labels)} classes>"


def _conv(x, weights, biases):
    """Stride 1, the image's size: values from outside are 0; a patch begins (k - 1) / 2 before the pixel."""
    k = weights.shape[0]
    before = (k - 1) // 2
    padded = np.pad(x, ((0, 0), (before, k - 1 - before), (before, k - 1 - before), (0, 0)))
    patches = np.lib.stride_tricks.sliding_window_view(padded, (k, k), axis=(1, 2))  # [n, h, w, c, k, k]
    return np.tensordot(patches, weights, axes=([4, 5, 3], [0, 1, 2])).astype(np.float32) + biases


def _pool(x, k):
    n, height, width, channels = x.shape
    cut = x[:, :height // k * k, :width // k * k]
    return cut.reshape(n, height // k, k, width // k, k, channels).max(axis=(2, 4))


NORM_EPSILON = 1e-5  # as in apps/nn/layers.c


def _norm(x, gain, bias):
    shape = x.shape
    x = x.reshape(-1, gain.size)
    centered = x - x.mean(axis=1, keepdims=True)
    return (centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + NORM_EPSILON) * gain + bias).reshape(shape)


class TopicModel:
    """A model of lda.

    counts      [words, topics] int32: how many tokens of a word have a topic; as an array, so a model of a million
                words and a thousand topics takes 4 GB.
    vocabulary  list of str, or None if the words have no names.
    alpha       the prior of each topic in a document.
    beta        the prior of each word in a topic.
    """

    def __init__(self, counts, alpha, beta, vocabulary=None):
        self.counts = as_values("counts", counts, np.dtype(np.int32), np.shape(counts))
        if self.counts.ndim != 2 or (self.counts < 0).any():
            raise ValueError("counts: expected whole numbers from 0 on, [words, topics]")
        self.alpha, self.beta = float(alpha), float(beta)
        self.vocabulary = None if vocabulary is None else [str(word) for word in vocabulary]
        if self.vocabulary is not None and len(self.vocabulary) != len(self.counts):
            raise ValueError(f"vocabulary of {len(self.vocabulary)} words: expected {len(self.counts)}")
        if any(len(word.split()) != 1 or word.split()[0] != word for word in self.vocabulary or []):
            raise ValueError("vocabulary: expected words without spaces or line ends")

    @classmethod
    def _read(cls, reader):
        version, zero, topics, words = reader.numbers("IIII")
        if version != 1 or zero != 0:
            reader.refuse(f"version {version}: expected version 1")
        _within("topics", topics, 1, 65535)
        _within("words", words, 1, 1 << 28)
        alpha, beta = reader.numbers("dd")
        rows, pairs, names = struct.unpack("<QQQ", reader.data[-24:])
        if len(reader.data) != reader.at + 8 * (rows + pairs) + names + 24:
            reader.refuse("damaged: its size does not follow from its end")
        counts = np.zeros((words, topics), np.int32)
        for _ in range(rows):
            word, count = reader.numbers("II")
            entries = reader.array("<u4", 2 * count).reshape(count, 2)
            if word >= words or (entries[:, 0] >= topics).any():
                reader.refuse("damaged: a word or a topic that it does not have")
            counts[word, entries[:, 0]] = entries[:, 1]
        text = reader.bytes(names).decode("utf-8", "replace")
        reader.bytes(24)
        return cls(counts, alpha, beta, text.split("\n")[:-1] if names else None)

    def save(self, path):
        """Writes the model for `lda --infer` and load."""
        content = io.BytesIO()
        words, topics = self.counts.shape
        content.write(b"AMLLDAMD" + struct.pack("<IIIIdd", 1, 0, topics, words, self.alpha, self.beta))
        rows = pairs = 0
        for word in np.flatnonzero(self.counts.any(axis=1)):
            used = np.flatnonzero(self.counts[word])
            content.write(struct.pack("<II", word, used.size))
            content.write(np.stack([used, self.counts[word, used]], axis=1).astype("<u4").tobytes())
            rows, pairs = rows + 1, pairs + used.size
        names = b"".join(word.encode() + b"\n" for word in self.vocabulary or [])
        content.write(names + struct.pack("<QQQ", rows, pairs, len(names)))
        _write(path, content.getvalue())

    @property
    def topics(self) -> np.ndarray:
        """The words' probabilities in each topic, [topics, words]: (n_wk + beta) / (n_k + V beta)."""
        counts = self.counts.T + self.beta
        return counts / counts.sum(axis=1, keepdims=True)

    def top_words(self, topic: int, n: int = 10) -> list:
        """The likeliest words of a topic: names, or numbers if the words have none."""
        order = np.argsort(-self.counts[:, topic], kind="stable")[:n]
        return [self.vocabulary[word] if self.vocabulary else int(word) for word in order]

    def infer(self, documents) -> np.ndarray:
        """Shares of the topics [n, topics] in new documents, by `lda --infer`. A document is a str (of a model whose
        words have names), or a dict from a word's number to how often it occurs. The row of a document without words of
        the model is zeros."""
        if isinstance(documents, str):
            raise TypeError("documents: expected a list of them, not one str")
        documents = list(documents)
        text = bool(documents) and isinstance(documents[0], str)
        if not all(isinstance(document, str if text else dict) for document in documents):
            raise TypeError("documents: expected all of them as str, or all as dicts")
        if text and self.vocabulary is None:
            raise ValueError("the model's words have no names: expected documents as dicts of words' numbers")
        if not documents:
            return np.empty((0, self.counts.shape[1]))
        with tempfile.TemporaryDirectory(prefix="proteus-") as folder:
            model, data = os.path.join(folder, "model"), os.path.join(folder, "documents")
            self.save(model)
            with open(data, "w", encoding="utf-8") as file:
                for document in documents:
                    file.write((" ".join(document.split()) if text else self._counted(document)) + "\n")
            out = os.path.join(folder, "out")
            command = [find_program("lda"), "--infer", model, "--data", data, "--out", out, "--minimum", "0",
                       *(["--format", "text", "--minimum-length", "1"] if text else ["--format", "lda-c"])]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise ValueError(done.stderr.strip() or f"lda --infer: exit status {done.returncode}")
            shares = np.zeros((len(documents), self.counts.shape[1]))
            with open(out, encoding="utf-8") as file:
                for line in file:
                    number, *rest = line.split()
                    for topic in rest if rest != ["unknown"] else []:
                        k, share = topic.split(":")
                        shares[int(number) - 1, int(k)] = float(share)
        return shares

    @staticmethod
    def _counted(document):
        return " ".join([str(len(document))] + [f"{int(word)}:{int(count)}" for word, count in document.items()])

    def __repr__(self):
        return f"<{type(self).__name__}: {self.counts.shape[1]} topics, {self.counts.shape[0]} words>"


class GraphNetworkModel:
    """A model of gnn. Needs scipy.

    kind        str: "gcn", "gat" or "sage".
    labels      list of str: the classes, in their order.
    layers      str: the widths of hidden layers as --layers has them, of gat those of a head.
    heads, output_heads  gat: heads of hidden layers, and of the last one.
    directed    whether an edge is only from u to v.
    parameters  a list of (name, array), in the order of the layers: the weights [in, out], of sage those of the vertex
                itself, too (`self`), and the biases. gat: the weights [in, heads, width], and the attention's vectors
                `left` (of the vertex that attends) and `right`, [heads, width].
    features    how many a vertex has.
    scale       "none", "unit" (a vertex's features to length 1), "rows" (divided by their sum, if that is above 1) or
                "standard": values minus `centres` [features], times `factors` [features], limited to -5..5.
    """

    def __init__(self, kind, labels, layers, parameters, features, heads=1, output_heads=1, directed=False,
                 scale="none", centres=None, factors=None):
        if kind not in _graph.KINDS:
            raise ValueError(f"kind {kind!r}: expected one of {', '.join(_graph.KINDS)}")
        if scale not in _graph.SCALES:
            raise ValueError(f"scale {scale!r}: expected one of {', '.join(_graph.SCALES)}")
        self.kind, self.labels, self.layers, self.scale = kind, [str(label) for label in labels], str(layers), scale
        self.heads, self.output_heads, self.directed, self.features = heads, output_heads, bool(directed), features
        blocks = self._blocks(kind, features, len(self.labels), self.layers, heads, output_heads)
        standard = scale == "standard"
        self.centres = _finite("centres", centres, (features,)) if standard else None
        self.factors = _finite("factors", factors, (features,)) if standard else None
        if [name for name, _ in parameters] != [name for name, _ in blocks]:
            raise ValueError(f"parameters: expected {', '.join(name for name, _ in blocks)}")
        self.parameters = [(name, _finite(name, array, shape)) for (name, array), (_, shape) in zip(parameters, blocks)]

    @staticmethod
    def _blocks(kind, features, classes, layers, heads, output_heads):
        """The names and shapes of the parameters."""
        if not re.fullmatch(r"[0-9]{1,4}(,[0-9]{1,4}){0,5}", layers):
            raise ValueError(f"layers {layers!r}: expected the widths of 1 to 6 hidden layers, such as 64,64")
        for what, number, high in (("features", features, 1 << 24), ("heads", heads, 64), ("heads", output_heads, 64)):
            _within(what, number, 1, high)
        _within("classes", classes, 2, 1 << 12)
        widths = [_within("width", int(width), 1, 4096) for width in layers.split(",")]
        return _graph.blocks_of(kind, features, classes, widths, heads, output_heads)

    @classmethod
    def _read(cls, reader):
        """The file as apps/gnn/model.c describes it."""
        version, kind, features, classes, heads, output_heads, count, length, directed, scale = reader.numbers("10I12x")
        if version != 1 or kind >= len(_graph.KINDS) or scale >= len(_graph.SCALES) or directed > 1:
            reader.refuse(f"version {version}, kind {kind}, scale {scale}: expected version 1")
        kind, scale, layers = _graph.KINDS[kind], _graph.SCALES[scale], reader.bytes(length).decode("ascii")
        blocks = cls._blocks(kind, features, classes, layers, heads, output_heads)
        if layers.count(",") + 2 != count:
            reader.refuse(f"damaged: it has {count} layers, but the hidden layers {layers}")
        labels = [reader.bytes(*reader.numbers("I")).decode("utf-8", "replace") for _ in range(classes)]
        centres, factors = (reader.floats(features) if scale == "standard" else None for _ in range(2))
        parameters = [(name, reader.floats(int(np.prod(shape))).reshape(shape)) for name, shape in blocks]
        return cls(kind, labels, layers, parameters, features, heads, output_heads, directed, scale, centres, factors)

    def save(self, path):
        """Writes the model for `gnn --predict` and load."""
        layers = self.layers.encode()
        content = io.BytesIO()
        content.write(b"AMLGNNMD" + struct.pack(
            "<10I12x", 1, _graph.KINDS.index(self.kind), self.features, len(self.labels), self.heads, self.output_heads,
            self.layers.count(",") + 2, len(layers), self.directed, _graph.SCALES.index(self.scale)))
        content.write(layers)
        for label in self.labels:
            content.write(struct.pack("<I", len(label.encode())) + label.encode())
        for array in (self.centres, self.factors, *(array for _, array in self.parameters)):
            content.write(b"" if array is None else array.astype("<f4").tobytes())
        _write(path, content.getvalue())

    def logits(self, A, X) -> np.ndarray:
        """What predict_proba takes the softmax of, [n, classes].

        A  the graph [n, n], scipy.sparse or an array: A[u, v] is not 0 where there is an edge from u to v; symmetric,
           unless the model is of a directed graph. Other values than 1, which are ignored, raise a warning. Entries
           A[v, v] change nothing.
        X  the features [n, features], scipy.sparse or an array, not scaled yet."""
        X = _graph.features_of(X, self.features)
        neighbours = _graph.Neighbours(*_graph.edges_of(A, self.directed, X.shape[0]), X.shape[0])
        layers = [{} for _ in range(self.layers.count(",") + 2)]
        for name, array in self.parameters:
            number, part = name.split(".")
            layers[int(number)][part] = array
        scaled = _graph.Features(X, self.scale, self.centres, self.factors)
        return _graph.logits_of(self.kind, neighbours, scaled, layers)

    def predict_proba(self, A, X) -> np.ndarray:
        """Probabilities [n, classes] of all vertices; the arguments are those of `logits`."""
        return _softmax(self.logits(A, X))

    def predict(self, A, X) -> np.ndarray:
        """The likeliest label of each vertex, as the training data wrote it; of equal ones the first."""
        return np.asarray(self.labels)[self.logits(A, X).argmax(axis=1)]

    def __repr__(self):
        return (f"<{type(self).__name__}: {self.kind}, {self.features} features, hidden layers {self.layers}, "
                f"{len(self.labels)} classes>")


_KINDS = {b"AMLMFMDL": MatrixFactorizationModel, b"AMLMLMDL": LogisticRegressionModel, b"AMLNNMDL": NetworkModel,
          b"AMLLDAMD": TopicModel, b"AMLGNNMD": GraphNetworkModel}
