"""Real models: ONNX files, and ONNX's own node cases, made into IR by OpenVINO's front end."""

from pathlib import Path

import numpy as np
import openvino
import pytest
from node_cases import node_cases, without_likes
from openvino_models import openvino_run, saved

from mdf_loop import backend
from mdf_loop.errors import UnsupportedOp
from mdf_loop.openvino import prepare

MODELS = Path(__file__).parents[1] / "models"

EXPORTED = sorted(path.name for path in MODELS.glob("*.onnx"))


NOT_COMPILED_THERE = ("ddm_ts.onnx", "ddm_dyn.onnx")
"""Models that OpenVINO reads and cannot run: its plugin refuses a Loop whose value has no known rank."""


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_model_gives_the_same_by_way_of_openvino(name, tmp_path):
    model = openvino.Core().read_model(MODELS / name)
    prepared = prepare(saved(model, tmp_path))
    rng, values = np.random.default_rng(0), []
    for declared in map(prepared.body.type_of, prepared.inputs):
        shape = [dim if isinstance(dim, int) else 3 for dim in declared.shape or ()]
        value = rng.standard_normal(shape) if declared.dtype.kind == "f" else np.full(shape, 3)
        values.append(value.astype(declared.dtype))
    expected = backend.prepare(MODELS / name).run(values)
    for mine, wanted in zip(prepared.run(values), expected, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-6)
    if name in NOT_COMPILED_THERE:
        with pytest.raises(RuntimeError, match="doesn't support Loop operation with dynamic rank"):
            openvino_run(model, *values)
        return
    for mine, theirs in zip(prepared.run(values), openvino_run(model, *values), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


OTHER_RESULTS = {
    "bernoulli": "draws other numbers",
    "bitshift_right": "OpenVINO shifts by as much as is said, ONNX's case wants nothing left",
    "no_saturate": "OpenVINO's Convert has no such attribute",
    "div_int32_trunc": "OpenVINO's front end asks for rounding down (m_pythondiv)",
    "dynamicquantizelinear": "made into other operations, as OpenVINO does",
    "batchwise": "layout 1 is ignored by OpenVINO's front end",
    "spacetodepth_crd": "the mode is ignored by OpenVINO's front end",
    "padded_kv_bf16": "bfloat16 is held as it is here",
    "attention": "masks are put together in another way by OpenVINO's front end",
}
"""Parts of the names of cases whose result is not ONNX's, each with its reason."""

CASES = [name for name in without_likes(2, alone=False) if not any(part in name for part in OTHER_RESULTS)]


def front_end(case):
    """What OpenVINO's front end makes of a case; None where it cannot read it, or drops inputs."""
    try:
        model = openvino.Core().read_model(case.model.SerializeToString(), b"")
    except RuntimeError:
        return None
    return model if all(len(model.inputs) == len(inputs) for inputs, _ in case.data_sets) else None


@pytest.mark.parametrize("first", sorted({name[len("test_") : len("test_") + 2] for name in CASES}))
def test_node_cases_give_onnx_results_or_are_refused_by_name(first, tmp_path):
    ran, unread, refused = 0, 0, []
    for name in (name for name in CASES if name.startswith(f"test_{first}")):
        case = node_cases()[name]
        model = front_end(case)
        if model is None:
            unread += 1
            continue
        path = saved(model, tmp_path)
        try:
            prepared = prepare(path)
        except UnsupportedOp as error:
            refused.append(str(error))
            continue
        for inputs, expected in case.data_sets:
            for mine, wanted in zip(prepared.run([np.asarray(v) for v in inputs]), expected, strict=True):
                assert np.shape(mine) == np.shape(wanted), name
                wide = [np.asarray(value).astype(np.float64) for value in (mine, wanted)]
                np.testing.assert_allclose(*wide, rtol=1e-3, atol=1e-5, err_msg=name)
        ran += 1
    assert ran + len(refused) + unread > 0
    assert all("layer '" in message for message in refused)


def test_most_node_cases_run(tmp_path):
    """The cases of what loops are made of: control flow, recurrent networks, shapes."""
    wanted = ("loop", "scan", "if", "lstm", "gru", "simple_rnn", "gather", "scatter", "slice", "split", "concat", "cumsum")
    ran = set()
    for name in CASES:
        kind = next((part for part in wanted if name.startswith(f"test_{part}")), None)
        model = front_end(node_cases()[name]) if kind and kind not in ran else None
        if model is not None:
            prepare(saved(model, tmp_path))
            ran.add(kind)
    assert set(wanted) - ran <= {"simple_rnn"}
