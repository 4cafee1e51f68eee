"""What can run inside a Loop: element types, versions, random operators, control flow, real models."""

import warnings

import numpy as np
import onnx
import pytest
from bodies import MODELS, as_onnxruntime, model, onnxruntime_loop, onnxruntime_run, passing, same, stopping_after
from node_cases import assert_same

from mdf_loop import LoopError, backend, loop, options
from mdf_loop.types.elements import NAMES

# Element types


def values_of(name):
    """Two values of an element type."""
    if name == "string":
        return np.array(["one", "zwölf"], object)
    return np.array([1, 2 if name == "float8e8m0" else 0]).astype(NAMES[name])


TYPES = [
    "float",
    "double",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]
TYPES += ["complex64", "complex128", "string", "int4", "uint4", "int2", "uint2", "float4e2m1", "float8e8m0"]
TYPES += ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"]


@pytest.mark.parametrize("m", [0, 1, 3])
@pytest.mark.parametrize("name", TYPES)
def test_every_element_type_can_be_carried_and_collected(name, m):
    for value in (values_of(name), np.array(values_of(name)[1])):
        kind = name + ("[2]" if value.ndim else "")
        x, s = loop(m, True, value, body={"onnx": passing(kind), "opset": 25})
        assert_same(x, value, 0, 0)
        assert_same(s, np.array([value] * m).reshape(m, *value.shape).astype(value.dtype), 0, 0)


@pytest.mark.parametrize("name", [t for t in TYPES[:13] if t not in ("bfloat16",)] + ["string"])
def test_element_types_agree_with_onnxruntime(name):
    if name != "string":  # onnxruntime loses collected strings
        as_onnxruntime(passing(name + "[2]"), 3, True, values_of(name))
    as_onnxruntime(passing(name + "[2]", collected=False), 3, True, values_of(name))


def test_sequences_grow_while_they_are_carried():
    body = """b (int64 i, bool c, seq(int64) q) => (bool c, seq(int64) r, int64 n) {
        r = SequenceInsert (q, i) n = SequenceLength (r)
    }"""
    given = [np.array(7)]
    sequence, lengths = loop(3, True, given, body=body)
    assert ([v.tolist() for v in sequence], lengths.tolist()) == ([7, 0, 1, 2], [2, 3, 4])
    assert len(given) == 1, "the sequence that was given must not grow"
    assert loop(0, True, given, body=body)[0] is not given
    same(loop(3, True, given, body=body), onnxruntime_loop(body, np.int64(3), np.array(True), [given]))


def test_sequence_may_start_empty():
    body = "b (int64 i, bool c, seq(int64) q) => (bool c, seq(int64) r) { r = SequenceInsert (q, i) }"
    assert [v.tolist() for v in loop(2, True, [], body=body)] == [0, 1]


def test_optionals_are_carried_and_may_become_empty_or_full():
    body = """b (int64 i, bool c, optional(float) x) => (bool c, optional(float) y, bool had) {
        had = OptionalHasElement (x)
        y = If (had) <then_branch = t () => (optional(float) e) { e = Optional <type = float> () },
                      else_branch = e () => (optional(float) f) { f = Optional (k) }>
    }"""
    x, had = loop(3, True, None, body=body, k=2.5)
    assert (x.tolist(), had.tolist()) == (2.5, [False, True, False])
    x, had = loop(3, True, 1.0, body=body, k=2.5)
    assert (x, had.tolist()) == (None, [True, False, True])


def test_whole_numbers_wrap_around_without_a_warning():
    body = "b (int64 i, bool c, int8 x) => (bool c, int8 y, int8 s) { y = Add (x, x) s = Identity (y) }"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loop(3, True, np.int8(100), body=body)[1].tolist() == [-56, -112, 32]


@pytest.mark.parametrize("shape", [(), (2,)])
def test_nan_and_infinity_come_without_a_warning(shape):
    body = "b (int64 i, bool c, x) => (bool c, y, r, t) { y = Mul (x, x) r = Div (x, z) t = Sub (r, r) }"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, r, t = loop(3, True, np.full(shape, 1e30, np.float32), body=body, z=np.float32(0))
    assert np.isinf(x).all()
    assert np.isinf(r).all()
    assert np.isnan(t).all()


# Versions


LOOP_VERSIONS = [1, 11, 13, 16, 19, 21, 23, 24, 25]


@pytest.mark.parametrize("opset", LOOP_VERSIONS)
def test_every_version_of_loop_runs(opset):
    body = "b (int64 i, bool c, float x) => (bool c, float y, float s) { y = Add (x, x) s = Identity (x) }"
    x, s = loop(3, True, 1.0, body={"onnx": body, "opset": opset})
    assert (x.tolist(), s.tolist()) == (8, [1, 2, 4])


@pytest.mark.parametrize("opset", [11, 13, 16, 19, 21])
def test_versions_of_loop_agree_with_onnxruntime(opset):
    as_onnxruntime(stopping_after(3), 9, True, np.float32(1), opset=opset)


def test_body_follows_the_opset_of_its_model():
    body = "b (int64 i, bool c, float[N] v) => (bool c, float[N] w, u) {{ {nodes} }}"
    text = f'main (float[2] x, int64 n) => (y, s) {{{{ y, s = Loop <body = {body}> (n, "", x) }}}}'
    old = (
        "t = Unsqueeze <axes = [0]> (v) r = ReduceSum <axes = [0], keepdims = 0> (t) w = Add (r, v) u = Squeeze <axes = [0]> (t)"
    )
    new = """a = Constant <value_ints = [0]> () t = Unsqueeze (v, a) r = ReduceSum <keepdims = 0> (t, a)
        w = Add (r, v) u = Squeeze (t, a)"""
    given = [np.array([1, 2], np.float32), np.int64(3)]
    for opset, nodes in ((11, old), (13, new)):
        y, s = backend.run_model(model(text.format(nodes=nodes), opset), given)
        assert (y.tolist(), s.tolist()) == ([8, 16], [[1, 2], [2, 4], [4, 8]])
    for opset, nodes in ((13, old), (11, new)):
        with pytest.raises(LoopError):
            backend.run_model(model(text.format(nodes=nodes), opset), given)


def test_model_local_functions_are_inlined_into_bodies():
    from onnx import parser

    source = parser.parse_model("""<ir_version: 10, opset_import: ["": 18, "local": 1]>
        main (float x, int64 n) => (float y) {
            y = Loop <body = b (int64 i, bool c, float v) => (bool c, float w) { w = local.step (v) }> (n, "", x)
        }
        <opset_import: ["": 18, "local": 1], domain: "local"> step (v) => (w) { t = local.twice (v) w = Add (t, v) }
        <opset_import: ["": 18], domain: "local"> twice (v) => (w) { w = Add (v, v) }
    """)
    (y,) = backend.run_model(source, [np.float32(1), np.int64(3)])
    assert y == 27
    same((y,), onnxruntime_run(source, {"x": np.float32(1), "n": np.int64(3)}))


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ("bool c, float t, float s", [2, 4, 6]),
        ("bool c, float t, float v", [2, 2, 2]),
        ("bool c, float t, float t", [4, 6, 8]),
        ("bool c, float t, float k", [1, 1, 1]),
        ("bool c, float t, int64 i", [0, 1, 2]),
    ],
    ids=["input", "captured value", "repeated", "constant", "iteration number"],
)
def test_body_in_a_model_local_function_may_have_any_output(outputs, expected):
    source = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 18, "local": 1]>
        main (float x, int64 n) => (float y, z, int64 m) {{ y, z, m = local.repeat (n, x) }}
        <opset_import: ["": 18], domain: "local"> repeat (n, v) => (w, q, n) {{
            w, q = Loop <body = b (int64 i, bool c, float s) => ({outputs}) <float k = {{1}}> {{ t = Add (s, v) }}> (n, "", v)
        }}
    """)
    y, z, m = backend.run_model(source, [np.float32(2), np.int64(3)])
    assert (y.tolist(), z.tolist(), m.tolist()) == (8, expected, 3)


def test_loop_in_a_model_local_function_captures_the_functions_input():
    source = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 18, "local": 1]>
        main (float x, int64 n) => (float y) { y = local.repeat (n, x) }
        <opset_import: ["": 18], domain: "local"> repeat (n, v) => (w) {
            w = Loop <body = b (int64 i, bool c, float s) => (bool c, float t) { t = Add (s, v) }> (n, "", v)
        }
    """)
    assert backend.run_model(source, [np.float32(2), np.int64(3)])[0] == 8


# Random operators


NOISE = "b (int64 i, bool c) => (bool c, float[3] s) { s = RandomNormal <shape = [3]> () }"


def test_random_operators_differ_in_every_iteration_and_repeat_with_the_seed():
    def draw(seed):
        with options(seed=seed):
            return loop(4, True, body=NOISE)

    assert len(np.unique(draw(1))) == 12
    np.testing.assert_array_equal(draw(1), draw(1))
    assert not np.array_equal(draw(1), draw(2))
    assert not np.array_equal(draw(None), draw(None))


def test_random_operators_with_a_seed_of_their_own_differ_in_every_iteration_too():
    body = NOISE.replace("<", "<seed = 3.0, ")
    first, second = loop(4, True, body=body), loop(4, True, body=body)
    assert len(np.unique(first)) == 12
    np.testing.assert_array_equal(first, second)


def test_loops_started_by_a_python_body_draw_from_the_stream_of_the_outer_loop():
    def outer(i, cond):
        return cond, loop(1, True, body=NOISE)

    with options(seed=5):
        first, second = loop(3, True, body=outer), loop(3, True, body=outer)
    assert len(np.unique(first)) == 9
    np.testing.assert_array_equal(first, second)


# Control flow inside


def test_scan_inside_a_loop_inside_a_loop():
    scan = "sc (float s, float v) => (float t, float o) { t = Add (s, v) o = Identity (t) }"
    scanning = f"f, z = Scan <num_scan_inputs = 1, body = {scan}> (zero, y)"
    inner = f"inner (int64 j, bool d, float[3] y) => (bool d, float[3] z) {{ {scanning} }}"
    looping = f'w = Loop <body = {inner}> (i, "", v)'
    text = f"""main (float[3] x, int64 n) => (float[3] y) <float zero = {{0}}> {{
        y = Loop <body = outer (int64 i, bool c, float[3] v) => (bool c, float[3] w) {{ {looping} }}> (n, "", x)
    }}"""
    given = {"x": np.array([1, 2, 3], np.float32), "n": np.int64(4)}
    results = backend.run_model(model(text), list(given.values()))
    expected = given["x"]
    for i in range(4):
        for _ in range(i):
            expected = np.cumsum(expected)
    np.testing.assert_array_equal(results[0], expected)
    same(results, onnxruntime_run(model(text), given))


def test_error_in_an_inner_loop_says_where_from_the_outside_in():
    inner = "inner (int64 j, bool d, float[N] y) => (bool d, float[M] z) { z = Add (y, k) }"
    body = f"outer (int64 i, bool c, float[N] x) => (bool c, float[M] z) {{ z = Loop <body = {inner}> (i, c, x) }}"
    with pytest.raises(LoopError, match=r"^iteration 1 of Loop, iteration 0 of Loop: Add -> z failed on"):
        loop(3, True, np.zeros(2), body=body, k=np.zeros(3))


# Real models, exported from PyTorch


MODEL_INPUTS = {
    "for_ts": {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(5)},
    "nested_ts": {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(5)},
    "while_ts": {"x": np.arange(6, dtype=np.float32).reshape(2, 3)},
    "while_loop_dyn": {"x": np.arange(6, dtype=np.float32).reshape(2, 3)},
    "scan_dyn": {"xs": np.arange(15, dtype=np.float32).reshape(5, 3), "init": np.ones(3, np.float32)},
    "cond_dyn": {"x": np.arange(6, dtype=np.float32).reshape(2, 3)},
}


@pytest.mark.parametrize("name", MODEL_INPUTS)
def test_exported_models_give_what_onnxruntime_gives(name):

    source, inputs = onnx.load(MODELS / f"{name}.onnx"), MODEL_INPUTS[name]
    for scale in (1, -1):
        given = {key: value * scale if value.dtype == np.float32 else value for key, value in inputs.items()}
        same(backend.run_model(source, given), onnxruntime_run(source, given), rtol=1e-5)
