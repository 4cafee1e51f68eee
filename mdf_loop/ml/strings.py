"""Texts: StringConcat, StringSplit, StringNormalizer, RegexFullMatch and TfIdfVectorizer."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import UnsupportedOp
from mdf_loop.kernels.arrays.axes import as_tensor
from mdf_loop.kernels.arrays.bounds import shape_for
from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import kernel
from mdf_loop.settings.engines import needed


@kernel("StringConcat", since=20, batch=elementwise)
def string_concat(X, Y):
    """Each text of X followed by the text of Y, broadcast."""
    if X.ndim == Y.ndim == 0:  # as it is in loops: a third of the time
        return np.array(X[()] + Y[()], object)
    return as_tensor(np.add(X, Y))


@kernel("StringSplit", since=20)
def string_split(X, *, delimiter="", maxsplit=-1):
    """The pieces of each text, filled up with empty texts along a new last axis, and how many there are."""
    # White space at the ends is removed even where maxsplit leaves the end of a text in one piece.
    pieces = [text.split(delimiter, maxsplit) if delimiter else text.strip().split(None, maxsplit) for text in X.ravel()]
    counts = np.array([len(row) for row in pieces], np.int64)
    out = np.full((len(pieces), max(counts, default=0)), "", object)
    for row, found in zip(out, pieces, strict=True):
        row[: len(found)] = found
    return out.reshape(*X.shape, -1) if X.size else out.reshape(*X.shape, 0), counts.reshape(X.shape)


@kernel("StringNormalizer", since=10)
def string_normalizer(X, *, case_change_action="NONE", is_case_sensitive=0, locale="en_US", stopwords=()):
    """The texts without stop words, in lower or upper case; one empty text where none is left."""
    if X.ndim not in (1, 2) or (X.ndim == 2 and X.shape[0] != 1):
        raise ValueError(f"the texts must have shape [C] or [1, C]; got {list(X.shape)}")
    change = _case_changes(locale).get(case_change_action)
    if change is None:
        raise ValueError(f"case_change_action must be LOWER, UPPER or NONE; got {case_change_action!r}")
    compared = str if is_case_sensitive else str.lower
    unwanted = {compared(word) for word in stopwords}
    kept = [change(text) for text in X.ravel() if compared(text) not in unwanted] or [""]
    return np.array(kept, object).reshape((*X.shape[:-1], -1))


def _case_changes(locale: str) -> dict[str, Any]:
    """How to change case; a locale matters in the few languages that have rules of their own."""
    changes = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}
    if re.split("[_.@-]", locale)[0].lower() not in ("tr", "az", "lt"):
        return changes

    def unknown(_: str) -> str:
        raise NotImplementedError(f"upper and lower case by the rules of locale {locale!r} are not known here")

    return {"LOWER": unknown, "UPPER": unknown, "NONE": str}


@functools.lru_cache(maxsize=16)
def compiled(pattern: str) -> Any:
    """A regular expression, which RE2 matches in time that grows with pattern and text and never faster.

    Raises
    ------
    ValueError
        It is not one in RE2's syntax.
    UnsupportedOp
        google-re2 is not installed; says how to install it.
    """
    re2 = needed("re2", "regular expressions need google-re2", "text", UnsupportedOp)
    if not _is_text(pattern):
        raise ValueError(f"{pattern!r} is not a regular expression in RE2's syntax: it is not UTF-8 text")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression in RE2's syntax: {_said(error)}") from error


def _said(error: Exception) -> str:
    """The words of RE2, which are bytes."""
    (words,) = error.args[:1] or ("",)
    return words.decode("utf-8", "replace") if isinstance(words, bytes) else str(error)


def _is_text(text: Any) -> bool:
    """Whether it is text that UTF-8 can write."""
    try:
        return isinstance(text, str) and text.encode() is not None
    except UnicodeEncodeError:
        return False


@kernel("RegexFullMatch", since=20, batch=elementwise)
def regex_full_match(X, *, pattern):
    """Whether a pattern, in RE2's syntax, matches the whole of each text; what is no UTF-8 text never matches."""
    expression = compiled(pattern)
    return np.array([_is_text(text) and expression.fullmatch(text) is not None for text in X.ravel()], bool).reshape(X.shape)


@kernel("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(
    X,
    *,
    max_gram_length,
    max_skip_count,
    min_gram_length,
    mode,
    ngram_counts,
    ngram_indexes,
    pool_int64s=None,
    pool_strings=None,
    weights=None,
):
    """How often each n-gram of a pool is in each row, with up to so many elements skipped between its own."""
    if X.ndim not in (1, 2):
        raise ValueError(f"the input must have shape [C] or [N, C]; got {list(X.shape)}")
    if (pool_int64s is None) == (pool_strings is None):
        raise ValueError("exactly one of pool_int64s and pool_strings is needed")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ValueError(f"mode must be TF, IDF or TFIDF; got {mode!r}")
    pool = _pool(tuple(ngram_counts), tuple(pool_strings if pool_int64s is None else pool_int64s))
    if len(ngram_indexes) != sum(map(len, pool.values())):
        raise ValueError(f"the pool has {sum(map(len, pool.values()))} n-grams, ngram_indexes has {len(ngram_indexes)} entries")
    rows = X.reshape(-1, X.shape[-1]).tolist()
    lengths = range(min_gram_length, max_gram_length + 1)
    counts = np.zeros((len(rows), len(ngram_indexes)), np.float32)
    for row, found in zip(rows, counts, strict=True):
        _count(row, {n: pool.get(n, {}) for n in lengths}, max_skip_count, found)
    if mode == "IDF":
        np.minimum(counts, 1, out=counts)
    if mode != "TF" and weights is not None:
        counts *= np.array(weights, np.float32)
    out = np.zeros(shape_for((len(rows), max(ngram_indexes) + 1), 4), np.float32)
    np.add.at(out, (slice(None), np.array(ngram_indexes)), counts)
    return out.reshape((*X.shape[:-1], -1))


def _count(row: list[Any], pool: Mapping[int, Mapping[tuple[Any, ...], int]], max_skip_count: int, found: np.ndarray) -> None:
    """Add to ``found`` how often the n-grams of the pool are in a row."""
    for length, grams in pool.items():
        # A single element has nothing to skip: it counts once.
        for step in range(1, 2 if length == 1 else max_skip_count + 2):
            for start in range(len(row) - step * (length - 1)):
                place = grams.get(tuple(row[start : start + step * length : step]))
                if place is not None:
                    found[place] += 1


@functools.lru_cache(maxsize=64)
def _pool(starts: tuple[int, ...], elements: tuple[Any, ...]) -> dict[int, dict[tuple[Any, ...], int]]:
    """For each length the n-grams of a pool and their numbers; 1-grams come first, then 2-grams, and so on."""
    pool: dict[int, dict[tuple[Any, ...], int]] = {}
    number = 0
    for length, (start, end) in enumerate(zip(starts, [*starts[1:], len(elements)], strict=True), 1):
        if start > end or (end - start) % length:
            raise ValueError(f"the {length}-grams cannot be elements {start} to {end} of the pool")
        pool[length] = {elements[k : k + length]: number + (k - start) // length for k in range(start, end, length)}
        number += (end - start) // length
    return pool
