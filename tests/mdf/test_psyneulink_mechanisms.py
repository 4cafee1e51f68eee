"""What mechanisms of PsyNeuLink do around their functions: recurrent projections, as exports have them."""

import json

import numpy as np
import pytest

import mdf_loop
from mdf_loop.checks.model_file import check
from tests.mdf.test_psyneulink import ENGINES, ROOT, numbers, opened, run


def changed(name, change, tmp_path):
    """A kept export with something else in its last node."""
    content = json.loads((ROOT / f"{name}.json").read_text())
    (model,) = content.values()
    (graph,) = model["graphs"].values()
    change([*graph["nodes"].values()][-1])
    path = tmp_path / "m.json"
    path.write_text(json.dumps(content))
    return path


def by_hand(matrix, gain, given, first, steps=5):
    """Results of a recurrent network of logistic units, one row a trial."""
    result, rows = np.asarray(first, float), []
    for _ in range(steps):
        result = 1 / (1 + np.exp(-gain * (given + result @ np.asarray(matrix))))
        rows.append(result)
    return np.array(rows)


RECURRENT = [
    ({"matrix": [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]]}, {}, [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]]),
    ({"matrix": [[1, 2, 3], [4, 5, 6], [7, 8, 9]]}, {"auto": 2.0}, [[2, 2, 3], [4, 2, 6], [7, 8, 2]]),
    ({"matrix": [[1, 2, 3], [4, 5, 6], [7, 8, 9]]}, {"hetero": -2.0}, [[1, -2, -2], [-2, 5, -2], [-2, -2, 9]]),
    ({"matrix": "HollowMatrix"}, {"auto": 1.0, "hetero": 0.0}, np.eye(3)),
    ({"matrix": "HollowMatrix"}, {"auto": [1.0, 2.0, 3.0], "hetero": -1.0}, [[1, -1, -1], [-1, 2, -1], [-1, -1, 3]]),
    ({"matrix": "HollowMatrix"}, {"auto": 1.5, "hetero": [[0.0, 1.0, 2.0], [3.0, 0.0, 4.0], [5.0, 6.0, 0.0]]}, None),
    ({"matrix": "IdentityMatrix"}, {}, np.eye(3)),
    ({"matrix": "FullConnectivityMatrix"}, {}, np.ones((3, 3))),
    ({"matrix": "RandomConnectivityMatrix"}, {"auto": 0.5, "hetero": 0.25}, np.full((3, 3), 0.25) + 0.25 * np.eye(3)),
]
"""What PsyNeuLink 0.21 writes of recurrent projections, and the matrices that they have."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("said", "given", "matrix"), RECURRENT)
def test_a_recurrent_matrix_is_what_psyneulink_writes_it_for(said, given, matrix, engine, tmp_path):
    def change(node):
        node["metadata"].update(said)
        node["parameters"].update({name: {"value": value} for name, value in given.items()})

    model = mdf_loop.prepare(changed("recurrent", change, tmp_path))
    x = np.array(numbers("recurrent")["inputs"]["R"][0])
    found = run(
        model, engine, steps=5, collect=True, R_InputPort_0_input_port_from__INPUT_CIM_R_InputPort_0__to__R_InputPort_0_=x
    )
    matrix = [[1.5, 1, 2], [3, 1.5, 4], [5, 6, 1.5]] if matrix is None else matrix
    np.testing.assert_allclose(np.reshape(found["R_RESULT"], (5, 3)), by_hand(matrix, 0.7, x, [0.5] * 3), rtol=1e-12)


def test_the_weights_of_a_recurrent_projection_vary():
    model = opened("lca")[1]
    given = {"A_7_InputPort_0": [[1.0, 0.6, 0.2]]}
    swept = mdf_loop.sweep(model, {"hetero": [0.0, -0.6, -2.0]}, steps=5, **given)
    each = [model(hetero=value, steps=5, **given)["L_RESULT"] for value in (0.0, -0.6, -2.0)]
    np.testing.assert_array_equal(np.ravel(swept["L_RESULT"]), np.ravel(each))
    assert len({*map(float, np.ravel(each))}) == 9


DOUBTFUL = [
    ({"matrix": "HollowMatrix"}, {}, "auto: 1 of its recurrent projection does not count"),
    ({"matrix": "HollowMatrix"}, {}, "write hetero: 0.0"),
    ({"matrix": "RandomConnectivityMatrix"}, {}, "of a recurrent projection, which the export"),
    ({"type": "KWTAMechanism", "average_based": True}, {"k_value": 2}, "the bias is not exported"),
    ({"type": "KWTAMechanism"}, {"k_value": 7}, "the bias is not exported"),
]


@pytest.mark.parametrize(("metadata", "parameters", "said"), DOUBTFUL, ids=[said for *_, said in DOUBTFUL])
def test_what_is_not_known_of_a_recurrent_projection_is_reported(metadata, parameters, said, tmp_path):
    def change(node):
        node["metadata"].update(metadata)
        node["parameters"].update({name: {"value": value} for name, value in parameters.items()})

    path = changed("recurrent", change, tmp_path)
    assert any(said in each.message for each in check(path) if each.kind == "warning")
