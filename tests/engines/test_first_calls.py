"""What the first calls of a model cost: one lowering for all programs, machine code in a hurry first, and in one place alone."""

import threading
from pathlib import Path
from unittest import mock

import numpy as np
import onnx.parser
import pytest
from fuzzed import first_call, fuzzed_loops

from mdf_loop import backend, loop, options, run
from mdf_loop.calls import prepared
from mdf_loop.execute import graphs, programs, specialised
from mdf_loop.execute.programs import Programs, watched_programs
from mdf_loop.execute.specialised import in_machine_code
from mdf_loop.execute.tiers import first_iterations, paying
from mdf_loop.execute.tiers.background import idle
from mdf_loop.execute.tiers.first_iterations import ENDLESS, interpret_what_is_cheap
from mdf_loop.execute.tiers.paying import Account
from mdf_loop.ops.registry import KERNELS, Kernel, register
from mdf_loop.step.structure import values_in
from tests.fuzz.outcome import compare, to_the_bit
from tests.fuzz.outcome import outcome as outcome_of

SOON = 120.0

MODEL = """<ir_version: 9, opset_import: ["": 18]> NAME (float[3] x) => (float[3] y, float[5, 3] rows) {
    n = Constant <value: tensor = int64 {5}> ()
    go = Constant <value: tensor = bool {1}> ()
    y, rows = Loop <body = step (int64 i, bool c, float[3] a) => (bool d, float[3] t, float[3] r) {
        d = Identity (c) h = Tanh (a) s = Add (h, x) t = Mul (s, a) r = Sub (t, h)
    }> (n, go, x)
}"""


@pytest.fixture(autouse=True)
def compiling():
    pytest.importorskip("llvmlite")


@pytest.fixture
def model(request):
    """A model that no other test has had compiled, and what it gives."""
    name = request.node.name.translate({ord("["): "_", ord("]"): ""})
    made = backend.prepare(onnx.parser.parse_model(MODEL.replace("NAME", name)))
    given_ = [np.float32([0.1, -0.5, 2.0])]
    with options(engine="interpret"):
        expected = made.run(given_)

    def check():
        for found, wanted in zip(made.run(given_), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)

    return made, check


# Machine code that was made in a hurry


def in_a_hurry(entry, region):
    return in_machine_code(region, False, True)


def assert_same_in_a_hurry(call, **chosen):
    """Machine code is the same bit for bit, however much time LLVM took for it."""
    found = []
    for how in (Programs._compiled, in_a_hurry):
        prepared._cache.clear()
        with mock.patch.object(Programs, "_compiled", staticmethod(how)), watched_programs() as ran:
            found.append(outcome_of(call, engine="jit", **chosen))
        compiled = [one.latest for one in ran if one.latest is not None and one.latest.size]
        assert all(one.is_quick == (how is in_a_hurry) for one in compiled)
    compare(found[1], found[0], "in a hurry", to_the_bit)


def test_fuzzed_loops_in_a_hurry():
    for case in fuzzed_loops(120):
        assert_same_in_a_hurry(first_call(case), **case.chosen)


@pytest.mark.parametrize("care", [0, 1 << 30], ids=["long", "short"])
def test_code_that_runs_for_long_is_made_with_care(model, monkeypatch, care):
    _, check = model
    monkeypatch.setattr(programs, "CARE", care)
    monkeypatch.setattr(Account, "pays", lambda self, options, ahead=0.0: options.how.compiles_what_pays)
    for _ in range(6):
        with watched_programs() as ran:
            check()
        assert idle(SOON)
    (latest,) = [one.latest for one in ran]
    assert latest.size
    assert latest.is_quick == bool(care)
    assert ("without slow optimizations" in latest.form) == bool(care)


@pytest.mark.parametrize("rows", [1, 2, 4, 5])
@pytest.mark.parametrize("terms", [1, 3, 4, 7, 12, 17])
@pytest.mark.parametrize("columns", [1, 3, 16, 33])
def test_a_product_of_matrices_in_a_hurry(rows, terms, columns):
    """It has loops where the other is written out: the order in which terms are added up is the same."""
    rng = np.random.default_rng(rows + 10 * terms + 1000 * columns)
    body = f"""b (int64 i, bool c, float[{rows}, {terms}] x) => (bool d, float[{rows}, {terms}] z, float[{rows}, {columns}] y) {{
        d = Identity (c) z = Mul (x, h) y = MatMul (z, w) }}"""
    x, w, h = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, terms), (terms, columns), (rows, terms)))
    assert_same_in_a_hurry(lambda: loop(4, True, x, body=body, w=w, h=h))


# One Step for all programs


def test_python_and_machine_code_are_made_of_one_step(model, monkeypatch):
    _, check = model
    lowered, plain = [], graphs.lower_graph
    monkeypatch.setattr(graphs, "lower_graph", lambda *given_, **how: lowered.append(given_) or plain(*given_, **how))
    for engine in ("numpy", "jit"):
        with options(engine=engine), watched_programs() as ran:
            check()
        assert bool(ran[0].latest.size) == (engine == "jit")
    assert len(lowered) == 1


def test_where_a_guess_makes_a_difference_there_are_two(request, monkeypatch):
    text = f"""<ir_version: 9, opset_import: ["": 18]> {request.node.name} (float[3,2] x) => (float[3,2] y) {{
        rows = SplitToSequence <keepdims = 0> (x) y = ConcatFromSequence <axis = 0, new_axis = 1> (rows) }}"""
    made = backend.prepare(onnx.parser.parse_model(text))
    lowered, plain = [], graphs.lower_graph
    monkeypatch.setattr(graphs, "lower_graph", lambda *given_, **how: lowered.append(given_) or plain(*given_, **how))
    for engine in ("numpy", "jit"):
        with options(engine=engine):
            (found,) = made.run([np.arange(6, dtype=np.float32).reshape(3, 2)])
        np.testing.assert_array_equal(found, [[0, 1], [2, 3], [4, 5]])
    assert len(lowered) == 2


# A loop in a graph


def loop_of(made):
    return next(step.bound.call.execute for step in made.graph.program.steps if hasattr(step.bound.call, "execute"))


def test_a_graph_becomes_a_program_before_its_loop_does(model, monkeypatch):
    made, check = model
    monkeypatch.setattr(paying, "WRITING", SOON)
    check()
    monkeypatch.setattr(paying, "WRITING", 0.0)
    monkeypatch.setattr(paying, "OF_NODE", 0.0)
    for _ in range(3):
        with watched_programs() as ran:
            check()
    assert [one.latest.text != "" for one in ran] == [True]
    assert loop_of(made).account.is_part
    assert not loop_of(made)._programs


def test_a_loop_counts_its_own_time_where_the_graph_does_not_run_it(model):
    made, check = model
    with options(timeout=1000.0):
        check()
    assert not loop_of(made).account.is_part
    account = loop_of(made).account
    assert account.seconds > 0
    assert account._spent == account.seconds
    account.is_part = True
    assert account._spent == 0.0


def test_a_loop_in_a_graph_is_compiled_apart_if_one_run_of_it_is_worth_that():
    account = Account(10)
    with options(engine="auto") as chosen:
        apart = 2 * account.cost
        assert account.pays(chosen, apart)
        account.is_part = True
        assert not account.pays(chosen, apart)
        assert account.pays(chosen, paying.APART * apart)


def test_what_writing_takes_does_not_count(monkeypatch):
    clock, account = [0.0], Account(10, clock=lambda: clock[0])
    monkeypatch.setattr(paying.time, "thread_time", lambda: clock[0])

    def work():
        clock[0] += 1.0
        with paying.writing():
            clock[0] += 10.0

    with options(engine="auto") as chosen:
        account.timed(chosen, work)
    assert account.seconds == account.latest == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("seconds", "written", "left", "interpreted"),
    [
        pytest.param([100.0, 100.0], 0.0, 57, 60, id="only the first iterations are slow"),
        pytest.param([], 9.0, 57, 60, id="what is written inside it"),
        pytest.param([], 0.0, 5000, 7, id="a long rest that is known"),
        pytest.param([], 0.0, ENDLESS, 2047, id="an end that is not known"),
    ],
)
def test_a_loop_is_interpreted_while_that_takes_less_than_a_program(monkeypatch, seconds, written, left, interpreted):
    """An iteration takes a thousandth of what a program does, but for ``seconds`` of the first ones."""
    clock, account, pace = [0.0], Account(0), iter(seconds)
    monkeypatch.setattr(paying.time, "thread_time", lambda: clock[0])
    monkeypatch.setattr(paying, "WRITING", 1.0)
    session = mock.Mock()
    session.moment.iteration = 1

    def interpret(session, until):
        for _ in range(until - session.moment.iteration):
            clock[0] += 0.001 * next(pace, 1.0)
            with paying.writing():
                clock[0] += written
        session.moment.iteration = until

    with options(engine="auto") as session.run.options:
        room = lambda: left + 3 - session.moment.iteration if left < ENDLESS else ENDLESS  # noqa: E731
        interpret_what_is_cheap(interpret, session, room, account)
    assert session.moment.iteration == interpreted


def test_what_others_take_of_the_processor_does_not_count(monkeypatch):
    """A short run is timed on the wall: one that seems long is timed by the processor from the next one on."""
    clocks = {"perf_counter": 0.0, "thread_time": 0.0}
    for name in clocks:
        monkeypatch.setattr(paying.time, name, lambda name=name: clocks[name])
    account = Account(10, clock=paying.time.perf_counter)

    def work(wall, processor):
        clocks["perf_counter"] += wall
        clocks["thread_time"] += processor

    with options(engine="auto") as chosen:
        account.timed(chosen, work, 5.0, 1e-5)
        assert account.seconds == paying.SHORT
        account.timed(chosen, work, 5.0, 1e-5)
        assert account.seconds == pytest.approx(paying.SHORT + 1e-5)
        account.timed(chosen, work, 1e-5, 5.0)
        assert account.seconds == pytest.approx(paying.SHORT + 2e-5)


@pytest.mark.parametrize("held", [SOON, 0.0], ids=["long", "not"])
def test_a_call_waits_for_the_machine_code_that_it_has_ordered(model, monkeypatch, held):
    made, check = model
    gate, plain = threading.Event(), specialised.in_machine_code

    def slowly(step, *how):
        gate.wait(0.2 if held else SOON)
        return plain(step, *how)

    monkeypatch.setattr(specialised, "in_machine_code", slowly)
    monkeypatch.setattr(programs, "HELD", held)
    monkeypatch.setattr(Account, "pays", lambda self, options, ahead=0.0: options.how.compiles_what_pays)
    with watched_programs() as ran:
        check()
    assert made.graph._programs.is_waiting == (not held)
    assert any(one.latest.size for one in ran) == bool(held)
    gate.set()
    assert idle(SOON)


# What is not done


def written(made):
    """The programs of Python that a prepared model has."""
    return [entry.made for entry in made.graph._programs._entries.all() if entry.made is not None and not entry.made.size]


def counting(name, iterations):
    """A loop in a graph, with a node that could run for many iterations at once, and a product that gains most by that."""
    return backend.prepare(
        onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18]> {name} (float[{iterations}, 3] w) => (float[3] y) {{
        n = Constant <value: tensor = int64 {{{iterations}}}> () go = Constant <value: tensor = bool {{1}}> ()
        zero = Constant <value: tensor = float[3] {{0, 0, 0}}> ()
        m = Constant <value: tensor = float[3, 3] {{1, 2, 3, 4, 5, 6, 7, 8, 9}}> ()
        y = Loop <body = step (int64 i, bool c, float[3] a) => (bool d, float[3] t) {{
            d = Identity (c) row = Gather (w, i) p = MatMul (row, m) h = Tanh (a) t = Add (h, p) }}> (n, go, zero) }}""")
    )


@pytest.mark.parametrize("iterations", [12, 400])
def test_a_graph_is_not_written_for_a_loop_that_runs_in_blocks(request, monkeypatch, iterations):
    monkeypatch.setattr(Account, "is_worth_writing", lambda self, options, seconds: seconds > 0)
    monkeypatch.setattr(Account, "pays", lambda self, options, ahead=0.0: False)
    monkeypatch.setattr(graphs, "AGAIN", 1 << 30)
    made = counting(f"blocks_{iterations}", iterations)
    given_ = [np.linspace(-1, 1, 3 * iterations, dtype=np.float32).reshape(-1, 3)]
    with options(engine="interpret"):
        (expected,) = made.run(given_)
    made.graph._account.clock = lambda: 0.0  # what the graph takes besides its loop is nothing
    made.graph._account.timed = lambda options, call: call()
    for _ in range(3):
        (loop_,) = made.graph.program.loops
        made.graph._account.latest = loop_.account.latest + (0 if loop_.is_written else 1)
        np.testing.assert_allclose(made.run(given_)[0], expected, rtol=1e-5)
    assert bool(written(made)) == (iterations == 12)


def test_while_machine_code_is_made_nothing_else_is(request, monkeypatch):
    """It is made for the graph: there is no Python for it, and its loop is neither compiled nor written apart."""
    gate, ordered, plain = threading.Event(), [], specialised.in_machine_code

    def held(step, *how):
        ordered.append(step)
        assert gate.wait(SOON)
        return plain(step, *how)

    monkeypatch.setattr(specialised, "in_machine_code", held)
    monkeypatch.setattr(graphs, "AGAIN", 1 << 30)
    made = counting(request.node.name, 400)
    made.graph._account.seconds = 2 * made.graph._account.cost
    x = np.linspace(-1, 1, 1200, dtype=np.float32).reshape(-1, 3)
    (loop_,) = made.graph.program.loops
    with options(engine="interpret"):
        (expected,) = made.run([x])
    for _ in range(3):
        np.testing.assert_allclose(made.run([x])[0], expected, rtol=1e-5)
        assert made.graph._programs.is_waiting
        assert loop_.account.is_part
        assert loop_.account.is_waiting
    assert not written(made)
    gate.set()
    assert idle(SOON)
    np.testing.assert_allclose(made.run([x])[0], expected, rtol=1e-5)
    assert made.graph._programs.latest.size
    assert len(ordered) == 1


@pytest.mark.parametrize("iterations", [12, 400])
def test_a_loop_that_runs_in_blocks_is_not_opened_in_python(request, monkeypatch, iterations):
    monkeypatch.setattr(Account, "is_worth_writing", lambda self, options, seconds: True)
    monkeypatch.setattr(Account, "pays", lambda self, options, ahead=0.0: False)
    made = counting(f"opened_{iterations}", iterations)
    (loop_,) = made.graph.program.loops
    given_ = [np.linspace(-1, 1, 3 * iterations, dtype=np.float32).reshape(-1, 3)]
    loop_.lasted = iterations
    with options(engine="interpret"):
        (expected,) = made.run(given_)
    np.testing.assert_allclose(made.run(given_)[0], expected, rtol=1e-5)
    (program,) = written(made)
    assert any(value.op == "loop" for value in values_in(program.step)) == (iterations == 12)


def test_a_short_run_does_without_a_plan(request):
    made = counting(request.node.name, 12)
    with options(engine="numpy"):
        made.run([np.ones((12, 3), np.float32)])
    (loop_,) = made.graph.program.loops
    assert written(made)
    assert "plan" not in vars(loop_)


DRAWING = """<ir_version: 9, opset_import: ["": 18]> NAME (float[3] x) => (float[3] y, float[K, 3] rows) {
    go = Constant <value: tensor = bool {1}> ()
    y, rows = Loop <body = step (int64 i, bool c, float[3] a) => (bool d, float[3] t, float[3] r) {
        most = Constant <value: tensor = int64 {40}> ()
        d = Less (i, most) r = RandomUniform <shape = [3]> () t = OPERATOR (a, r)
    }> (, go, x)
}"""


@pytest.fixture
def counted():
    """An operator of the user's, which has an effect, and the list that it makes longer."""
    calls = []

    def add(x, y):
        calls.append(None)
        return x + y

    with mock.patch.dict(KERNELS):
        register(Kernel("Counted", 1, add, pure=False, domain="test"))
        yield calls


@pytest.mark.parametrize(("operator", "tried"), [("Add", SOON), ("Add", -1.0), ("test.Counted", SOON)])
def test_what_took_long_is_run_again_by_a_program_if_it_has_no_effect(request, monkeypatch, counted, operator, tried):
    """From the first iteration on, with the same random numbers; an effect is not repeated, nor is what takes long again."""
    monkeypatch.setattr(first_iterations, "TRIED", tried)
    monkeypatch.setattr(paying, "WRITING", 0.0)
    monkeypatch.setattr(paying, "OF_NODE", 0.0)
    name = request.node.name.translate(dict.fromkeys(map(ord, "[].-"), "_"))
    text = DRAWING.replace("NAME", name).replace("OPERATOR", operator).replace('["": 18]', '["": 18, "test": 1]')
    x, model = np.ones(3, np.float32), onnx.parser.parse_model(text)
    with options(engine="interpret", seed=1):
        expected = backend.prepare(model).run([x])
    made = backend.prepare(model)
    counted.clear()
    with options(seed=1):
        for found, wanted in zip(made.run([x]), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    (loop_,) = made.graph.program.loops
    assert (loop_.last_program is None) == (operator != "Add" or tried < 0)
    assert loop_.lasted == 41
    assert len(counted) == (0 if operator == "Add" else 41)


def test_the_first_call_counts_its_iterations_where_a_program_begins_it_once_more(monkeypatch, tmp_path):
    text, begun = Path("examples/drift_diffusion.yaml").read_text(), []
    (tmp_path / "m.yaml").write_text(text.replace("Add (drift_step, noise_step)", "Add (noise_step, drift_step)"))
    was = first_iterations.ended_by
    monkeypatch.setattr(first_iterations, "TRIED", SOON)
    monkeypatch.setattr(paying, "WRITING", 0.0)
    monkeypatch.setattr(paying, "OF_NODE", 0.0)
    monkeypatch.setattr(first_iterations, "ended_by", lambda *given: begun.append(was(*given)) or begun[-1])
    for M in (5003, 5004):
        found = run(tmp_path / "m.yaml", max_steps=M, bound=50, drift=0)
        assert (found.iterations, found.stop) == (M, "trip count")
    assert any(begun)
