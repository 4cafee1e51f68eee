"""From the stepped part of a plan to straight-line Python, specialised to the kinds of its values.

What is emitted holds names and numbers made here, never a string of the model::

    def part(n, run, once, streams, carried, rows):
        u0, u1, w0, w1 = once
        x0, x1 = carried
        l0 = []; keep0 = l0.append
        for s0, in zip(*streams):
            v0 = x0 * u0
            ...
            keep0(v0)
            x0, x1 = v0, v1
        return done, going, True, (x0, x1), (l0,)

``u`` is what stays the same (``w`` as numpy has it, ``p`` brought to a larger shape), ``s`` what was computed before
for each iteration, ``x`` and ``z`` what goes round (in inner loops), ``v`` what an operator gives, ``g``, ``h``,
``m``, ``y`` and ``r`` buffers, ``j`` places in an array, ``k`` kernels.
Anything unexpected (a kind that changed, Python's own errors) raises: the block is then run by the interpreter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdf_loop.batching import elementwise
from mdf_loop.execute import reductions
from mdf_loop.execute.arrays import to_spread, write_call
from mdf_loop.execute.calls import Calls
from mdf_loop.execute.convolutions import write_convolution
from mdf_loop.execute.counting import MOST, count_up
from mdf_loop.execute.exponentials import OPERATORS, write_exponentials
from mdf_loop.execute.kinds import (
    ARRAY,
    BOOL,
    FLOAT,
    FROM_KERNEL,
    INT,
    INT64,
    OTHER,
    SCALAR,
    TO_KERNEL,
    TRUTH,
    Changed,
    Kind,
    into,
    kind_of_value,
)
from mdf_loop.execute.rounds import read_once
from mdf_loop.execute.scalars import Operand, takes_any_range, write_expression
from mdf_loop.execute.source import Source
from mdf_loop.execute.updates import FUNCTIONS as UPDATES
from mdf_loop.execute.updates import Behind, is_scatter, write_scatter
from mdf_loop.execute.views import SHAPES, VIEWS, from_end, write_gather, write_single, write_view
from mdf_loop.ir import Body, Node
from mdf_loop.registry import Bound, known_as

LARGEST = 2**63 - 1
REDUCING = (*reductions.UFUNCS, *OPERATORS)
LONGEST = 100
"""Characters of an expression that stays within another one."""


class CannotEmit(Exception):
    """Something that emitted code has no form for."""


Scope = dict[str, Operand]
Control = Callable[["Emitter", Node, Scope, Mapping[str, Any]], bool]


class Emitter:
    """Writes nodes, one after the other, into a source.

    Parameters
    ----------
    source : Source
    calls : Calls
    targets : mapping
        For values to be written into a buffer: the name of the buffer.
    control : callable
        Writes an If or a Loop; False if it cannot.
    """

    def __init__(self, source: Source, calls: Calls, targets: Mapping[str, str], control: Control) -> None:
        self.source, self.calls, self.targets, self.control = source, calls, targets, control
        self.prologue: dict[str, str] = {}
        self.spreads: dict[tuple[str, tuple[int, ...]], str] = {}
        self.fixed: Collection[str] = ()
        self.once: Collection[str] = ()
        self.renames: Mapping[str, str] = {}
        self.growing: Collection[str] = ()
        self.products: Mapping[str, str] = {}
        self.places: dict[tuple[str, int], str] = {}
        self.dots: set[str] = set()
        self.counters: Mapping[str, Sequence[Node]] = {}
        self.flags: set[str] = set()
        self.epilogue: list[str] = []

    def nodes(
        self,
        nodes: Sequence[Node],
        scope: Scope,
        samples: Mapping[str, Any],
        kept: Collection[str],
        renames: Mapping[str, str] | None = None,
    ) -> None:
        """Write nodes; ``scope`` gets their outputs, ``samples`` says what their values look like.

        ``kept`` are the values that are wanted after the nodes; others that are read once stay expressions.
        ``renames`` are the variables into which some are written.
        """
        outer = self.once, self.renames, self.products, self.places
        self.places = dict(self.places)  # what comes before holds inside as well, but not the other way round
        self.renames = renames or {}
        self.once = read_once(nodes, kept, self.renames)
        self.products = reductions.dot_products(nodes, kept)
        try:
            for node in nodes:
                self._node(node, scope, samples)
        finally:
            self.once, self.renames, self.products, self.places = outer

    @contextlib.contextmanager
    def inside(self, body: Body) -> Iterator[None]:
        """Write nodes of a body inside the body: what is known of names outside does not hold for those that it uses anew."""
        outer = self.targets, self.counters, self.flags, self.dots, self.fixed, self.growing
        own = {*body.inputs, *body.constants, *(name for node in body.nodes for name in node.outputs)}
        self.targets, self.counters, self.flags, self.dots = {}, {}, set(), set()
        self.fixed, self.growing = set(self.fixed) - own, set(self.growing) - own
        try:
            yield
        finally:
            self.targets, self.counters, self.flags, self.dots, self.fixed, self.growing = outer

    def _node(self, node: Node, scope: Scope, samples: Mapping[str, Any]) -> None:
        domain = known_as(node)[0]
        if node.op == "Identity" and domain == "" and node.outputs[0]:
            scope[node.outputs[0]] = scope[node.inputs[0]]
            return
        if any(True for _ in node.bodies):
            if not (domain == "" and node.op in ("If", "Loop") and self.control(self, node, scope, samples)):
                self._call(node, scope, samples)
            return
        if len([name for name in node.outputs if name]) == 1 and node.outputs[0] and all(node.inputs):
            args = [scope[name] for name in node.inputs]
            kind = self._kind(node.outputs[0], args, samples)
            if node.op == "Mul" and self._dot(node, args, scope, samples):
                return
            if self._counted(node, args, kind, scope, samples):
                return
            if self._expression(node, domain, args, kind, scope) or self._buffered(node, domain, args, kind, scope):
                return
            if self._element(node, domain, args, kind, scope) or self._reduced(node, domain, args, kind, scope, samples):
                return
            if self._convolved(node, domain, args, kind, scope):
                return
        if domain == "" and node.op in VIEWS and self._viewed(node, scope, samples):
            return
        if node.outputs[0] in self.targets and is_scatter(node) and self._written_into(node, scope):
            return
        if (domain, node.op) == ("", "Concat") and self._put_behind(node, scope, samples):
            return
        self._call(node, scope, samples)

    def _kind(self, name: str, args: Sequence[Operand], samples: Mapping[str, Any]) -> Kind:
        """The kind of an output; its shape is open where that of an input is."""
        kind = self.calls.kind(samples[name])
        if kind.form == ARRAY and any(arg.kind.is_open or arg.kind.form == OTHER for arg in args):
            return Kind(ARRAY, kind.dtype, None)
        return kind

    def _expression(self, node: Node, domain: str, args: list[Operand], kind: Kind, scope: Scope) -> bool:
        if node.attrs and node.op not in ("Cast",):
            return False
        if not (kind.form == INT and takes_any_range(domain, node.op)):  # a float made of it does not wrap any more
            args = [self.checked(arg) for arg in args]
        if kind.form == INT and not kind.weak:
            args = [self.bounded(arg) for arg in args]
        written = write_expression(domain, node.op, args, kind)
        if written is None:
            return False
        if any(arg.inline and written[0].count(arg.text) != 1 for arg in args):
            args = [self.named(arg) for arg in args]
            written = write_expression(domain, node.op, args, kind)
            assert written is not None
        text, unchecked = written
        if node.outputs[0] in self.once and len(text) < LONGEST:
            scope[node.outputs[0]] = Operand(f"({text})", kind, unchecked=unchecked, inline=True)
        else:
            name = self.renames.get(node.outputs[0])
            scope[node.outputs[0]] = self.named(Operand(text, kind, unchecked=unchecked, inline=True), name)
        return True

    def named(self, operand: Operand, name: str | None = None) -> Operand:
        """An expression under a name of its own."""
        if not operand.inline:
            return operand
        name = name or self.source.fresh("v")
        text = operand.text
        self.source.line(f"{name} = {text}")
        return replace(operand, text=name, inline=False)

    def _buffered(self, node: Node, domain: str, args: list[Operand], kind: Kind, scope: Scope) -> bool:
        target = self.targets.get(node.outputs[0])
        if target is None:
            return False
        op, args = node.op, [self.checked(arg) for arg in args]
        if op == "Relu" and domain == "" and kind.dtype is not None and kind.dtype.kind == "f":
            zero = np.zeros((), kind.dtype)
            op, args = "Max", [*args, Operand("0.0", kind_of_value(zero), box=self.source.given("b", zero), fixed=True)]
        if write_call(domain, op, node.attrs, args, kind, target) is None:
            return False
        args = [self.spread(arg, kind) if to_spread(domain, op, arg, kind) else self.dimensionless(arg) for arg in args]
        statements = write_call(domain, op, node.attrs, args, kind, target)
        assert statements is not None
        for text, names in statements:
            self.source.names.update(names)
            self.source.line(text.replace("{out}", target))
        scope[node.outputs[0]] = Operand(target, kind)
        return True

    def _element(self, node: Node, domain: str, args: list[Operand], kind: Kind, scope: Scope) -> bool:
        """``data[i]``: of a vector that does not change, as a list; else a view."""
        if (domain, node.op) != ("", "Gather"):
            return False
        data, index = args[0], self.checked(args[1])
        if data.listed and kind.is_number and index.kind.form == INT:
            scope[node.outputs[0]] = self.named(Operand(f"{data.listed}[{index.text}]", kind, inline=True))
            return True
        text = write_gather(node, data, index, kind, self.place)
        if text is None:
            return False
        scope[node.outputs[0]] = self.named(Operand(text, kind, inline=True))
        return True

    def place(self, index: Operand, size: int) -> str:
        """The name of a whole number in range(size): the element of an index, which may count from the end."""
        key = index.element or index.text, size
        if key not in self.places:
            name = self.places[key] = self.source.fresh("j")
            self.source.names["from_end"] = from_end
            self.source.line(f"{name} = {index.element or f'{index.text}.item()'}")
            self.source.line(f"if not 0 <= {name} < {size}: {name} = from_end({name}, {size})")
        return self.places[key]

    def _reduced(
        self, node: Node, domain: str, args: list[Operand], kind: Kind, scope: Scope, samples: Mapping[str, Any]
    ) -> bool:
        """A sum, product, mean or extreme along axes that do not change."""
        if node.inputs and node.inputs[0] in self.dots:
            scope[node.outputs[0]] = args[0]
            return True
        if domain or node.op not in REDUCING or not all(name in self.fixed for name in node.inputs[1:]):
            return False
        axes = samples[node.inputs[1]] if len(node.inputs) > 1 else node.attrs.get("axes")
        target = self.targets.get(node.outputs[0])
        written = None
        if node.op in reductions.UFUNCS:
            written = reductions.write_reduction(node, args[0], axes, kind, target)
        elif target is not None:
            written = write_exponentials(node, args[0], axes, kind)
        if written is None:
            return False
        self._write(written, target or "", kind)
        if written.expression:
            scope[node.outputs[0]] = self.named(Operand(written.expression, kind, inline=True))
        else:
            scope[node.outputs[0]] = Operand(target or "", kind)
        return True

    def _write(self, written: reductions.Written, target: str, kind: Kind) -> None:
        """Lines with names of their own for what is made before the loop."""
        self.source.names.update(written.names)
        stands_for = {"{out}": target, "{dtype}": self.source.given("d_", kind.dtype)}
        stands_for |= {place: self.source.given("c", value) for place, value in written.given.items()}

        def filled(text: str) -> str:
            for place, name in stands_for.items():
                text = text.replace(place, name)
            return text

        for place, made in written.prologue.items():
            stands_for[place] = self.source.fresh("m")
            self.prologue[stands_for[place]] = filled(made)
        for line in written.lines:
            self.source.line(filled(line))

    def _convolved(self, node: Node, domain: str, args: list[Operand], kind: Kind, scope: Scope) -> bool:
        target = self.targets.get(node.outputs[0])
        written = write_convolution(node, args, kind) if (domain, node.op) == ("", "Conv") and target else None
        if written is None or target is None:
            return False
        self._write(written, target, kind)
        scope[node.outputs[0]] = Operand(target, kind)
        return True

    def _counted(self, node: Node, args: list[Operand], kind: Kind, scope: Scope, samples: Mapping[str, Any]) -> bool:
        """Flags made numbers only to be counted, the sum that counts them, and the question whether there is any."""
        output = node.outputs[0]
        if output in self.counters:
            counts = [(self.calls.kind(samples[total.outputs[0]]), total.outputs[0]) for total in self.counters[output]]
            is_whole = kind.dtype == INT64 and bool(kind.shape) and args[0].kind == Kind(ARRAY, TRUTH, kind.shape)
            if is_whole and all(total == kind and self.targets.get(name, "").startswith("x") for total, name in counts):
                self.flags.add(output)
                scope[output] = args[0]
                return True
            return False
        if not self.flags.intersection(node.inputs):
            return False
        flags = next(scope[name] for name in node.inputs if name in self.flags)
        if node.op == "ReduceMax":
            scope[output] = self.named(Operand(f"{flags.text}.item({flags.text}.argmax())", kind, inline=True))  # True is 1
        else:
            scope[output] = self._count(flags, self.targets[output], kind)
        return True

    def _count(self, flags: Operand, total: str, kind: Kind) -> Operand:
        counted, left, text = self.source.fresh("m"), self.source.fresh("left"), f"{flags.text}.view(uint8)"
        self.source.names.update(zeros=np.zeros, uint8=np.uint8, add=np.add, count_up=count_up)
        self.prologue |= {counted: f"zeros({kind.shape!r}, uint8)", left: str(MOST)}
        if flags.text in self.targets.values() and not flags.text.startswith(("y", "r")):  # these are not always the same
            view = self.source.fresh("m")
            self.prologue[view], text = text, view
        self.source.line(f"add({counted}, {text}, {counted})")
        self.source.line(f"{left} -= 1")
        self.source.line(f"if not {left}: {left} = count_up({total}, {counted})")
        self.epilogue.append(f"count_up({total}, {counted})")
        return Operand(total, kind)

    def _dot(self, node: Node, args: list[Operand], scope: Scope, samples: Mapping[str, Any]) -> bool:
        """A product of which only the sum is wanted: the sum, in its place."""
        total = self.products.get(node.outputs[0])
        kind = self.calls.kind(samples[total]) if total else Kind(OTHER)
        text = reductions.write_dot(args, kind) if total and not node.domain else None
        if text is None:
            return False
        scope[node.outputs[0]] = self.named(Operand(text, kind, inline=True))
        self.dots.add(node.outputs[0])
        return True

    def _viewed(self, node: Node, scope: Scope, samples: Mapping[str, Any]) -> bool:
        if not all(name in self.fixed for name in node.inputs[1:] if name) or not all(node.outputs):
            return False
        kinds = [self._kind(name, [scope[node.inputs[0]]], samples) for name in node.outputs]
        if node.op in SHAPES and self._made_single(node, scope, kinds[0]):
            return True
        others = [samples[name] if name else None for name in node.inputs[1:]]
        written = write_view(node, scope[node.inputs[0]], others, kinds)
        if written is None:
            return False
        texts, at = written
        texts = [text.replace("{at}", self.source.given("at", at)) if at is not None else text for text in texts]
        for name, text, kind in zip(node.outputs, texts, kinds, strict=True):
            scope[name] = self.named(Operand(text, kind, inline=True))
        return True

    def _made_single(self, node: Node, scope: Scope, kind: Kind) -> bool:
        """A number as an array of one element: whoever wants the number itself still finds it."""
        number = self.named(self.checked(scope[node.inputs[0]]))
        text = write_single(number, kind, self.source.given("d_", kind.dtype))
        if text is None:
            return False
        if number.text in self.renames.values():  # and so may be another one later in the iteration
            number = replace(number, text=self.source.fresh("v"))
            self.source.line(f"{number.text} = {scope[node.inputs[0]].text}")
            text = write_single(number, kind, self.source.given("d_", kind.dtype))
        self.source.names["array"] = np.array
        scope[node.outputs[0]] = Operand(text or "", kind, element=number.text, inline=True)
        return True

    def _written_into(self, node: Node, scope: Scope) -> bool:
        """A scatter into what goes round, which nobody else wants."""
        data, index, updates = (self.checked(scope[name]) for name in node.inputs)
        if data.text != self.targets[node.outputs[0]]:
            return False
        line = write_scatter(node, (data, index, updates), self.place)
        if line is None:
            return False
        self.source.names.update(UPDATES)
        self.source.line(line)
        scope[node.outputs[0]] = data
        return True

    def _put_behind(self, node: Node, scope: Scope, samples: Mapping[str, Any]) -> bool:
        """Rows behind an array that grows from iteration to iteration."""
        args = [scope[name] for name in node.inputs if name]
        if len(args) != 2 or any(arg.kind.form != ARRAY for arg in args) or args[0].kind.shape is not None:
            return False
        if node.attrs.get("axis") != 0 or node.inputs[0] not in self.growing:
            return False
        name = self.source.fresh("behind")
        self.source.names["Behind"] = Behind
        self.prologue[name] = "Behind()"
        text = f"{name}({', '.join(arg.text for arg in args)})"
        kind = self._kind(node.outputs[0], args, samples)
        scope[node.outputs[0]] = self.named(Operand(text, kind, inline=True))
        return True

    def checked(self, operand: Operand) -> Operand:
        """A whole number in the range of int64, into which it is wrapped if it left it."""
        if not operand.unchecked:
            return operand
        operand = self.named(operand)
        wrap = self.source.given("wrapped_", wrapped)
        self.source.line(f"if not -{LARGEST} <= {operand.text} <= {LARGEST}: {operand.text} = {wrap}({operand.text})")
        return Operand(operand.text, operand.kind)

    def bounded(self, operand: Operand) -> Operand:
        """A whole number of Python's that numpy can work with; it would raise for others, and so does this."""
        if operand.kind.form != INT or not operand.kind.weak or (operand.number is not None and abs(operand.number) <= LARGEST):
            return operand
        operand = self.named(operand)
        self.source.line(f"if not -{LARGEST} <= {operand.text} <= {LARGEST}: raise Changed")
        return operand

    def _call(self, node: Node, scope: Scope, samples: Mapping[str, Any]) -> None:
        """Call a kernel as the interpreter does."""
        bound = self.calls(node)[0]
        args = [scope[name] if name else None for name in (*node.inputs, *node.captures)]
        texts = ["run"] * bound.needs_run + [self.boxed(arg) if arg else "None" for arg in args]
        call = f"{self.source.given('k', bound.call)}({', '.join(texts)})"
        wanted = node.outputs[: max((k + 1 for k, name in enumerate(node.outputs) if name), default=0)]
        shaped = [arg for arg in args if arg is not None]
        if len(wanted) == 1:
            self._one_result(node, bound, call, wanted[0], self._kind(wanted[0], shaped, samples), scope)
            return
        names = [self.source.fresh("v") for _ in wanted]
        self.source.line(f"{', '.join(names)}, *_ = {call}" if wanted else call)
        for name, output in zip(names, wanted, strict=True):
            if output:
                scope[output] = self.unboxed(name, self._kind(output, shaped, samples), True)

    def _one_result(self, node: Node, bound: Bound, call: str, output: str, kind: Kind, scope: Scope) -> None:
        name = self.source.fresh("v")
        self.source.line(f"{name} = {call}")
        entry = self.calls(node)[1]
        plain = entry.built_in and entry.batch is elementwise and not list(node.bodies)
        if not plain:
            self.source.line(f"if type({name}) is tuple: {name} = {name}[0]")
        scope[output] = self.unboxed(name, kind, not plain)

    def dimensionless(self, operand: Operand) -> Operand:
        """A number as an array without dimensions, which a ufunc takes in half the time."""
        if operand.box or operand.kind.form not in (FLOAT, INT, SCALAR) or operand.kind.dtype is None:
            return operand
        name = self.source.fresh("g")
        self.source.names["empty"] = np.empty
        self.prologue[name] = f"empty((), {self.source.given('d_', operand.kind.dtype)})"
        self.source.line(f"{name}[()] = {operand.text}")
        return replace(operand, box=name)

    def spread(self, operand: Operand, kind: Kind) -> Operand:
        """A value that stays the same, in the shape of what it is combined with."""
        key = operand.boxed, kind.shape or ()
        if key not in self.spreads:
            self.spreads[key] = self.source.fresh("p")
            self.source.names["spread"] = spread
            self.prologue[self.spreads[key]] = f"spread({operand.boxed}, {kind.shape!r})"
        return replace(operand, box=self.spreads[key], kind=replace(operand.kind, shape=kind.shape))

    def boxed(self, operand: Operand) -> str:
        """A value as kernels take it."""
        kind = operand.kind
        if not operand.box and kind.is_number and not kind.weak:
            operand = self.checked(operand)
            text = f"{self.source.given(f'{kind.form}_', TO_KERNEL[kind.form])}({operand.text})"
        else:
            text = operand.boxed
        return f"{self.source.given('asarray_', np.asarray)}({text})" if kind.is_array and not operand.box else text

    def unboxed(self, name: str, kind: Kind, check_shape: bool) -> Operand:
        """What a kernel gave, as it lives in emitted code."""
        if kind.is_number and kind.weak:
            python = {FLOAT: "float", INT: "int", BOOL: "bool"}[kind.form]
            self.source.line(f"if type({name}) is not {python}: raise Changed")
        elif self.calls.exact and (kind.is_number or kind.form == SCALAR):
            self.source.line(f"{name} = {self.source.given('into_', into(kind, exact=True))}({name})")
        elif kind.is_number:
            self.source.line(f"{name} = {self.source.given(f'as_{kind.form}_', FROM_KERNEL[kind.form])}({name})")
        elif kind.form == SCALAR:
            assert kind.dtype is not None
            self.source.line(
                f"if type({name}) is not {self.source.given('t', kind.dtype.type)}: {name} = {self.scalar(kind)}({name})"
            )
        elif kind.is_open:
            dtype, array = self.source.given("d", kind.dtype), self.source.given("ndarray_", np.ndarray)
            self.source.line(f"if type({name}) is not {array} or {name}.dtype != {dtype} or not {name}.ndim: raise Changed")
        elif kind.form == ARRAY and check_shape:
            dtype, shape = self.source.given("d", kind.dtype), kind.shape
            self.source.line(f"if {name}.shape != {shape!r} or {name}.dtype != {dtype}: raise Changed")
        return Operand(name, kind)

    def scalar(self, kind: Kind) -> str:
        """The name of a function that makes a scalar of numpy from an array without dimensions."""

        def as_scalar(value: Any) -> Any:
            if not isinstance(value, np.ndarray | np.generic) or value.shape != () or value.dtype != kind.dtype:
                raise Changed
            return value.dtype.type(value)

        return self.source.given("as_scalar_", as_scalar)


def spread(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A copy of a value in the shape that broadcasting would give it."""
    return np.broadcast_to(value, shape).copy()


def wrapped(value: int) -> int:
    """What is left of a whole number in 64 bits."""
    return (value + (LARGEST + 1)) % (2 * (LARGEST + 1)) - (LARGEST + 1)
