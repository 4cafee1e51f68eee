"""What people write in the notations of other languages and of mathematics, and how equations have it: hints for messages."""

from __future__ import annotations

import ast
import difflib
import itertools
import keyword
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.errors import did_you_mean, shortened
from mdf_loop.readers.expressions.function_calls import BUILTINS, DISTRIBUTIONS, DRAWS, op_of
from mdf_loop.readers.expressions.python_parts import part_of_product

_DERIVATIVE = re.compile(
    r"\s*(?:(?P<factor>[\w.]+)\s*[*\s]\s*)?(?:[d∂](?P<twice>2|²|\^2)?\(?(?P<name>[^\W\d]\w*?)\)?\s*/\s*[d∂]\(?(?:t(?:2|²|\^2)?|[^\W\d]\w*)\)?"
    r"|(?P<marked>[^\W\d]\w*)(?P<marks>['′’]{1,2}))\s*(?:[:=]+(?P<slope>.*))?",
    re.DOTALL,
)
"""``dx/dt``, ``tau * dx/dt``, ``d2x/dt2``, ``x'`` and ``x''``, with what it is if that is written behind it."""


def as_derivative(text: Any, slope: Any = "...", in_text: bool = False) -> str:
    """How equations have what looks like a derivative; empty for anything else.

    >>> as_derivative("dx/dt = -x")
    '; a derivative is written derivatives: {x: -x}'
    >>> as_derivative("dx/ds: -x\\ndt: 0.1", in_text=True)
    '; a derivative is written dx/dt: -x'
    >>> as_derivative("x''", "-x", in_text=True)
    '; a second derivative is two first ones: dx/dt: x_rate and dx_rate/dt: -x'
    """
    found = _DERIVATIVE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return ""
    name, rate = found["name"] or found["marked"], shortened(str(found["slope"] or slope).strip().partition("\n")[0], 400)
    rate = f"({rate}) / {found['factor']}" if found["factor"] else rate
    lines = {name: rate}
    if found["twice"] or len(found["marks"] or "") == 2:
        lines = {name: f"{name}_rate", f"{name}_rate": rate}
    parts = [f"d{key}/dt: {value}" if in_text else f"{key}: {value}" for key, value in lines.items()]
    written = " and ".join(parts) if in_text else f"derivatives: {{{', '.join(parts)}}}"
    return f"; a second derivative is two first ones: {written}" if len(lines) > 1 else f"; a derivative is written {written}"


def slope_of(name: str, known: Collection[str]) -> str:
    """How a derivative of a value is written that is there as ``dxdt``; empty where it is not.

    >>> slope_of("x", ["dxdt"])
    '; a derivative is written derivatives: {x: ...}'
    """
    found = {f"d{name}", f"d{name}dt", f"d{name}_dt", f"{name}dot", f"{name}_dot"}.isdisjoint(known)
    return "" if found else as_derivative(f"d{name}/dt")


_ASSIGNED = re.compile(
    r"\s*((?:(?:let|collect)\s+)?[A-Za-z_]\w*(?:/dt)?)(?:\[((?:[^\[\]]|\[[^\[\]]*\])+)\]|\(([\w\s+-]+)\))?\s*"
    r"(?:(\*\*|//|[-+*/%@])?=(?!=)|<-|(?<=[\])]):)\s*([^\n]+)"
)
_KEYLESS = re.compile(r"\s*(while|collect \w+|let \w+)[ \t]+([^\n{]+)")
_CHOSEN = re.compile(r"\s*if\s(.+?):\s*(\w+)\s*=\s*([^\n;]+)")
_START_VALUE = re.compile(r"\s*(?:init(?:ial)?\s+(\w+)|(\w+)[(\[]\s*0\s*[)\]])\s*[:=]\s*([^\n;]+)")
"""Lines of other languages that set a value: always, without a colon, where something holds, and at the beginning."""


def as_equation(text: str) -> str:
    """A sentence on how to write an equation, where a text looks like an assignment of Python; otherwise empty.

    >>> as_equation("x += dt * v")
    '; an equation has a colon: x: x + dt * v'
    >>> as_equation("x[i] = x[i-1] + 1")
    '; an equation has a colon: x: x + 1, and collect all_x: x keeps those of all iterations'
    >>> as_equation("q[c] += rate")
    '; an equation gives the whole of q: q: where(arange(len(q)) == c, q[c] + rate, q); in an @mdf_loop.body write q[c] += ...'
    """
    text = re.sub(r"^(\s*\w+\[\w+)\]\[", r"\1, ", text)
    if (found := _START_VALUE.match(text)) and not re.search(_read_at(str(found[2]), "0"), found[3]):
        return f"; an initial value is given in the call, {found[1] or found[2]}={found[3]}, or in the args of the loop"
    if found := _CHOSEN.match(text):
        return f"; choose the value: {found[2]}: where({found[1]}, {found[3]}, {found[2]})"
    found = None if "=>" in text else _ASSIGNED.match(text)
    if found is None:
        keyless = _KEYLESS.match(text)
        return f"; an equation has a colon: {keyless[1]}: {keyless[2]}" if keyless else as_derivative(text, in_text=True)
    name, element, called, operator, value = found.groups()
    own, index = name.split()[-1], (element or called or "").strip()
    value = shortened(re.sub(r"\s+:\s*\w+\s*$", "", value).strip("; "), 400)  # Brian has units there, MATLAB a semicolon
    if index and name == own and (cure := _as_element(own, index, operator, value)):
        return cure
    value = re.sub(_read_at(own, r"[A-Za-z]\w*\s*(?:-\s*(?:1|dt)\s*)?"), own, value)
    kept = f", and collect all_{own}: {own} keeps those of all iterations" if index and name == own else ""
    return f"; an equation has a colon: {name}: {_applied(name, operator, value)}{kept}"


def _as_element(name: str, index: str, operator: str | None, value: str) -> str:
    """How one element of an array is set; empty where an index is the iteration."""
    is_read = re.search(_read_at(name, re.escape(index)), value)
    is_iteration = re.fullmatch(r"[ikmnt]|\w+\s*\+\s*(?:1|dt)", index) or re.search(_read_at(name, r"\w+\s*-\s*(?:1|dt)"), value)
    if is_iteration and not (is_read or operator):
        return ""
    place = name if re.search("[<>=!]", index) else f"{name}[{index}]"
    value = _applied(place, operator, re.sub(_read_at(name, re.escape(index)), place, value))
    set_there = [_is_there(name + "[0]" * axis, each.strip()) for axis, each in enumerate(index.split(","))]
    whole = {1: set_there[0], 2: f"outer({', '.join(set_there)})"}.get(len(set_there), "")
    cure = "" if not whole or re.search(r":|[\[(].*,", index) else f": {name}: where({whole}, {value}, {name})"
    return f"; an equation gives the whole of {name}{cure}; in an @mdf_loop.body write {name}[{index}] {operator or ''}= ..."


def _is_there(array: str, index: str) -> str:
    """Where the elements of an array are that an index means: a mask is the place itself."""
    if re.search("[<>=!]", index):
        return index
    return f"arange(len({array})) == {f'len({array}) {index}' if index.startswith('-') else index}"


def _read_at(name: str, index: str) -> str:
    return rf"\b{name}[\[(]\s*{index}\s*[\])]"


def _applied(left: str, operator: str | None, value: str) -> str:
    """``left operator= value`` as a value, with brackets where the operator would take it apart."""
    is_plain = re.fullmatch(r"[\w.]+" + r"(\s*[*/+-]\s*[\w.]+)*" * (operator == "+"), value)
    return f"{left} {operator} {value if is_plain else f'({value})'}" if operator else value


def of_another_iteration(name: str, known: Collection[str]) -> str:
    """How equations read a carried value of another iteration; empty for names that say nothing of one.

    >>> of_another_iteration("x_new", ["x"]), of_another_iteration("x_old", ["x"])
    ('; next(x) is the value that the iteration gives to x', '; x is the value of the iteration before')
    """
    plain, _, when = name.rpartition("_")
    if plain in known and when in ("prev", "previous", "old", "last", "before"):
        return f"; {plain} is the value of the iteration before"
    if plain in known and when in ("next", "new", "now", "after"):
        return f"; next({plain}) is the value that the iteration gives to {plain}"
    return ""


_NAMES = {
    "e": "; e ** x is written exp(x)",
    "true": "; it is written True",
    "yes": "; it is written True",
    "false": "; it is written False",
    "no": "; it is written False",
    "i": "; it is the iteration number of a Loop, and a Scan has none",
    "t": "; a time is carried: t: t + dt",
    "infinity": "; it is written inf",
    "na": "; it is written nan",
    "inf": "; it is written inf",
    "nan": "; it is written nan",
    "pi": "; it is written pi",
    "end": "; the last element is x[-1], and all from the second one on are x[1:]",
    "xi": "; noise() draws a number, and in a derivative it is white noise",
}
"""Names that mean something elsewhere, and how equations have that."""


def of_collected(name: str) -> str:
    """How equations have what they need of a value that is collected."""
    cure = "carry what an iteration needs of it, such as largest: maximum(largest, next(x))"
    return f"; {name} is collected, and an array when the loop has ended: {cure}"


def meant_by_name(name: str, known: Collection[str]) -> str:
    """What was probably meant by a name that equations read and nothing has; empty where nothing is near."""
    if name in known and name not in _NAMES:  # what is carried or of a let can be read
        return of_collected(name)
    is_slope = name.startswith("d") and name[1:] in known
    meant = slope_of(name, known) or (as_derivative(f"{name}/dt") if is_slope else _NAMES.get(name, ""))
    meant = of_another_iteration(name, known) or meant or _of_unit(name) or did_you_mean(name, known)
    meant = meant or (_NAMES.get(name.lower(), "") if name[1:] else "")
    ours = OTHER_FUNCTIONS.get(name, name)
    is_function = ours in {*BUILTINS, *DRAWS, *DISTRIBUTIONS} or op_of(f"numpy.{ours}")
    return meant or (f"; {name} is a function: write {ours}({'' if ours in DRAWS else '...'})" if is_function else "")


OTHER_FUNCTIONS = {
    "randn": "noise",
    "rand": "uniform",
    "runif": "uniform",
    **dict.fromkeys(("gauss", "rnorm", "normal_rng"), "normal"),
    **dict.fromkeys(("rep", "repmat"), "tile"),
    **dict.fromkeys(("if_else", "ifelse", "if_then_else", "iif", "If", "if_", "cond", "select", "choose"), "where"),
    "rpois": "poisson",
    "clamp": "clip",
    "inv_logit": "sigmoid",
    "loggamma": "lgamma",
    "inverse": "inv",
    "ln": "log",
    "step": "heaviside",
    "sgn": "sign",
    "fix": "trunc",
    "ceiling": "ceil",
    "xor": "logical_xor",
    "length": "len",
    "numel": "size",
    "rem": "fmod",
}
"""What functions of Python, R, MATLAB and others are called here."""

WRITTEN = {
    "randn": "noise(), or noise(zeros(n)) for n numbers",
    "rand": "uniform(), or uniform(zeros(n)) for n numbers",
    "rnorm": "normal({1}, {2})",
    "runif": "uniform({1}, {2})",
    "logit": "log({0} / (1 - {0}))",
    "Phi": "(1 + erf({0} / sqrt(2))) / 2",
    "logsumexp": "max({0}) + log(sum(exp({0} - max({0}))))",
    "categorical": "sum(uniform() > cumsum({0}))",
    "cholesky": "a parameter whose value is numpy.linalg.cholesky({0})",
    "normal_lpdf": "-(({0} - {1}) / {2}) ** 2 / 2 - log({2} * sqrt(2 * pi))",
    "c": "array([{all}])",
    "sd": "std({0}, ddof=1)",
    "rexp": "-log(uniform()) / rate",
    "factorial": "gamma({0} + 1)",
    "beta": "exp(lgamma({0}) + lgamma({1}) - lgamma({0} + {1}))",
    **dict.fromkeys(("comb", "binom", "nchoosek"), "exp(lgamma({0} + 1) - lgamma({1} + 1) - lgamma({0} - {1} + 1))"),
    "ndtr": "(1 + erf({0} / sqrt(2))) / 2",
    "log_ndtr": "log(erfc(-{0} / sqrt(2)) / 2)",
    "xlogy": "where({0} == 0, 0, {0} * log({1}))",
    "softplus": "logaddexp(0, {0})",
    "log_softmax": "{0} - max({0}) - log(sum(exp({0} - max({0}))))",
    **{name: f"1 / {below}({{0}})" for name, below in {"sec": "cos", "csc": "sin", "cot": "tan", "sech": "cosh"}.items()},
    "quantile": "interp({1} * (size({0}) - 1), arange(size({0})), sort({0}))",
    **dict.fromkeys(("percentile", "prctile"), "interp({1} / 100 * (size({0}) - 1), arange(size({0})), sort({0}))"),
    **dict.fromkeys(("cor", "corr"), "mean(({0} - mean({0})) * ({1} - mean({1}))) / (std({0}) * std({1}))"),
    "cov": "sum(({0} - mean({0})) * ({1} - mean({1}))) / (size({0}) - 1)",
    "cross": "roll({0}, -1) * roll({1}, 1) - roll({0}, 1) * roll({1}, -1)",
    "isclose": "abs({0} - {1}) <= 1e-8 + 1e-5 * abs({1})",
    **dict.fromkeys(("find", "which"), "where({0}, a, b)"),
    **dict.fromkeys(("dnorm", "normpdf"), "exp(-(({0} - {1}) / {2}) ** 2 / 2) / ({2} * sqrt(2 * pi))"),
    **dict.fromkeys(("pnorm", "normcdf"), "(1 + erf(({0} - {1}) / ({2} * sqrt(2)))) / 2"),
}
"""What is written for functions of others that have no equal here, or take other arguments; of the arguments {0}, {1}, ..."""


def meant_by_function(name: str, args: Sequence[ast.expr | ast.keyword], known: Iterable[str]) -> str:
    """What was probably meant by the name of a function that is none; what numpy has and we have not is not misspelt.

    >>> meant_by_function("sd", [ast.Name("x")], ["std"]), meant_by_function("quantile", [ast.Name("x")], ["tile"])
    ('; write std(x, ddof=1)', '')
    """
    if filled := _filled(name, args):
        return f"; write {filled}"
    if name in OTHER_FUNCTIONS:
        return f"; did you mean {OTHER_FUNCTIONS[name]!r}?"
    if name in WRITTEN or hasattr(np, name):
        return ""
    small = name.lower()
    return did_you_mean(name, [each for each in known if _is_like(small, each)])


_STANDARD = ("rnorm", "runif", "dnorm", "normpdf", "pnorm", "normcdf")
"""Functions of R and MATLAB whose second and third argument are 0 and 1 where a call does not give them."""


def _filled(name: str, args: Sequence[ast.expr | ast.keyword]) -> str:
    """A formula with the arguments of a call in it; empty where the call has fewer, or others, which it would leave out."""
    given = [each for each in args if isinstance(each, ast.expr)]
    if name not in WRITTEN or len(given) < len(args):
        return ""
    if given and isinstance(first := given[0], ast.BinOp) and isinstance(first.op, ast.BitOr):  # Stan has | there
        given = [first.left, first.right, *given[1:]]
    parts, needed = [*map(part_of_product, given)], max((int(k) + 1 for k in re.findall(r"{(\d)}", WRITTEN[name])), default=0)
    parts += ["0", "1"][len(parts) - 1 :] if parts and name in _STANDARD else []
    return WRITTEN[name].format(*parts, all=", ".join(map(ast.unparse, given))) if needed in (0, len(parts)) else ""


def _is_like(name: str, other: str) -> bool:
    """Whether a name is another one with a mistake, or the beginning of it."""
    is_near = difflib.SequenceMatcher(None, name, other).ratio() > 0.77
    return is_near or other.startswith(name) or sorted(name) == sorted(other)


_UNIT = re.compile(r"[numpkMG](?:V|S|A|F|Hz)|[num]s|[nmu]M|[cmu]m|volt|ohm|amp|siemens|second|meter")
"""Units that have names in Brian."""


def _of_unit(name: str) -> str:
    """What to do about a unit, as Brian has them in equations."""
    if not _UNIT.fullmatch(name):
        return ""
    return f"; equations have no units: write the number, and {name} into metadata: {{units: {name}}}"


def meant_by(text: str, problem: str) -> str:
    """What to write in the place of a text that Python cannot read, which says ``problem``; empty where nothing is known."""
    return (
        ("" if re.search("['′’]\\s*$", text) else as_derivative(text))
        or of_signs(text, problem)
        or _of_keyword(text)
        or _of_assignment(text)
        or _of_product(text)
        or ("; an expression of several lines is in brackets, ( ... )" if "\n" in text.strip() else "")
    )


def meant_by_list(value: list[Any], is_condition: bool = False) -> str:
    """How a list of expressions is written.

    >>> meant_by_list([[1.0, "dt"], [0, 1]])
    "; write an array of expressions as one text, in quotes: '[[1.0, dt], [0, 1]]'"
    """
    if is_condition and len(value) == 1:
        return f"; write {value[0]} without brackets"
    if is_condition:
        return f"; both are written {' and '.join(map(str, value))}, one of them {' or '.join(map(str, value))}"
    return f"; write an array of expressions as one text, in quotes: '{_without_quotes(value)}'"


def _without_quotes(value: Any) -> str:
    return f"[{', '.join(map(_without_quotes, value))}]" if isinstance(value, list) else str(value)


def meant_by_comma(content: Mapping[Any, Any]) -> str:
    """How a text is written whose commas YAML took for the ends of keys; empty where none is.

    >>> meant_by_comma({"value": "max(a", "b)": None})
    "; a text with commas is in quotes inside { }: 'max(a, b)'"
    """
    items = [*content.items()]
    for k, (_, text) in enumerate(items, 1):
        rest = itertools.takewhile(lambda item: item[1] is None, items[k:])
        if isinstance(text, str) and text.count("(") > text.count(")"):
            return f"; a text with commas is in quotes inside {{ }}: {', '.join([text, *(str(key) for key, _ in rest)])!r}"
    return ""


def meant_by_condition(content: Any) -> str:
    """How a condition is written whose arguments are written as those of a call, or next to its type; empty for others.

    >>> meant_by_condition("EveryNCalls(sensory, 2)")
    '; write {type: EveryNCalls, kwargs: {dependency: sensory, n: 2}}'
    >>> meant_by_condition({"type": "AtPass", "n": 2})
    '; write {type: AtPass, kwargs: {n: 2}}'
    >>> meant_by_condition({"type": "AtPass", "args": {"n": 2}})
    '; write {type: AtPass, kwargs: {n: 2}}'
    """
    if isinstance(content, Mapping):
        kind, given = content.get("type"), {key: value for key, value in content.items() if key not in ("type", "metadata")}
        for key in ("args", "kwargs"):
            given |= given.pop(key) if isinstance(given.get(key), Mapping) else {}
    else:
        kind, _, inside = str(content).strip().removesuffix(")").partition("(")
        parts = [part.strip() for part in inside.split(",") if part.strip()]
        named = [part.partition("=")[::2] if "=" in part else ("n" if part.isdigit() else "dependency", part) for part in parts]
        given = {name.strip(): value.strip() for name, value in named}
    if not re.fullmatch(r"[A-Z]\w+", str(kind)):
        return ""
    return f"; write {{type: {kind}, kwargs: {{{', '.join(f'{key}: {value}' for key, value in given.items())}}}}}"


_EXAMPLES = {
    "Edge": "; write edges: {e: {sender: a, sender_port: out, receiver: b, receiver_port: x}}",
    "ConditionSet": "; write conditions: {node_specific: {a: {type: ...}}, termination: {environment_state_update: {type: ...}}}",
}


def example_of(kind: Any) -> str:
    """How one of MDF's things is written that people write in another form; empty for others."""
    return _EXAMPLES.get(getattr(kind, "__name__", ""), "")


_WORDS = {"and", "or", "not", "if", "else", "in", "is", "True", "False", "None"}
"""Words of Python that expressions have."""

_STATEMENTS = {"return", "for", "while", "def", "import", "from", "del", "pass", "break", "continue", "with", "try"}
"""Words with which a statement of Python begins."""

_SIGNS = {
    r"%\*%": "@",
    "%/%": "//",
    "%%": "%",
    r"%\s*[^\W\d]\w*\s+[^\W\d]": "write a comment behind #",
    r"\\": "write solve(A, b), which is A \\ b there",
    r"^\s*[\w.]+\s*:\s*[\w.]+(?:\s*:\s*[\w.]+)?\s*$": "arange(first, last + 1)",
    r"[^\W\d]\w*\$[^\W\d]\w*": "write a column of a table as a value of its own, with a name without $",
    "&&": "and",
    r"\|\|": "or",
    "~=": "!=",
    "!(?!=)": "not",
    r"(?<!\d)\.[*/^]": "write it without the point: * and / go by elements, and a power is **",
    "<>": "!=",
    "=<|≤": "<=",
    "=>|≥": ">=",
    r"\+\+|--|[-+*/%]=(?!=)": "write only the new value: x + 1, not x += 1",
    r"\[[^\]]*;": "write the rows of a matrix in brackets: [[1, 2], [3, 4]]",
    ";": "write each equation on a line of its own",
    "[²³]": "** 2 or ** 3",
    r"%\s*(?=$|[)\]])": "/ 100",
    "[×·⋅]": "*",
    "[−–—]": "-",
    "[÷]": "/",
    "√": "sqrt(...)",
    r"\|[^|]+\|": "abs(...)",
    r"(?<!['\"\w])[^\W\d]\w*['′’]+(?!\w)": "in derivatives: {x: ...} if it is a derivative, and A.T if it is a transpose",
    r"\$": "write the name without $",
    r"\b(?:AND|OR|NOT)\b": "and, or, not",
    r"\?|\b(?:then|elif)\b|\belse\s*:|\belse\s*$|\bif\b(?!.*\belse\b)": "a if condition else b, or where(condition, a, b)",
    r"^[^:\[{]*[^\s:]\s*:\s*(?:1|[^\W\d]\w*)(?:\s*\(\w+\))?\s*$": "write it without the unit; metadata has that: {units: {x: V}}",
}
"""Signs and words of other languages that Python cannot read in an expression, and what is written in their place, or how."""


def of_signs(text: str, problem: str = "") -> str:
    """What to write in the place of a sign that Python does not have."""
    found = next(((match[0], meant) for sign, meant in _SIGNS.items() if (match := re.search(sign, text))), None)
    if found is None and "follows keyword argument" in problem:
        return "; = names an argument: a comparison is written =="
    if found is None:
        return ""
    return f"; {found[1]}" if found[1].startswith("write ") else f"; {found[0]} is written {found[1]}"


def _of_product(text: str) -> str:
    """What to do about a product that is written without its sign."""
    found = _PRODUCT.search(text)
    if found is None or not _WORDS.isdisjoint(found.groups()):
        return ""
    if unit := _of_unit(found[2]):
        return unit
    is_call = found[1] in BUILTINS or op_of(f"numpy.{found[1]}")
    return f"; a call has brackets: {found[1]}({found[2]})" if is_call else f"; a product is written {found[1]} * {found[2]}"


_PRODUCT = re.compile(r"(?<![\w.])(\d[\d.]*(?=\s|[^\W\d])|[^\W\d]\w*(?=\s))\s*([^\W\d]\w*)")
"""A number or name in front of a name: ``2 x``, ``2x``, ``dt dv``."""


def _of_keyword(text: str) -> str:
    """What to do about a name that Python takes for a word of its own."""
    names = re.findall(r"\w+", re.sub(r"'[^']*'|\"[^\"]*\"", "", text))
    found = next((name for name in names if keyword.iskeyword(name) and name not in _WORDS), None)
    if found in _STATEMENTS and text.split()[0] == found:
        return f"; an equation is one value: write it without {found!r}"
    return f"; {found!r} is a word of Python, which no expression can read: rename it, such as {found}_" if found else ""


def _of_assignment(text: str) -> str:
    """What to do about a text that assigns."""
    outside = re.sub(r"[(\[{][^()\[\]{}]*[)\]}]", "", text)  # inside of brackets it names an argument
    if not re.search("(?<![=<>!])=(?!=)", outside):
        return ""
    return "; = assigns: a comparison is written ==, and a value with a name is a line of its own, in let: {y: ...}"
