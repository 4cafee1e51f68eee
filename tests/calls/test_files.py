"""Reading model files: what is read, and what is said of files that are something else."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from modeci_mdf.mdf import Model

import mdf_loop
from mdf_loop.errors import LoopError, MalformedBody

EXAMPLES = Path(__file__).parents[2] / "examples"

BODY = "b (int64 i, bool go, float x) => (bool go, float y) { y = Add (x, x) }"


def refused(path, reason):
    with pytest.raises(MalformedBody) as caught:
        mdf_loop.load(path)
    assert str(caught.value).startswith(repr(str(path)))
    assert re.search(reason, str(caught.value))


@pytest.mark.parametrize("name", ["model.YAML", "model.yml", "model.Json"])
def test_the_suffix_may_be_written_in_any_way(name, tmp_path):
    source = EXAMPLES / ("newton.json" if name.endswith("son") else "newton.yaml")
    shutil.copy(source, tmp_path / name)
    assert mdf_loop.load(tmp_path / name).to_dict() == Model.from_file(str(source)).to_dict()


@pytest.mark.parametrize("name", ["model.bson", "model.pb", "model", ".yaml"])
def test_other_types_of_files_are_named(name, tmp_path):
    (tmp_path / name).write_text("")
    refused(tmp_path / name, r"an MDF model is a file of type \.json, \.yaml, \.yml")


def test_an_onnx_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "model.onnx").write_text("")
    refused(tmp_path / "model.onnx", r"model\.onnx' holds no graph$")


def test_a_folder_is_no_model(tmp_path):
    (tmp_path / "folder.yaml").mkdir()
    refused(tmp_path / "folder.yaml", "is not an MDF model: .*directory")
    with pytest.raises(MalformedBody, match=r"is a folder; a model is a file in it, of type \.json"):
        mdf_loop.load(tmp_path)


def test_text_is_utf8_whatever_the_locale_says(tmp_path):
    model = {"größe": {"graphs": {"g": {"nodes": {"n": {"parameters": {"größe": {"value": 1}}}}}}}}
    for suffix, text in (("json", json.dumps(model, ensure_ascii=False)), ("yaml", yaml.safe_dump(model, allow_unicode=True))):
        for start in (b"", b"\xef\xbb\xbf"):  # as some editors begin a file
            (tmp_path / f"model.{suffix}").write_bytes(start + text.encode())
            assert mdf_loop.load(tmp_path / f"model.{suffix}").graphs[0].nodes[0].parameters[0].id == "größe"


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_bytes_that_are_no_text(suffix, tmp_path):
    (tmp_path / f"model.{suffix}").write_bytes(b"\xff\xfe\x00m")
    refused(tmp_path / f"model.{suffix}", "is not an MDF model: line 1: it is not UTF-8 text: it has a byte 0xff")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "m: {graphs: !!python/object/apply:os.system ['false']}",
            "constructor .*python/object.*; such a tag makes an object",
        ),
        ("m: {graphs: !!python/name:os.system }", "could not determine a constructor"),
        ("m: &a [*a]", "repeat more than|recursive|recursion"),
        ("[1, 2]", "a model is a dict"),
        ("{}", "a model is a dict"),
        ("just a text", "a model is a dict"),
        ("m: 1", "is not an MDF model"),
        ("m: {graphs: {}}\nn: {graphs: {}}", "holds one model, this one 2: m, n"),
        ("m: {graphs: {g: {nodes: {n: {parameters: 3}}}}}", "is not an MDF model"),
        ("m: {graphs: {g: {nodes: {n: {input_ports: {x: {shape: [2.5]}}}}}}}\n  x", "is not an MDF model"),
    ],
)
def test_yaml_that_is_no_model(text, reason, tmp_path):
    (tmp_path / "model.yaml").write_text(text)
    refused(tmp_path / "model.yaml", reason)


def test_a_deeply_nested_file_is_no_crash(tmp_path):
    (tmp_path / "model.json").write_text('{"m":' * 100_000)
    refused(tmp_path / "model.json", "is not an MDF model")


def test_aliases_are_read_and_do_not_explode(tmp_path):
    (tmp_path / "model.yaml").write_text(
        "m: {graphs: {g: {nodes: {a: &a {parameters: {p: {value: 2}}, output_ports: {o: {value: p}}}, b: *a}}}}"
    )
    model = mdf_loop.load(tmp_path / "model.yaml")
    assert mdf_loop.run(model) == {"a.o": 2, "b.o": 2}
    model.graphs[0].nodes[0].parameters[0].value = 3
    assert model.graphs[0].nodes[1].parameters[0].value == 2
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 10)]
    (tmp_path / "laughs.yaml").write_text("m:\n  " + "\n  ".join(lines))
    refused(tmp_path / "laughs.yaml", r"repeat more than \d+ values")


def test_a_large_file_is_read_in_seconds(tmp_path):
    values = [k / 7 for k in range(100_000)]
    model = {"m": {"graphs": {"g": {"nodes": {"n": {"parameters": {"p": {"value": values}}}}}}}}
    (tmp_path / "model.yaml").write_text(yaml.safe_dump(model))
    assert mdf_loop.load(tmp_path / "model.yaml").graphs[0].nodes[0].parameters[0].value == values


def nested(body):
    """A model with a Loop whose body is an MDF graph with a Loop that has this body."""
    inner = {"body": {"value": body}, "inner": {"function": "onnx::Loop", "args": {"M": 2, "v": "a", "body": "body"}}}
    node = {"input_ports": {"a": {}}, "parameters": inner, "output_ports": {"b": {"value": "inner"}}}
    graph = {"nodes": {"n": node}, "metadata": {"inputs": ["i", "go", "a"], "outputs": ["go", "b"]}}
    outer = {"body": {"value": {"graph_b": graph}}, "run": {"function": "onnx::Loop", "args": {"M": 3, "v": 1.0, "body": "body"}}}
    return {"m": {"graphs": {"g": {"nodes": {"l": {"parameters": outer, "output_ports": {"o": {"value": "run"}}}}}}}}


def test_the_file_of_a_body_is_found_next_to_the_model_at_any_depth(tmp_path, monkeypatch):
    import onnx

    (tmp_path / "bodies").mkdir()
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {BODY}'), tmp_path / "bodies" / "b.onnx")
    (tmp_path / "model.yaml").write_text(yaml.safe_dump(nested({"onnx_file": "bodies/b.onnx"}), sort_keys=False))
    monkeypatch.chdir("/")
    assert mdf_loop.run(tmp_path / "model.yaml")["o"] == 64.0


def test_an_argument_may_be_called_onnx_file(tmp_path):
    parameters = {"f": {"function": "linear", "args": {"onnx_file": "x", "variable0": 1, "slope": 2, "intercept": 3}}}
    model = {"m": {"graphs": {"g": {"nodes": {"n": {"parameters": parameters}}}}}}
    (tmp_path / "model.json").write_text(json.dumps(model))
    assert mdf_loop.load(tmp_path / "model.json").graphs[0].nodes[0].parameters[0].args["onnx_file"] == "x"


@pytest.mark.parametrize(
    ("name", "meant"), [("rcae.yaml", "race.yaml"), ("race.yml", "race.yaml"), ("no.yaml", ""), ("lif.yaml", "")]
)
def test_only_a_file_with_a_name_like_it_is_meant(name, meant, tmp_path):
    for there in ("race.yaml", "izh_mod.yaml", "lca_eq.yaml"):
        (tmp_path / there).write_text("")
    with pytest.raises(LoopError) as info:
        mdf_loop.run(tmp_path / name)
    assert str(info.value).partition("; did you mean ")[2] == (f"{meant!r}?" if meant else "")
