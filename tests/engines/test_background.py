"""Compiling in a thread: what is compiled there is used when it is there, and until then, or if it never comes, all goes on."""

import contextvars
import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import onnx.parser
import pytest

import mdf_loop
from mdf_loop import backend, options
from mdf_loop.execute import specialised
from mdf_loop.execute.programs import watched_programs
from mdf_loop.execute.tiers import background, paying
from mdf_loop.execute.tiers.background import Order, idle
from mdf_loop.execute.tiers.paying import Account
from mdf_loop.options import current_options
from mdf_loop.step.build import Builder
from mdf_loop.step.records import Type

BODY = (
    "b (int64 i, bool c, double x) => (bool c, double y, double z) { hidden = Mul (x, k) y = Sub (k, hidden) z = Identity (y) }"
)
TURNING = (
    """<ir_version: 9, opset_import: ["": 18]> turning (float[2,3] x) => (float[3,2] y) { y = Transpose <perm = [1, 0]> (x) }"""
)
SOON = 120.0


def a_step():
    b = Builder()
    x = b.param(Type(np.dtype(np.float64), ()))
    return b.closed([b.add(x, x)])


@pytest.fixture
def held(monkeypatch):
    """A gate in front of what compiles in threads, closed at first; and it always pays to compile."""
    pytest.importorskip("llvmlite")
    gate, plain = threading.Event(), specialised.in_machine_code

    def compiled(step, *how):
        if threading.current_thread() is not threading.main_thread():
            assert gate.wait(SOON)
        return plain(step, *how)

    def pays(self, options, ahead=0.0):
        return options.how.compiles or options.how.compiles_what_pays

    monkeypatch.setattr(specialised, "in_machine_code", compiled)
    monkeypatch.setattr(Account, "pays", pays)
    yield gate
    gate.set()
    assert idle(SOON)


def interpreted(body, count, **named):
    with options(engine="interpret"):
        return mdf_loop.loop(count, True, 0.5, body=body, **named)


@pytest.fixture
def body(request):
    """A body that no other test has had compiled."""
    return BODY.replace("hidden", request.node.name)


def assert_same(actual, expected):
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, e)


def test_calls_go_on_until_machine_code_is_there(held, body):
    planned = mdf_loop.compile(body)
    for _ in range(3):
        assert_same(planned(300, True, 0.5, k=0.25), interpreted(body, 300, k=0.25))
        assert "machine code" not in planned.explain()
    held.set()
    assert idle(SOON)
    assert_same(planned(300, True, 0.5, k=0.25), interpreted(body, 300, k=0.25))
    assert "one program in machine code" in planned.explain()


def test_a_run_switches_at_the_end_of_a_block(held, body, monkeypatch):
    from mdf_loop.execute import blocks as stages
    from mdf_loop.execute import numpy_engine

    lengths, run = [], numpy_engine.NumpyLoop._try_block

    def noted(self, session, stage, length):
        lengths.append((length, stage.is_compiled))
        done = run(self, session, stage, length)
        if len(lengths) == 3:
            held.set()
            assert idle(SOON)
        return done

    monkeypatch.setattr(numpy_engine.NumpyLoop, "_try_block", noted)
    monkeypatch.setattr(Account, "patience", lambda self, left: 0.0)  # it is not waited for
    monkeypatch.setattr(stages, "AHEAD", 1e-4)  # far less than the run takes: there are many blocks
    with options(engine="auto"):
        found = mdf_loop.loop(200_000, True, 0.5, body=body, k=0.125)
    assert_same(found, interpreted(body, 200_000, k=0.125))
    assert [is_compiled for _, is_compiled in lengths[:3]] == [False] * 3
    assert {is_compiled for _, is_compiled in lengths[3:]} == {True}


def test_what_is_worth_it_is_waited_for(held, body, monkeypatch):
    monkeypatch.setattr(Account, "patience", lambda self, left: SOON)
    threading.Timer(0.3, held.set).start()
    planned = mdf_loop.compile(body)
    with options(engine="auto"):
        found = planned(100_000, True, 0.5, k=0.75)
    assert_same(found, interpreted(body, 100_000, k=0.75))
    assert "machine code" in planned.explain()


def test_what_takes_too_long_is_not_waited_for_any_longer(held, body, monkeypatch):
    monkeypatch.setattr(Account, "patience", lambda self, left: 0.05)
    planned = mdf_loop.compile(body)
    with options(engine="auto"):
        found = planned(100_000, True, 0.5, k=0.75)
    assert_same(found, interpreted(body, 100_000, k=0.75))
    assert "machine code" not in planned.explain()


def test_copies_of_results_count_when_it_is_asked_whether_machine_code_pays(monkeypatch):
    pytest.importorskip("llvmlite")
    clock, plain = [0.0], backend.handed_out

    def slow(results):
        clock[0] += 10.0
        return plain(results)

    monkeypatch.setattr(paying.time, "thread_time", lambda: clock[0])
    monkeypatch.setattr(backend, "handed_out", slow)
    turned = backend.prepare(onnx.parser.parse_model(TURNING))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with options(engine="auto"), watched_programs() as found:
        for _ in range(4):  # of which the first are interpreted, and all but one find that it pays
            np.testing.assert_array_equal(turned.run([x])[0], x.T)
            assert idle(SOON)
    assert found[0].latest.size > 0


def test_patience_is_time_of_the_processor_and_ends_on_the_wall_as_well(monkeypatch):
    clocks = {"process_time": 0.0, "perf_counter": 0.0}
    for name in clocks:
        monkeypatch.setattr(paying.time, name, lambda name=name: clocks[name])
    is_patient = paying.lasting(1.0)
    clocks.update(perf_counter=1.5, process_time=0.9)
    assert is_patient()
    clocks.update(process_time=1.1)
    assert not is_patient()
    clocks.update(perf_counter=paying.LONGEST + 0.1, process_time=0.1)
    assert not is_patient()


def test_the_first_blocks_of_all_are_small_and_the_one_that_writes_programs_tells_nothing(body, monkeypatch):
    from mdf_loop.execute import blocks as stages
    from mdf_loop.execute import numpy_engine

    blocks, run = [], numpy_engine.NumpyLoop._try_block

    def noted(self, session, stage, length):
        done = run(self, session, stage, length)
        blocks.append((length, stage.is_paced))
        return done

    monkeypatch.setattr(numpy_engine.NumpyLoop, "_try_block", noted)
    monkeypatch.setattr(Account, "pays", lambda self, options, ahead=0.0: False)
    monkeypatch.setattr(stages, "TOLD", 0.0)
    planned = mdf_loop.compile(body)
    with options(engine="auto"):
        found = planned(100_000, True, 0.5, k=0.75)
        assert_same(found, interpreted(body, 100_000, k=0.75))
        (first, is_told), (second, is_then_told), *_ = blocks
        assert first <= stages.FIRST < second <= 8 * first
        assert (is_told, is_then_told) == (False, True)
        blocks.clear()
        planned(100_000, True, 0.5, k=0.75)
    assert blocks[0] == (stages.TELLING, True)


def test_the_time_of_a_run_is_kept_while_it_waits(held, body, monkeypatch):
    monkeypatch.setattr(Account, "patience", lambda self, left: SOON)
    with options(engine="auto", timeout=1.0), pytest.raises(mdf_loop.errors.LoopTimeout) as info:
        mdf_loop.loop(10_000_000, True, 0.5, body=body, k=0.75)
    assert info.value.iteration > 0


def test_what_goes_wrong_in_the_thread_is_a_reason_and_nothing_else(monkeypatch):
    def fails(step, *how):
        raise MemoryError("none left")

    monkeypatch.setattr(specialised, "in_machine_code", fails)
    order = Order(a_step())
    order.wait(SOON)
    assert order.found == "MemoryError none left"
    assert idle(SOON)


def test_where_there_can_be_no_thread_nothing_waits(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    order = Order(a_step())
    assert order.found is None or "thread" in order.found
    order.wait(SOON)
    assert "can't start new thread" in order.found


def test_options_and_variables_are_those_of_who_ordered(monkeypatch):
    mine, seen = contextvars.ContextVar("mine", default="nobody's"), []

    def looks(step, *how):
        seen.append((mine.get(), current_options().block_bytes, threading.current_thread().daemon))
        return "seen"

    monkeypatch.setattr(specialised, "in_machine_code", looks)
    mine.set("ours")
    with options(block_bytes=12345):
        order = Order(a_step())
        order.wait(SOON)
    assert seen == [("ours", 12345, True)]


def test_what_nothing_keeps_is_not_compiled_and_not_kept(monkeypatch):
    compiled, gate = [], threading.Event()

    def waits(step, *how):
        assert gate.wait(SOON)
        compiled.append(step)
        return "done"

    monkeypatch.setattr(specialised, "in_machine_code", waits)
    first, second, third = (Order(a_step()) for _ in range(3))
    assert first.found is second.found is third.found is None
    step = weakref.ref(second)
    del second
    gc.collect()
    assert step() is None
    gate.set()
    assert idle(SOON)
    assert len(compiled) == 2
    assert first.found == third.found == "done"
    assert first._step is None
    assert background._line._worker is None  # nor is there a thread left


def in_a_process(code, **environment):
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MDF_LOOP_CACHE": "off", **environment},
        capture_output=True,
        text=True,
        timeout=SOON,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


HANGING = """
import threading, time
from mdf_loop.execute import specialised
from mdf_loop.execute.tiers import background
from mdf_loop.execute.tiers import paying
from mdf_loop.step.build import Builder
from mdf_loop.step.records import Type
import numpy as np
b = Builder()
step = b.closed([b.exp(b.param(Type(np.dtype(np.float64), ())))])
begun = threading.Event()
def hangs(step, *how):
    begun.set()
    time.sleep(10_000)
"""


def test_the_end_of_a_process_waits_for_nothing():
    code = "specialised.in_machine_code = hangs\norder, other = background.Order(step), background.Order(step)\n"
    assert in_a_process(HANGING + code + "order.found, other.found\nbegun.wait()\nprint('over')") == ["over"]


def test_a_process_that_ends_amid_compiling_ends_well():
    pytest.importorskip("llvmlite")
    code = "orders = [background.Order(step) for _ in range(50)]\n[o.found for o in orders]\norders[0].wait(60)\nprint('over')"
    for _ in range(3):
        assert in_a_process(HANGING + code) == ["over"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not copied here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_copies_of_a_process_compile_by_themselves():
    """While the thread is at it, and in the middle of a step that never ends."""
    pytest.importorskip("llvmlite")
    code = """
import os, warnings
warnings.simplefilter("ignore")
import mdf_loop
body = "x: x * 0.5 + k"
plain = specialised.in_machine_code
def child():
    order.wait(60)
    with mdf_loop.options(engine="jit"):
        print(order.found.form[:12].replace(" ", "-"), float(mdf_loop.loop(10, True, 1.0, body=body, k=0.0)), flush=True)
for k in range(6):
    order = background.Order(step)
    order.found
    if k == 5:
        background.PATIENCE = 0.1
        order = background.Order(step)
        specialised.in_machine_code = hangs
        order.found
        begun.wait()
    if (copy := os.fork()) == 0:
        specialised.in_machine_code = plain
        child()
        os._exit(0)
    assert os.waitpid(copy, 0)[1] == 0
print("parent")
"""
    *found, last = in_a_process(HANGING + code)
    assert found == ["machine-code", "0.0009765625"] * 6
    assert last == "parent"


def test_ctrl_c_is_seen_while_machine_code_is_waited_for():
    pytest.importorskip("llvmlite")
    code = """
import _thread, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import mdf_loop
from mdf_loop.execute.tiers import paying
paying.Account.pays = lambda self, options, ahead=0.0: True
paying.Account.patience = lambda self, left: 1000.0
specialised.in_machine_code = hangs
def strike():
    begun.wait()
    time.sleep(1)
    _thread.interrupt_main()
threading.Thread(target=strike, daemon=True).start()
try:
    mdf_loop.loop(100_000_000, True, 1.0, body="x: x * 0.5 + k", k=0.1)
except KeyboardInterrupt as error:
    print("seen", error.iteration >= 0)
"""
    assert in_a_process(HANGING + code) == ["seen", "True"]
