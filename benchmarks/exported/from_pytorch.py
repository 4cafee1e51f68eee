"""Loops written in PyTorch: ``while_loop`` and ``scan`` exported by ``dynamo=True``, script functions by the older exporter.

python benchmarks/exported/from_pytorch.py             all of them, into this folder
python benchmarks/exported/from_pytorch.py beam lstm   those whose name contains one of these

A loop is a function of tensors, kept with its inputs by a decorator that says how it is exported.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

sys.path.insert(0, str(Path(__file__).parent))

import pytorch_scripts as scripts
from saving import save

torch.manual_seed(11)
Tensor = torch.Tensor


class Exported(NamedTuple):
    """One loop: the function, its inputs, and which exporter takes it."""

    function: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    dynamo: bool


LOOPS: dict[str, Exported] = {}


def dynamo(*inputs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep a function that ``torch.export`` takes, and its inputs."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        LOOPS[f"torch_{function.__name__}"] = Exported(function, tuple(map(torch.as_tensor, inputs)), True)
        return function

    return keep


class Module(torch.nn.Module):
    """What the exporters take: a module that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        """Call it."""
        return self.function(*inputs)


zero = torch.tensor(0)


def normal(*shape: int, scale: float = 1.0) -> Tensor:
    """Normally distributed numbers."""
    return torch.randn(shape) * scale


# Recurrent networks

GRU = {
    size: (normal(3 * size, 12, scale=0.3), normal(3 * size, size, scale=0.2), normal(3 * size, scale=0.1)) for size in (24, 32)
}


def gru(x: Tensor, size: int) -> Tensor:
    """A GRU by hand as a scan."""
    W, U, bias = GRU[size]

    def step(h, x):
        gi, gh = x @ W.T + bias, h @ U.T
        r = torch.sigmoid(gi[:, :size] + gh[:, :size])
        z = torch.sigmoid(gi[:, size : 2 * size] + gh[:, size : 2 * size])
        n = torch.tanh(gi[:, 2 * size :] + r * gh[:, 2 * size :])
        h = (1 - z) * n + z * h
        return h, h.clone()

    return scan(step, torch.zeros(x.shape[1], size), x)[1]


@dynamo(normal(40, 1, 12))
def gru_batch_1(x):
    """One sequence, 24 units."""
    return gru(x, 24)


@dynamo(normal(25, 8, 12))
def gru_batch_8(x):
    """Eight sequences, 32 units."""
    return gru(x, 32)


LSTM = normal(512, 16, scale=0.2), normal(512, 128, scale=0.1)


@dynamo(normal(30, 1, 16))
def lstm_128(x):
    """128 units, one sequence: products are most of the work."""
    W, U = LSTM

    def step(state, x):
        h, c = state
        i, f, g, o = (x @ W.T + h @ U.T).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return (h, c), h.clone()

    start = torch.zeros(1, 128), torch.zeros(1, 128)
    return scan(step, start, x)[1]


LEAK = normal(64, 64, scale=0.15)


@dynamo(normal(60, 64))
def reservoir(x):
    """An echo state network of 64 leaky units."""

    def step(h, x):
        h = 0.7 * h + 0.3 * torch.tanh(h @ LEAK + x)
        return h, h.clone()

    return scan(step, torch.zeros(64), x)


# Decoders

VOCABULARY, WIDTH = 40, 16
EMBED, OUT = normal(VOCABULARY, WIDTH), normal(WIDTH, VOCABULARY)
DECODE = normal(WIDTH, WIDTH, scale=0.4)


@dynamo(normal(1, WIDTH))
def greedy(h):
    """The likeliest token, until the one that ends or 30."""

    def goes_on(n, h, token, tokens):
        return (n < 30) & (token[0] != 3)

    def step(n, h, token, tokens):
        h = torch.tanh(h @ DECODE + EMBED[token])
        token = (h @ OUT).argmax(-1)
        return n + 1, h, token, torch.where(torch.arange(30) == n, token, tokens)

    n, h, _, tokens = while_loop(goes_on, step, (zero.clone(), h, torch.tensor([0]), torch.full((30,), -1)))
    return n, h, tokens


@dynamo(normal(1, WIDTH))
def beam(h):
    """Beam search: four hypotheses, TopK over all their continuations, twelve tokens."""

    def step(n, h, score, tokens):
        last = torch.where(
            n > 0, tokens.gather(1, torch.clamp(n - 1, min=0).expand(4, 1))[:, 0], torch.zeros(4, dtype=torch.int64)
        )
        h = torch.tanh(h @ DECODE + EMBED[last])
        total = score[:, None] + torch.log_softmax(h @ OUT, -1)
        score, index = total.reshape(-1).topk(4)
        origin, token = index // VOCABULARY, index % VOCABULARY
        tokens = torch.where(torch.arange(12)[None] == n, token[:, None], tokens[origin])
        return n + 1, h[origin], score, tokens

    start = torch.tensor([0.0, -1e9, -1e9, -1e9])
    state = (zero.clone(), h.expand(4, WIDTH).clone(), start, torch.zeros(4, 12, dtype=torch.int64))
    return while_loop(lambda n, *_: n < 12, step, state)[1:]


QKV, PROJECT = normal(WIDTH, 3 * WIDTH, scale=0.3), normal(WIDTH, WIDTH, scale=0.3)


@dynamo(normal(1, WIDTH))
def key_value_cache(x):
    """Two heads of attention over a cache of 24 places, written where the token is."""

    def step(n, x, keys, values):
        q, k, v = (x @ QKV).reshape(3, 2, WIDTH // 2)
        here = (torch.arange(24) == n)[None, :, None]
        keys, values = torch.where(here, k[:, None], keys), torch.where(here, v[:, None], values)
        score = (keys @ q[:, :, None])[:, :, 0] * 0.35
        score = torch.where(torch.arange(24)[None] <= n, score, torch.full((2, 24), -1e9))
        seen = (torch.softmax(score, -1)[:, None] @ values).reshape(1, WIDTH)
        return n + 1, torch.nn.functional.layer_norm(x + seen @ PROJECT, (WIDTH,)), keys, values

    cache = torch.zeros(2, 24, WIDTH // 2)
    return while_loop(lambda n, *_: n < 24, step, (zero.clone(), x, cache, cache.clone()))[1:]


@dynamo(normal(14, 32), normal(2, 32))
def attention_decoder(encoded, h):
    """A decoder that looks at an encoded sequence each time."""
    across = encoded.T.clone()

    def step(h, x):
        weight = torch.softmax(h @ across / 5.6, -1)
        h = torch.tanh(weight @ encoded + 0.5 * h + x)
        return h, weight.clone()

    return scan(step, h, torch.linspace(-1, 1, 15).reshape(15, 1, 1).expand(15, 2, 32).clone())


WIDE, NARROW = normal(WIDTH, 64, scale=0.25), normal(64, WIDTH, scale=0.25)


@dynamo(normal(10, WIDTH))
def universal_transformer(x):
    """One block of a transformer, eight times: LayerNorm, attention, GELU."""
    layer_norm = torch.nn.functional.layer_norm

    def step(n, x):
        q, k, v = (layer_norm(x, (WIDTH,)) @ QKV).chunk(3, -1)
        x = x + torch.softmax(q @ k.T / 4, -1) @ v @ PROJECT
        return n + 1, x + torch.nn.functional.gelu(layer_norm(x, (WIDTH,)) @ WIDE) @ NARROW

    return while_loop(lambda n, x: n < 8, step, (zero.clone(), x))[1]


KERNELS = normal(6, 2, 3, 3, scale=0.3), normal(2, 6, 3, 3, scale=0.3)


@dynamo(normal(1, 2, 10, 10))
def denoiser(x):
    """A sampler whose network is two convolutions and a group norm."""
    up, down = KERNELS

    def step(n, x):
        y = torch.nn.functional.conv2d(x, up, padding=1)
        y = torch.nn.functional.silu(torch.nn.functional.group_norm(y, 2))
        noise = torch.nn.functional.conv2d(y, down, padding=1)
        return n + 1, 0.95 * x - 0.1 * noise

    return while_loop(lambda n, x: n < 20, step, (zero.clone(), x))[1]


# Mathematics


@dynamo(normal(20, 5), normal(20))
def least_squares_adam(X, y):
    """Adam, gradients by hand, until it stands still."""
    across = X.T.clone()

    def step(n, w, m, v):
        g = across @ (X @ w - y) / 20
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        t = n.to(torch.float32) + 1
        w = w - 0.05 * (m / (1 - torch.pow(0.9, t))) / (torch.sqrt(v / (1 - torch.pow(0.999, t))) + 1e-8)
        return n + 1, w, m, v

    def goes_on(n, w, m, v):
        return (n < 200) & ((m.abs().max() > 1e-3) | (n < 5))

    flat = torch.zeros(5)
    return while_loop(goes_on, step, (zero.clone(), flat, flat.clone(), flat.clone()))[:2]


PATTERNS = torch.sign(normal(3, 48))


@dynamo(torch.sign(PATTERNS[0] + 1.2 * normal(48)))
def hopfield(x):
    """A memory of three patterns settles."""
    W = PATTERNS.T @ PATTERNS / 48 - torch.eye(48) * 3 / 48

    def step(n, x, moved):
        new = torch.where(x @ W >= 0, torch.ones(48), -torch.ones(48))
        return n + 1, new, (new != x).sum()

    return while_loop(lambda n, x, moved: (moved > 0) & (n < 20), step, (zero.clone(), x, torch.tensor(1)))


@dynamo(torch.rand(6, 4).double())
def nested_relaxation(x):
    """A loop in a loop, float64: inside until it stands still."""

    def inner(x, n):
        new = 0.5 * (x + torch.cos(x))
        return new, n + 1

    def step(k, x, total):
        y, n = while_loop(lambda x, n: ((torch.cos(x) - x).abs().max() > 1e-6) & (n < 60), inner, (x * 1.5, zero.clone()))
        return k + 1, y + 0.1, total + n

    return while_loop(lambda k, x, total: k < 6, step, (zero.clone(), x, zero.clone()))[1:]


@dynamo(normal(150, 10), torch.tensor(0.1))
def spiking_layer(current, leak):
    """Ten cells that leak, integrate, fire and reset; their spikes are kept."""

    def step(v, I):
        v = v + leak * (I * 3 + 1 - v)
        spike = (v > 1).to(torch.float32)
        return v * (1 - spike), spike

    return scan(step, torch.zeros(10), current)


SOURCES, SINKS = torch.randint(0, 12, (30,)), torch.randint(0, 12, (30,))


@dynamo(normal(12, 8))
def message_passing(h):
    """A graph of 12 nodes and 30 edges: messages are gathered and added up where they go."""

    def step(n, h):
        sent = torch.zeros(12, 8).index_add(0, SINKS, torch.relu(h[SOURCES]))
        return n + 1, torch.tanh(0.5 * h + 0.2 * sent)

    return while_loop(lambda n, h: n < 10, step, (zero.clone(), h))[1]


with torch.random.fork_rng():  # what is drawn for other loops stays what it was
    torch.manual_seed(17)
    BEHIND = torch.nn.GRU(6, 5)
    LOUDNESS = normal(14, 2, 6)
    QUERIES, KEYS, VALUES = normal(10, 8), normal(5, 4, 8), normal(5, 4, 8)


@dynamo(LOUDNESS)
def gru_behind_scan(x):
    """Envelopes that rise at once and fall slowly, read by a GRU."""

    def step(envelope, x):
        envelope = torch.where(x.abs() > envelope, x.abs(), 0.9 * envelope)
        return envelope, envelope.clone()

    return BEHIND(scan(step, torch.zeros(2, 6), x)[1])[0]


@dynamo(QUERIES, KEYS, VALUES)
def online_softmax(q, keys, values):
    """Attention over keys in parts, with the greatest score so far."""

    def step(state, part):
        top, total, out = state
        k, v = part
        scores = q @ k.T / 3
        new = torch.maximum(top, scores.amax(1, keepdim=True))
        chance, scale = torch.exp(scores - new), torch.exp(top - new)
        return (new, total * scale + chance.sum(1, keepdim=True), out * scale + chance @ v), new.clone()

    start = torch.full((10, 1), -1e9), torch.zeros(10, 1), torch.zeros(10, 8)
    (_, total, out), _ = scan(step, start, (keys, values))
    return out / total


def export(loop: Exported) -> onnx.ModelProto:
    """The model of one loop; the exporter gets copies, for what writes into its inputs."""
    given = tuple(x.clone() for x in loop.inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if loop.dynamo:
            return torch.onnx.export(Module(loop.function), given, dynamo=True, verbose=False).model_proto
        written = io.BytesIO()
        module = torch.jit.script(loop.function) if isinstance(loop.function, torch.nn.Module) else loop.function
        torch.onnx.export(module, given, written, dynamo=False, opset_version=18)
        return onnx.load_from_string(written.getvalue())


def main(names: list[str]) -> None:
    """Export all loops, or those that are named."""
    for name, function, inputs in scripts.every():
        LOOPS[f"script_{name}"] = Exported(function, inputs, False)
    for name, loop in LOOPS.items():
        if names and not any(part in name for part in names):
            continue
        given = tuple(x.clone() for x in loop.inputs)
        with torch.no_grad():
            found = loop.function(*given)
        results = torch.utils._pytree.tree_leaves(found)
        save(name, export(loop), [x.numpy() for x in loop.inputs], [x.numpy() for x in results])


if __name__ == "__main__":
    main(sys.argv[1:])
