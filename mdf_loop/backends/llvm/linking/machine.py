"""From LLVM's text to addresses: this machine, its optimisations, linking.  llvmlite is imported here, when first asked for."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.backends.llvm.lanes.element_types import CannotCompile
from mdf_loop.backends.llvm.linking import numpy_draws, prologue
from mdf_loop.backends.llvm.linking.lock import Linked, alone
from mdf_loop.backends.llvm.linking.object_code import disk
from mdf_loop.backends.llvm.mathematics.library import PREFIX, text_of
from mdf_loop.errors import let_through
from mdf_loop.kernels.arrays.bounds import most_bytes
from mdf_loop.system.checksums import checksum
from mdf_loop.version import __version__

OPTIMISATION, IN_A_HURRY = 1, 0
"""LLVM's levels of code generation: as a rule, and where the code may not run for long.

The second takes 0.4 of the time, for code that takes 1.2 times as long; the bits are the same."""

PASSES = "sroa", "simplify_cfg"
"""What is done with a text before that, in this order; combining instructions took as long as both and found little."""

WITHOUT, WITHOUT_IN_LONG = ("disable-lsr",), ("disable-lsr", "disable-machine-licm")
"""Options of LLVM while it generates code.  Its reduction of strength takes a third of that time, for what
:mod:`~mdf_loop.backends.llvm.lanes.instructions` does.  Moving constants out of a long loop leaves no registers, and takes
half."""

KNOWN = range(20, 23)
"""Versions of LLVM that have these options: of one that it does not know it says so, and ends the process."""

LONG = 1000
"""Lines from which on a text is long."""

ASKED = "numpy", "ml_dtypes", "onnx", "scipy"
"""Packages whose functions are asked while something is lowered, or called by what is compiled.  An installer writes their files
again, which is seen without importing them; to read their versions takes 7 ms."""

_NAMES = "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals", "PyObject_CallNoArgs", "Py_DecRef"
_PYTHON = {
    name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
    for name in (*_NAMES, "PyMem_RawRealloc", "PyMem_RawFree")
} | {"memmove": ctypes.cast(ctypes.memmove, ctypes.c_void_p).value or 0}
"""Functions of Python's that programs call, and one of C's that Python has at hand."""


def _of_others(symbols: Sequence[str]) -> dict[str, int]:
    """Where the functions are that a program calls of Python's and numpy's."""
    drawn = {symbol: numpy_draws.addresses()[symbol] for symbol in symbols if symbol.startswith(numpy_draws.PREFIX)}
    return _PYTHON | drawn


_lock = threading.RLock()
"""For the table of functions; a copy of the process, in which no thread may be left that releases it, has one of its own."""


def _begin_anew() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def triple_of(process: str) -> str:
    """What to compile for in a process: on Windows in the form of ELF, since LLVM's linker loses constants in that of COFF."""
    return f"{process}-elf" if "windows" in process and not process.endswith("-elf") else process


@functools.cache
def around_this_process() -> str:
    """A hash of this package as its files are, Python, the packages that are asked while something is lowered, and the memory."""
    specs = (importlib.util.find_spec(name) for name in ASKED)
    files = [spec.origin for spec in specs if spec is not None and spec.origin]
    return checksum(sys.version, np.__version__, str(most_bytes()), repr(_stamps([*files, *_sources()])))


def _sources() -> Iterator[str]:
    """The files of this package."""
    todo = [str(Path(__file__).parents[3])]
    while todo:
        with os.scandir(todo.pop()) as files:
            for file in files:
                if file.name.endswith(".py"):
                    yield file.path
                elif file.is_dir() and file.name != "__pycache__":
                    todo.append(file.path)


def _stamps(paths: Iterable[str]) -> list[tuple[str, int, int]]:
    """How long files are and when they changed, in the order of their names."""
    found = ((path, os.stat(path)) for path in paths)
    return sorted((path, said.st_size, said.st_mtime_ns) for path, said in found)


class Machine:
    """This computer: what it compiles for, the linker, the functions of mathematics that were compiled so far."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self.llvm = llvm
        try:
            llvm.initialize_native_target()
        except RuntimeError as error:  # pragma: no cover - a build of LLVM without this processor
            let_through(error)
            raise CannotCompile(f"LLVM does not know this processor ({error})") from error
        self.features, self.cpu = llvm.get_host_cpu_features(), llvm.get_host_cpu_name()
        self.triple = triple_of(llvm.get_process_triple())
        # LLVM's older linker ends the process on ARM where it finds no memory near the rest of a program
        self.linker = llvm.create_lljit_compiler(self._target(OPTIMISATION), use_jit_link=self.is_arm)
        self.numbers = itertools.count()
        self.functions: dict[tuple[str, int], tuple[str, Linked]] = {}

    def _target(self, level: int) -> Any:
        llvm = self.llvm
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features.flatten(), opt=level, jit=True
        )

    @functools.cached_property
    @alone()
    def targets(self) -> dict[int, Any]:
        """What compiles, by its level."""
        self.llvm.initialize_native_asmprinter()
        return {level: self._target(level) for level in (OPTIMISATION, IN_A_HURRY)}

    @functools.cached_property
    def identity(self) -> str:
        """Everything besides a text that its object code depends on."""
        import llvmlite

        versions = f"mdf-loop {__version__}, llvmlite {llvmlite.__version__}, LLVM {self.llvm.llvm_version_info}"
        how = PASSES, WITHOUT, WITHOUT_IN_LONG, LONG
        return f"{versions}, {self.triple}, {self.cpu}, {self.features.flatten()}, {how}"

    @functools.cached_property
    def surroundings(self) -> str:
        """Everything besides a Step that its object code depends on."""
        return f"{self.identity}, {around_this_process()}"

    @property
    def register_bytes(self) -> int:
        """Bytes of the widest registers."""
        if self.features.get("avx512f") and self.features.get("avx512bw") and self.features.get("avx512vl"):
            return 64
        return 32 if self.features.get("avx2") else 16

    @property
    def is_arm(self) -> bool:
        """Whether it is a processor of ARM with 64 bits."""
        return self.triple.startswith(("aarch64", "arm64"))

    @property
    def has_half(self) -> bool:
        """Whether conversions of float16 are instructions; those of ARM with 64 bits all have them."""
        return self.is_arm or bool(self.features.get("f16c"))

    def linked(self, text: str, names: Sequence[str], functions: Sequence[str], level: int = OPTIMISATION) -> tuple[Linked, int]:
        """The functions of a text by their names, at addresses as long as what is given is kept, and bytes of instructions.

        Raises
        ------
        CannotCompile
            LLVM refuses the text.
        """
        with _lock:
            code = self._object(text, level)
            return self._linked(code, names, functions, level), self._size(code)

    def linked_again(self, key: str, names: Sequence[str], functions: Sequence[str], level: int) -> Linked | None:
        """The functions of a text that was compiled before, by its key; None if that is not on disk."""
        folder = disk()
        code = None if folder is None else folder.read(key)
        with _lock:
            return None if code is None else self._linked(code, names, functions, level)

    def key_of_text(self, text: str, level: int) -> str:
        """The name of the object code of a text on disk."""
        return checksum(f"{self.identity}, {level}", text)

    def _linked(self, code: bytes, names: Sequence[str], functions: Sequence[str], level: int) -> Linked:
        used = [self._function(symbol, level)[0] for symbol in functions if symbol.startswith(PREFIX)]
        return self._link(code, names, used, _of_others(functions))[1]

    def entry(self, name: str) -> int:
        """The address of one of the functions by which programs are entered."""
        with _lock:
            return self._function(name)[1][name]

    def _function(self, symbol: str, level: int = OPTIMISATION) -> tuple[str, Linked]:
        """The library with one of our functions, compiled on a level, and its addresses."""
        is_shared = symbol in prologue.NAMES  # by all programs
        names, level = (prologue.NAMES, OPTIMISATION) if is_shared else ((symbol,), level)
        key = names[0], level
        if key not in self.functions:
            text = prologue.around if is_shared else functools.partial(text_of, symbol)
            self.functions[key] = self._link(self._object_of_ours(key, text), names, [])
        return self.functions[key]

    def _object(self, text: str, level: int = OPTIMISATION) -> bytes:
        """The object code of a text: from the disk, if it has been compiled before."""
        return self._kept(lambda: self.key_of_text(text, level), lambda: self._compiled(text, level))

    def _object_of_ours(self, key: tuple[str, int], text: Callable[[], str]) -> bytes:
        """The object code of a function of ours, the text of which is not written if it is on disk."""
        return self._kept(lambda: checksum(self.surroundings, *map(str, key)), lambda: self._compiled(text(), key[1]))

    @staticmethod
    def _kept(key: Callable[[], str], make: Callable[[], bytes]) -> bytes:
        """What is on disk, or is made now and kept there."""
        folder = disk()
        if folder is None:
            return make()
        name = key()
        found = folder.read(name)
        if found is None:
            found = make()
            folder.write(name, found)
        return found

    def _compiled(self, text: str, level: int = OPTIMISATION) -> bytes:
        module, target = self._read(text), self.targets[level]
        self._optimise(module, target)
        return self._emitted(module, target, WITHOUT_IN_LONG if text.count("\n") > LONG else WITHOUT)

    @alone()
    def _read(self, text: str) -> Any:
        try:
            module = self.llvm.parse_assembly(text)
            module.verify()
        except RuntimeError as error:
            let_through(error)
            raise CannotCompile(f"LLVM refuses what was written: {error}") from error
        return module

    @alone()
    def _emitted(self, module: Any, target: Any, without: Sequence[str]) -> bytes:
        with self._options(without):
            code = target.emit_object(module)
        module.close()
        return code

    @contextlib.contextmanager
    def _options(self, names: Sequence[str]) -> Iterator[None]:
        """Options of LLVM, which are the whole process's: only for a moment, as others may compile here as well."""
        names = names if self.llvm.llvm_version_info[0] in KNOWN else ()
        try:
            for name in names:
                self.llvm.set_option("mdf-loop", f"-{name}=true")
            yield
        finally:
            for name in names:
                self.llvm.set_option("mdf-loop", f"-{name}=false")

    @alone()
    def _size(self, code: bytes) -> int:
        """Bytes of instructions in an object file."""
        sections = self.llvm.ObjectFileRef.from_data(code).sections()
        return sum(section.size() for section in sections if section.is_text())

    @alone()
    def _optimise(self, module: Any, target: Any) -> None:
        llvm = self.llvm
        passes = llvm.create_new_module_pass_manager()
        for name in PASSES:
            getattr(passes, f"add_{name}_pass")()
        options = llvm.create_pipeline_tuning_options(speed_level=1)
        passes.run(module, llvm.create_pass_builder(target, options))

    @alone()
    def _link(
        self, code: bytes, names: Sequence[str], used: Sequence[str], others: Mapping[str, int] = _PYTHON
    ) -> tuple[str, Linked]:
        builder = self.llvm.JITLibraryBuilder().add_current_process().add_object_img(code)
        for library in used:
            builder.add_jit_library(library)
        for symbol, address in others.items():
            builder.import_symbol(symbol, address)
        for name in names:
            builder.export_symbol(name)
        library = f"library{next(self.numbers)}"
        try:
            return library, Linked(builder.link(self.linker, library))
        except RuntimeError as error:
            let_through(error)
            raise CannotCompile(f"it cannot be linked: {error}") from error


@alone()
def machine() -> Machine:
    """This computer, asked once."""
    return _machine()


@functools.cache
def _machine() -> Machine:
    return Machine()
