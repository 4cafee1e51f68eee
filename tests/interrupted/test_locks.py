"""Locks that a copy of the process finds free, and what several threads keep together."""

import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mdf_loop
from mdf_loop.calls import prepared as preparing
from mdf_loop.system import threads as locks

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not copied here")


def in_a_copy(do):
    """What a copy of this process ends with, if it does: 0 where nothing failed."""
    copy = os.fork()
    if not copy:
        try:
            do()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(copy, 0)[1]


@forks
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_copy_finds_every_lock_free():
    """The copying of the process waits until the thread that holds a lock has let go of it."""
    lock, is_held, copied = locks.lock(), threading.Event(), threading.Event()
    seen = []

    def hold():
        with lock:
            is_held.set()
            seen.append(copied.wait(0.3))

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    assert in_a_copy(lambda: take(lock)) == 0
    copied.set()
    thread.join()
    assert seen == [False]  # it let go in its own time, before the copy was made


def take(lock):
    """Take a lock that must be free, here and in another thread."""
    assert lock.acquire(timeout=5)
    lock.release()
    found = []
    other = threading.Thread(target=lambda: found.append(lock.acquire(timeout=5)))
    other.start()
    other.join()
    assert found == [True]


@forks
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_process_can_be_copied_by_who_holds_a_lock():
    lock = locks.lock()
    with lock:
        assert in_a_copy(lambda: lock.release()) == 0
    assert lock.acquire(timeout=1)
    lock.release()


def test_locks_that_are_gone_are_forgotten():
    before = len(locks._made)
    lock = locks.lock()
    assert len(locks._made) == before + 1
    del lock
    assert len(locks._made) == before


def test_llvm_is_used_by_one_thread_at_a_time(monkeypatch):
    """What LLVM made is released alone as well: the copy of a process would wait for ever for LLVM's lock, held elsewhere."""
    ffi = pytest.importorskip("llvmlite.binding.ffi")
    from mdf_loop.backends.llvm.linking import lock
    from mdf_loop.backends.llvm.linking.machine import machine

    monkeypatch.setenv("MDF_LOOP_CACHE", "off")
    vars(machine()).pop("targets", None)  # as in a process that has not compiled anything
    uses = []

    def look():
        uses.append(lock._lock._is_owned())

    held, nothing = ffi.lib._lock, lambda: None
    held.register(look, nothing)
    try:
        with mdf_loop.options(engine="jit"):
            for k in range(3):
                body = f"x: sin(x) * {k + 0.25} + tanh(x)"
                assert mdf_loop.loop(20, True, np.linspace(0, 1, 5), body=body).shape == (5,)
        preparing._cache.clear()
        gc.collect()
    finally:
        held.unregister(look, nothing)
    assert len(uses) > 10
    assert all(uses)


def test_many_threads_ask_for_what_is_kept():
    """Each gets what is made for its key, and no more is kept than may be, whatever asks meanwhile."""
    kept = locks.Recent(3)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = pool.map(lambda key: kept.of(key, lambda: -key), [k % 11 for k in range(4000)])
            assert list(found) == [-(k % 11) for k in range(4000)]
    finally:
        sys.setswitchinterval(interval)
    assert 1 <= len(kept) <= 3


def test_what_is_kept_is_made_once_and_the_first_goes():
    kept, made = locks.Recent(2), []
    for key in (1, 1, 2, 2, 3, 2, 1):
        assert kept.of(key, lambda key=key: made.append(key) or -key) == -key
    assert made == [1, 2, 3, 1]
    assert (kept.get(1), kept.get(2)) == (-1, None)
    with pytest.raises(KeyError):
        kept.of(4, lambda: {}[0])
    assert kept.all() == [-3, -1]
