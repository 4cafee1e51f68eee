"""Models with loops over equations: sorted, with other names, and written and read again, they give the same."""

from __future__ import annotations

import json
import random
import tempfile
import unicodedata
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

import mdf_loop
from mdf_loop.errors import LoopError
from tests.mdf.test_names_and_order import NAMES, ids_of, renamed

from . import grammar
from .outcome import compare_values, to_the_bit
from .target import Failure, Settings, Target


@dataclass
class NamesCase:
    """What a file says, the names that its own are replaced by, and the engine."""

    content: dict[str, Any]
    names: dict[str, str]
    engine: str


def make(choose: random.Random) -> NamesCase:
    """A node with a loop over equations, and names of functions, constants and other alphabets for its own."""
    ports = [f"p{k}" for k in range(choose.randint(1, 3))]
    carried = [f"c{k}" for k in range(choose.randint(1, 4))]
    lets = [f"l{k}" for k in range(choose.randint(0, 3))]
    known, let = [*ports, *carried], {}
    for name in lets:
        let[name] = grammar.expression(choose, known)
        known.append(name)
    body: dict[str, Any] = {"carried": {name: grammar.expression(choose, known) for name in carried}}
    body |= {"let": let} if let else {}
    collected = {f"k{n}": grammar.expression(choose, known) for n in range(choose.randint(0, 2))}
    body |= {"collected": collected} if collected else {}
    if choose.random() < 0.4:
        body["while"] = f"{choose.choice(carried)} < {choose.choice(ports)}"
    shuffled = [*carried]
    choose.shuffle(shuffled)
    args = {
        "M": choose.choice([0, 1, 3, 40]),
        **{name: choose.choice([*ports, 0.5, 2, -1.0]) for name in shuffled},
        "body": "body",
    }
    results = [*carried, *collected]
    single = "run" if len(results) == 1 and choose.random() < 0.5 else ""
    outputs = {f"o{n}": {"value": single or f"run.{name}"} for n, name in enumerate(results)}
    node = {
        "input_ports": {name: {"default_value": choose.choice([1.5, 0.25, -2.0, 3, [1.0, 2.0]])} for name in ports},
        "parameters": {"body": {"value": body}, "run": {"function": "onnx::Loop", "args": args}},
        "output_ports": outputs,
    }
    content = {"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"n": node}}}}}
    ids = ids_of(content)
    others = choose.sample(NAMES, min(len(ids), len(NAMES)))
    return NamesCase(
        content, dict(zip(choose.sample(ids, len(ids)), others, strict=False)), choose.choice(["numpy", "jit", "auto"])
    )


def outcome_of(content: Any, engine: str, suffix: str, is_sorted: bool) -> Mapping[str, Any] | str:
    """The outputs of what a file says; the kind of error where there is one."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), mdf_loop.options(engine=engine):
        warnings.simplefilter("ignore")
        path = Path(folder) / f"model{suffix}"
        write = yaml.safe_dump if suffix == ".yaml" else json.dumps
        path.write_text(write(content, sort_keys=is_sorted))
        try:
            return dict(mdf_loop.run(path))
        except LoopError as error:
            return type(error).__name__


def check(case: NamesCase, settings: Settings) -> None:
    """Each way to write the model gives what it gives as it is."""
    wanted = outcome_of(case.content, case.engine, ".yaml", False)
    other = renamed(case.content, case.names)
    for what, content, suffix in (("as it is", case.content, ".yaml"), ("renamed", other, ".yaml"), ("JSON", other, ".json")):
        names = case.names if content is other else {}
        for is_sorted in (False, True):
            found = outcome_of(content, case.engine, suffix, is_sorted)
            said = f"{what}{', sorted' * is_sorted}"
            if isinstance(wanted, str) or isinstance(found, str):
                if wanted != found:
                    raise Failure(f"{said}: another outcome", f"{wanted} and {found}")
                continue
            for name, value in wanted.items():
                read = unicodedata.normalize("NFKC", names.get(name, name))
                compare_values(found.get(read), value, f"{said}: a value", name, to_the_bit)


def script(case: NamesCase) -> str:
    """The model, and how its names are replaced."""
    text = yaml.safe_dump(case.content, sort_keys=False)
    return f"import mdf_loop, yaml\n\nMODEL = '''\n{text}'''\nNAMES = {case.names!r}\nENGINE = {case.engine!r}\n"


def smaller(case: NamesCase) -> Iterator[NamesCase]:
    """With fewer other names."""
    for name in case.names:
        yield replace(case, names={key: value for key, value in case.names.items() if key != name})


TARGET = Target("names", "models sorted, renamed and written again", make, check, script, smaller, in_tests=12)
