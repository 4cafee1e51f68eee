"""What small files and texts may take: bounded time and memory, each in a process of its own with little of both."""

import json
import re
import resource
import subprocess
import sys
import tracemalloc

import numpy as np
import onnx
import pytest
from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter
from onnx import helper, numpy_helper

import mdf_loop
from mdf_loop import backend
from mdf_loop.cli import write_json
from mdf_loop.cli.parameters import _read_inputs
from mdf_loop.convert.file_text import DEEPEST, line_of, parse
from mdf_loop.errors import IterationError, LoopError, MalformedBody
from mdf_loop.readers.mdf.written_values import read_type_text
from mdf_loop.readers.onnx.graph import read_model
from mdf_loop.readers.onnx.inlining import inline_functions
from mdf_loop.readers.onnx.onnx_text import refuse_deep

FLOAT = onnx.TensorProto.FLOAT

SECONDS, BYTES = 600, 3 << 30
"""What a process of a test may take: far more than it needs, far less than the inputs below once took."""


def refused_alone(code, tmp_path, count):
    """The messages of the LoopErrors that some code raises, for each number, in a process that must not take much."""
    one = "try:\n    {}\nexcept mdf_loop.LoopError as error:\n    print(error)\nelse:\n    print('nothing was raised')\n"
    program = "import mdf_loop\n" + "".join(one.format(code.format(k)) for k in range(count))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES)),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def merges(levels, width):
    """Maps merged into maps: each level has as many pairs as ``width`` of the level before."""
    lines = []
    for k in range(levels):
        before = ",".join([f"*a{k - 1}"] * width) if k else ""
        lines.append(f"  a{k}: &a{k}\n    <<: [{before}]\n    z{k}: 1\n")
    return "m:\n" + "".join(lines)


def aliases(levels, width):
    """Lists of lists: each level has ``width`` times the one before."""
    lines = [f"  a0: &a0 [{', '.join(['1'] * width)}]"]
    lines += [f"  a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * width)}]" for k in range(1, levels)]
    return "m:\n" + "\n".join(lines)


DEEP = "nested more than|exceeded maximum nesting depth"
"""Newer versions of libyaml have a limit of their own."""

MERGED = "maps are merged into more than|a model has no 'a0'"
"""From PyYAML 6.0.4 on merged maps have each pair once: these are small then."""

TEXTS = {
    "brackets": ("m: " + "[" * 60_000, DEEP),
    "maps in brackets": ("m: " + "{a: " * 60_000, DEEP),
    "items on one line": ("- " * 20_000, "nested more than"),
    "keys that are maps": ("? " * 20_000, "nested more than"),
    "indented": ("\n".join(" " * k + "a:" for k in range(1_000)), "nested more than"),
    "a row of aliases": ("\n".join(f"a{k}: &a{k} [{f'*a{k - 1}' if k else 1}]" for k in range(5_000)), "nested more than"),
    "merged maps": (merges(11, 9), MERGED),
    "a map merged often": (
        f"a: &a {{{', '.join(f'k{k}: 1' for k in range(3_000))}}}\nb: {{<<: [{','.join(['*a'] * 3_000)}]}}",
        "maps are merged into more than",
    ),
    "merged into itself": ("m: &a {<<: *a}", "a map is merged into itself"),
    "aliases": (aliases(10, 10), r"aliases repeat more than \d+ values"),
    "an alias of itself": ("m: &a [*a]", "aliases repeat"),
    "a number to the base of 60": ("m: " + "1:" * 300_000 + "1", "a number of 600001 characters"),
    "a key twice": ("m: {a: 1, b: 2, a: 3}", r"line 1, column 17: the key 'a' occurs twice"),
    "a key twice, in quotes": ("m:\n  a: 1\n  'a': 3", r"line 3, column 3: the key 'a' occurs twice"),
}  # fmt: skip


def test_yaml_takes_what_its_size_allows(tmp_path):
    for k, (text, _) in enumerate(TEXTS.values()):
        (tmp_path / f"{k}.yaml").write_text(text)
    said = refused_alone("mdf_loop.load('{}.yaml')", tmp_path, len(TEXTS))
    for k, (name, line) in enumerate(zip(TEXTS, said, strict=True)):
        assert re.search(f"^'{k}.yaml' is not an MDF model: .*({TEXTS[name][1]})", line), name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 900 + "]" * 900, "nested more than"),
        ('{"a":' * 900 + "1" + "}" * 900, "nested more than"),
        ("[" * 500_000, "nested more than"),
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' occurs twice"),
        ('"\\ud800"', "surrogates"),
        ("9" * 5_000, "a number of 5000 characters"),
    ],
)
def test_json_takes_what_its_size_allows(text, message):
    with pytest.raises(ValueError, match=message):
        parse(f'{{"m": {text}}}' if text[1] != '"' else text, ".json")


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_what_is_nested_as_deep_as_allowed_is_read(suffix):
    text = "[" * DEEPEST + "]" * DEEPEST
    assert str(parse(text, suffix)) == text
    with pytest.raises(ValueError, match="nested more than"):
        parse(f"[{text}]", suffix)


def test_merged_maps_and_aliases_are_read():
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [{y: 4}, *a], z: *a}"
    content = parse(text, ".yaml")
    assert content["b"] == {"x": 1, "y": 3}
    assert content["c"] == {"x": 1, "y": 4, "z": {"x": 1, "y": 2}}


def test_lines_are_found():
    text = '{"a": [1,\n {"x":\n 3, "y" : \n[1,2,\n 3]}]}'
    assert line_of(text, ("a", 1, "y", 2)) == 5
    assert line_of(text, ("a", 1, "x")) == 2
    assert line_of(text, ()) == 1
    assert line_of('{"a": "\\ud83d\\udca1 \x7f\\/",\n"b": 1}', ("b",)) == 2, "characters that YAML writes otherwise"
    assert line_of("a: &a {x: 1}\nb:\n  <<: *a\n", ("b", "x")) == 2, "merged into b from elsewhere"


def test_onnx_text_is_looked_at_in_linear_time(tmp_path):
    texts = [
        'b (i) => (y) { y = A <s = "' + '\\"' * 200_000 + "> (i) }",
        "b (i) => (y) { y = A <s = [" + '"' * 99_999 + "> (i) }",
        "b (i) => (y) { y = A <s = [" + "1," * 50_000 + "> (i) }",
        'b (i) => (y) { # "\n' + "(" * 50_000 + "}",
        "b (i) => (y) { " + "[" * 50_000 + "}",
    ]
    for k, text in enumerate(texts):
        (tmp_path / str(k)).write_text(text)
    for line in refused_alone("mdf_loop.loop(1, True, body=open('{}').read())", tmp_path, len(texts)):
        assert line.startswith("ONNX text does not parse")
        assert len(line) < 1_000, "the message repeats the whole text"


def test_brackets_in_texts_and_comments_are_no_nesting():
    refuse_deep('b (i) => (y) { # ((((\n y = A <s = "' + "(" * 1_000 + '"> (i) }' + "# [[[\n" * 1_000)


def test_type_texts_are_read_in_linear_time(tmp_path):
    texts = [" " * 300_000 + 'a"', '"\\' * 100_000, '"a",' * 30_000, ", " * 100_000, "9" * 100_000, "a" * 300_000 + '"']
    for k, text in enumerate(texts):
        node = {"parameters": {"y": {"function": "onnx::Neg", "args": {"X": "x"}}}, "input_ports": {"x": {}}}
        said = {"types": {"x": f"float[{text}]", "y": "?["}, "inputs": ["x"], "outputs": ["y"]}
        graph = {"nodes": {"n": {**node, "output_ports": {"y": {"value": "y"}}}}, "metadata": said}
        (tmp_path / f"{k}.json").write_text(json.dumps({"m": {"graphs": {"g": graph}}}))
    for line in refused_alone("mdf_loop.run('{}.json', x=1.0)", tmp_path, len(texts)):
        assert "metadata types: " in line
        assert len(line) < 1_000, "the message repeats the whole text"


@pytest.mark.parametrize("dim", [str(1 << 63), "9" * 30])
def test_a_dimension_has_63_bits(dim):
    assert read_type_text(f"float[{(1 << 63) - 1}]").shape == ((1 << 63) - 1,)
    with pytest.raises(ValueError, match="at most 63 bits"):
        read_type_text(f"float[{dim}]")


def of_functions(count, twice):
    """Functions that each call the one before, once or twice; the graph calls the last."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("d", 1)]
    made = [helper.make_function("d", "F0", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])], opsets)]
    for k in range(1, count):
        calls = [helper.make_node(f"F{k - 1}", [a], [b], domain="d") for a, b in (("xa", "ay") if twice else ("xy",))]
        made.append(helper.make_function("d", f"F{k}", ["x"], ["y"], calls, opsets))
    ends = [helper.make_tensor_value_info(name, FLOAT, []) for name in "xy"]
    nodes = [helper.make_node(f"F{count - 1}", ["x"], ["y"], domain="d")]
    return helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), opset_imports=opsets, functions=made)


def test_functions_of_functions_are_counted_before_they_are_written_out():
    with pytest.raises(MalformedBody, match="the inlined functions of the model take about"):
        read_model(of_functions(24, twice=True))
    assert len(read_model(of_functions(8, twice=True)).nodes) == 128
    assert len(read_model(of_functions(90, twice=False)).nodes) == 1


def test_functions_in_the_bodies_of_functions_are_counted():
    model = of_functions(2, twice=False)
    model.functions[1].node[0].CopyFrom(helper.make_node("If", ["c"], ["y"]))
    for name in ("then_branch", "else_branch"):
        inner = helper.make_graph(
            [helper.make_node("F1", ["x"], ["z"], domain="d")], "b", [], [helper.make_value_info("z", onnx.TypeProto())]
        )
        model.functions[1].node[0].attribute.append(helper.make_attribute(name, inner))
    with pytest.raises(MalformedBody, match="a function of the model calls itself: d::F1 -> d::F1"):
        inline_functions(model, {"": 18, "d": 1})


def sparse(dims, indices, dtype=np.float64, count=1):
    output = helper.make_value_info("y", onnx.TypeProto())
    graph = helper.make_graph([helper.make_node("Identity", ["k"], ["y"])], "g", [], [output])
    one = graph.sparse_initializer.add(dims=dims)
    one.values.CopyFrom(numpy_helper.from_array(np.ones(count, dtype), "k"))
    one.indices.CopyFrom(numpy_helper.from_array(np.array(indices), "i"))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (sparse([1 << 28], [0], np.complex128), "too large to fill up"),
        (sparse([1 << 40, 0], [0]), "too large to fill up"),
        (sparse([3, 3], [[0, 5]]), "has values outside of it"),
        (sparse([3, 3], [9]), "has values outside of it"),
        (sparse([10], [-1]), "has values outside of it"),
        (sparse([3], [[[0]]]), "one index or one for each dimension"),
        (sparse([3, 3], [[0, 1, 2]]), "one index or one for each dimension"),
        (sparse([3], [0, 1]), "one index or one for each dimension"),
        (sparse([3], [0.5]), "one index or one for each dimension"),
        (sparse([-1], [0]), "dimensions from 0 on"),
        (sparse([], [0]), "dimensions from 0 on"),
    ],
)
def test_sparse_tensors_that_are_none_are_refused(model, message):
    tracemalloc.start()
    try:
        with pytest.raises(MalformedBody, match=message):
            backend.prepare(model)
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()


def test_sparse_tensors_are_filled_up():
    assert backend.run_model(sparse([2, 3], [[0, 1], [1, 2]], count=2), [])[0].tolist() == [[0, 1, 0], [0, 0, 1]]
    assert backend.run_model(sparse([2, 3], [1, 5], count=2), [])[0].tolist() == [[0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(("count", "outputs", "shapes"), [(1 << 31, "ab", [1, 1]), (3, "ab", [3, 3]), (3, "abc", [3, 3, 1])])
def test_split_makes_what_outputs_are_named_for(count, outputs, shapes):
    node = helper.make_node("Split", ["x"], list(outputs), num_outputs=count)
    ends = [
        helper.make_tensor_value_info("x", FLOAT, [7]),
        *(helper.make_tensor_value_info(name, FLOAT, None) for name in outputs),
    ]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    results = backend.run_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), [np.ones(7, np.float32)])
    assert [result.shape for result in results] == [(length,) for length in shapes]


HUGE = 1 << 62


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("counts", [[HUGE, 1], [HUGE, HUGE], [7, HUGE], [1 << 31, 1 << 31]])
def test_repeats_whose_product_exceeds_64_bits_are_refused(opset, counts):
    x = np.ones((2, 3), np.float32)
    inputs = [x, np.array(counts, np.int64)] if opset > 1 else [x, np.array(max(counts)), np.array(0)]
    node = helper.make_node("Tile", ["x", *"ab"[: len(inputs) - 1]], ["y"])
    with pytest.raises(LoopError, match=r"no memory|Unable to allocate"):
        backend.run_node(node, inputs, opset_version=opset)


@pytest.mark.parametrize("text", ["numpy.repeat(x, 1 << 62)", "numpy.tile(x, (1 << 62, 1 << 62))", "numpy.tile(x, 1 << 61)"])
@pytest.mark.parametrize("trusted", [False, True])
def test_expressions_cannot_repeat_so_often_trusted_or_not(text, trusted):
    node = Node(id="n", parameters=[Parameter(id="x", value=[1.0, 2.0]), Parameter(id="p", value=text)])
    node.output_ports.append(OutputPort(id="o", value="p"))
    with mdf_loop.options(trusted=trusted), pytest.raises(LoopError, match=r"no memory|more than"):
        mdf_loop.run(Graph(id="g", nodes=[node]), steps=2)


@pytest.mark.parametrize(("op", "dtype"), [("QuantizeLinear", np.float32), ("DequantizeLinear", np.int8)])
def test_a_block_may_be_larger_than_the_axis(op, dtype):
    node = helper.make_node(op, ["x", "scale", "zero"], ["y"], axis=0, block_size=HUGE)
    inputs = [np.ones((2, 3), dtype), np.full((1, 3), 0.5, np.float32), np.ones((1, 3), np.int8)]
    assert backend.run_node(node, inputs)[0].tolist() == [[3 if op == "QuantizeLinear" else 0] * 3] * 2


@pytest.mark.parametrize("opset", [10**30, 1 << 31, 0, -1, True, "18", 1.0, [18]])
def test_an_opset_is_a_small_whole_number(opset):
    body = {"onnx": "b (int64 i, bool c, float x) => (bool c, float y) { y = Neg (x) }", "opset": opset}
    with pytest.raises(LoopError, match="the opset of a body must be a whole number from 1 on"):
        mdf_loop.loop(1, True, 1.0, body=body)


LONG = 10**5000
"""More digits than Python writes."""


@pytest.mark.parametrize("value", [LONG, [1, {"a": LONG}], np.array([1, -LONG], object)], ids=["number", "nested", "array"])
def test_whole_numbers_that_no_file_holds_are_refused_and_nothing_is_written(value, tmp_path):
    with pytest.raises(LoopError, match=r"output 'out' is not written: it has a whole number of 166\d\d bits"):
        write_json(tmp_path / "x.json", {"other": np.ones(2), "out": value})
    assert not list(tmp_path.iterdir())
    write_json(tmp_path / "x.json", {"out": np.array([10**4000, 1], object)})


BODY = "b (int64 i, bool c, float x) => (bool c, float y) { y = Neg (x) }"
SAID = {
    "max_iterations": lambda: mdf_loop.options(max_iterations=-LONG).__enter__(),
    "timeout": lambda: mdf_loop.options(timeout=-LONG).__enter__(),
    "block_bytes": lambda: mdf_loop.options(block_bytes=-LONG).__enter__(),
    "opset": lambda: mdf_loop.loop(1, True, 1.0, body={"onnx": BODY, "opset": LONG}),
    "num_scan_inputs": lambda: mdf_loop.scan(0, [1], num_scan_inputs=LONG, body=lambda s, x: (s + x, s)),
    "steps": lambda: mdf_loop.run(Graph(id="g", nodes=[Node(id="n")]), steps=-LONG),
    "a carried value": lambda: mdf_loop.loop(1, True, LONG, body=BODY),
}


@pytest.mark.parametrize("what", SAID)
def test_messages_do_not_write_long_numbers_out(what):
    with pytest.raises(LoopError) as info:
        SAID[what]()
    assert re.search(r"bits|digits", str(info.value))
    assert len(str(info.value)) < 300


def test_inputs_in_files_with_longer_numbers_are_refused(tmp_path):
    path = tmp_path / "in.json"
    path.write_text('{"x": 1' + 5000 * "0" + "}")
    with pytest.raises(LoopError, match="cannot be read"):
        _read_inputs(path)


@pytest.mark.parametrize("most", [None, 10**15])
def test_loop_without_end_stops_before_what_it_collects_uses_up_the_memory(monkeypatch, most):
    monkeypatch.setattr("mdf_loop.execute.collect.most_bytes", lambda: 1 << 16)
    body = "x: x + 1\ncollect xs: x\nwhile: x > 0"
    with (
        mdf_loop.options(engine="numpy"),
        pytest.raises(IterationError, match="not enough memory") as raised,
    ):
        mdf_loop.loop(most, True, 0.0, body=body)
    last, collected = raised.value.partial
    assert last == len(collected) == raised.value.iteration < 10_000
