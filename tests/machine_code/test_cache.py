"""What is kept of bodies: nothing of a Python function, and so many bytes of the others."""

import gc
import weakref

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, InputPort, Node, OutputPort, Parameter
from onnx import TensorProto, helper, numpy_helper

from mdf_loop import compile as compile_body
from mdf_loop import if_, loop, options, scan
from mdf_loop.calls import prepared as preparing
from mdf_loop.calls.content_cache import Cache, fingerprint, size_of
from mdf_loop.ir import Body


class Held(np.ndarray):
    """An array that can be watched."""


def closing_over(held):
    """A call of each function that takes Python bodies, with a body that closes over an array."""
    plain = held.view(np.ndarray)
    return [
        lambda: loop(70, True, 0.0, body=lambda i, c, s: (True, s + plain[0], s)),
        lambda: scan(0.0, np.ones(70), body=lambda s, x: (s + plain[0] * x, s), num_scan_inputs=1),
        lambda: if_(True, then_branch=lambda: plain[0] + 1, else_branch=lambda: plain[1]),
        lambda: loop(3, True, 0.0, body=Adding(plain)),
        lambda: loop(3, True, 0.0, body=Adding(plain).method),
    ]


class Adding:
    def __init__(self, held):
        self.held = held

    def __call__(self, i, c, s):
        return True, s + self.held[0]

    method = __call__


@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
@pytest.mark.parametrize("which", range(5))
def test_python_bodies_end_with_the_callers_last_reference(which, engine):
    held = np.ones(3).view(Held)
    seen = weakref.ref(held)
    gc.disable()
    try:
        with options(engine=engine):
            closing_over(held)[which]()
        del held
        assert seen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
def test_values_end_with_the_callers_last_reference(engine):
    held = np.ones(3).view(Held)
    seen = weakref.ref(held)
    text = "b (int64 i, bool c, double[N] s) => (bool c, double[N] t) { v = Add (s, w) t = Mul (v, v) }"
    with options(engine=engine):
        for body in (text, lambda i, c, s, w: (c, s + w)):
            loop(70, True, held.view(np.ndarray), body=body, w=held.view(np.ndarray))
    del held
    gc.collect()
    assert seen() is None


def test_functions_of_one_signature_share_one_preparation():
    preparing._cache.clear()
    for k in range(100):
        assert loop(2, True, 0, body=lambda i, c, s, k=k: (True, s + k)) == 2 * k
    assert len(preparing._cache._entries) == 1


@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
def test_functions_of_one_signature_may_give_other_kinds_of_values(engine):
    bodies = [
        lambda i, c, s: (True, s + 1, s),
        lambda i, c, s: (True, np.asarray(s) + np.float32(1.5), [1, 2]),
        lambda i, c, s: (True, float(np.sum(s)) + 0.5, "text"),
        lambda i, c, s: (i < 20, np.array([np.sum(s)]), i),
    ]
    with options(engine="interpret"):
        wanted = [repr(loop(60, True, 1.0, body=body)) for body in bodies]
    preparing._cache.clear()
    with options(engine=engine):
        for _ in range(2):
            assert [repr(loop(60, True, 1.0, body=body)) for body in bodies] == wanted


def graph_with(weights):
    """An ONNX body with a constant."""
    inputs = [helper.make_tensor_value_info(*said) for said in (("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, []))]
    value = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in "st"]
    nodes = [helper.make_node("Add", ["s", "w"], ["t"])]
    return helper.make_graph(nodes, "b", [*inputs, value[0]], [inputs[1], value[1]], [numpy_helper.from_array(weights, "w")])


def test_bodies_count_with_their_bytes(monkeypatch):
    cache = Cache(most_bytes=1 << 20)
    monkeypatch.setattr(preparing, "_cache", cache)
    for k in range(20):
        loop(1, True, 0.0, body=graph_with(np.full(1 << 14, float(k))))  # 128 KiB each
        assert cache.size <= 1 << 20
        assert cache.size == sum(size for _, size in cache._entries.values())
    assert 4 <= len(cache._entries) <= 8
    assert set(cache._of_body) == {id(entry.body) for entry, _ in cache._entries.values()}


def test_body_larger_than_the_bound_is_not_kept(monkeypatch):
    cache = Cache(most_bytes=1 << 16)
    monkeypatch.setattr(preparing, "_cache", cache)
    for _ in range(2):
        assert loop(2, True, 0.0, body=graph_with(np.ones(1 << 14)))[0] == 2
    assert not cache._entries
    assert cache.size == 0


def test_texts_constants_attributes_and_inner_bodies_have_a_size():
    inner = Body("inner", (), (), constants={"w": np.ones(1000)})
    assert size_of(inner) > 8000
    assert size_of(Body("b", (), (), constants={"a": inner.constants["w"], "b": inner})) < 16000, "counted once"
    assert size_of("x" * 5000) > 5000
    assert size_of(np.array(["y" * 5000], object)) > 5000
    assert size_of([float(k) for k in range(1000)]) > 24000


def mdf_body(weights):
    ports = [InputPort(id=id) for id in ("i", "go", "s")]
    outputs = [OutputPort(id="go_out", value="go"), OutputPort(id="t", value="s + w")]
    node = Node(id="n", input_ports=ports, parameters=[Parameter(id="w", value=weights)], output_ports=outputs)
    return Graph(id="g", nodes=[node], metadata={"inputs": ["i", "go", "s"], "outputs": ["go_out", "t"]})


def test_body_that_is_kept_does_not_change_with_the_graph_it_was_read_from():
    weights = np.array([1.0, 2.0])
    changed = mdf_body(weights)
    for body in (changed, {"graph_g": changed}):
        assert loop(1, True, np.zeros(2), body=body).tolist() == [1, 2]
        weights += 5
        assert loop(1, True, np.zeros(2), body=body).tolist() == [6, 7]
        assert loop(1, True, np.zeros(2), body=mdf_body(np.array([1.0, 2.0]))).tolist() == [1, 2]
        weights -= 5


def test_what_has_no_key_is_read_each_time(monkeypatch):
    assert fingerprint({"onnx": lambda: None}) is None
    cache, read = Cache(), []
    body = Body("b", (), ())
    for _ in range(2):
        assert cache.body(None, lambda: read.append(1) or body) is body
    assert len(read) == 2
    assert not cache._entries


class Script:
    """Something that is called and read, as a function of onnxscript."""

    def __call__(self):
        pass


def test_functions_that_are_read_are_not_kept_alive():
    one, other = Script(), Script()
    assert fingerprint(one) == fingerprint(one) != fingerprint(other)
    key, seen = fingerprint(one), weakref.ref(one)
    cache = Cache()
    cache.body(key, lambda: Body("b", (), ()))
    del one
    assert seen() is None
    assert key != fingerprint(other)
    cache.clear()
    assert not cache._entries


def test_programs_for_shapes_are_bounded():
    body = """b (int64 i, bool c, float[n] y, float[n] x) => (bool c, float[n] y_out, float[n] x) {
        s = Gather (w, i)
        a = Mul (x, s) b = Add (a, x) d = Tanh (b)
        y_out = Add (y, d)
    }"""
    step = compile_body(body)
    with options(engine="numpy"):
        for size in range(2000, 2040):
            step(600, True, np.ones(size, np.float32), np.ones(size, np.float32), w=np.ones(600, np.float32))
    blocks = [found for found in (step._prepared.execute._blocks, step._prepared.execute._one_by_one) if found is not None]
    parts = [part for found in blocks for part in found.stepped.values()]
    assert any(len(part._entries) for part in parts)
    assert all(len(part._entries) <= 17 for part in parts)
