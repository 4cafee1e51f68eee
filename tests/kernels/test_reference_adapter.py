"""Every operator ONNX defines has a kernel, and the adapter to onnx.reference does its part."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from in_groups import each
from node_cases import assert_same, single_node_cases

from mdf_loop import backend
from mdf_loop.calls import control_flow  # noqa: F401  (control flow is in the table too)
from mdf_loop.errors import UnsupportedOp
from mdf_loop.ir import Node
from mdf_loop.kernels import load_kernels
from mdf_loop.kernels.reference import SERVED
from mdf_loop.ops.registry import KERNELS, bind, lookup

load_kernels()

WITHOUT_KERNEL = {
    ("ai.onnx.preview.training", "Gradient"): "differentiates the graph around it; onnx.reference cannot run it either",
}
"""The operators that have no kernel, with the reason.  The aim is none."""

SCHEMAS = {(s.domain, s.name, s.since_version): s for s in onnx.defs.get_all_schemas_with_history()}
IS_SERVED = [(domain, op) for domain, operators in SERVED.items() for op in operators]


@each("domain,op,version", [key for key in SCHEMAS if key[:2] not in WITHOUT_KERNEL], size=1000)
def test_every_version_of_every_operator_finds_a_kernel(domain, op, version):
    assert lookup(op, version, domain).since <= version


@each("domain,op,version", SCHEMAS, size=1000)
def test_a_kernel_knows_every_attribute_of_its_version(domain, op, version):
    if (domain, op) in WITHOUT_KERNEL:
        return
    entry = lookup(op, version, domain)
    if entry.bind is None and not entry.takes_any_attribute:
        unknown = set(SCHEMAS[domain, op, version].attributes) - entry.parameters
        assert not unknown, f"{op} {version} has attributes that its kernel does not take: {unknown}"


def test_what_has_no_kernel_is_listed_truly():
    assert not [key for key in WITHOUT_KERNEL if key in KERNELS]
    assert set(WITHOUT_KERNEL) <= {key[:2] for key in SCHEMAS}


@each("domain,op", IS_SERVED)
def test_the_table_holds_nothing_that_a_kernel_of_our_own_covers(domain, op):
    assert not KERNELS[domain, op][0].native, "delete its line in SERVED, kernels/reference.py"


@each("domain,op", IS_SERVED)
def test_the_table_says_the_first_version(domain, op):
    assert SERVED[domain][op] == min(version for d, name, version in SCHEMAS if (d, name) == (domain, op))


@each("domain,op,version", [key for key in SCHEMAS if key[:2] in IS_SERVED])
def test_onnx_reference_can_be_made_ready_for_every_version_served(domain, op, version):
    schema = SCHEMAS[domain, op, version]
    names = tuple(f"x{k}" for k in range(max(schema.min_input, 1)))
    attrs = {name: VALUES[a.type](a) for name, a in schema.attributes.items() if a.required}
    bind(Node(op, names, ("y",), attrs, opset=version, domain=domain))


TYPES = onnx.defs.OpSchema.AttrType
VALUES = {
    TYPES.FLOAT: lambda a: 0.5,
    TYPES.INT: lambda a: 1,
    TYPES.STRING: lambda a: {"mode": "standard"}.get(a.name, "linear"),
    TYPES.INTS: lambda a: (0,),
    TYPES.TENSOR: lambda a: np.zeros(1, np.uint8 if a.name == "nodes_modes" else np.float32),
}
"""A value for a required attribute, by its type."""


SERVED_CASES = {
    name: case
    for name, case in single_node_cases().items()
    if (case.model.graph.node[0].domain, case.model.graph.node[0].op_type) in IS_SERVED
}


@each("name", SERVED_CASES)
def test_inputs_are_left_as_they_were(name):
    case = SERVED_CASES[name]
    for inputs, _ in case.data_sets:
        before = [np.array(value) for value in inputs]
        backend.run_model(case.model, inputs)
        for value, old in zip(inputs, before, strict=True):
            np.testing.assert_array_equal(value, old)


def run(op, *values, domain="", opset, outputs=("y",), **attrs):
    names = tuple("" if v is None else f"x{k}" for k, v in enumerate(values))
    return bind(Node(op, names, outputs, attrs, opset=opset, domain=domain)).call(*values)


def test_scalars_of_numpy_are_taken():
    (window,) = run("HannWindow", np.int64(4), opset=17)
    assert_same(window, np.array([0, 0.5, 1, 0.5], np.float32), 1e-6, 1e-6)


def test_an_attribute_says_the_type():
    assert run("HannWindow", np.int64(4), opset=17, output_datatype=11)[0].dtype == np.float64


def test_omitted_inputs_and_outputs():
    x, w = np.arange(8, dtype=np.float32).reshape(1, 2, 4), np.ones((2, 1, 3), np.float32)
    nothing, state = run("CausalConvWithState", x, w, None, np.zeros((1, 2, 2), np.float32), opset=27, outputs=("", "state"))
    assert nothing is None
    assert_same(state, x[..., 2:], 0, 0)


def test_the_type_is_the_declared_one():
    x, w = np.ones((1, 2, 4), ml_dtypes.bfloat16), np.ones((2, 1, 3), ml_dtypes.bfloat16)
    assert run("CausalConvWithState", x, w, opset=27)[0].dtype == ml_dtypes.bfloat16


def test_one_value_may_be_read_twice():
    x = np.ones((1, 1, 2, 4), np.float32)
    (y,) = bind(Node("FlexAttention", ("x", "x", "x"), ("y",), opset=1, domain="ai.onnx.preview")).call(x, x, x)
    assert_same(y, x, 1e-6, 1e-6)


def test_roi_align_10_does_not_shift_by_half_a_pixel():
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    rois, batch = np.array([[1, 1, 3, 3]], np.float32), np.array([0])
    (old,) = run("RoiAlign", x, rois, batch, opset=10, sampling_ratio=1)
    (new,) = run("RoiAlign", x, rois, batch, opset=16, sampling_ratio=1)
    assert (old.item(), new.item()) == (14.0, 10.5)


def test_a_sub_graph_that_reads_outer_values_is_refused():
    text = """
    <ir_version: 10, opset_import: ["" : 26, "ai.onnx.preview" : 1]>
    g (float[1,1,2,4] q, float more) => (float[1,1,2,4] y) {
        y = ai.onnx.preview.FlexAttention (q, q, q)
            <prob_mod: graph = p (float[B,H,L,S] s) => (float[B,H,L,S] t) { t = Mul(s, more) }>
    }"""
    with pytest.raises(UnsupportedOp, match=r"without the values around them \(more\)"):
        backend.prepare(onnx.parser.parse_model(text))


def test_kernels_alone_do_not_import_onnx_reference():
    code = "import sys; from mdf_loop.kernels import load_kernels; load_kernels(); sys.exit('onnx.reference' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
