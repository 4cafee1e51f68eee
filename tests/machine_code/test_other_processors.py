"""Machine code for processors that are not here: that of every exported loop is made for them, and calls what they have."""

import functools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from llvmlite import binding

from mdf_loop import backend, options
from mdf_loop.backends.llvm.linking import machine, numpy_draws, prologue
from mdf_loop.backends.llvm.linking.machine import Machine, triple_of
from mdf_loop.backends.llvm.mathematics import library
from tests.loops.test_exported_loops import WORKS

PROCESSORS = {
    "arm64-apple-darwin": "apple-m1",
    "aarch64-unknown-linux-gnu": "cortex-a72",
    "x86_64-pc-windows-msvc": "x86-64-v3",
    "x86_64-unknown-linux-gnu": "x86-64",
}
"""A processor of each system: on ARM with Linux one without arithmetic of float16."""

HAVE = set(machine._PYTHON) | {name + end for name in (*library.FOREIGN, *library.LARGEST) for end in ("", "f")} - {"hypotf"}
HAVE |= {name + end for name in ("floor", "ceil", "trunc", "rint", "fma") for end in ("", "f")} | {"memcpy", "memset", "memmove"}
"""What Python and C's library have on each system."""

OF_WINDOWS = {"__chkstk", "_fltused"}

OWN = library.PREFIX, numpy_draws.PREFIX
"""How functions begin that a program is linked to by us."""


@pytest.fixture(scope="module")
def targets():
    """LLVM's targets by their names."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    made = {}
    for triple, cpu in PROCESSORS.items():
        target = binding.Target.from_triple(triple_of(triple))
        made[triple] = target.create_target_machine(cpu=cpu, opt=machine.OPTIMISATION, jit=True)
    return made


@pytest.fixture
def written(monkeypatch):
    """The texts of programs and of the functions that they call, as they are written for registers of 16 bytes."""
    texts = {"around": prologue.around()}

    def linked(self, text, names, functions, *level):
        texts["program"] = text
        texts.update({name: library.text_of(name) for name in functions if name.startswith(library.PREFIX)})
        return original(self, text, names, functions, *level)

    original = Machine.linked
    monkeypatch.setattr(Machine, "linked", linked)
    monkeypatch.setattr(Machine, "register_bytes", 16)
    return texts


SECTION = np.dtype("u4, u4, u8, u8, u8, u8, u4, u4, u8, u8")
"""Of ELF: name, type, flags, address, place, bytes, where its names are, and three more."""

SYMBOL = np.dtype([("name", "u4"), ("type", "u1"), ("of", "u1"), ("section", "u2"), ("at", "u8"), ("bytes", "u8")])
SYMBOL_OF_APPLE = np.dtype([("name", "u4"), ("type", "u1"), ("section", "u1"), ("more", "u2"), ("at", "u8")])


@functools.cache
def asked_for(target, text):
    """The functions that the object of a text asks for."""
    module = binding.parse_assembly(text)
    module.verify()
    return undefined(target.emit_object(module))


def undefined(code):
    """The functions that an object file asks for, by the table of symbols in the forms of ELF and of Apple."""
    if code.startswith(b"\x7fELF"):
        at, count = int.from_bytes(code[40:48], "little"), int.from_bytes(code[60:62], "little")
        sections = np.frombuffer(code, SECTION, count, at)
        ((place, size, link),) = [(int(s["f4"]), int(s["f5"]), int(s["f6"])) for s in sections if s["f1"] == 2]
        symbols, names = np.frombuffer(code, SYMBOL, size // SYMBOL.itemsize, place), int(sections[link]["f4"])
        return {text_at(code, names + int(s["name"])) for s in symbols[1:] if not s["section"]}
    assert code.startswith(b"\xcf\xfa\xed\xfe")
    at = 32
    while (word := np.frombuffer(code, "u4", 6, at))[0] != 2:
        at += int(word[1])
    symbols = np.frombuffer(code, SYMBOL_OF_APPLE, int(word[3]), int(word[2]))
    return {text_at(code, int(word[4]) + int(s["name"])).removeprefix("_") for s in symbols if not s["type"] & 14}


def text_at(code, place):
    """A name in a table."""
    return code[place : code.index(b"\0", place)].decode()


@pytest.mark.parametrize("name", WORKS)
def test_an_exported_loop_is_machine_code_on_other_processors(name, written, targets, tmp_path):
    work = WORKS[name]
    with options(engine="jit"):
        backend.prepare(work.model).run(work.inputs)
    assert "program" in written
    for triple, target in targets.items():
        have = HAVE | (OF_WINDOWS if "windows" in triple else set())
        for text in written.values():
            asked = asked_for(target, text)
            assert {symbol for symbol in asked if not symbol.startswith(OWN)} <= have, triple


def test_the_list_of_what_is_asked_for_is_read(targets):
    """The law above sees a function that no system has."""
    call = "%y = call double @not_there(double %x)"
    text = f"declare double @not_there(double)\ndefine double @f(double %x) {{\n{call}\nret double %y\n}}"
    for target in targets.values():
        assert asked_for(target, text) - OF_WINDOWS == {"not_there"}


@pytest.mark.parametrize("process", PROCESSORS)
def test_windows_gets_objects_in_the_form_of_elf(process):
    made = triple_of(process)
    assert made == (f"{process}-elf" if "windows" in process else process)
    assert triple_of(made) == made
