"""Some of the exported loops by hand, as one would write them for numba; they are given the models' inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def by_hand(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function and keep it under the name of a model."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[name] = numba.njit(function)
        return FUNCTIONS[name]

    return keep


@by_hand("jax_fitzhugh_nagumo")
def fitzhugh_nagumo(v0, w0, current):
    """Numbers alone."""
    v, w, I = v0[()], w0[()], current[()]
    for _ in range(2000):
        v, w = v + 0.05 * (v - v * v * v / 3 - w + I), w + 0.05 * 0.08 * (v + 0.7 - 0.8 * w)
    return np.array(v), np.array(w)


@by_hand("jax_logistic_nested")
def logistic_nested(x0):
    """A loop in a loop."""
    x = x0[()]
    for k in range(8):
        rate = np.float32(3.5) + np.float32(0.01) * np.float32(k)
        for _ in range(30):
            x = rate * x * (np.float32(1) - x)
    return (np.array(x, np.float32),)


@by_hand("jax_horner")
def horner(coefficients, x):
    """An array, coefficient by coefficient."""
    y = np.zeros_like(x)
    for c in coefficients:
        for k in range(len(x)):
            y[k] = y[k] * x[k] + c
    return (y,)


@by_hand("jax_collatz")
def collatz(numbers):
    """Each number for itself."""
    found = np.zeros(len(numbers), np.int32)
    for k in range(len(numbers)):
        n = numbers[k]
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            found[k] += 1
    return (found,)


@by_hand("jax_mandelbrot")
def mandelbrot(x, y):
    """Each point for itself, until it has left."""
    found = np.zeros(x.shape, np.int32)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            a, b = np.float32(0), np.float32(0)
            while found[i, j] < 50 and a * a + b * b <= np.float32(4):
                a, b = a * a - b * b + x[i, j], np.float32(2) * a * b + y[i, j]
                found[i, j] += 1
    return (found,)


@by_hand("jax_game_of_life")
def game_of_life(start):
    """On a torus."""
    board, n = start.copy(), len(start)
    for _ in range(20):
        new = np.zeros_like(board)
        for i in range(n):
            for j in range(n):
                around = 0
                for a in (-1, 0, 1):
                    for b in (-1, 0, 1):
                        around += board[(i + a) % n, (j + b) % n]
                around -= board[i, j]
                new[i, j] = around == 3 or (board[i, j] == 1 and around == 2)
        board = new
    return (board,)


@by_hand("script_edit_distance")
def edit_distance(a, b):
    """Cell by cell."""
    above = np.arange(len(b) + 1)
    for i in range(len(a)):
        row = np.zeros_like(above)
        row[0] = i + 1
        for j in range(len(b)):
            row[j + 1] = min(min(row[j], above[j + 1]) + 1, above[j] + (a[i] != b[j]))
        above = row
    return (above,)


@by_hand("jax_drift_diffusion")
def drift_diffusion(noise):
    """All trials at once."""
    x, time = np.zeros(noise.shape[1], np.float32), np.zeros(noise.shape[1], np.float32)
    for row in noise:
        for k in range(len(row)):
            if abs(x[k]) < np.float32(1):
                x[k] = x[k] + np.float32(0.01) * np.float32(0.8) + np.float32(0.1) * row[k]
                time[k] += np.float32(0.01)
    return x, time
