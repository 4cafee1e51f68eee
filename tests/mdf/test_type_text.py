"""Types as texts, as the metadata of MDF graphs say them."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdf_loop.ir import ValueType
from mdf_loop.readers.mdf.written_values import read_type_text, write_type_text
from mdf_loop.types.elements import DTYPES

FLOAT = np.dtype("float32")

TEXTS = {
    "float": ValueType(FLOAT),
    "float[]": ValueType(FLOAT, ()),
    "double[2,n,?]": ValueType(np.dtype("float64"), (2, "n", None)),
    "string[0]": ValueType(np.dtype(object), (0,)),
    "bfloat16[1]": ValueType(np.dtype(ml_dtypes.bfloat16), (1,)),
    "?[3]": ValueType(None, (3,)),
    "?": ValueType(),
    "seq(float[n])": ValueType(kind="sequence", element=ValueType(FLOAT, ("n",))),
    "optional(seq(bool))": ValueType(kind="optional", element=ValueType(kind="sequence", element=ValueType(np.dtype(bool)))),
    'int8["a, b","]","12","é\\n"]': ValueType(np.dtype("int8"), ("a, b", "]", "12", "é\n")),
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_type_has_one_text(text):
    assert read_type_text(text) == TEXTS[text]
    assert write_type_text(TEXTS[text]) == text


def test_spaces_and_numpys_names_are_taken_too():
    assert read_type_text(" float32[ 2 , n ] ") == ValueType(FLOAT, (2, "n"))


@pytest.mark.parametrize(
    "text", ["", "floaty", "float[2", "float 2]", "seq(float", "seq float)", "float[2]]", "seq(" * 30 + ")" * 30]
)
def test_what_is_no_type_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a type|are not dimensions"):
        read_type_text(text)


dims = st.one_of(st.none(), st.integers(0, 1 << 62), st.text(min_size=1))


@given(st.sampled_from(list(DTYPES.values())), st.one_of(st.none(), st.lists(dims).map(tuple)))
def test_any_type_is_read_as_it_was_written(dtype, shape):
    kind = ValueType(dtype, shape)
    assert read_type_text(write_type_text(kind)) == kind
