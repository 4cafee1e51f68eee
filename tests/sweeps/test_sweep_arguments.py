"""Arguments of sweeps: what is misspelt is suggested, quantiles have a dimension of their own."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import ArgumentError, LoopWarning
from mdf_loop.sweeps.grid import grid_of

DIFFUSION = Path(__file__).parents[2] / "examples" / "drift_diffusion.yaml"
OVER = {"drift": [0.0, 2.0], "bound": [0.5, 1.0]}


@pytest.mark.parametrize(("name", "meant"), [("trails", "trials"), ("records", "record"), ("step", "steps"), ("sed", "seed")])
def test_an_argument_that_is_misspelt_is_suggested(name, meant):
    with pytest.raises(ArgumentError) as info:
        mdf_loop.run(DIFFUSION, **{name: 3})
    assert f"did you mean the argument {meant!r}?" in str(info.value)
    if name != "records":
        with pytest.raises(ArgumentError) as info:
            mdf_loop.sweep(DIFFUSION, OVER, **{name: 3})
        assert f"did you mean the argument {meant!r}?" in str(info.value)


def test_quantiles_have_a_dimension_with_their_levels():
    wanted = {"evidence": [0.25, 0.75], "path": [0.25, 0.75], "reaction_time": [0.5]}
    whole = mdf_loop.sweep(DIFFUSION, OVER, trials=6, seed=1)
    s = mdf_loop.sweep(DIFFUSION, OVER, trials=6, seed=1, reduce=wanted)
    lead = tuple(OVER)
    assert s.evidence.dims == (*lead, "quantile")
    assert s.path.dims == (*lead, "quantile", "iteration")
    assert s.reaction_time.dims == (*lead, "reaction_time_quantile")
    for name, levels in wanted.items():
        expected = whole[name].quantile(levels, "trial", skipna=True).transpose(*lead, "quantile", ...)
        np.testing.assert_allclose(s[name].values, expected.values, rtol=1e-12)
        np.testing.assert_array_equal(s[s[name].dims[len(lead)]].values, levels)
    again = mdf_loop.sweep(DIFFUSION, OVER, trials=6, seed=1, reduce=[0.25, 0.75], outputs="path").path.sel(quantile=0.75)
    np.testing.assert_array_equal(again.values, s.path.sel(quantile=0.75).values)


@pytest.mark.parametrize(
    ("given", "taken"),
    [([0.5, 1], [0.5, 1.0]), ([1, 2], [1, 2]), ([0.5, 2**53 + 1], [0.5, 2**53 + 1]), ([0.5, True], [0.5, True])],
)
def test_whole_numbers_among_fractions_are_fractions_as_in_an_array(given, taken):
    for grid in (grid_of({"a": given}), grid_of([{"a": value} for value in given])):
        found = [grid.inputs(k)["a"] for k in range(len(given))]
        assert [*map(repr, found)] == [*map(repr, taken)]


ROWS = """
one:
  graphs:
    g:
      nodes:
        n:
          input_ports: {stimulus: {shape: [2]}, level: {default_value: 1.0}, any: {}}
          output_ports: {out: {value: numpy.sum(stimulus) * level + numpy.sum(any)}}
"""


def test_rows_of_an_input_are_no_trials(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(ROWS)
    table, vector = np.arange(6.0).reshape(3, 2), np.arange(3.0)
    cure = "one row for each trial is mdf_loop.sweep(model, [{'stimulus': stimulus[k]} for k in range(3)])"
    with pytest.warns(LoopWarning) as caught:
        mdf_loop.run(path, trials=3, stimulus=table, any=vector)
    assert f"each of the 3 trials gets all 3 rows of stimulus; {cure}" in [str(each.message) for each in caught]
    assert any("a run for each row is mdf_loop.sweep(model, over={'stimulus': ...})" in str(each.message) for each in caught)
    with pytest.warns(LoopWarning, match="is given an array of shape .*, which is used as it is$"):
        mdf_loop.run(path, stimulus=table[:1], any=vector)
    swept = mdf_loop.sweep(path, [{"stimulus": table[k], "level": k} for k in range(3)], any=0.0)
    assert swept["out"].values.tolist() == [0.0, 5.0, 18.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mdf_loop.run(path, trials=3, stimulus=table[0], any=vector)
        mdf_loop.run(path, trials=2, stimulus=table[0], any=vector)


VECTORS = [[1.2, 1.0, 0.8], [2.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    "over", [{"stimulus": VECTORS, "level": [1, 2]}, [{"stimulus": row} for row in VECTORS]], ids=["grid", "rows"]
)
@pytest.mark.parametrize("how", ["dataset", "checkpoint", "store", "s.nc", "s.zarr"])
def test_swept_vectors_are_kept(tmp_path, over, how):
    path, place = tmp_path / "one.yaml", tmp_path / "kept.zarr"
    path.write_text(ROWS.replace("{shape: [2]}", "{shape: [3]}"))
    s = mdf_loop.sweep(path, over, any=0.0, **({how: place} if how in ("checkpoint", "store") else {}))
    if how.startswith("s."):
        place = tmp_path / how
        (s.to_netcdf if how.endswith("nc") else s.to_zarr)(place)
    s = s if how == "dataset" else mdf_loop.open(place)
    assert s.stimulus_values.dims == ("point" if isinstance(over, list) else "stimulus", "stimulus_0")
    assert s.stimulus_values.values.tolist() == VECTORS
    assert s.stimulus.values.tolist() == [0, 1]
    assert "stimulus_0" not in s["out"].dims


def test_swept_vectors_take_no_name():
    over = {"x": np.eye(2), "x_0": [1, 2], "x_values": [3, 4]}
    found = grid_of(over).coordinates()
    assert [found[name][0] for name in ("x_0", "x_values", "x_values_2")] == ["x_0", "x_values", ("x", "x_0_2")]
