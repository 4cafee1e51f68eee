"""Functions that are read as bodies and what they find outside: constants, which are read again when they have changed."""

import numpy as np
from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.readers.python import function_bodies


def test_a_function_may_be_read_many_times():
    def body(i, go, x):
        size = abs(x)
        whole = round(size)
        return True, size + whole

    assert {float(mdf_loop.loop(3, True, 0.75, body=mdf_loop.body(body))) for _ in range(20)} == {7.75}


RATE, WEIGHTS, SETTINGS = 1.0, np.zeros(2), {"gain": 1.0}


class Cell:
    leak = 1.0


def of_rates(x):
    return x * RATE


@mdf_loop.body
def inner_step(i, go, x):
    return True, x + SETTINGS["gain"]


@mdf_loop.body
def reads_outside(i, go, x):
    return True, of_rates(x) + WEIGHTS[0] + Cell.leak + mdf_loop.loop(1, True, 0.0, body=inner_step)


def test_what_has_changed_outside_is_read_again(monkeypatch):
    def found():
        assert mdf_loop.loop(1, True, 1.0, body=reads_outside) == reads_outside(0, True, 1.0)[1]
        return float(mdf_loop.loop(1, True, 1.0, body=reads_outside))

    assert found() == 3
    monkeypatch.setitem(globals(), "RATE", 2.0)
    assert found() == 4
    monkeypatch.setitem(SETTINGS, "gain", 2.0)
    assert found() == 5
    monkeypatch.setattr(Cell, "leak", 2.0)
    assert found() == 6
    monkeypatch.setitem(globals(), "WEIGHTS", np.ones(2))
    assert found() == 7
    WEIGHTS[0] = 2.0
    assert found() == 8


def plain(i, go, x):
    return True, x + SETTINGS["gain"]


def test_a_model_is_another_one_when_something_outside_has_changed(monkeypatch):
    run = Parameter(id="run", function="onnx::Loop", args={"M": 2, "cond": True, "x": 0.0, "body": "body"})
    parameters = [Parameter(id="body", value=mdf_loop.body(plain)), run]
    graph = Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=[OutputPort(id="x", value="run")])])
    assert mdf_loop.run(graph)["x"] == 2
    monkeypatch.setitem(SETTINGS, "gain", 4.0)
    assert mdf_loop.run(graph)["x"] == 8


def test_what_stays_the_same_outside_is_read_once(monkeypatch):
    read = []
    plain = function_bodies.traced_body
    monkeypatch.setattr(function_bodies, "traced_body", lambda *args: read.append(0) or plain(*args))
    mdf_loop.loop(1, True, 1.0, body=reads_outside)
    before = len(read)
    np.random.rand()
    mdf_loop.loop(1, True, 2.0, body=reads_outside)
    assert len(read) == before
