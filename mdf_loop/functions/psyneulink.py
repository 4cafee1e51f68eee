"""PsyNeuLink's functions, by what its documentation says of them: formulas and published defaults.

Each is one row: an expression, its steps in order, and the numbers that count where a model gives none.  Where the numbers of
PsyNeuLink 0.21 differ from its documentation the row has the numbers, and a comment says so.
"""

from __future__ import annotations

import re
from typing import Any

from mdf_loop.errors import UnsupportedOp
from mdf_loop.functions.drift_diffusion import ANALYTICAL, DECIDED
from mdf_loop.functions.function_rows import Row, row, written_out
from mdf_loop.functions.psyneulink_mechanisms import class_of, with_mechanism

_SCALED: dict[str, Any] = {"scale": 1.0, "offset": 0.0}
_SIGMOID: dict[str, Any] = {"gain": 1.0, "bias": 0.0, "x_0": 0.0, **_SCALED, "x": "gain * (variable0 + bias - x_0)"}
_EACH_OR_ALL = {True: "-1", False: "None"}
_UNIFORM = "numpy.random.uniform(0.0, 1.0)"
_NORMAL = "numpy.random.normal(0.0, 1.0, numpy.shape(variable0))"
_VECTOR = "numpy.reshape(variable0, (-1,))"
_LENGTH = "numpy.shape(variable0)[-1]"
_HOLLOW = f"1.0 - numpy.eye({_LENGTH})"

TRANSFER = {
    "identity": row("variable0"),
    "dropout": row("variable0"),  # which drops something during learning alone
    "linear": row("scale * (variable0 * slope + intercept) + offset", slope=1.0, intercept=0.0, **_SCALED),
    "exponential": row("scale * numpy.exp(rate * variable0 + bias) + offset", rate=1.0, bias=0.0, **_SCALED),
    "logistic": row("scale / (1 + numpy.exp(-x)) + offset", **_SIGMOID),
    "tanh": row("scale * numpy.tanh(x + offset)", **_SIGMOID),
    "relu": row(
        "scale * numpy.maximum(x, leak * x) + offset", x="gain * (variable0 - bias)", gain=1.0, bias=0.0, leak=0.0, **_SCALED
    ),
    "gaussian": row(  # its documentation divides by sqrt(2 pi) standard_deviation
        "scale * numpy.exp(-(((variable0 - bias) / standard_deviation) ** 2) / 2) / root + offset",
        root="numpy.sqrt(2 * math.pi * standard_deviation)",
        standard_deviation=1.0,
        bias=0.0,
        **_SCALED,
    ),
    "gaussiandistort": row(  # its variance is a standard deviation
        "scale * (variable0 + bias + variance * drawn) + offset", drawn=_NORMAL, variance=1.0, bias=0.0, **_SCALED
    ),
    "binomialdistort": row(
        "numpy.where(drawn < p, 0.0 * variable0, variable0)",
        drawn="numpy.random.uniform(0.0, 1.0, numpy.shape(variable0))",
        p=0.5,
    ),
    "normalize": row(
        "scale * variable0 / numpy.maximum(length, eps) + offset",
        length="numpy.sqrt(numpy.sum(variable0**2, axis={per_item}, keepdims=True))",
        eps=1e-12,
        per_item=_EACH_OR_ALL,
        **_SCALED,
    ),
}

_PLACE = "numpy.cumsum(best, axis=-1)"
_TIES = {
    "all": "best",
    "first": f"best & ({_PLACE} == 1)",
    "last": f"best & ({_PLACE} == numpy.sum(best, axis=-1, keepdims=True))",
    "random": f"best & ({_PLACE} == 1 + numpy.floor(drawn * numpy.sum(best, axis=-1, keepdims=True)))",
}
_BY_CHANCE = "(numpy.cumsum(shares, axis=-1) > drawn) & (numpy.cumsum(shares, axis=-1) - shares <= drawn)"


def _modes() -> dict[str, Any]:
    """The modes of OneHot: names for its other options, or choices by the probabilities in its second item."""
    chosen = "numpy.where({tie}, {indicator}, 0.0)"
    modes: dict[str, Any] = {"deterministic": chosen}
    modes["PROB"] = f"numpy.where({_BY_CHANCE}, variable0[0], 0.0)"
    modes["PROB_INDICATOR"] = f"numpy.where({_BY_CHANCE}, 1.0, 0.0)"
    for end in ("max", "min"):
        for size in ("", "_abs"):
            for indicator in ("", "_indicator"):
                options = {"direction": end, "abs_val": bool(size), "indicator": bool(indicator)}
                modes[f"arg_{end}{size}{indicator}"] = chosen, {"tie": "first", **options}
                modes[f"{end}{size}{indicator or '_val'}".upper()] = chosen, {"tie": "all", **options}
    return modes


SELECTION = {
    "softmax": row(
        "{output}",
        x="gain * variable0",
        powers="numpy.where(numpy.abs(x) >= mask_threshold, numpy.exp(x - numpy.max(x, axis={per_item}, keepdims=True)), 0.0)",
        total="numpy.sum(powers, axis={per_item}, keepdims=True)",
        shares="powers / numpy.where(total == 0, 1.0, total)",
        best="shares == numpy.max(shares, axis=-1, keepdims=True)",
        drawn=_UNIFORM,
        gain=1.0,
        mask_threshold=0.0,
        per_item=_EACH_OR_ALL,
        output={
            "all": "shares",
            "MAX_VAL": "numpy.where(best, shares, 0.0)",
            "MAX_INDICATOR": "numpy.where(best, 1.0, 0.0)",
            "arg_max": f"numpy.where({_TIES['first']}, shares, 0.0)",
            "arg_max_indicator": f"numpy.where({_TIES['first']}, 1.0, 0.0)",
            "PROB": f"numpy.where({_BY_CHANCE}, variable0, 0.0)",
            "PROB_INDICATOR": f"numpy.where({_BY_CHANCE}, 1.0, 0.0)",
        },
    ),
    "onehot": row(
        "{mode}",
        sizes="{abs_val}",
        best="sizes == {direction}(sizes, axis=-1, keepdims=True)",
        shares="variable0[1] / numpy.sum(variable0[1], axis=-1, keepdims=True)",
        drawn=_UNIFORM,
        mode=_modes(),
        direction={"max": "numpy.max", "min": "numpy.min"},
        abs_val={False: "variable0", True: "numpy.abs(variable0)"},
        indicator={False: "sizes", True: "1.0"},
        tie=_TIES,
    ),
}

_COMBINING: dict[str, Any] = {"weights": 1, "exponents": 1, **_SCALED}
_ITEMS = f"numpy.reshape(variable0, (-1, {_LENGTH}))"

TRANSFORM = {
    "linearcombination": row(
        "scale * {operation} + offset",
        items=f"{_ITEMS} ** exponents * weights",
        **_COMBINING,
        operation={
            "sum": "numpy.sum(items, axis=0)",
            "product": "numpy.prod(items, axis=0)",
            "cross-entropy": "items[0] * numpy.log(numpy.where((items[0] == 0) & (items[1] == 0), 1.0, items[1]))",
        },
    ),
    "reduce": row(
        "scale * {operation}(items, axis=-1) + offset",
        items=f"{_ITEMS} ** exponents * weights",
        **_COMBINING,
        operation={"sum": "numpy.sum", "product": "numpy.prod"},
    ),
    "combinemeans": row(
        "scale * {operation}(means ** exponents * weights) + offset",
        means=f"numpy.mean({_ITEMS}, axis=-1)",
        **_COMBINING,
        operation={"sum": "numpy.sum", "product": "numpy.prod"},
    ),
    "concatenate": row(f"scale * {_VECTOR} + offset", **_SCALED),
    "predictionerrordeltafunction": row(
        "numpy.concatenate([0.0 * sample[:1], reward[1:] + gamma * sample[1:] - sample[:-1]])",
        sample="numpy.reshape(variable0[0], (-1,))",
        reward="numpy.reshape(variable0[1], (-1,))",
        gamma=1.0,
    ),
}

_METRICS = {
    "difference": "numpy.sum(numpy.abs(one - other), axis=-1) / {normalize}",
    "max_abs_diff": "numpy.max(numpy.abs(one - other), axis=-1)",
    "dot_product": "numpy.sum(one * other, axis=-1) / {normalize}",
    "normed_L0_similarity": "(1 - numpy.sum(numpy.abs(one - other), axis=-1) / 4) / {normalize}",
    "euclidean": "numpy.sqrt(numpy.sum((one - other) ** 2, axis=-1)) / {normalize}",
    "correlation": "1 - numpy.abs(numpy.sum(left * right, axis=-1)) / (numpy.sqrt(numpy.sum(left**2, axis=-1))"
    " * numpy.sqrt(numpy.sum(right**2, axis=-1)))",
    "cosine": "1 - numpy.abs(numpy.sum(one * other, axis=-1)) / (numpy.sqrt(numpy.sum(one**2, axis=-1))"
    " * numpy.sqrt(numpy.sum(other**2, axis=-1)))",
    "cross-entropy": "-numpy.sum(one * numpy.log(numpy.where((one == 0) & (other == 0), 1.0, other)), axis=-1) / {normalize}",
    "energy": "-numpy.sum(one * other, axis=-1) / 2 / {normalize} ** 2",
}
_COMPARING: dict[str, Any] = {
    "left": "one - numpy.mean(one, axis=-1, keepdims=True)",
    "right": "other - numpy.mean(other, axis=-1, keepdims=True)",
    "normalize": {False: "1", True: _LENGTH},
    "transfer_fct": {"": ""},
}


def _stability(metric: str) -> Row:
    """The distance of a vector from what its matrix makes of it; without one, that of ones with zeros on its diagonal."""
    first = {metric: _METRICS[metric], **_METRICS, "entropy": _METRICS["cross-entropy"]}
    return row("{metric}", one="variable0", other="variable0 @ matrix", matrix=_HOLLOW, **_COMPARING, metric=first)


OBJECTIVE = {
    "distance": row("{metric}", one="variable0[0]", other="variable0[1]", **_COMPARING, metric=_METRICS),
    "stability": _stability("energy"),
    "energy": _stability("energy"),
    "entropy": _stability("cross-entropy"),
}

INTEGRATORS = {
    "simpleintegrator": row("previous_value + variable0 * rate + noise + offset", rate=1.0, noise=0.0, offset=0.0),
    "adaptiveintegrator": row("(1 - rate) * previous_value + rate * variable0 + noise + offset", rate=1.0, noise=0.0, offset=0.0),
    "accumulatorintegrator": row("previous_value * rate + noise + increment", rate=1.0, noise=0.0, increment=0.0),
    "leakycompetingintegrator": row(
        "previous_value + (variable0 - rate * previous_value) * time_step_size + noise * numpy.sqrt(time_step_size) + offset",
        rate=1.0,
        noise=0.0,
        offset=0.0,
        time_step_size=0.1,
    ),
    "interactiveactivationintegrator": row(
        "previous_value + rate * (variable0 + noise) * way - decay * (previous_value - rest)",
        way="numpy.where(variable0 > 0, max_val - previous_value, numpy.where(variable0 < 0, previous_value - min_val, 0.0))",
        rate=1.0,
        noise=0.0,
        decay=0.0,
        rest=0.0,
        max_val=1.0,
        min_val=-1.0,
    ),
    "ornsteinuhlenbeckintegrator": row(
        "previous_value + (decay * previous_value - rate * variable0) * time_step_size"
        " + numpy.sqrt(time_step_size * noise) * drawn + offset",
        drawn=_NORMAL,
        rate=1.0,
        noise=0.0,
        decay=1.0,
        offset=0.0,
        time_step_size=1.0,
    ),
    "dualadaptiveintegrator": row(  # its documentation has rate * variable + (1 - rate) * last, and adds the biases
        "{operation} + offset",
        short_term_average="short_term_rate + (variable0 - short_term_rate) * last_short_term_average",
        long_term_average="long_term_rate + (variable0 - long_term_rate) * last_long_term_average",
        s="1 - 1 / (1 + numpy.exp(short_term_bias - short_term_gain * short_term_average))",
        l="1 / (1 + numpy.exp(long_term_bias - long_term_gain * long_term_average))",
        short_term_rate=0.9,
        long_term_rate=0.1,
        initial_short_term_avg=0.0,
        initial_long_term_avg=0.0,
        short_term_gain=1.0,
        long_term_gain=1.0,
        short_term_bias=0.0,
        long_term_bias=0.0,
        offset=0.0,
        operation={"product": "s * l", "sum": "s + l", "s-l": "s - l", "l-s": "l - s"},
        state={"short_term_average": "initial_short_term_avg", "long_term_average": "initial_long_term_avg"},
    ),
    "buffer": row(
        "numpy.concatenate([previous_value * rate + noise, numpy.reshape(variable0, (1, -1))])[-history:]",
        rate=1.0,
        noise=0.0,
        history=2**31,
    ),
}

DISTRIBUTIONS = {
    "normaldist": row("mean + standard_deviation * drawn", drawn=_NORMAL, mean=0.0, standard_deviation=1.0),
    "uniformtonormaldist": row("mean + standard_deviation * drawn", drawn=_NORMAL, mean=0.0, standard_deviation=1.0),
    "uniformdist": row(
        "low + (high - low) * drawn", drawn="numpy.random.uniform(0.0, 1.0, numpy.shape(variable0))", low=0.0, high=1.0
    ),
    "exponentialdist": row(
        "-beta * numpy.log(1 - drawn)", drawn="numpy.random.uniform(0.0, 1.0, numpy.shape(variable0))", beta=1.0
    ),
    "gammadist": row("numpy.random.gamma(dist_shape, scale, numpy.shape(variable0))", dist_shape=1.0, scale=1.0),
    "walddist": row(  # by the roots of Michael, Schucany and Haas (1976)
        "numpy.where(drawn * (mean + root) <= mean, root, mean**2 / root)",
        squared="mean * numpy.random.normal(0.0, 1.0, numpy.shape(variable0)) ** 2",
        root="mean + mean * (squared - numpy.sqrt(4 * scale * squared + squared**2)) / (2 * scale)",
        drawn="numpy.random.uniform(0.0, 1.0, numpy.shape(variable0))",
        mean=1.0,
        scale=1.0,
    ),
}

_PART = "(variable0 / duration) ** rate"

TIMERS = {
    "lineartimer": row("(final - initial) / duration * variable0 + initial", initial=1.0, final=0.0, duration=1.0),
    "acceleratingtimer": row(
        "initial + (final - initial) * part * numpy.exp(part - 1)", part=_PART, initial=1.0, final=0.0, duration=1.0, rate=1.0
    ),
    "deceleratingtimer": row(
        "gap / numpy.exp(numpy.log(-way * gap) * part) + final + way",
        part=_PART,
        way="numpy.where(final > initial, 1.0, -1.0)",
        gap="initial - final - way",
        initial=1.0,
        final=0.0,
        duration=1.0,
        rate=1.0,
    ),
    "asymptotictimer": row(
        "(initial - final) * numpy.exp(variable0 * numpy.log(tolerance) / duration) + final",
        initial=1.0,
        final=0.0,
        duration=1.0,
        tolerance=0.01,
    ),
}

_HEBBIAN = row(f"learning_rate * numpy.outer(x, x) * ({_HOLLOW})", x=_VECTOR, learning_rate=0.05)

LEARNING = {"hebbian": _HEBBIAN, "contrastivehebbian": _HEBBIAN}

FUNCTIONS: dict[str, Row] = {
    **TRANSFER,
    **SELECTION,
    **TRANSFORM,
    **OBJECTIVE,
    **INTEGRATORS,
    **DISTRIBUTIONS,
    **TIMERS,
    **LEARNING,
    "driftdiffusionanalytical": ANALYTICAL,
}
"""The functions by the names that models call them by: those of PsyNeuLink's classes in small letters."""


# MDF computes ONNX's functions in float32, PsyNeuLink in float64
_PROJECTED = Row("numpy.matmul(A, B)")


def row_of(thing: Any, node: Any) -> Row | None:
    """The row of a function or parameter of a node; None if it names none of these functions.

    MDF has functions of some of these names that mean less: they are PsyNeuLink's where their metadata say so, as it writes them.
    Where it writes the expression of a function of its own, arguments that are lists are in the metadata only.

    Raises
    ------
    UnsupportedOp
        PsyNeuLink wrote a function that there is not.
    """
    if thing.function is None and class_of(thing).lower() in FUNCTIONS and isinstance(thing.value, str):
        return _with_lists(thing, node)
    if thing.function == "onnx::MatMul" and class_of(thing) == "MatrixTransform":
        return _PROJECTED
    found = FUNCTIONS.get(thing.function) if isinstance(thing.function, str) else None
    if found is None:
        _refuse_unknown(thing, node)
        return None
    if is_of_mdf(thing.function) and class_of(thing).lower() != thing.function:
        return None
    return DECIDED if found is ANALYTICAL and class_of(node) == "DDM" else found


def _refuse_unknown(thing: Any, node: Any) -> None:
    """See that a function that PsyNeuLink wrote is one that there is.

    Raises
    ------
    UnsupportedOp
        It has no expression, or is one in Python; MDF's engine would read its name as an expression.
    """
    kind, name = class_of(thing), thing.function
    is_name = isinstance(name, str) and (name.isidentifier() or kind == "UserDefinedFunction")
    if kind != "None" and thing.value is None and is_name and not is_of_mdf(name):
        is_python = kind == "UserDefinedFunction"
        why = "it is in Python, of which an export has the name alone" if is_python else f"PsyNeuLink's {kind} has no expression"
        raise UnsupportedOp(f"{node.id}/{thing.id}: there is no function {name!r}: {why}; write value: with an expression")


def _with_lists(thing: Any, node: Any) -> Row | None:
    """An expression that an export wrote, with those of its arguments that are in the metadata; None if it has all."""
    known = {*(thing.args or ()), *(part.id for part in (*node.input_ports, *node.functions, *node.parameters))}
    names = set(re.findall(r"\w+", thing.value)) - known
    lists = {name: thing.metadata[name] for name in sorted(names) if isinstance(thing.metadata.get(name), list)}
    if class_of(thing) == "AccumulatorIntegrator" and "variable0" in known:  # it takes nothing but the shape of its variable
        return Row(f"{thing.value} + numpy.zeros(numpy.shape(variable0))", defaults=lists)
    if class_of(thing) == "LeakyCompetingIntegrator" and "offset" in (thing.args or {}) and "offset" not in names:
        return Row(f"{thing.value} + offset", defaults=lists)
    return Row(thing.value, defaults=lists) if lists and "{" not in thing.value else None


def is_of_mdf(name: str) -> bool:
    """Whether MDF's table has a function of this name that we did not put there."""
    from modeci_mdf.functions.standard import mdf_functions

    entry = mdf_functions.get(name)
    return entry is not None and entry.get("description") != _described(name)


def entries() -> dict[str, dict[str, Any]]:
    """What MDF's table of functions says of these, but for those that it has."""
    return {
        name: {
            "description": _described(name),
            "arguments": ["variable0"],
            "expression_string": f"{name}(variable0)",
            "function": None,
        }
        for name in FUNCTIONS
        if not is_of_mdf(name)
    }


def functions_of_nodes() -> dict[str, str]:
    """The functions that nodes call, MDF's and these, with the expression of each; in words, where options decide about it."""
    from modeci_mdf.functions.standard import mdf_functions

    texts = {name: made.value for name, made in FUNCTIONS.items()}
    texts |= {name: each["expression_string"] for name, each in mdf_functions.items() if "::" not in name and each["function"]}
    return {name: mdf_functions[name]["description"] if "{" in text else text for name, text in sorted(texts.items())}


def _described(name: str) -> str:
    return f"PsyNeuLink's {name}, run by mdf_loop"


def plain(node: Any) -> Any:
    """A node with expressions where it names these functions; the node itself if it names none."""
    return written_out(with_mechanism(node), row_of)
