"""Ensembles of trees and support vector machines, against what their definitions say node by node, and onnxruntime."""

import math

import numpy as np
import pytest
from learned_models import ML, model, onnxruntime_runs, run
from onnx import TensorProto, helper, numpy_helper

import mdf_loop
from mdf_loop import backend
from mdf_loop.errors import MalformedBody
from mdf_loop.ml import forests, tree_ensembles, tree_ensembles_as_tensors
from mdf_loop.ml.machine_learning import POST_TRANSFORMS

COMPARE = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}


class Trees:
    """Random trees as the attributes of version 3, and walked one node after the other."""

    def __init__(self, rng, count, depth, features, modes=tuple(COMPARE), whole=True):
        self.rng, self.features, self.modes, self.whole = rng, features, modes, whole
        self.nodes, self.leaves = [], []
        for tree in range(count):
            self.add(tree, depth, [0])

    def add(self, tree, depth, numbers):
        number, row = numbers[0], len(self.nodes)
        numbers[0] += 1
        is_leaf = depth == 0 or (number > 0 and self.rng.random() < 0.2)
        value = float(np.float32(self.rng.integers(-1, 2) if self.whole else self.rng.normal()))
        mode = "LEAF" if is_leaf else str(self.rng.choice(self.modes))
        self.nodes.append([tree, number, int(self.rng.integers(self.features)), mode, value, 0, 0, int(self.rng.integers(2))])
        if is_leaf:
            self.leaves.append((tree, number))
        else:
            self.nodes[row][5], self.nodes[row][6] = (self.add(tree, depth - 1, numbers) for _ in range(2))
        return number

    @property
    def attrs(self):
        names = [
            "treeids",
            "nodeids",
            "featureids",
            "modes",
            "values",
            "truenodeids",
            "falsenodeids",
            "missing_value_tracks_true",
        ]
        return {f"nodes_{name}": list(column) for name, column in zip(names, zip(*self.nodes, strict=True), strict=True)}

    def reached(self, row):
        found = {(node[0], node[1]): node for node in self.nodes}
        for tree in dict.fromkeys(node[0] for node in self.nodes):
            node = found[tree, 0]
            while node[3] != "LEAF":
                x = row[node[2]]
                yes = COMPARE[node[3]](x, x.dtype.type(node[4])) or (np.isnan(x) and node[7])
                node = found[tree, node[5] if yes else node[6]]
            yield tree, node[1]

    def scores(self, x, votes, n, aggregate, base):
        result = np.zeros((len(x), n))
        for k, row in enumerate(x):
            cast = [[] for _ in range(n)]
            for leaf in self.reached(row):
                for target, weight in votes[leaf]:
                    cast[target].append(weight)
            trees = len({tree for tree, *_ in self.nodes})
            total = {"SUM": sum, "AVERAGE": lambda v, n=trees: sum(v) / n, "MIN": min, "MAX": max}[aggregate]
            result[k] = [(total(v) if v else 0) + base[t] for t, v in enumerate(cast)]
        return result


def values_for(rng, shape, dtype, whole):
    x = (rng.integers(-1, 2, shape) if whole else rng.normal(size=shape)).astype(dtype)
    x[rng.random(shape) < 0.15] = np.nan
    x[rng.random(shape) < 0.05] = np.inf
    x[rng.random(shape) < 0.05] = -np.inf
    return x


def voted(rng, trees, n, how):
    """For each leaf its (target, weight)."""
    each = {"one": lambda: [0], "all": lambda: range(n), "some": lambda: rng.permutation(n)[: rng.integers(0, n + 1)]}[how]
    return {leaf: [(int(t), float(np.float32(rng.normal()))) for t in each()] for leaf in trees.leaves}


def vote_attrs(votes, what):
    flat = [(*leaf, target, weight) for leaf, pairs in votes.items() for target, weight in pairs]
    columns = list(zip(*flat, strict=True)) or [(), (), (), ()]
    names = ("treeids", "nodeids", "ids", "weights")
    return {f"{what}_{name}": list(column) for name, column in zip(names, columns, strict=True) if column}


def as_tensors(attrs, *names):
    made = {f"{name}_as_tensor": numpy_helper.from_array(np.array(attrs[name], np.float64)) for name in names}
    return {name: value for name, value in attrs.items() if name not in names} | made


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("how", ["one", "all", "some"])
@pytest.mark.parametrize("seed", range(6))
def test_trees_are_walked_as_they_say(aggregate, how, seed):
    rng = np.random.default_rng([seed, *aggregate.encode(), *how.encode()])
    n, double, whole = (1 if how == "one" else 3), seed % 2 == 1, seed % 3 < 2
    trees = Trees(rng, int(rng.choice([1, 4, 40])), int(rng.integers(1, 6)), 3, whole=whole)
    votes, base = voted(rng, trees, n, how), rng.normal(size=n).tolist()
    x = values_for(rng, (int(rng.choice([1, 3, 60])), 3), np.float64 if double else np.float32, whole)
    attrs = {**trees.attrs, **vote_attrs(votes, "target"), "n_targets": n, "aggregate_function": aggregate, "base_values": base}
    expected = trees.scores(x, votes, n, aggregate, base)
    (y,) = run("TreeEnsembleRegressor", x, **attrs)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, expected, 1e-5, 1e-5)
    if "target_weights" in attrs:
        (y,) = run("TreeEnsembleRegressor", x, **as_tensors(attrs, "nodes_values", "target_weights", "base_values"))
        np.testing.assert_allclose(y, expected, 1e-5, 1e-5)


def test_rows_in_blocks_reach_the_leaves_that_they_should(monkeypatch):
    rng = np.random.default_rng(4)
    trees = Trees(rng, 20, 9, 5)
    forest = forests.Forest(tree_ensembles.named_nodes(**trees.attrs)[0], np.float32)
    x = values_for(rng, (50, 5), np.float32, True)
    leaves = [tuple(node[:2]) for node in trees.nodes if node[3] == "LEAF"]
    expected = [[leaves.index(leaf) for leaf in trees.reached(row)] for row in x]
    for block in (100, 1 << 15):
        monkeypatch.setattr(forests, "BLOCK", block)
        np.testing.assert_array_equal(forest.leaves(x), expected)


def test_the_trees_are_prepared_once_for_a_node(monkeypatch):
    made = []
    start = forests.Forest.__init__
    monkeypatch.setattr(forests.Forest, "__init__", lambda self, *args: made.append(self) or start(self, *args))
    trees = Trees(np.random.default_rng(1), 3, 3, 2)
    votes = {leaf: [(0, 1.0)] for leaf in trees.leaves}
    x = np.zeros((4, 2), np.float32)
    rep = backend.prepare(model("TreeEnsembleRegressor", x, 3, n_targets=1, **trees.attrs, **vote_attrs(votes, "target")))
    for _ in range(5):
        rep.run([x])
    assert len(made) == 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("post_transform", range(5))
def test_version_5_has_leaves_of_their_own_and_sets(dtype, post_transform):
    members, x = np.array([1, 3, np.nan, 2, np.nan], dtype), np.array([[1, 2], [3, 0], [2, 2], [np.nan, 5], [0.5, 2]], dtype)
    attrs = {
        "tree_roots": [0, 2],
        "nodes_modes": numpy_helper.from_array(np.array([6, 6, 0], np.uint8)),
        "nodes_splits": numpy_helper.from_array(np.array([0, 0, 1], dtype)),
        "nodes_featureids": [0, 1, 0],
        "nodes_truenodeids": [1, 0, 3],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 3],
        "nodes_falseleafs": [1, 1, 1],
        "leaf_targetids": [0, 1, 0, 1],
        "leaf_weights": numpy_helper.from_array(np.array([0.25, 0.5, 0.125, 0.25], dtype)),
        "membership_values": numpy_helper.from_array(members),
        "n_targets": 2,
        "post_transform": post_transform,
    }
    scores = np.array([[0.25, 0.25], [0, 0.75], [0.125, 0.25], [0.125, 0.25], [0.125, 0.25]], np.float32)
    (y,) = run("TreeEnsemble", x, 5, **attrs)
    with np.errstate(all="ignore"):
        expected = POST_TRANSFORMS[tree_ensembles_as_tensors.TRANSFORMS[post_transform]](scores).astype(dtype)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, expected, 2e-3 if dtype == np.float16 else 1e-6)


STUMP = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}


@pytest.mark.parametrize(
    ("votes", "more", "labels", "scores"),
    [
        # One score for two classes is a probability if no weight is negative, else a margin.
        ([(1, 0, 0.25), (2, 0, 0.75)], {}, [5, 7], [[0.75, 0.25], [0.25, 0.75]]),
        ([(1, 0, -0.25), (2, 0, 0.75)], {}, [5, 7], [[0.25, -0.25], [-0.75, 0.75]]),
        ([(1, 0, 0.25), (2, 0, 0.75)], {"base_values": [0.5]}, [7, 7], [[0.25, 0.75], [-0.25, 1.25]]),
        ([(1, 1, 0.25), (2, 1, 0.75)], {}, [5, 7], [[0, 0.25], [0, 0.75]]),
        # Both are scored: the better one.
        ([(1, 0, 0.75), (1, 1, 0.25), (2, 0, 0.25), (2, 1, 0.75)], {}, [5, 7], [[0.75, 0.25], [0.25, 0.75]]),
        # A class without a vote is not chosen, although its zero is larger.
        ([(1, 0, -0.75), (2, 1, -0.25)], {}, [5, 7], [[-0.75, 0], [0, -0.25]]),
    ],
)
def test_classes_of_trees(votes, more, labels, scores):
    attrs = dict(zip(("class_nodeids", "class_ids", "class_weights"), map(list, zip(*votes, strict=True)), strict=True))
    attrs |= {**STUMP, **more, "class_treeids": [0] * len(votes)}
    x = np.array([[0], [1]], np.float32)
    label, score = run("TreeEnsembleClassifier", x, outputs=2, classlabels_int64s=[5, 7], **attrs)
    assert label.dtype == np.int64
    assert label.tolist() == labels
    np.testing.assert_allclose(score, scores, 1e-6)
    label, _ = run("TreeEnsembleClassifier", x, outputs=2, classlabels_strings=["five", "seven"], **attrs)
    assert label.tolist() == [{5: "five", 7: "seven"}[k] for k in labels]


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_trees_equal_onnxruntime(transform, dtype):
    rng = np.random.default_rng(7)
    trees = Trees(rng, 30, 5, 4, whole=False)
    votes = {leaf: [(int(rng.integers(4)), float(rng.normal()))] for leaf in trees.leaves}
    x = (3 * rng.normal(size=(50, 4))).astype(dtype)
    attrs = {**trees.attrs, **vote_attrs(votes, "class"), "classlabels_int64s": [9, 2, 4, 1], "post_transform": transform}
    actual, expected = (way("TreeEnsembleClassifier", x, outputs=2, **attrs) for way in (run, onnxruntime_runs))
    np.testing.assert_array_equal(actual[0], expected[0])
    np.testing.assert_allclose(actual[1], expected[1], 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes_truenodeids": [0, 0, 0]}, "in a circle"),
        ({"nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"]}, "in a circle"),
        ({"nodes_truenodeids": [7, 0, 0]}, "no node 7 in tree 0"),
        ({"nodes_nodeids": [0, 1, 1]}, "the same number"),
        ({"nodes_modes": ["BRANCH_SIX", "LEAF", "LEAF"]}, "BRANCH_SIX"),
        ({"nodes_values": [0.5]}, "1 elements for 3 nodes"),
        ({"target_ids": [0, 3]}, r"targets must be in \[0, 1\)"),
        ({"aggregate_function": "MEDIAN"}, "MEDIAN"),
        ({"post_transform": "SQUARE"}, "SQUARE"),
        ({"base_values": [1.0, 2.0]}, "2 base values for 1"),
    ],
)
def test_trees_that_cannot_be_walked_are_refused(change, message):
    attrs = {**STUMP, "n_targets": 1, "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0]}
    attrs |= {"target_weights": [1.0, 2.0], **change}
    with pytest.raises(MalformedBody, match=message):
        backend.prepare(model("TreeEnsembleRegressor", np.zeros((1, 1), np.float32), 3, **attrs))


def test_a_weight_of_a_node_that_is_no_leaf_counts_nowhere():
    votes = {"target_treeids": [0, 0, 0], "target_nodeids": [0, 1, 2], "target_ids": [0, 0, 0], "target_weights": [9.0, 1.0, 2.0]}
    (y,) = run("TreeEnsembleRegressor", np.array([[0], [1]], np.float32), n_targets=1, **STUMP, **votes)
    assert y.tolist() == [[1], [2]]


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_rows_that_reach_leaves_without_a_vote_score_the_base_value(aggregate):
    attrs = {**STUMP, "n_targets": 2, "aggregate_function": aggregate, "base_values": [0.5, 1.5]}
    attrs |= {"target_treeids": [0], "target_nodeids": [2], "target_ids": [0], "target_weights": [2.0]}
    (y,) = run("TreeEnsembleRegressor", np.zeros((2, 1), np.float32), **attrs)
    assert y.dtype == np.float32
    assert y.tolist() == [[0.5, 1.5]] * 2


@pytest.mark.parametrize("op", ["TreeEnsembleRegressor", "TreeEnsembleClassifier"])
@pytest.mark.parametrize("count", [1, 5])
def test_no_rows_have_no_scores(op, count):
    trees = Trees(np.random.default_rng(count), count, 3, 2)
    what = "target" if op == "TreeEnsembleRegressor" else "class"
    attrs = {**trees.attrs, **vote_attrs(voted(np.random.default_rng(1), trees, 3, "all"), what)}
    attrs |= {"n_targets": 3} if what == "target" else {"classlabels_int64s": [1, 2, 3]}
    *label, scores = run(op, np.zeros((0, 2), np.float32), outputs=1 if what == "target" else 2, **attrs)
    assert (scores.shape, scores.dtype) == ((0, 3), np.float32)
    assert all(x.shape == (0,) for x in label)


def test_branches_may_meet_again():
    nodes = {
        "nodes_treeids": [0] * 5,
        "nodes_nodeids": [0, 1, 2, 3, 4],
        "nodes_featureids": [0] * 5,
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_EQ", "BRANCH_GT", "LEAF", "LEAF"],
        "nodes_values": [0.0, -1.0, 5.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 3, 3, 0, 0],
        "nodes_falsenodeids": [2, 2, 4, 0, 0],
    }
    votes = {"target_treeids": [0, 0], "target_nodeids": [3, 4], "target_ids": [0, 0], "target_weights": [1.0, 2.0]}
    (y,) = run("TreeEnsembleRegressor", np.array([[-1], [-2], [1], [6]], np.float32), n_targets=1, **nodes, **votes)
    assert y.tolist() == [[1], [2], [2], [1]]


def test_too_few_features_are_an_error():
    attrs = {**STUMP, "nodes_featureids": [4, 0, 0], "target_treeids": [0], "target_nodeids": [1], "target_ids": [0]}
    with pytest.raises(mdf_loop.errors.LoopError, match="compare feature 4, but rows have 2 features"):
        run("TreeEnsembleRegressor", np.zeros((3, 2), np.float32), n_targets=1, target_weights=[1.0], **attrs)


# In loops

SIMPLE = {
    "Scaler": {"offset": [1.0, 2.0, 3.0], "scale": [0.5, 2.0, 3.0]},
    "Normalizer": {"norm": "MAX"},
    "Imputer": {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": 4.0},
    "Binarizer": {"threshold": 2.0},
    "LabelEncoder": {"keys_floats": [1.0, 2.0], "values_floats": [5.0, 6.0]},
    "OneHotEncoder": {"cats_int64s": [1, 2]},
    "LinearRegressor": {"coefficients": [1.0, 2.0, 3.0], "targets": 1},
    "ArrayFeatureExtractor": {},
    "FeatureVectorizer": {"inputdimensions": [3]},
    "TreeEnsembleRegressor": {
        **STUMP,
        "n_targets": 1,
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
    },
    "SVMRegressor": {"coefficients": [1.0, 2.0, 3.0], "rho": [0.5], "kernel_params": [1.0, 0.0, 0.0]},
}


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (1, 1), (4, 2, 3)], ids=str)
@pytest.mark.parametrize("op", SIMPLE)
def test_iterations_are_no_rows(op, shape):
    """The iteration number, in any shape, gives in every engine what one iteration after the other gives."""
    x = helper.make_node("Add", ["n", "data"], ["x"])
    number = helper.make_node("Cast", ["i"], ["n"], to=TensorProto.FLOAT)
    inputs = ["x", "first"] if op == "ArrayFeatureExtractor" else ["x"]
    version = 2 if op == "LabelEncoder" else 3
    nodes = [number, x, helper.make_node(op, inputs, ["y"], domain=ML, **SIMPLE[op])]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, [])],
        [info("go", TensorProto.BOOL, []), helper.make_empty_tensor_value_info("y")],
        [
            numpy_helper.from_array(np.arange(math.prod(shape), dtype=np.float32).reshape(shape), "data"),
            numpy_helper.from_array(np.array([0]), "first"),
        ],
    )
    versions = [helper.make_opsetid("", 21), helper.make_opsetid(ML, version)]
    found = {}
    for engine in ("interpret", "numpy", "auto"):
        with mdf_loop.options(engine=engine):
            try:
                found[engine] = np.asarray(mdf_loop.loop(5, True, body=helper.make_model(graph, opset_imports=versions)))
            except mdf_loop.errors.LoopError as error:
                found[engine] = type(error)
    for result in found.values():
        if isinstance(found["interpret"], type):
            assert result is found["interpret"]
        else:
            assert (result.shape, result.dtype) == (found["interpret"].shape, found["interpret"].dtype)
            np.testing.assert_allclose(result, found["interpret"], 1e-6)
