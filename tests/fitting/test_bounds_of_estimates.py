"""Bounds that leave the true values out are named, also where simulations lack a choice that the data have."""

from pathlib import Path

import pytest

import mdf_loop
from mdf_loop.errors import LoopWarning

DDM = "examples/drift_diffusion.yaml"


@pytest.mark.parametrize("code", [lambda e: 1.0 * (e > 0), lambda e: 2.0 * (e > 0)], ids=["codes of the model", "other codes"])
def test_an_estimate_at_its_bound_is_named_where_simulations_lack_a_choice(tmp_path, code):
    path = tmp_path / "m.yaml"
    coded = "          output_ports:\n            correct: {value: 'trial[0] > 0'}\n"
    path.write_text(Path(DDM).read_text().replace("          output_ports:\n", coded))
    outputs = mdf_loop.run(path, trials=300, seed=1, drift=1.0)
    data = {"reaction_time": outputs["reaction_time"], "correct": code(outputs["evidence"])}
    with pytest.warns(LoopWarning) as found:
        mdf_loop.fit(path, data, {"drift": (4.0, 6.0)}, trials=200, seed=2)
    first, second = (str(each.message) for each in found)
    assert first == "the estimate of drift, 4, is at its bound: over['drift'] = (4, 6) may be too narrow"
    assert "almost no simulation is" in second
    assert second.endswith("or bounds of parameters with which it is made")
