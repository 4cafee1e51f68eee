"""Matrix products, Einstein sums and determinants."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mdf_loop.kernels.numbers.wide import centred, product, widened
from mdf_loop.ops.batching import Result, all_stacked, by_step
from mdf_loop.ops.batching import matmul as matmul_rule
from mdf_loop.ops.registry import kernel, say
from mdf_loop.types.elements import kind_of


@kernel("MatMul", batch=matmul_rule)
def matmul(a, b):
    """The matrix product, by numpy's rules for ranks."""
    return product(a, b)


@kernel("Gemm", since=7, batch=by_step)
def gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    """alpha * A * B + beta * C, C broadcast to the shape of the product."""
    dtype = a.dtype
    if a.itemsize < 4 and kind_of(a.dtype) == "float":  # rounded once, at the end
        a, b, c = (x if x is None else widened(x) for x in (a, b, c))
        return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB).astype(dtype)
    if transA:
        a = a.mT
    if transB:
        b = b.mT
    if a.ndim < 2 or b.ndim < 2:
        raise ValueError(f"Gemm multiplies two matrices; got shapes {list(a.shape)} and {list(b.shape)}")
    out = product(a, b)
    if alpha != 1:
        out = _scaled(out, alpha)
    if c is not None:
        # In place: the product is ours, and a C that does not fit cannot enlarge it.
        out += c if beta == 1 else _scaled(c, beta)
    return out


@kernel("Gemm", since=1, batch=by_step)
def gemm_1(a, b, c, *, alpha=1.0, beta=1.0, transA=0, transB=0, broadcast=0):
    """alpha * A * B + beta * C, C broadcast only where asked for."""
    out = gemm(a, b, alpha=alpha, transA=transA, transB=transB)
    if not broadcast and c.shape[-2:] != out.shape[-2:]:
        raise ValueError(f"without broadcast, C must have the shape of the product {list(out.shape)}; got {list(c.shape)}")
    out += c if beta == 1 else _scaled(c, beta)
    return out


def _scaled(x: np.ndarray, factor: float) -> np.ndarray:
    """x * factor in the type of x; a whole factor stays exact for integers."""
    if x.dtype.kind == "f":
        return x * factor
    if kind_of(x.dtype) == "integer" and not float(factor).is_integer():
        return (x * factor).astype(x.dtype)
    return x * np.array(factor).astype(x.dtype)


def einsum_rule(run: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], attrs: Mapping[str, Any]) -> Result:
    """One more letter, in front of each stacked operand and of the result."""
    terms, result = explicit_terms(attrs["equation"])
    spare = next((letter for letter in string.ascii_letters if letter not in attrs["equation"]), None)
    if spare is None or len(terms) != len(args):
        return None
    terms = [spare + term if s else term for term, s in zip(terms, stacked, strict=True)]
    return all_stacked(run(*args, equation=f"{','.join(terms)}->{spare}{result}"))


def explicit_terms(equation: str) -> tuple[list[str], str]:
    """The operands' terms and the result's; without "->" that is what occurs once, sorted, behind the ellipsis."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    if not arrow:
        letters = left.replace("...", "").replace(",", "")
        once = sorted(letter for letter in letters if letters.count(letter) == 1)
        result = ("..." if "..." in left else "") + "".join(once)
    return left.split(","), result


@kernel("Einsum", since=12, batch=einsum_rule)
def einsum(*operands, equation):
    """Products of the operands, summed over the letters that the result does not have."""
    # Searching for a good order costs some 15 us, the plain sum a few ns a product.
    worth_it = len(operands) > 1 and sum(x.size for x in operands) > _LARGE
    if kind_of(operands[0].dtype) == "float" and operands[0].itemsize < 4:
        wide = np.einsum(equation, *map(widened, operands), optimize=worth_it)
        return np.asarray(wide, operands[0].dtype)
    return np.einsum(equation, *operands, optimize=worth_it)


_LARGE = 8192


@kernel("MatMulInteger", since=10, batch=by_step)
def matmul_integer(a, b, a_zero_point=None, b_zero_point=None):
    """The product of 8-bit matrices, less their zero points, in 32 bits."""
    return _product_of_bytes(a, a_zero_point, b, b_zero_point)


def _product_of_bytes(a: np.ndarray, a_zero_point: np.ndarray | None, b: np.ndarray, b_zero_point: np.ndarray | None) -> Any:
    """The exact product; a zero point of rank 1 counts rows of the first or columns of the second matrix."""
    return product(centred(a, None if a_zero_point is None else per_row(a_zero_point)), centred(b, b_zero_point))


def per_row(parameter: np.ndarray) -> np.ndarray:
    """A scale or zero point as it broadcasts against the rows of a matrix."""
    return parameter[:, None] if parameter.ndim == 1 and parameter.size > 1 else parameter


@kernel("QLinearMatMul", since=10, batch=by_step)
def qlinear_matmul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point):
    """The product of quantised matrices, quantised again."""
    whole = _product_of_bytes(a, a_zero_point, b, b_zero_point)
    return requantized(whole, scale_of_product(a_scale, b_scale, y_scale), per_row(y_zero_point))


def scale_of_product(a_scale: np.ndarray, b_scale: np.ndarray, y_scale: np.ndarray) -> np.ndarray:
    """What sums of quantised values are multiplied with to be quantised again."""
    return per_row(_single(a_scale)) * _single(b_scale) / per_row(_single(y_scale))


def requantized(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """Whole numbers, with a bias, times a scale: rounded to even, moved by the zero point, and kept to the range of its type."""
    dtype = zero_point.dtype
    y = x.astype(np.float64).reshape(x.shape)
    if bias is not None:
        y += bias
    y *= scale.astype(np.float64)
    if kind_of(dtype) == "float":
        largest = float(ml_dtypes.finfo(dtype).max)
        return np.clip(y + zero_point.astype(np.float64), -largest, largest).astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.rint(y) + zero_point, limits.min, limits.max).astype(dtype)


def _single(scale: np.ndarray) -> np.ndarray:
    return scale.astype(np.float32)


@kernel("Det", since=11)
def det(x):
    """The determinant of each square matrix."""
    if x.itemsize < 4:  # LAPACK knows single and double precision
        return np.linalg.det(x.astype(np.float32)).astype(x.dtype)
    return np.linalg.det(x)


for _op in ("MatMul", "Gemm"):
    say(_op, multiplies_matrices=True, traced=True)
for _op in ("MatMulInteger", "QLinearMatMul", "Det"):
    say(_op, traced=True)
say("Det", factorises=True)
