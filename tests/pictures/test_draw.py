"""Models as pictures: what is in them, and that Graphviz and Mermaid get text they can read."""

import re
import subprocess
import sys
from pathlib import Path

import onnx.parser
import pytest
from commands import run_main
from modeci_mdf import mdf

import mdf_loop
from mdf_loop.calls.explain import WAYS, Explanations
from mdf_loop.errors import LoopError
from mdf_loop.pictures import diagram_texts
from mdf_loop.pictures.boxes import COLOURS, INPUT, PLAIN, VALUES, Arrow, Box, Cluster, Picture
from mdf_loop.pictures.of_bodies import MOST_NODES

ROOT = Path(__file__).parents[2]
MODELS = [
    *sorted((ROOT / "examples").glob("*.yaml")),
    *sorted((ROOT / "tests" / "models").glob("*.onnx")),
    ROOT / "examples" / "openvino_loop.xml",
]


def boxes(drawing, *lines):
    """The boxes that begin with these lines."""
    return [box for box in drawing.picture.top.all_boxes() if box.lines[: len(lines)] == lines]


def arrows(drawing, is_back=False):
    """Arrows as pairs of the first lines of boxes."""
    first = {box.key: box.lines[-1 if box.kind in WAYS else 0] for box in drawing.picture.top.all_boxes()}
    return {(first[a.tail], first[a.head]) for a in drawing.picture.arrows if a.is_back == is_back}


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_every_model_is_drawn_and_every_arrow_joins_two_boxes(path):
    drawing = mdf_loop.draw(path)
    keys = [box.key for box in drawing.picture.top.all_boxes()]
    assert len(keys) == len(set(keys)) > 0
    assert {end for arrow in drawing.picture.arrows for end in (arrow.tail, arrow.head)} <= set(keys)
    assert {box.kind for box in drawing.picture.top.all_boxes()} <= set(COLOURS)
    assert drawing.dot.count("{") == drawing.dot.count("}")
    lines = [line.split(" ")[0] for line in map(str.strip, drawing.mermaid.split("\n"))]
    assert lines.count("subgraph") == lines.count("end") > 0


def test_bodies_stand_inside_and_what_is_carried_goes_back():
    drawing = mdf_loop.draw(ROOT / "examples" / "accumulate.yaml")
    (node,) = drawing.picture.top.clusters
    (loop,) = node.clusters
    (body,) = loop.clusters
    assert (node.title, loop.title, body.title) == ("accumulator", "Loop run", "each iteration: accumulate")
    assert arrows(drawing, is_back=True) == {("y_out", "y")}
    assert {
        ("x", "x_i"),
        ("i", "x_i"),
        ("x_i", "y_out"),
        ("run[0]", "total"),
        ("run[1]", "sums"),
        ("length", "length times"),
    } <= arrows(drawing)


@pytest.mark.parametrize("source", ["accumulate", "drift_diffusion", "gallery/fitzhugh_nagumo", "gallery/drift_diffusion"])
def test_a_trip_count_is_a_bound_only_if_a_condition_may_end_the_loop(source):
    drawn = list(mdf_loop.draw(ROOT / "examples" / f"{source}.yaml").picture.top.all_boxes())
    (count,) = [box.lines for box in drawn if box.lines[-1].endswith(" times")]
    assert (count[0] == "at most") == any(box.lines[0].startswith("while") for box in drawn) == ("diffusion" in source)


def test_a_body_that_returns_a_constant_has_no_box_without_an_arrow():
    @mdf_loop.body
    def leak(i, cond, v, *, rate):
        return True, v - rate * v

    picture = mdf_loop.draw(leak).picture
    ends = {end for arrow in picture.arrows for end in (arrow.tail, arrow.head)}
    assert {box.key for box in picture.top.all_boxes()} == ends


def test_colours_are_those_of_the_plan():
    drawing = mdf_loop.draw(ROOT / "examples" / "drift_diffusion.yaml")
    kinds = {box.lines[-1]: box.kind for box in drawing.picture.top.all_boxes() if box.kind in WAYS}
    assert kinds["sqrt_dt"] == "hoisted"
    assert kinds["path"] == "alias"
    assert kinds["t_out"] == "recurrent"
    assert kinds["x_out"] == "stepped"
    assert drawing.picture.kinds() == ["alias", "hoisted", "recurrent", "stepped"]
    assert all(f"legend_{kind}" in drawing.dot and f"legend_{kind}" in drawing.mermaid for kind in drawing.picture.kinds())


def test_a_body_that_must_be_interpreted_is_drawn_so():
    @mdf_loop.kernel("Shout", domain="drawn.ops", pure=False)
    def shout(x):
        return x

    text = (
        '<ir_version: 8, opset_import: ["": 18, "drawn.ops": 1]> '
        "b (int64 i, bool c, double x) => (bool c, double y) { y = drawn.ops.Shout (x) }"
    )
    drawing = mdf_loop.draw(mdf_loop.compile(text))
    assert [box.kind for box in boxes(drawing, "Shout")] == ["interpreted"]


def test_scheduled_models_have_their_nodes_and_with_steps_the_loop_they_become():
    path = ROOT / "examples" / "oscillator.yaml"
    assert {box.lines[0] for box in mdf_loop.draw(path).picture.top.all_boxes()} >= {"counter"}
    drawing = mdf_loop.draw(path, steps=100, time_increment=0.01)
    assert arrows(drawing, is_back=True)
    assert "stepped" in drawing.picture.kinds()


def test_an_if_has_its_branches_inside():
    model = ROOT / "tests" / "models" / "cond_dyn.onnx"
    titles = re.findall(r'subgraph \w+ \["(.*)"\]', mdf_loop.draw(model).mermaid)
    assert {"then", "else"} <= set(titles)


def test_a_body_of_too_many_nodes_is_one_box():
    nodes = "".join(f" v{k + 1} = Neg (v{k})" for k in range(MOST_NODES + 1))
    text = f"b (int64 i, bool c, double v0) => (bool c, double v{MOST_NODES + 1}) {{{nodes} }}"
    drawing = mdf_loop.draw(mdf_loop.compile(text))
    assert len(list(drawing.picture.top.all_boxes())) < 10
    assert boxes(drawing, f"{MOST_NODES + 1} nodes")


HOSTILE = '"]; } -->|x| <script>alert(1)</script> \\ ` # & \n end'


def test_no_name_ends_a_text_early():
    picture = Picture(Cluster("top", HOSTILE, [Box("a", (HOSTILE,), INPUT, HOSTILE), Box("b", ("x",), PLAIN)]))
    picture.arrows.append(Arrow("a", "b", HOSTILE))
    from mdf_loop.pictures.diagram_texts import mermaid_text

    text = mermaid_text(picture)
    assert "<script>" not in text
    assert all(line.count('"') in (0, 2) for line in text.split("\n"))
    lines = diagram_texts.dot_text(picture).split("\n")
    assert all(len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0 for line in lines)


def test_drawings_are_written_by_the_end_of_the_name(tmp_path, monkeypatch):
    drawing = mdf_loop.draw(ROOT / "examples" / "rnn.yaml")
    assert drawing.save(tmp_path / "m.md").read_text() == f"```mermaid\n{drawing.mermaid}```\n"
    assert drawing.save(tmp_path / "m.mmd").read_text() == drawing.mermaid == str(drawing)
    assert drawing.save(tmp_path / "m.dot").read_text() == drawing.dot
    with pytest.raises(LoopError, match=r"a drawing is a file of type"):
        drawing.save(tmp_path / "m.txt")
    monkeypatch.setattr(diagram_texts, "dot_command", lambda: None)
    pytest.importorskip("matplotlib")  # draws what Graphviz draws where that is installed
    assert drawing.save(tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    assert '<svg style="max-width: 100%; height: auto" ' in drawing.save(tmp_path / "m.svg").read_text()


def test_without_graphviz_and_matplotlib_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(diagram_texts, "dot_command", lambda: None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    drawing = mdf_loop.draw(ROOT / "examples" / "rnn.yaml")
    with pytest.raises(LoopError, match="need matplotlib"):
        drawing.save(tmp_path / "m.svg")
    assert not (tmp_path / "m.svg").exists()
    assert "&quot;" in drawing._repr_mimebundle_()["text/html"]


EQUATIONS = "let step: rate * (goal - x)\nx: x + step\nt: t + dt\ncollect path: x\nwhile: abs(goal - x) > exp(-t)"


def test_equations_are_boxes_with_their_text():
    drawing = mdf_loop.draw(EQUATIONS)
    (each,) = drawing.picture.top.clusters
    texts = [" ".join(box.lines) for box in each.boxes]
    assert texts == [
        *("x", "t", "step = rate * (goal - x)", "x = x + step", "t = t + dt"),
        *("collect path = x", "while abs(goal - x) > exp(-t)"),
    ]
    assert {box.lines[0] for box in drawing.picture.top.boxes if "captured" in box.lines} == {"rate", "goal", "dt"}
    read = {"x": {"step =", "x ="}, "step =": {"x ="}, "t": {"t ="}, "x =": {"collect", "while"}, "t =": {"while"}}
    keys = {box.key: box.lines[0] for box in each.boxes}

    def key(start):
        return next(k for k, line in keys.items() if line == start or line.startswith(f"{start} "))

    for tail, heads in read.items():
        found = {a.head for a in drawing.picture.arrows if a.tail == key(tail) and not a.is_back and a.head in keys}
        assert found == {key(head) for head in heads}, tail
    assert {(a.tail, a.head) for a in drawing.picture.arrows if a.is_back} == {(key("x ="), key("x")), (key("t ="), key("t"))}


def test_operators_are_boxes_where_they_are_asked_for():
    drawing = mdf_loop.draw(ROOT / "examples" / "gallery" / "fitzhugh_nagumo.yaml", level="operators")
    assert {box.kind for box in drawing.picture.top.all_boxes()} & set(WAYS)
    with pytest.raises(LoopError, match="level is one of equations, operators; got 'lines'"):
        mdf_loop.draw(EQUATIONS, level="lines")


def test_nodes_show_values_equations_conditions_and_when_evaluations_end():
    drawing = mdf_loop.draw(ROOT / "examples" / "power_iteration.yaml")
    (watcher,) = boxes(drawing, "watcher")
    assert {"change = abs(estimate - last)", "change starts at 1.0", "when EveryNLoopIterations(power, 10)"} <= set(watcher.lines)
    (ends,) = boxes(drawing, "environment state update ends")
    assert (
        " ".join(line.strip() for line in ends.lines[1:]) == "when Any(LoopFinished(power), Threshold(watcher, change, 1e-09, <))"
    )
    (spring,) = boxes(mdf_loop.draw(ROOT / "examples" / "oscillator.yaml"), "spring")
    assert {"stiffness = 4.0", "dposition/dt = speed", "position starts at 1.0"} <= set(spring.lines)


def test_a_model_of_equations_shows_its_defaults_values_and_initial_values():
    drawing = mdf_loop.draw(ROOT / "examples" / "gallery" / "fitzhugh_nagumo.yaml")
    assert boxes(drawing, "current", "default 0.5")
    assert boxes(drawing, "v", "starts at v0")
    assert {"a = 0.7", "v0 = -1.0"} <= {line for box in drawing.picture.top.all_boxes() for line in box.lines}
    assert boxes(drawing, "4000 times")
    assert {("collect voltage = v", "voltage"), ("collect recovery = w", "recovery")} <= arrows(drawing)


def test_dot_is_given_the_text_and_named_when_it_fails(tmp_path, monkeypatch):
    calls = []

    def ran(command, **how):
        calls.append((command, how["input"]))
        if len(calls) > 1:
            raise subprocess.CalledProcessError(1, command, stderr=b"syntax error in line 3")
        return subprocess.CompletedProcess(command, 0, b"<svg/>")

    monkeypatch.setattr(diagram_texts, "dot_command", lambda: "dot")
    monkeypatch.setattr(diagram_texts.subprocess, "run", ran)
    drawing = mdf_loop.draw(ROOT / "examples" / "rnn.yaml")
    assert drawing.save(tmp_path / "m.svg").read_bytes() == b"<svg/>"
    assert calls == [(["dot", "-Tsvg"], drawing.dot.encode())]
    with pytest.raises(LoopError, match="dot failed: syntax error in line 3"):
        drawing.svg()


@pytest.mark.skipif(diagram_texts.dot_command() is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_graphviz_draws_every_model(path):
    assert "<svg" in mdf_loop.draw(path).svg()


def test_the_command(tmp_path, capsys):
    assert run_main("draw", "examples/rnn.yaml", "-o", tmp_path / "m.md") == 0
    assert run_main("draw", "examples/rnn.yaml") == 0
    assert capsys.readouterr().out.startswith("flowchart TD\n")
    assert run_main("draw", "examples/oscillator.yaml", "--steps", "10", "--json") == 0
    assert "mermaid" in capsys.readouterr().out
    assert run_main("draw", "examples/rnn.yaml", "-o", tmp_path / "m.doc") == 1


def test_drawing_runs_nothing(monkeypatch):
    from mdf_loop.execute.interpret import InterpretedLoop

    monkeypatch.setattr(InterpretedLoop, "begin", lambda *_: pytest.fail("a loop ran"))
    mdf_loop.draw(ROOT / "examples" / "newton.yaml")
    text = '<ir_version: 8, opset_import: ["": 18]> g (float[n] x) => (float[n] y) { y = Neg (x) }'
    assert boxes(mdf_loop.draw(onnx.parser.parse_model(text)), "Neg")


def test_notebooks_show_plans_and_errors():
    add = mdf_loop.compile("b (int64 i, bool c, double s) => (bool c, double t) { x = Gather (w, i) t = Add (s, x) }")
    shown = add.explain()._repr_html_()
    assert "<details open" in shown
    assert "t = Add (s, x)" in shown
    assert "recurrent" in shown
    assert add._repr_html_() == shown
    assert isinstance(add.explain(), str)
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(1, True, 0.0, body="<b> (int64 i")
    assert "&lt;b&gt;" in caught.value._repr_html_()
    assert type(caught.value).__name__ in caught.value._repr_html_()


def test_notebooks_show_drawings(monkeypatch):
    pytest.importorskip("matplotlib")
    drawing = mdf_loop.draw("examples/rnn.yaml")
    monkeypatch.setattr(diagram_texts, "dot_command", lambda: None)
    bundle = drawing._repr_mimebundle_()
    assert bundle["text/plain"] == drawing.mermaid
    assert "max-width: 100%" in bundle["image/svg+xml"]


def test_notebooks_show_the_plans_of_a_model_as_tables():
    model = mdf_loop.prepare(ROOT / "examples" / "drift_diffusion.yaml")
    told = model.explain(seed=1)
    shown = told._repr_html_()
    assert len(told.parts) == 1
    assert shown.count("<details") == 2  # the table, and the plan in words
    assert "RandomNormalLike" in told
    assert "RandomNormalLike" in shown
    assert "no Loop or Scan ran" in Explanations.of([])._repr_html_()
    first, second = '<pre style="white-space:pre-wrap">a &lt;b&gt;</pre>', '<pre style="white-space:pre-wrap">c</pre>'
    assert Explanations.of(["a <b>", "c"])._repr_html_() == first + second


def test_an_output_that_computes_has_an_arrow_from_each_result_that_it_reads():
    body = {"carried": {"x": "x / 2", "y": "y + x"}, "collected": {"path": "x"}, "while": "x > 1"}
    node = mdf.Node(
        id="n",
        parameters=[
            mdf.Parameter(id="body", value=body),
            mdf.Parameter(id="run", function="onnx::Loop", args={"M": 9, "x": 8.0, "y": 0.0, "body": "body"}),
        ],
        output_ports=[mdf.OutputPort(id="both", value="run.x + numpy.sum(run.path)")],
    )
    drawing = mdf_loop.draw(mdf.Graph(id="g", nodes=[node]))
    boxes = {box.key: box.lines[0] for box in drawing.picture.top.all_boxes()}
    (port,) = [key for key, first in boxes.items() if first == "both"]
    assert sorted(boxes[arrow.tail] for arrow in drawing.picture.arrows if arrow.head == port) == [
        "collect path = x",
        "x = x / 2",
    ]


def two_loops():
    """A node whose outputs read results of loops by name and by place, in every kind of text."""
    first = {"carried": {"x": "x / 2", "y": "y + k"}, "collected": {"path": "x"}}
    return mdf.Node(
        id="n",
        parameters=[
            mdf.Parameter(id="k", value=2.0),
            mdf.Parameter(id="body", value=first),
            mdf.Parameter(id="run", function="onnx::Loop", args={"M": 9, "x": 8.0, "y": "k", "body": "body"}),
            mdf.Parameter(id="half", value="run.y / 2"),
            mdf.Parameter(id="only", value={"carried": {"z": "z * 2"}}),
            mdf.Parameter(id="then", function="onnx::Loop", args={"M": 3, "z": "run[1]", "body": "only"}),
        ],
        output_ports=[
            mdf.OutputPort(id="best", value="numpy.argmax(run.path)"),
            mdf.OutputPort(id="last", value="run[0]"),
            mdf.OutputPort(id="twice", value="2 * then.z"),
        ],
    )


@pytest.mark.parametrize("level", ["equations", "operators"])
def test_results_are_read_by_the_names_that_equations_give_them(level):
    drawing = mdf_loop.prepare(mdf.Graph(id="g", nodes=[two_loops()])).draw(level=level)
    first = {box.key: " ".join(box.lines) for box in drawing.picture.top.all_boxes()}
    assert not [text for text in first.values() if re.search(r"\b(run|then)\b(?!\.\w)", text)]
    assert {"best = numpy.argmax(run.path)", "twice = 2 * then.z"} <= set(first.values())
    assert any("run.y / 2" in text for text in first.values())
    heads = {first[arrow.tail] for arrow in drawing.picture.arrows if first[arrow.head].startswith("best")}
    assert heads == {"collect path = x" if level == "equations" else "run.path of all iterations"}


def test_explained_nodes_read_results_by_name_too():
    from mdf_loop.models.explaining import node_lines

    graph = mdf_loop.prepare(mdf.Graph(id="g", nodes=[two_loops()])).graph
    assert {"half = run.y / 2", "best = numpy.argmax(run.path)", "last = run.x"} <= set(node_lines(graph.nodes[0]))


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "gallery").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_equation_has_an_arrow_from_each_value_that_it_reads(path):
    picture = mdf_loop.draw(path).picture
    said = {box.key: box for box in picture.top.all_boxes()}
    joined = {(arrow.tail, arrow.head) for arrow in picture.arrows}
    for tail, values in said.items():
        names = {line.partition(" = ")[0] for line in values.lines} if values.kind == VALUES else set()
        for head, box in said.items():
            read = set(re.findall(r"[^\W\d]\w*", " ".join(box.lines).partition("=")[2])) & names
            assert not read or box.kind != PLAIN or (tail, head) in joined, (values, box)


def test_computed_parameters_are_drawn_between_what_they_read_and_what_reads_them():
    run = mdf.Parameter("run", function="onnx::Loop", args={"M": 9, "x": 0.0, "body": {"carried": {"x": "x + rate"}}})
    computed = [mdf.Parameter("rate", value="0.1 * gain"), mdf.Parameter("late", value="run.x * gain")]
    node = mdf.Node("n", input_ports=[mdf.InputPort("gain", default_value=2.0)], parameters=[*computed, run])
    node.output_ports.append(mdf.OutputPort("out", value="late"))
    picture = mdf_loop.draw(mdf.Graph("g", nodes=[node])).picture
    said = {box.key: box.lines[0] for box in picture.top.all_boxes()}
    joined = {(said[arrow.tail], said[arrow.head]) for arrow in picture.arrows}
    wanted = {("gain", "rate"), ("rate", "x = x + rate"), ("x = x + rate", "late"), ("gain", "late"), ("late", "out")}
    assert wanted <= joined
    assert ["rate", "= 0.1 * gain"] in [[*box.lines] for box in picture.top.all_boxes()]


def test_derivatives_are_drawn_as_they_are_written():
    body = {"derivatives": {"v": "(a - v) / 2", "t": 1}, "method": "rk4", "dt": 0.1, "collected": {"path": "v"}}
    (each,) = mdf_loop.draw(body).picture.top.clusters
    assert each.title == "each iteration: a step of dt by rk4"
    texts = [" ".join(box.lines) for box in each.boxes]
    assert texts == ["v", "t", "dt = 0.1", "dv/dt = (a - v) / 2", "dt/dt = 1", "collect path = v"]


def test_long_arrays_end_with_a_whole_number():
    node = mdf.Node("n", parameters=[mdf.Parameter("start", value=[0.1, 0.2, 0.3, 0.4, 10.0, 11.5])])
    (box,) = boxes(mdf_loop.draw(mdf.Model("m", graphs=[mdf.Graph("g", nodes=[node])])), "n")
    assert box.lines == ("n", "start = [0.1, 0.2, 0.3, 0.4, ...")


LONG = "x + rate * drive - leak * x + rate * numpy.exp(-leak * x) * (drive - leak) / (1 + numpy.exp(-rate * drive))"


@pytest.mark.parametrize("way", ["value", "time_derivative", "default_initial_value", "function"])
def test_long_expressions_of_a_node_are_broken_and_not_cut(way):
    said = {way: LONG} if way != "function" else {"function": "linear", "args": {"variable0": LONG}}
    parameter = mdf.Parameter("x", **said)
    graph = mdf.Graph("g", nodes=[mdf.Node("leaky", parameters=[parameter], output_ports=[mdf.OutputPort("out", value="x")])])
    (box,) = boxes(mdf_loop.draw(mdf.Model("m", graphs=[graph])), "leaky")
    assert LONG in " ".join(" ".join(box.lines).split())
    assert max(map(len, box.lines)) <= 44


def test_an_initial_value_and_a_parameter_beside_equations_are_not_cut_either():
    model = mdf_loop.load(ROOT / "examples" / "gallery" / "spikes.yaml")
    node = next(node for node in model.graphs[0].nodes if any(p.function == "onnx::Loop" for p in node.parameters))
    loop = next(p for p in node.parameters if p.function == "onnx::Loop")
    loop.args = {**loop.args, "v": "minimum(threshold, 0.0) + maximum(threshold, 0.0) - threshold"}
    node.parameters.insert(0, mdf.Parameter("half", value="0.5 * threshold + 0.25 * threshold - 0.25 * threshold"))
    drawn = " ".join(" ".join(" ".join(box.lines).split()) for box in mdf_loop.draw(model).picture.top.all_boxes())
    assert "starts at minimum(threshold, 0.0) + maximum(threshold, 0.0) - threshold" in drawn
    assert "half = 0.5 * threshold + 0.25 * threshold - 0.25 * threshold" in drawn


@pytest.mark.parametrize("how", [{}, {"level": "operators"}, {"steps": 3}], ids=str)
def test_a_prepared_model_draws_itself(how):
    path = ROOT / "examples" / "leaky_accumulator.yaml"
    assert mdf_loop.prepare(path).draw(**how).dot == mdf_loop.draw(path, **how).dot


@pytest.mark.parametrize("wrong", [False, True])
def test_a_node_with_a_stepped_loop_says_how_many_iterations_a_pass_has(wrong):
    body = {"carried": {"x": "x + 1"}}
    loop = mdf.Parameter(id="run", function="onnx::Loop", args={"M": 9, "cond": True, "x": 0.0, "body": "body"})
    said = {"loop": {"iterations_per_execution": "four" if wrong else 4}}
    for on_node in (True, False):
        loop.metadata = {} if on_node else said
        node = mdf.Node(id="acc", metadata=said if on_node else {}, parameters=[mdf.Parameter(id="body", value=body), loop])
        node.output_ports.append(mdf.OutputPort(id="x", value="run.x"))
        drawn = mdf_loop.draw(mdf.Graph(id="g", nodes=[node])).dot
        assert ("acc (iterations of run in each pass: 4)" in drawn) is not wrong
