"""A checkpoint is the truth or says that it is not; it belongs to what a model computes; jobs share the work."""

import json
import os
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from swept_models import DIFFUSION, GATHERING, NAMES, OVER, loop_graph

import mdf_loop
from mdf_loop.errors import IterationError, LoopError, LoopWarning
from mdf_loop.sweeps.checkpoints import digest
from mdf_loop.sweeps.task import Task

pytest.importorskip("xarray")

EXAMPLES = Path(__file__).parents[2] / "examples"


def swept(place=None, model=DIFFUSION, over=OVER, **how):
    return mdf_loop.sweep(model, over, checkpoint=place, **{"trials": 4, "seed": 1, "outputs": NAMES, "chunk": 7} | how)


@pytest.fixture(scope="module")
def whole():
    return swept()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("made") / "c.zarr"
    swept(place)
    return place


@pytest.fixture
def place(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "c.zarr"))


@pytest.fixture
def ran(monkeypatch):
    """The spans that are computed."""
    found, original = [], Task.run
    monkeypatch.setattr(Task, "run", lambda self, *span: found.append(span) or original(self, *span))
    return found


def chunks_in(place):
    return sorted(place.glob("chunk_*.npz"))


def goes_on_with_one_warning(place, whole, match=""):
    with pytest.warns(LoopWarning, match=match) as noted:
        found = swept(place)
    assert len(noted) == 1
    assert found.identical(whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert swept(place).identical(whole)


# Damage


@pytest.mark.parametrize("name", ["chunk_7_14_of_4.npz", "sweep.npz"])
def test_each_flipped_bit_is_found(name, place, whole):
    right = (place / name).read_bytes()
    for k in range(0, len(right), max(1, len(right) // 25)):
        bits = bytearray(right)
        bits[k] ^= 1 << (k % 8)
        (place / name).write_bytes(bytes(bits))
        goes_on_with_one_warning(place, whole, "is damaged")


@pytest.mark.parametrize("name", ["chunk_7_14_of_4.npz", "sweep.npz"])
@pytest.mark.parametrize("length", [0, 1, 20, -1])
def test_a_file_that_is_cut_short_is_found(name, length, place, whole):
    (place / name).write_bytes((place / name).read_bytes()[:length])
    goes_on_with_one_warning(place, whole)
    assert (place / f"{name}.damaged").exists()


@pytest.mark.parametrize("name", ["chunk_7_14_of_4.npz", "sweep.npz"])
def test_a_file_that_is_gone_is_found(name, place, whole):
    (place / name).unlink()
    goes_on_with_one_warning(place, whole, "runs are missing|does not say")


@pytest.mark.parametrize("kind", ["directory", "pipe", "other runs", "other sweep", "other points", "more runs"])
def test_what_is_no_chunk_of_this_sweep_is_set_aside(kind, place, whole, tmp_path):
    first, second, *_ = chunks_in(place)
    if kind == "more runs":
        shutil.copy(first, place / "chunk_0_25_of_4.npz")
    elif kind == "other runs":
        shutil.copy(second, first)
    elif kind.startswith("other"):
        other = {"seed": 2} if kind == "other sweep" else {"over": OVER | {"drift": [0.6, 1.5]}}
        swept(tmp_path / "other.zarr", **other)
        shutil.copy(tmp_path / "other.zarr" / first.name, first)
    else:
        first.unlink()
        first.mkdir() if kind == "directory" else os.mkfifo(first)
    goes_on_with_one_warning(place, whole)


def test_what_is_set_aside_is_kept(place, whole):
    first = chunks_in(place)[0]
    first.write_bytes(b"mine")
    with pytest.warns(LoopWarning, match=r"kept under names that end in '\.damaged'"):
        swept(place)
    assert Path(f"{first}.damaged").read_bytes() == b"mine"


def test_odd_names_are_no_matter(place, whole):
    for name in ("chunk_x_y", "chunk_1", "chunk_0_5_of_0.npz", "claim_x", "complete_x", "chunk_0_99999999999999999999_of_4.npz"):
        (place / name).mkdir()
    assert swept(place).identical(whole)
    assert mdf_loop.open(place).identical(whole)


@pytest.mark.parametrize("name", ["zarr.json", "mine", ".zgroup"])
def test_a_folder_of_something_else_is_left_alone(name, tmp_path):
    place = tmp_path / "c.zarr"
    place.mkdir()
    (place / name).write_text("{}")
    with pytest.raises(LoopError, match="is not replaced"):
        swept(place)
    assert [path.name for path in place.iterdir()] == [name]


def test_a_checkpoint_that_says_nothing_and_has_no_chunk_of_this_sweep_is_refused(place):
    (place / "sweep.npz").unlink()
    with pytest.raises(LoopError, match="no chunk of this one"):
        swept(place, seed=2)
    assert len(chunks_in(place)) == 4


def test_chunks_with_errors_are_run_again_where_an_error_ends_everything(tmp_path):
    graph, place = loop_graph(GATHERING, {"x": 0.0, "w": [1.0, 2.0, 3.0]}, {"x": "x"}, ("run[1]",)), tmp_path / "c.zarr"
    kept = mdf_loop.sweep(graph, {"m": [2, 9, 3]}, seed=1, checkpoint=place)
    assert len(kept.attrs["errors"]) == 1
    assert mdf_loop.sweep(graph, {"m": [2, 9, 3]}, seed=1, checkpoint=place).attrs["errors"] == kept.attrs["errors"]
    assert mdf_loop.open(place).attrs["errors"] == kept.attrs["errors"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(IterationError):
            mdf_loop.sweep(graph, {"m": [2, 9, 3]}, seed=1, checkpoint=place, on_error="raise")


# What it belongs to


def a_copy(tmp_path):
    return shutil.copy(DIFFUSION, tmp_path / "other.yaml")


def a_relative_path(tmp_path):
    return os.path.relpath(DIFFUSION)


def an_object(tmp_path):
    return mdf_loop.load(DIFFUSION)


def a_prepared_model(tmp_path):
    return mdf_loop.prepare(str(DIFFUSION))


def json_of_it(tmp_path):
    return EXAMPLES / "drift_diffusion.json"


def another_description(tmp_path):
    text = DIFFUSION.read_text()
    assert "description: One trial" in text
    (tmp_path / "d.yaml").write_text(f"# a comment\n{text.replace('description: One trial', 'description: Some trial')}")
    return tmp_path / "d.yaml"


@pytest.mark.parametrize("same", [a_copy, a_relative_path, an_object, a_prepared_model, json_of_it, another_description])
def test_the_same_content_goes_on(same, place, whole, ran, tmp_path):
    assert swept(place, same(tmp_path)).identical(whole)
    assert not ran


INPUTS = {"openvino_loop.xml": {"trip_count": 4, "go": True, "start": [[0], [1]]}, "newton_mdf.yaml": {}}


@pytest.mark.parametrize("name", [*INPUTS, "oscillator.yaml"])
def test_a_copy_of_any_model_goes_on(name, tmp_path, ran):
    how = {"trials": 2, "seed": 1, "checkpoint": tmp_path / "c.zarr", **INPUTS.get(name, {"steps": 3})}
    for path in EXAMPLES.glob(f"{Path(name).stem}.*"):
        shutil.copy(path, tmp_path)
    first = mdf_loop.sweep(EXAMPLES / name, **how)
    before = len(ran)
    assert mdf_loop.sweep(tmp_path / name, **how).equals(first)
    assert len(ran) == before > 0


def test_a_body_in_a_file_of_its_own_decides(tmp_path):
    body = "b (int64 i, bool c, float x) => (bool c, float y) { y = Add (x, x) }"

    def write(folder, text):
        folder.mkdir()
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {text}'), folder / "body.onnx")
        run = {"function": "onnx::Loop", "args": {"M": 3, "cond": True, "x": "start", "body": "body"}}
        parameters = {"start": {"value": 1.0}, "body": {"value": {"onnx_file": "body.onnx"}}, "run": run}
        node = {"parameters": parameters, "output_ports": {"y": {"value": "run"}}}
        (folder / "m.json").write_text(json.dumps({"m": {"graphs": {"g": {"nodes": {"n": node}}}}}))
        return folder / "m.json"

    place = tmp_path / "c.zarr"
    first, copy = write(tmp_path / "a", body), write(tmp_path / "b", body)
    other = write(tmp_path / "c", body.replace("Add", "Mul"))
    mdf_loop.sweep(first, {"start": [1.0, 2.0]}, seed=1, checkpoint=place)
    assert mdf_loop.sweep(copy, {"start": [1.0, 2.0]}, seed=1, checkpoint=place).y.values.tolist() == [8.0, 16.0]
    with pytest.raises(LoopError, match="onnx_file"):
        mdf_loop.sweep(other, {"start": [1.0, 2.0]}, seed=1, checkpoint=place)


def with_noise(tmp_path):
    model = json.loads((EXAMPLES / "drift_diffusion.json").read_text())
    next(iter(model.values()))["graphs"]["drift_diffusion"]["nodes"]["decision"]["parameters"]["noise"]["value"] = 0.5
    (tmp_path / "n.json").write_text(json.dumps(model))
    return tmp_path / "n.json"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 2}, "its seed is 1, here it is 2"),
        ({"fill": 0}, "its fill is nan, here it is 0.0"),
        ({"noise": 0.5}, "it has no inputs.noise, which is 0.5 here"),
        ({"outputs": "evidence"}, "its outputs is evidence, reaction_time, here it is evidence"),
        ({"over": {"drift": [0.5, 1.5], "bound": [0.3, 0.6, 0.7]}}, "here it has 6: bound[1] is 0.5, here it is 0.6"),
        (
            {"over": {"drift": [0.5], "bound": [0.3, 0.5, 0.7]}},
            "its grid has 6 points, here it has 3: drift has 2 values, here 1",
        ),
        ({"reduce": [0.1, 0.9]}, "it has no reduce.levels"),
        ({"reduce": "mean"}, "its reduce is None, here it is mean"),
        ({"common_noise": True}, "its common_noise is False, here it is True"),
        (
            {"model": EXAMPLES / "oscillator.yaml", "outputs": None, "over": {}},
            "its model.id is drift_diffusion, here it is oscillator",
        ),
    ],
)
def test_what_differs_is_said_in_words(change, words, place):
    with pytest.raises(LoopError) as error:
        swept(place, **change)
    assert words in str(error.value)
    assert "#" not in str(error.value)


def test_trials_that_are_reduced_cannot_be_added(tmp_path):
    swept(tmp_path / "c.zarr", reduce="mean", trials=4)
    with pytest.raises(LoopError, match="its trials is 4, here it is 6, and with reduce= trials cannot be added;"):
        swept(tmp_path / "c.zarr", reduce="mean", trials=6)


def test_another_value_in_the_model_is_named(place, tmp_path):
    model = with_noise(tmp_path)
    with pytest.raises(LoopError, match=r"its model\.nodes\.decision\.parameters\.noise\.value is 1\.0, here it is 0\.5"):
        swept(place, model)


@pytest.mark.parametrize("name", ["engine", "max_iterations"])
def test_another_engine_or_option_is_named(name, place):
    chosen = {"engine": "interpret", "max_iterations": 10_000_000}[name]
    with mdf_loop.options(**{name: chosen}), pytest.raises(LoopError, match=f"its .*{name} is .*, here it is {chosen}"):
        swept(place)


@pytest.mark.parametrize("name", ["mdf_loop", "numpy"])
def test_another_version_is_named(name, place, monkeypatch):
    if name == "numpy":
        monkeypatch.setattr(np, "__version__", "9.9")
    else:
        monkeypatch.setattr(digest, "__version__", "9.9")
    with pytest.raises(LoopError, match=rf"its {name} is .*, here it is 9\.9"):
        swept(place)


# More of the same


@pytest.mark.parametrize(("before", "after"), [(4, 9), (9, 4), (1, 2), (3, 3)])
@pytest.mark.parametrize("common_noise", [False, True])
def test_more_trials_go_on_where_fewer_ended(before, after, common_noise, tmp_path, ran):
    how = {"common_noise": common_noise}
    swept(tmp_path / "c.zarr", trials=before, **how)
    ran.clear()
    found = swept(tmp_path / "c.zarr", trials=after, **how)
    assert sum(stop - start for start, stop in ran) == 6 * max(after - before, 0)
    assert found.identical(swept(trials=after, **how))
    assert mdf_loop.open(tmp_path / "c.zarr").sizes["trial"] == max(before, after)


def test_points_may_be_a_list_and_may_become_more(place, ran):
    points = [{"drift": drift, "bound": bound} for drift in (0.5, 1.5, 2.5) for bound in OVER["bound"]]
    assert (swept(place, over=points[:6]).evidence.values.reshape(2, 3, 4) == swept(place).evidence.values).all()
    assert not ran
    found = swept(place, over=points)
    assert sum(stop - start for start, stop in ran) == 12
    assert found.identical(swept(over=points))


# Where it lies, and what it shows


def test_open_shows_what_is_done(tmp_path, whole):
    model, place = shutil.copy(DIFFUSION, tmp_path / "m.yaml"), tmp_path / "c.zarr"

    def stop(done, size):
        if done >= 14:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept(place, model, progress=stop)
    os.unlink(model)
    found = mdf_loop.open(place)
    assert found.attrs["complete"] == 14
    assert found.coords.equals(whole.coords)
    known = found.evidence.notnull().values
    assert known.reshape(-1).tolist() == [True] * 14 + [False] * 10
    assert (found.evidence.values == whole.evidence.values)[known].all()
    assert swept(place).identical(whole)
    assert mdf_loop.open(str(place)).identical(whole)


@pytest.mark.parametrize(
    "how", [{"reduce": "mean"}, {"reduce": [0.1, 0.9]}, {"outputs": ["path"]}, {"trials": None}, {"over": None}], ids=str
)
def test_open_gives_what_the_sweep_gave(how, tmp_path):
    assert (
        mdf_loop.open(tmp_path / "c.zarr").identical(given) if (given := swept(tmp_path / "c.zarr", **how)) is not None else None
    )


def test_open_tells_of_damage_and_changes_nothing(place, whole):
    first = chunks_in(place)[0]
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.warns(LoopWarning, match="is damaged"):
        found = mdf_loop.open(place)
    assert found.attrs["complete"] == 17
    assert first.exists()
    (place / "sweep.npz").unlink()
    with pytest.raises(LoopError, match="does not say"):
        mdf_loop.open(place)


def test_an_address_goes_through_fsspec(whole):
    pytest.importorskip("fsspec")
    place = f"memory://{os.urandom(4).hex()}/c.zarr"
    swept(place, trials=2)
    assert swept(place).identical(whole)
    assert mdf_loop.open(place).identical(whole)
    import fsspec

    files, root = fsspec.core.url_to_fs(place)
    chunk = next(path for path in files.ls(root, detail=False) if "chunk" in path)
    files.pipe_file(chunk, b"damaged")
    with pytest.warns(LoopWarning, match="is damaged"):
        assert swept(place).identical(whole)
    assert files.cat_file(f"{chunk}.damaged") == b"damaged"
    with pytest.raises(LoopError, match="holds no checkpoint"):
        mdf_loop.open("memory://nothing/c.zarr")


@pytest.mark.parametrize("place", ["s3://bucket/c.zarr", "nothing://x/c.zarr", "c.nc", "memory://x/c", 3, b"c.zarr"])
def test_other_places_are_refused(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(LoopError):
        swept(place)
    assert not list(tmp_path.iterdir())


def test_a_store_of_zarr_is_refused_in_words():
    zarr = pytest.importorskip("zarr")
    with pytest.raises(LoopError, match="got a MemoryStore of zarr: give its address"):
        swept(zarr.storage.MemoryStore())


def test_the_home_of_the_user_is_meant(tmp_path, monkeypatch, whole):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    swept("~/c.zarr")
    assert chunks_in(tmp_path / "c.zarr")
    assert mdf_loop.open("~/c.zarr").identical(whole)
