"""Calls and files with a mistake: the message says what was meant."""

import contextlib
import re
import warnings

import numpy as np
import onnx.parser
import pytest

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopError, LoopWarning, MalformedBody
from tests.messages.test_plain_messages import MODEL, model, told

LINEAR = "v: v + dt\nwhile: v < 1"

ONNX = '<ir_version: 8, opset_import: ["": 18]> g (float[n] x) => (float[n] z) { z = Add (x, x) }'


@mdf_loop.body
def two_values(i, go, x, y):
    return x < 5, x + y, y


@mdf_loop.body
def with_text(i, go, x):
    return go, x + "1"


@mdf_loop.body
def with_mapping(i, go, x):
    return {"x": x}


CALLS = [
    (
        lambda m: mdf_loop.loop(steps=3, cond=True, v=0.0, body=LINEAR, dt=0.1),
        "'steps'; it reads 'dt'; did you mean 'M'?",
    ),
    (lambda m: mdf_loop.loop(3, condition=True, v=0.0, body=LINEAR, dt=0.1), "did you mean 'cond'?"),
    (lambda m: mdf_loop.loop(3, True, v_init=0.0, body=LINEAR, dt=0.1), "it has no 'v_init'; did you mean 'v_initial'?"),
    (
        lambda m: mdf_loop.loop(3, True, vv=0.0, body=LINEAR, dt=0.1),
        "it has no 'vv'; did you mean 'v'?; no value is given",
    ),
    (
        lambda m: mdf_loop.loop(3, True, 0.0, 1.0, body="x: x + y\ny: y", x=1),
        "takes x, y; 1 value without a name is too many",
    ),
    (lambda m: mdf_loop.loop(3, True, v=0.0, body=LINEAR, dtt=0.1), "'dtt' is given, and the body does not read it"),
    (lambda m: mdf_loop.loop(3, True, 0.0, body="v: v + dvv * rate\nlet dv: 1", rate=1), "reads 'dvv' from outside"),
    (lambda m: mdf_loop.loop(3, True, 0.0, body=LINEAR, dt=0.1, seed=1), "it is an option: with mdf_loop.options(seed=...)"),
    (lambda m: mdf_loop.loop(3, True, 0.0, LINEAR, dt=0.1), "loop: the body is given by name: loop(M, cond, *carried, body=...)"),
    (lambda m: mdf_loop.loop(two_values, 3, True, 0.0), "loop: the body is given by name"),
    (lambda m: mdf_loop.loop(3, True, 0.0, body="v: v + dt; while: v < 1", dt=0.1), "write each equation on a line of its own"),
    (lambda m: mdf_loop.loop(3, True, 0.0, body="let a: a + 1\nv: v + a"), "let is circular: a reads itself"),
    (lambda m: mdf_loop.loop(3, True, 0.0, body="v: 2 v"), "a product is written 2 * v"),
    (
        lambda m: mdf_loop.loop(3, True, 1.0, body=two_values),
        "body 'two_values' carries x, y; each needs one initial value, in this order, and 1 is given: y has none",
    ),
    (
        lambda m: mdf_loop.loop(3, True, 1.0, body=with_text),
        "computes with a str; a traced function computes with numbers",
    ),
    (lambda m: mdf_loop.loop(3, True, 1.0, body=with_mapping), "returns a dict; return the condition, the carried values"),
    (lambda m: mdf_loop.loop(3, True, 1.0, body=lambda i, go, x: None), "returned None; it must return at least 2"),
    (lambda m: mdf_loop.loop(3, True, None, body=LINEAR, dt=0.1), "'v' is None, no number"),
    (lambda m: mdf_loop.loop(3, "yes", 0.0, body=LINEAR, dt=0.1), "got string[] ('yes')"),
    (lambda m: mdf_loop.if_(True, then_brnch="y: 1", else_branch="y: 2"), "is that a misspelt 'then_branch'?"),
    (
        lambda m: mdf_loop.if_(True, then_branch="y: rate", else_branch="y: 2", rate=1, raet=1),
        "'raet'; did you mean 'rate'?",
    ),
    (
        lambda m: mdf_loop.run(m, {"drive": 2.0}),
        "run: only model may be given without a name; 2 are given",
    ),
    (lambda m: mdf_loop.prepare(m)(2.0), "Model: all values are given by name; 1 is given without one: write name=value"),
    (lambda m: mdf_loop.run(m, x=2.0), "'x' is carried by the loop a.run, which begins with 'x0': give x0=..."),
    (lambda m: mdf_loop.run(m, drive={"a": 1}), "'drive' is a dict, no number"),
    (lambda m: mdf_loop.run(m, drive=lambda t: t), "must be numbers, booleans or strings; got function"),
    (lambda m: mdf_loop.run(MODEL), "a model is read from a file; got a text of 18 lines: write it to a file first"),
    (lambda m: mdf_loop.run(m)["pth"], "no output called 'pth'; did you mean 'path'?"),
    (lambda m: mdf_loop.run(m, record="a.x").recorded["x"], "nothing was recorded as 'x'; there are a.x"),
    (lambda m: mdf_loop.to_onnx(m, inputs=["raet"]), "there is no value 'raet' that could be an input; did you mean 'rate'?"),
    (lambda m: mdf_loop.simulator(m, ["rate"], dtype="floaty"), "dtype is a type of numpy, such as 'float32'; got 'floaty'"),
    (
        lambda m: mdf_loop.fit(m, {"last": [1.0]}, {"rate": ("0", "1")}),
        "over['rate'] is a pair of bounds, such as (0.2, 3.0)",
    ),
    (lambda m: mdf_loop.fit(m, {"last": [1.0]}, {"rate": (0, 1)}, trials=0), "trials must be at least 1; got 0"),
    (
        lambda m: mdf_loop.fit(m, {"last": [1.0]}, {"rate": (0, 1)}, loss="mse"),
        "loss is a function of (simulated, data), or",
    ),
    (
        lambda m: mdf_loop.fit(m, {"last": ["a"]}, {"rate": (0, 1)}),
        "data['last'] must be numbers; got a: give each choice the number that the model has for it",
    ),
    (lambda m: backend(ONNX).run([None]), "input 'x' must be float32[n]; got None, which only an optional may be"),
    (lambda m: backend(ONNX).run([1.0, 2.0]), "the model takes 1 input (x); 2 were given"),
    (lambda m: backend(ONNX).run({"xx": 1.0}), "missing: x; unknown: xx; did you mean 'x'?"),
    (
        lambda m: backend(ONNX).run({}),
        "Give it: run(..., x=...); on the command line --set x=..., or --input file.npz for arrays",
    ),
    (lambda m: mdf_loop.run(onnx.parser.parse_model(ONNX), x=[1.0], outputs=["y"]), "take one of the results, results['name']"),
    (lambda m: mdf_loop.run(m, outputs=["y"]), "'outputs' is taken for an input; a run gives all outputs"),
    (
        lambda m: mdf_loop.run(m, inputs={"dt": 0.1}),
        "inputs are given by their names: run(model, x=...), or run(model, **values)",
    ),
    (lambda m: mdf_loop.run(m, n_trials=3), "'n_trials' is taken for an input; did you mean the argument 'trials'?"),
    (lambda m: mdf_loop.sweep(m, {"rate": [1.0]}, engine="jit"), "write: with mdf_loop.options(engine='jit')"),
    (lambda m: mdf_loop.run(m, over={"dt": [0.1]}), "mdf_loop.sweep(model, over={'x': [...]})"),
    (lambda m: mdf_loop.run(m.with_name("modl.yaml")), "did you mean 'm"),
    (lambda m: mdf_loop.backend.prepare(onnx.parser.parse_model(ONNX), device="GPU"), "device must be 'CPU'; got 'GPU'"),
]


CALLS += [
    (lambda m: mdf_loop.sweep(m, params={"rate": [1.0]}), "'params' is taken for an input; write over={'rate': [...]}"),
    (lambda m: mdf_loop.sweep(m, over=["rate"]), "got list; write over={'rate': [...]}"),
    (lambda m: mdf_loop.fit(m, {"last": [1.0]}, ["rate"]), "write over={'rate': (low, high)}"),
    (lambda m: mdf_loop.fit(m, {"last": [1.0]}, bounds={"rate": (0, 1)}), "write over={'rate': (low, high)}"),
    (lambda m: mdf_loop.fit(m, {"last": [1.0]}, rate=(0, 1)), "write over={'rate': (low, high)}"),
    (lambda m: mdf_loop.fit(m, {"last": [1.0]}, {"rate": (0, 1)}, n_trials=3), "did you mean the argument 'trials'?"),
    (lambda m: mdf_loop.explore(m, over={"rate": (0, 1)}), "write rate=(low, high)"),
    (lambda m: mdf_loop.explore(m, {"rate": (0, 1)}), "ranges are given by name: rate=(low, high)"),
    (lambda m: mdf_loop.run(m, record="a.X"), "called 'a.X'; did you mean 'a.x'"),
    (lambda m: mdf_loop.loop(10, lambda x: x < 5, 0.0, body=LINEAR, dt=0.1), "what ends a loop is computed in its body"),
]


def backend(text):
    return mdf_loop.backend.prepare(onnx.parser.parse_model(text))


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[message for _, message in CALLS])
def test_calls_with_a_mistake_say_what_was_meant(tmp_path, call, message):
    path = model(tmp_path)
    with pytest.raises(LoopError) as caught:
        call(path)
    assert message in told(caught.value)


def test_an_argument_that_is_meant_stands_in_the_message_itself(tmp_path):
    with pytest.raises(LoopError, match="did you mean the argument 'outputs'"):
        mdf_loop.sweep(model(tmp_path), {"rate": [1.0]}, output="last")


DEEPER = MODEL.replace("  output_ports", "    output_ports").replace("  last:", "    last:").replace("  path: {v", "    path: {v")

FILES = [
    ("y.json", MODEL, "it is no JSON: call a file of YAML .yaml"),
    ("t.onnx", "hello", "'{}' is not an ONNX model: it is a text"),
    (
        "m.yaml",
        MODEL.replace("          output_ports", "            output_ports"),
        "'output_ports' is a key of a node, not the id of a parameter",
    ),
    ("m.yaml", "m:\n  nodes: {}\n", "a model has no 'nodes' (a graph has: see the indentation)"),
]


@pytest.mark.parametrize(("name", "text", "message"), FILES, ids=[message for *_, message in FILES])
def test_files_that_are_something_else(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(MalformedBody) as caught:
        mdf_loop.run(path)
    assert message.format(path) in str(caught.value)


def test_an_output_read_as_an_attribute_is_told_how(tmp_path):
    results = mdf_loop.run(model(tmp_path))
    with pytest.raises(AttributeError, match=r"no attribute 'last'; write results\['last'\]"):
        _ = results.last
    assert not hasattr(results, "lst")


def test_steps_are_no_iterations(tmp_path):
    with pytest.warns(LoopWarning, match="the iterations of a loop are its argument M"):
        mdf_loop.run(model(tmp_path), steps=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mdf_loop.run(model(tmp_path), steps=3, collect=True)
        mdf_loop.run(model(tmp_path, "rate: {value: 0.5}", "rate: {value: rate / 2, default_initial_value: 1.0}"), steps=3)


SCALAR = """
m:
  graphs:
    g:
      nodes:
        n:
          input_ports: {u: {type: int, default_value: 2}}
          parameters:
            bound: {value: 5.0}
            body: {value: {carried: {x: x + 1}, while: x < bound}}
            run: {function: onnx::Loop, args: {M: 9, x: 0.0, body: body}}
          output_ports: {x: {value: run.x}, y: {value: u + 1}}
"""


def scalar_model(tmp_path):
    (tmp_path / "m.yaml").write_text(SCALAR)
    return mdf_loop.prepare(tmp_path / "m.yaml")


HINT = r"bound is a number in the model; values to sweep go into mdf_loop.sweep\(model, over="


def test_values_of_a_sweep_that_are_given_as_an_input_are_said(tmp_path):
    model = scalar_model(tmp_path)
    with pytest.raises(mdf_loop.LoopError, match=HINT):
        model(bound=[1, 2])
    with pytest.warns(LoopWarning, match=HINT):
        mdf_loop.sweep(model, bound=[1, 2])


@pytest.mark.parametrize(("value", "is_said"), [(0.5, True), ([1, 2.5], True), (3, False), (3.0, False), ([1, 2], False)])
def test_a_fraction_for_a_port_of_whole_numbers_is_said(value, is_said, tmp_path, recwarn):
    scalar_model(tmp_path)(u=value)
    assert ["u is declared int, and is given" in str(each.message) for each in recwarn] == [True] * is_said


def test_psyneulink_declares_whole_numbers_where_it_takes_others(recwarn):
    mdf_loop.run("tests/models/psyneulink/two_projections.json")
    assert not [str(each.message) for each in recwarn if "is declared int64" in str(each.message)]


class WithGradient:
    """As a parameter of PyTorch."""

    def __array__(self, *args, **how):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")

    def detach(self):
        return np.float64(2.0)


def test_a_parameter_with_a_gradient_is_an_array(tmp_path):
    assert scalar_model(tmp_path)(bound=WithGradient())["x"] == 2
    graph = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 20]> g (double x) => (double y) { y = Add (x, x) }')
    assert mdf_loop.run(graph, x=WithGradient())["y"] == 4


SHAPES = {
    "[3]": (3,),
    "(3,)": (3,),
    "3": (3,),
    "[3.0]": (3,),
    "(1, 3)": (1, 3),
    "(n, 3)": None,
    "[-1]": None,
}
"""Shapes as texts of a file, with what they mean; None for those at which nothing looks."""


def with_shape(folder, shape):
    """A file of a model whose input declares a shape."""
    path = folder / "m.yaml"
    ports = f"{{x: {{shape: {shape}}}}}"
    node = f"{{input_ports: {ports}, output_ports: {{y: {{value: x * 2}}}}}}"
    path.write_text(f"m: {{format: ModECI MDF v0.4, graphs: {{g: {{nodes: {{a: {node}}}}}}}}}\n")
    return path


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_of_a_port_is_compared_with_what_is_given(tmp_path, shape):
    path, known = with_shape(tmp_path, f"'{shape}'"), SHAPES[shape]
    model = mdf_loop.load(path)
    assert tuple(model.graphs[0].nodes[0].input_ports[0].shape) == (known or ())
    findings = [str(each) for each in check(path)]
    assert any("a/x: its shape is" in each and "[3, 2]" in each for each in findings) == (known is None), findings
    wanted = rf"x is declared with shape {re.escape(str([*(known or ())]))}, and is given an array of shape \[4\]"
    with pytest.warns(LoopWarning, match=wanted) if known else contextlib.nullcontext():
        mdf_loop.run(path, x=np.ones(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for right in (np.ones(known or 3), 2.0, [2.0]):
            mdf_loop.run(path, x=right)


def test_a_shape_that_is_a_number_says_how_it_is_written(tmp_path):
    with pytest.raises(LoopError, match=r"shape of an input port must be a list, a text; got a number \(3\); write \[3\]"):
        mdf_loop.load(with_shape(tmp_path, 3))


IN_ANOTHER_ORDER = {
    "x, i, go": lambda x, i, go: (True, x),
    "go, i, x": lambda go, i, x: (True, x),
    "x, i": lambda x, i, y=0: (True, y),
    "i, x, keep_going": lambda i, x, keep_going: (True, x),
    "x, y, iteration": lambda x, y, iteration: (True, x),
}
IN_ORDER = {
    "i, go, x": lambda i, go, x: (True, x),
    "n, go, i": lambda n, go, i: (True, i),
    "t, c, k": lambda t, c, k: (True, k),
    "_, __, i": lambda _, __, i: (True, i),
    "i, c, k": lambda i, c, k: (True, k),
}


@pytest.mark.parametrize("prepare", [lambda function: function, mdf_loop.body], ids=["called", "read"])
def test_parameters_in_another_order_are_warned_of(prepare):
    for function in IN_ANOTHER_ORDER.values():
        with pytest.warns(LoopWarning, match=r"a Loop gives a function \(i, go, \*carried values\) in this order"):
            mdf_loop.loop(2, True, 1.0, body=prepare(function))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in IN_ORDER.values():
            mdf_loop.loop(2, True, 1.0, body=prepare(function))
        assert mdf_loop.scan(0.0, [1.0, 2.0], body=prepare(lambda go, i: go + i), num_scan_inputs=1) == 3


def test_values_of_a_function_have_the_names_of_its_parameters():
    def step(i, go, x, y_out):
        return True, x, np.log(y_out - 1.0)

    with pytest.warns(LoopWarning, match="y_out became nan"), np.errstate(all="ignore"):
        mdf_loop.loop(2, True, 1.0, 0.5, body=step)

    class Model:
        def step(self, i, go, v, *, w):
            return True, np.log(v - w)

    with pytest.warns(LoopWarning, match="Loop: v became nan"), np.errstate(all="ignore"):
        mdf_loop.loop(2, True, 0.5, body=Model().step, w=1.0)
    assert mdf_loop.loop(2, True, 0.5, body=lambda *values: (True, values[2] + 1)) == 2.5
    assert mdf_loop.loop(2, True, 0.5, 1.0, body=lambda i, go, x, x_out: (True, x + 1, x_out))[0] == 2.5
