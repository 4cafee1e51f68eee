"""RNN, GRU and LSTM as loops over time, for programs that hold loops; of each what exporters write.

What all time steps get of the input is one product in front of the loop, as in the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mdf_loop.kernels.definitions.of_shapes import rank_of
from mdf_loop.ops.registry import definition

Cell = Callable[..., Sequence[Any]]
"""``cell(b, gates, *states) -> states``: one step; the first state is the output."""

DEFAULTS = {"activations": None, "activation_alpha": None, "activation_beta": None, "clip": None, "layout": 0}
"""Attributes that have to be what they are when a model does not say them."""


def _part(b: Any, x: Any, start: int, stop: int) -> Any:
    """Columns of a matrix, or numbers of a vector."""
    return b.slice(x, [slice(None)] * (rank_of(x) - 1) + [slice(start, stop)])


def _sigmoid(b: Any, x: Any) -> Any:
    return b.div(b.number(1, x), b.add(b.exp(b.neg(x)), 1))


def _direction(b: Any, x: Any, k: int) -> Any:
    """What belongs to one direction."""
    shape = x.type.shape
    return b.reshape(b.slice(x, [slice(k, k + 1)] + [slice(None)] * (len(shape) - 1)), shape[1:])


def _product(b: Any, x: Any, y: Any) -> Any:
    return b.put_in("dot", (x, y), x.type.__class__(x.type.dtype, (x.type.shape[0], y.type.shape[1])))


def _over_time(b: Any, x: Any, w: Any, bias: Any, cell: Cell, states: Sequence[Any], backwards: bool) -> Sequence[Any]:
    """One direction: the last states, then all outputs."""
    steps, batch, inputs = x.type.shape
    gates = _product(b, b.reshape(x, (steps * batch, inputs)), b.transpose(w, (1, 0)))
    gates = b.reshape(gates if bias is None else b.add(gates, bias), (steps, batch, w.type.shape[0]))
    turn = [slice(None, None, -1), slice(None), slice(None)]
    *last, outputs = b.scan(b.slice(gates, turn) if backwards else gates, states, lambda row, *now: cell(b, row, *now))
    return [*last, b.slice(outputs, turn) if backwards else outputs]


def _run(b: Any, x: Any, weights: Sequence[Any], states: Sequence[Any], attrs: dict[str, Any], make: Callable[..., Any]) -> Any:
    """All directions; ``make(b, r, bias)`` gives the bias that goes in front of the loop, and the cell."""
    direction, given = attrs.pop("direction", "forward"), [v for v in (x, *weights, *states) if v is not None]
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction, [])
    hidden = weights[1].type.shape[-1] if weights[1].type.is_static else None
    named, _ = attrs.pop("hidden_size", None), attrs.pop("output_sequence", 0)
    if not b.guesses or any(attrs.get(name, value) != value for name, value in DEFAULTS.items()) or named not in (None, hidden):
        raise ValueError("a program without loops, or a cell that few write")
    if any(not v.type.is_static or not all(v.type.shape) or v.type.dtype != x.type.dtype for v in given):
        raise ValueError("open lengths, or nothing to run over")
    if (
        x.type.kind != "f"
        or x.type.dtype.itemsize < 4
        or any(v.type.shape[0] != len(backwards) for v in weights if v is not None)
    ):
        raise ValueError("half precision, or another number of directions")
    zero = b.broadcast(b.number(0, x), (x.type.shape[1], hidden))
    found = []
    for k, turned in enumerate(backwards):
        w, r, bias = (None if v is None else _direction(b, v, k) for v in weights)
        start = [zero if s is None else _direction(b, s, k) for s in states]
        before, cell = make(b, r, bias)
        found.append(_over_time(b, x, w, before, cell, start, turned))
    *lasts, outputs = zip(*found, strict=True)
    steps, batch, _ = x.type.shape
    y = b.concat([b.reshape(v, (steps, 1, batch, hidden)) for v in outputs], 1)
    return y, *(b.concat([b.reshape(v, (1, batch, hidden)) for v in last], 0) for last in lasts)


def _joined(b: Any, bias: Any) -> Any:
    """The biases of input and recurrence, where they do the same."""
    if bias is None:
        return None
    half = bias.type.shape[0] // 2
    return b.add(_part(b, bias, 0, half), _part(b, bias, half, 2 * half))


@definition("RNN", why="recurrent")
def rnn(b, x, w, r, bias=None, sequence_lens=None, initial_h=None, **attrs):
    """Ht = tanh(Xt W + Ht-1 R + bias)."""
    _check_lengths(sequence_lens)

    def make(b, r, bias):
        across = b.transpose(r, (1, 0))
        return _joined(b, bias), lambda b, gates, h: [b.tanh(b.add(gates, _product(b, h, across)))]

    return _run(b, x, (w, r, bias), (initial_h,), attrs, make)


@definition("GRU", why="recurrent")
def gru(b, x, w, r, bias=None, sequence_lens=None, initial_h=None, *, linear_before_reset=0, **attrs):
    """Ht = (1 - z) h + z Ht-1, with gates z, r and h."""
    _check_lengths(sequence_lens)

    def make(b, r, bias):
        n = r.type.shape[-1]
        across = b.transpose(r, (1, 0))
        gates_across, own = _part(b, across, 0, 2 * n), _part(b, across, 2 * n, 3 * n)
        before, behind = _joined(b, bias), None
        if linear_before_reset and bias is not None:  # then the reset gate multiplies this part of the bias too
            before = b.concat([_part(b, before, 0, 2 * n), _part(b, bias, 2 * n, 3 * n)], 0)
            behind = _part(b, bias, 5 * n, 6 * n)

        def cell(b, gates, h):
            both = _sigmoid(b, b.add(_part(b, gates, 0, 2 * n), _product(b, h, gates_across)))
            z, reset = _part(b, both, 0, n), _part(b, both, n, 2 * n)
            if linear_before_reset:
                recalled = _product(b, h, own)
                recalled = b.mul(reset, recalled if behind is None else b.add(recalled, behind))
            else:
                recalled = _product(b, b.mul(reset, h), own)
            new = b.tanh(b.add(_part(b, gates, 2 * n, 3 * n), recalled))
            return [b.add(b.mul(b.sub(b.number(1, z), z), new), b.mul(z, h))]

        return before, cell

    return _run(b, x, (w, r, bias), (initial_h,), attrs, make)


@definition("LSTM", why="recurrent")
def lstm(b, x, w, r, bias=None, sequence_lens=None, initial_h=None, initial_c=None, p=None, *, input_forget=0, **attrs):
    """Ct = f Ct-1 + i c and Ht = o tanh(Ct), with gates i, o, f and c."""
    _check_lengths(sequence_lens)
    if input_forget or p is not None:
        raise ValueError("coupled gates, or peepholes")

    def make(b, r, bias):
        n = r.type.shape[-1]
        across = b.transpose(r, (1, 0))

        def cell(b, gates, h, c):
            gates = b.add(gates, _product(b, h, across))
            i, o, f = (_sigmoid(b, _part(b, gates, k * n, k * n + n)) for k in range(3))
            c = b.add(b.mul(f, c), b.mul(i, b.tanh(_part(b, gates, 3 * n, 4 * n))))
            return [b.mul(o, b.tanh(c)), c]

        return _joined(b, bias), cell

    return _run(b, x, (w, r, bias), (initial_h, initial_c), attrs, make)


def _check_lengths(sequence_lens: Any) -> None:
    if sequence_lens is not None:
        raise ValueError("sequences that end at different times")
