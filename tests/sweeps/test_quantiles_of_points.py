"""Quantiles of many points at once are those of each point, to the last bit."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from swept_models import DIFFUSION

import mdf_loop
from mdf_loop.sweeps.rows import merging
from mdf_loop.sweeps.rows.merging import Merging
from mdf_loop.sweeps.rows.reducing import Quantiles
from mdf_loop.sweeps.rows.rows_of_runs import Chunk

TYPES = ["float16", "float32", "float64", "int8", "uint16", "int64"]
LEVELS = st.lists(st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0]), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(TYPES), st.integers(1, 5), st.integers(1, 40), st.sampled_from([(), (3,), (2, 2)]), LEVELS)
def test_each_point_has_its_own_bits(data, dtype, points, trials, shape, levels):
    rows = data.draw(arrays.arrays(dtype, (points * trials, *shape)))
    there = data.draw(arrays.arrays(bool, points * trials, fill=st.just(True)))
    one = Quantiles(tuple(levels))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        reduced = Merging({"x": one}, trials).reduced(0, Chunk({"x": (rows, None)}), there)
        for k in range(points):
            known = there[k * trials : (k + 1) * trials]
            if known.any():
                alone = np.nanquantile(rows[k * trials : (k + 1) * trials][known], levels, axis=0)
                found = reduced.columns[f"x/{merging.VALUE}"][0][k]
                np.testing.assert_array_equal(found.astype(alone.dtype), alone)
                assert (np.signbit(found) == np.signbit(alone))[~np.isnan(alone)].all()
                is_all_nan = bool(np.isnan(alone).all())  # of which numpy keeps the type, and of numbers it makes float64
                assert found.dtype == alone.dtype or is_all_nan or not there.reshape(points, -1).any(axis=1).all()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sweep_takes_points_at_once(workers, monkeypatch):
    how = {"trials": 20, "seed": 1, "outputs": ["reaction_time"], "workers": workers}
    over = {"drift": np.linspace(0.5, 2.0, 30)}
    every = mdf_loop.sweep(DIFFUSION, over, **how).reaction_time.values
    monkeypatch.setattr(Quantiles, "__call__", lambda *_: pytest.fail("a point by itself"))
    found = mdf_loop.sweep(DIFFUSION, over, reduce=[0.1, 0.5], **how).reaction_time.values
    np.testing.assert_array_equal(found, np.stack([np.nanquantile(row, [0.1, 0.5]) for row in every]))
