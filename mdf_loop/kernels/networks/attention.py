"""Scaled dot product attention: softmax(Q K' + bias) V, for each head.

It follows the ONNX standard: each step is rounded to the type of the inputs.  Sums are taken in float32 at least.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.networks.softmax import softmax
from mdf_loop.kernels.numbers.wide import widened
from mdf_loop.ops.registry import kernel
from mdf_loop.types.elements import DTYPES


@kernel("Attention", since=23)
def attention_23(
    q,
    k,
    v,
    attn_mask=None,
    past_key=None,
    past_value=None,
    *,
    is_causal=0,
    kv_num_heads=0,
    q_num_heads=0,
    qk_matmul_output_mode=0,
    scale=None,
    softcap=0.0,
    softmax_precision=0,
    n_outputs=1,
):
    """Without lengths of what is in the cache, and without windows; a mask of one column is that of every key."""
    _check_mask(attn_mask)
    if attn_mask is not None and attn_mask.shape[-1] == 1:
        total = k.shape[-2] + (0 if past_key is None else past_key.shape[-2])
        attn_mask = np.broadcast_to(attn_mask, (*attn_mask.shape[:-1], total))
    return attention(
        q,
        k,
        v,
        attn_mask,
        past_key,
        past_value,
        is_causal=is_causal,
        kv_num_heads=kv_num_heads,
        q_num_heads=q_num_heads,
        qk_matmul_output_mode=qk_matmul_output_mode,
        scale=scale,
        softcap=softcap,
        softmax_precision=softmax_precision,
        n_outputs=n_outputs,
    )


@kernel("Attention", since=24)
def attention(
    q,
    k,
    v,
    attn_mask=None,
    past_key=None,
    past_value=None,
    nonpad_kv_seqlen=None,
    *,
    is_causal=0,
    kv_num_heads=0,
    left_window_size=-1,
    q_num_heads=0,
    qk_matmul_output_mode=0,
    right_window_size=-1,
    scale=None,
    softcap=0.0,
    softmax_precision=0,
    n_outputs=1,
):
    """The values, weighted by how well their keys fit each query; the keys and values used; and the scores.

    Which scores the fourth output has, the mode says: 0 the products, 1 after the soft cap, 2 after the bias, 3 after softmax.
    """
    _check_mask(attn_mask)
    _check_caches(past_key, past_value, nonpad_kv_seqlen)
    is_flat = q.ndim == 3
    q, k, v = (_by_head(x, heads) for x, heads in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads)))
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        k, v = np.concatenate((past_key, k), 2), np.concatenate((past_value, v), 2)
    products = _products(q, k, scale)
    capped = _capped(products, softcap)
    offset = past if nonpad_kv_seqlen is None else nonpad_kv_seqlen.reshape(-1, 1, 1, 1) - q.shape[2]
    seen = _seen(capped.shape, offset, is_causal, left_window_size, right_window_size, nonpad_kv_seqlen)
    bias = _bias(attn_mask, seen, capped)
    biased = capped if bias is None else capped + bias
    weights = _softmax(biased, bias, DTYPES[softmax_precision] if softmax_precision else q.dtype).astype(q.dtype, copy=False)
    y = _grouped(weights, v)
    if is_flat:
        y = y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1)
    scores = (products, capped, biased, weights)[qk_matmul_output_mode]
    return (y, k, v, scores.astype(q.dtype, copy=False))[:n_outputs]


def _check_mask(mask: np.ndarray | None) -> None:
    if mask is not None and not mask.ndim:
        raise ValueError("the mask must have a column for each key; got a single number")


def _check_caches(past_key: Any, past_value: Any, nonpad_kv_seqlen: Any) -> None:
    if (past_key is None) != (past_value is None):
        raise ValueError("past_key and past_value must be given together")
    if past_key is not None and nonpad_kv_seqlen is not None:
        raise ValueError("nonpad_kv_seqlen is for a cache outside: it cannot be given together with past_key and past_value")


def _by_head(x: np.ndarray, heads: int) -> np.ndarray:
    """Shape (batch, heads, length, size), of an input that may have the heads side by side in its last axis."""
    if x.ndim == 4:
        return x
    if x.ndim != 3 or heads < 1 or x.shape[2] % heads:
        raise ValueError(
            f"an input of shape {list(x.shape)} must have rank 4, or rank 3 and a last axis that q_num_heads or kv_num_heads "
            f"divides; got {heads} heads"
        )
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)


def _products(q: np.ndarray, k: np.ndarray, scale: float | None) -> np.ndarray:
    """Q K', scaled before the product so that it cannot overflow."""
    if q.shape[1] % max(k.shape[1], 1):
        raise ValueError(f"{q.shape[1]} heads of queries cannot be divided among {k.shape[1]} of keys")
    root = q.dtype.type(np.sqrt(1 / np.sqrt(q.shape[3]) if scale is None else scale))
    return _grouped(q * root, (k * root).mT)


def _grouped(rows: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Products of each head; where there are fewer matrices, heads that stand side by side share one."""
    batch, heads, length, size = rows.shape
    few = matrices.shape[1]
    products = widened(rows).reshape(batch, few, heads // max(few, 1) * length, size) @ widened(matrices)
    return products.reshape(batch, heads, length, matrices.shape[3]).astype(rows.dtype, copy=False)


def _capped(products: np.ndarray, softcap: float) -> np.ndarray:
    if not softcap > 0:
        return products
    cap = products.dtype.type(softcap)
    return np.tanh(products / cap) * cap


def _seen(shape: tuple[int, ...], offset: Any, is_causal: int, left: int, right: int, lengths: np.ndarray | None) -> Any:
    """Which keys each query may see, by where both are; None if all."""
    ahead = np.arange(shape[3]) - (np.arange(shape[2])[:, None] + offset)  # how far a key lies before the query
    conditions = []
    if is_causal:
        conditions.append(ahead <= 0)
    if left >= 0:
        conditions.append(ahead >= -left)
    if right >= 0:
        conditions.append(ahead <= right)
    if lengths is not None:
        conditions.append(np.arange(shape[3]) < lengths.reshape(-1, 1, 1, 1))
    if not conditions:
        return None
    return np.logical_and.reduce(np.broadcast_arrays(*conditions)) if len(conditions) > 1 else conditions[0]


def _bias(mask: np.ndarray | None, seen: np.ndarray | None, scores: np.ndarray) -> np.ndarray | None:
    """What is added to the scores: minus infinity where a key is not seen. None if nothing."""
    bias = None if mask is None else _as_bias(_lengthened(mask, scores.shape[3]), scores.dtype)
    if seen is None:
        return bias
    hidden = _as_bias(seen, scores.dtype)
    return hidden if bias is None else bias + hidden


def _as_bias(mask: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return np.where(mask, dtype.type(0), dtype.type(-np.inf)) if mask.dtype == np.bool_ else mask.astype(dtype, copy=False)


def _lengthened(mask: np.ndarray, length: int) -> np.ndarray:
    """A mask for fewer keys than there are: the others are not seen."""
    if mask.shape[-1] >= length:
        return mask
    full = np.full_like(mask, False if mask.dtype == np.bool_ else -np.inf, order="C", shape=(*mask.shape[:-1], length))
    full[..., : mask.shape[-1]] = mask
    return full


def _softmax(scores: np.ndarray, bias: np.ndarray | None, precision: np.dtype) -> np.ndarray:
    """Softmax in a precision; zeros where the bias hides all keys."""
    weights = softmax(scores.astype(precision, copy=False))
    if bias is not None:
        hidden = np.isneginf(np.maximum.reduce(bias, -1, None, None, True, -np.inf))
        if not isinstance(hidden, np.ndarray) or hidden.any():  # arrays of other libraries may not be looked at
            np.copyto(weights, weights.dtype.type(0), where=hidden)
    return weights
