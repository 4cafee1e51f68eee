"""Compiling in a thread, while the run that asked for it goes on in another way.

There is a thread as long as there is something to compile.  It never holds up the end of the process, and does not outlive a copy
of it (``os.fork``): there, what had not come is ordered again when it is asked for.
"""

from __future__ import annotations

import atexit
import contextvars
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from mdf_loop.errors import let_through
from mdf_loop.execute import specialised
from mdf_loop.execute.specialised import Specialised
from mdf_loop.step.records import Region

PATIENCE = 1.0
"""Seconds that a copy of the process waits for what is being compiled."""

log = logging.getLogger(__name__)


class Order:
    """One Step that is to be machine code; compiled only as long as the order is kept.

    ``keep`` is called with it, in the thread that compiled it.
    """

    def __init__(
        self,
        step: Region,
        is_block: bool = False,
        is_quick: bool = False,
        keep: Callable[[Specialised], None] | None = None,
    ) -> None:
        self._step: Region | None = step
        self._keep = keep
        self._is_block, self._is_quick, self._process = is_block, is_quick, 0
        self._found: Specialised | str | None = None
        self._filled = threading.Event()

    def wait(self, seconds: float) -> None:
        """Do nothing until it is there, but no longer than so many seconds; Ctrl-C is seen."""
        if self.found is None:
            self._filled.wait(seconds)

    @property
    def found(self) -> Specialised | str | None:
        """The machine code, or why there is none; None as long as that is not known."""
        if self._found is None and self._process != os.getpid():
            self._process = os.getpid()
            _line.put(self)
        return self._found

    def fill(self) -> None:
        """Compile it.  Whatever goes wrong is a reason why there is no machine code."""
        assert self._step is not None
        try:
            found = specialised.in_machine_code(self._step, self._is_block, self._is_quick)
            self.give(found)
            if self._keep is not None and isinstance(found, Specialised):
                self._keep(found)
        except BaseException as error:
            log.debug("compiling ended early", exc_info=True)
            self.give(f"{type(error).__name__} {error}")

    def give(self, found: Specialised | str) -> None:
        """It is there, or never will be."""
        self._found, self._step = found, None
        self._filled.set()


class _Waiting(NamedTuple):
    """An order, if it is still kept, and the options and the like under which it was given."""

    order: Callable[[], Order | None]
    context: contextvars.Context


class _Line:
    """What waits to be compiled, and the thread that does it."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Nothing waits, and no thread works."""
        self._lock, self._is_closed = threading.Lock(), False
        self._waiting: deque[_Waiting] = deque()
        self._worker: threading.Thread | None = None

    def put(self, order: Order) -> None:
        """One more."""
        with self._lock:
            self._waiting.append(_Waiting(weakref.ref(order), contextvars.copy_context()))
        self.open()

    def open(self) -> None:
        """Let a thread work, if there is something to do."""
        with self._lock:
            self._is_closed = False
            if self._waiting and self._worker is None:
                self._worker = threading.Thread(target=self._work, name="mdf_loop compiling", daemon=True)
                try:
                    self._worker.start()
                except RuntimeError as error:  # no more threads, or the process ends: the work is done in other ways
                    let_through(error)
                    self._worker = None
                    self._give_up(f"no thread that compiles: {error}")

    def close(self) -> None:
        """Begin nothing more, and wait a while for what is being compiled."""
        with self._lock:
            self._is_closed, worker = True, self._worker
        if worker is not None and worker is not threading.current_thread():
            worker.join(PATIENCE)

    def stop(self) -> None:
        """The process ends: what waits is not compiled any more."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()

    def _give_up(self, why: str) -> None:
        """Nothing that waits will be compiled."""
        while self._waiting:
            if (order := self._waiting.popleft().order()) is not None:
                order.give(why)

    def _next(self) -> _Waiting | None:
        with self._lock:
            if self._waiting and not self._is_closed:
                return self._waiting.popleft()
            self._worker = None
            return None

    def _work(self) -> None:
        while (waiting := self._next()) is not None:
            order = waiting.order()
            if order is not None:
                waiting.context.run(order.fill)
            del order, waiting


_line = _Line()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_line.close, after_in_parent=_line.open, after_in_child=_line.begin_anew)
atexit.register(_line.stop)


def idle(seconds: float) -> bool:
    """Wait until nothing is being compiled, but not for ever; says whether that is so."""
    worker: Any = _line._worker
    if worker is not None:
        worker.join(seconds)
    return _line._worker is None
