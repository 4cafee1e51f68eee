"""Ensembles of trees and support vector machines as machine code: what the kernels give, for all that a model may say."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("llvmlite")

from learned_models import ML, model
from node_cases import assert_same, node_cases
from test_learned_models import Trees, as_tensors, values_for, vote_attrs, voted
from test_support_vectors import machine

import mdf_loop
from mdf_loop import backend
from mdf_loop.execute.programs import watched_programs
from mdf_loop.ops.registry import lookup, register
from mdf_loop.plan.result_types import result_types
from mdf_loop.readers import read

TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
some = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def with_open_rows(plain):
    """The same model for those rows of x whose first number is not above 2: how many they are only the run can tell."""
    graph = plain.graph
    (node,) = graph.node
    kind = graph.input[0].type.tensor_type
    two = numpy_helper.from_array(np.array(2, helper.tensor_dtype_to_np_dtype(kind.elem_type)), "two")
    front = [
        helper.make_node("Gather", ["x", "zero"], ["first"], axis=1),
        helper.make_node("Greater", ["first", "two"], ["is_above"]),
        helper.make_node("Not", ["is_above"], ["is_kept"]),
        helper.make_node("NonZero", ["is_kept"], ["at"]),
        helper.make_node("Squeeze", ["at", "axis"], ["places"]),
        helper.make_node("Gather", ["x", "places"], ["rows"]),
    ]
    node.input[0] = "rows"
    del graph.node[:]
    graph.node.extend([*front, node])
    graph.initializer.extend([two, numpy_helper.from_array(np.array(0), "zero"), numpy_helper.from_array(np.array([0]), "axis")])
    return plain


def both(made, x):
    """What the kernels give and what machine code gives, which calls none of them."""
    found = []
    for engine in ("interpret", "jit"):
        with mdf_loop.options(engine=engine), watched_programs() as programs:
            found.append(backend.prepare(made).run([x]))
    assert [p.latest.is_alone for p in programs] == [True]
    for expected, actual in zip(*found, strict=True):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    return found


def check(expected, actual, transform, rtol=3e-6):
    """Bit for bit where nothing is transformed."""
    for e, a in zip(expected, actual, strict=True):
        if e.dtype.kind != "f" or transform == "NONE":
            np.testing.assert_array_equal(a, e)
            if e.dtype.kind == "f":
                np.testing.assert_array_equal(np.signbit(a) & (a == 0), np.signbit(e) & (e == 0))
        else:
            rtol = max(rtol, 4 * np.finfo(e.dtype).eps)
            np.testing.assert_allclose(a, e, rtol=rtol, atol=rtol)


def draw_rows(draw, rng, features, whole):
    dtype = draw(st.sampled_from([np.float32, np.float64, np.int64, np.int32]))
    shape = draw(st.sampled_from([1, 2, 9, 70, 200])), features
    if np.dtype(dtype).kind == "i":
        return rng.integers(-2, 3, shape).astype(dtype)
    return values_for(rng, shape, dtype, whole)


def draw_trees(draw):
    """Trees of zero to six levels, and rows for them."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    whole, features = draw(st.booleans()), draw(st.integers(1, 6))
    trees = Trees(rng, draw(st.sampled_from([1, 2, 7, 8, 9, 50])), draw(st.integers(0, 6)), features, whole=whole)
    return rng, trees, draw_rows(draw, rng, features, whole)


@some
@given(data=st.data())
def test_regressors_are_their_kernel(data):
    draw = data.draw
    rng, trees, x = draw_trees(draw)
    how = draw(st.sampled_from(["one", "all", "some"]))
    n = 1 if how == "one" else draw(st.integers(1, 9))
    votes, transform = voted(rng, trees, n, how), draw(st.sampled_from(TRANSFORMS))
    attrs = {**trees.attrs, **vote_attrs(votes, "target"), "n_targets": n, "post_transform": transform}
    attrs["aggregate_function"] = draw(st.sampled_from(["SUM", "AVERAGE", "MIN", "MAX"]))
    if draw(st.booleans()):
        attrs["base_values"] = rng.normal(size=draw(st.sampled_from([1, n]))).tolist()
    names = [name for name in ("nodes_values", "target_weights", "base_values") if name in attrs]
    if draw(st.booleans()) and "target_weights" in attrs:
        attrs = as_tensors(attrs, *names)
    made = model("TreeEnsembleRegressor", x, 3, **attrs)
    check(*both(with_open_rows(made) if draw(st.booleans()) else made, x), transform)


@some
@given(data=st.data())
def test_classifiers_are_their_kernel(data):
    draw = data.draw
    rng, trees, x = draw_trees(draw)
    n, how = draw(st.integers(1, 7)), draw(st.sampled_from(["one", "all", "some"]))
    votes, transform = voted(rng, trees, 1 if how == "one" else n, how), draw(st.sampled_from(TRANSFORMS))
    if draw(st.booleans()):  # all for the last class, and no negative weights: two classes are told apart by one score
        votes = {leaf: [(n - 1, abs(w)) for _, w in pairs] or [(n - 1, 0.25)] for leaf, pairs in votes.items()}
    if not any(votes.values()):
        votes[next(iter(votes))] = [(0, 1.0)]
    labels = [int(k) for k in rng.permutation(20)[:n]]
    attrs = {**trees.attrs, **vote_attrs(votes, "class"), "classlabels_int64s": labels, "post_transform": transform}
    if draw(st.booleans()):
        attrs["base_values"] = rng.normal(size=n).tolist()
    made = model("TreeEnsembleClassifier", x, 3, 2, **attrs)
    check(*both(with_open_rows(made) if draw(st.booleans()) else made, x), transform)


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("base", [{}, {"base_values": [0.0] * 5}], ids=["", "base"])
def test_a_class_without_a_vote_is_not_chosen(n, base):
    """All votes are negative, and for two of the classes alone: that the zero of another one is larger does not count."""
    trees = Trees(np.random.default_rng(n), 2, 3, 2)
    votes = {leaf: [(leaf[0] + 1, -0.5 - k)] for k, leaf in enumerate(trees.leaves)}
    base = {name: values[:n] for name, values in base.items()}
    x = values_for(np.random.default_rng(n), (40, 2), np.float32, True)
    made = model(
        "TreeEnsembleClassifier", x, 3, 2, **trees.attrs, **vote_attrs(votes, "class"), **base, classlabels_int64s=[*range(n)]
    )
    expected, actual = both(made, x)
    check(expected, actual, "NONE")
    assert (expected[0] == 0).any() == bool(base)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_a_pair_that_decides_for_neither_votes_for_its_second_class(classes):
    attrs = machine(np.random.default_rng(classes), classes, 2, "LINEAR", False)
    attrs["rho"] = [0.0] * len(attrs["rho"])
    x = np.array([[0, 0], [1, 2], [0, 0]], np.float32)
    expected, actual = both(model("SVMClassifier", x, 1, 2, **attrs), x)
    np.testing.assert_array_equal(actual[0], expected[0])


def ensemble_5(rng, trees, depth, features, n, dtype, members):
    """Complete trees of version 5, in whose sets and bounds are few numbers."""
    inner, leaves = 2**depth - 1, 2**depth
    place, tree = np.tile(np.arange(inner), trees), np.repeat(np.arange(trees), inner)
    modes = rng.integers(0, 7 if members else 6, trees * inner).astype(np.uint8)
    is_leaf = (place >= inner // 2).astype(np.int64)
    first = np.where(is_leaf, tree * leaves + 2 * place + 1 - inner, tree * inner + 2 * place + 1)
    sets = [np.append(rng.integers(-2, 3, rng.integers(0, 4)), np.nan) for _ in range(int((modes == 6).sum()))]
    attrs = {
        "tree_roots": (np.arange(trees) * inner).tolist(),
        "nodes_featureids": rng.integers(0, features, trees * inner).tolist(),
        "nodes_modes": numpy_helper.from_array(modes),
        "nodes_splits": numpy_helper.from_array(rng.integers(-2, 3, trees * inner).astype(dtype)),
        "nodes_truenodeids": first.tolist(),
        "nodes_falsenodeids": (first + 1).tolist(),
        "nodes_trueleafs": is_leaf.tolist(),
        "nodes_falseleafs": is_leaf.tolist(),
        "nodes_missing_value_tracks_true": rng.integers(0, 2, trees * inner).tolist(),
        "leaf_targetids": rng.integers(0, n, trees * leaves).tolist(),
        "leaf_weights": numpy_helper.from_array(rng.normal(size=trees * leaves).astype(dtype)),
        "n_targets": n,
        "aggregate_function": int(rng.integers(4)),
    }
    return attrs | ({"membership_values": numpy_helper.from_array(np.concatenate(sets).astype(dtype))} if sets else {})


@some
@given(data=st.data())
def test_ensembles_of_version_5_are_their_kernel(data):
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    dtype, features, n = (
        draw(st.sampled_from([np.float32, np.float64])),
        draw(st.integers(1, 5)),
        draw(st.sampled_from([1, 1, 3])),
    )
    count = draw(st.sampled_from([1, 5, 8, 50, 300]))
    attrs = ensemble_5(rng, count, draw(st.integers(1, 4)), features, n, dtype, draw(st.booleans()))
    transform = draw(st.integers(0, 4))
    x = values_for(rng, (draw(st.sampled_from([1, 3, 150])), features), dtype, True)
    made = model("TreeEnsemble", x, 5, post_transform=transform, **attrs)
    check(*both(with_open_rows(made) if draw(st.booleans()) else made, x), TRANSFORMS[transform])


@pytest.mark.parametrize("name", ["test_ai_onnx_ml_tree_ensemble_set_membership", "test_ai_onnx_ml_tree_ensemble_single_tree"])
def test_node_cases_of_onnx(name):
    case = node_cases()[name]
    for inputs, expected in case.data_sets:
        with mdf_loop.options(engine="jit"), watched_programs() as programs:
            results = backend.prepare(case.model).run(inputs)
        assert [p.latest.is_alone for p in programs] == [True]
        for actual, wanted in zip(results, expected, strict=True):
            assert_same(actual, wanted, case.rtol, case.atol, name)


@pytest.mark.parametrize("trees", [1, 7, 8, 100, 129, 300, 1500])
def test_long_sums_of_doubles_are_numpys(trees):
    rng = np.random.default_rng(trees)
    attrs = {**ensemble_5(rng, trees, 2, 3, 1, np.float64, False), "aggregate_function": 1}
    x = rng.normal(size=(20, 3))
    check(*both(model("TreeEnsemble", x, 5, **attrs), x), "NONE")


def test_more_nodes_than_the_cache_holds_are_walked_in_blocks_of_rows():
    rng = np.random.default_rng(3)
    attrs = ensemble_5(rng, 40, 9, 4, 1, np.float32, False)
    for rows in (1, 63, 64, 65, 200):
        x = rng.normal(size=(rows, 4)).astype(np.float32)
        check(*both(model("TreeEnsemble", x, 5, **attrs), x), "NONE")
        check(*both(with_open_rows(model("TreeEnsemble", x, 5, **attrs)), x), "NONE")


KINDS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


@some
@given(data=st.data())
def test_support_vector_classifiers_are_their_kernel(data):
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    classes, features = draw(st.sampled_from([2, 3, 4, 9])), draw(st.sampled_from([1, 3, 20]))
    attrs = machine(rng, classes, features, draw(st.sampled_from(KINDS)), draw(st.booleans()))
    attrs["kernel_params"] = [0.1, 0.2, draw(st.sampled_from([1.0, 2.0, 3.0, 4.0]))]
    attrs["post_transform"] = transform = draw(st.sampled_from(TRANSFORMS))
    x = rng.normal(size=(draw(st.sampled_from([1, 2, 11, 90])), features))
    x = (3 * x).astype(draw(st.sampled_from([np.float32, np.float64, np.int64])))
    made = model("SVMClassifier", x, 1, 2, **attrs)
    expected, actual = both(with_open_rows(made) if draw(st.booleans()) else made, x)
    np.testing.assert_array_equal(actual[0], expected[0])
    np.testing.assert_allclose(actual[1], expected[1], rtol=1e-5, atol=1e-6, err_msg=transform)


@some
@given(data=st.data())
def test_linear_support_vector_classifiers_are_their_kernel(data):
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    classes, features = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    coefficients = rng.normal(size=classes * features)
    if draw(st.booleans()):
        coefficients = np.abs(coefficients)
    x = rng.normal(size=(draw(st.sampled_from([1, 30])), features)).astype(np.float32)
    attrs = {"coefficients": coefficients.tolist(), "rho": [0.1], "classlabels_ints": [7, 3, 5, 1, 9][:classes]}
    expected, actual = both(model("SVMClassifier", x, 1, 2, **attrs), x)
    np.testing.assert_array_equal(actual[0], expected[0])
    np.testing.assert_allclose(actual[1], expected[1], rtol=1e-6, atol=1e-6)


@some
@given(data=st.data())
def test_support_vector_regressors_are_their_kernel(data):
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    vectors, features = draw(st.sampled_from([0, 1, 7, 40])), draw(st.sampled_from([1, 4, 30]))
    attrs = {"kernel_params": [0.1, 0.2, 3.0], "n_supports": vectors, "rho": [0.5], "one_class": draw(st.integers(0, 1))}
    attrs["coefficients"] = rng.normal(size=vectors or features).tolist()
    if vectors:
        attrs |= {"kernel_type": draw(st.sampled_from(KINDS)), "support_vectors": rng.normal(size=vectors * features).tolist()}
    attrs["post_transform"] = draw(st.sampled_from(TRANSFORMS))
    x = rng.normal(size=(draw(st.sampled_from([1, 2, 90])), features)).astype(draw(st.sampled_from([np.float32, np.float64])))
    made = model("SVMRegressor", x, 1, **attrs)
    expected, actual = both(with_open_rows(made) if draw(st.booleans()) else made, x)
    np.testing.assert_allclose(actual[0], expected[0], rtol=2e-5, atol=1e-6)


def test_nan_and_infinity_are_what_the_kernels_make_of_them():
    x = np.array([[np.nan, 1.0], [np.inf, -1.0], [-np.inf, 0.0], [1e30, 1e30], [0.0, 0.0]], np.float32)
    for classes in (2, 3):
        for kind in KINDS:
            for has in (False, True):
                attrs = machine(np.random.default_rng(classes), classes, 2, kind, has)
                expected, actual = both(model("SVMClassifier", x, 1, 2, **attrs), x)
                np.testing.assert_array_equal(actual[0], expected[0])
                np.testing.assert_allclose(actual[1], expected[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 4), (4,), (0, 4)], ids=str)
@pytest.mark.parametrize("labels", ["numbers", "strings"])
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("probabilities", [True, False])
def test_the_types_of_results_are_known_beforehand(shape, labels, classes, probabilities):
    attrs = machine(np.random.default_rng(1), classes, 4, "RBF", probabilities)
    if labels == "strings":
        attrs["classlabels_strings"] = [str(k) for k in attrs.pop("classlabels_ints")]
    x = np.ones(shape, np.float32)
    made = model("SVMClassifier", x, 1, 2, **attrs)
    (node,) = read(made).nodes
    found = backend.prepare(made).run([x])
    for length in (shape[0] if len(shape) == 2 else 4, None):
        said = result_types(node, [(x.dtype, (length, *shape[1:]))], [None])
        for (dtype, lengths), result in zip(said, found, strict=True):
            assert dtype in (None, result.dtype)
            assert (dtype is None) == (result.dtype == object)
            assert lengths is None or [n or m for n, m in zip(lengths, result.shape, strict=True)] == [*result.shape]


def test_what_has_no_compiled_form_runs_all_the_same():
    trees = Trees(np.random.default_rng(1), 3, 3, 2)
    votes = {leaf: [(k % 3, 1.0)] for k, leaf in enumerate(trees.leaves)}
    attrs = {**trees.attrs, **vote_attrs(votes, "class")}
    x = np.array([[0, 1], [1, 0]], np.float32)
    for given_x, labels in ((x[0], {"classlabels_int64s": [1, 2, 3]}), (x, {"classlabels_strings": ["a", "b", "c"]})):
        found = []
        for engine in ("interpret", "jit"):
            with mdf_loop.options(engine=engine):
                found.append(backend.prepare(model("TreeEnsembleClassifier", given_x, 3, 2, **attrs, **labels)).run([given_x]))
        check(*found, "NONE")
    with mdf_loop.options(engine="jit"), pytest.raises(mdf_loop.errors.LoopError, match="rows have 1 features"):
        backend.prepare(model("TreeEnsembleClassifier", x[:, :1], 3, 2, **attrs, classlabels_int64s=[1, 2, 3])).run([x[:, :1]])


def test_a_loop_may_hold_trees_and_vectors():
    trees = Trees(np.random.default_rng(2), 9, 4, 3)
    votes = {leaf: [(0, 0.1 * k)] for k, leaf in enumerate(trees.leaves)}
    ensemble = {**trees.attrs, **vote_attrs(votes, "target"), "n_targets": 1}
    nodes = [
        helper.make_node("TreeEnsembleRegressor", ["x"], ["t"], domain=ML, **ensemble),
        helper.make_node(
            "SVMClassifier", ["x"], ["label", "p"], domain=ML, **machine(np.random.default_rng(3), 3, 3, "RBF", True)
        ),
        helper.make_node("Add", ["x", "t"], ["y0"]),
        helper.make_node("Mul", ["p", "y0"], ["y"]),
        helper.make_node("Identity", ["label"], ["labels"]),
        helper.make_node("Identity", ["go"], ["go_on"]),
    ]
    info = helper.make_tensor_value_info
    given_ = [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("x", TensorProto.FLOAT, [5, 3])]
    gives = [info("go_on", TensorProto.BOOL, []), info("y", TensorProto.FLOAT, [5, 3]), info("labels", TensorProto.INT64, [5])]
    body = helper.make_model(
        helper.make_graph(nodes, "body", given_, gives), opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(ML, 3)]
    )
    x = np.random.default_rng(4).normal(size=(5, 3)).astype(np.float32)
    found = []
    for engine in ("interpret", "jit"):
        with mdf_loop.options(engine=engine):
            found.append(mdf_loop.loop(6, True, x, body=body))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[1][1], found[0][1])


@pytest.mark.parametrize("op", ["TreeEnsembleRegressor", "SVMRegressor"])
def test_a_users_kernel_in_the_place_of_ours_is_the_one_that_runs(op):
    trees = Trees(np.random.default_rng(1), 3, 3, 2)
    attrs = {**trees.attrs, **vote_attrs({leaf: [(0, 1.0)] for leaf in trees.leaves}, "target"), "n_targets": 1}
    if op == "SVMRegressor":
        attrs = {"coefficients": [1.0, 2.0], "rho": [0.5]}
    x, ours = np.zeros((4, 2), np.float32), lookup(op, 3, ML)
    made = model(op, x, 3, **attrs)
    register(replace(ours, run=lambda x, prepared: np.full((len(x), 1), 7, np.float32), built_in=False))
    try:
        for engine in ("interpret", "numpy", "jit", "auto"):
            with mdf_loop.options(engine=engine):
                (y,) = backend.prepare(made).run([x])
            assert y.tolist() == [[7]] * 4
    finally:
        register(ours)
