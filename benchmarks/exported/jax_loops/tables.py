"""Grids, and tables that are filled."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_loops.keeping import R, exported, f32, repeated


@exported((R.random((24, 24)) < 0.35).astype(np.int32))
def game_of_life(board):
    """Conway's, on a torus of 24 x 24, twenty generations."""

    def step(_, b):
        rows = b + jnp.roll(b, 1, 0) + jnp.roll(b, -1, 0)
        around = rows + jnp.roll(rows, 1, 1) + jnp.roll(rows, -1, 1) - b
        return ((around == 3) | ((b == 1) & (around == 2))).astype(jnp.int32)

    return lax.fori_loop(0, 20, step, board)


@exported(np.eye(1, 65, 32, dtype=np.int32)[0])
def rule_110(cells):
    """A cellular automaton in one dimension, every generation kept."""
    rule = jnp.asarray(np.array([0, 1, 1, 1, 0, 1, 1, 0], np.int32))

    def step(c, _):
        new = jnp.take(rule, 4 * jnp.roll(c, 1) + 2 * c + jnp.roll(c, -1))
        return new, new

    return lax.scan(step, cells, None, length=40)[1]


@exported(*(x.astype(np.float32) for x in np.meshgrid(np.linspace(-2, 0.5, 32), np.linspace(-1.1, 1.1, 32))))
def mandelbrot(x, y):
    """How long 32 x 32 points stay."""

    def step(_, state):
        a, b, n = state
        inside = a * a + b * b <= 4
        a, b = jnp.where(inside, a * a - b * b + x, a), jnp.where(inside, 2 * a * b + y, b)
        return a, b, n + inside.astype(jnp.int32)

    return repeated(50, step, (jnp.zeros_like(x), jnp.zeros_like(x), jnp.zeros(x.shape, jnp.int32)))[2]


@exported(f32(20, 3), f32(24, 3))
def dynamic_time_warping(a, b):
    """A table of 20 x 24, a row from the row above, in two loops."""

    def row(above, x):
        cost = jnp.sqrt(((x[None, :] - b) ** 2).sum(1))

        def cell(left, given):
            up, corner, c = given
            new = c + jnp.minimum(jnp.minimum(left, up), corner)
            return new, new

        corner = jnp.concatenate([above[:1], above[1:-1]])
        _, new = lax.scan(cell, jnp.float32(1e9), (above[1:], corner, cost))
        return jnp.concatenate([jnp.full(1, 1e9, jnp.float32), new]), new[-1]

    first = jnp.concatenate([jnp.zeros(1, jnp.float32), jnp.full(24, 1e9, jnp.float32)])
    last, ends = lax.scan(row, first, a)
    return last[-1], ends


@exported(R.integers(1, 20, 30).astype(np.int32), R.integers(1, 100, 30).astype(np.int32))
def knapsack(weights, values):
    """The best value for each weight to 100: a table by index."""
    room = jnp.arange(101, dtype=jnp.int32)

    def step(best, item):
        weight, value = item
        with_it = jnp.take(best, jnp.maximum(room - weight, 0)) + value
        return jnp.where(room >= weight, jnp.maximum(best, with_it), best), None

    return lax.scan(step, jnp.zeros(101, jnp.int32), (weights, values))[0]


@exported(np.minimum(np.abs(f32(24, 24)) * 10, 20))
def floyd_warshall(distance):
    """All shortest paths between 24 points."""

    def step(k, d):
        row, column = lax.dynamic_slice(d, (k, 0), (1, 24)), lax.dynamic_slice(d, (0, k), (24, 1))
        return jnp.minimum(d, column + row)

    return lax.fori_loop(0, 24, step, distance)
