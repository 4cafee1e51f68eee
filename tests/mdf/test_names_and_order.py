"""A model means the same when its mappings are sorted, when its names are others, and when it is written and read again."""

import json
import random
import re
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pytest
import yaml

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.cli.writing import STARTER
from mdf_loop.settings.engines import settled_engine

ROOT = Path(__file__).parents[2]
OWN = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "examples/gallery").glob("*.yaml")])

NAMES = [
    *("tau", "pi", "inf", "nan", "i", "e", "t", "dt", "self", "np", "math", "numpy", "k", "iteration", "condition"),
    *("abs", "max", "min", "sum", "round", "len", "int", "float", "exp", "sqrt", "noise", "uniform", "true", "y", "no"),
    *("größe", "名前", "µ", "é", "_", "x_next", "goes_on", "trial"),
]
"""Names that mean something elsewhere, or look as if they did."""

KEPT = {"body", "then_branch", "else_branch", "M", "cond", "v_initial", "num_scan_inputs", "index", "scanned", "let", "dt"}
"""Names that arguments of loops have, and the step that equations with ``derivatives`` read."""

ENGINE = settled_engine(False)
"""Engine auto changes to machine code when the clock says so, which may change the last place of powers."""

NODE = """
m:
  format: ModECI MDF v0.4
  graphs:
    g:
      nodes:
        neuron:
          input_ports: {drive: {default_value: 1.5}, start: {default_value: -0.5}}
          parameters:
            scale: {value: 20.0}
            twice: {value: scale * 2 - abs(scale)}
            body:
              value:
                let: {slope: (drive - v) / scale}
                carried: {v: v + slope, w: 'max(w, v) + slope', n: n + 1}
                collected: {trace: v * pi_, level: w}
                while: v < 1 and n < 50
            run: {function: onnx::Loop, args: {M: 100, w: start * 2, v: start, n: 0, body: body}}
          output_ports:
            v: {value: run.v}
            w: {value: run.w - (run.v + run.w) / 2}
            path: {value: run.trace}
            count: {value: run.n}
            last: {value: 'run.level[-1] * twice'}
        after:
          input_ports: {v: {}}
          parameters:
            body: {value: {carried: {s: s + v * x}, scanned: [x], collected: {part: s}}}
            parts: {value: [1.0, 2.0, 3.0]}
            go: {function: onnx::Scan, args: {x: parts, s: 0.25, num_scan_inputs: 1, body: body}}
          output_ports: {s: {value: go.s}, part: {value: go.part}}
      edges:
        e1: {sender: neuron, sender_port: count, receiver: after, receiver_port: v}
""".replace("pi_", "3.0")

BY_PLACE = """
m:
  format: ModECI MDF v0.4
  graphs:
    g:
      nodes:
        n:
          parameters:
            body: {value: {carried: {v: v + 0.1 * (1.5 - v), t: t + 0.1}, collected: {q: t, p: v}, while: "v < 1"}}
            run: {function: onnx::Loop, args: {M: 10000, cond: true, v: -50.0, t: 0.0, body: body}}
          output_ports: {v: {value: "run[0]"}, t: {value: "run[1]"}, q: {value: "run[2]"}, p: {value: "run[3]"}}
"""

MODELS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in OWN}
MODELS |= {"template": STARTER.replace("NAME", "decaying"), "node": NODE, "by place": BY_PLACE}


def results(folder, text, name="model.yaml", **inputs):
    """The outputs of a model, by name."""
    path = folder / name
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mdf_loop.errors.LoopWarning)
        with mdf_loop.options(engine=ENGINE):
            return dict(mdf_loop.run(path, seed=3, **inputs))


def alike(found, wanted, names=None):
    """See that outputs are the same, but for their names and their order."""
    named = {unicodedata.normalize("NFKC", (names or {}).get(name, name)): value for name, value in wanted.items()}
    assert found.keys() == named.keys()
    for name, value in named.items():
        np.testing.assert_array_equal(found[name], value, name)


@pytest.mark.parametrize("name", MODELS)
def test_sorted_and_written_again(tmp_path, name):
    wanted, content = results(tmp_path, MODELS[name]), yaml.safe_load(MODELS[name])
    alike(results(tmp_path, yaml.safe_dump(content, sort_keys=True)), wanted)
    alike(results(tmp_path, json.dumps(content), "model.json"), wanted)
    alike(results(tmp_path, json.dumps(content, sort_keys=True), "sorted.json"), wanted)
    model = mdf_loop.load(tmp_path / "model.yaml")
    model.to_yaml_file(str(tmp_path / "again.yaml"))
    alike(results(tmp_path, (tmp_path / "again.yaml").read_text()), wanted)


def ids_of(content):
    """The names of nodes, ports, parameters, and values of equations in a model."""
    (model,) = content.values()
    found = set()
    for graph in model["graphs"].values():
        for node, said in graph["nodes"].items():
            found.add(node)
            for kind in ("input_ports", "parameters", "functions", "output_ports"):
                for id, thing in (said.get(kind) or {}).items():
                    found.add(id)
                    value = thing.get("value") if isinstance(thing, dict) else None
                    for part in ("carried", "collected", "let"):
                        found |= {*(value.get(part) or {})} if isinstance(value, dict) else set()
                    found |= {*(value.get("scanned") or [])} if isinstance(value, dict) else set()
    return sorted(found - KEPT)


def renamed(content, names):
    """A model with other names, wherever they stand; names that are called are functions."""
    pattern = re.compile(rf"(?<![\w.'])({'|'.join(map(re.escape, names))})(?![\w(])|(?<=\.)({'|'.join(map(re.escape, names))})\b")

    def text(given):
        return pattern.sub(lambda found: names[found[0]], given)

    if isinstance(content, dict):
        return {text(str(key)) if key in names else key: renamed(value, names) for key, value in content.items()}
    if isinstance(content, list):
        return [renamed(value, names) for value in content]
    return text(content) if isinstance(content, str) else content


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["node", "by place", "template", *(n for n in MODELS if "gallery" in n)])
def test_other_names(tmp_path, name, seed):
    content = yaml.safe_load(MODELS[name])
    if "onnx: " in MODELS[name] or "conditions" in MODELS[name]:
        pytest.skip("names of ONNX's text and of conditions are written in other ways")
    ids = ids_of(content)
    used = set(re.findall(r"\w+", MODELS[name]))  # what a model calls by a name already, such as the iteration number i
    free = [each for each in NAMES if each not in ids and each not in KEPT and each not in used]
    others = random.Random(seed).sample(free, min(len(ids), len(free)))
    names = dict(zip(random.Random(seed).sample(ids, len(ids)), others, strict=False))
    wanted = results(tmp_path, MODELS[name])
    changed = yaml.safe_dump(renamed(content, names), sort_keys=bool(seed % 2), allow_unicode=True)
    places = {id: ".".join(names.get(part, part) for part in id.split(".")) for id in wanted}
    alike(results(tmp_path, changed), wanted, places)
    assert not [p for p in check(tmp_path / "model.yaml") if p.kind == "error"]


TAU = """
m:
  format: ModECI MDF v0.4
  graphs:
    g:
      nodes:
        n:
          input_ports: {NAME: {default_value: 20.0}}
          parameters:
            body: {value: {carried: {t: t + 1, v: "v + 0.1 / NAME * (1.5 - v)"}, collected: {path: v}, while: "v < 1"}}
            run: {function: onnx::Loop, args: {M: 60, v: 0.0, t: 0, body: body}}
          output_ports: {v: {value: run.v}, path: {value: run.path}, steps: {value: run.t}}
"""


def expected(value):
    """What the model above gives."""
    v = path = 0.0
    path = []
    while (not path or v < 1) and len(path) < 60:
        v = v + 0.1 / value * (1.5 - v)
        path.append(v)
    return {"v": v, "path": path, "steps": len(path)}


def same(found, value):
    """See that outputs are those for a value."""
    for name, wanted in expected(value).items():
        np.testing.assert_allclose(np.asarray(found[name]), wanted, rtol=1e-12)


@pytest.fixture(params=["tau", "pi", "inf", "nan", "i", "exp", "max", "self", "numpy", "größe"])
def named(request, tmp_path):
    """A model file whose port has a name."""
    path = tmp_path / "model.yaml"
    path.write_text(TAU.replace("NAME", request.param))
    return path, request.param


def of_args(folder, args):
    """The results of equations of v, w and n that keep their initial values, from args in an order."""
    body = "{carried: {v: v, w: w, n: n + 1}}"
    run = f"{{function: onnx::Loop, args: {{M: 2, {args}, body: body}}}}"
    ports = "{v: {value: run.v}, w: {value: run.w}, n: {value: run.n}}"
    node = f"{{parameters: {{body: {{value: {body}}}, run: {run}}}, output_ports: {ports}}}"
    found = results(folder, f"m: {{format: ModECI MDF v0.4, graphs: {{g: {{nodes: {{a: {node}}}}}}}}}")
    return tuple(float(found[name]) for name in "vwn")


@pytest.mark.parametrize(
    "names",
    ["v_init w_init n_init", "v0 w0 n0", "init_v init_w init_n", "v_start w_0 initial_n", "x_v_0 w1 n_2"],
)
def test_initial_values_with_the_names_of_values_in_theirs(tmp_path, names):
    """They are matched by these names, whatever their order."""
    v, w, n = names.split()
    for order in ([v, w, n], [w, v, n], [n, w, v]):
        values = {v: 1.5, w: 10.25, n: 3.0}
        assert of_args(tmp_path, ", ".join(f"{key}: {values[key]}" for key in order)) == (1.5, 10.25, 5.0)


def test_initial_values_with_other_names(tmp_path):
    """The order counts, unless a name contradicts it; a name in a longer name of another value is none."""
    assert (
        of_args(tmp_path, "a: 1.5, b: 10.25, c: 3.0") == of_args(tmp_path, "a: 1.5, w_init: 10.25, c: 3.0") == (1.5, 10.25, 5.0)
    )
    assert of_args(tmp_path, "vn: 1.5, wv: 10.25, v_w: 3.0") == (1.5, 10.25, 5.0)
    with pytest.raises(mdf_loop.errors.ArgumentError, match="'v_init' has the name of 'v' in it, and is in the place of 'w'"):
        of_args(tmp_path, "a: 1.5, v_init: 10.25, c: 3.0")


def test_initial_values_with_names_that_differ_in_capitals(tmp_path):
    """In the order of the equations they are clear; in another one they would go to the wrong values."""
    assert of_args(tmp_path, "V: 1.5, W: 10.25, N: 3.0") == (1.5, 10.25, 5.0)
    for args, said in [
        ("W: 10.25, V: 1.5, N: 3.0", "'W' has the name of 'w'"),
        ("a: 1.5, V_init: 10.25, c: 3.0", "'V_init' has"),
    ]:
        with pytest.raises(mdf_loop.errors.ArgumentError, match=f"{said}.*give values by name: v, w, n"):
            of_args(tmp_path, args)


@pytest.mark.parametrize("name", ["v_init", "v_initial", "v0", "V"])
def test_one_initial_value_with_another_name_than_the_others(name, tmp_path):
    with pytest.raises(mdf_loop.errors.ArgumentError, match=f"no {name!r}; did you mean 'v'"):
        of_args(tmp_path, f"{name}: 1.5, w: 10.25, n: 3.0")


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit", "auto"])
def test_the_names_of_a_node_win(named, engine):
    path, name = named
    with mdf_loop.options(engine=engine):
        for value in (0.5, 2.0, 20.0):
            same(mdf_loop.run(path, **{name: value}), value)
        assert name in mdf_loop.prepare(path).inputs


def test_the_names_of_a_node_win_wherever_it_is_run(named):
    path, name = named
    assert not [problem for problem in check(path) if problem.kind == "error"]
    swept = mdf_loop.sweep(path, over={name: [0.5, 2.0]}, outputs=["v", "steps"])
    for k, value in enumerate((0.5, 2.0)):
        assert float(swept["steps"][k]) == expected(value)["steps"]
    recorded = mdf_loop.run(path, record=["n.run.v"], **{name: 2.0})
    np.testing.assert_allclose(recorded.recorded["n.run.v"], [0.0, *expected(2.0)["path"][:-1]])
    stepped = mdf_loop.run(path, steps=2, collect=True, **{name: 2.0})
    assert stepped["steps"].tolist() == [expected(2.0)["steps"]] * 2
    written = mdf_loop.to_onnx(path, inputs=[name])
    assert [value.name for value in written.graph.input] == [name]
    outputs = mdf_loop.backend.run_model(written, [np.array(0.5)])
    same(dict(zip([value.name for value in written.graph.output], outputs, strict=True)), 0.5)
    back = mdf_loop.run(mdf_loop.convert(written), **{name: 0.5})
    same({output.rpartition(".")[2]: value for output, value in back.items()}, 0.5)
    assert name in mdf_loop.draw(path).mermaid


def test_mdfs_own_engine_reads_results_by_name(named):
    from modeci_mdf.execution_engine import EvaluableGraph

    model = mdf_loop.load(named[0])
    before = model.to_yaml()
    graph = EvaluableGraph(model.graphs[0], verbose=False)
    graph.evaluate()
    same({port: value.curr_value for port, value in graph.enodes["n"].evaluable_outputs.items()}, 20.0)
    assert model.to_yaml() == before, "the model of the caller is what it was"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("v: 0.0, t: 0,", "V: 0.0, t: 0,", "no 'V'.*'v' has no initial value.*v"),
        ("v: 0.0, t: 0,", "t: 0,", "'v' has no initial value.*t, v"),
        ("v: 0.0, t: 0,", "v: 0.0, t: 0, w: 1,", "the equations have no 'w'.*t, v"),
        ("run.path", "run.paht", "did you mean 'path'.*t, v, path"),
        ("run.v", "run.w + 1", "'w' is no result.*t, v, path"),
        ("tau:", "lambda:", "'lambda' is a word of Python.*rename it"),
    ],
)
def test_what_nothing_has_is_refused_and_found(tmp_path, old, new, said):
    path = tmp_path / "model.yaml"
    text = TAU.replace("NAME", "lambda" if "lambda" in new else "tau")
    assert old in text or "lambda" in new
    path.write_text(text.replace(old, new))
    with pytest.raises(mdf_loop.LoopError, match=said):
        mdf_loop.run(path)
    assert any(re.search(said, problem.message) and problem.line for problem in check(path) if problem.kind == "error")


@pytest.mark.parametrize("engine", ["interpret", "numpy", "jit", "auto"])
def test_values_by_keyword(engine):
    body = "x: x + tau\nt: t + i"
    with mdf_loop.options(engine=engine):
        compiled = mdf_loop.compile(body)
        for call in (lambda *a, **k: mdf_loop.loop(*a, body=body, **k), compiled):
            for given in ({"x": 1.0, "t": 0}, {"t": 0, "x": 1.0}):
                x, t = call(4, True, tau=2.0, **given)
                assert (x, t) == (9.0, 6)
            x, t = call(4, True, 1.0, t=0.5, tau=2.0, i=10)
            assert (x, t) == (9.0, 40.5)
            assert call(4, True, 1.0, 0)[0] == pytest.approx(1 + 8 * np.pi)
            with pytest.raises(mdf_loop.errors.ArgumentError, match="takes x, t"):
                call(4, True, t=0.5, tau=2.0)
        scanned = {"carried": {"s": "s + a * b"}, "scanned": ["a", "b"]}
        given = {"b": [1.0, 2.0], "s": 0.5, "a": [3.0, 4.0]}
        assert mdf_loop.scan(body=scanned, num_scan_inputs=2, **given) == 11.5
        assert mdf_loop.compile(scanned, num_scan_inputs=2)(**given) == 11.5


def test_values_by_keyword_inside_a_traced_function():
    @mdf_loop.body
    def outer(i, go, x, *, tau):
        _, inner = mdf_loop.loop(3, True, body="b: b + 1\na: a + tau", a=x, b=0, tau=tau)
        return go, inner

    assert mdf_loop.loop(2, True, 1.0, body=outer, tau=10.0) == 61.0


def test_bodies_inside_bodies_read_the_names_around_them(tmp_path):
    inner = "{value: {carried: {y: y + tau}}}"
    again = "{function: 'onnx::Loop', args: {M: 2, cond: true, y: x, body: body}}"
    parameters = f"{{body: {inner}, again: {again}}}"
    node = f"{{input_ports: {{x: {{}}}}, parameters: {parameters}, output_ports: {{x_out: {{value: again.y}}}}}}"
    graph = f"{{graph_inner: {{metadata: {{inputs: [i, go, x], outputs: [go, x_out]}}, nodes: {{m: {node}}}}}}}"
    text = TAU.replace("NAME", "tau").replace("run.t", "run").replace("run.v", "run").replace("run.path", "run")
    text = re.sub(r"body: \{value.*", f"body: {{value: {graph}}}", text).replace(
        "M: 60, v: 0.0, t: 0", "M: 3, cond: true, x: 1.0"
    )
    assert results(tmp_path, text, tau=0.5)["v"] == 4.0


def with_arguments(folder, body, *names):
    """What check says of a loop of two values whose arguments have these names."""
    path = folder / "m.yaml"
    args = ", ".join(f"{name}: {k}.0" for k, name in enumerate(names))
    loop = f"{{function: 'onnx::Loop', args: {{M: 3, {args}, body: body}}}}"
    result = "run.x" if "carried" in body else "run[0]"
    node = f"{{parameters: {{body: {{value: {body}}}, run: {loop}}}, output_ports: {{y: {{value: '{result}'}}}}}}"
    path.write_text(f"m: {{format: ModECI MDF v0.4, graphs: {{g: {{nodes: {{n: {node}}}}}}}}}")
    return [(found.kind, found.message) for found in check(path)]


def test_check_says_which_value_is_taken_for_which(tmp_path):
    equations = "{carried: {x: x + 1, t: t + 2}}"
    onnx = "{onnx: 'b (int64 i, bool go, double x, double t) => (bool go, double y, double u) { y = Add (x, x) u = Add (t, t) }'}"
    said = "g/n/run: args have other names than the values of the body, so their order counts: "
    found = with_arguments(tmp_path, equations, "a", "b")
    assert found == [("note", f"{said}a for x, b for t; write args: {{x: ..., t: ...}}")]
    for names in (("x", "t"), ("t0", "x0"), ("t", "x")):
        assert with_arguments(tmp_path, equations, *names) == []
    found = with_arguments(tmp_path, onnx, "t", "start")
    assert found == [("warning", f"{said}t for x, start for t; the body has 't' in another place")]
    assert "the body has 'T' in another place" in with_arguments(tmp_path, onnx, "T", "X")[0][1]
    for names in (("a", "b"), ("start", "t"), ("t", "x"), ("X", "T")):
        assert with_arguments(tmp_path, onnx, *names) == []
    errors = [message for kind, message in with_arguments(tmp_path, equations, "T", "X") if kind == "error"]
    assert any("'T' has the name of 't' in it" in message for message in errors)


def test_the_value_that_was_forgotten_is_named(tmp_path):
    body = "{carried: {x: x + 1, t: t + 2, u: u + x}}"
    for names, missing in ((("x", "t"), "'u' has"), (("x0", "u_init"), "'t' has"), (("x0",), "'t', 'u' have")):
        found = [said for kind, said in with_arguments(tmp_path, body, *names) if kind == "error"]
        assert found == [f"g/n/run: {missing} no initial value; args give values by name: x, t, u"]
