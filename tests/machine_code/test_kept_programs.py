"""Machine code on disk that is found by what it is for: what is found is what would have been compiled, and nothing else is."""

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from unittest import mock

import numpy as np
import onnx.parser
import pytest
from fuzzed import first_call, fuzzed_loops

import mdf_loop
from mdf_loop import backend, loop, options
from mdf_loop.backends.llvm.compiled_program import packed
from mdf_loop.backends.llvm.linking.object_code import FOLDER
from mdf_loop.calls import prepared
from mdf_loop.execute import graphs, programs
from mdf_loop.execute.programs import Programs, watched_programs
from mdf_loop.execute.specialised import Specialised
from mdf_loop.execute.tiers import kept_programs
from mdf_loop.execute.tiers.background import idle
from mdf_loop.execute.tiers.kept_programs import KeptPrograms, found_on_disk, keep
from mdf_loop.execute.tiers.paying import Account
from mdf_loop.ops import registry
from mdf_loop.step.records import Size, Type
from tests.fuzz.outcome import compare, to_the_bit
from tests.fuzz.outcome import outcome as outcome_of

llvm = pytest.importorskip("llvmlite")

SOON = 120.0

TEXT = """<ir_version: 9, opset_import: ["": 18]> kept (float[3] x) => (float[3] y, float[5, 3] rows) {
    n = Constant <value: tensor = int64 {5}> ()
    go = Constant <value: tensor = bool {1}> ()
    y, rows = Loop <body = step (int64 i, bool c, float[3] a) => (bool d, float[3] t, float[3] r) {
        d = Identity (c) k = Constant <value: tensor = float[3] {0.5, 2, -1}> ()
        h = LeakyRelu <alpha: float = 0.25> (a) s = Add (h, x) t = Mul (s, k) r = Sub (t, h)
    }> (n, go, x)
}"""
GIVEN = [np.float32([0.1, -0.5, 2.0])]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, in a process where it always pays to compile, and nothing is compiled yet."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr(Account, "pays", lambda self, options, ahead=0.0: options.how.compiles_what_pays)
    return tmp_path


def body_of(text):
    return backend.prepare(onnx.parser.parse_model(text)).body


# A law: what is found is what was compiled

KNOWN = {}
"""The text of each program that had a key, in all examples."""


def compiled_and_found(call, **chosen):
    """What a call gives by machine code, and by the same read from disk: how many programs that were."""
    plain, lowered, seen = Programs._compiled, Programs._lowered, []

    def noting(self, entry, types, obey):
        entry.key = self._key(entry, types, obey)
        return lowered(self, entry, types, obey)

    def again(entry, region):
        made = plain(entry, region)
        if not isinstance(made, Specialised) or not entry.key:
            return made
        keep(entry.key, made)
        found = found_on_disk(entry.key, lambda: region)
        seen.append((entry.key, made.code, found))
        return found or made

    found = []
    for compiled in (plain, again):
        prepared._cache.clear()
        with mock.patch.object(Programs, "_compiled", staticmethod(compiled)), mock.patch.object(Programs, "_lowered", noting):
            found.append(outcome_of(call, engine="jit", **chosen))
    compare(found[1], found[0], "found on disk", to_the_bit)
    for key, code, one in seen:
        assert KNOWN.setdefault(key, code.text) == code.text
        assert (one is None) == (packed(code) is None)
    return sum(one is not None for _, _, one in seen)


def test_fuzzed_loops_on_disk():
    found = [compiled_and_found(first_call(case), **case.chosen) for case in fuzzed_loops(160)]
    assert sum(found) > 60


def test_numbers_are_drawn_as_before():
    body = "b (int64 i, bool c, double x) => (bool d, double y) { d = Identity (c) n = RandomNormal <shape=[1], dtype=11> () "
    body += "s = Squeeze (n) y = Add (x, s) }"
    with options(seed=7):
        assert compiled_and_found(lambda: loop(9, True, 0.5, body=body))


def test_constants_beside_the_code_are_on_disk_as_well():
    table = ", ".join(map(str, range(400)))
    body = f"""b (int64 i, bool c, float[400] x) => (bool d, float[400] y) {{
        d = Identity (c) k = Constant <value: tensor = float[400] {{{table}}}> () y = Add (x, k) }}"""
    assert compiled_and_found(lambda: loop(3, True, np.ones(400, np.float32), body=body))


# Keys

CHANGES = {
    "a constant": ("0.5, 2, -1", "0.5, 2, -1.0000001"),
    "its sign": ("0.5, 2, -1", "0.5, 2, 1"),
    "an attribute": ("0.25", "0.26"),
    "an operator": ("Sub (t, h)", "Div (t, h)"),
    "the order of inputs": ("Sub (t, h)", "Sub (h, t)"),
    "an operator of another kind": ("LeakyRelu", "Elu"),
    "the trip count": ("int64 {5}", "int64 {6}"),
    "the condition": ("bool {1}", "bool {0}"),
    "the condition of the body": ("d = Identity (c)", "d = Not (c)"),
    "an output": ("bool d, float[3] t, float[3] r", "bool d, float[3] t, float[3] s"),
    "what is declared": ("float[3] y, float[5, 3]", "float[3] y, float[m, 3]"),
    "the version": ('"": 18', '"": 17'),
    "the result": ("(float[3] y, float[5, 3] rows)", "(float[5, 3] rows, float[3] y)"),
}
"""What may be different in a model, one thing at a time."""


def test_whatever_is_different_has_another_key():
    types = [Type(np.dtype(np.float32), (3,))]
    texts = [TEXT, *(TEXT.replace(old, new) for old, new in CHANGES.values())]
    assert len({*texts}) == 1 + len(CHANGES)
    keys = [KeptPrograms(body_of(text)).key(types, True) for text in texts]
    assert all(keys)
    assert len({*keys}) == len(texts)


def test_types_and_details_are_in_the_key():
    body, f32 = body_of(TEXT), np.dtype(np.float32)
    types = [
        Type(f32, (3,)), Type(f32, (1, 3)), Type(f32, ()), Type(f32, (), is_array=True), Type(f32, (), weak=True),
        Type(np.dtype(np.int32), (3,)), Type(np.dtype(">f4"), (3,)), Type(np.dtype("V2"), (3,)),
    ]  # fmt: skip
    keys = [KeptPrograms(body, *details).key([x], obey) for details in ((), (1,)) for x in types for obey in (False, True)]
    assert all(keys)
    assert len({*keys}) == len(keys)
    assert KeptPrograms(body).key(types[:2]) != KeptPrograms(body).key(types[1::-1])


def test_equal_records_have_one_key():
    types = [Type(np.dtype(np.float32), (3,))]
    assert KeptPrograms(body_of(TEXT)).key(types) == KeptPrograms(body_of(TEXT)).key(types)


def test_what_cannot_be_written_down_has_no_key(monkeypatch):
    body, types = body_of(TEXT), [Type(np.dtype(np.float32), (3,))]
    assert not KeptPrograms(body).key([Type(np.dtype(np.float32), (Size(),))])
    assert not KeptPrograms(body).key([Type()])
    node = replace(body.nodes[0], attrs={"call": lambda: 1})
    assert not KeptPrograms(replace(body, nodes=(node, *body.nodes))).key(types)
    texts = replace(body, constants={**body.constants, "text": np.array(["a"], object)})
    assert not KeptPrograms(texts).key(types)
    monkeypatch.setattr(kept_programs, "MOST_BYTES", 8)
    assert not KeptPrograms(body).key(types)
    monkeypatch.undo()
    assert KeptPrograms(body).key(types)
    monkeypatch.setenv(FOLDER, "off")
    assert not KeptPrograms(body).key(types)


@pytest.mark.parametrize("how", ["kernel", "definition", "say", "register"])
def test_operators_that_others_have_changed_have_no_key(how, monkeypatch):
    monkeypatch.setattr(registry, "SAID_BY_OTHERS", set())
    monkeypatch.setattr(kept_programs, "SAID_BY_OTHERS", registry.SAID_BY_OTHERS)
    monkeypatch.setitem(registry.KERNELS, ("", "LeakyRelu"), [*registry.KERNELS["", "LeakyRelu"]])
    kept, types = KeptPrograms(body_of(TEXT)), [Type(np.dtype(np.float32), (3,))]
    assert kept.key(types)
    entry = registry.KERNELS["", "LeakyRelu"][-1]
    {
        "kernel": lambda: mdf_loop.kernel("LeakyRelu", since=entry.since)(lambda x, *, alpha=0.01: x),
        "definition": lambda: registry.definition("LeakyRelu", since=entry.since)(lambda b, x, alpha=0.01: x),
        "say": lambda: registry.say("LeakyRelu", since=entry.since),
        "register": lambda: registry.register(replace(entry)),
    }[how]()
    assert not kept.key(types)
    registry.lookup.cache_clear()


# Another process

CODE = """
import sys
import numpy as np, onnx.parser
from mdf_loop import backend
from mdf_loop.backends.llvm.linking.machine import machine
from mdf_loop.execute import graphs
from mdf_loop.execute.programs import watched_programs
from mdf_loop.execute.tiers import background, paying
machine()
paying.Account.pays = lambda self, options, ahead=0.0: sys.argv[1] == "first"
lowered, plain = [], graphs.lower_graph
graphs.lower_graph = lambda *given, **how: lowered.append(1) or plain(*given, **how)
made = backend.prepare(onnx.parser.parse_model(sys.stdin.read()))
for _ in range(2):
    with watched_programs() as ran:
        found = made.run([np.float32([0.1, -0.5, 2.0])])
    assert background.idle(60)
print(len(lowered), [one.latest.is_found for one in ran], *(x.tobytes().hex() for x in found))
"""


def in_a_process(which, **environment):
    surroundings = {**os.environ, **environment}
    command = [sys.executable, "-c", CODE, which]
    found = subprocess.run(command, env=surroundings, input=TEXT, capture_output=True, text=True, check=True)
    lowered, is_found, *results = found.stdout.split()
    return int(lowered), is_found, results


def test_another_process_lowers_nothing(tmp_path):
    where = {FOLDER: str(tmp_path)}
    first = in_a_process("first", **where, PYTHONHASHSEED="1")
    assert first[:2] == (1, "[False]")
    assert in_a_process("second", **where, PYTHONHASHSEED="2") == (0, "[True]", first[2])
    for place in tmp_path.iterdir():
        place.write_bytes(place.read_bytes()[:-7])
    lowered, is_found, results = in_a_process("first", **where)
    assert (lowered, is_found, results) == first
    assert in_a_process("second", **where) == (0, "[True]", first[2])


# In one process


def runs(text, times=3):
    """What a model gives that is read for this alone, and what ran each time."""
    made, ran = backend.prepare(onnx.parser.parse_model(text)), []
    for _ in range(times):
        with watched_programs() as found:
            results = made.run(GIVEN)
        ran.append(found[-1].latest if found else None)
        assert idle(SOON)
    return results, ran, made


def test_the_first_call_runs_what_is_found(folder, monkeypatch):
    expected, before, _ = runs(TEXT)
    assert all(one.size and not one.is_found for one in before[1:])
    monkeypatch.undo()
    monkeypatch.setenv(FOLDER, str(folder))
    monkeypatch.setattr(Account, "pays", lambda self, options, ahead=0.0: False)
    found, ran, made = runs(TEXT)
    assert all(one.is_found and one.is_quick for one in ran)
    assert "found on disk" in ran[0].form
    assert ran[0].step.params
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    with options(engine="interpret"):
        for a, b in zip(found, made.run(GIVEN), strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_is_made_with_care_takes_the_place_of_what_was_made_in_a_hurry(folder, monkeypatch):
    runs(TEXT)
    monkeypatch.setattr(programs, "CARE", 0)
    _, ran, _ = runs(TEXT, 4)
    assert [one.is_quick for one in ran][0::3] == [True, False]
    _, ran, _ = runs(TEXT)
    assert not any(one.is_quick for one in ran)
    assert all(one.is_found for one in ran)


def test_a_loop_without_a_graph_is_found_as_well(folder, monkeypatch):
    body = "b (int64 i, bool c, double x) => (bool d, double y) { d = Identity (c) h = Mul (x, k) y = Sub (k, h) }"
    for _ in range(3):
        expected = loop(40, True, 0.5, body=body, k=0.25)
        assert idle(SOON)
    monkeypatch.setattr(Account, "pays", lambda self, options, ahead=0.0: False)
    prepared._cache.clear()
    with watched_programs() as ran:
        assert loop(40, True, 0.5, body=body, k=0.25) == expected
    assert [one.latest.is_found for one in ran] == [True]


def test_a_wrong_guess_in_what_is_found_is_found_out(folder, monkeypatch):
    text = """<ir_version: 9, opset_import: ["": 18]> guess (float[9] x, int64[1] a) => (float[k] y) {
        two = Constant <value: tensor = int64[1] {2}> () b = Add (a, two) y = Slice (x, a, b) }"""
    x = np.arange(9, dtype=np.float32)
    for _ in range(2):
        made = backend.prepare(onnx.parser.parse_model(text))
        for start, expected in itertools.chain([(2, [2, 3])] * 3, [(8, [8])] * 4, [(3, [3, 4])]):
            np.testing.assert_array_equal(made.run([x, np.array([start])])[0], expected)
            assert idle(SOON)


@pytest.mark.parametrize("damage", ["gone", "other code"])
def test_without_its_object_code_a_program_is_compiled_again(folder, damage, monkeypatch):
    expected, *_ = runs(TEXT)
    lowered, plain = [], graphs.lower_graph
    monkeypatch.setattr(graphs, "lower_graph", lambda *given_, **how: lowered.append(1) or plain(*given_, **how))
    for place in folder.iterdir():
        if b'"functions"' not in place.read_bytes():
            place.unlink() if damage == "gone" else place.write_bytes(b"\x7fELF" * 100)
    found, ran, _ = runs(TEXT)
    assert lowered == [1]
    assert not ran[-1].is_found
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
