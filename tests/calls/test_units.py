"""A quantity with a unit is refused wherever values are given: its unit would be lost, and its number be that of another one."""

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import KindError

MODEL = """
m:
  graphs:
    g:
      nodes:
        a:
          input_ports: {tau: {default_value: 2.0}}
          parameters: {run: {function: "onnx::Loop", args: {M: 3, v: 1.0, body: {carried: {v: v / tau}}}}}
          output_ports: {o: {value: run}}
"""


class Quantity(np.ndarray):
    """As those of astropy and of Brian, which are arrays."""


def quantity(place, unit):
    made = np.ones(3).view(Quantity)
    setattr(made, place, unit)
    return made


@pytest.fixture
def milliseconds():
    return pytest.importorskip("pint").UnitRegistry().ms


CALLS = {
    "a carried value": lambda path, q: mdf_loop.loop(3, True, v=q, body="v: v * 2"),
    "a captured one": lambda path, q: mdf_loop.loop(3, True, v=1.0, tau=q, body="dv/dt: -v / tau\ndt: 0.1"),
    "a prepared loop": lambda path, q: mdf_loop.compile("v: v / tau")(3, True, 1.0, tau=q),
    "a list": lambda path, q: mdf_loop.loop(3, True, v=[q, q], body="v: v * 2"),
    "M": lambda path, q: mdf_loop.loop(q, True, v=1.0, body="v: v * 2"),
    "a run": lambda path, q: mdf_loop.run(path, tau=q),
    "trials": lambda path, q: mdf_loop.run(path, tau=q, trials=3),
    "a sweep": lambda path, q: mdf_loop.sweep(path, {"tau": [q, q]}),
    "a sweep over an array": lambda path, q: mdf_loop.sweep(path, {"tau": np.ones(2) * q}),
    "theta": lambda path, q: mdf_loop.simulator(path, ["tau"])(np.ones((3, 1)) * q),
    "a condition": lambda path, q: mdf_loop.simulator(path, ["tau"]).dict(tau=q),
    "data": lambda path, q: mdf_loop.fit(path, {"o": np.ones(3) * q}, {"tau": (1.0, 2.0)}),
}


@pytest.mark.parametrize("case", CALLS)
def test_units_of_pint_are_not_lost(tmp_path, milliseconds, case):
    path = tmp_path / "m.yaml"
    path.write_text(MODEL)
    with pytest.raises(KindError, match=r"has the unit millisecond, which would be lost; .*\.to\(\"s\"\)\.magnitude"):
        CALLS[case](path, 20.0 * milliseconds)


def test_the_cure_is_a_number(milliseconds):
    tau = (20.0 * milliseconds).to("s").magnitude
    assert mdf_loop.loop(1, True, v=1.0, tau=tau, body="v: v / tau") == 50.0


@pytest.mark.parametrize(("place", "unit", "cure"), [("unit", "ms", 'v.to_value("s")'), ("dim", "s", "v / second")])
def test_units_of_other_libraries_are_not_lost(place, unit, cure):
    with pytest.raises(KindError) as error:
        mdf_loop.loop(3, True, v=quantity(place, unit), body="v: v * 2")
    assert str(error.value).endswith(f"has the unit {unit}, which would be lost; give a number in the unit of the model: {cure}")
    assert mdf_loop.loop(3, True, v=quantity(place, "1"), body="v: v * 2").tolist() == [8.0] * 3
