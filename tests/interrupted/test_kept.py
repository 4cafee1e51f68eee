"""Nothing is lost: whatever ends a run early, and wherever, leaves with the results of one moment."""

import functools
import gc
import itertools
import os
import weakref

import numpy as np
import onnx.parser
import pytest
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Graph, InputPort, Node, OutputPort, Parameter
from striking import Strike, strikes

import mdf_loop
from mdf_loop import backend, options
from mdf_loop.calls.calling import prepared_loop
from mdf_loop.errors import IterationLimit, LoopError, LoopInterrupted, PartialResults
from mdf_loop.execute.collect import Gathering
from mdf_loop.execute.interpret import Progress
from mdf_loop.integrations.engine_runs import run_in_mdf
from mdf_loop.integrations.scheduler import Begun
from mdf_loop.ops.registry import KERNELS
from mdf_loop.options import random_stream, start_run
from mdf_loop.settings.random_streams import RandomStream

MOST = int(os.environ.get("MDF_LOOP_STRIKES", "30"))
"""How often each call is struck."""

HEAD = '<ir_version: 10, opset_import: ["": 18, "example": 1]>'
N = 6


@pytest.fixture
def striking(monkeypatch):
    """The strike under way; bodies arm it by the operator Arm, which gives what it gets."""
    holder = {}

    @mdf_loop.kernel("Arm", domain="example")
    def arm(x):
        holder["strike"].arm()
        return x

    yield holder
    del KERNELS["example", "Arm"]


def make(holder, kind=KeyboardInterrupt):
    """Makes strikes of one kind."""

    def made(at):
        holder["strike"] = Strike(at, kind)
        return holder["strike"]

    return made


# Loops of every form: each is a function of the trip count (M or the number of rows)

PLAIN = f"""{HEAD} b (int64 i, bool c, double s, double p) => (bool c, double t, double p2, double y, int64 i) {{
  u = example.Arm (s) t = Add (u, one) p2 = Neg (p) y = Mul (t, t) }}"""

DRAWING = f"""{HEAD} b (int64 i, bool c, double[2] s) => (bool c, double[2] t, double[2] y) {{
  u = example.Arm (s) r = RandomNormal <shape = [2], dtype = 11> () t = Add (u, r) y = Mul (t, half) }}"""

NESTED = f"""{HEAD} b (int64 i, bool c, double s) => (bool c, double t, double[N] y) {{
  u = example.Arm (s)
  t, y = Loop <body = inner (int64 j, bool d, double a) => (bool d, double b, double b2) {{
    b = Add (a, one) b2 = Identity (b) }}> (three, c, u) }}"""

WHILE = f"""{HEAD} b (int64 i, bool c, double s) => (bool go, double t, double y) {{
  u = example.Arm (s) t = Add (u, one) y = Mul (t, t) go = Less (t, limit) }}"""

SCANNED = f"""{HEAD} b (double s, double[2] x) => (double t, double[2] y) {{
  u = example.Arm (s) m = ReduceSum <keepdims = 0> (x) t = Add (u, m) y = Mul (x, x) }}"""

MODEL = f"""{HEAD} g (int64 n, double x) => (double last, double[N] rows) {{
  c = Constant <value = bool {{1}}> ()
  a, rows = Loop <body = b (int64 i, bool d, double s) => (bool d, double t, double y) {{
    u = example.Arm (s) t = Add (u, x) y = Mul (t, t) }}> (n, c, x)
  last = Identity (a) }}"""


def drawn(n):
    """A loop that draws, and the number that comes next."""
    return mdf_loop.loop(n, True, np.zeros(2), body=DRAWING, half=0.5)


def function(holder):
    """A Python body that changes its arrays in place."""

    def body(i, c, s, rows):
        holder["strike"].arm()
        s += 1
        return True, s, [*rows, s], s * 2, i

    return lambda n: mdf_loop.loop(n, True, np.zeros(2), [np.zeros(2)], body=body)


def scan_function(holder):
    def body(s, x):
        holder["strike"].arm()
        return s + x, s * x

    return lambda n: mdf_loop.scan(np.float64(1), np.arange(1.0, n + 1), num_scan_inputs=1, body=body)


def python_around_graph(holder):
    """A Python body that runs a loop of its own, which draws from the same stream."""

    def body(i, c, s):
        holder["strike"].arm()
        return True, mdf_loop.loop(2, True, s, body=DRAWING, half=0.5)[0]

    return lambda n: mdf_loop.loop(n, True, np.zeros(2), body=body)


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


FORMS = {
    "plain": lambda _: lambda n: mdf_loop.loop(n, True, 0.0, 1.0, body=PLAIN, one=1.0),
    "drawing": lambda _: drawn,
    "nested": lambda _: lambda n: mdf_loop.loop(n, True, 0.0, body=NESTED, one=1.0, three=3),
    "while": lambda _: lambda n: mdf_loop.loop(n if n != N else None, True, 0.0, body=WHILE, one=1.0, limit=float(N)),
    "scan": lambda _: lambda n: mdf_loop.scan(0.0, np.arange(2.0 * n).reshape(n, 2), num_scan_inputs=1, body=SCANNED),
    "compiled": lambda _: lambda n: mdf_loop.compile(PLAIN)(n, True, 0.0, 1.0, one=1.0),
    "function": function,
    "scan of a function": scan_function,
    "a function around a graph": python_around_graph,
}


def same(one, other):
    """Whether two results are the same: types, shapes, values; sequences as well."""
    if isinstance(one, list) or isinstance(other, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return np.asarray(one).dtype == np.asarray(other).dtype and np.array_equal(one, other)


def expected(call, n):
    """Results of so many iterations, interpreted, and the random number that comes next."""
    with options(engine="interpret"), random_stream(RandomStream(5)) as stream:
        return as_tuple(call(n)), stream.shared().random()


def outcome(call):
    """What a call gives, or the error that keeps its results, and the random number that comes next."""
    with random_stream(RandomStream(5)) as stream:
        try:
            return as_tuple(call()), None, stream.shared().random()
        except PartialResults as error:
            return None, error, stream.shared().random()


def assert_one_moment(error, following, n_carried, known, kind):
    """See that an error holds what so many iterations give; there may be no memory for what was collected."""
    assert isinstance(error, LoopInterrupted if kind is KeyboardInterrupt else LoopError)
    wanted, wanted_following = known(error.iteration)
    assert all(map(same, error.partial[:n_carried], wanted[:n_carried]))
    if error.iteration:
        rows = zip(error.partial[n_carried:], wanted[n_carried:], strict=True)
        assert all(same(*pair) or (pair[0] is None and kind is MemoryError) for pair in rows)
    assert following == wanted_following


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
@pytest.mark.parametrize("form", FORMS)
def test_what_strikes_between_two_instructions_leaves_the_results_of_one_moment(form, engine, kind, striking):
    striker, call = make(striking, kind), FORMS[form](striking)
    striker(None)
    known = functools.cache(lambda n: expected(call, n))
    known(N)
    n_carried = 2 if form in ("plain", "compiled", "function") else 1
    with options(engine=engine):
        call(N)  # now it is planned
        for at in strikes(lambda: call(N), striker, MOST):
            strike = striker(at)
            found, error, following = outcome(lambda: strike(lambda: call(N)))  # noqa: B023
            if error is not None:
                assert_one_moment(error, following, n_carried, known, kind)
            else:  # a block that found too little memory was run again with less
                assert kind is MemoryError or strike.place is None
                assert all(map(same, found, known(N)[0]))


@pytest.mark.parametrize("engine", ["interpret", "numpy"])
def test_whole_models_keep_the_results_of_their_loop_and_the_outputs_known(engine, striking):
    striker = make(striking)
    striker(None)
    model = backend.prepare(onnx.parser.parse_model(MODEL))

    def call(n):
        return model.run([np.int64(n), np.float64(1)])

    with options(engine=engine):
        call(N)
        for at in strikes(lambda: call(N), striker, MOST):
            strike = striker(at)
            with pytest.raises(LoopInterrupted) as info:
                strike(lambda: call(N))
            k = info.value.iteration
            want = np.arange(2.0, k + 2)
            assert info.value.partial[0] == k + 1, strike.place
            assert k == 0 or np.array_equal(info.value.partial[1], want**2), strike.place
            assert k == 0 or np.array_equal(info.value.outputs["rows"], want**2), strike.place
            assert info.value.outputs.get("last", N + 1) == N + 1


# Models in MDF's engine: in a step that is interrupted there may be no loop under way, but there is what its outputs hold


LOOP_NODE = """b (int64 i, bool c, double s) => (bool c, double t, double y) { u = example.Arm (s) t = Add (u, s) y = Neg (t) }"""


def loop_model(**metadata):
    """A node with a loop, and one that reads what the loop gives."""
    loop_args = {"M": "count", "cond": True, "v_initial": "start", "body": "body"}
    parameters = [
        Parameter(id="count", value=N),
        Parameter(id="start", value=1.0),
        Parameter(id="body", value={"onnx": f"{HEAD} {LOOP_NODE}"}),
        Parameter(id="run", function="onnx::Loop", args=loop_args),
    ]
    ports = [OutputPort(id="total", value="run[0]"), OutputPort(id="rows", value="run[1]"), OutputPort(id="to", value="run[0]")]
    first = Node(id="A", metadata=metadata, parameters=parameters, output_ports=ports)
    then = Node(id="B", input_ports=[InputPort(id="x")], output_ports=[OutputPort(id="twice", value="x * 2")])
    way = Edge(id="e", sender="A", sender_port="to", receiver="B", receiver_port="x")
    return Graph(id="g", nodes=[first, then], edges=[way])


@pytest.mark.parametrize("engine", ["interpret", "numpy"])
def test_models_in_the_engine_of_mdf(engine, striking):
    striker = make(striking)
    striker(None)
    model = loop_model()

    def call():
        return mdf_loop.run(model)

    with options(engine=engine):
        call()
        for at in strikes(call, striker, MOST):
            strike = striker(at)
            with pytest.raises(LoopInterrupted) as info:
                strike(call)
            error = info.value
            k = error.iteration
            assert error.partial[0] == 2.0**k, strike.place
            assert k == 0 or np.array_equal(error.partial[1], -(2.0 ** np.arange(1, k + 1))), strike.place
            known = {name: np.asarray(value).tolist() for name, value in error.outputs.items()}
            assert known.get("total", 2.0**k) == 2.0**k
            assert known.get("twice", 2.0 ** (N + 1)) == 2.0 ** (N + 1)
            assert k == 0 or "rows" not in known or np.array_equal(known["rows"], error.partial[1])


@pytest.mark.parametrize(("engine", "moments"), [("interpret", 3), ("numpy", 2)])
def test_steps_of_a_scheduled_model(striking, engine, moments):
    """Armed by hand: there is no operator of ours in it.  Few steps are one program, which has no moments inside."""
    model = mdf_loop.load("examples/oscillator.yaml").graphs[0]
    striker = make(striking)

    def call(steps, collect=True):
        with mdf_loop.options(engine=engine):
            return mdf_loop.run(model, steps=steps, time_increment=0.25, collect=collect)

    def armed(at):
        strike = striker(at)
        strike.arm()
        return strike

    known = functools.cache(call)
    known(12)
    struck = set()
    for at in strikes(lambda: call(12), armed, 2 * MOST):
        strike = armed(at)
        try:
            strike(lambda: call(12))
        except LoopInterrupted as interrupted:
            error = interrupted
        else:
            assert strike.place is None  # caches are warmer than when instructions were counted: it was over before
            continue
        struck.add(error.iteration)
        if error.iteration:
            assert set(error.outputs) == set(known(error.iteration))
            for name, value in error.outputs.items():
                np.testing.assert_array_equal(value, known(error.iteration)[name], strike.place)
    assert len(struck) >= moments


@pytest.mark.parametrize("collect", [False, True])
def test_steps_in_the_engine_of_mdf(collect, striking):
    model = mdf_loop.load("examples/oscillator.yaml").graphs[0]
    striker = make(striking)

    def call(steps):
        return run_in_mdf(model, steps, 0.25, collect)

    def armed(at):
        strike = striker(at)
        strike.arm()
        return strike

    known = functools.cache(call)
    known(4)  # now its expressions are parsed
    struck = set()
    for at in [*strikes(lambda: call(4), armed, 2 * MOST), *range(10, 0, -1)]:  # the first instructions too
        strike = armed(at)
        with pytest.raises(LoopInterrupted) as info:
            strike(lambda: call(4))
        struck.add(info.value.iteration)
        if info.value.iteration:
            for name, value in known(info.value.iteration).items():
                np.testing.assert_array_equal(info.value.outputs[name], value, strike.place)
    assert struck == {0, 1, 2, 3, 4}


def test_stepped_loops(striking):
    striker = make(striking)
    striker(None)
    model = loop_model(loop={"iterations_per_execution": 2})
    whole = loop_model()
    model.conditions = ConditionSet(termination={"environment_state_update": Condition(type="LoopFinished", dependency="A")})

    def call(model=model):
        return mdf_loop.run(model)

    want = call()
    assert want["total"] == call(whole)["total"] == 2.0**N
    for at in strikes(call, striker, MOST):
        strike = striker(at)
        with pytest.raises(LoopInterrupted) as info:
            strike(call)
        error = info.value
        assert error.partial[0] == 2.0**error.iteration, strike.place
        assert error.iteration == 0 or len(error.partial[1]) == error.iteration, strike.place


# One by one


def test_a_second_strike_while_the_first_one_is_reported_loses_nothing(monkeypatch):
    """Ctrl-C is pressed while the error for the limit of iterations gets what had been computed."""
    told = Progress.partial
    times = itertools.count()

    def partial(self):
        if next(times) == 0:
            raise KeyboardInterrupt
        return told(self)

    monkeypatch.setattr(Progress, "partial", partial)
    with options(max_iterations=3), pytest.raises(LoopInterrupted) as info:
        mdf_loop.loop(9, True, 0.0, body=lambda i, c, s: (True, s + 1, s))
    assert (info.value.iteration, info.value.partial[0], info.value.partial[1].tolist()) == (3, 3, [0, 1, 2])
    assert isinstance(info.value.__cause__.__context__, IterationLimit)


@pytest.mark.parametrize("engine", ["numpy", "auto"])
def test_a_block_that_is_taken_over_halfway_is_not_there_twice(engine, monkeypatch):
    """The second collected value finds no room when the first one has been put behind the others."""
    body = """b (int64 i, bool c, double s) => (bool c, double t, double t2, double y) {
        t = Add (s, one) t2 = Add (t, s) y = Mul (t, s) }"""
    many = 3000  # fewer numbers would be one program
    with options(engine="interpret"):
        want = mdf_loop.loop(many, True, 0.0, body=body, one=1)
    added, times = Gathering.add_block, itertools.count()

    def add_block(self, *args):
        if self.what.output == "y" and next(times) < 1:
            raise MemoryError
        added(self, *args)

    monkeypatch.setattr(Gathering, "add_block", add_block)
    with options(engine=engine, block_bytes=2000):
        found = mdf_loop.loop(many, True, 0.0, body=body, one=1)
    assert next(times) > 1
    assert all(map(same, found, want))


def test_a_python_body_that_fails_has_changed_nothing_that_was_kept():
    def body(i, c, s, rows):
        s += 1
        rows[0] += 1
        if i == 3:
            raise ValueError
        return True, s, rows

    with pytest.raises(LoopError) as info:
        mdf_loop.loop(9, True, np.zeros(2), [np.zeros(2)], body=body)
    assert (info.value.iteration, info.value.partial[0].tolist(), info.value.partial[1][0].tolist()) == (3, [3, 3], [3, 3])


def test_a_python_body_may_go_on_to_use_an_array_it_returned():
    buffer = np.zeros(2)

    def body(i, c, s):
        buffer[:] = i
        if i == 3:
            raise ValueError
        return True, buffer

    with pytest.raises(LoopError) as info:
        mdf_loop.loop(9, True, np.zeros(2), body=body)
    assert info.value.partial[0].tolist() == [2, 2]


def test_results_that_wait_are_of_one_caller():
    """A stepped loop goes on with what it collected, whatever is done to what it gave."""
    body = {"onnx": WHILE.replace("example.Arm", "Identity")}
    prepared, given = prepared_loop(None, True, [np.float64(0)], body, {"one": 1.0, "limit": 200.0})
    with options(engine="numpy"):
        begun = Begun(prepared.execute, prepared.execute.begin(given, start_run()))
        while not begun.is_finished:
            rows = begun.advance(40)[1]
            np.testing.assert_array_equal(rows, np.arange(1.0, len(rows) + 1) ** 2)
            rows[:] = 99


def test_memory_is_not_held_by_what_ended():
    """No cycle of references keeps the arrays of a loop: they go with the last reference to its results."""
    gc.collect()
    gc.disable()
    try:
        results = mdf_loop.loop(100, True, np.zeros(1000), body=lambda i, c, s: (True, s + 1, s))
        places = [weakref.ref(value) for value in results]
        del results
        assert [place() for place in places] == [None, None]
    finally:
        gc.enable()
