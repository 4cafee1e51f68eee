"""From LLVM's text to addresses: this machine, its optimisations, linking.  llvmlite is imported here, when first asked for."""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from collections.abc import Sequence
from typing import Any

from mdf_loop.backends.llvm import randomness
from mdf_loop.backends.llvm.elements import CannotCompile
from mdf_loop.backends.llvm.mathematics.library import PREFIX, text_of

OPTIMISATION = 1
"""LLVM's level of code generation."""

_PYTHON = {
    name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    for name in ("PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals", "PyMem_RawRealloc", "PyMem_RawFree")
}
"""Functions of Python's that programs call."""

_lock = threading.Lock()


def is_installed() -> bool:
    """Whether llvmlite is there."""
    try:
        import llvmlite.binding  # noqa: F401
    except ImportError:
        return False
    return True


class Machine:
    """This computer: what it compiles for, the linker, the functions of mathematics that were compiled so far."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self.llvm = llvm
        try:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
        except RuntimeError as error:  # pragma: no cover - a build of LLVM without this processor
            raise CannotCompile(f"LLVM does not know this processor ({error})") from error
        self.features = llvm.get_host_cpu_features()
        self.linker = llvm.create_lljit_compiler(self._target())
        self.target = self._target()
        self.numbers = itertools.count()
        self.functions: dict[str, tuple[str, Any]] = {}

    def _target(self) -> Any:
        llvm = self.llvm
        return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=self.features.flatten(), opt=OPTIMISATION, jit=True
        )

    @property
    def register_bytes(self) -> int:
        """Bytes of the widest registers."""
        if self.features.get("avx512f") and self.features.get("avx512bw") and self.features.get("avx512vl"):
            return 64
        return 32 if self.features.get("avx2") else 16

    @property
    def has_half(self) -> bool:
        """Whether conversions of float16 are instructions."""
        return bool(self.features.get("f16c") or self.features.get("fullfp16"))

    def linked(self, text: str, names: Sequence[str], functions: Sequence[str]) -> tuple[Any, int]:
        """The functions of a text by their names, at addresses as long as what is given is kept, and bytes of instructions.

        Raises
        ------
        CannotCompile
            LLVM refuses the text.
        """
        with _lock:
            used = [self._function(symbol) for symbol in functions if symbol.startswith(PREFIX)]
            drawn = [symbol for symbol in functions if symbol.startswith(randomness.PREFIX)]
            code = self._object(text)
            return self._link(code, names, used, drawn)[1], self._size(code)

    def _function(self, symbol: str) -> str:
        """The library with one of our functions."""
        if symbol not in self.functions:
            self.functions[symbol] = self._link(self._object(text_of(symbol)), [symbol], [])
        return self.functions[symbol][0]

    def _object(self, text: str) -> bytes:
        llvm = self.llvm
        try:
            module = llvm.parse_assembly(text)
            module.verify()
        except RuntimeError as error:
            raise CannotCompile(f"LLVM refuses what was written: {error}") from error
        self._optimise(module)
        return self.target.emit_object(module)

    def _size(self, code: bytes) -> int:
        """Bytes of instructions in an object file."""
        return sum(section.size() for section in self.llvm.ObjectFileRef.from_data(code).sections() if section.is_text())

    def _optimise(self, module: Any) -> None:
        llvm = self.llvm
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        options = llvm.create_pipeline_tuning_options(speed_level=1)
        passes.run(module, llvm.create_pass_builder(self.target, options))

    def _link(self, code: bytes, names: Sequence[str], used: Sequence[str], drawn: Sequence[str] = ()) -> tuple[str, Any]:
        builder = self.llvm.JITLibraryBuilder().add_current_process().add_object_img(code)
        for library in used:
            builder.add_jit_library(library)
        for symbol, address in _PYTHON.items():
            builder.import_symbol(symbol, address)
        for symbol in drawn:
            builder.import_symbol(symbol, randomness.addresses()[symbol])
        for name in names:
            builder.export_symbol(name)
        library = f"library{next(self.numbers)}"
        try:
            return library, builder.link(self.linker, library)
        except RuntimeError as error:
            raise CannotCompile(f"it cannot be linked: {error}") from error


@functools.cache
def machine() -> Machine:
    """This computer, asked once."""
    return Machine()
