"""Nothing is shared: no result has memory in common with an input, a constant, another result or that of another call."""

import itertools
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Graph, InputPort, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop import backend, openvino
from mdf_loop.errors import KindError
from mdf_loop.integrations.scheduler import SteppedLoop
from mdf_loop.ops import registry
from mdf_loop.readers.mdf.stepped_loops import Steps
from mdf_loop.types import fitting as arguments

MODELS = Path(__file__).parents[1] / "models"
HEAD = '<ir_version: 10, opset_import: ["": 18]>'
ENGINES = ("interpret", "numpy", "auto")

NODES = """
    same = Identity (x)
    again = Identity (same)
    turned = Transpose (x)
    flat = Reshape <allowzero = 0> (x, four)
    constant = Identity (k)
    turned_constant = Transpose (k)
    fresh = Neg (x)
    fresh_again = Identity (fresh)
    turned_fresh = Transpose (fresh)
    first, second = Split <axis = 0, num_outputs = 2> (fresh)
    some = SequenceConstruct (x, fresh, fresh, k)
    more = SequenceInsert (s, x)
    same_list = Identity (s)
    one = SequenceAt (s, zero)
    texts = Identity (t)
    there = Optional (x)
    got = OptionalGetElement (there)
"""
"""What may give the same memory twice: names of one value, views, constants, sequences, texts, optionals."""
TENSORS = ["same", "again", "turned", "flat", "constant", "turned_constant", "fresh", "fresh_again", "turned_fresh"]
TENSORS += ["first", "second", "one", "texts", "got"]
NAMES = [*TENSORS, "some", "more", "same_list", "there"]
CONSTANTS = "<float[2,2] k = {1, 2, 3, 4}, int64[1] four = {4}, int64 zero = {0}>"
INPUTS = "float[2,2] x, string[2] t, seq(float[2,2]) s"


def given():
    x = np.float32([[1, 2], [3, 4]])
    return {"x": x, "t": np.array(["a", "b"], object), "s": [x, np.float32([[5, 6], [7, 8]])]}


def model():
    return onnx.parser.parse_model(f"{HEAD} g ({INPUTS}) => ({', '.join(NAMES)}) {CONSTANTS} {{ {NODES} }}")


def branch(name):
    return f"{name} () => ({', '.join(NAMES)}) {CONSTANTS} {{ {NODES} }}"


def loop_text(name, inputs):
    """Every value is carried once and collected, if it can be."""
    carried = [f"c{k}" for k in range(len(NAMES))]
    collected = "\n".join(f"{tensor}_each = Identity ({tensor})" for tensor in TENSORS)
    outs = ", ".join([*NAMES, *(f"{tensor}_each" for tensor in TENSORS)])
    signature = ", ".join([*inputs, *carried])
    front = "go_out, " if inputs else ""
    go = "go_out = Identity (go)" if inputs else ""
    return f"{name} ({signature}) => ({front}{outs}) {CONSTANTS} {{ {go} {NODES} {collected} }}"


LOOP = loop_text("b", ["int64 i", "bool go"])


def starts(values):
    """A first value for each name: one of the inputs, most of them the same one."""
    of_name = {"some": values["s"], "more": values["s"], "same_list": values["s"], "texts": values["t"], "flat": values["x"]}
    return [of_name.get(name, values["x"]) for name in NAMES]


def in_loop(count):
    return lambda values: mdf_loop.loop(count, True, *starts(values), body=LOOP, **values)


def compiled(values, made={}):  # noqa: B006
    loop = made.setdefault("loop", mdf_loop.compile(LOOP))
    return loop(3, True, *starts(values), **values)


def scanned(values):
    carried, outs = ", ".join(f"c{k}" for k in range(len(NAMES))), ", ".join(NAMES)
    nodes = f"{NODES} each = Identity (part)"
    body = f"b ({carried}, float[2] part) => ({outs}, each, part, same) {CONSTANTS} {{ {nodes} }}"
    rows = np.ones((2, 2), np.float32)
    values["rows"] = rows
    captured = {name: values[name] for name in "xts"}
    return mdf_loop.scan(*starts(values), rows, body=body, num_scan_inputs=1, **captured)


def mdf_graph():
    ports = [InputPort(id="x", shape=(2,), type="float", default_value=np.array([1.0, 2.0]))]
    held = Parameter(id="held", value=np.array([3.0, 4.0]))
    outs = {"a": "x", "b": "x", "c": "held", "d": "held", "e": "x + held", "f": "listed"}
    parameters = [held, Parameter(id="listed", value=[1.0, 2.0])]
    outputs = [OutputPort(id=id, value=value) for id, value in outs.items()]
    return Graph(id="g", nodes=[Node(id="n", input_ports=ports, parameters=parameters, output_ports=outputs)])


GRAPH = mdf_graph()
HELD = np.array([1.0, 2.0])
"""What Python bodies close over."""


def python_loop(values):
    def body(i, go, a, b, c, x, s, t):
        return True, HELD, x, s, HELD, x, s[0]

    return mdf_loop.loop(3, True, values["x"], values["x"], values["s"], body=body, **values)


def python_scan(values):
    values["rows"] = np.ones((3, 2))
    return mdf_loop.scan(values["x"], values["rows"], body=lambda a, part: (part, HELD, part), num_scan_inputs=1)


def python_branch(values):
    branches = dict.fromkeys(("then_branch", "else_branch"), lambda x, s, t: (x, x, s, HELD, x.T, t, None))
    return mdf_loop.if_(True, **branches, **values)


def in_mdf_engine(values):
    graph = EvaluableGraph(mdf_loop.convert(model()).graphs[0])
    graph.evaluate(initializer=values)
    return [port.curr_value for node in graph.enodes.values() for port in node.evaluable_outputs.values()]


def stepped(values):
    loop = SteppedLoop(Steps("run", 2))
    captured = {name: values[name] for name in "xts"}
    return [loop.execute(6, True, starts(values), LOOP, captured) for _ in range(4)]


def stepped_python(values):
    loop = SteppedLoop(Steps("run", 2))
    body = lambda i, go, a, b: (True, a, [*b, a], a, HELD)  # noqa: E731
    return [loop.execute(6, True, [values["x"], values["s"]], body, {}) for _ in range(4)]


PREPARED = backend.prepare(model())
DEFAULTED = backend.prepare(
    onnx.parser.parse_model(
        f"{HEAD} g (float[2] x) => (float[2] a, float[2] b) <float[2] x = {{1, 2}}> {{ a = Identity (x) b = Identity (a) }}"
    )
)
SEQUENCES = "b (int64 i, bool go, seq(float[2,2]) z) => (bool go, seq(float[2,2]) z_out) { z_out = SequenceInsert (z, x) }"
OPENVINO = openvino.prepare(MODELS / "ov_loop.xml")

CALLS = {
    "loop, no iteration": in_loop(0),
    "loop, one iteration": in_loop(1),
    "loop, two iterations": in_loop(2),
    "loop, many iterations": in_loop(70),
    "loop, growing sequence": lambda v: mdf_loop.loop(9, True, v["s"], body=SEQUENCES, x=v["x"]),
    "loop, Python": python_loop,
    "compile": compiled,
    "scan": scanned,
    "scan, Python": python_scan,
    "if_": lambda v: mdf_loop.if_(True, then_branch=branch("t"), else_branch=branch("e"), **v),
    "if_, Python": python_branch,
    "backend": lambda v: PREPARED.run(v),
    "backend, defaults": lambda v: DEFAULTED.run([]),
    "backend.run_node": lambda v: backend.run_node(onnx.helper.make_node("Identity", ["x"], ["y"]), [v["x"]]),
    "openvino": lambda v: OPENVINO.run({name: v.setdefault(name, ones(name)) for name in OPENVINO.inputs}),
    "run, ONNX": lambda v: mdf_loop.run(model(), **v),
    "run, converted": lambda v: mdf_loop.run(mdf_loop.convert(model()), **v),
    "run, converted with bodies": lambda v: mdf_loop.run(mdf_loop.convert(model(), body="onnx"), **v),
    "run, MDF": lambda v: mdf_loop.run(GRAPH),
    "run, MDF with inputs": lambda v: mdf_loop.run(GRAPH, x=v.setdefault("vector", np.array([5.0, 6.0]))),
    "run, steps": lambda v: mdf_loop.run(GRAPH, steps=4),
    "run, one step": lambda v: mdf_loop.run(GRAPH, steps=1),
    "run, collected": lambda v: mdf_loop.run(GRAPH, steps=4, collect=True),
    "MDF's engine": in_mdf_engine,
    "stepped": stepped,
    "stepped, Python": stepped_python,
}
CONSTANT = [HELD, *(port.default_value for n in GRAPH.nodes for port in n.input_ports), GRAPH.nodes[0].parameters[0].value]
CONSTANT += [value for rep in (PREPARED, DEFAULTED, OPENVINO) for value in rep.body.constants.values()]


def ones(name):
    kind = OPENVINO.body.type_of(name)
    return np.ones([dim if isinstance(dim, int) else 3 for dim in kind.shape], kind.dtype)


def leaves(value):
    """All arrays in a result, and all lists and dicts."""
    if isinstance(value, list | tuple | dict):
        arrays, holders = [], [] if isinstance(value, tuple) else [value]
        for item in value.values() if isinstance(value, dict) else value:
            found = leaves(item)
            arrays += found[0]
            holders += found[1]
        return arrays, holders
    return ([value], []) if isinstance(value, np.ndarray) else ([], [])


def spoil(value):
    """Write into everything that was handed out."""
    arrays, holders = leaves(value)
    for array in arrays:
        array[...] = "spoilt" if array.dtype == object else True if array.dtype == bool else 77
    for holder in holders:
        holder.clear()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::mdf_loop.errors.LoopWarning")
def test_results_are_their_own(name, engine):
    call, values = CALLS[name], given()
    with mdf_loop.options(engine=engine, seed=3):
        first, second = call(values), call(values)
        results, holders = leaves((first, second))
        inputs, held = leaves(values)
        assert results
        for a, b in [*itertools.combinations(results, 2), *itertools.product(results, [*inputs, *CONSTANT])]:
            assert not np.may_share_memory(a, b)
        assert len({id(holder) for holder in [*holders, *held]}) == len([*holders, *held])
        assert all(array.flags.writeable for array in results)
        before, wanted = repr((values, CONSTANT)), repr(second)
        spoil(first)
        assert repr(second) == wanted
        assert repr((values, CONSTANT)) == before
        assert repr(call(values)) == wanted


CACHED = np.ones(3)


@pytest.fixture
def cached_kernel():
    mdf_loop.kernel("Cached", domain="test.sharing")(lambda x: CACHED)
    yield
    del registry.KERNELS["test.sharing", "Cached"]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_kernel_of_the_user_keeps_is_copied(engine, cached_kernel):
    text = (
        f'{HEAD[:-2]}, "test.sharing": 1]> b (int64 i, bool c, double[3] x) => (bool c, y, y) {{ y = test.sharing.Cached (x) }}'
    )
    with mdf_loop.options(engine=engine):
        for array in mdf_loop.loop(5, True, np.zeros(3), body=text):
            array[...] = 9
    assert CACHED.tolist() == [1, 1, 1]


def test_maps_are_their_own():
    domain = '<ir_version: 10, opset_import: ["": 18, "ai.onnx.ml": 3]>'
    nodes = 'z = ai.onnx.ml.ZipMap <classlabels_strings = ["a", "b"]> (x) w = Identity (z)'
    rep = backend.prepare(onnx.parser.parse_model(f"{domain} g (float[1,2] x) => (z, w) {{ {nodes} }}"))
    z, w = rep.run([np.float32([[0.25, 0.75]])])
    z[0]["a"] = "spoilt"
    assert w == [{"a": 0.25, "b": 0.75}]


@pytest.mark.parametrize("engine", ENGINES)
def test_partial_results_are_their_own(engine):
    text = "b (int64 i, bool go, float[2] a, float[2] b) => (bool go, float[2] x, x, each) { each = Gather (w, i) }"
    x, w = np.float32([1, 2]), np.ones((4, 2), np.float32)
    with mdf_loop.options(engine=engine), pytest.raises(mdf_loop.LoopError) as failed:
        mdf_loop.loop(9, True, x, x, body=text, x=x, w=w)
    assert failed.value.iteration == 4
    check_partial(failed.value, [x, w])


def failing(i, go, a, b, x):
    if i == 4:
        raise ValueError("no more")
    return True, x, HELD, x


def test_partial_results_of_python_bodies_are_their_own():
    x = np.float32([1, 2])
    with pytest.raises(mdf_loop.LoopError) as failed:
        mdf_loop.loop(9, True, x, x, body=failing, x=x)
    check_partial(failed.value, [x, HELD])


def test_partial_results_of_models_and_branches_are_their_own():
    body = "b (int64 i, bool c, float[2] a) => (bool c2, float[2] a2) { c2 = Identity (c) a2 = Identity (x) e = Gather (w, i) }"
    nodes = f"r = Loop <body = {body}> (m, go, x)"
    constants = "<int64 m = {9}, bool go = {1}>"
    x, w = np.float32([1, 2]), np.ones((4, 2), np.float32)
    whole = backend.prepare(onnx.parser.parse_model(f"{HEAD} g (float[2] x, float[4,2] w) => (r) {constants} {{ {nodes} }}"))
    text = f"t () => (r) {constants} {{ {nodes} }}"
    for call in (lambda: whole.run([x, w]), lambda: mdf_loop.if_(True, then_branch=text, else_branch=text, x=x, w=w)):
        with pytest.raises(mdf_loop.LoopError) as failed:
            call()
        check_partial(failed.value, [x, w])


def test_partial_results_of_stepped_loops_are_their_own():
    x, loop = np.float32([1, 2]), SteppedLoop(Steps("run", 3))
    loop.execute(9, True, [x, x], failing, {"x": x})
    with pytest.raises(mdf_loop.LoopError) as failed:
        loop.execute(9, True, [x, x], failing, {"x": x})
    check_partial(failed.value, [x, HELD])


def check_partial(error, inputs):
    arrays = [value for value in error.partial if value is not None]
    assert arrays
    assert all(array.flags.writeable for array in arrays)
    for a, b in [*itertools.combinations(arrays, 2), *itertools.product(arrays, inputs)]:
        assert not np.may_share_memory(a, b)


# What goes in


def changing(i, go, a, b, x, s):
    for array in (a, *b, x, *s):
        array += 1
    b.append(a)
    s.clear()
    return True, a, b


def changing_branch(x, s):
    x += 1
    s[0] += 1
    s.clear()
    return x


def changing_part(a, part, x):
    part += 1
    x += 1
    return a, part


def test_python_bodies_change_only_what_is_their_own():
    values = given()
    del values["t"]
    before = repr(values)
    mdf_loop.loop(1, True, values["x"], values["s"], body=changing, **values)
    mdf_loop.if_(True, then_branch=changing_branch, else_branch=changing_branch, **values)
    mdf_loop.scan(values["x"], values["x"], body=changing_part, num_scan_inputs=1, x=values["x"])
    SteppedLoop(Steps("run", 1)).execute(1, True, [values["x"], values["s"]], changing, values)
    assert repr(values) == before


def test_object_arrays_are_looked_at_in_every_call():
    add = mdf_loop.compile("b (int64 i, bool c, string[N] t) => (bool c, string[N] t) { }")
    for _ in range(2):
        assert add(2, True, np.array(["a"], object)).tolist() == ["a"]
        with pytest.raises(KindError):
            add(2, True, np.array([1.5], object))


# Nothing is copied that need not be


FRESH = {
    "loop": lambda x: mdf_loop.loop(
        40, True, x, body="b (int64 i, bool c, double[N] x) => (bool c, y, z) { y = Add (x, x) z = Neg (y) }"
    ),
    "scan": lambda x: mdf_loop.scan(
        0.0, x, body="b (double s, double p) => (t, u) { t = Add (s, p) u = Mul (t, t) }", num_scan_inputs=1
    ),
    "if_": lambda x: mdf_loop.if_(
        True, then_branch="t () => (y) { y = Neg (x) }", else_branch="t () => (y) { y = Abs (x) }", x=x
    ),
}
"""Not a model: its values stay with the run until they have left, for what may end it early, and so they are copied."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FRESH)
def test_fresh_results_are_not_copied(name, engine, monkeypatch):
    is_free, said = arguments._is_free, []
    monkeypatch.setattr(arguments, "_is_free", lambda *place: said.append(is_free(*place)) or said[-1])
    with mdf_loop.options(engine=engine):
        FRESH[name](np.arange(1000.0))
    assert said
    assert all(said)


def test_shared_results_are_copied_but_for_one():
    array = np.ones(3)
    results = [array, array, array[1:], [array]]
    place = id(array)
    del array
    handed = arguments.handed_out(results)
    assert sum(id(value) == place for value in (*handed[:3], *handed[3])) == 1
    assert not any(np.may_share_memory(a, b) for a, b in itertools.combinations([*handed[:3], *handed[3]], 2))
