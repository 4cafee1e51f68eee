"""Files that models name, and paths that are none: what is read, from where, and what is said of all others."""

import io
import json
import os
import zipfile

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mdf_loop
from mdf_loop import backend
from mdf_loop.cli import main
from mdf_loop.convert import weights
from mdf_loop.errors import KindError, LoopError, MalformedBody
from mdf_loop.readers import read
from mdf_loop.readers.onnx import file as onnx_file

TEXT = '<ir_version: 10, opset_import: ["": 18]> b (int64 i, bool c, double s) => (bool c, double t) { t = Neg (s) }'

LOADING = [mdf_loop.load, mdf_loop.run, mdf_loop.convert, mdf_loop.to_onnx, backend.prepare, lambda path: read(path)]


def strange_paths(folder):
    """Paths that lead to no file, without those that need a suffix."""
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "round").symlink_to("round")
    (folder / "device").symlink_to("/dev/zero")
    return ["pipe", "folder", "round", "device", "none", "none/none", "pipe/none", "a" * 300, "a\0b"]


@pytest.mark.parametrize("suffix", ["", ".yaml", ".json", ".onnx", ".xml"])
def test_what_is_no_file_is_never_read(suffix, tmp_path):
    names = strange_paths(tmp_path)
    for name in names:
        path = tmp_path / (name + suffix)
        if suffix and name in names[:4]:
            path.symlink_to(tmp_path / name)
        for load in LOADING:
            with pytest.raises(LoopError, match=r"no file|a pipe|a directory|is a folder|a device|cannot be read|file of type"):
                load(path)


@pytest.mark.parametrize("path", [None, 5, b"m.yaml", ["m.yaml"]])
def test_what_is_no_path_is_said(path):
    with pytest.raises(KindError, match=r"from (the path of its file|a path that is a text)"):
        mdf_loop.load(path)


@pytest.mark.parametrize("body", [{"onnx_file": 5}, {"onnx_file": None}, "a" * 300, "a\0", {"onnx_file": "a" * 300}, ""])
def test_a_body_that_is_no_path(body):
    with pytest.raises(LoopError):
        mdf_loop.loop(1, True, 1.0, body=body)


@pytest.mark.parametrize("arguments", [["run"], ["explain"], ["verify"], ["convert", "--body", "mdf"]])
@pytest.mark.parametrize(
    "name", ["folder.yaml", "pipe.yaml", "none.json", "bad.yaml", "deep.json", "bad.onnx", "bad.xml", "bytes.json"]
)
def test_the_command_says_it_in_one_paragraph(arguments, name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "bad.yaml").write_text("m: {graphs: {g: {nodez: {}}}}")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    for other in ("bad.onnx", "bad.xml", "bytes.json"):
        (tmp_path / other).write_bytes(b"\xff\xfe\0")
    with pytest.raises(SystemExit) as ended:
        main(
            [
                *arguments,
                name,
                *(["out.onnx" if name[-4:] in ("yaml", "json") else "out.yaml"] if arguments[0] == "convert" else []),
            ]
        )
    said = capsys.readouterr().err
    assert ended.value.code in (1, 2)
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1
    assert name in said


@pytest.mark.parametrize("value", ["{}[", "[" * 100_000, "9" * 5_000, "none"])
def test_inputs_on_the_command_line_are_json(value, capsys, tmp_path):
    (tmp_path / "m.json").write_text('{"m": {"graphs": {"g": {"nodes": {}}}}}')
    with pytest.raises(SystemExit):
        main(["run", str(tmp_path / "m.json"), "--set", f"x={value}"])
    assert "--set x" in capsys.readouterr().err


def with_body(folder, body, **args):
    """A model that loops over a body, which is a parameter's value."""
    args = {"M": "3", "cond": "True", "v_initial": "x", "body": "body", **args}
    parameters = {"body": {"value": body}, "y": {"function": "onnx::Loop", "args": args}}
    node = {"input_ports": {"x": {}}, "parameters": parameters, "output_ports": {"o": {"value": "y"}}}
    (folder / "m.json").write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}))
    return folder / "m.json"


@pytest.fixture
def folders(tmp_path):
    """A folder with a body beside it, in it, and a link from inside to outside."""
    inside = tmp_path / "inside"
    inside.mkdir()
    for place in (tmp_path / "body.onnx", inside / "body.onnx"):
        onnx.save(onnx.parser.parse_model(TEXT), place)
    (inside / "link.onnx").symlink_to(tmp_path / "body.onnx")
    return inside


@pytest.mark.parametrize("name", ["../body.onnx", "link.onnx", "../inside/../body.onnx", None, "/dev/zero"])
def test_bodies_lie_in_the_folder_of_the_model(name, folders):
    name = str(folders.parent / "body.onnx") if name is None else name
    path = with_body(folders, {"onnx_file": name})
    with pytest.raises(MalformedBody, match=r"m\.json': an onnx_file must lie in the folder of the model; .*trusted"):
        mdf_loop.load(path)
    with mdf_loop.options(trusted=True):
        if name == "/dev/zero":
            with pytest.raises(LoopError, match="it is a device"):
                mdf_loop.run(path, x=1.0)
        else:
            assert mdf_loop.run(path, x=1.0)["o"] == -1


@pytest.mark.parametrize("name", ["body.onnx", "../inside/body.onnx", "./body.onnx"])
def test_bodies_inside_the_folder_are_read(name, folders):
    assert mdf_loop.run(with_body(folders, {"onnx_file": name}), x=1.0)["o"] == -1


def test_no_place_of_a_model_is_overlooked(folders):
    outside = {"onnx_file": "../body.onnx"}
    content = json.loads(with_body(folders, outside).read_text())
    node = content["m"]["graphs"]["g"]["nodes"]["n"]
    del node["parameters"]["body"]
    places = [
        lambda: node["input_ports"].update(body={"default_value": outside}),
        lambda: node["parameters"].update(body={"default_initial_value": outside}),
        lambda: node["parameters"].update(body={"value": [outside]}),
        lambda: node["parameters"]["y"]["args"].update(body=outside),
        lambda: node["parameters"]["y"]["args"].update(other=[{"deep": outside}]),
    ]
    for put in places:
        put()
        (folders / "m.json").write_text(json.dumps(content))
        with pytest.raises(MalformedBody, match="an onnx_file must lie in the folder"):
            mdf_loop.load(folders / "m.json")
        node["input_ports"].pop("body", None)
        node["parameters"].pop("body", None)
        node["parameters"]["y"]["args"].update(body="body")
        node["parameters"]["y"]["args"].pop("other", None)


def test_a_text_in_a_model_is_no_path(folders):
    content = json.loads(with_body(folders, 1).read_text())
    node = content["m"]["graphs"]["g"]["nodes"]["n"]
    del node["parameters"]["body"]
    node["input_ports"]["body"] = {"default_value": str(folders.parent / "body.onnx")}
    (folders / "m.json").write_text(json.dumps(content))
    with pytest.raises(MalformedBody, match=r"a body in a file is \{onnx_file: path\}"):
        mdf_loop.run(folders / "m.json", x=1.0)


def external(folder, location, count=1, offset=0, length=16):
    """A model whose tensors lie in another file."""
    tensors = []
    for k in range(count):
        tensor = onnx.TensorProto(name=f"w{k}", data_type=onnx.TensorProto.FLOAT, dims=[length // 4])
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        tensors.append(tensor)
    nodes = [helper.make_node("Identity", ["w0"], ["y"])]
    graph = helper.make_graph(nodes, "g", [], [helper.make_value_info("y", onnx.TypeProto())], tensors)
    path = folder / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
    return path


def test_tensors_in_other_files_are_read(tmp_path):
    (tmp_path / "data").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    assert backend.prepare(external(tmp_path, "data", 3, offset=8)).run([])[0].tolist() == [2, 3, 4, 5]
    assert mdf_loop.run(external(tmp_path, "data", offset=16))["y"].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"offset": 32}, r"'w0' lies at bytes 32 to 48 of 'data', which has 32"),
        ({"length": 1 << 62}, "'w0' lies at bytes 0 to"),
        ({"offset": 1 << 62}, "'w0' lies at bytes"),
        ({"offset": -4}, "must be non-negative"),
        ({"length": -4}, "must be non-negative"),
        ({"offset": "x"}, "invalid literal"),
        ({"location": "../data"}, "must lie in the folder of the model"),
        ({"location": "link"}, "must lie in the folder of the model"),
        ({"location": "pipe"}, "it is a pipe"),
        ({"location": "none"}, "there is no file"),
        ({"location": ""}, "it is a directory"),
        ({"count": 100}, "its tensors read 272 bytes from files that hold 32"),
    ],
)
def test_tensors_that_lie_elsewhere_are_refused(more, message, folders, monkeypatch):
    monkeypatch.setattr(onnx_file, "SOME_READ", 0)
    for place in (folders.parent / "data", folders / "data"):
        place.write_bytes(bytes(32))
    (folders / "link").symlink_to(folders.parent / "data")
    os.mkfifo(folders / "pipe")
    path = external(folders, **{"location": "data", **more})
    for load in LOADING[1:3] + LOADING[4:]:
        with pytest.raises(MalformedBody, match=message):
            load(path)


def test_tensors_of_a_trusted_model_may_lie_elsewhere(folders):
    (folders.parent / "data").write_bytes(bytes(32))
    (folders / "link").symlink_to(folders.parent / "data")
    with mdf_loop.options(trusted=True):
        assert backend.prepare(external(folders, "link")).run([])[0].tolist() == [0, 0, 0, 0]


def with_weights(folder, names):
    parameters = {f"p{k}": {"value": {"npz": "w.npz", "name": name}} for k, name in enumerate(names)}
    node = {"parameters": parameters, "output_ports": {"o": {"value": "p0"}}}
    (folder / "m.json").write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}))
    return folder / "m.json"


def test_weights_are_read_once(tmp_path, monkeypatch):
    np.savez(tmp_path / "w.npz", w=np.ones(1000))
    reads = []
    real = np.lib.format.read_array
    monkeypatch.setattr(np.lib.format, "read_array", lambda *args, **more: reads.append(1) or real(*args, **more))
    model = mdf_loop.load(with_weights(tmp_path, ["w"] * 20))
    assert len(reads) == 1
    assert all(parameter.value.sum() == 1000 for parameter in model.graphs[0].nodes[0].parameters)


def test_weights_take_what_the_size_of_their_file_allows(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "ANY", 100_000)
    np.savez_compressed(tmp_path / "w.npz", w=np.zeros(10_000), v=np.zeros(10_000))
    assert mdf_loop.load(with_weights(tmp_path, ["w"]))
    with pytest.raises(MalformedBody, match=r"weights '[vw]' in 'w\.npz' cannot be read: it declares more than the file has"):
        mdf_loop.load(with_weights(tmp_path, ["w", "v"]))


def header(shape, descr="<f4"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize(
    "content", [header((1 << 40,)), header((-1, -1)) + bytes(4), header((1 << 50,), "|V0"), header((2,), "|O")]
)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_arrays_that_are_none_are_refused_packed_in_any_way(content, method, tmp_path, capsys):
    with zipfile.ZipFile(tmp_path / "w.npz", "w", method) as archive:
        archive.writestr("w.npy", content)
    path = with_weights(tmp_path, ["w"])
    with pytest.raises(MalformedBody, match=r"m\.json': weights 'w' in 'w\.npz' cannot be read"):
        mdf_loop.load(path)
    with pytest.raises(SystemExit):
        main(["run", str(path), "--input", str(tmp_path / "w.npz")])
    assert "weights 'w' in 'w.npz' cannot be read" in capsys.readouterr().err


def test_entries_that_lie_over_each_other_are_refused(tmp_path):
    """One packed array that many entries of the archive's table point at."""
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        archive.writestr("w.npy", header((250,)) + bytes(1000))
        (entry,) = archive.infolist()
        for k in range(10):
            other = zipfile.ZipInfo(f"v{k}.npy")
            for name in ("header_offset", "compress_size", "file_size", "CRC"):
                setattr(other, name, getattr(entry, name))
            archive.filelist.append(other)
        archive._didModify = True
    with pytest.raises(MalformedBody, match=r"'w\.npz' is not a file of weights: its entries lie over each other"):
        mdf_loop.load(with_weights(tmp_path, ["w"]))


@pytest.mark.parametrize("name", ["w.npz", "w.json"])
def test_inputs_of_the_command_are_files(name, tmp_path, capsys):
    np.savez(tmp_path / "in.npz", x=np.float64(2))
    os.mkfifo(tmp_path / name)
    node = {"input_ports": {"x": {}}, "output_ports": {"o": {"value": "x + 1"}}}
    (tmp_path / "m.json").write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}))
    main_of = ["run", str(tmp_path / "m.json"), "--input"]
    with pytest.raises(SystemExit):
        main([*main_of, str(tmp_path / name)])
    assert "it is a pipe" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([*main_of, str(tmp_path / "in.npz")])
    assert ended.value.code in (0, None)
    assert "3" in capsys.readouterr().out


def test_a_numpy_tensor_is_read_from_text_too(tmp_path):
    model = onnx.parser.parse_model(TEXT)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2), "k"))
    onnx.save(model, tmp_path / "m.textproto")
    assert read({"onnx_file": tmp_path / "m.textproto"}).constants["k"].tolist() == [1, 1]
