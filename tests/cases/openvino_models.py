"""OpenVINO as the source of models and as the one to compare with: its own serialisation, its CPU plugin.

Not every number can be compared bit for bit: the plugin holds int64 as int32 and float64 as float32.
"""

import numpy as np
import openvino
import openvino.opset16 as op

from mdf_loop.openvino import prepare

SETTINGS = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": "1"}
"""Single precision, which the plugin would otherwise replace by bfloat16."""

X = np.float32(np.arange(12).reshape(4, 3) - 3)
S = np.float32([1, 2, 3])

_core = openvino.Core()
_core.set_property({"ENABLE_MMAP": False})


def parameters(*values):
    """A parameter for each value."""
    return [op.parameter(np.shape(value), np.asarray(value).dtype, name=f"in{k}") for k, value in enumerate(values)]


def model_of(build, *values):
    """A model whose parameters have the types of these values, and whose results are what ``build`` makes of them."""
    inputs = parameters(*values)
    made = build(*inputs)
    outputs = made if isinstance(made, list | tuple) else made.outputs()
    return openvino.Model(list(outputs), inputs, "model")


def saved(model, folder, name="model"):
    """The path of the .xml file that OpenVINO writes."""
    path = folder / f"{name}.xml"
    openvino.serialize(model, path)
    return path


def edited(model, folder, *changes):
    """The files of a model, with the text of the .xml changed."""
    path = saved(model, folder)
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def openvino_run(model, *values):
    """What OpenVINO's CPU plugin gives."""
    compiled = _core.compile_model(model, "CPU", SETTINGS)
    return [np.array(value) for value in compiled([np.asarray(v) for v in values]).values()]


def ours(model, folder, *values):
    """What we give for the files that OpenVINO writes."""
    return list(prepare(saved(model, folder)).run([np.asarray(v) for v in values]))


def assert_as_openvino(model, folder, *values, rtol=2e-6, atol=1e-6):
    """Both give the same shapes, types and numbers."""
    expected, actual = openvino_run(model, *values), ours(model, folder, *values)
    assert len(actual) == len(expected)
    for k, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype), f"output {k}"
        if mine.dtype.kind == "f":
            np.testing.assert_allclose(mine, theirs, rtol, atol, err_msg=f"output {k}")
        else:
            np.testing.assert_array_equal(mine, theirs, err_msg=f"output {k}")


def constant(value, dtype=np.float32):
    """A constant."""
    return op.constant(np.asarray(value, dtype))


def always(go=True):
    """A body's condition that does not change."""
    return op.constant(np.asarray(go, bool))


class Body:
    """A body under the making: its parameters, and its results in order."""

    def __init__(self):
        self.parameters, self.results = [], []

    def parameter(self, shape, dtype=np.float32):
        """A new parameter."""
        made = op.parameter(openvino.PartialShape(shape), dtype)
        self.parameters.append(made)
        return made

    def result(self, value):
        """A new result."""
        made = op.result(value)
        self.results.append(made)
        return made

    def model(self):
        """The body as a model."""
        return openvino.Model(self.results, self.parameters, "body")


def loop_over(body, trip_count, go=None, index=None, condition=None):
    """A Loop whose ports are still to be joined."""
    loop = op.loop(trip_count, always() if go is None else go)
    condition = condition or body.result(always())
    loop.set_function(body.model())
    place = body.parameters.index(index) if index is not None else -1
    loop.set_special_body_ports([place, body.results.index(condition)])
    return loop


def slices_of(loop, parameter, value, *, axis=0, start=0, end=-1, stride=1, part=1):
    """Join a sliced input."""
    loop.set_sliced_input(parameter, value.output(0), start, stride, part, end, axis)


def joined(loop, result, *, axis=0, start=0, end=-1, stride=1, part=1):
    """Join an output of concatenated slices."""
    return loop.get_concatenated_slices(result.output(0), start, stride, part, end, axis)


def summing(count_shape=()):
    """A Loop that carries the sum of the rows of x and puts the sums so far together."""
    """Sums the slices of x along axis 0."""
    m, x = op.parameter(count_shape, np.int64, name="count"), op.parameter([4, 3], np.float32, name="x")
    body = Body()
    part, v = body.parameter([1, 3]), body.parameter([1, 3])
    total = body.result(op.add(part, v))
    loop = loop_over(body, m)
    slices_of(loop, part, x)
    loop.set_merged_input(v, constant([[0, 0, 0]]).output(0), total.output(0))
    outputs = [loop.get_iter_value(total.output(0), -1), joined(loop, total)]
    return openvino.Model(outputs, [m, x], "summing")
