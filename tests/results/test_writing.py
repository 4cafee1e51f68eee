"""Files that are written: whatever happens, the old or the new ones are whole, and nothing else is touched."""

import contextlib
import itertools
import json
import os
import stat
import threading

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mdf_loop
from mdf_loop.cli import main, write_json
from mdf_loop.convert import weights
from mdf_loop.errors import FileError
from mdf_loop.models.results import Results
from mdf_loop.writers.atomic_files import comment_of, replacing, write_npz


def model(value, count=4000):
    """An ONNX model that adds weights of its own."""
    added = numpy_helper.from_array(np.full(count, value, np.float32), "w")
    ends = [helper.make_tensor_value_info(name, 1, [size]) for name, size in (("x", 1), ("y", count))]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [added])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def result(path):
    """What a model in a file gives for 0."""
    return float(mdf_loop.run(path, x=[0.0])["y"][0])


def listing(folder):
    return sorted(file.name for file in folder.iterdir())


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


WRITERS = {
    "convert, yaml": lambda folder, value: mdf_loop.convert(model(value), folder / "m.yaml"),
    "convert, json": lambda folder, value: mdf_loop.convert(model(value), folder / "m.json"),
    "convert, small": lambda folder, value: mdf_loop.convert(model(value, 3), folder / "m.yaml"),
    "to_onnx": lambda folder, value: mdf_loop.to_onnx(mdf_loop.convert(model(value)), folder / "m.onnx"),
    "outputs, npz": lambda folder, value: Results({"y": np.full(3000, value), "file": np.ones(2)}).save(folder / "m.npz"),
    "outputs, json": lambda folder, value: write_json(folder / "m.json", {"y": np.full(3000, value)}),
}


class Full(OSError):
    """No space left on the device."""


CALLS = {"replace": os, "fsync": os, "open": os, "link": os, "fdopen": os, "chmod": os, "unlink": os}


def failing_at(monkeypatch, number, error):
    """Let the call of that number among all of the system's that write fail; what was called is kept."""
    called = []

    def watched(name, original):
        def call(*args, **more):
            called.append(name)
            if len(called) - 1 == number:
                raise error
            return original(*args, **more)

        return call

    for name, owner in CALLS.items():
        monkeypatch.setattr(owner, name, watched(name, getattr(owner, name)))
    return called


def whole(name, folder, old, new):
    """Whether a folder holds what was there before, or what was to be written."""
    found = contents(folder)
    if found == old:
        return "old"
    if "convert" in name:
        (path,) = [file for file in folder.iterdir() if file.suffix != ".npz"]
        assert result(path) == 2.0, "the pair fits"
        return "new"
    assert found == new
    return "new"


@pytest.mark.parametrize("error", [Full(28, "No space left on device"), KeyboardInterrupt(), MemoryError()], ids=repr)
@pytest.mark.parametrize("name", WRITERS)
def test_old_files_stay_whole_wherever_writing_fails(name, error, tmp_path):
    old, new, seen = written_twice(name, tmp_path)
    for number in itertools.count():
        folder = tmp_path / f"failing_{number}"
        folder.mkdir()
        for file, content in old.items():
            (folder / file).write_bytes(content)
        with pytest.MonkeyPatch.context() as patch:
            called = failing_at(patch, number, error)
            with contextlib.suppress(FileError, KeyboardInterrupt, MemoryError):
                WRITERS[name](folder, 2.0)
        seen.add(whole(name, folder, old, new))
        assert not [file for file in listing(folder) if file.startswith(".")] or called[number] == "unlink"
        if len(called) <= number:
            break
    assert number > 3
    assert seen == {"old", "new"}


def written_twice(name, tmp_path):
    """What a writer leaves in a folder: at first, and in place of that."""
    (folder := tmp_path / "both").mkdir()
    WRITERS[name](folder, 1.0)
    old = contents(folder)
    WRITERS[name](folder, 2.0)
    new = contents(folder)
    assert set(new) == set(old)
    assert new != old
    return old, new, set()


@pytest.mark.parametrize("name", WRITERS)
def test_disk_that_fills_up_destroys_nothing(name, tmp_path, monkeypatch):
    WRITERS[name](tmp_path, 1.0)
    old, original = contents(tmp_path), os.fdopen

    class Filling:
        """A file with room for some bytes."""

        def __init__(self, file):
            self.file, self.room = file, 40

        def write(self, data):
            self.room -= len(data)
            if self.room < 0:
                raise Full(28, "No space left on device")
            return self.file.write(data)

        def __getattr__(self, name):
            return getattr(self.file, name)

    monkeypatch.setattr(os, "fdopen", lambda *args: Filling(original(*args)))
    with pytest.raises(FileError, match=r"cannot be written: No space left on device; what was there is unchanged"):
        WRITERS[name](tmp_path, 2.0)
    assert contents(tmp_path) == old


@pytest.mark.parametrize("name", WRITERS)
def test_file_that_cannot_be_made_is_an_error_of_ours(name, tmp_path):
    with pytest.raises(FileError, match="there is no folder"):
        WRITERS[name](tmp_path / "nowhere", 1.0)


def test_folder_in_the_way_is_an_error_of_ours(tmp_path):
    (tmp_path / "m.onnx").mkdir()
    with pytest.raises(FileError, match="Is a directory"):
        WRITERS["to_onnx"](tmp_path, 1.0)
    assert listing(tmp_path) == ["m.onnx"]


# Weights and what is no weights


def test_weights_take_the_place_of_earlier_ones_of_the_same_model(tmp_path):
    path = tmp_path / "m.yaml"
    for value in (1.0, 2.0, 2.0):
        mdf_loop.convert(model(value), path)
        assert listing(tmp_path) == ["m.npz", "m.yaml"]
        assert result(path) == value
    mdf_loop.convert(model(3.0, 3), path)
    assert listing(tmp_path) == ["m.yaml"], "which needs no weights beside it"
    assert result(path) == 3.0


def test_old_model_has_its_old_weights_until_the_new_one_is_there(tmp_path, monkeypatch):
    path, seen, original = tmp_path / "m.yaml", [], os.replace

    def replace(source, target):
        original(source, target)
        seen.append(result(path))

    mdf_loop.convert(model(1.0), path)
    monkeypatch.setattr(os, "replace", replace)
    mdf_loop.convert(model(2.0), path)
    assert seen == [1.0, 2.0, 2.0]


@pytest.mark.parametrize("other", ["measured", "text", "of another model", "a link", "a folder", "of a model that was renamed"])
def test_file_that_is_no_earlier_one_of_the_model_stays(other, tmp_path):
    beside, path = tmp_path / "data.npz", tmp_path / "data.yaml"
    if other == "measured":
        np.savez(beside, measured=np.arange(3))
    elif other == "text":
        beside.write_text("my notes")
    elif other == "of another model":
        mdf_loop.convert(model(5.0), tmp_path / "data.json")
    elif other == "a link":
        np.savez(tmp_path / "elsewhere", measured=np.arange(3))
        beside.symlink_to(tmp_path / "elsewhere.npz")
    elif other == "a folder":
        beside.mkdir()
    else:
        mdf_loop.convert(model(5.0), path)
        path.rename(tmp_path / "renamed.yaml")
    files = [file for file in tmp_path.iterdir() if file.is_file()]
    before = {file: file.read_bytes() for file in files}
    for value in (1.0, 2.0, 3.0):
        mdf_loop.convert(model(value), path)
        assert result(path) == value
    assert len(listing(tmp_path)) == len(before) + (other == "a folder") + 2
    assert {file: file.read_bytes() for file in files} == before
    for file, value in (("data.json", 5.0), ("renamed.yaml", 5.0)):
        if (tmp_path / file).exists():
            assert result(tmp_path / file) == value


def test_something_in_the_way_of_both_names_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "_digest", lambda _: "digest")
    for name in ("m.npz", "m.digest.npz"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(FileError, match=r"m\.digest\.npz' exists and is not a file of weights, so those of .*m\.yaml'"):
        mdf_loop.convert(model(1.0), tmp_path / "m.yaml")
    assert contents(tmp_path) == {"m.npz": b"mine", "m.digest.npz": b"mine"}


def test_without_hard_links_weights_keep_the_other_name(tmp_path, monkeypatch):
    path = tmp_path / "m.yaml"
    mdf_loop.convert(model(1.0), path)
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError("there are none here")))
    mdf_loop.convert(model(2.0), path)
    assert result(path) == 2.0
    assert len(listing(tmp_path)) == 2
    mdf_loop.convert(model(3.0), path)
    assert listing(tmp_path) == ["m.npz", "m.yaml"]
    assert result(path) == 3.0


def test_outputs_do_not_replace_the_model(tmp_path, capsys):
    path = tmp_path / "m.json"
    mdf_loop.convert(model(1.0, 3), path)
    before = path.read_bytes()
    with pytest.raises(SystemExit):
        main(["run", str(path), "--set", "x=[0.0]", "--output", str(path)])
    assert "--output would replace the model" in capsys.readouterr().err
    assert path.read_bytes() == before


# As writing into the old file would have left it


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_any_new_file_or_of_the_old_one(mask, tmp_path):
    before = os.umask(mask)
    try:
        with open(tmp_path / "plain", "wb"):
            pass
        WRITERS["convert, yaml"](tmp_path, 1.0)
        assert mode(tmp_path / "m.yaml") == mode(tmp_path / "m.npz") == mode(tmp_path / "plain")
        for bits in (0o600, 0o664, 0o755):
            (tmp_path / "m.yaml").chmod(bits)
            WRITERS["convert, yaml"](tmp_path, 2.0)
            assert mode(tmp_path / "m.yaml") == bits
    finally:
        os.umask(before)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_owner_stays(tmp_path):
    WRITERS["to_onnx"](tmp_path, 1.0)
    os.chown(tmp_path / "m.onnx", 1234, 4321)
    WRITERS["to_onnx"](tmp_path, 2.0)
    assert ((tmp_path / "m.onnx").stat().st_uid, (tmp_path / "m.onnx").stat().st_gid) == (1234, 4321)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everything")
def test_file_that_may_not_be_written_is_not_replaced(tmp_path):
    WRITERS["to_onnx"](tmp_path, 1.0)
    (tmp_path / "m.onnx").chmod(0o444)
    before = contents(tmp_path)
    with pytest.raises(FileError):
        WRITERS["to_onnx"](tmp_path, 2.0)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("is_there", [True, False])
def test_links_are_followed(is_there, tmp_path):
    (there := tmp_path / "there").mkdir()
    (here := tmp_path / "here").mkdir()
    if is_there:
        WRITERS["to_onnx"](there, 1.0)
    (here / "m.onnx").symlink_to(there / "m.onnx")
    WRITERS["to_onnx"](here, 2.0)
    assert (here / "m.onnx").is_symlink()
    assert result(there / "m.onnx") == 2.0
    assert listing(here) == listing(there) == ["m.onnx"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_pipe_is_written_and_stays_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe.onnx")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe.onnx").read_bytes()), daemon=True)
    reader.start()
    written = mdf_loop.to_onnx(mdf_loop.convert(model(1.0)), tmp_path / "pipe.onnx")
    reader.join(600)
    assert read == [written.SerializeToString()]
    assert listing(tmp_path) == ["pipe.onnx"]


def test_null_device_stays_a_device():
    mdf_loop.to_onnx(mdf_loop.convert(model(1.0)), os.devnull)
    assert not stat.S_ISREG(os.stat(os.devnull).st_mode)


# What is written


@pytest.mark.parametrize("suffix", [".onnx", ".json", ".onnxtxt", ".textproto"])
@pytest.mark.filterwarnings("ignore:The onnxtxt format is experimental")
def test_name_of_an_onnx_file_says_its_form(suffix, tmp_path):
    written = mdf_loop.to_onnx(mdf_loop.convert(model(1.0)), tmp_path / f"m{suffix}")
    read = onnx.load(tmp_path / f"m{suffix}").graph
    assert [node.op_type for node in read.node] == ["Add"]
    assert np.array_equal(*(numpy_helper.to_array(graph.initializer[0]) for graph in (read, written.graph)))


def test_names_of_arrays_are_free(tmp_path):
    arrays = {name: np.full(2, k) for k, name in enumerate(("file", "args", "allow_pickle", "arr_0", "a/b", "ü"))}
    with replacing(tmp_path / "a.npz") as file:
        write_npz(file, arrays, "of whom")
    with np.load(tmp_path / "a.npz") as read:
        assert {name: value.tolist() for name, value in read.items()} == {k: v.tolist() for k, v in arrays.items()}
    assert comment_of(tmp_path / "a.npz") == "of whom"
    np.savez(tmp_path / "b.npz", a=1)
    assert [comment_of(tmp_path / name) for name in ("b.npz", "none.npz", "..")] == ["", "", ""]


def test_maps_are_written_by_their_keys(tmp_path):
    outputs = {"z": [{"a": np.float32(0.25), 7: np.float32(0.5)}]}
    write_json(tmp_path / "o.json", outputs)
    assert json.loads((tmp_path / "o.json").read_text()) == {"z": [{"a": 0.25, "7": 0.5}]}
    Results(outputs).save(tmp_path / "o.npz")
    assert mdf_loop.open(tmp_path / "o.npz") == outputs
