"""Random changes of protobufs, field by field: what a fuzzer of files makes, and what no file can hold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

INTS = (-(2**63), -1, 0, 1, 2, 3, 7, 13, 16, 999, 2**40, 2**63 - 1)
FLOATS = (0.0, -1.0, 1e300, float("nan"), float("inf"))
BYTES = (b"", b"\xff\xfe", b"12345", b"x" * 40)
TEXTS = ("", "nowhere", "ai.onnx", "ai.onnx.ml", "com.microsoft", "mdf.engine", "record", "x" * 300, "a b\n'\"{", "é")
TEXTS += ("Loop", "If", "Scan", "Add", "Mul", "Gather", "ReduceSum", "Constant", "../../x", "__import__('os')")


def mutated(message: Any, rng: random.Random, count: int) -> Any:
    """A copy of a protobuf with so many changes."""
    copy = type(message)()
    copy.CopyFrom(message)
    for _ in range(count):
        _change(copy, rng)
    return copy


def _messages(message: Any) -> Iterator[Any]:
    """A message and all messages in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from _messages(inner)


def _change(root: Any, rng: random.Random) -> None:
    messages = list(_messages(root))
    message = rng.choice(messages)
    present = [field for field, _ in message.ListFields()]
    fields = present if present and rng.random() < 0.8 else list(message.DESCRIPTOR.fields)
    field = rng.choice(fields)
    if rng.random() < 0.2:
        message.ClearField(field.name)
    elif field.is_repeated:
        _change_list(message, field, messages, rng)
    elif field.message_type is not None:
        _take_over(getattr(message, field.name), messages, rng)
    else:
        _set(message, field, _value(field, messages, rng))


def _set(message: Any, field: Any, value: Any) -> None:
    try:
        setattr(message, field.name, value)
    except ValueError:
        message.ClearField(field.name)  # the number is too large for the field


def _change_list(message: Any, field: Any, messages: list[Any], rng: random.Random) -> None:
    """Take an item away, put one in, say one twice, or change their order."""
    items = getattr(message, field.name)
    kind = rng.randrange(4)
    if kind == 0 and len(items):
        del items[rng.randrange(len(items))]
    elif field.message_type is not None:
        if kind == 1 or not len(items):
            _take_over(items.add(), messages, rng)
        else:
            items.add().CopyFrom(rng.choice(items))
            if kind == 3:
                order = [type(item).FromString(item.SerializeToString()) for item in items]
                rng.shuffle(order)
                del items[:]
                items.extend(order)
    else:
        values = list(items)
        if kind == 1 or not values:
            values.insert(rng.randint(0, len(values)), _value(field, messages, rng))
        elif kind == 2:
            values[rng.randrange(len(values))] = _value(field, messages, rng)
        else:
            values += values[:1]
            rng.shuffle(values)
        try:
            items[:] = values
        except ValueError:
            del items[:]


def _take_over(message: Any, messages: list[Any], rng: random.Random) -> None:
    """Become another message of the same type."""
    others = [other for other in messages if type(other) is type(message) and other is not message]
    if others:
        other = type(message)()
        other.CopyFrom(rng.choice(others))
        if other.ByteSize() < 5000:
            message.CopyFrom(other)


def _value(field: Any, messages: list[Any], rng: random.Random) -> Any:
    """A value for a field: another one of its kind in the message, or an odd one."""
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.choice(FLOATS)
    if field.type == field.TYPE_BYTES:
        return rng.choice(BYTES)
    if field.type == field.TYPE_STRING:
        names = [value for message in messages for kind, value in message.ListFields() if kind.type == kind.TYPE_STRING]
        flat = [text for value in names for text in ([value] if isinstance(value, str) else value)]
        return rng.choice(flat) if flat and rng.random() < 0.6 else rng.choice(TEXTS)
    if field.enum_type is not None and rng.random() < 0.9:
        return rng.choice(field.enum_type.values).number
    return rng.choice(INTS)
