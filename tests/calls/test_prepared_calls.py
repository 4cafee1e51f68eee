"""Prepared MDF models: plain ones, whose body is no loop, and what a call costs beside the loop in it."""

import pickle
import sys

import numpy as np
import pytest
from modeci_mdf.mdf import Edge, Graph, InputPort, Model, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.errors import ArgumentError, KindError

BODY = "b (int64 i, bool c, double x) => (bool c_out, double y) { c_out = Identity (c) y = Add (x, x) }"


def plain():
    """A model without any loop."""
    first = Node(id="a", input_ports=[InputPort(id="i", default_value=2.5)], parameters=[Parameter(id="k", value=3.0)])
    first.output_ports.append(OutputPort(id="o", value="k * i"))
    second = Node(id="b", input_ports=[InputPort(id="j")], output_ports=[OutputPort(id="p", value="j - 1")])
    edge = Edge(id="e", sender="a", sender_port="o", receiver="b", receiver_port="j")
    return Model(id="plain", graphs=[Graph(id="g", nodes=[first, second], edges=[edge])])


def looping():
    """A model of one loop."""
    parameters = [Parameter(id="x0", value=1.5), Parameter(id="body", value={"onnx": BODY})]
    parameters.append(Parameter(id="run", function="onnx::Loop", args={"M": 3, "cond": True, "x": "x0", "body": "body"}))
    return Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=[OutputPort(id="o", value="run")])])


def test_a_model_without_a_loop_is_a_model_as_any_other():
    model = mdf_loop.prepare(plain())
    assert (list(model.inputs), list(model.outputs)) == (["i", "k"], ["p"])
    assert model()["p"] == mdf_loop.run(plain())["p"] == 6.5
    assert model(i=4.0, k=0.5)["p"] == mdf_loop.run(plain(), i=4.0, k=0.5)["p"] == 1.0
    assert repr(model) == "<model 'plain': inputs i, k; outputs p>"
    assert model.explain() == "no Loop or Scan ran"
    r = model(i=4.0, seed=7)
    assert (r.iterations, r.stop, r.seed, dict(r.inputs)) == (None, None, 7, {"i": 4.0})
    with pytest.raises(ArgumentError, match="'ii'"):
        model(ii=1.0)


def test_a_pickled_model_runs_in_another_process(tmp_path):
    import subprocess

    for make, name, value in ((plain, "p", 6.5), (looping, "o", 12.0)):
        path = tmp_path / f"{name}.pickle"
        path.write_bytes(pickle.dumps(mdf_loop.prepare(make())))
        code = f"import pickle, mdf_loop; print(float(pickle.loads(open({str(path)!r}, 'rb').read())()[{name!r}]))"
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert float(ran.stdout.split()[-1]) == value


def test_numbers_that_fitted_before_are_not_looked_at_again(monkeypatch):
    from mdf_loop.calls import prepared

    model, looked = mdf_loop.prepare(looping()), []
    original = prepared.fit_to
    monkeypatch.setattr(prepared, "fit_to", lambda *args: looked.append(args) or original(*args))
    found = [float(model(x0=x)["o"]) for x in (2.0, 3.0, np.pi)]
    assert found == [16.0, 24.0, 8 * np.pi]
    assert len(looked) <= 1
    model(x0=2)  # a whole number is looked at
    assert len(looked) >= 1


def test_expressions_around_a_loop_look_up_a_signature_once(monkeypatch):
    from mdf_loop.readers.expressions import function_calls as calls

    model, asked = mdf_loop.prepare("examples/accumulate.yaml"), []
    model()
    original = calls.inspect.signature
    monkeypatch.setattr(calls.inspect, "signature", lambda *args: asked.append(args) or original(*args))
    model()
    assert not asked


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.bool_])
def test_numbers_of_numpy_are_the_arrays_they_stand_for(kind):
    """In the first call, and in the next ones, in which nothing looks; of another type they are looked at again."""
    text = "b (int64 i, bool c, T x) => (bool c_out, T y) { c_out = Identity (c) z = And (x, w) y = Or (z, x) }"
    if kind is not np.bool_:
        text = text.replace("And", "Add").replace("Or", "Mul")
    onnx_name = {np.float32: "float", np.float64: "double", np.int64: "int64", np.bool_: "bool"}[kind]
    planned = mdf_loop.compile(text.replace("T x", f"{onnx_name} x").replace("T y", f"{onnx_name} y"))
    for x, w in ((kind(1), kind(3)), (kind(0), kind(1)), (np.array(kind(1)), kind(1)), (kind(1), np.array(kind(0)))):
        found = planned(2, True, x, w=w)
        expected = planned(2, True, np.array(x), w=np.array(w))
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape) == (np.dtype(kind), ())
        assert found == expected
    if kind is not np.float64:
        with pytest.raises(KindError):
            planned(2, True, "a text", w=kind(1))
