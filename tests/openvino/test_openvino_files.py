"""OpenVINO files: formats and names, and files that are broken or mean harm. Each error says what and where."""

import re
import subprocess
import sys

import numpy as np
import openvino
import openvino.opset16 as op
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openvino_models import model_of, openvino_run, saved

import mdf_loop
from mdf_loop.errors import ArgumentError, LoopError, MalformedBody, UnsupportedOp
from mdf_loop.openvino import prepare, run_model

SAMPLE = "tests/models/ov_loop.xml"
X = np.float32([[1, 2], [3, 4], [5, 6], [7, 8]])
S = np.float32([[10, 20]])


@pytest.fixture
def sample(tmp_path, request):
    """A copy of the sample's files, and its text."""
    for suffix in (".xml", ".bin"):
        (tmp_path / f"m{suffix}").write_bytes((request.config.rootpath / SAMPLE).with_suffix(suffix).read_bytes())
    return tmp_path / "m.xml"


def changed(path, *changes):
    """The same file with its text changed."""
    text = path.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text)
    return path


def test_the_sample_gives_what_openvino_gives(sample):
    expected = openvino_run(openvino.Core().read_model(sample), X, S)
    for mine, theirs in zip(run_model(sample, [X, S]), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("trip_count", [1, 4, 10])
def test_the_example_gives_what_openvino_gives(trip_count, request):
    path = request.config.rootpath / "examples" / "openvino_loop.xml"
    values = [np.int64(trip_count), np.array(True), np.float32([[0], [1]])]
    expected = openvino_run(openvino.Core().read_model(path), *values)
    for mine, theirs in zip(run_model(path, values), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_run_takes_a_file_and_gives_outputs_by_name(sample):
    outputs = mdf_loop.run(sample, X=X.tolist(), S=[[10, 20]])
    assert list(outputs) == ["Result_22", "Result_23", "Result_24"]
    np.testing.assert_array_equal(outputs["Result_22"], [[26, 40]])
    np.testing.assert_array_equal(outputs["Result_24"], [0, 1, 2, 3])


def test_the_command_line_runs_a_file(sample, capsys):
    from mdf_loop.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["run", str(sample), "--set", "X=[[1,2],[3,4],[5,6],[7,8]]", "--set", "S=[[10,20]]"])
    assert ended.value.code == 0
    assert "[[26. 40.]]" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["run", str(sample), "--set", "X=1"])
    assert ended.value.code == 1
    assert "the model takes inputs (X, S); missing: S" in capsys.readouterr().err


def test_inputs_and_outputs_have_the_names_of_their_tensors(tmp_path):
    x = op.parameter([2], np.float32, name="layer")
    x.output(0).set_names({"tensor", "a,b"})
    y = op.negative(x)
    y.output(0).set_names({"opposite"})
    path = saved(openvino.Model([y], [x], "m"), tmp_path)
    for name in ("layer", "tensor", "a,b"):
        assert list(mdf_loop.run(path, **{name: [1, 2]})) == ["opposite"]
    with pytest.raises(ArgumentError, match=re.escape("the model takes inputs (layer); missing: layer; unknown: other")):
        mdf_loop.run(path, other=[1, 2])
    with pytest.raises(ArgumentError, match="the input 'layer' is given twice"):
        mdf_loop.run(path, layer=[1, 2], tensor=[1, 2])


def test_inputs_must_have_the_declared_type_and_shape(sample):
    prepared = prepare(sample)
    with pytest.raises(ArgumentError, match=re.escape("input 'X' must be float32[4,2]; got float32[3,2]")):
        prepared.run([X[:3], S])
    with pytest.raises(ArgumentError, match=re.escape("input 'S' must be float32[1,2]; got float64[1,2]")):
        prepared.run([X, S.astype(float)])
    with pytest.raises(ArgumentError, match=re.escape("the model takes 2 inputs (X, S); 3 were given")):
        prepared.run([X, S, S])


@pytest.mark.parametrize("version", ["10", "11"])
def test_format_is_read(version, sample):
    np.testing.assert_array_equal(run_model(changed(sample, ('version="11"', f'version="{version}"')), [X, S])[0], [[26, 40]])


def test_ports_of_inputs_need_no_type(sample):
    """Format 10 names it on outputs only."""
    text = sample.read_text()
    inputs = re.compile(r"<input>.*?</input>", re.DOTALL)
    sample.write_text(inputs.sub(lambda found: re.sub(r' precision="\w+"', "", found[0]), text))
    np.testing.assert_array_equal(run_model(sample, [X, S])[0], [[26, 40]])


def test_type_and_shape_of_a_constant_may_stand_at_its_port_only(sample):
    changed(sample, ('<data element_type="i64" shape="" offset="0" size="8" />', '<data offset="0" size="8"/>'))
    np.testing.assert_array_equal(run_model(sample, [X, S])[0], [[26, 40]])


def test_layers_may_stand_in_any_order(sample):
    text = sample.read_text()
    head, layers, tail = re.match(r"(.*?<layers>)(.*)(</layers>\s*<edges>.*)", text, re.DOTALL).groups()
    pieces = re.findall(r"<layer id.*?\n\t\t</layer>", layers, re.DOTALL)
    assert len(pieces) == 8
    sample.write_text(head + "".join(reversed(pieces)) + tail)
    # The order of the file is that of inputs and outputs.
    values = {"X": X, "S": S}
    outputs = mdf_loop.run(sample, **values)
    np.testing.assert_array_equal(outputs["Result_22"], [[26, 40]])


NUMBERS = {
    "boolean": [0, 1, 1, 0, 1],
    "f4e2m1": [1, -2, 0, 3, -0.5],
    "f8e8m0": [1, 2, 0.5, 4, 1],
    "u2": [1, 2, 0, 3, 2],
    **{key: [1, 2, 0, 3, 5] for key in ["u4", "u8", "u16", "u32", "u64"]},
    **{key: [1, -2, 0, 3, -5] for key in ["i4", "i8", "i16", "i32", "i64"]},
    **{key: [1, -2, 0, 3, -5] for key in ["f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"]},
}


@pytest.mark.parametrize("dtype", NUMBERS)
def test_constants_of_every_type_are_read(dtype, tmp_path):
    made = openvino.op.Constant(getattr(openvino.Type, dtype), openvino.Shape([5]), NUMBERS[dtype])
    path = saved(openvino.Model([op.convert(made, "f32")], [], "m"), tmp_path)
    np.testing.assert_array_equal(prepare(path).run([])[0], np.float32(NUMBERS[dtype]))


def test_types_and_constants_that_cannot_be_read_are_named(tmp_path):
    made = openvino.op.Constant(openvino.Type.nf4, openvino.Shape([2]), [0, 1])
    path = saved(openvino.Model([op.convert(made, "f32")], [], "m"), tmp_path)
    with pytest.raises(UnsupportedOp, match=r"layer 'Constant_\d+' \(Const, opset1\): the element type 'nf4' is not supported"):
        prepare(path)
    path = saved(
        model_of(lambda n: op.range(op.constant(np.int32(0)), n, op.constant(np.int32(1)), "i32"), np.int32(3)), tmp_path
    )
    text = path.read_text()
    path.write_text(text.replace('shape="" offset="0" size="4"', 'shape="0" offset="0" size="0"'))
    with pytest.raises(MalformedBody, match=r"\(Range, opset4\): its constants or attributes do not fit together"):
        prepare(path)


def test_the_weights_may_have_another_name(sample):
    other = sample.with_name("weights.data")
    sample.with_suffix(".bin").rename(other)
    np.testing.assert_array_equal(prepare(sample, other).run([X, S])[0], [[26, 40]])
    with pytest.raises(MalformedBody, match=r"there is no file '.*m\.bin', which holds the constants of the model"):
        prepare(sample)


BROKEN = {
    "not XML": (("<?xml version", "<?xml verzion"), "is not XML"),
    "cut off": (("</net>", ""), "is not XML"),
    "another document": (("<net name", "<html name"), "is not XML"),
    "an unknown format": (('version="11"', 'version="9"'), "has IR version '9'; versions 10 and 11 are read"),
    "no layers": (("<layers>", "<layer_s>"), "is not XML"),
    "an id that is no number": (('<layer id="0" name="X"', '<layer id="zero" name="X"'), "id must be a whole number; got 'zero'"),
    "an enormous id": (
        ('<layer id="0" name="X"', f'<layer id="{"9" * 5000}" name="X"'),
        "id must be a whole number; got '999",
    ),
    "two layers of one id": (('<layer id="1" name="S"', '<layer id="0" name="S"'), "two layers have id 0: 'X' and 'S'"),
    "an edge from nowhere": (
        ('from-layer="0" from-port="0" to-layer="4"', 'from-layer="99" from-port="0" to-layer="4"'),
        "an edge names from-layer '99', which is not there",
    ),
    "an edge from a port that is not there": (
        ('from-layer="0" from-port="0" to-layer="4"', 'from-layer="0" from-port="3" to-layer="4"'),
        "layer 'X' (Parameter, opset1): an edge names its output port '3'; it has 0",
    ),
    "an input without an edge": (
        ('<edge from-layer="0" from-port="0" to-layer="4" to-port="2" />', ""),
        "layer 'Loop_21' (Loop, opset5): no edge leads to input port 2",
    ),
    "an input with two edges": (
        (
            '<edge from-layer="1" from-port="0" to-layer="4" to-port="3" />',
            '<edge from-layer="1" from-port="0" to-layer="4" to-port="2" />',
        ),
        "layer 'Loop_21' (Loop, opset5): two edges lead to input port 2",
    ),
    "an unknown layer": (
        ('type="Convert" version="opset1"', 'type="Konvert" version="opset1"'),
        "m/Loop_21: layer 'Convert_11' (Konvert, opset1): there is no conversion for it",
    ),
    "a layer of an extension": (
        ('type="Convert" version="opset1"', 'type="Convert" version="extension"'),
        "(Convert, extension): there is no conversion for it",
    ),
    "a result that is read": (
        ('type="Convert" version="opset1"', 'type="Result" version="opset1"'),
        "(Result, opset1): a Result has one input, and no edge starts from it",
    ),
    "a parameter with an input": (
        ('type="Convert" version="opset1"', 'type="Parameter" version="opset1"'),
        "no entry of the port map leads to parameter 'Convert_11'",
    ),
    "an unknown attribute": (
        ('<data destination_type="f32" />', '<data destination_type="f32" saturate="yes" />'),
        "the attribute saturate is not known",
    ),
    "an unknown element type": (
        ('<data destination_type="f32" />', '<data destination_type="f128" />'),
        "the element type 'f128' is not supported",
    ),
    "a constant outside the file": (
        ('offset="0" size="8"', 'offset="4000000000" size="8"'),
        "it lies at bytes 4000000000 to 4000000008 of the weights, which have",
    ),
    "a constant before the file": (('offset="0" size="8"', 'offset="-8" size="8"'), "it lies at bytes -8 to 0"),
    "a constant of another size": (('offset="0" size="8"', 'offset="0" size="4"'), "int64[] takes 8 bytes; its size is 4"),
    "a constant of an enormous shape": (
        (
            'element_type="i64" shape="" offset="0" size="8"',
            'element_type="i64" shape="4000000000,4000000000" offset="0" size="8"',
        ),
        "takes 128000000000000000000 bytes; its size is 8",
    ),
    "a shape below zero": (
        ('<data shape="4,2" element_type="f32" />', '<data shape="-4,2" element_type="f32" />'),
        "a dimension is -4",
    ),
    "no port map": (("<port_map>", "<port_mop>"), "is not XML"),
    "a port map to a layer that is not there": (
        ('external_port_id="2" internal_layer_id="0"', 'external_port_id="2" internal_layer_id="77"'),
        "internal_layer_id of an input is 77; the body has no such layer",
    ),
    "a port map to a layer of another type": (
        ('external_port_id="2" internal_layer_id="0"', 'external_port_id="2" internal_layer_id="11"'),
        "internal_layer_id of an input is 11, which is layer 'Result_15' (Result, opset1); it must be a Parameter",
    ),
    "a port map from a port that is not there": (
        ('external_port_id="2" internal_layer_id="0"', 'external_port_id="9" internal_layer_id="0"'),
        "external_port_id is 9; its input ports are 0, 1, 2, 3",
    ),
    "a parameter that two entries lead to": (
        ('external_port_id="3" internal_layer_id="1"', 'external_port_id="3" internal_layer_id="0"'),
        "two entries lead to parameter 'Parameter_3'",
    ),
    "a parameter that no entry leads to": (
        ('<input external_port_id="3" internal_layer_id="1" />', ""),
        "has a back edge but no input for the first iteration",
    ),
    "an output that no entry leads to": (
        ('<output external_port_id="4" internal_layer_id="11" />', ""),
        "each output port needs one entry in <port_map>; outputs [1, 2] of 3 have one",
    ),
    "no condition": (
        ('<output external_port_id="-1" internal_layer_id="10" purpose="execution_condition" />', ""),
        "no entry of the port map has purpose 'execution_condition'; a Loop needs one",
    ),
    "an unknown purpose": (
        ('purpose="execution_condition"', 'purpose="decoration"'),
        "the purpose of an output may be 'execution_condition'; got 'decoration'",
    ),
    "a stride of zero": (
        ('internal_layer_id="0" start="0" end="-1" stride="1"', 'internal_layer_id="0" start="0" end="-1" stride="0"'),
        "its stride 0",
    ),
    "an axis that is not there": (('<input axis="0"', '<input axis="5"'), "'Parameter_3' has no axis 5"),
    "a part of another size": (
        ('stride="1" part_size="1" />\n\t\t\t\t<input ext', 'stride="2" part_size="2" />\n\t\t\t\t<input ext'),
        "along axis 0 its part_size is 2",
    ),
    "a back edge from a parameter": (
        ('<edge from-layer="11" to-layer="1" />', '<edge from-layer="0" to-layer="1" />'),
        "it must be a Result",
    ),
    "a back edge to a sliced parameter": (
        ('<edge from-layer="11" to-layer="1" />', '<edge from-layer="11" to-layer="0" />'),
        "a back edge leads to parameter 'Parameter_3', which is sliced",
    ),
    "an output from the middle": (
        ('internal_layer_id="12" start="0"', 'internal_layer_id="12" start="1"'),
        "an output is put together from start 1 to end -1",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_file_is_refused_with_the_place(what, sample):
    change, message = BROKEN[what]
    with pytest.raises(LoopError) as caught:
        prepare(changed(sample, change))
    assert isinstance(caught.value, MalformedBody | UnsupportedOp)
    assert message in str(caught.value)


def test_a_cycle_names_its_layers(sample):
    edge = '<edge from-layer="6" from-port="0" to-layer="7" to-port="1" />'
    path = changed(sample, (edge, '<edge from-layer="8" from-port="2" to-layer="7" to-port="1" />'))
    with pytest.raises(MalformedBody) as caught:
        prepare(path)
    assert "make a cycle; what is carried in a loop is a back edge" in str(caught.value)
    assert "'ReduceSum_7' -> 'Add_8' -> 'ReduceSum_7'" in str(caught.value)


def test_truncated_weights_are_refused(sample):
    weights = sample.with_suffix(".bin")
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(MalformedBody, match=r"is '.*m\.bin' the right file, and whole\?"):
        prepare(sample)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(MalformedBody, match=r"there is no file '.*none\.xml'"):
        mdf_loop.run(tmp_path / "none.xml")
    with pytest.raises(MalformedBody, match="cannot be read"):
        prepare(tmp_path)
    with pytest.raises(LoopError, match=r"read from the path of its \.xml file; got bytes"):
        prepare(b"<net/>")


ENTITIES = """<?xml version="1.0"?>
<!DOCTYPE net [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>
<net name="&c;" version="11"><layers/><edges/></net>"""

OUTSIDE = """<?xml version="1.0"?>
<!DOCTYPE net [<!ENTITY a SYSTEM "file:///etc/hostname">]>
<net name="&a;" version="11"><layers/><edges/></net>"""


@pytest.mark.parametrize("text", [ENTITIES, OUTSIDE, '<!DOCTYPE net SYSTEM "net.dtd"><net version="11"/>'])
def test_entities_and_document_types_are_refused(text, tmp_path):
    path = tmp_path / "m.xml"
    path.write_text(text)
    with pytest.raises(MalformedBody, match="declares entities or a document type, which a model does not need"):
        prepare(path)


@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff\x00", b"<net", b'<?xml version="1.0" encoding="klingon"?><net/>', b"<net version='11'/>"]
)
def test_what_is_no_model_is_refused(content, tmp_path):
    path = tmp_path / "m.xml"
    path.write_bytes(content)
    with pytest.raises(MalformedBody):
        prepare(path)


NESTED = """<layers>
<layer id="0" name="go" type="Const" version="opset1">
  <data element_type="boolean" shape="" offset="0" size="1"/><output><port id="0"/></output>
</layer>
<layer id="1" name="choice" type="If" version="opset8"><input><port id="0"/></input>
  <then_port_map/><else_port_map/><then_body>{}</then_body><else_body><layers/><edges/></else_body>
</layer></layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges>"""


@pytest.mark.parametrize(("depth", "fits"), [(30, True), (50, False), (2000, False)])
def test_bodies_nested_too_deep_are_refused(depth, fits, tmp_path):
    text = "<layers/><edges/>"
    for _ in range(depth):
        text = NESTED.replace("{}", text)
    path = tmp_path / "m.xml"
    path.write_text(f'<net name="m" version="11">{text}</net>')
    path.with_suffix(".bin").write_bytes(b"\x01")
    if fits:
        assert prepare(path).run([]) == ()
    else:
        with pytest.raises(MalformedBody, match="bodies are nested more than 40 deep"):
            prepare(path)


def test_a_shape_too_large_to_make_fails_at_once(tmp_path):
    path = saved(model_of(lambda n: op.broadcast(op.constant(np.float32(1)), n), np.int64([2, 3])), tmp_path)
    np.testing.assert_array_equal(prepare(path).run([np.int64([2, 3])])[0], np.ones((2, 3)))
    with pytest.raises(LoopError, match=re.escape("the shape [4000000000, 4000000000], for which there is no memory")):
        prepare(path).run([np.int64([4000000000, 4000000000])])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_an_attribute_runs_or_is_refused_with_our_errors(sample, data):
    """Numbers of the file replaced by others: nothing hangs, and nothing but our errors comes out."""
    text = sample.with_suffix(".xml").read_text()
    places = list(re.finditer(r'="(-?\d+|opset\d+|f32|i64|boolean|true|)"', text))
    place = data.draw(st.sampled_from(places))
    new = data.draw(
        st.sampled_from(["-1", "0", "1", "2", "7", "99999999999999999999", "", "x", "f32", "boolean", "opset5", "1,2"])
    )
    path = sample.with_name("changed.xml")
    path.with_suffix(".bin").write_bytes(sample.with_suffix(".bin").read_bytes())
    path.write_text(text[: place.start()] + f'="{new}"' + text[place.end() :])
    try:
        with mdf_loop.options(max_iterations=50):
            prepared = prepare(path)
            prepared.run(dict(zip(prepared.inputs, [X, S], strict=False)))
    except LoopError:
        pass


def test_nothing_of_openvino_is_loaded(sample):
    code = (
        f"import sys, mdf_loop; mdf_loop.run({str(sample)!r}, X=[[1, 2]] * 4, S=[[0, 0]]); "
        "print([name for name in sys.modules if name.split('.')[0] == 'openvino'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
