"""What ONNX's own cases leave out of linear algebra and networks: old versions, sequence lengths, refusals."""

import ml_dtypes
import numpy as np
import pytest

from mdf_loop.ir import Node
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import bind
from mdf_loop.options import start_run

load_kernels()

F = np.float32


def run(op, *values, opset, n_outputs=1, domain="", **attrs):
    names = tuple("" if v is None else f"x{k}" for k, v in enumerate(values))
    bound = bind(Node(op, names, tuple(f"y{k}" for k in range(n_outputs)), attrs, opset=opset, domain=domain))
    with np.errstate(all="ignore"):
        result = bound.call(start_run(), *values) if bound.needs_run else bound.call(*values)
    return result if type(result) is tuple else (result,)


def test_softmax_before_13_takes_all_axes_from_axis_on_as_one():
    x = np.log(np.arange(1, 9, dtype=F)).reshape(2, 2, 2)
    (y,) = run("Softmax", x, opset=11)
    np.testing.assert_allclose(y.reshape(2, 4).sum(1), 1, rtol=1e-6)
    (late,) = run("Softmax", x, opset=13)
    np.testing.assert_allclose(late.sum(-1), 1, rtol=1e-6)


def test_softmax_of_many_halves_adds_up_in_single_precision():
    (y,) = run("Softmax", np.zeros((1, 1000), ml_dtypes.bfloat16), opset=13)
    assert y[0, 0] == ml_dtypes.bfloat16(1e-3)


def test_gemm_6_broadcasts_only_where_asked():
    a, row = np.ones((2, 3), F), np.arange(3, dtype=F)
    (y,) = run("Gemm", a, np.eye(3, dtype=F), row, opset=6, broadcast=1)
    np.testing.assert_array_equal(y, a + row)
    with pytest.raises(ValueError, match="without broadcast"):
        run("Gemm", a, np.eye(3, dtype=F), row, opset=6)


def test_gemm_does_not_grow_with_c():
    with pytest.raises(ValueError, match="broadcast"):
        run("Gemm", np.ones((1, 2), F), np.ones((2, 3), F), np.ones((4, 3), F), opset=13)


def test_batch_normalization_7_trains_where_more_outputs_are_named():
    x = np.array([[1.0, 10.0], [3.0, 30.0]], F)
    ones, zeros = np.ones(2, F), np.zeros(2, F)
    y, mean, var, saved_mean, saved_var = run(
        "BatchNormalization", x, ones, zeros, zeros, ones, opset=7, n_outputs=5, momentum=0.5, epsilon=0.0
    )
    np.testing.assert_allclose(y, [[-1, -1], [1, 1]])
    np.testing.assert_allclose((mean, var), [[1, 10], [1, 50.5]])
    np.testing.assert_allclose((saved_mean, saved_var), [[2, 20], [1, 100]])
    (tested,) = run("BatchNormalization", x, ones, zeros, zeros, ones, opset=7, epsilon=0.0)
    np.testing.assert_allclose(tested, x)


def test_dropout_1_is_random_unless_asked_and_12_only_where_asked():
    x = np.ones((100,), F)
    y, mask = run("Dropout", x, opset=1, n_outputs=2, ratio=0.75)
    assert set(np.unique(y)) == {0.0, 4.0}
    np.testing.assert_array_equal(y, 4 * mask)
    np.testing.assert_array_equal(run("Dropout", x, opset=1, is_test=1)[0], x)
    np.testing.assert_array_equal(run("Dropout", x, opset=12)[0], x)
    drawn = [run("Dropout", x, np.array(0.5, F), np.array(True), opset=12, seed=3, n_outputs=2)[0] for _ in range(2)]
    np.testing.assert_array_equal(*drawn)


ONE = np.ones((1, 1, 1), F)


def test_a_sequence_that_has_ended_keeps_its_state_and_gives_zeros():
    x = np.ones((3, 2, 1), F)
    y, last = run(
        "RNN", x, ONE, ONE, None, np.array([3, 1], np.int32), opset=7, n_outputs=2, hidden_size=1, activations=("Affine",)
    )
    np.testing.assert_array_equal(y[:, 0, :, 0], [[1, 1], [2, 0], [3, 0]])
    np.testing.assert_array_equal(last.ravel(), [3, 1])


def test_backwards_begins_at_the_end_of_each_sequence():
    x = np.array([1, 10, 100], F).reshape(3, 1, 1).repeat(2, axis=1)
    lengths = np.array([3, 2], np.int32)
    y, last = run(
        "RNN", x, ONE, ONE, None, lengths, opset=14, n_outputs=2, hidden_size=1, activations=("Affine",), direction="reverse"
    )
    np.testing.assert_array_equal(y[:, 0, :, 0], [[111, 11], [110, 10], [100, 0]])
    np.testing.assert_array_equal(last.ravel(), [111, 11])


def test_activations_take_their_parameters_in_order():
    x = np.array([-2.0, 2.0], F).reshape(1, 2, 1)
    y, _ = run(
        "RNN",
        x,
        np.ones((2, 1, 1), F),
        np.zeros((2, 1, 1), F),
        opset=7,
        n_outputs=2,
        hidden_size=1,
        direction="bidirectional",
        activations=("Tanh", "LeakyRelu"),
        activation_alpha=(0.25,),
    )
    np.testing.assert_allclose(y[0, 1, :, 0], [-0.5, 2])


def test_clip_bounds_the_gates():
    (y, *_) = run(
        "RNN", np.full((1, 1, 1), 5, F), ONE, ONE, opset=7, n_outputs=2, hidden_size=1, activations=("Affine",), clip=2.0
    )
    assert y.item() == 2


def test_gru_1_may_say_foward():
    weights = np.zeros((1, 3, 1), F)
    assert run("GRU", ONE, weights, weights, opset=1, n_outputs=2, hidden_size=1, direction="foward")[0].shape == (1, 1, 1, 1)
    with pytest.raises(ValueError, match="direction must be"):
        run("GRU", ONE, weights, weights, opset=7, n_outputs=2, hidden_size=1, direction="sideways")


def test_resize_10_and_upsample_repeat_elements():
    x = np.array([[[[1, 2, 3, 4]]]], F)
    (longer,) = run("Upsample", x, np.array([1, 1, 2, 1.5], F), opset=9)
    np.testing.assert_array_equal(longer, np.array([[[[1, 1, 2, 3, 3, 4]] * 2]]).reshape(1, 1, 2, 6))
    (shorter,) = run("Resize", x, np.array([1, 1, 1, 0.6], F), opset=10)
    np.testing.assert_array_equal(shorter.ravel(), [1, 3])
    (image,) = run("Upsample", x, opset=1, height_scale=1.0, width_scale=2.0, mode="bilinear")
    np.testing.assert_array_equal(image.ravel(), [1, 1.5, 2, 2.5, 3, 3.5, 4, 4])


def test_max_roi_pool_takes_the_largest_of_each_cell():
    x = np.arange(16, dtype=F).reshape(1, 1, 4, 4)
    rois = np.array([[0, 0, 0, 3, 3], [0, 2, 2, 9, 9]], F)
    (y,) = run("MaxRoiPool", x, rois, opset=1, pooled_shape=(2, 2))
    np.testing.assert_array_equal(y[:, 0], [[[5, 7], [13, 15]], [[15, 0], [0, 0]]])


def test_global_lp_pool():
    x = np.array([[[3, 4]]], F)
    assert run("GlobalLpPool", x, opset=1, p=2.0)[0].item() == 5


def test_non_max_suppression_without_a_limit_selects_nothing():
    boxes, scores = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9]]], F), np.array([[[0.5, 0.9]]], F)
    assert run("NonMaxSuppression", boxes, scores, opset=10)[0].shape == (0, 3)
    (kept,) = run("NonMaxSuppression", boxes, scores, np.array(5), np.array(0.5, F), opset=11)
    np.testing.assert_array_equal(kept, [[0, 0, 1]])


def test_maps_and_tensors():
    ml = {"domain": "ai.onnx.ml", "opset": 1}
    (rows,) = run("ZipMap", np.array([[0.5, 1.5]], F), classlabels_strings=("a", "b"), **ml)
    assert rows == [{"a": 0.5, "b": 1.5}]
    (dense,) = run("CastMap", {7: 2.5, 1: 4.0}, cast_to="TO_INT64", **ml)
    np.testing.assert_array_equal(dense, [[4, 2]])
    (vector,) = run("DictVectorizer", {"a": 4, "c": 8}, string_vocabulary=("a", "c", "b", "z"), **ml)
    np.testing.assert_array_equal(vector, [4, 8, 0, 0])


def test_label_encoder_finds_nan():
    x = np.array([1, np.nan, 3], F)
    (y,) = run("LabelEncoder", x, domain="ai.onnx.ml", opset=4, keys_floats=(1.0, float("nan")), values_strings=("one", "none"))
    assert y.tolist() == ["one", "none", "_Unused"]
