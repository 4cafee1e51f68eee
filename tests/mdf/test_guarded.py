"""What a model says is data: nothing of it is evaluated as Python, wherever it hides, and nothing grows without a bound."""

import json
import math
import tracemalloc

import modelspec.utils
import numpy as np
import pytest
from modeci_mdf.mdf import Condition, ConditionSet, Edge, Graph, InputPort, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.cli import main
from mdf_loop.errors import IterationError, LoopError, MalformedBody, UnsupportedOp
from mdf_loop.integrations.engine_runs import run_in_mdf
from mdf_loop.integrations.evaluator import compute
from mdf_loop.integrations.no_eval import evaluated

FORCED = {"value": "[1, 2] * 2"}
"""A parameter that only MDF's engine can evaluate."""


def body_of(node, edges=(), **more):
    """The dict of a body; ``node`` is what its first node has besides its ports."""
    first = {"input_ports": {"i": {}, "x": {}}, **node, "output_ports": {"o": {"value": "y"}, **node.get("output_ports", {})}}
    first["parameters"] = {"forced": FORCED, **node.get("parameters", {})}
    first["parameters"].setdefault("y", {"value": "x"})
    content = {"metadata": {"inputs": ["i", "go", "x"], "outputs": ["go", "o"]}, "nodes": {"n": first}, **more}
    return {"graph_b": content}


def hidden(code):
    """Nodes in which a text stands at every place that a node has for one."""
    text_of, ports = {"p": {"value": [code]}}, {"i": {}, "x": {}}
    return {
        "value": {"parameters": {"y": {"value": code}}},
        "element of a list": {"parameters": {**text_of, "y": {"value": "p[0]"}}},
        "element of a list, once more": {"parameters": {**text_of, "q": {"value": "p[0]"}, "y": {"value": "q"}}},
        "element of a list of lists": {"parameters": {"p": {"value": [[code]]}, "y": {"value": "p[0][0]"}}},
        "element of a tuple": {"parameters": {"p": {"value": f"({code!r}, 1)"}, "y": {"value": "p[0]"}}},
        "value of a dict": {"parameters": {"p": {"value": {"a": code}}, "q": {"value": "p['a']"}, "y": {"value": "q"}}},
        "text in an expression": {"parameters": {"p": {"value": repr(code)}, "y": {"value": "p"}}},
        "texts put together": {"parameters": {"p": {"value": f"{code[:9]!r} + {code[9:]!r}"}, "y": {"value": "p"}}},
        "array of texts": {
            "parameters": {"p": {"value": f"numpy.array([{code!r}])"}, "q": {"value": "p[0]"}, "y": {"value": "q"}}
        },
        "initial value": {"parameters": {"y": {"value": "y + x", "default_initial_value": code}}},
        "initial value in a list": {"parameters": {"y": {"value": "y[0]", "default_initial_value": [code]}}},
        "derivative": {"parameters": {"y": {"default_initial_value": 1.0, "time_derivative": code}}},
        "condition": {"parameters": {"y": {"value": "x", "conditions": [{"id": "c", "test": code, "value": "1"}]}}},
        "conditional value": {"parameters": {"y": {"value": "x", "conditions": [{"id": "c", "test": "x > 0", "value": code}]}}},
        "argument": {"parameters": {"y": {"function": "linear", "args": {"variable0": code, "slope": 1, "intercept": 0}}}},
        "argument in a list": {"parameters": {"y": {"function": "linear", "args": {"variable0": "p[0]", "slope": 1}}, **text_of}},
        "name of a function": {"parameters": {"y": {"function": code, "args": {}}}},
        "function of a node": {"functions": {"f": {"value": code}}, "parameters": {"y": {"value": "f"}}},
        "argument of ONNX": {"parameters": {"y": {"function": "onnx::Abs", "args": {"X": code}}}},
        "function of ACT-R": {"parameters": {"y": {"function": f"actr.Memory({code})", "args": {"a": "x"}}}},
        "output port": {"output_ports": {"o": {"value": code}}},
        "default of a port": {
            "input_ports": {**ports, "u": {"default_value": code}},
            "parameters": {"y": {"value": "u"}},
        },
        "default in a list": {
            "input_ports": {**ports, "u": {"default_value": [code]}},
            "parameters": {"y": {"value": "u[0]"}},
        },
    }


@pytest.fixture
def code(tmp_path):
    """A text that leaves a trace if it is ever evaluated."""
    return f"__import__('os').mkdir({str(tmp_path / 'evaluated')!r})"


def ended(run):
    """Run something that may end in one of our errors, and in no other."""
    try:
        run()
    except LoopError as error:
        return error
    return None


PLACES = sorted(hidden(""))


@pytest.mark.parametrize("place", PLACES)
def test_no_text_of_a_body_is_evaluated(place, code, tmp_path):
    for node in (hidden(code)[place], {**hidden(code)[place], "metadata": {"text": code}}):
        ended(lambda node=node: mdf_loop.loop(2, True, 1.0, body=body_of(node)))
        assert not (tmp_path / "evaluated").exists()


def whole(node, **more):
    """A model file's content with one node."""
    return {"m": {"graphs": {"g": body_of(node, **more)["graph_b"]}}}


def saved(tmp_path, content):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("steps", [None, 3])
@pytest.mark.parametrize("place", PLACES)
def test_no_text_of_a_model_is_evaluated(place, steps, code, tmp_path, recwarn):
    path = saved(tmp_path, whole(hidden(code)[place]))
    how = {} if steps is None else {"steps": steps, "time_increment": 0.1}
    ended(lambda: mdf_loop.run(path, x=1.0, **how))
    assert not (tmp_path / "evaluated").exists()


def test_weights_are_no_expressions(code, tmp_path, recwarn):
    for weight in (code, [code], [[code]]):
        edge = {"sender": "n", "sender_port": "o", "receiver": "m", "receiver_port": "u", "parameters": {"weight": weight}}
        content = whole({}, edges={"e": edge})
        content["m"]["graphs"]["g"]["nodes"]["m"] = {"input_ports": {"u": {}}, "output_ports": {"r": {"value": "u"}}}
        path = saved(tmp_path, content)
        ended(lambda path=path: mdf_loop.run(path, x=1.0))
        ended(lambda path=path: mdf_loop.run(path, x=1, steps=2))
    assert not (tmp_path / "evaluated").exists()


def test_a_model_that_is_trusted_may_do_what_mdf_lets_it(code, tmp_path, capsys):
    path = saved(tmp_path, whole(hidden(code)["value"]))
    with pytest.raises(MalformedBody, match=r"options\(trusted=True\), or --trusted") as caught:
        mdf_loop.run(path)
    assert "b/n/y" in str(caught.value) or "g/n/y" in str(caught.value)
    with mdf_loop.options(trusted=True):
        ended(lambda: mdf_loop.run(path))
    assert (tmp_path / "evaluated").exists()
    (tmp_path / "evaluated").rmdir()
    for flags, expected in (([], False), (["--trusted"], True)):
        with pytest.raises(SystemExit):
            main(["run", str(path), *flags])
        assert (tmp_path / "evaluated").exists() == expected
    capsys.readouterr()


def test_a_trusted_model_computes_what_is_not_on_the_list(tmp_path):
    path = saved(
        tmp_path, whole({"parameters": {"m": {"value": [[1, 2], [3, 4]]}, "y": {"value": "numpy.linalg.inv(m).diagonal()"}}})
    )
    with pytest.raises((MalformedBody, UnsupportedOp), match=r"options\(trusted=True\)"):
        mdf_loop.run(path)
    with mdf_loop.options(trusted=True):
        np.testing.assert_allclose(mdf_loop.run(path)["o"], [-2, -0.5])


def test_bodies_are_held_to_the_list_in_trusted_models_too(code, tmp_path):
    with mdf_loop.options(trusted=True):
        for node in hidden(code).values():
            ended(lambda node=node: mdf_loop.loop(2, True, 1.0, body=body_of(node)))
    assert not (tmp_path / "evaluated").exists()


def test_bodies_are_held_to_the_list_without_registration_too(code, tmp_path):
    mdf_loop.unregister()
    try:
        before = modelspec.utils.evaluate
        for node in hidden(code).values():
            ended(lambda node=node: mdf_loop.loop(2, True, 1.0, body=body_of(node)))
        from modeci_mdf import execution_engine

        assert execution_engine.evaluate_params_modelspec is before
    finally:
        mdf_loop.register()
    assert not (tmp_path / "evaluated").exists()


def test_mdfs_engine_hands_nothing_to_eval(monkeypatch, tmp_path):
    def refuse(*_):
        raise AssertionError("evaluated")

    monkeypatch.setattr(modelspec.utils, "eval", refuse, raising=False)
    assert mdf_loop.loop(2, True, 1.0, body=body_of({"parameters": {"y": {"value": "x * 3 + forced[0]"}}})) == 13.0
    node = {"parameters": {"s": {"value": "s + numpy.exp(0)", "default_initial_value": 1}, "y": {"value": "s if s > 1 else -s"}}}
    assert mdf_loop.run(saved(tmp_path, whole(node)))["o"] == 2.0
    with mdf_loop.options(trusted=True), pytest.raises(LoopError):
        mdf_loop.run(saved(tmp_path, whole(node)))


SCOPE = {
    "x": np.array([1.0, 2, 3]),
    "m": np.arange(6.0).reshape(2, 3),
    "k": 3,
    "f": 2.5,
    "flag": True,
    "row": [1, 2, 3],
    "pair": (1, 2),
    "said": {"a": 1},
    "text": "txt",
    "i": np.int64(2),
    "z": np.array(3.0),
}
EXPRESSIONS = """
    x + 1; -x; x @ x; k ** 2; 2 ** -1; k << 2; f // 1; not x[0]; 1 < f < 3; 1 < 2 < 0; x[0] and k; k or f; x[1:]; m[0, 1];
    m[:, numpy.newaxis]; m[..., 0]; row * 2; 2 * row; row + [1]; pair + (1,); [x, x]; (k, f); numpy.exp(x); math.exp(f);
    numpy.sum(m, 0); numpy.sum(m, axis=1, keepdims=True); numpy.shape(m); numpy.shape(m)[0]; numpy.concatenate([x, x]);
    numpy.concatenate((m, m), 1); numpy.stack(row); numpy.array([1, 2]); numpy.array(row, dtype=float);
    numpy.array([1, 2], float);
    numpy.zeros(3); numpy.ones((2, k)); numpy.full((2,), k); numpy.add(1, 2); numpy.multiply(x, 2); numpy.negative(3);
    numpy.power(2, 3); abs(-k); min(row); max(1, 2, k); sum(row); sum(row, 5); round(f); round(f, 1); len(row); int(f); float(k);
    bool(0); numpy.pi; math.tau; numpy.where(x > 1, x, 0); numpy.arange(1, 5, 2); numpy.linspace(0, 1, 5); numpy.tile(x, 2);
    numpy.repeat(x, 2); numpy.eye(3); numpy.diag(x); numpy.outer(x, x); numpy.dot(m, x); numpy.matmul(m, x); numpy.float32(3);
    said['a']; said == {}; {'a': [k]}; text; row[0]; pair[-1]; x[[0, 2]]; x[numpy.array([0, 0])]; i * 2; row * i; 1 if k else 2;
    text == 'txt'; math.gcd(4, 6); numpy.reshape(m, (3, 2)); numpy.reshape(m, -1); numpy.take(x, [0, 1]); numpy.diff(x); ~k;
    k % 2; 7 // 2; 5 / 2; z + 1; z[()]; numpy.sort(x); numpy.square(k); numpy.size(m); numpy.round(x, 1); 1j * k;
    'a' + 'b'; 'a' * 3;
    -7 % 3; numpy.mod(-7, 3); x > 2 if flag else x; numpy.lcm(4, 6); numpy.prod(m, axis=0); numpy.tensordot(m, x, 1)
"""


@pytest.mark.parametrize("text", [text.strip() for text in EXPRESSIONS.split(";")])
def test_expressions_are_what_python_makes_of_them(text):
    expected = eval(text, {**SCOPE, "math": math, "numpy": np})
    actual = compute(text, SCOPE)
    assert type(actual) is type(expected)
    assert str(actual) == str(expected)
    assert getattr(actual, "dtype", None) == getattr(expected, "dtype", None)


@pytest.mark.parametrize(
    ("source", "expected"),
    [("3", 3), ("2.5", 2.5), ("x", 7), ("4.0 / 2", 2), (" k + 1 ", 4), ([1, 2], np.array([1, 2])), ("abs", "abs"), (None, None)],
)
def test_values_and_texts_are_what_modelspec_makes_of_them(source, expected):
    scope = {"x": 7, "k": 3}
    for actual in (evaluated(source, scope), modelspec.utils.evaluate(source, scope) if source != "abs" else expected):
        assert type(actual) is type(expected)
        np.testing.assert_array_equal(actual, expected)


GROWING = """
    2 ** 2 ** 2 ** 2 ** 2 ** 2; 1 << 10 ** 9; True << 10 ** 9; (10 ** 9000) * (10 ** 9000) * (10 ** 9000); round(5, -10 ** 9);
    numpy.ones((10 ** 9, 10 ** 9)); numpy.ones(10 ** 9); numpy.zeros((10 ** 5, 10 ** 5)); numpy.full(10 ** 9, x);
    numpy.eye(10 ** 5); numpy.identity(10 ** 5); numpy.arange(10 ** 12); numpy.arange(0, 1, 1e-12);
    numpy.linspace(0, 1, 10 ** 10);
    numpy.repeat(x, 10 ** 10); numpy.tile(x, 10 ** 10); numpy.tile(x, (10 ** 5, 10 ** 5)); numpy.diag(numpy.ones(10 ** 5));
    numpy.outer(numpy.ones(10 ** 5), numpy.ones(10 ** 5)); numpy.dot(numpy.ones((10 ** 5, 1)), numpy.ones((1, 10 ** 5)));
    numpy.ones((10 ** 5, 1)) @ numpy.ones((1, 10 ** 5)); numpy.inner(numpy.ones((10 ** 5, 1)), numpy.ones((10 ** 5, 1)));
    numpy.tensordot(numpy.ones(10 ** 5), numpy.ones(10 ** 5), 0); numpy.tril(numpy.ones(10 ** 5)); numpy.square(10 ** 30);
    numpy.random.rand(10 ** 5, 10 ** 5); numpy.random.normal(0.0, 1.0, 10 ** 10); numpy.array(10 ** 30) * numpy.array(10 ** 30);
    numpy.take(numpy.ones((2, 10 ** 4)), numpy.zeros(10 ** 5, dtype=int), axis=0); numpy.round(5, -10 ** 12)
"""
GROWING_LISTS = """
    [0] * 10 ** 9; 10 ** 9 * [0]; (0,) * 10 ** 9; 'a' * 10 ** 10; '%1000000000d' % 3; [[[0] * 1000] * 1000] * 1000;
    numpy.zeros(3, dtype='U1000000000'); numpy.array([1], dtype='(10000,10000)f8'); numpy.power(10 ** 30, 10 ** 9);
    numpy.ones(10 ** 5)[:, None] * numpy.ones(10 ** 5); sum([[1]] * 10, []); numpy.concatenate([[0] * 10 ** 7] * 100);
    numpy.ones((2, 10 ** 4))[numpy.zeros(10 ** 5, dtype=int)]; numpy.array(['a']) + numpy.array(['b'])
"""
"""What only MDF's engine runs."""


def texts(several):
    return [text.strip() for text in several.split(";")]


@pytest.mark.parametrize("text", texts(GROWING))
@pytest.mark.parametrize("engine", ["interpret", "numpy"])
def test_nothing_grows_without_a_bound_in_a_loop(text, engine):
    tracemalloc.start()
    try:
        with mdf_loop.options(engine=engine), pytest.raises(LoopError):
            mdf_loop.loop(2, True, 1.0, body=compiled(text))
        assert tracemalloc.get_traced_memory()[1] < 1e8
    finally:
        tracemalloc.stop()


def compiled(text):
    """A body that becomes operators."""
    body = body_of({"parameters": {"y": {"value": text}}})
    del body["graph_b"]["nodes"]["n"]["parameters"]["forced"]
    return body


@pytest.mark.parametrize("text", texts(GROWING) + texts(GROWING_LISTS))
def test_nothing_grows_without_a_bound_in_mdfs_engine(text, tmp_path, recwarn):
    with pytest.raises(LoopError):
        mdf_loop.loop(2, True, 1.0, body=body_of({"parameters": {"y": {"value": text}}}))
    path = saved(tmp_path, whole({"parameters": {"y": {"value": text}}}))
    for how in ({}, {"steps": 2}):
        with pytest.raises(LoopError):
            mdf_loop.run(path, x=1.0, **how)


@pytest.mark.parametrize("text", texts(GROWING))
def test_nothing_grows_without_a_bound_on_the_way_to_onnx(text, tmp_path, recwarn):
    path = saved(tmp_path, whole({"parameters": {"forced": {"value": 1}, "y": {"value": text}}}))
    for how in ({}, {"steps": 2}):
        ended(lambda how=how: mdf_loop.to_onnx(path, **how))


@pytest.mark.parametrize("text", ["s * s", "s ** 2", "s << s", "s * s * 1"])
@pytest.mark.parametrize("engine", ["interpret", "numpy", "auto"])
def test_what_grows_from_iteration_to_iteration_ends(text, engine):
    body = compiled("s")
    body["graph_b"]["nodes"]["n"]["parameters"] = {"s": {"value": text, "default_initial_value": 3}, "y": {"value": "s > 0"}}
    with mdf_loop.options(engine=engine), pytest.raises(IterationError, match="more than 65536 bits"):
        mdf_loop.loop(100, True, 1.0, body=body)


def test_larger_arrays_are_for_trusted_models(monkeypatch):
    monkeypatch.setattr("mdf_loop.kernels.arrays.bounds.MOST_ELEMENTS", 100)
    body = compiled("numpy.sum(numpy.ones(101))")
    with pytest.raises(LoopError, match=r"options\(trusted=True\)"):
        mdf_loop.loop(2, True, 1.0, body=body)
    with mdf_loop.options(trusted=True):
        assert mdf_loop.loop(2, True, 1.0, body=body) == 101.0


def sending(reduce, weights, value, count=2):
    """Nodes in a row, each with several edges into its one port."""
    first = Node(id="n0", parameters=[Parameter(id="v", value=value)], output_ports=[OutputPort(id="o", value="v")])
    nodes, edges = [first], []
    for k in range(1, 40):
        port = InputPort(id="u", reduce=reduce)
        nodes.append(Node(id=f"n{k}", input_ports=[port], output_ports=[OutputPort(id="o", value="u")]))
        for j in range(count):
            parameters = {"weight": weights} if weights is not None else None
            ends = {"sender": f"n{k - 1}", "sender_port": "o", "receiver": f"n{k}", "receiver_port": "u"}
            edges.append(Edge(id=f"e{k}.{j}", parameters=parameters, **ends))
    return Graph(id="g", nodes=nodes, edges=edges)


@pytest.mark.parametrize(
    ("reduce", "weights", "value"),
    [("multiply", None, 3), ("multiply", 7, 3), ("overwrite", [1, 2, 3], 10**9)],
)
def test_edges_do_not_let_a_value_grow_without_a_bound(reduce, weights, value):
    source = sending(reduce, weights, value, 1 if reduce == "overwrite" else 2)
    with pytest.raises(LoopError, match=r"more than|Exceeds the limit"):  # MDF's engine prints such numbers
        mdf_loop.run(source)


def test_shapes_of_ports_have_a_bound():
    node = Node(id="n", input_ports=[InputPort(id="u", shape=(10**5, 10**5))], output_ports=[OutputPort(id="o", value="u")])
    with pytest.raises(LoopError, match="n/u"):
        mdf_loop.run(Graph(id="g", nodes=[node]))


@pytest.mark.parametrize(
    "condition",
    [
        Condition("call_with_pruned_args", func="n"),
        Condition("copy"),
        Condition("_unit_registry", value="x"),
        Condition("All", dependencies=[Condition("Always"), {"type": "ConditionSet", "kwargs": {}}]),
        Condition("Not", condition={"type": "clone_graph", "kwargs": {}}),
        Condition("While", func="TimeScale.mro"),
        Condition("AfterNPasses", n=1, time_scale="TimeScale.__class__"),
        Condition("TimeInterval", repeat="9 ** 9 ** 9 ms"),
        Condition("TimeInterval", repeat="1 ms ^ 9"),
    ],
    ids=lambda condition: condition.type,
)
@pytest.mark.parametrize("where", ["node_specific", "termination"])
def test_only_conditions_of_graph_scheduler_are_called(condition, where, recwarn):
    node = Node(id="n", parameters=[Parameter(id="p", value="[1] * 2")], output_ports=[OutputPort(id="o", value="p")])
    said = (
        {"node_specific": {"n": condition}}
        if where == "node_specific"
        else {"termination": {"environment_state_update": condition}}
    )
    for how in ({}, {"steps": 2}):
        with pytest.raises(MalformedBody, match=r"no condition|must be a time|calls a function"):
            mdf_loop.run(Graph(id="g", nodes=[node], conditions=ConditionSet(**said)), **how)


def test_times_in_conditions_are_read(recwarn):
    node = Node(id="n", parameters=[Parameter(id="c", value="c + 1")], output_ports=[OutputPort(id="o", value="c")])
    condition = ConditionSet(node_specific={"n": Condition("TimeInterval", repeat="1 ms")})
    assert mdf_loop.run(Graph(id="g", nodes=[node], conditions=condition))["o"] == 1


CHUNKS = {
    "first": {"value": {"ISA": "count-from", "start": "two"}},
    "change": {"function": "change_goal", "args": {"pattern": "given", "curr_goal": "goal"}},
    "goal": {"value": "first if given == {} else change", "default_initial_value": {}},
    "found": {"function": "retrieve_chunk", "args": {"pattern": "given", "dm_chunks": "chunks", "types": "types"}},
    "chunks": {"value": [{"name": "b", "ISA": "count-order", "first": "one"}]},
    "types": {"value": {"count-order": ["first"]}},
}


def test_models_of_dicts_and_texts_run(tmp_path):
    """As ACT-R's models do that MDF publishes."""
    node = {"input_ports": {"given": {"default_value": {}}}, "parameters": CHUNKS}
    node["output_ports"] = {"g": {"value": "goal"}, "f": {"value": "found"}}
    path = saved(tmp_path, {"m": {"graphs": {"g": {"nodes": {"n": node}}}}})
    outputs = mdf_loop.run(path, given={})
    assert outputs == {"g": {"ISA": "count-from", "start": "two"}, "f": {}}


def test_functions_of_actr_are_those_it_exports(tmp_path):
    for name in ("actr.random", "actr.Memory", "actr.__builtins__", "actr.__setattr__"):
        path = saved(tmp_path, whole({"parameters": {"y": {"function": f"{name}(x)", "args": {"a": "x"}}}}))
        with pytest.raises(LoopError):
            mdf_loop.run(path, x=1.0)


def test_errors_in_mdfs_engine_say_which_node_it_was():
    node = Node(id="division", parameters=[Parameter(id="p", value="1 / 0")], output_ports=[OutputPort(id="o", value="p")])
    with pytest.raises(IterationError, match=r"expression '1 / 0' cannot be evaluated: division by zero") as caught:
        run_in_mdf(Graph(id="g", nodes=[node]))
    assert "in MDF node 'division'" in caught.value.__notes__
