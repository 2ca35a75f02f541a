"""Where the lowest Hessian eigenvalue of a finite network should lie, given the limiting spectrum."""

from __future__ import annotations

from typing import NamedTuple

from bulkedge.foundation.answers import Outlier, Spectrum

TRACY_WIDOM = -1.2065335745820
"""Mean of the largest eigenvalue's fluctuation (beta = 1); the lowest one has the opposite sign."""


class Lowest(NamedTuple):
    """value, stderr: the prediction. drift: finite-size difference to be allowed for.

    outlier: the one that is meant, where it stands clear of the bulk; None where the edge of the bulk decides.
    """

    value: float
    stderr: float
    drift: float
    outlier: Outlier | None


def lowest(spectrum: Spectrum, dimension: int) -> Lowest | None:
    """The lowest of `dimension` eigenvalues: an outlier well below the edge, or the edge with its Tracy-Widom shift.

    An outlier's own bias is of order 1/d times the room the bulk leaves it. Close to the transition it hides in the
    fluctuations of the edge, of width gamma d^(-2/3), and more is allowed for. None where the edge has no such law and
    there is no outlier.
    """
    width = (spectrum.edge_scale or 0.0) * dimension ** (-2.0 / 3.0)
    found = next((o for o in spectrum.outliers if o.value < spectrum.edge and o.probability > 0.5), None)
    if found is not None and spectrum.edge - found.value > 4.0 * width:
        return Lowest(found.value, found.stderr, 4.0 * abs(found.value) / dimension + 0.25 * width, found)
    if spectrum.edge_scale is None:
        return None
    value = spectrum.edge - TRACY_WIDOM * width
    if found is not None and found.value < value:
        return Lowest(found.value, found.stderr, 1.5 * width, None)
    return Lowest(value, spectrum.edge_stderr, 0.5 * width, None)
