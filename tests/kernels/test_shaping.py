"""What shaping, indexing, reducing and sequence operators mean where ONNX has no cases: old versions, edges, errors."""

import ml_dtypes
import numpy as np
import pytest
from definitions import rule_of

from mdf_loop.ir import Node
from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import lookup

load_kernels()

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def ints(*values):
    return np.array(values, np.int64)


def run(op, opset, *inputs, **attrs):
    with np.errstate(all="ignore"):
        return lookup(op, opset).run(*inputs, **attrs)


def batched(op, opset, args, stacked, **attrs):
    node = Node(op, tuple(f"x{k}" for k in range(len(args))), ("y",), attrs, opset=opset)
    return rule_of(node)(lookup(op, opset).run, args, stacked, attrs)


@pytest.mark.parametrize(
    ("op", "empty_sum"),
    [
        *[("ReduceSum", 0), ("ReduceProd", 1), ("ReduceL1", 0), ("ReduceL2", 0), ("ReduceSumSquare", 0)],
        *[("ReduceMax", -np.inf), ("ReduceMin", np.inf), ("ReduceLogSum", -np.inf), ("ReduceLogSumExp", -np.inf)],
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_a_reduction_of_nothing(op, empty_sum, dtype):
    empty = np.zeros((2, 0), dtype)
    for result in (run(op, 11, empty, axes=(1,), keepdims=0), run(op, 18, empty, ints(1), keepdims=0)):
        assert result.dtype == dtype
        assert result.astype(np.float64).tolist() == [empty_sum, empty_sum]


def test_the_largest_of_no_whole_numbers_is_the_smallest_one():
    empty = np.zeros((0,), np.int8)
    assert run("ReduceMax", 13, empty, keepdims=0) == -128
    assert run("ReduceMin", 13, empty, keepdims=0) == 127
    assert not run("ReduceMax", 20, empty.astype(bool), keepdims=0)


def test_sums_keep_their_type_and_wrap_around():
    total = run("ReduceSum", 13, np.array([2**31 - 1, 1], np.int32), keepdims=0)
    assert (total.dtype, total) == (np.int32, -(2**31))
    assert run("CumSum", 14, np.array([200, 100], np.uint32), np.array(0)).dtype == np.uint32


def test_the_mean_of_whole_numbers_is_cut_off_towards_zero():
    assert run("ReduceMean", 13, np.array([-3, -4], np.int32), keepdims=0) == -3
    assert run("ReduceMean", 13, np.array([2**63, 2**63 - 1], np.uint64) // 2, keepdims=0) == (2**63 - 1) // 2


def test_half_precision_is_summed_in_a_wider_type():
    ones = np.ones(4096, ml_dtypes.bfloat16)
    assert float(run("ReduceSum", 13, ones, keepdims=0)) == 4096
    assert float(run("CumSum", 14, ones, np.array(0))[-1]) == 4096


def test_log_sum_exp_does_not_overflow():
    assert run("ReduceLogSumExp", 18, np.array([1000, 1000], np.float32), keepdims=0) == np.float32(1000 + np.log(2))
    assert run("ReduceLogSumExp", 18, np.array([-np.inf, -np.inf], np.float32), keepdims=0) == -np.inf


def test_without_axes_all_are_reduced_or_none():
    assert run("ReduceSum", 13, X).shape == (1, 1)
    assert run("ReduceSum", 13, X, ints(), noop_with_empty_axes=1).tolist() == X.tolist()
    assert run("ReduceSumSquare", 18, X, None, noop_with_empty_axes=1).tolist() == (X * X).tolist()


def test_a_backward_slice_is_clamped_to_the_first_element():
    assert run("Slice", 13, ints(5, 6, 7), ints(-100), ints(-(2**63)), ints(0), ints(-1)).tolist() == [5]
    assert run("Slice", 13, ints(5, 6, 7), ints(100), ints(-(2**63)), ints(0), ints(-1)).tolist() == [7, 6, 5]


def test_slices_of_attributes_and_of_inputs_agree():
    by_attributes = run("Slice", 1, X, starts=(1, -2), ends=(2**62, 4))
    assert by_attributes.tolist() == run("Slice", 10, X, ints(1, -2), ints(2**62, 4)).tolist() == [[6, 7], [10, 11]]


def test_a_sliding_window_is_one_batch():
    starts = ints(0, 1, 2, -3)[:, None]
    (out,), stacked = batched(
        "Slice", 13, [X, starts, starts + 2 * (starts >= 0) + 2 * (starts < 0), ints(1)], (False, True, True, False)
    )
    assert stacked == (True,)
    assert out.shape == (4, 3, 2)
    assert out[:, 0].tolist() == [[0, 1], [1, 2], [2, 3], [1, 2]]


def test_a_window_that_changes_its_length_is_no_batch():
    assert batched("Slice", 13, [X, ints(0, 0)[:, None], ints(1, 2)[:, None]], (False, True, True)) is None


def test_a_table_looked_up_by_the_iteration_number_is_one_take():
    (out,), stacked = batched("Gather", 13, [X, np.arange(3)], (False, True))
    assert stacked == (True,)
    np.testing.assert_array_equal(out, X)


def test_an_iteration_axis_of_one_is_not_squeezed():
    (out,), _ = batched("Squeeze", 13, [np.zeros((1, 1, 5))], (True,))
    assert out.shape == (1, 5)


def test_a_shape_that_is_the_same_in_every_iteration_counts_as_unstacked():
    shapes = np.array([[4, 3], [4, 3]])
    assert batched("Reshape", 14, [X, shapes], (False, True))[1] == (False,)
    assert batched("Reshape", 14, [np.stack([X, -X]), shapes], (True, True))[0][0].shape == (2, 4, 3)
    assert batched("Reshape", 14, [X, np.array([[4, 3], [3, 4]])], (False, True)) is None


def test_texts_stay_tensors():
    texts = np.array(["a", "b"], object)
    for result in (
        run("Gather", 13, texts, np.array(1)),
        run("GatherND", 13, texts, ints(1)),
        run("StringConcat", 20, texts[1:].reshape(()), np.array("", object)),
        run("Squeeze", 13, texts[1:]),
    ):
        assert isinstance(result, np.ndarray)
        assert (result.shape, result.dtype, result.item()) == ((), object, "b")
    assert run("Pad", 13, texts, ints(1, 0)).tolist() == ["", "a", "b"]
    assert run("Unique", 11, np.array([["b", "a"], ["b", "a"]], object), axis=0)[0].tolist() == [["b", "a"]]


def test_split_of_uneven_lengths():
    assert [len(part) for part in run("Split", 18, np.zeros(9), num_outputs=6, n_outputs=6)] == [2, 2, 2, 2, 1, 0]
    with pytest.raises(ValueError, match="7 elements cannot be split into 2 equal parts"):
        run("Split", 13, np.zeros(7), n_outputs=2)
    with pytest.raises(ValueError, match="num_outputs, and not both"):
        run("Split", 18, np.zeros(7), n_outputs=2)


def test_negative_pads_cut_off_before_the_border_is_made():
    assert run("Pad", 2, X[0], pads=(-1, 1), mode="reflect").tolist() == [1, 2, 3, 2]
    with pytest.raises(ValueError, match="one of constant, reflect, edge; got 'wrap'"):
        run("Pad", 18, X, ints(1, 1, 1, 1), mode="wrap")


def test_negative_indices_of_one_hot_count_from_the_end_since_opset_11():
    values = np.array([0, 1], np.int8)
    assert run("OneHot", 9, ints(-1), np.array(2), values).tolist() == [[0, 0]]
    assert run("OneHot", 11, ints(-1), np.array(2), values).tolist() == [[0, 1]]


def test_the_best_come_first_and_equal_ones_by_place():
    x = np.array([1, 3, 3, 2, np.nan], np.float32)
    assert run("TopK", 11, x[:4], ints(3))[1].tolist() == [1, 2, 3]
    assert run("TopK", 11, x[:4], ints(1))[1].tolist() == [1]
    assert run("TopK", 11, x, ints(1), largest=0)[1].tolist() == [0]
    assert run("TopK", 1, np.array([0, 255], np.uint8), k=2)[0].tolist() == [255, 0]
    with pytest.raises(ValueError, match=r"K must be in \[0, 4\]"):
        run("TopK", 11, x[:4], ints(5))


def test_every_duplicate_index_counts():
    data, where = np.zeros(3, np.int64), ints(1, 1, 1)
    assert run("ScatterElements", 18, data, where, ints(1, 2, 3), reduction="add").tolist() == [0, 6, 0]
    assert run("ScatterND", 18, data, where[:, None], ints(1, 2, 3), reduction="max").tolist() == [0, 3, 0]
    with pytest.raises(ValueError, match="one of none, add, mul; got 'max'"):
        run("ScatterElements", 16, data, where, where, reduction="max")
    assert data.tolist() == [0, 0, 0]


def test_range_counts_whole_numbers_exactly():
    start = np.array(2**62, np.int64)
    assert run("Range", 11, start, start + 2, np.array(1)).tolist() == [2**62, 2**62 + 1]
    assert run("Range", 11, np.array(3), np.array(0), np.array(-2)).tolist() == [3, 1]
    half = [np.array(v, ml_dtypes.bfloat16) for v in (0, 512, 1)]
    assert run("Range", 27, *half).dtype == ml_dtypes.bfloat16
    assert len(run("Range", 27, *half)) == 512


def test_old_forms():
    assert run("Tile", 1, X, np.float32(2), np.float32(1)).shape == (3, 8)
    assert run("Reshape", 1, X, shape=(0, 2, -1)).shape == (3, 2, 2)
    assert run("Concat", 1, X, X).shape == (3, 8)
    assert [part.shape for part in run("Split", 1, X, np.array([1, 2], np.float32), n_outputs=2)] == [(1, 4), (2, 4)]
    assert run("Pad", 1, X, paddings=(1, 0, 0, 0), value=2.5)[0].tolist() == [2.5] * 4


def test_zero_in_a_shape():
    assert run("Reshape", 14, np.zeros((0, 3)), ints(3, 0), allowzero=1).shape == (3, 0)
    with pytest.raises(ValueError, match="cannot hold both 0 and -1"):
        run("Reshape", 14, np.zeros((0, 3)), ints(-1, 0), allowzero=1)
    with pytest.raises(ValueError, match="takes over a dimension that the input"):
        run("Reshape", 14, X, ints(3, 4, 0))


def test_sequences_are_never_changed():
    sequence = [X, X]
    assert len(run("SequenceInsert", 11, sequence, X, np.array(-2))) == 3
    assert len(run("SequenceErase", 11, sequence)) == 1
    assert len(sequence) == 2
    with pytest.raises(IndexError, match="position 2 is out of range for a sequence of 2"):
        run("SequenceAt", 11, sequence, np.array(2))
    with pytest.raises(TypeError, match="the sequence holds float32, so int64 cannot be inserted"):
        run("SequenceInsert", 11, sequence, ints(1))
    with pytest.raises(ValueError, match="without elements cannot be put together"):
        run("ConcatFromSequence", 11, [], axis=0)


def test_an_empty_optional_has_no_element():
    assert not run("OptionalHasElement", 18)
    assert run("OptionalHasElement", 15, [])
    with pytest.raises(ValueError, match="no element to get"):
        run("OptionalGetElement", 15, None)


def test_white_space_at_the_ends_is_no_text():
    pieces, counts = run("StringSplit", 20, np.array(["  a b  c ", ""], object), maxsplit=1)
    assert pieces.tolist() == [["a", "b  c"], ["", ""]]
    assert counts.tolist() == [2, 0]
