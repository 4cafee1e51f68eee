"""What is called again with values of the same form is run at once, and nothing else is: machine code looks at what it gets."""

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

from mdf_loop import backend, options
from mdf_loop.backends.llvm.linking.call_forms import Form
from mdf_loop.errors import LoopError, LoopInterrupted
from mdf_loop.execute.graphs import Graph
from mdf_loop.options import random_stream, start_run

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
model ({type}[3] x, {type} k) => ({type} last, {type} rows) <int64 n = {{4}}, bool yes = {{1}}>
{{
  last, rows = Loop (n, yes, x) <body = body (int64 i, bool go, {type} a) => (bool on, {type} b, {type} r) {{
    on = Identity (go)
    b = Mul (a, k)
    r = Sub (b, x)
  }}>
}}
"""


def model(type="double"):
    text = MODEL.format(type=type)
    return backend.prepare(onnx.parser.parse_model(text))


class Named(np.ndarray):
    """An array of a class of a user's own, of which numpy's functions make what they like."""


def seen_as(x, how):
    """The same numbers in another object."""
    return {
        "array": lambda: x,
        "turned": lambda: np.asfortranarray(x),
        "spread": lambda: np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x,
        "read only": lambda: _read_only(x),
        "other bytes": lambda: x.astype(x.dtype.newbyteorder()),
        "of a class": lambda: x.view(Named),
        "list": lambda: x.tolist(),
    }[how]()


def _read_only(x):
    found = x.copy()
    found.flags.writeable = False
    return found


@settings(deadline=None, max_examples=60)
@given(
    calls=st.lists(
        st.tuples(
            st.sampled_from([(), (1,), (3,), (2, 3), (0, 2)]),
            st.sampled_from(["array", "turned", "spread", "read only", "other bytes", "of a class", "list"]),
            st.sampled_from([np.float64, np.float64, np.float32, np.int64]),
        ),
        min_size=2,
        max_size=8,
    )
)
def test_whatever_comes_after_what_the_results_are_those_of_the_interpreter(calls):
    prepared, kept = model(), []
    for number, (shape, how, dtype) in enumerate(calls):
        x = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) - 1.5 * number).astype(dtype)
        values = {"x": seen_as(x, how), "k": np.array(0.5) if number % 2 else np.asarray(x[..., :1] if shape else x)}
        expected, found = (outcome(prepared, values, engine) for engine in ("interpret", "jit"))
        assert type(found) is type(expected)
        if isinstance(found, str):
            assert found == expected
            continue
        for a, b in zip(found, expected, strict=True):
            assert type(a) is np.ndarray
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        kept.append((found, [a.copy() for a in found]))
    for found, before in kept:  # no later call writes into what an earlier one gave
        for a, b in zip(found, before, strict=True):
            np.testing.assert_array_equal(a, b)


def outcome(prepared, values, engine):
    with options(engine=engine):
        try:
            return prepared.run(values)
        except LoopError as error:
            return str(error)


def test_only_what_is_of_the_form_is_run_at_once():
    x, k = np.arange(3.0), np.array(2.0)
    with options(engine="jit"):
        prepared = model()
        for _ in range(3):
            prepared.run([x, k])
        again = prepared.graph.again
        assert again((x, k), start_run()) is not None
        assert again((x[::-1], k), start_run()) is None  # its elements do not stand row by row
        for other in (x.astype(np.float32), np.arange(4.0), x[None], 3.0, np.float64(3), None, [0.0, 1.0, 2.0], x.view(Named)):
            assert again((other, k), start_run()) is None
        assert again((x, np.float64(2)), start_run()) is None
        with options(max_iterations=100):
            assert again((x, k), start_run()) is None
        with options(timeout=60):
            assert again((x, k), start_run()) is None
    with options(engine="numpy"):
        assert again((x, k), start_run()) is None


def test_no_form_where_python_decides():
    assert Form.fits([np.zeros(2), np.float32(1), 2.5])
    for other in (1, True, None, [1.0], "a", np.zeros(2).view(Named)):
        assert not Form.fits([other])


def test_ctrl_c_in_the_middle_keeps_what_there_is(monkeypatch):
    prepared, x, k = model(), np.arange(3.0), np.array(2.0)
    with options(engine="jit"):
        for _ in range(3):
            prepared.run([x, k])

        def again(self, inputs, run):
            raise KeyboardInterrupt

        monkeypatch.setattr(Graph, "again", again)
        with pytest.raises(LoopInterrupted) as ended:
            prepared.run([x, k])
    last, rows = ended.value.outputs["last"], ended.value.outputs["rows"]
    assert len(rows) == ended.value.iteration
    np.testing.assert_array_equal(last, x * 2.0**ended.value.iteration)


DRAWING = """
<ir_version: 10, opset_import: ["": 21]>
model (double[3] x, int64 place) => (double[3] last, double[n] rows) <int64 n = {4}, bool yes = {1}>
{
  last, rows = Loop (n, yes, x) <body = body (int64 i, bool go, double[3] a) => (bool on, double[3] b, double r) {
    on = Identity (go)
    z = RandomNormalLike (a)
    b = Add (a, z)
    r = Gather (b, place)
  }>
}
"""


def test_streams_are_where_they_were_if_it_does_not_come_to_its_end():
    prepared, x = backend.prepare(onnx.parser.parse_model(DRAWING)), np.zeros(3)

    def runs(engine):
        gave = []
        with options(engine=engine):
            for seed, place in enumerate((0, 1, 2, 7, 1, -1)):
                with options(seed=seed), random_stream() as stream:
                    try:
                        found = [x.copy() for x in prepared.run([x, np.array(place)])]
                    except LoopError as error:
                        found = [str(error)]
                    gave.append([*found, stream.shared().random()])
        return gave

    for found, expected in zip(runs("jit"), runs("interpret"), strict=True):
        assert [np.asarray(a).tolist() for a in found] == [np.asarray(a).tolist() for a in expected]
