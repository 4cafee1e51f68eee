"""Files of results that anyone may have written: what could do more than hold numbers is refused before it is decoded."""

import contextlib
import json
import os
import pickle
import shutil
import signal
import zipfile
from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError, MalformedBody
from mdf_loop.models import strangers
from mdf_loop.models.saving import open_results

pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")
h5py = pytest.importorskip("h5py")

DIFFUSION = str(Path(__file__).parents[2] / "examples" / "drift_diffusion.yaml")
KINDS = ("results", "recorded", "sweep")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of each kind of results, all right."""
    home = tmp_path_factory.mktemp("made")
    run = mdf_loop.run(DIFFUSION, seed=1, record="decision.x_out", record_to=home / "recorded.zarr")
    run.save(home / "results.zarr")
    run.save(home / "results.nc")
    run.save(home / "results.npz")
    sweep = mdf_loop.sweep(DIFFUSION, {"drift": [1.0, 2.0]}, seed=1, outputs=["evidence"])
    sweep.to_zarr(home / "sweep.zarr", consolidated=False, zarr_format=3)
    return home


@pytest.fixture
def folder(made, tmp_path, request):
    """A copy of one of them, to be changed."""
    return Path(shutil.copytree(made / f"{request.param}.zarr", tmp_path / f"{request.param}.zarr"))


@pytest.fixture
def nothing_decoded(monkeypatch):
    """No array of zarr may be made or read."""

    def decoded(*_, **__):
        raise AssertionError("something was decoded")

    for name in ("open_group", "open_array", "open"):
        monkeypatch.setattr(zarr, name, decoded)


def arrays_in(folder):
    return [path for path in sorted(folder.rglob("zarr.json")) if json.loads(path.read_text())["node_type"] == "array"]


def change(path, **said):
    path.write_text(json.dumps({**json.loads(path.read_text()), **said}))


@pytest.mark.parametrize("folder", KINDS, indirect=True)
def test_folders_that_are_right_are_opened(folder):
    assert mdf_loop.open(folder) is not None


PICKLE = {"name": "numcodecs.pickle", "configuration": {}}
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


@pytest.mark.parametrize("folder", ["sweep"], indirect=True)
def test_a_file_that_a_worker_moves_meanwhile_is_no_error(folder, monkeypatch):
    """Workers of a cluster write on after their client was killed: each file under another name first."""
    beside = folder / ".tmp-0123-x-c.1.4"
    beside.write_bytes(b"0" * 64)
    listed = os.scandir

    def moved_after_listing(path):
        entries = list(listed(path))
        beside.unlink(missing_ok=True)
        return iter(entries)

    monkeypatch.setattr(strangers.os, "scandir", moved_after_listing)
    opened = mdf_loop.open(folder)
    assert not beside.exists()
    assert opened.sizes


@pytest.mark.parametrize("folder", KINDS, indirect=True)
@pytest.mark.parametrize(
    "said",
    [
        {"codecs": [PICKLE]},
        {"codecs": ["pickle"]},
        {"codecs": [BYTES, {"name": "numcodecs.zlib", "configuration": {"level": 1}}]},
        {
            "codecs": [
                {"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": [PICKLE], "index_codecs": [BYTES]}}
            ]
        },
        {
            "codecs": [
                {"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": [BYTES], "index_codecs": [PICKLE]}}
            ]
        },
        {"codecs": None},
        {"codecs": [3]},
        {"data_type": "object"},
        {"data_type": "variable_length_bytes"},
        {"data_type": {"name": "structured", "configuration": {}}},
        {"data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 1 << 60}}},
        {"storage_transformers": [{"name": "pickle"}]},
        {"zarr_format": 2},
        {"shape": [1 << 40]},
        {"shape": [1 << 20] * 4},
        {"shape": [-1]},
        {"shape": None},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1 << 50]}}},
        {"chunk_grid": {"name": "rectilinear", "configuration": {"chunk_shapes": "?"}}},
    ],
    ids=str,
)
def test_an_array_of_another_kind_is_refused(folder, said, nothing_decoded):
    path = next(path for path in arrays_in(folder) if "mdf_loop_values" in path.parts or folder.name != "recorded.zarr")
    change(path, **said)
    with pytest.raises(MalformedBody):
        mdf_loop.open(folder)


@pytest.mark.parametrize("folder", KINDS, indirect=True)
def test_what_a_group_lists_of_its_arrays_is_looked_at_as_well(folder, nothing_decoded):
    array = json.loads(arrays_in(folder)[0].read_text())
    listed = {"kind": "inline", "must_understand": False, "metadata": {"x": {**array, "codecs": [PICKLE]}}}
    change(folder / "zarr.json", consolidated_metadata=listed)
    with pytest.raises(MalformedBody, match=r"numcodecs\.pickle"):
        mdf_loop.open(folder)


@pytest.mark.parametrize("name", [".zgroup", ".zarray", ".zattrs", ".zmetadata"])
@pytest.mark.parametrize("folder", KINDS, indirect=True)
def test_format_2_is_refused(folder, name, nothing_decoded):
    for place in (folder, arrays_in(folder)[0].parent):
        (place / name).write_text(json.dumps({"zarr_format": 2}))
        with pytest.raises(MalformedBody, match="format 2"):
            mdf_loop.open(folder)
        (place / name).unlink()


class Evil:
    """Unpickled, it leaves a file."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def in_format_2(folder, mark):
    """Every array of a folder as one of format 2, whose only chunk is a pickle."""
    for path in sorted(folder.rglob("zarr.json")):
        said = json.loads(path.read_text())
        path.unlink()
        if said["node_type"] == "group":
            (path.parent / ".zgroup").write_text('{"zarr_format": 2}')
            (path.parent / ".zattrs").write_text(json.dumps(said["attributes"]))
            continue
        shape = said["shape"]
        array = {"zarr_format": 2, "shape": shape, "chunks": [max(1, n) for n in shape], "dtype": "|O", "fill_value": ""}
        array |= {"compressor": {"id": "pickle"}, "order": "C", "filters": [{"id": "vlen-utf8"}]}
        (path.parent / ".zarray").write_text(json.dumps(array))
        (path.parent / (".".join("0" for _ in shape) or "0")).write_bytes(pickle.dumps(Evil(mark)))


@pytest.mark.parametrize("folder", KINDS, indirect=True)
def test_no_pickle_runs(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    mark = tmp_path / "ran"
    in_format_2(folder, mark)
    calls = [
        lambda: mdf_loop.open(folder),
        lambda: mdf_loop.run(DIFFUSION, record="decision.x_out", record_to=folder),
        lambda: mdf_loop.sweep(DIFFUSION, {"drift": [1.0]}, checkpoint=folder),
    ]
    for call in calls:
        with pytest.raises(LoopError):
            call()
    assert not mark.exists()


def test_a_pickle_in_an_archive_does_not_run(made, tmp_path):
    mark, path = tmp_path / "ran", tmp_path / "r.npz"
    np.savez(path, x=np.array([Evil(mark)], object), allow_pickle=True)
    with pytest.raises(MalformedBody):
        mdf_loop.open(path)
    assert not mark.exists()


@pytest.mark.parametrize("dtype", ["V2000000000", "S2000000000", "U2000000000", "object", "i4, O", 3, [["a", "O"]]])
def test_elements_of_any_size_are_refused(dtype, made, tmp_path):
    path = tmp_path / "r.npz"
    with np.load(made / "results.npz") as file:
        held = dict(file)
    said = json.loads(held["mdf_loop"].item())
    for value in said["outputs"].values():
        value["dtype"] = dtype
    np.savez(path, **{**held, "mdf_loop": np.array(json.dumps(said))})
    with pytest.raises(MalformedBody):
        mdf_loop.open(path)


@contextlib.contextmanager
def ends_soon():
    """What waits for a pipe is woken, and fails."""

    def wake(*_):
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, wake)
    signal.alarm(30)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def place_of_chunk(folder):
    return next(path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "zarr.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("folder", KINDS, indirect=True)
@pytest.mark.parametrize("kind", ["pipe", "link", "description"])
def test_what_is_no_file_is_refused_and_does_not_hang(folder, kind):
    place = folder / "zarr.json" if kind == "description" else place_of_chunk(folder)
    place.unlink()
    if kind == "link":
        place.symlink_to(DIFFUSION)
    else:
        os.mkfifo(place)
    with ends_soon(), pytest.raises(MalformedBody):
        mdf_loop.open(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("name", ["r.npz", "r.nc", "r.zarr"])
def test_a_pipe_in_place_of_results_does_not_hang(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with ends_soon(), pytest.raises(LoopError):
        mdf_loop.open(tmp_path / name)


# netCDF


def outside(file, home):
    file["there"] = h5py.ExternalLink(str(home / "other.nc"), "/x")


def soft(file, home):
    file["there"] = h5py.SoftLink("/evidence")


def virtual(file, home):
    layout = h5py.VirtualLayout((4,), "f8")
    layout[:] = h5py.VirtualSource(str(home / "other.nc"), "x", (4,))
    file.create_virtual_dataset("there", layout)


def external(file, home):
    file.create_dataset("there", (4,), "f8", external=[(str(home / "secret"), 0, 32)])


def huge(file, home):
    file.create_dataset("there", (1 << 50,), "f8", chunks=(1 << 10,))


def packed(file, home):
    file.create_dataset("there", (4,), "f8", compression="lzf", data=np.zeros(4))


@pytest.mark.parametrize("spoil", [outside, soft, virtual, external, huge, packed])
@pytest.mark.parametrize("depth", [0, 1])
def test_a_netcdf_file_that_leads_elsewhere_is_refused(spoil, depth, made, tmp_path):
    (tmp_path / "secret").write_bytes(b"s" * 32)
    with h5py.File(tmp_path / "other.nc", "w") as file:
        file["x"] = np.arange(4.0)
    path = Path(shutil.copy(made / "results.nc", tmp_path))
    assert mdf_loop.open(path) is not None
    with h5py.File(path, "r+") as file:
        spoil(file.create_group("inner") if depth else file, tmp_path)
    with pytest.raises(MalformedBody, match="is not opened"):
        mdf_loop.open(path)


def test_groups_that_hold_each_other_end(made, tmp_path):
    path = Path(shutil.copy(made / "results.nc", tmp_path))
    with h5py.File(path, "r+") as file:
        file["inner/again"] = file.create_group("inner")
    assert mdf_loop.open(path) is not None


@pytest.mark.parametrize("name", ["r.npz", "r.nc"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x89HDF\r\n\x1a\n" + b"\0" * 100, b"CDF\x01" + b"\0" * 100])
def test_other_content_is_a_loop_error(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LoopError):
        open_results(tmp_path / name)


def test_an_archive_that_says_more_than_it_holds_is_refused(tmp_path):
    path = tmp_path / "r.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)})
    with pytest.raises(MalformedBody, match="declares more than the file has"):
        mdf_loop.open(path)


def test_a_sweep_of_strings_and_texts_is_opened(tmp_path):
    import xarray

    attrs = mdf_loop.sweep(DIFFUSION, {"drift": [1.0]}, seed=1, outputs=["evidence"]).attrs
    made = xarray.Dataset({"a": ("x", np.array(["a", "bb"])), "b": ("x", np.array([True, False]))}, attrs={**attrs, "errors": ""})
    made.to_zarr(tmp_path / "s.zarr", consolidated=False, zarr_format=3)
    assert mdf_loop.open(tmp_path / "s.zarr")["a"].values.tolist() == ["a", "bb"]
