"""Attention is what ONNX's text says, in all modes of its last output: next to the text written down for one query and key."""

import itertools

import numpy as np
import pytest
from node_cases import assert_same

from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import lookup

load_kernels()

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in subtract:RuntimeWarning")  # masks of infinity


def score(q, k, scale, softcap):
    """The product of one query and one key, and the same after the soft cap."""
    raw = float(q.astype(np.float64) @ k.astype(np.float64)) * scale
    return raw, softcap * np.tanh(raw / softcap) if softcap else raw


def bias_of(mask, place, i, j, offset, total, attrs):
    """What is added to the score of query i and key j."""
    bias = 0.0
    if mask is not None:
        full = np.broadcast_to(mask, (*place[:2], *mask.shape[-2:])) if mask.ndim < 4 else mask
        row = np.broadcast_to(full, (*place[:2], full.shape[2], full.shape[3]))[place[2], place[3], i if full.shape[2] > 1 else 0]
        known = row[j] if j < len(row) else (False if mask.dtype == bool else -np.inf)
        bias += known if mask.dtype != bool else 0.0 if known else -np.inf
    ahead = j - (i + offset)
    left, right = attrs.get("left_window_size", -1), attrs.get("right_window_size", -1)
    if (attrs.get("is_causal") and ahead > 0) or (left >= 0 and -ahead > left) or (right >= 0 and ahead > right):
        bias = -np.inf
    return bias if j < total else -np.inf


def by_the_text(q, k, v, mask, lengths, past, attrs):
    """Y and the four forms of the scores, one number at a time."""
    batch, heads, rows, size = q.shape
    columns, share = k.shape[2], heads // k.shape[1]
    modes = np.zeros((4, batch, heads, rows, columns))
    y = np.zeros((batch, heads, rows, v.shape[3]))
    scale, softcap = attrs.get("scale", 1 / np.sqrt(size)), attrs.get("softcap", 0.0)
    for b, h, i in itertools.product(range(batch), range(heads), range(rows)):
        offset, total = (past, columns) if lengths is None else (lengths[b] - rows, lengths[b])
        scores = [score(q[b, h, i], k[b, h // share, j], scale, softcap) for j in range(columns)]
        bias = np.array([bias_of(mask, (batch, heads, b, h), i, j, offset, total, attrs) for j in range(columns)])
        modes[0, b, h, i], modes[1, b, h, i] = zip(*scores, strict=True)
        modes[2, b, h, i] = modes[1, b, h, i] + bias
        if not np.isneginf(bias).all():
            powers = np.exp(modes[2, b, h, i] - modes[2, b, h, i].max())
            modes[3, b, h, i] = powers / powers.sum()
        y[b, h, i] = modes[3, b, h, i] @ v[b, h // share]
    return y, modes


def random_case(rng):
    """Inputs of rank 4, with all that can be left out now there and now not."""
    batch, few, share, rows, columns, size = rng.integers(1, 4, 6)
    heads = few * share
    q, k, v = (rng.normal(size=s).astype(np.float32) for s in ((batch, heads, rows, size), *[(batch, few, columns, size)] * 2))
    past = int(rng.integers(0, 3))
    lengths = None if past or rng.random() < 0.5 else rng.integers(0, columns + 1, batch)
    total = columns + past
    shape = [(rows, total), (heads, rows, total), (batch, 1, rows, total), (1, 1, 1, total)][rng.integers(4)]
    masks = [None, rng.random(shape) < 0.6, np.where(rng.random(shape) < 0.3, -np.inf, rng.normal(size=shape)).astype(np.float32)]
    attrs = {"softcap": [0.0, 0.7][rng.integers(2)], "is_causal": int(rng.integers(2))}
    attrs |= {f"{side}_window_size": int(rng.integers(-1, 3)) for side in ("left", "right")}
    attrs |= [{}, {"scale": 0.3}][rng.integers(2)]
    caches = [rng.normal(size=(batch, few, past, size)).astype(np.float32) for _ in range(2)] if past else [None, None]
    return q, k, v, masks[rng.integers(3)], *caches, lengths, attrs


@pytest.mark.parametrize("seed", range(60))
def test_all_modes(seed):
    q, k, v, mask, past_key, past_value, lengths, attrs = random_case(np.random.default_rng(seed))
    keys, values = (k, v) if past_key is None else (np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2))
    past = keys.shape[2] - k.shape[2]
    y, modes = by_the_text(q, keys, values, mask, lengths, past, attrs)
    for mode in range(4):
        given = (q, k, v, mask, past_key, past_value, lengths)
        found = lookup("Attention", 25).run(*given, **attrs, qk_matmul_output_mode=mode, n_outputs=4)
        for actual, wanted in zip(found, (y, keys, values, modes[mode]), strict=True):
            assert_same(actual, wanted.astype(np.float32), 1e-4, 1e-5)


@pytest.mark.parametrize("opset", [23, 24, 25])
def test_heads_side_by_side(opset):
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(2, 4, 3, 5)), rng.normal(size=(2, 2, 6, 5)), rng.normal(size=(2, 2, 6, 7))
    run = lookup("Attention", opset).run
    y, key, value, scores = run(q, k, v, n_outputs=4)
    flat = [x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1) for x in (q, k, v, y)]
    found = run(*flat[:3], q_num_heads=4, kv_num_heads=2, n_outputs=4)
    for actual, wanted in zip(found, (flat[3], key, value, scores), strict=True):
        assert_same(actual, wanted, 1e-12, 1e-12)


def test_heads_that_do_not_fit_are_refused():
    q, k = np.ones((1, 3, 2, 4), np.float32), np.ones((1, 2, 2, 4), np.float32)
    run = lookup("Attention", 25).run
    with pytest.raises(ValueError, match="3 heads of queries cannot be divided among 2"):
        run(q, k, k)
    with pytest.raises(ValueError, match="q_num_heads or kv_num_heads"):
        run(q[0], k[0], k[0])
    with pytest.raises(ValueError, match="given together"):
        run(k, k, k, None, k)
    with pytest.raises(ValueError, match="a cache outside"):
        run(k, k, k, None, k, k, np.array([1]))
