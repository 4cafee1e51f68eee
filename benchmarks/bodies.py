"""The loops that are measured, as ONNX text, with inputs and the number of iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import parser

HEADER = '<ir_version: 10, opset_import: ["": 20]>\n'


@dataclass(frozen=True)
class Workload:
    """One loop as a whole model, with its inputs."""

    name: str
    text: str
    inputs: dict[str, np.ndarray]
    iterations: int

    @property
    def model(self) -> onnx.ModelProto:
        """The model, parsed and checked."""
        model = parser.parse_model(HEADER + self.text)
        onnx.checker.check_model(model)
        return model


def accumulate(n: int = 10_000) -> Workload:
    """The specification's example: y += x[i], all sums collected."""
    text = """
    accumulate (int64 n, double[k] x, double y0) => (double y, double[m] sums) {
        true_ = Constant <value: tensor = bool {1}> ()
        y, sums = Loop (n, true_, y0) <body: graph = body (int64 i, bool go, double yi) => (bool go_on, double yo, double s) {
            go_on = Identity (go)
            xi = Gather (x, i)
            yo = Add (yi, xi)
            s = Identity (yo)
        }>
    }"""
    return Workload("accumulate", text, {"n": np.int64(n), "x": np.linspace(0, 1, n), "y0": np.float64(0)}, n)


def fitzhugh_nagumo(n: int = 10_000) -> Workload:
    """FitzHugh-Nagumo neuron by Euler steps, scalars, the trajectory of v collected."""
    text = """
    fitzhugh_nagumo (int64 n, double v0, double w0, double current, double dt) => (double v, double w, double[m] trace) {
        true_ = Constant <value: tensor = bool {1}> ()
        v, w, trace = Loop (n, true_, v0, w0) <body: graph = body (int64 i, bool go, double vi, double wi)
                => (bool go_on, double vo, double wo, double s) <double third = {0.3333333333333333}, double a = {0.7},
                    double b = {0.8}, double tau = {0.08}> {
            go_on = Identity (go)
            v2 = Mul (vi, vi)
            v3 = Mul (v2, vi)
            cubic = Mul (v3, third)
            d0 = Sub (vi, cubic)
            d1 = Sub (d0, wi)
            dv = Add (d1, current)
            sv = Mul (dv, dt)
            vo = Add (vi, sv)
            bw = Mul (wi, b)
            e0 = Add (vi, a)
            e1 = Sub (e0, bw)
            dw = Mul (e1, tau)
            sw = Mul (dw, dt)
            wo = Add (wi, sw)
            s = Identity (vo)
        }>
    }"""
    inputs = {name: np.float64(value) for name, value in (("v0", -1.0), ("w0", 0.0), ("current", 0.5), ("dt", 0.01))}
    return Workload("fitzhugh_nagumo", text, {"n": np.int64(n), **inputs}, n)


def rnn(n: int = 1_000, batch: int = 8, hidden: int = 64) -> Workload:
    """A simple recurrent network, float32, all hidden states collected."""
    text = f"""
    rnn (int64 n, float[k,{batch},{hidden}] x, float[{batch},{hidden}] h0, float[{hidden},{hidden}] W,
         float[{hidden},{hidden}] R, float[{hidden}] bias) => (float[{batch},{hidden}] h, float[m,{batch},{hidden}] states) {{
        true_ = Constant <value: tensor = bool {{1}}> ()
        h, states = Loop (n, true_, h0) <body: graph = body (int64 i, bool go, float[{batch},{hidden}] hi)
                => (bool go_on, float[{batch},{hidden}] ho, float[{batch},{hidden}] s) {{
            go_on = Identity (go)
            xi = Gather (x, i)
            wx = MatMul (xi, W)
            rh = MatMul (hi, R)
            both = Add (wx, rh)
            biased = Add (both, bias)
            ho = Tanh (biased)
            s = Identity (ho)
        }}>
    }}"""
    rng = np.random.default_rng(0)
    shapes: dict[str, Any] = {
        "x": (n, batch, hidden),
        "h0": (batch, hidden),
        "W": (hidden, hidden),
        "R": (hidden, hidden),
        "bias": (hidden,),
    }
    arrays = {name: (rng.standard_normal(shape) * 0.1).astype(np.float32) for name, shape in shapes.items()}
    return Workload("rnn", text, {"n": np.int64(n), **arrays}, n)


WORKLOADS = (accumulate, fitzhugh_nagumo, rnn)
