"""RNN, GRU and LSTM: what they share, then the cell of each.

Inside, time is the first axis, and each direction is a run of its own.  A cell gives the bias that joins
what the input contributes (computed for all time steps at once) and the step from one state to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mdf_loop.ops.batching import Result, folding
from mdf_loop.ops.registry import kernel, say

Function = Callable[[np.ndarray], np.ndarray]
State = tuple[np.ndarray, ...]
Step = Callable[[np.ndarray, State], State]


ACTIVATIONS: dict[str, tuple[Callable[..., np.ndarray], dict[str, float]]] = {
    "relu": (lambda x: np.maximum(x, 0), {}),
    "tanh": (np.tanh, {}),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), {}),
    "softsign": (lambda x: x / (1 + np.abs(x)), {}),
    "softplus": (lambda x: np.logaddexp(x, 0), {}),
    "affine": (lambda x, alpha, beta: alpha * x + beta, {"alpha": 1.0, "beta": 0.0}),
    "leakyrelu": (lambda x, alpha: np.where(x >= 0, x, alpha * x), {"alpha": 0.01}),
    "thresholdedrelu": (lambda x, alpha: np.where(x >= alpha, x, 0), {"alpha": 1.0}),
    "scaledtanh": (lambda x, alpha, beta: alpha * np.tanh(beta * x), {"alpha": 1.0, "beta": 1.0}),
    "hardsigmoid": (lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), {"alpha": 0.2, "beta": 0.5}),
    "elu": (lambda x, alpha: np.where(x >= 0, x, alpha * np.expm1(x)), {"alpha": 1.0}),
}
"""Each activation by its name in lower case, with the defaults of the parameters it takes."""


def activation_functions(names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None) -> list[Function]:
    """The activations of a node; each that has parameters takes the next ones off the lists."""
    left = {"alpha": list(alphas or ()), "beta": list(betas or ())}
    functions: list[Function] = []
    for name in names:
        if name.lower() not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {name!r}")
        function, defaults = ACTIVATIONS[name.lower()]
        given = {key: left[key].pop(0) if left[key] else default for key, default in defaults.items()}
        functions.append(partial(function, **given) if given else function)
    return functions


def _bounded(function: Function, clip: float) -> Function:
    return lambda x: function(np.clip(x, -clip, clip))


def run_directions(
    cell: Callable[..., tuple[Any, Step]],
    x: np.ndarray,
    weights: Sequence[np.ndarray | None],
    lengths: np.ndarray | None,
    states: Sequence[np.ndarray | None],
    functions: Callable[[int], list[list[Function]]],
    direction: str,
    layout: int,
    hidden_size: int | None,
) -> tuple[np.ndarray, ...]:
    """Run a cell over time, in one or both directions.

    Parameters
    ----------
    cell : callable
        ``cell(r, b, p, functions)`` of one direction gives its bias and step.
    weights : W, R, B and P
        As in the node; B and P may be None.
    states : sequence
        Initial values; None means zeros.
    functions : callable
        The activation functions for each of so many directions.

    Returns
    -------
    tuple
        Y, then the last of each state.
    """
    n_directions, _, hidden = shape = weights[1].shape
    if hidden_size not in (None, hidden):
        raise ValueError(f"hidden_size is {hidden_size}, but R has shape {list(shape)}")
    if layout:
        x, states = x.swapaxes(0, 1), [None if s is None else s.swapaxes(0, 1) for s in states]
    wide = np.dtype(np.float32) if x.itemsize < 4 else x.dtype
    ran = []
    for d, backwards in enumerate(_directions(direction, n_directions)):
        w, r, b, p = (None if a is None else a[d].astype(wide, copy=False) for a in weights)
        start = tuple(np.zeros((x.shape[1], hidden), wide) if s is None else s[d].astype(wide, copy=False) for s in states)
        bias, step = cell(r, b, p, functions(n_directions)[d])
        gates = x.astype(wide, copy=False).reshape(x.shape[0] * x.shape[1], x.shape[2]) @ w.T + bias
        ran.append(_over_time(step, gates.reshape(*x.shape[:2], w.shape[0]), start, lengths, backwards))
    y, *last = (np.stack(parts).astype(x.dtype, copy=False) for parts in zip(*ran, strict=True))
    if layout:
        return y.transpose(2, 1, 0, 3), *(state.swapaxes(0, 1) for state in last)
    return y.swapaxes(0, 1), *last


def _directions(direction: str, count: int) -> tuple[bool, ...]:
    """For each direction, whether it runs backwards."""
    # GRU 1 has "foward" as its default.
    known = {"forward": (False,), "foward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    if direction not in known:
        raise ValueError(f"direction must be forward, reverse or bidirectional; got {direction!r}")
    if len(known[direction]) != count:
        raise ValueError(f"direction {direction} needs weights for {len(known[direction])} directions; there are {count}")
    return known[direction]


def activated(
    default: Sequence[str],
    activations: Sequence[str] | None,
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
    clip: float | None,
    n_gates: int = 2,
) -> Callable[[int], list[list[Function]]]:
    """The activation functions for each of so many directions.

    ``clip`` bounds what goes into the first ``n_gates`` of a direction.
    """

    def functions(n_directions: int) -> list[list[Function]]:
        size = len(default)
        names = activations or list(default) * n_directions
        if len(names) < size * n_directions:
            raise ValueError(f"{n_directions} directions need {size * n_directions} activations; got {len(names)}")
        made = activation_functions(names[: size * n_directions], alphas, betas)
        if clip is not None:
            made = [_bounded(function, clip) if k % size < n_gates else function for k, function in enumerate(made)]
        return [made[d * size : (d + 1) * size] for d in range(n_directions)]

    return functions


def _over_time(
    step: Step, gates: np.ndarray, state: State, lengths: np.ndarray | None, backwards: bool
) -> tuple[np.ndarray, ...]:
    """Every output of one direction, zero behind a sequence's end, and the last states."""
    if lengths is None and (scanned := getattr(type(gates), "scanned", None)) is not None:  # a kernel is traced
        return scanned(gates, step, state, backwards)
    y = np.zeros_like(gates, order="C", shape=(len(gates), *state[0].shape))
    for t in range(len(gates))[:: -1 if backwards else 1]:
        new = step(gates[t], state)
        if lengths is None:
            state = new
            y[t] = new[0]
        else:  # a sequence that has ended, or backwards has not begun, keeps its state
            runs = (t < lengths)[:, None]
            state = tuple(np.where(runs, n, old) for n, old in zip(new, state, strict=True))
            y[t] = np.where(runs, new[0], 0)
    return y, *state


def over_batch(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """The sequences of all iterations as one batch, which is axis 1, or axis 0 in layout 1."""
    batch = 0 if attrs.get("layout") else 1
    rule = folding((batch, None, None, None, 0, batch, batch), (0 if batch == 0 else 2, batch, batch))
    return rule(run, args, stacked, attrs)


def rnn_cell(r: np.ndarray, b: Any, p: None, functions: list[Function]) -> tuple[Any, Step]:
    """One gate."""
    (f,) = functions
    recurrence = r.T

    def step(gates: np.ndarray, state: State) -> State:
        return (f(gates + state[0] @ recurrence),)

    return _joined(b), step


def _joined(b: np.ndarray | None) -> Any:
    """The biases of input and recurrence, where they do the same."""
    return 0 if b is None else b[: len(b) // 2] + b[len(b) // 2 :]


@kernel("RNN", batch=over_batch)
def rnn(
    x,
    w,
    r,
    b=None,
    sequence_lens=None,
    initial_h=None,
    *,
    activations=None,
    activation_alpha=None,
    activation_beta=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    layout=0,
    output_sequence=0,
):
    """Ht = f(Xt W + Ht-1 R + bias); gives all outputs and the last."""
    # Versions before 7 write R without a transpose sign; onnx's converter takes them for the same.
    functions = activated(("Tanh",), activations, activation_alpha, activation_beta, clip)
    weights = (w, r, b, None)
    return run_directions(rnn_cell, x, weights, sequence_lens, (initial_h,), functions, direction, layout, hidden_size)


def gru_cell(r: np.ndarray, b: Any, p: None, functions: list[Function], *, linear_before_reset: int) -> tuple[Any, Step]:
    """Update gate z, reset gate and hidden gate, in this order."""
    f, g = functions
    n = r.shape[-1]
    gate_recurrence, recurrence = r[: 2 * n].T, r[2 * n :].T
    bias = _joined(b)
    hidden_bias = 0
    if linear_before_reset and b is not None:  # then the reset gate multiplies this part of the bias too
        bias, hidden_bias = np.concatenate([bias[: 2 * n], b[2 * n : 3 * n]]), b[5 * n :]

    def step(gates: np.ndarray, state: State) -> State:
        (last,) = state
        both = f(gates[:, : 2 * n] + last @ gate_recurrence)
        z, reset = both[:, :n], both[:, n:]
        recalled = reset * (last @ recurrence + hidden_bias) if linear_before_reset else (reset * last) @ recurrence
        return ((1 - z) * g(gates[:, 2 * n :] + recalled) + z * last,)

    return bias, step


@kernel("GRU", batch=over_batch)
def gru(
    x,
    w,
    r,
    b=None,
    sequence_lens=None,
    initial_h=None,
    *,
    activations=None,
    activation_alpha=None,
    activation_beta=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    layout=0,
    linear_before_reset=0,
    output_sequence=0,
):
    """Ht = (1 - z) h + z Ht-1, with gates z, r and h; gives all outputs and the last."""
    cell = partial(gru_cell, linear_before_reset=linear_before_reset)
    functions = activated(("Sigmoid", "Tanh"), activations, activation_alpha, activation_beta, clip)
    weights = (w, r, b, None)
    return run_directions(cell, x, weights, sequence_lens, (initial_h,), functions, direction, layout, hidden_size)


def lstm_cell(r: np.ndarray, b: Any, p: Any, functions: list[Function], *, input_forget: int) -> tuple[Any, Step]:
    """Input, output, forget and cell gate, in this order; peepholes look at the cell."""
    f, g, h = functions
    n = r.shape[-1]
    recurrence = r.T

    def step(gates: np.ndarray, state: State) -> State:
        last, cell = state
        gates = gates + last @ recurrence
        three = f(gates[:, : 3 * n])
        i, o = three[:, :n], three[:, n : 2 * n]
        cell = (1 - i if input_forget else three[:, 2 * n :]) * cell + i * g(gates[:, 3 * n :])
        return o * h(cell), cell

    if p is None:
        return _joined(b), step
    peep_i, peep_o, peep_f = p[:n], p[n : 2 * n], p[2 * n :]

    def peeping(gates: np.ndarray, state: State) -> State:
        last, cell = state
        gates = gates + last @ recurrence
        i = f(gates[:, :n] + peep_i * cell)
        forget = 1 - i if input_forget else f(gates[:, 2 * n : 3 * n] + peep_f * cell)
        cell = forget * cell + i * g(gates[:, 3 * n :])
        return f(gates[:, n : 2 * n] + peep_o * cell) * h(cell), cell

    return _joined(b), peeping


@kernel("LSTM", batch=over_batch)
def lstm(
    x,
    w,
    r,
    b=None,
    sequence_lens=None,
    initial_h=None,
    initial_c=None,
    p=None,
    *,
    activations=None,
    activation_alpha=None,
    activation_beta=None,
    clip=None,
    direction="forward",
    hidden_size=None,
    input_forget=0,
    layout=0,
    output_sequence=0,
):
    """Ct = f Ct-1 + i c and Ht = o h(Ct), with gates i, o, f and c; gives all outputs, the last, and the last cell."""
    cell = partial(lstm_cell, input_forget=input_forget)
    # The cell goes into the third activation unclipped, as in onnxruntime and OpenVINO: they clip the gates.
    functions = activated(("Sigmoid", "Tanh", "Tanh"), activations, activation_alpha, activation_beta, clip, n_gates=2)
    weights, states = (w, r, b, p), (initial_h, initial_c)
    return run_directions(cell, x, weights, sequence_lens, states, functions, direction, layout, hidden_size)


for _op in ("RNN", "GRU", "LSTM"):
    say(_op, traced=True)
