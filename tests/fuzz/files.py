"""Mutated files of every kind: what comes out is a result or a LoopError, in bounded time and memory."""

from __future__ import annotations

import contextlib
import functools
import io
import random
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import onnx
import yaml
from bodies import COUNTER, PREDICT_NET, RUNNING_SUM, SWAP
from google.protobuf.message import DecodeError

import mdf_loop
from mdf_loop.errors import LoopError
from mdf_loop.models.verifying import drawn, needed

from . import mutators
from .target import Failure, Settings, Target

ROOT = Path(__file__).parent.parent.parent
MAIN_KINDS = {".yaml": mutators.of_yaml, ".json": mutators.of_json, ".onnx": mutators.of_protobuf, ".xml": mutators.of_xml}
NOT_OF_ITS_KIND = (ValueError, DecodeError, yaml.YAMLError, ElementTree.ParseError, zipfile.BadZipFile, RecursionError)
STEPS = 20
"""Iterations, and evaluations of an MDF graph, that are run."""


@dataclass
class FileCase:
    """Files of one folder: the first is what is opened."""

    files: dict[str, bytes]

    @property
    def main(self) -> str:
        """The file that is opened."""
        return next(iter(self.files))


@functools.cache
def seeds() -> list[FileCase]:
    """Files that are right, by what they are: the examples, the models of the tests, bodies as text, converted models."""
    found = []
    paths = [*sorted((ROOT / "examples").iterdir()), *sorted((ROOT / "tests" / "models").iterdir())]
    for path in paths:
        if path.suffix in MAIN_KINDS:
            beside = [p for p in paths if p.parent == path.parent and p.stem == path.stem and p.suffix in (".bin", ".npz")]
            found.append(FileCase({p.name: p.read_bytes() for p in [path, *beside]}))
    found += [FileCase({"body.txt": text.encode()}) for text in (COUNTER, PREDICT_NET, RUNNING_SUM, SWAP)]
    return [*found, *_converted(found)]


def _converted(known: list[FileCase]) -> Iterator[FileCase]:
    """ONNX models as MDF, with the weights in a file of their own."""
    with tempfile.TemporaryDirectory() as folder:
        for k, case in enumerate(known):
            if case.main.endswith(".onnx"):
                path = Path(folder) / f"m{k}.yaml"
                with contextlib.suppress(LoopError), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    mdf_loop.convert(onnx.load_from_string(case.files[case.main]), path, inline=0)
                    written = sorted(Path(folder).glob(f"m{k}.*"), key=lambda p: p.suffix != ".yaml")
                    yield FileCase({p.name: p.read_bytes() for p in written})


def make(choose: random.Random) -> FileCase:
    """A few mutations of one of the files."""
    case = choose.choice(seeds())
    files = dict(case.files)
    for _ in range(choose.choice([1, 1, 1, 2, 3])):
        name = choose.choice([case.main, *files])
        suffix = Path(name).suffix
        ways = [MAIN_KINDS.get(suffix, mutators.of_text)] * 3 + [mutators.of_bytes]
        if suffix in (".yaml", ".json", ".xml", ".txt"):
            ways.append(mutators.of_text)
        if suffix in (".npz", ".bin"):
            ways = [mutators.of_npz, mutators.of_bytes] if suffix == ".npz" else [mutators.of_bytes]
        with contextlib.suppress(*NOT_OF_ITS_KIND):  # after the mutation before
            files[name] = choose.choice(ways)(choose, files[name])
    return FileCase(files)


def check(case: FileCase, settings: Settings) -> None:
    """Open, run and convert it."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for name, data in case.files.items():
            (Path(folder) / name).write_bytes(data)
        path = Path(folder) / case.main
        calls = _body_calls(path) if path.suffix == ".txt" else _model_calls(path)
        for what, call in calls:
            _run(what, call)


def _body_calls(path: Path) -> list[Any]:
    text = path.read_bytes().decode(errors="replace")
    outer = {"one": 1.0, "step": 2.0, "a": 1}
    return [
        ("compile", lambda: mdf_loop.compile(text)),
        ("loop", lambda: mdf_loop.loop(3, True, 1.0, body=text, **outer)),
        ("loop of one", lambda: mdf_loop.loop(3, True, 1.0, body={"onnx": text}, one=1.0)),
        ("loop of two", lambda: mdf_loop.loop(3, True, 1.0, 2.0, body=text)),
        ("scan", lambda: mdf_loop.scan(1.0, [1.0, 2.0], body=text, num_scan_inputs=1)),
    ]


def _model_calls(path: Path) -> list[Any]:
    inputs: dict[str, Any] = {}

    def fill() -> None:
        model = onnx.load(path) if path.suffix == ".onnx" else path
        if path.suffix in (".yaml", ".json"):
            model = mdf_loop.load(path)
        inputs.update(drawn(needed(mdf_loop.prepare(model)), 0, set()))

    calls = [
        ("run", lambda: mdf_loop.run(path, **inputs)),
        ("load", lambda: mdf_loop.load(path)),
        ("to_onnx", lambda: mdf_loop.to_onnx(mdf_loop.load(path))),
        ("convert", lambda: mdf_loop.convert(path, path.with_name("converted.yaml"))),
    ]
    if path.suffix in (".yaml", ".json"):
        calls = [calls[1], calls[2], calls[0], ("run in steps", lambda: mdf_loop.run(path, steps=STEPS, **inputs))]
    with contextlib.suppress(Exception):
        fill()
    return calls


def _run(what: str, call: Any) -> None:
    try:
        with mdf_loop.options(max_iterations=STEPS, seed=1):
            call()
    except LoopError:
        pass
    except Exception as error:
        place = innermost(error)
        failure = Failure(f"{what}: {type(error).__name__} escaped at {place}", " ".join(str(error).split())[:300])
        raise failure from error


def innermost(error: BaseException) -> str:
    """Where in mdf_loop an exception came through last."""
    place, trace = "?", error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.startswith("mdf_loop"):
            place = f"{module}.{trace.tb_frame.f_code.co_name}"
        trace = trace.tb_next
    return place


# Smaller, and as a script


def smaller(case: FileCase) -> Iterator[FileCase]:
    """Files with pieces cut out, large ones first."""
    for name, data in case.files.items():
        lines = data.splitlines(keepends=True)
        if Path(name).suffix in (".yaml", ".txt", ".xml") and len(lines) > 1:
            for size in (len(lines) // 2, len(lines) // 4, 3, 1):
                for start in range(0, len(lines), max(size, 1)):
                    yield FileCase({**case.files, name: b"".join(lines[:start] + lines[start + max(size, 1) :])})
        elif Path(name).suffix == ".json":
            yield from _smaller_json(case, name)


def _smaller_json(case: FileCase, name: str) -> Iterator[FileCase]:
    import json

    with contextlib.suppress(ValueError, RecursionError):
        content = json.loads(case.files[name])
        for place in range(len(list(mutators.places_in(content)))):
            changed = json.loads(case.files[name])
            inside, key = list(mutators.places_in(changed))[place]
            del inside[key]
            yield FileCase({**case.files, name: json.dumps(changed).encode()})


SCRIPT = '''"""A file that ends in something else than a result or a LoopError."""
import resource
import signal
import sys
import tempfile
import traceback
from pathlib import Path

import mdf_loop

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
signal.alarm(60)
{shown}
FILES = {files}
sys.path.insert(0, {root!r})
from tests.fuzz.files import FileCase, check
from tests.fuzz.target import Settings

check(FileCase({{name: bytes.fromhex(data) for name, data in FILES.items()}}), Settings())
'''


def script(case: FileCase) -> str:
    """A script that writes the files and opens them."""
    shown = ""
    data = case.files[case.main]
    if case.main.endswith((".yaml", ".json", ".txt", ".xml")) and len(data) < 4000:
        shown = "\n".join(f"# {line}" for line in data.decode(errors="replace").splitlines())
    return SCRIPT.format(shown=shown, files={name: data.hex() for name, data in case.files.items()}, root=str(ROOT))


TARGET = Target(
    "files",
    "mutated YAML, JSON, ONNX, ONNX text, npz and OpenVINO files: a result or a LoopError, in bounded time and memory",
    make,
    check,
    script,
    smaller,
    in_tests=80,
    seconds=10,
    megabytes=2048,
)
