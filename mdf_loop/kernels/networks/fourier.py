"""Fourier transforms, of whole signals (DFT) and of a window that moves along them (STFT).

A complex number is two elements along the last axis; a real signal has one there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.kernels.arrays.axes import place
from mdf_loop.ops.registry import kernel


@kernel("DFT", since=20)
def dft(x, dft_length=None, axis=None, *, inverse=0, onesided=0):
    """The spectrum of signals along an axis, or the signals of a spectrum; ``onesided`` has no frequencies below 0."""
    return transformed(x, dft_length, -2 if axis is None else int(axis), inverse, onesided)


@kernel("DFT", since=17)
def dft_17(x, dft_length=None, *, axis=1, inverse=0, onesided=0):
    """The axis is an attribute."""
    return transformed(x, dft_length, axis, inverse, onesided)


@kernel("STFT", since=17)
def stft(signal, frame_step, window=None, frame_length=None, *, onesided=1):
    """The spectra of the parts of a signal that begin every ``frame_step`` elements, each times a window."""
    step = int(frame_step)
    if window is None:
        window = np.ones(signal.shape[1] if frame_length is None else int(frame_length), signal.dtype)
    width = window.shape[0]
    length = width if frame_length is None else int(frame_length)
    if step < 1 or not 0 < length <= signal.shape[1]:
        raise ValueError(f"frames of {length} elements every {step} do not fit a signal of {signal.shape[1]}")
    starts = np.arange(1 + (signal.shape[1] - length) // step) * step
    behind = max(int(starts[-1]) + width - signal.shape[1], 0)
    padded = np.pad(signal, [(0, 0), (0, behind), (0, 0)])
    frames = padded[:, starts[:, None] + np.arange(width)] * window[:, None]
    return transformed(frames, length, 2, 0, onesided)


def transformed(x: Any, length: Any, axis: int, inverse: int, onesided: int) -> Any:
    """A transform along an axis, in the element type of the input.

    Raises
    ------
    ValueError
        The axis is that of the parts of complex numbers, or the input has other parts.
    """
    axis = place(axis, x.ndim)
    if axis == x.ndim - 1 or x.shape[-1] not in (1, 2):
        raise ValueError(f"the last axis is 1 or 2 long and not transformed; the input has shape {list(x.shape)}, axis is {axis}")
    numbers = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
    if length is None:
        length = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    if inverse and onesided:
        return np.fft.irfft(numbers, int(length), axis)[..., None].astype(x.dtype)
    found = (np.fft.ifft if inverse else np.fft.fft)(numbers, int(length), axis)
    if onesided:
        found = found[(slice(None),) * axis + (slice(int(length) // 2 + 1),)]
    return np.stack([found.real, found.imag], -1).astype(x.dtype)
