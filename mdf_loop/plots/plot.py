"""``plot``: results of a run or a sweep as a picture."""

from __future__ import annotations

from typing import Any

from mdf_loop.errors import ArgumentError, LoopError
from mdf_loop.options import public


@public
def plot(source: Any, /, *names: str, ax: Any = None, **style: Any) -> Any:
    """Plot results: trajectories, histograms of trials, phase planes, curves and heat maps of sweeps.

    What is drawn follows from what there is.  A value of each iteration is a line, one for each element where it has a few,
    a heat map where it has many.  A number of each trial is a histogram; along other axes, trials are a mean and a band of
    one standard deviation.  A sweep over one input is a curve, over two a heat map.

    Parameters
    ----------
    source : Results or xarray.Dataset
        What :func:`mdf_loop.run`, :func:`mdf_loop.sweep` or :meth:`Results.to_xarray` gave.
    *names : str
        One output or recorded value; or two, of which the second is drawn over the first: a phase plane.  Without
        names, all that make lines are drawn into one picture: what was recorded, if anything was.
    ax : matplotlib Axes, optional
        Where to draw; otherwise a new figure.
    **style
        As matplotlib's ``plot``, ``hist`` or ``pcolormesh`` takes it.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    KindError
        It is neither, or a value holds no numbers.
    ArgumentError
        There is no such value, or nothing in it that one could draw.
    LoopError
        matplotlib is not installed.

    Examples
    --------
    >>> import mdf_loop
    >>> r = mdf_loop.run("examples/accumulate.yaml", x=[10, 20, 5], y=0)
    >>> mdf_loop.plot(r, "sums").get_xlabel()                            # doctest: +SKIP
    'iteration'
    """
    from mdf_loop.plots.on_matplotlib import legend, new_axes, plot_one, plot_phase
    from mdf_loop.plots.series import chosen, series_of

    known = series_of(source)
    if len(names) > 2:
        raise ArgumentError(f"plot takes one name, or two for a phase plane; got {len(names)}")
    shown = chosen(known, names) if names else _all_lines(source, known)
    ax = new_axes() if ax is None else ax
    if len(names) == 2:
        plot_phase(shown[0], shown[1], ax, **style)
    else:
        for series in shown:
            plot_one(series, ax, **style)
        if len(shown) > 1:
            ax.set_ylabel("")
        legend(ax)
    return ax


def _all_lines(source: Any, known: Any) -> list[Any]:
    """What is drawn where no name is given: lines along one axis that all of them have; or a single series of any kind."""
    recorded = getattr(getattr(source, "about", None), "recorded", None)
    found = []
    for name in recorded or known:
        try:
            series = known[name]()
        except LoopError:
            continue  # text, say
        if series.values.ndim:
            found.append(series)
    lines = [series for series in found if series.over_trials()[0].values.ndim == 1]
    alike = [series for series in lines if series.dims == lines[0].dims]
    if not found:
        raise ArgumentError(
            f"there are only single numbers here ({', '.join(known) or 'none'}); record=, trials= or a sweep give more"
        )
    return alike or found[:1]
