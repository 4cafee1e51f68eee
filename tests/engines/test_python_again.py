"""A program of Python that has run is called again with little in between; whatever is not like before goes the ordinary way."""

import numpy as np
import onnx.parser
import pytest

from mdf_loop import backend, options
from mdf_loop.errors import LoopInterrupted
from mdf_loop.execute.programs import Programs
from mdf_loop.execute.tiers import paying
from mdf_loop.execute.tiers.paying import Account
from tests.fuzz.outcome import compare, to_the_bit
from tests.fuzz.outcome import outcome as outcome_of

OPEN = """<ir_version: 9, opset_import: ["": 18]> NAME (float[N] x, int64 least) => (float[N] y, float[K] firsts, float[N] same) {
    same = Identity (x) n = Constant <value: tensor = int64 {COUNT}> () go = Constant <value: tensor = bool {1}> ()
    y, firsts = Loop <body = step (int64 i, bool c, float[N] a) => (bool d, float[N] t, float f) {
        d = Identity (c) k = Sub (least, i) f = Gather (a, k) h = Sqrt (a) t = Mul (h, a) }> (n, go, x) }"""


@pytest.fixture(params=["auto", "numpy"])
def again(request, monkeypatch):
    """A model that has a program of Python, and whose programs are tried from now on."""
    monkeypatch.setattr(paying, "WRITING", 0.0)
    monkeypatch.setattr(paying, "OF_NODE", 0.0)
    monkeypatch.setattr(Account, "pays", lambda self, options, ahead=0.0: False)
    name = request.node.name.translate({ord("["): "_", ord("]"): "", ord("-"): "_"})
    made = backend.prepare(onnx.parser.parse_model(OPEN.replace("NAME", name).replace("COUNT", "6")))
    tried, plain = [], Programs._tried
    monkeypatch.setattr(Programs, "_tried", lambda *given_: tried.append(given_[0]) or plain(*given_))
    with options(engine=request.param):
        for _ in range(3):
            made.run([np.ones(4, np.float32), np.array(2)])
        tried.clear()
        yield made, tried


def refused(*_):
    raise AssertionError("there is a step in between")


def as_interpreted(made, given_):
    """Require of a run what the interpreter gives."""
    found = outcome_of(lambda: made.run(given_))
    compare(found, outcome_of(lambda: made.run(given_), engine="interpret"), "again", to_the_bit)
    return found


def test_nothing_is_between_a_call_and_a_program_of_python(again, monkeypatch):
    made, tried = again
    x = np.full(4, 2, np.float32)
    expected = [x**1.5**6, np.float32(2) ** 1.5 ** np.arange(6), x.copy()]
    monkeypatch.setattr(backend, "_run_kept", refused)
    for _ in range(2):
        for found, wanted in zip(made.run([x, np.array(2)]), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
            found[:] = 0.0  # results are the caller's own
    assert len(tried) == 2


@pytest.mark.parametrize(
    "x",
    [
        np.linspace(1, 2, 5, dtype=np.float32),
        np.linspace(1, 2, 4),
        [1.0, 2.0, 3.0, 4.0],
        np.ones(4, ">f4"),
        np.ma.masked_array(np.ones(4, np.float32), [0, 1, 0, 0]),
        np.ones((2, 2), np.float32),
        np.array(["1", "2", "3", "4"]),
        None,
    ],
    ids=["length", "type", "list", "bytes", "subclass", "axes", "texts", "nothing"],
)
def test_other_values_go_the_ordinary_way(again, x):
    made, _ = again
    as_interpreted(made, [x, np.array(2)])
    as_interpreted(made, [np.ones(4, np.float32), np.array(2)])


def test_what_a_program_refuses_is_tried_once_in_a_run(again):
    made, tried = again
    found = as_interpreted(made, [np.array([1, -1, 1, 1], np.float32), np.array(2)])
    assert found.warned
    assert tried.count(made.graph._programs) == 1


@pytest.mark.parametrize(("least", "iterations"), [(-2, 3), (-9, 0)])
def test_how_a_loop_ends_early_is_how_a_program_does(again, least, iterations):
    made, tried = again
    made.graph._programs._entries.all()[-1].opens = False
    made.graph._programs._entries.all()[-1].made = None
    for _ in range(2):
        made.run([np.ones(4, np.float32), np.array(2)])
    tried.clear()
    x = np.full(4, 2, np.float32)
    found = as_interpreted(made, [x, np.array(least)])
    assert found.error.iteration == iterations
    assert found.error.outputs["y"].shape == (4,)
    assert not np.shares_memory(found.error.partial[0], x)
    assert tried.count(made.graph._programs) == 1


def test_ctrl_c_in_a_program_of_python(again, monkeypatch):
    made, _ = again
    given_, found = [np.full(4, 2, np.float32), np.array(2)], []

    def strike(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Programs, "_tried", strike)
    for ready in (made.graph._programs.ready, None):
        made.graph._programs.ready = ready
        with pytest.raises(LoopInterrupted) as ended:
            made.run(given_)
        found.append(ended.value)
    assert found[0].iteration == found[1].iteration == 0
    for one in found:
        np.testing.assert_array_equal(one.outputs["y"], given_[0])
