"""The simple operators of ai.onnx.ml: encoding, scaling, linear models and maps.

Trees are in ``tree_ensembles.py``, support vector machines in ``support_vectors.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.ops.registry import kernel
from mdf_loop.types.elements import kind_of

ML = "ai.onnx.ml"


def one_of(**attributes: Any) -> Any:
    """The one attribute that is given, of several that exclude each other."""
    given = {name: value for name, value in attributes.items() if value is not None and len(value)}
    if len(given) != 1:
        raise ValueError(f"exactly one of {', '.join(attributes)} must be given; got {', '.join(given) or 'none'}")
    return next(iter(given.values()))


def filled(shape: Sequence[int], values: list[Any], dtype: Any) -> np.ndarray:
    """An array of any element type, strings too, from its elements in order."""
    array = np.empty(len(values), dtype)
    array[:] = values
    return array.reshape(shape)


def rows_of(x: np.ndarray) -> np.ndarray:
    """The rows of a matrix; a vector is one row.

    Raises
    ------
    ValueError
        It is neither.
    """
    if x.ndim == 2:
        return x
    if x.ndim != 1:
        raise ValueError(f"rows of features are wanted, a matrix or one vector; got shape {list(x.shape)}")
    return x[None]


def labels_of(**attributes: Any) -> np.ndarray:
    """The names of classes, numbers or strings."""
    labels = one_of(**attributes)
    return np.array(labels, object if isinstance(labels[0], str) else np.int64)


# Categories


@kernel("CategoryMapper", domain=ML)
def category_mapper(x, *, cats_int64s=(), cats_strings=(), default_int64=-1, default_string="_Unused"):
    """Strings to whole numbers, or whole numbers to strings."""
    if len(cats_int64s) != len(cats_strings):
        raise ValueError(f"there are {len(cats_int64s)} integers for {len(cats_strings)} strings")
    if kind_of(x.dtype) == "string":
        return mapped(x, cats_strings, cats_int64s, default_int64, np.int64)
    return mapped(x, cats_int64s, cats_strings, default_string, object)


def mapped(x: np.ndarray, keys: Sequence[Any], values: Sequence[Any], default: Any, dtype: Any) -> np.ndarray:
    """Each element looked up among the keys; of equal keys the last counts, and nan equals nan."""
    table = {_key(k): v for k, v in zip(keys, values, strict=True)}
    return filled(x.shape, [table.get(_key(e), default) for e in x.reshape(-1).tolist()], dtype)


def _key(value: Any) -> Any:
    return "nan" if isinstance(value, float) and value != value else value


@kernel("LabelEncoder", domain=ML, since=4)
def label_encoder(
    x,
    *,
    keys_tensor=None,
    keys_strings=None,
    keys_int64s=None,
    keys_floats=None,
    values_tensor=None,
    values_strings=None,
    values_int64s=None,
    values_floats=None,
    default_tensor=None,
    default_string="_Unused",
    default_int64=-1,
    default_float=-0.0,
):
    """Each element replaced by the value that belongs to it as a key."""
    keys = one_of(keys_tensor=keys_tensor, keys_strings=keys_strings, keys_int64s=keys_int64s, keys_floats=keys_floats)
    values = one_of(
        values_tensor=values_tensor, values_strings=values_strings, values_int64s=values_int64s, values_floats=values_floats
    )
    dtype = values.dtype if values_tensor is not None else object if values_strings else np.int64 if values_int64s else np.float32
    default = {"string": default_string, "integer": default_int64}.get(kind_of(np.dtype(dtype)), default_float)
    if default_tensor is not None:
        default = np.asarray(default_tensor).reshape(-1)[0]
    if keys_floats is not None:  # attributes are single precision, and so is the input they are compared with
        keys = np.array(keys, np.float32)
    return mapped(x, _plain(keys), _plain(values), default, dtype)


def _plain(values: Any) -> list[Any]:
    return values.reshape(-1).tolist() if isinstance(values, np.ndarray) else list(values)


@kernel("LabelEncoder", domain=ML, since=2)
def label_encoder_2(
    x,
    *,
    keys_strings=None,
    keys_int64s=None,
    keys_floats=None,
    values_strings=None,
    values_int64s=None,
    values_floats=None,
    default_string="_Unused",
    default_int64=-1,
    default_float=-0.0,
):
    """Without tensors as attributes."""
    return label_encoder(
        x,
        keys_strings=keys_strings,
        keys_int64s=keys_int64s,
        keys_floats=keys_floats,
        values_strings=values_strings,
        values_int64s=values_int64s,
        values_floats=values_floats,
        default_string=default_string,
        default_int64=default_int64,
        default_float=default_float,
    )


@kernel("LabelEncoder", domain=ML, since=1)
def label_encoder_1(x, *, classes_strings=(), default_int64=-1, default_string="_Unused"):
    """Strings to their places in a list, or places to strings."""
    places = range(len(classes_strings))
    return category_mapper(
        x, cats_int64s=places, cats_strings=classes_strings, default_int64=default_int64, default_string=default_string
    )


@kernel("OneHotEncoder", domain=ML)
def one_hot_encoder(x, *, cats_int64s=None, cats_strings=None, zeros=1):
    """A further axis with a one at the element's category."""
    categories = one_of(cats_int64s=cats_int64s, cats_strings=cats_strings)
    if kind_of(x.dtype) != "string":
        x = x.astype(np.int64)
    places = mapped(x, categories, range(len(categories)), -1, np.int64)
    if not zeros and (places < 0).any():
        raise ValueError(f"{x[places < 0].reshape(-1)[0]!r} is none of the categories, and zeros is 0")
    return (places[..., None] == np.arange(len(categories))).astype(np.float32)


# Numbers


@kernel("Binarizer", domain=ML)
def binarizer(x, *, threshold=0.0):
    """1 above the threshold, 0 elsewhere."""
    return (x > threshold).astype(x.dtype)


@kernel("Imputer", domain=ML)
def imputer(x, *, imputed_value_floats=None, imputed_value_int64s=None, replaced_value_float=0.0, replaced_value_int64=0):
    """One value, which may be nan, replaced by another: the same everywhere, or one for each feature."""
    value = one_of(imputed_value_floats=imputed_value_floats, imputed_value_int64s=imputed_value_int64s)
    replaced = replaced_value_int64 if kind_of(x.dtype) == "integer" else replaced_value_float
    missing = np.isnan(x) if replaced != replaced else x == x.dtype.type(replaced)
    return np.where(missing, np.array(value, x.dtype), x)


@kernel("Scaler", domain=ML)
def scaler(x, *, offset=(0.0,), scale=(1.0,)):
    """(x - offset) * scale."""
    return ((x - np.array(offset, np.float32)) * np.array(scale, np.float32)).astype(np.float32)


@kernel("Normalizer", domain=ML)
def normalizer(x, *, norm="MAX"):
    """Each row divided by its largest element, its sum of magnitudes or its root of squares; not by zero."""
    x = x.astype(np.float32)
    if norm == "MAX":
        divisor = x.max(-1, keepdims=True)
    elif norm == "L1":
        divisor = np.abs(x).sum(-1, keepdims=True)
    elif norm == "L2":
        divisor = np.sqrt(np.square(x).sum(-1, keepdims=True))
    else:
        raise ValueError(f"norm must be MAX, L1 or L2; got {norm!r}")
    return x / np.where(divisor == 0, np.float32(1), divisor)


@kernel("FeatureVectorizer", domain=ML)
def feature_vectorizer(*features, inputdimensions=None):
    """Rows of several inputs joined; each is cut or filled with zeros to the width said."""
    rows = [(f if f.ndim > 1 else f[None]).astype(np.float32) for f in features]
    widths = inputdimensions or [r.shape[1] for r in rows]
    fitted = [np.pad(r[:, :w], [(0, 0), (0, max(w - r.shape[1], 0))]) for r, w in zip(rows, widths, strict=True)]
    return np.concatenate(fitted, axis=1)


@kernel("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(x, y):
    """Elements of the last axis by their places."""
    taken = x.take(y.reshape(-1), -1)
    return taken if x.ndim > 1 else taken[None]


# Linear models


def softmax_zero(x: np.ndarray) -> np.ndarray:
    """Softmax in which a zero stays a zero."""
    largest = x.max(-1, keepdims=True)
    powers = np.where(np.abs(x) > 1e-7, np.exp(x - largest), x * np.exp(-largest))
    return powers / powers.sum(-1, keepdims=True)


def softmax(x: np.ndarray) -> np.ndarray:
    """exp(x) divided by its sum along the last axis."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def probit(x: np.ndarray) -> np.ndarray:
    """Where the normal distribution reaches the probability x; nan if x is none.

    Winitzki's approximation with 0.147, off by up to 0.2 %: what onnx.reference and onnxruntime compute.
    """
    log = np.log(4 * x * (1 - x))
    half = 2 / (np.pi * 0.147) + 0.5 * log
    return np.copysign(np.sqrt(2 * (np.sqrt(half * half - log / 0.147) - half)), x - 0.5)


POST_TRANSFORMS = {
    "NONE": lambda x: x,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "SOFTMAX": softmax,
    "SOFTMAX_ZERO": softmax_zero,
    "PROBIT": probit,
}


def known_transform(post_transform: str) -> None:
    """Refuse a transformation that ai.onnx.ml does not have."""
    if post_transform not in POST_TRANSFORMS:
        raise ValueError(f"post_transform must be one of {', '.join(POST_TRANSFORMS)}; got {post_transform!r}")


def transformed(scores: np.ndarray, post_transform: str, dtype: Any = np.float32) -> np.ndarray:
    """Scores after one of the transformations of ai.onnx.ml, in single precision as a rule."""
    known_transform(post_transform)
    return POST_TRANSFORMS[post_transform](scores).astype(dtype, copy=False)


def linear_scores(x: np.ndarray, coefficients: Sequence[float], intercepts: Sequence[float] | None, rows: int) -> np.ndarray:
    """x times each row of coefficients, plus its intercept."""
    x = (x if x.ndim > 1 else x[None]).astype(np.float32)
    scores = x @ np.array(coefficients, np.float32).reshape(rows, -1).T
    return scores + np.array(intercepts, np.float32) if intercepts else scores


@kernel("LinearRegressor", domain=ML)
def linear_regressor(x, *, coefficients=(), intercepts=None, targets=1, post_transform="NONE"):
    """A linear function for each target."""
    return transformed(linear_scores(x, coefficients, intercepts, targets), post_transform)


@kernel("LinearClassifier", domain=ML)
def linear_classifier(
    x,
    *,
    coefficients,
    intercepts=None,
    classlabels_ints=None,
    classlabels_strings=None,
    multi_class=0,
    post_transform="NONE",
):
    """The class with the best score, and all scores; one function for two classes scores the second."""
    labels = labels_of(classlabels_ints=classlabels_ints, classlabels_strings=classlabels_strings)
    n_features = x.shape[-1]
    scores = linear_scores(x, coefficients, intercepts, len(coefficients) // n_features)
    if scores.shape[1] == 1 and len(labels) == 2:
        scores = np.concatenate([-scores, scores], axis=1)
    return labels.take(scores.argmax(1)), transformed(scores, post_transform)


# Maps


@kernel("ZipMap", domain=ML)
def zip_map(x, *, classlabels_int64s=None, classlabels_strings=None):
    """For each row a map from the keys to its elements."""
    keys = one_of(classlabels_int64s=classlabels_int64s, classlabels_strings=classlabels_strings)
    rows = x if x.ndim > 1 else x[None]
    return [dict(zip(keys, row, strict=True)) for row in rows.tolist()]


@kernel("CastMap", domain=ML)
def cast_map(x, *, cast_to="TO_FLOAT", map_form="DENSE", max_map=1):
    """The values of a map in the order of their keys, or each at the place that its key says."""
    types = {"TO_FLOAT": (np.float32, float), "TO_INT64": (np.int64, int), "TO_STRING": (object, str)}
    if cast_to not in types or map_form not in ("DENSE", "SPARSE"):
        raise ValueError(f"cast_to must be one of {', '.join(types)} and map_form DENSE or SPARSE; got {cast_to}, {map_form}")
    dtype, convert = types[cast_to]
    keys = sorted(x) if map_form == "DENSE" else range(max_map)
    if map_form == "SPARSE" and (unknown := [key for key in x if not 0 <= key < max_map]):
        raise ValueError(f"the keys of a sparse map must be in [0, {max_map}); got {unknown[0]}")
    empty = "" if dtype is object else 0
    return filled((1, len(keys)), [convert(x[key]) if key in x else empty for key in keys], dtype)


@kernel("DictVectorizer", domain=ML)
def dict_vectorizer(x, *, int64_vocabulary=None, string_vocabulary=None):
    """The values of a map in the order of the vocabulary, zero where there is none."""
    vocabulary = one_of(int64_vocabulary=int64_vocabulary, string_vocabulary=string_vocabulary)
    if unknown := set(x) - set(vocabulary):
        raise ValueError(f"the vocabulary lacks {', '.join(sorted(map(repr, unknown)))}")
    dtype = _value_type(list(x.values()))
    return filled((len(vocabulary),), [x.get(key, "" if dtype.kind == "O" else 0) for key in vocabulary], dtype)


def _value_type(values: list[Any]) -> np.dtype:
    """The element type of a map's values; Python's floats are ``float``, as most maps say."""
    if any(isinstance(v, str) for v in values):
        return np.dtype(object)
    if all(isinstance(v, int) for v in values) and values:
        return np.dtype(np.int64)
    typed = [v.dtype for v in values if isinstance(v, np.generic)]
    return np.result_type(*typed) if typed else np.dtype(np.float32)
