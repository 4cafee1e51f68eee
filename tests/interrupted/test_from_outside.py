"""What comes from outside - Ctrl-C, what a handler of a signal raises - leaves as itself, with what had been computed."""

import ast
import functools
import pathlib
import signal
import sys
import threading
import time

import numpy as np
import pytest
from in_groups import each
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.backends.llvm.program_layout import ProgramTable
from mdf_loop.errors import is_from_outside, let_through

HEAD = '<ir_version: 9, opset_import: ["" : 18, "example" : 1]>'
ENGINES = ["interpret", "numpy", "jit", "auto"]


class Deadline(Exception):
    """What a user's handler raises."""


def raising(signum, frame):
    raise Deadline("the time is over")


class Handler:
    def method(self, signum, frame):
        self.raise_it()

    def __call__(self, *given):
        self.raise_it()

    def raise_it(self):
        raise TimeoutError("the time is over")


def removed(signum, frame):
    signal.signal(signum, signal.SIG_DFL)
    raise OSError("the time is over")


HANDLERS = {
    "function": raising,
    "method": Handler().method,
    "object": Handler(),
    "any arguments": lambda *_: 1 / 0,
    "partial": functools.partial(lambda extra, signum, frame: [][0], "extra"),
    "removes itself": removed,
}

BODIES = {
    "a number": ("x: x * 0.5 + 1\nwhile: x > -1", [1.0], {}),
    "a vector": ("x: x @ w * 0.5 + 1\nwhile: sum(x) > -1", [[1.0, 2.0]], {"w": [[0.1, 0.2], [0.3, 0.4]]}),
    "draws": (
        HEAD + "b (int64 i, bool c, double s) => (bool d, double t) {"
        " r = RandomNormal <shape = [1], dtype = 11> () u = Squeeze (r) t = Add (s, u) n = IsNaN (t) d = Not (n) }",
        [0.0],
        {},
    ),
}


def struck_by(handler, call, after=0.5, is_asleep=False):
    """The exception that ends a call during which a signal comes, and how long it took to leave.

    The timer counts processor time, so that the call is as far on every machine; one that sleeps takes none.
    """
    kind, number = (signal.ITIMER_REAL, signal.SIGALRM) if is_asleep else (signal.ITIMER_PROF, signal.SIGPROF)
    clock = time.monotonic if is_asleep else time.process_time
    before = signal.signal(number, handler)
    begun = clock()
    signal.setitimer(kind, after)
    try:
        call()
    except BaseException as error:
        return error, clock() - begun - after
    finally:
        signal.setitimer(kind, 0)
        signal.signal(number, before)
    return None, 0.0


def struck_inside(handler, call):
    """The exception that ends a loop: later where the machine was too slow to have begun it by then."""
    for after in (0.05, 0.2, 0.8, 3.2, 12.8):
        error, _ = struck_by(handler, call, after)
        if error is None or hasattr(error, "partial"):
            break
    return error


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers that send signals")
class TestHandlers:
    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize("body", BODIES)
    def test_what_a_handler_raises_leaves_a_loop_with_partial_results(self, body, engine):
        text, initial, captured = BODIES[body]
        with mdf_loop.options(engine=engine, timeout=600 if engine != "jit" else None):
            mdf_loop.loop(3, True, *initial, body=text, **captured)  # now it has been read, and imported
            error = struck_inside(raising, lambda: mdf_loop.loop(None, True, *initial, body=text, **captured))
        assert type(error) is Deadline
        assert error.iteration > 0 or engine == "jit"
        assert len(error.partial) == 1

    @pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
    @pytest.mark.parametrize("name", HANDLERS)
    def test_every_kind_of_handler_is_distinguished_from_the_work(self, name, engine):
        text, initial, _ = BODIES["a number"]
        with mdf_loop.options(engine=engine, timeout=600):
            mdf_loop.loop(3, True, *initial, body=text)
            error = struck_inside(HANDLERS[name], lambda: mdf_loop.loop(None, True, *initial, body=text))
        assert not isinstance(error, mdf_loop.LoopError)
        assert is_from_outside(error)
        assert error.partial is not None

    def test_what_strikes_in_compiled_code_with_a_frame_of_its_own_is_from_outside(self):
        drawn = np.random.default_rng(0).bit_generator

        def draws():
            while True:
                drawn.state  # noqa: B018  (numpy's compiled code puts a frame of its own into tracebacks)

        errors = [struck_by(raising, draws, 0.01)[0] for _ in range(20)]
        assert all(is_from_outside(error) for error in errors)

    @pytest.mark.parametrize("engine", ENGINES)
    def test_it_leaves_a_kernel_of_the_users_own_too(self, engine):
        @mdf_loop.kernel("Sleep", domain="example")
        def sleep(x):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            time.sleep(60)
            return x

        text = HEAD + "b (int64 i, bool c, double s) => (bool c, double t) { t = example.Sleep (s) }"
        with mdf_loop.options(engine=engine):
            error, late = struck_by(raising, lambda: mdf_loop.loop(3, True, 0.0, body=text), 600, is_asleep=True)
        assert type(error) is Deadline
        assert error.iteration == 0
        assert late < 0  # long before it would have woken up

    def test_a_kernel_that_raises_the_same_is_a_failure_of_the_work(self):
        def body(i, c, x):
            raise TimeoutError("no answer")

        with pytest.raises(mdf_loop.LoopError, match="no answer"):
            mdf_loop.loop(3, True, 0.0, body=body)

    def test_it_leaves_a_run_with_results_and_a_sweep_with_those_of_other_points(self):
        pytest.importorskip("xarray")
        node = Node(id="a", input_ports=[InputPort(id="k")], output_ports=[OutputPort(id="out", value="v")])
        node.parameters.append(Parameter(id="v", default_initial_value=0.0, value="numpy.exp(-v)"))
        model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
        loop = Graph(id="g", nodes=[Node(id="a", output_ports=[OutputPort(id="out", value="run")])])
        body = {"onnx": HEAD + "b (int64 i, bool c, double x) => (bool c, double y) { y = Mul (x, x) }"}
        loop.nodes[0].parameters.append(Parameter(id="run", function="onnx::Loop", args={"M": 10**15, "x": 1.0, "body": body}))
        error, _ = struck_by(raising, lambda: mdf_loop.run(Model(id="m", graphs=[loop])))
        assert type(error) is Deadline
        mdf_loop.sweep(model, over={"k": np.arange(3)}, steps=20)
        error, _ = struck_by(raising, lambda: mdf_loop.sweep(model, over={"k": np.arange(300)}, steps=10**7))
        assert type(error) is Deadline
        assert error.results is not None

    def test_machine_code_over_many_elements_ends(self):
        text = HEAD + (
            "f (int64 i, bool go, double x) => (bool go, double y, double z)"
            "{ e = Add (x, v) w = Exp (e) z = ReduceSum <keepdims=0> (w) y = Add (x, x) }"
        )

        def call(n):
            return mdf_loop.loop(50, True, 1.0, body=text, v=np.zeros(n))

        with mdf_loop.options(engine="jit"):
            call(4)
            error, late = struck_by(raising, lambda: call(10**7), 0.1)
        assert type(error) is Deadline or (late == 0.0 and error is not None)
        assert late < 3


class Raised(BaseException):
    """What strikes inside a callback."""


def every_instruction(code, call, expected):
    """Have an exception strike at each instruction of a function that machine code calls, one after the other."""
    at, count = 1, None
    while count is None or at <= count:
        seen = 0

        def each(frame, event, _):
            nonlocal seen
            if event == "opcode":
                seen += 1
                if seen == at:  # noqa: B023
                    sys.settrace(None)
                    raise Raised
            return each

        def entered(frame, event, _):
            if frame.f_code is code and event == "call":
                frame.f_trace_opcodes = True
                return each
            return None

        sys.settrace(entered)
        try:
            found = call()
        except BaseException as error:
            sys.settrace(None)
            yield error
        else:
            sys.settrace(None)
            count = seen
            expected(found)
        at += 1


GROWING = HEAD + (
    "g (int64 i, bool go, double x) => (bool more, double y, double a, double b)"
    "<double lim = {5.0}, double one = {1.0}> { y = Add (x, one) more = Less (y, lim) a = Identity (y) b = Mul (y, y) }"
)


DETERMINANTS = HEAD + (
    "b (int64 i, bool c, double[1, 2, 2] s) => (bool c, double[1, 2, 2] t) { u = Det (s) v = Sub (s, u) t = Add (v, one) }"
)


@pytest.mark.parametrize("name", ["_new", "_run_outside"])
def test_nothing_that_strikes_in_a_callback_of_machine_code_is_lost(name, monkeypatch):
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)

    text = GROWING if name == "_new" else DETERMINANTS
    program = compiled(text, name == "_new")
    want = program()

    def same(found):
        np.testing.assert_equal(list(found), list(want))

    struck = list(every_instruction(getattr(ProgramTable, name).__code__, program, same))
    assert len(struck) > 10
    assert not lost
    np.testing.assert_equal(list(program()), list(want))


def compiled(text, grows):
    """A call of machine code alone: no other way stands behind it."""
    with mdf_loop.options(engine="jit"):
        function = mdf_loop.compile(text)
        given = (None, True, 0.0) if grows else (4, True, np.eye(2)[None])
        captured = {} if grows else {"one": np.ones((2, 2))}
        function(*given, **captured)

    def call():
        with mdf_loop.options(engine="jit"):
            return np.asarray(function(*given, **captured), object).tolist() if grows else function(*given, **captured)

    return call


WIDE = {"Exception", "BaseException", "OSError", "TimeoutError", "RuntimeError"}
STORED = {"background.py", "workers.py", "app.py"}
"""Files that keep what they catch for another thread, or are the end of the command."""


@each("path", sorted(pathlib.Path(mdf_loop.__file__).parent.rglob("*.py")), size=500)
def test_whatever_catches_all_lets_through_what_comes_from_outside(path):
    for handler in ast.walk(ast.parse(path.read_text())):
        if not isinstance(handler, ast.ExceptHandler) or path.name in STORED:
            continue
        names = {n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)} if handler.type else WIDE
        ends = isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None
        first = ast.unparse(handler.body[0])
        is_asked = any(name in first for name in ("is_from_outside", "keeps_results"))
        if names & WIDE and not ends and not is_asked:
            assert first.startswith("let_through("), f"{path}:{handler.lineno} catches {sorted(names)}"


def test_only_what_is_from_outside_is_let_through():
    let_through(ValueError("a failure of the work"))
    for kind in (KeyboardInterrupt, SystemExit):
        with pytest.raises(kind):
            let_through(kind())
    with pytest.raises(mdf_loop.errors.LoopTimeout):
        let_through(mdf_loop.errors.LoopTimeout("over"))


def test_other_threads_are_not_struck():
    found = []
    thread = threading.Thread(target=lambda: found.append(mdf_loop.loop(10**5, True, 0.0, body="x: x + 1")))
    thread.start()
    thread.join()
    assert found == [10**5]
