"""Functions in MDF nodes: MDF's own, which are expressions, and ``onnx::`` ones, which are operators."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from mdf_loop.errors import LoopError, MalformedBody, UnsupportedOp
from mdf_loop.ir import Node
from mdf_loop.ops.registry import version_of
from mdf_loop.readers.expressions.expression import evaluated
from mdf_loop.readers.expressions.expression_text import parse
from mdf_loop.readers.expressions.values import UNKNOWN, NotCompiled, Scope, Unavailable, Value, known, literal, read
from mdf_loop.readers.mdf.control_functions import BODIES, control
from mdf_loop.readers.mdf.input_ports import default_value_of
from mdf_loop.readers.mdf.written_values import attribute
from mdf_loop.types.schemas import schema_of

if TYPE_CHECKING:
    from mdf_loop.readers.mdf.node import NodeReader

VECTORS = {"axes", "shape", "starts", "ends", "steps", "repeats", "pads", "split", "sizes", "K"}
"""Inputs of ONNX operators that are lists: a number given for one is a list of it, as in MDF."""

Path = tuple[str, ...]


def apply_function(reader: NodeReader, thing: Any, path: Path, name: str, args: Mapping[str, Any], value: Any) -> Value:
    """The value of a function by its name; ``value`` is what MDF takes where it does not know the name.

    Raises
    ------
    UnsupportedOp
        There is no such function.
    """
    if name.startswith("onnx::"):
        return apply_onnx(reader, thing, path, name.removeprefix("onnx::"), args)
    text = standard_expression(name)
    if text is not None:
        return apply_value(reader, thing, path, text, args)
    if value is not None:
        return apply_value(reader, thing, path, value, args)
    if name.isidentifier() or "::" in name:
        raise UnsupportedOp(f"{'/'.join(path)}: there is no function {name!r} in MDF or ONNX")
    return apply_value(reader, thing, path, name, args)  # MDF evaluates a name it does not know


def standard_expression(name: str) -> str | None:
    """The expression of one of MDF's own functions; None if there is none of that name."""
    from modeci_mdf.functions.standard import create_python_expression, mdf_functions

    entry = mdf_functions.get(name)
    return None if entry is None else create_python_expression(entry["expression_string"])


def apply_value(reader: NodeReader, thing: Any, path: Path, source: Any, args: Mapping[str, Any]) -> Value:
    """An expression over a node's values and the function's arguments; each argument sees those before it."""
    if isinstance(source, str) and "onnx_ops." in source:
        return apply_onnx(reader, thing, path, _named(source, path), args)
    if isinstance(source, str) and source.startswith(("actr.", "ddm.")):
        raise NotCompiled(f"{source.split('(')[0]} is a Python function of MDF")
    scope: dict[str, Value | Unavailable] = dict(reader.scope)
    for key, text in args.items():
        scope[key] = reader.value(text, thing, scope)
    return evaluated(source, scope, reader.builder, reader.base(thing), path)


def _named(source: str, path: Path) -> str:
    """The operator that MDF's text ``onnx_ops.<name>(...)`` calls."""
    called = source.split("(")[0].split(".")[-1]
    for op in _operators():
        if op.lower() == called:
            return op
    raise UnsupportedOp(f"{'/'.join(path)}: there is no ONNX operator {called!r}")


@functools.cache
def _operators() -> list[str]:
    return sorted({schema.name for schema in onnx.defs.get_all_schemas()})


def apply_onnx(reader: NodeReader, thing: Any, path: Path, op: str, args: Mapping[str, Any]) -> Value:
    """An ONNX operator.

    Inputs and attributes are found by their ONNX names: among the arguments, then among all values of the node,
    as MDF finds them.  Any number of inputs (``Concat``) are the arguments that are no attributes, in order; without
    such arguments the node's ports and parameters.
    """
    opset = version_of(op, reader.onnx_opset)
    schema = schema_of(op, opset)
    if schema is None:
        raise UnsupportedOp(f"{'/'.join(path)}: there is no operator {op} in opset {opset} of ONNX")
    if op in BODIES:
        return control(reader, thing, path, op, args)
    scope: dict[str, Value | Unavailable] = dict(reader.scope)
    for key, text in args.items():
        said = schema.attributes.get(key)
        is_text = said is not None and said.type == onnx.defs.OpSchema.AttrType.STRING
        plain = is_text and isinstance(text, str) and text not in scope
        named = _names_in(text, scope) if _is_variadic(schema) else None
        if named is not None:
            scope[key] = Value(items=tuple(named), display="list", varies=any(value.varies for value in named))
        else:
            scope[key] = literal(_unquoted(text)) if plain else reader.value(text, thing, scope)
    if op == "Constant":
        return _constant(schema, scope, path)
    attrs = _attributes(schema, scope, path)
    names = _variadic(schema, scope, args, reader) if _is_variadic(schema) else _by_name(schema, scope, path)
    return _operator(reader, thing, schema, names, attrs)


def _names_in(text: Any, scope: Scope) -> list[Value] | None:
    """The values of a list of names, such as ``['_59', '_61']``, which MDF's importer of PyTorch writes."""
    if not isinstance(text, str) or not text.startswith("["):
        return None
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    is_known = names and all(isinstance(name, str) and name in scope for name in names)
    return [read(scope, name) for name in names] if is_known else None


def _unquoted(text: str) -> str:
    try:
        return str(ast.literal_eval(text)) if text[:1] in "'\"" else text
    except (ValueError, SyntaxError):
        return text


def _is_variadic(schema: Any) -> bool:
    return bool(schema.inputs) and schema.inputs[0].option == onnx.defs.OpSchema.FormalParameterOption.Variadic


def _by_name(schema: Any, scope: Scope, path: Path) -> list[Value | None]:
    """The inputs, by the names the schema gives them."""
    inputs = [_present(read(scope, formal.name)) if formal.name in scope else None for formal in schema.inputs]
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    missing = [f.name for f, v in zip(schema.inputs, inputs, strict=True) if v is None and f.option != optional]
    if missing:
        wanted = ", ".join(formal.name for formal in schema.inputs)
        raise MalformedBody(f"onnx::{schema.name} takes {wanted}; there is no argument or value {', '.join(missing)}", path)
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs


def _present(value: Value) -> Value | None:
    """None for an omitted input: None or an empty text."""
    return None if value.literal is None or (isinstance(value.literal, str) and not value.literal) else value


def _variadic(schema: Any, scope: Scope, args: Mapping[str, Any], reader: NodeReader) -> list[Value | None]:
    """The inputs of an operator that takes any number of them."""
    names = [key for key in args if key not in schema.attributes]
    if not names:
        return [read(scope, key) for key in reader.scope if key not in schema.attributes and not _is_none(scope[key])]
    values = [read(scope, key) for key in names]
    return [item for value in values for item in (value.items if value.display in ("list", "tuple") and value.items else [value])]


def _is_none(value: Value | Unavailable) -> bool:
    return isinstance(value, Unavailable) or value.literal is None


def _attributes(schema: Any, scope: Scope, path: Path) -> dict[str, Any]:
    """The attributes, which have to be known."""
    attrs = {}
    for key, said in schema.attributes.items():
        if key not in scope or (value := read(scope, key)).literal is None:
            continue
        given = known(value)
        if key == "seed" and is_no_seed(given):
            continue
        if given is UNKNOWN:
            raise NotCompiled(f"attribute {key} of onnx::{schema.name} is computed")
        is_tensor = said.type == onnx.defs.OpSchema.AttrType.TENSOR
        given = np.asarray(given) if is_tensor else given
        attrs[key] = attribute(f"{key} of onnx::{schema.name}", given, said.type, None, path)
    return attrs


def is_no_seed(value: Any) -> bool:
    """Whether a seed says that there is none: -1, as PsyNeuLink writes it; seeds of ONNX are floats."""
    return type(value) is int and value == -1


def _constant(schema: Any, scope: Scope, path: Path) -> Value:
    """onnx::Constant: the value itself."""
    values = [value for key in schema.attributes if key in scope and (value := _present(read(scope, key)))]
    if len(values) != 1:
        raise MalformedBody(f"onnx::Constant takes exactly one value, not {len(values)}", path)
    return values[0]


def _operator(reader: NodeReader, thing: Any, schema: Any, inputs: Sequence[Value | None], attrs: dict[str, Any]) -> Value:
    """The node of an ONNX operator and its outputs."""
    builder, base = reader.builder, reader.base(thing)
    arrays = [None if v is None else builder.array(v, base) for v in inputs]
    tensors = [None if v is None else reader.onnx_input(schema, k, arrays, base) for k, v in enumerate(arrays)]
    count, is_exact = _outputs(reader, thing, schema, attrs, inputs)
    if schema.name == "Split" and "num_outputs" in schema.attributes and len(inputs) < 2:
        attrs["num_outputs"] = count
    names = tuple(builder.fresh(base if count == 1 else f"{base}[{k}]") for k in range(count))
    ins = tuple("" if v is None else builder.name(v) for v in tensors)
    added = Node(schema.name, ins, names, attrs, base, max(reader.onnx_opset, schema.since_version))
    values = builder.add(added, any(v.varies for v in tensors if v is not None), untouched=is_exact)
    if count == 1 and not is_exact:
        return reader.onnx_result(values[0], base)
    display = "first" if schema.min_output <= 1 and not is_exact else "outputs"
    return Value(varies=values[0].varies, items=values, display=display)


def typed_input(builder: Any, base: str, schema: Any, place: int, inputs: Sequence[Value | None]) -> Value:
    """An input as a tensor: a Python number takes the type of the inputs it has to agree with."""
    value = inputs[place]
    assert value is not None
    formals = schema.inputs
    formal = formals[min(place, len(formals) - 1)]
    if not value.number:
        return value
    kinds = [formals[min(k, len(formals) - 1)].type_str for k in range(len(inputs))]
    like = [v for v, kind in zip(inputs, kinds, strict=True) if v is not None and kind == formal.type_str and not v.number]
    allowed = next(
        (c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == formal.type_str), [formal.type_str]
    )
    return builder.tensor(value, base, like=like, floating="tensor(int64)" not in allowed, vector=formal.name in VECTORS)


def _outputs(
    reader: NodeReader, thing: Any, schema: Any, attrs: Mapping[str, Any], inputs: Sequence[Value | None]
) -> tuple[int, bool]:
    """How many outputs there are, and whether their number means something."""
    if schema.outputs[-1].option != onnx.defs.OpSchema.FormalParameterOption.Variadic:
        return len(schema.outputs), False
    if schema.name == "Split" and "num_outputs" in attrs:
        return attrs["num_outputs"], True
    sizes = known(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else attrs.get("split", UNKNOWN)
    if sizes is not UNKNOWN:
        return len(np.atleast_1d(sizes)), True
    return max([k for k in outputs_read(reader.node, thing.id) if k is not None], default=0) + 1, True


def outputs_read(node: Any, name: str) -> Iterator[int | None]:
    """The outputs of a function that the texts of its node read; None is one that is not known."""
    for _, source in texts(node):
        try:
            tree = parse(source) if isinstance(source, str) else None
        except LoopError:  # said where the text is read
            continue
        parts = [] if tree is None else [*ast.walk(tree)]
        indexed: dict[ast.expr, ast.expr] = {each.value: each.slice for each in parts if isinstance(each, ast.Subscript)}
        for part in parts:
            if isinstance(part, ast.Name) and part.id == name:
                index = indexed.get(part)
                yield index.value if isinstance(index, ast.Constant) and type(index.value) is int else None


def texts(node: Any) -> Iterator[tuple[str, Any]]:
    """Every value of a node that may be an expression, with the id of what it belongs to."""
    for parameter in node.parameters:
        yield from ((parameter.id, getattr(parameter, key)) for key in ("value", "default_initial_value", "time_derivative"))
        yield from ((parameter.id, source) for source in (parameter.args or {}).values())
        for condition in parameter.conditions:
            parts = condition if isinstance(condition, dict) else {"test": condition.test, "value": condition.value}
            yield from ((parameter.id, parts.get(key)) for key in ("test", "value"))
    for function in node.functions:
        yield from ((function.id, source) for source in (function.value, *(function.args or {}).values()))
    yield from ((port.id, port.value) for port in node.output_ports)
    yield from ((port.id, default_value_of(port)) for port in node.input_ports)
