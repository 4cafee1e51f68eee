"""Models that are broken or meant to harm: a clear error or the right result, in linear time, and no name is ever run."""

import copy
import io
import sys
import zipfile

import numpy as np
import onnx
import pytest
from bodies import MODELS
from converting import by_engine
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.mdf import Edge, Graph, InputPort, Node, OutputPort
from onnx import TensorProto, helper, numpy_helper

import mdf_loop
from mdf_loop import backend
from mdf_loop.convert.naming import readable
from mdf_loop.errors import LoopError, MalformedBody, UnsupportedOp
from mdf_loop.readers.mdf.input_ports import order_nodes

MARK = "mdf_loop_was_run"

CODE = f"__import__('sys').modules.__setitem__('{MARK}', 1)"

NAMES = [
    CODE,
    "a'b\"c",
    "x\ny",
    "x; y",
    "ünï cödé ☃",
    "lambda",
    "'",
    "{x}",
    "[0]",
    "x.__class__",
    "../../etc",
    "print(1)",
    "numpy",
    "body",
    "M",
    "e\u0301",
    "\u202e",
    "0",
    "-1",
    "True",
    "x" * 5000,
    "${x}",
    "null",
    "~",
    "!!python/object:os.system",
    "node.port",
    "Identity",
    "%s",
]


def hostile():
    """A model in which everything that can have a name has one of these."""
    nodes, last = [], "in put(1)"
    for k, name in enumerate(NAMES):
        nodes.append(helper.make_node("Add", [last, last if k % 2 else "w[0]"], [name], name=f"{NAMES[-k - 1]}?"))
        last = name
    body = helper.make_graph(
        [helper.make_node("Add", ["x('in')", last], ["exec('y')"]), helper.make_node("Identity", ["c"], ["c2"])],
        f"{CODE}'",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x('in')", TensorProto.FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("c2", TensorProto.BOOL, []),
            helper.make_tensor_value_info("exec('y')", TensorProto.FLOAT, [2]),
        ],
    )
    nodes.append(helper.make_node("Loop", ["n", "", last], ["out\n1"], name=CODE, body=body))
    texts = {"keys_strings": [CODE, "b"], "values_strings": ["eval('1')", "x\n'\""], "default_string": "exec()"}
    nodes.append(helper.make_node("LabelEncoder", ["lab"], ["lab out"], name=CODE, domain="ai.onnx.ml", **texts))
    graph = helper.make_graph(
        nodes,
        f"g'\n{CODE}",
        [
            helper.make_tensor_value_info("in put(1)", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("n", TensorProto.INT64, []),
            helper.make_tensor_value_info("lab", TensorProto.STRING, [f"N '{CODE}'"]),
        ],
        [
            helper.make_tensor_value_info("out\n1", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("lab out", TensorProto.STRING, ["N"]),
        ],
        [numpy_helper.from_array(np.float32([1, 1]), "w[0]")],
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports)


INPUTS = {"in put(1)": np.float32([1e-9, 2e-9]), "n": np.int64(3), "lab": np.array(["b", CODE], object)}


@pytest.fixture(autouse=True)
def nothing_is_run():
    yield
    assert MARK not in sys.modules, "a name was run"


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
@pytest.mark.parametrize("body", ["mdf", "onnx"])
def test_names_are_data(body, suffix, tmp_path):
    model = hostile()
    expected = backend.run_model(model, list(INPUTS.values()))
    mdf_loop.convert(model, tmp_path / f"m{suffix}", body=body)
    converted = mdf_loop.load(tmp_path / f"m{suffix}")
    for node in converted.graphs[0].nodes:
        for thing in (node, *node.input_ports, *node.output_ports, *node.parameters):
            assert thing.id.isidentifier()
            assert len(thing.id) < 80
    written = mdf_loop.to_onnx(converted)
    assert [value.name for value in written.graph.output] == ["out\n1", "lab out"]
    assert [node.name for node in written.graph.node] == [node.name for node in model.graph.node]
    runs = [
        mdf_loop.run(converted, **INPUTS).values(),
        by_engine(converted, INPUTS),
        backend.run_model(written, [*INPUTS.values()]),
    ]
    for results in runs:
        for actual, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("name", [*NAMES, "", "\0", "class", "_", "__", "1.5", "а", "a" * 61])
def test_every_name_has_a_readable_one(name):
    made = readable(name)
    assert made.isidentifier()
    assert made == readable(made)


def chain(length, name="/layer.{}/Add"):
    """A row of operators."""
    nodes = [helper.make_node("Add", [f"v.{k}", "w"], [f"v.{k + 1}"], name=name.format(k)) for k in range(length)]
    ends = [helper.make_tensor_value_info(f"v.{k}", TensorProto.FLOAT, [1]) for k in (0, length)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(np.float32([1]), "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.parametrize("name", ["/layer.{}/Add", "", "twin"])
def test_a_long_row_of_nodes_takes_its_time_and_no_more(name):
    """Twice as many nodes need about twice as many calls of functions: a count that no other work of the machine changes."""

    def there_and_back(length):
        model = mdf_loop.convert(chain(length, name))
        assert len({node.id for node in model.graphs[0].nodes}) == length + 1
        assert mdf_loop.run(model, **{"v.0": [0.0]})[f"v.{length}"] == length
        written = mdf_loop.to_onnx(model)
        assert [node.name for node in written.graph.node[:2]] == [name.format(k) or f"Add{'_2' * k}" for k in range(2)]

    there_and_back(1500)  # deeper than Python calls functions
    few, many = (calls_in(lambda length=length: there_and_back(length)) for length in (150, 300))
    assert many < 2.02 * few  # one call for each pair of nodes would be 2.06


def calls_in(work):
    """How many functions are called, those of C as well."""
    count = 0

    def counting(frame, event, _):
        nonlocal count
        count += event.endswith("call")

    before = sys.getprofile()
    sys.setprofile(counting)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_a_long_row_of_mdf_nodes_is_ordered_in_linear_time():
    few, many = (calls_in(lambda count=count: ordered_row(count)) for count in (500, 1000))
    assert many < 2.02 * few
    ordered_row(5000)


def ordered_row(count):
    nodes = [Node(id=f"n{k}", input_ports=[InputPort(id="x")], output_ports=[OutputPort(id="y")]) for k in range(count)]
    edges = [Edge(id=f"e{k}", sender=f"n{k}", sender_port="y", receiver=f"n{k + 1}", receiver_port="x") for k in range(count - 1)]
    course = order_nodes(Graph(id="g", nodes=nodes[::-1], edges=edges[::-1]))
    assert [node.id for node in course.order] == [f"n{k}" for k in range(count)]


def broken(change):
    model = mdf_loop.convert(hostile())
    change(model.graphs[0])
    return model


def make_cycle(graph):
    first, second = graph.nodes[1:3]
    first.input_ports.append(InputPort(id="back"))
    first.parameters[-1].args["B"] = "back"
    port = second.output_ports[0].id
    graph.edges.append(Edge(id="e", sender=second.id, sender_port=port, receiver=first.id, receiver_port="back"))


def drop_body(graph):
    loop = next(node for node in graph.nodes if node.parameters[-1].function == "onnx::Loop")
    loop.parameters = [parameter for parameter in loop.parameters if parameter.id != "body"]


def set_function(name):
    def change(graph):
        graph.nodes[1].parameters[-1].function = name

    return change


def argument(graph):
    graph.nodes[1].parameters[-1].args["A"] = CODE


def output_value(graph):
    graph.nodes[1].output_ports[0].value = CODE


BROKEN = {
    "a cycle": (make_cycle, MalformedBody, r"wait for each other in a cycle"),
    "a node twice": (lambda g: g.nodes.append(copy.deepcopy(g.nodes[2])), MalformedBody, r"two nodes are called"),
    "a port twice": (
        lambda g: g.nodes[2].output_ports.append(g.nodes[2].output_ports[0]),
        MalformedBody,
        r"two output ports are called",
    ),
    "no body": (drop_body, MalformedBody, r"body is missing"),
    "an edge from nowhere": (
        lambda g: g.edges.append(Edge(id="q", sender="no", sender_port="x", receiver=g.nodes[1].id, receiver_port="x")),
        MalformedBody,
        r"edge 'q' names node 'no', which is not there",
    ),
    "a type that is none": (lambda g: g.metadata.update(types={"a": "floaty"}), MalformedBody, r"must be a type such as"),
    "types that are a list": (lambda g: g.metadata.update(types=[1]), MalformedBody, r"metadata types must be a dict"),
    "versions that are none": (lambda g: g.metadata.update(opsets={"a": "b"}), MalformedBody, r"metadata opsets must be a dict"),
    "no version of a domain": (
        lambda g: g.metadata.pop("opsets"),
        MalformedBody,
        r"metadata opsets must have the version of 'ai.onnx.ml'",
    ),
    "an output that is not there": (
        lambda g: g.metadata.update(outputs=["nope"]),
        MalformedBody,
        r"output 'nope' is neither an output port nor an input",
    ),
    "a function that is an attribute of Python": (
        set_function("onnx::__class__"),
        UnsupportedOp,
        r"there is no operator __class__ in opset 20",
    ),
    "code for a function": (set_function(f"onnx::{CODE}"), UnsupportedOp, r"there is no operator"),
    "code for an argument": (argument, MalformedBody, r"which is not a port or parameter of the node"),
    "code for an output": (output_value, MalformedBody, r"has one onnx:: function in each node|cannot be|expression"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_graph_is_a_clear_error_everywhere(name):
    change, error, message = BROKEN[name]
    model = broken(change)
    with pytest.raises(error, match=message):
        mdf_loop.run(model, **INPUTS)
    with pytest.raises(error, match=message):
        mdf_loop.to_onnx(model)
    if name != "an output that is not there":
        with pytest.raises(error, match=message), _quiet():
            EvaluableGraph(model.graphs[0])


def _quiet():
    import contextlib

    return contextlib.redirect_stdout(io.StringIO())


def test_a_cycle_without_a_beginning_does_not_hang_mdfs_engine():
    nodes = [
        Node(id=name, input_ports=[InputPort(id="x")], output_ports=[OutputPort(id="y", value="x + 1")])
        for name in ("a", "b", "c")
    ]
    edges = [Edge(id="1", sender="a", sender_port="y", receiver="b", receiver_port="x")]
    edges.append(Edge(id="2", sender="b", sender_port="y", receiver="a", receiver_port="x"))
    with pytest.raises(MalformedBody, match="node 'a' is part of a cycle that has no beginning"), _quiet():
        EvaluableGraph(Graph(id="g", nodes=nodes, edges=edges))


def test_broken_onnx_models_are_clear_errors():
    twice = chain(2)
    twice.graph.node[1].output[0] = "v.1"
    with pytest.raises(MalformedBody, match=r"writes 'v\.1', which is already written"):
        mdf_loop.convert(twice)
    late = chain(3)
    late.graph.node[0].input[0] = "v.3"
    with pytest.raises(MalformedBody, match="a cycle; from one iteration to the next only carried values lead"):
        mdf_loop.convert(late)
    missing = onnx.load(MODELS / "for_ts.onnx")
    loop = next(node for node in missing.graph.node if node.op_type == "Loop")
    del loop.attribute[:]
    with pytest.raises(LoopError, match="body"):
        mdf_loop.run(mdf_loop.convert(missing), x=np.ones((2, 3)), n=1)


WEIGHTS = chain(1)
WEIGHTS.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.arange(1.0, 5, dtype=np.float32), "w"))
WEIGHTS.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 4


def with_weights(folder):
    mdf_loop.convert(WEIGHTS, folder / "m.yaml", inline=3)
    return folder / "m.yaml"


def test_weights_lie_beside_the_file(tmp_path):
    path = with_weights(tmp_path)
    assert "npz: m.npz" in path.read_text()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.npz", "m.yaml"]
    with np.load(tmp_path / "m.npz", allow_pickle=False) as file:
        assert {name: value.tolist() for name, value in file.items()} == {"w": [1, 2, 3, 4]}
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("m.npz", "m.yaml"):
        (tmp_path / name).rename(moved / name)
    assert mdf_loop.run(moved / "m.yaml", **{"v.0": [1.0]})["v.1"].tolist() == [2, 3, 4, 5]


def test_weights_are_not_written_into_the_model_that_is_returned(tmp_path):
    model = mdf_loop.convert(WEIGHTS, tmp_path / "m.json", inline=3)
    assert mdf_loop.run(model, **{"v.0": [1.0]})["v.1"].tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../m.npz", "sub/m.npz", "..", ".", "", "C:m.npz", "sub\\m.npz", "link.npz", "none.npz"]
)
def test_weights_are_read_from_the_folder_of_the_model_alone(name, tmp_path):
    folder = tmp_path / "models"
    (folder / "sub").mkdir(parents=True)
    path = with_weights(folder)
    (tmp_path / "m.npz").write_bytes((folder / "m.npz").read_bytes())
    (folder / "sub" / "m.npz").write_bytes((folder / "m.npz").read_bytes())
    (folder / "link.npz").symlink_to(tmp_path / "m.npz")
    path.write_text(path.read_text().replace("npz: m.npz", f"npz: '{name}'"))
    reason = "there is no file" if name == "none.npz" else "weights must lie in the folder of the model"
    with pytest.raises(MalformedBody, match=rf"m\.yaml': {reason}"):
        mdf_loop.load(path)


def replace_member(path, content, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("w.npy", content)


def pickled():
    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], object), allow_pickle=True)
    return file.getvalue()


def oversized():
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)})
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pickled(), "it holds Python objects"),
        (oversized(), "it declares more than the file has"),
        (b"nonsense", "magic string"),
        (b"", "EOF|magic string"),
    ],
)
def test_weights_that_are_none_are_refused(content, reason, tmp_path):
    path = with_weights(tmp_path)
    replace_member(tmp_path / "m.npz", content)
    with pytest.raises(MalformedBody, match=reason):
        mdf_loop.load(path)


def test_a_file_without_the_weights_is_refused(tmp_path):
    path = with_weights(tmp_path)
    (tmp_path / "m.npz").write_bytes(b"no archive")
    with pytest.raises(MalformedBody, match=r"'m\.npz' is not a file of weights"):
        mdf_loop.load(path)
    np.savez(tmp_path / "m.npz", other=np.ones(2))
    with pytest.raises(MalformedBody, match=r"'m\.npz' holds no weights 'w'"):
        mdf_loop.load(path)
    np.savez(tmp_path / "m.npz", w=np.ones(3, np.float32))
    with pytest.raises(MalformedBody, match="cannot reshape"):
        mdf_loop.run(path, **{"v.0": [1.0]})
