"""``to_jax``: models and bodies as functions of JAX, which differentiates, vectorises and compiles them."""

import numpy as np
import onnx
import onnx.parser
import pytest
from modeci_mdf.mdf import Graph, InputPort, Node, OutputPort, Parameter
from onnx import helper

import mdf_loop
from mdf_loop.errors import ArgumentError, IterationError, IterationLimit, KindError, LoopError, MalformedBody, UnsupportedOp

jax = pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')
jnp = jax.numpy

FHN, DDM, NEWTON = "examples/gallery/fitzhugh_nagumo.yaml", "examples/drift_diffusion.yaml", "examples/newton.yaml"

ADD_UP = "b (int64 i, bool c, double s) => (bool c, double t) { x = Gather (w, i) t = Add (s, x) }"


pytestmark = pytest.mark.usefixtures("in_64_bits", "compiled_quickly")


def interpreted(model, **arguments):
    with mdf_loop.options(engine="interpret"):
        return mdf_loop.run(model, **arguments)


def slope(function, x, h=1e-6):
    """A central difference."""
    return (function(x + h) - function(x - h)) / (2 * h)


def test_a_model_gives_what_it_gives_interpreted():
    f, want = mdf_loop.to_jax(FHN), interpreted(FHN, current=0.4)
    found = f(current=0.4)
    assert list(found) == list(f.outputs) == list(want)
    for name in want:
        np.testing.assert_allclose(found[name], want[name], rtol=1e-11)


LINEAR = {"function": "linear", "args": {"variable0": "count", "slope": 2, "intercept": 1}}


@pytest.mark.parametrize("how", [{"value": "count + 1"}, LINEAR])
def test_the_start_of_a_parameter_with_a_state_may_be_traced(how):
    parameters = [Parameter(id="count", default_initial_value=1.0, **how)]
    model = Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=[OutputPort(id="o", value="count * 2")])])
    for given in ({}, {"count": 5.0}):
        assert mdf_loop.to_jax(model)(**given)["o"] == interpreted(model, **given)["o"]


@pytest.mark.parametrize(
    "text", ["numpy.reshape(x, (-1, numpy.shape(x)[-1]))", "numpy.array([x, 2 * x])", "x ** 1", "x[:, 0] ** 1"]
)
def test_arrays_made_of_arrays_that_are_traced(text):
    """What PsyNeuLink's functions of several ports are written in."""
    value = np.array([[1.0, np.inf, -0.0], [np.nan, 0.5, -3.0]])
    port = InputPort(id="x", shape=(2, 3), type="float64")
    model = Graph(id="g", nodes=[Node(id="n", input_ports=[port], output_ports=[OutputPort(id="o", value=text)])])
    np.testing.assert_array_equal(mdf_loop.to_jax(model)(x=value)["o"], interpreted(model, x=value)["o"])


def test_gradients_and_second_derivatives_are_those_of_differences():
    f = mdf_loop.to_jax(FHN, outputs=["voltage"])

    def mean(current):
        return f(current=current)["voltage"].mean()

    np.testing.assert_allclose(jax.jit(jax.grad(mean))(0.5), slope(mean, 0.5), rtol=1e-6)
    np.testing.assert_allclose(jax.jvp(mean, (0.5,), (1.0,))[1], slope(mean, 0.5), rtol=1e-6)
    np.testing.assert_allclose(jax.hessian(mean)(0.5), slope(jax.grad(mean), 0.5, 1e-5), rtol=1e-5)


def test_many_runs_are_one_call():
    f, currents = mdf_loop.to_jax(FHN, outputs=["voltage"]), np.linspace(0, 1, 4)
    found = jax.vmap(lambda current: f(current=current)["voltage"])(currents)
    for row, current in zip(found, currents, strict=True):
        np.testing.assert_allclose(row, interpreted(FHN, current=current)["voltage"], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("checkpoint", [0, 7, 100])
def test_a_loop_that_ends_early_has_a_gradient_up_to_max_steps(checkpoint):
    f = mdf_loop.to_jax(NEWTON, outputs=["root"], max_steps=40, checkpoint=checkpoint)
    np.testing.assert_allclose(jax.grad(lambda a: f(a=a)["root"])(2.0), 0.5 / np.sqrt(2), rtol=1e-12)
    np.testing.assert_allclose(jax.hessian(lambda a: f(a=a)["root"])(2.0), -0.25 * 2**-1.5, rtol=1e-12)


def test_checkpoints_that_do_not_divide_the_steps_change_nothing():
    plain, kept = (mdf_loop.to_jax(FHN, outputs=["voltage"], checkpoint=k) for k in (0, 300))
    both = [jax.grad(lambda current, f=f: f(current=current)["voltage"].sum())(0.5) for f in (plain, kept)]
    np.testing.assert_allclose(*both, rtol=1e-12)


def test_without_a_bound_there_is_forward_mode_and_an_error_that_says_what_to_give():
    f = mdf_loop.to_jax(NEWTON, outputs=["root"])
    np.testing.assert_allclose(f(a=9.0)["root"], 3.0)
    np.testing.assert_allclose(jax.jvp(lambda a: f(a=a)["root"], (2.0,), (1.0,))[1], 0.5 / np.sqrt(2))
    with pytest.raises(UnsupportedOp, match="max_steps=N"):
        jax.grad(lambda a: f(a=a)["root"])(2.0)


def test_what_is_collected_of_a_loop_that_ends_early_has_a_length():
    want = interpreted(NEWTON)["guesses"]
    found = mdf_loop.to_jax(NEWTON, max_steps=30)()
    assert found["guesses"].shape == (30,)
    assert int(found["guesses_length"]) == len(want)
    np.testing.assert_allclose(found["guesses"][: len(want)], want, rtol=1e-15)
    assert not found["guesses"][len(want) :].any()
    with pytest.raises(UnsupportedOp, match="max_steps=N"):
        mdf_loop.to_jax(NEWTON)()


def test_a_dead_iteration_poisons_no_gradient():
    """The body divides by 0 once the loop has ended."""
    text = """b (int64 i, bool c, double s) => (bool d, double t) {
        r = Sqrt (s) u = Div (w, r) t = Sub (s, u) d = Less (h, t) }"""
    f = mdf_loop.to_jax(text, max_steps=50)

    def end(w):
        return f(cond=True, s=4.0, w=w, h=0.2)["t"]

    for batched in (False, True):
        grad = jax.grad(lambda w, b=batched: jax.vmap(end)(jnp.stack([w, w])).sum() / 2 if b else end(w))
        assert np.isfinite(grad(0.5))
        np.testing.assert_allclose(grad(0.5), slope(end, 0.5), rtol=1e-6)


def test_random_numbers_by_a_key():
    f = mdf_loop.to_jax(DDM, outputs=["reaction_time"])
    first, again, other = (f(key=key)["reaction_time"] for key in (1, 1, 2))
    assert first == again != other
    times = jax.vmap(lambda key: f(drift=1.0, key=key)["reaction_time"])(jax.random.split(jax.random.key(0), 500))
    assert abs(float(times.mean()) - 1.083) < 0.15
    with pytest.raises(ArgumentError, match=r"key=jax.random.key\(0\)"):
        f()


def test_random_numbers_that_are_given_are_those_of_the_interpreter():
    f = mdf_loop.to_jax(DDM)
    assert {name: (draw.kind, draw.shape) for name, draw in f.draws.items()} == {"z": ("standard normal", (5000,))}
    for seed in range(3):
        noise = {"z": np.random.default_rng(seed).standard_normal(5000)}
        found, want = f(drift=1.5, noise=noise), interpreted(DDM, drift=1.5, seed=seed)
        assert int(found["path_length"]) == len(want["path"])
        np.testing.assert_allclose(found["path"][: len(want["path"])], want["path"], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found["reaction_time"], want["reaction_time"], rtol=1e-14)
    with pytest.raises(ArgumentError, match="nothing draws 'y'"):
        f(noise={"z": noise["z"], "y": 1.0})
    with pytest.raises(ArgumentError, match="no numbers for 'z'"):
        f(noise={})


def test_common_random_numbers_give_the_gradient_of_a_path():
    f = mdf_loop.to_jax(DDM, outputs=["evidence"])
    noise = {"z": np.random.default_rng(3).standard_normal(5000)}

    def evidence(drift):
        return f(drift=drift, noise=noise)["evidence"]

    np.testing.assert_allclose(jax.grad(evidence)(1.0), slope(evidence, 1.0, 1e-7), rtol=1e-5)


def test_a_body_is_a_function_too():
    f = mdf_loop.to_jax(ADD_UP)
    assert list(f.inputs) == ["M", "cond", "s", "w"]
    assert list(f.outputs) == ["t"]
    w = jnp.arange(4.0)
    np.testing.assert_allclose(f(M=3, cond=True, s=0.5, w=w)["t"], 3.5)
    np.testing.assert_allclose(jax.grad(lambda w: f(M=3, cond=True, s=0.5, w=w)["t"])(w), [1, 1, 1, 0])


def test_a_trip_count_may_be_traced():
    f = mdf_loop.to_jax(ADD_UP, max_steps=10)
    counts, w = jnp.arange(5), jnp.arange(10.0)
    found = jax.vmap(lambda n: f(M=n, cond=True, s=0.0, w=w)["t"])(counts)
    np.testing.assert_allclose(found, [0, 0, 1, 3, 6])
    np.testing.assert_allclose(jax.grad(lambda w: f(M=jnp.asarray(2), cond=True, s=0.0, w=w)["t"])(w), [1, 1] + [0] * 8)


@pytest.mark.parametrize("form", ["equations", "compiled", "traced"])
def test_bodies_of_other_forms(form):
    if form == "traced":

        @mdf_loop.body
        def body(i, go, x):
            return True, x * rate

        rate = 0.5
        f = mdf_loop.to_jax(body)
        assert float(f(M=3, cond=True, x=8.0)["x_out" if "x_out" in f.outputs else next(iter(f.outputs))]) == 1.0
        return
    f = mdf_loop.to_jax("x: x * rate" if form == "equations" else mdf_loop.compile("x: x * rate"))
    assert float(f(M=3, x=8.0, rate=0.5)["x"]) == 1.0
    assert list(f.outputs) == ["x"]


def test_errors_of_a_run_are_found_by_checkify():
    from jax.experimental import checkify

    f = mdf_loop.to_jax(ADD_UP, checks=True)
    error, _ = checkify.checkify(lambda w: f(M=7, cond=True, s=0.5, w=w))(jnp.arange(4.0))
    assert "index 4 is out of bounds for axis of size 4" in error.get()
    short = mdf_loop.to_jax(NEWTON, max_steps=2, checks=True)
    error, _ = checkify.checkify(lambda a: short(a=a))(2.0)
    assert "more than max_steps iterations, which are 2" in error.get()
    error, _ = checkify.checkify(lambda w: f(M=4, cond=True, s=0.5, w=w))(jnp.arange(4.0))
    assert error.get() is None


OUTSIDE = "index [1 7] is out of bounds for axis of size 4"

WRONG = {
    "y = Gather (w, k)": OUTSIDE,
    "y = GatherElements (w, k)": OUTSIDE,
    "q = Unsqueeze <axes = [1]> (k) y = GatherND (w, q)": OUTSIDE,
    "u = Cast <to = 11> (k) y = ScatterElements (w, k, u)": "an index is out of bounds for axis 0 of size 4",
}


@pytest.mark.parametrize("nodes", WRONG)
def test_places_outside_are_found_by_checkify(nodes):
    from jax.experimental import checkify

    text = f"b (int64 i, bool c, double s) => (bool c, double t) {{ {nodes} r = ReduceSum <keepdims = 0> (y) t = Add (s, r) }}"
    f = mdf_loop.to_jax(text.replace("b (", '<ir_version: 8, opset_import: ["": 11]> b ('), checks=True)
    checked = checkify.checkify(lambda w, k: f(M=2, cond=True, s=0.5, w=w, k=k)["t"])
    w = jnp.arange(4.0)
    assert checked(w, jnp.array([1, -4]))[0].get() is None
    assert WRONG[nodes] in checked(w, jnp.array([1, 7]))[0].get()
    with pytest.raises(IterationError):
        mdf_loop.loop(
            2, True, 0.5, body=text.replace("b (", '<ir_version: 8, opset_import: ["": 11]> b ('), w=w, k=np.array([1, 7])
        )


@pytest.mark.parametrize(
    ("text", "x", "message"),
    [
        ("1 / x", 0.0, "division by zero"),
        ("5 // x", 0.0, "division by zero"),
        ("math.log(x)", -1.0, "math domain error"),
        ("math.exp(x)", 1e4, "too large"),
        ("x ** 400.0", 1e4, "too large"),
        ("x + 1", 0.0, None),
        ("math.sqrt(x)", 2.0, None),
    ],
)
def test_what_python_refuses_is_found_by_checkify(text, x, message):
    from jax.experimental import checkify

    model = mdf_loop.prepare(
        Graph(
            id="g",
            nodes=[
                Node(
                    id="n",
                    parameters=[Parameter(id="x", value=1.0), Parameter(id="y", value=text)],
                    output_ports=[OutputPort(id="out", value="y")],
                )
            ],
        )
    )
    error, _ = checkify.checkify(lambda x: mdf_loop.to_jax(model, checks=True)(x=x))(x)
    if message is None:
        assert error.get() is None
        return
    assert message in error.get()
    with pytest.raises(LoopError):
        model(x=x)


MODEL = """
{name}:
  format: ModECI MDF v0.4
  graphs:
    {name}:
      nodes:
        seen:
          input_ports:
            start: {{default_value: [1.0, 2.0]}}
          parameters:
            body:
              value:
                onnx: |
                  b (int64 i, bool c, {kind} s) => (bool c, {kind} t) {{
                      {nodes}
                  }}
            run:
              function: onnx::Loop
              args: {{M: 3, cond: true, v_initial: {start}, body: body}}
          output_ports:
            last: {{value: run}}
"""

REFUSED = {
    "grows": ({"kind": "double[n]", "nodes": "t = Concat <axis = 0> (s, s)", "start": "start"}, r"carries 's', float64\[\?\]"),
    "collects": ({"kind": "seq(double)", "nodes": "t = SequenceInsert (s, start)", "start": "[]"}, "list"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_form_is_refused_with_node_and_line(name, tmp_path):
    said, message = REFUSED[name]
    path = tmp_path / f"{name}.yaml"
    path.write_text(MODEL.format(name=name, **said))
    with pytest.raises(UnsupportedOp, match=rf"seen.run.*{message}") as caught:
        mdf_loop.to_jax(path)()
    line = 1 + path.read_text().splitlines().index("            run:")
    assert f"{name}.yaml, line {line}" in "".join(caught.value.__notes__)


def test_text_is_refused(tmp_path):
    text = helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [2])
    twice = helper.make_node("StringConcat", ["x", "x"], ["y"], name="twice")
    graph = helper.make_graph([twice], "g", [text], [helper.make_value_info("y", onnx.TypeProto())])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), tmp_path / "text.onnx")
    with pytest.raises(UnsupportedOp, match="a text has no form in JAX") as caught:
        mdf_loop.to_jax(tmp_path / "text.onnx")(x=["a", "b"])
    assert "text.onnx" in "".join(caught.value.__notes__)


def test_a_value_that_nothing_gives_is_named(tmp_path):
    path = tmp_path / "reads.yaml"
    path.write_text(MODEL.format(name="reads", kind="double[2]", nodes="t = Add (s, w)", start="start"))
    with pytest.raises(MalformedBody, match="'w', which nothing in the model provides"):
        mdf_loop.to_jax(path)()


def test_double_precision_has_to_be_on():
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(ArgumentError, match="jax_enable_x64"):
            mdf_loop.to_jax(FHN)()
        with pytest.raises(ArgumentError, match=r"^the model computes in float64, and JAX has 32 bits"):
            mdf_loop.to_jax("examples/newton.yaml")(a=2.0)
        narrow = mdf_loop.to_jax(ADD_UP.replace("double", "float"))
        found = narrow(M=3, cond=True, s=0.5, w=np.arange(4, dtype=np.float32))["t"]
        assert found.dtype == np.float32
        assert float(found) == 3.5
    finally:
        jax.config.update("jax_enable_x64", True)


def test_it_says_how_it_runs():
    told = mdf_loop.to_jax(DDM, max_steps=100).explain()
    assert "a while; for gradients in reverse mode a scan over at most 100 iterations" in told or "at most 5000" in told
    assert "draws z: standard normal, [5000]" in told
    assert "a scan over 4000 iterations" in mdf_loop.to_jax(FHN).explain()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b (int64 i, bool c, double[?] s) => (bool c, double[?] t) { t = Concat <axis = 0> (s, s) }", r"float64\[\?\]"),
        ("b (int64 i, bool c, seq(double) s) => (bool c, seq(double) t) { t = SequenceInsert (s, w) }", "list"),
    ],
)
def test_what_grows_is_refused(text, message):
    with pytest.raises((UnsupportedOp, ArgumentError), match=message):
        mdf_loop.to_jax(text)(M=3, cond=True, s=np.ones(2), **({"w": np.ones(2)} if "w)" in text else {}))


def test_names_that_are_not_there():
    with pytest.raises(ArgumentError, match="no output 'volt'"):
        mdf_loop.to_jax(FHN, outputs=["volt"])
    with pytest.raises(ArgumentError, match="curent"):
        mdf_loop.to_jax(FHN)(curent=0.5)
    with pytest.raises(ArgumentError, match="missing: w"):
        mdf_loop.to_jax(ADD_UP)(M=2, s=1.0)


def test_more_than_max_steps_iterations_are_an_error():
    f = mdf_loop.to_jax(NEWTON, max_steps=2)
    with pytest.raises(IterationLimit, match="newton: a loop wants more than max_steps=2 iterations"):
        f(a=2.0)
    root = mdf_loop.to_jax(NEWTON, max_steps=2, outputs=["root"])
    assert float(root(a=2.0)["root"]) == pytest.approx(np.sqrt(2)), "a while needs no such number"
    with pytest.raises(IterationLimit):
        jax.grad(lambda a: root(a=a)["root"])(2.0)


DOUBLES = (
    "y = Loop (many, yes, x) <body = d (int64 j, bool e, double u) => (bool goes, double v)"
    " { v = Add (u, u) goes = Less (v, hundred) }>"
)
CONSTANTS = (
    "many = Constant <value = int64 {1000}> () yes = Constant <value = bool {1}> () hundred = Constant <value = double {100}> ()"
)

EARLY = {
    "in a loop": f"b (int64 i, bool c, double x) => (bool c, double y) {{ {CONSTANTS} {DOUBLES} }}",
    "in a branch of a loop": (
        f"b (int64 i, bool c, double x) => (bool c, double z) {{ {CONSTANTS} z = If (yes)"
        f" <then_branch = t () => (double y) {{ {DOUBLES} }}, else_branch = f () => (double y) {{ y = Neg (x) }}> }}"
    ),
}


@pytest.mark.parametrize("where", EARLY)
def test_gradients_of_more_than_max_steps_iterations_are_nan_where_jax_has_no_errors(where):
    """From 1.5 it doubles 7 times, which multiplies by 128."""
    slopes = []
    for most in (6, 7):
        f = mdf_loop.to_jax(EARLY[where], max_steps=most)
        slopes.append(jax.jit(jax.vmap(jax.grad(lambda x, f=f: f(M=1, x=x)[next(iter(f.outputs))])))(jnp.array([1.5, 1.6])))
    np.testing.assert_array_equal(slopes, [[np.nan, 64], [128, 64]])


def test_results_that_max_steps_cuts_are_no_numbers_where_jax_has_no_errors():
    f = mdf_loop.to_jax(NEWTON, max_steps=5)
    found = jax.vmap(lambda a: f(a=a))(jnp.array([1.0, 2.0]))
    want = jax.vmap(lambda a: mdf_loop.to_jax(NEWTON, max_steps=50)(a=a))(jnp.array([1.0, 2.0]))
    assert np.isnan(found["root"][1])
    assert np.isnan(found["guesses"][1]).all()
    assert int(found["guesses_length"][1]) == np.iinfo(np.int64).min
    assert found["root"][0] == want["root"][0]
    assert int(found["guesses_length"][0]) == int(want["guesses_length"][0]) <= 5


@pytest.mark.parametrize("source", ["FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16"])
@pytest.mark.parametrize("target", ["INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "INT4", "UINT4"])
def test_casts_of_what_whole_numbers_cannot_hold(source, target):
    """The lowest number of int64 or int32, cut to the type; numpy has several results for uint32, and JAX that of one number."""
    numbers = [0.0, -0.0, 1.5, -1.5, -5.7, 127.9, 128, 200, 255.5, 256, -129, 4e4, 65535.9, 65536, -32769, 2147483647.5, 2.0**31]
    numbers += [-2147483648.5, -2147483649.0, 4294967295.5, 2.0**32, 1e12, -1e12, 9.2e18, 2.0**63, -(2.0**63), -1e19, 1e25]
    numbers += [np.inf, -np.inf, np.nan]
    code = {name: getattr(onnx.TensorProto, name) for name in (source, target)}
    with np.errstate(all="ignore"):
        x = np.array(numbers).astype(helper.tensor_dtype_to_np_dtype(code[source]))
    wide = x.astype(float)
    x = x[(wide >= -(2.0**31)) & (wide < 2.0**32)] if target == "UINT32" else x
    body = f"b (int64 i, bool c) => (bool c, {target.lower()}[n] y) {{ y = Cast <to = {code[target]}> (x) }}"
    with mdf_loop.options(engine="interpret"):
        want = mdf_loop.loop(1, True, body=body, x=x)
    found = mdf_loop.to_jax(body)(M=1, x=x)["y"]
    np.testing.assert_array_equal(np.asarray(found).astype(object), np.asarray(want).reshape(found.shape).astype(object))


def test_values_by_position_are_what_is_wrong_not_the_input_by_name():
    f = mdf_loop.to_jax("x: x + drift")
    with pytest.raises(KindError) as refused:
        f(100, True, 0.0, drift=1.0)
    assert "no argument" not in str(refused.value)
    assert "by name" in str(refused.value)
    with pytest.raises(ArgumentError, match="no output 'y'; there are x"):
        mdf_loop.to_jax("x: x + 1", outputs=["y"])
