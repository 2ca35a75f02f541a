"""Hessians of networks that start with an overlap, and of networks whose inputs have a covariance."""

import numpy as np
import pytest

import bulkedge as be
from bulkedge.finite.anisotropic import start_spectrum
from bulkedge.finite.planted import planted_spectra
from bulkedge.foundation.errors import BadInput

INDICATOR = be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu")
TWO = be.Problem("4*tanh(z1^2) + 2*tanh(z2^2)", be.Network("gelu", width=2), step_size=0.1)


def test_isotropic_inputs_give_what_simulate_gives():
    """Lowest eigenvalue and overlap at the start, averaged: the same law as `simulate` measures."""
    d, delta, seeds = 150, 14.0, 24
    found = [start_spectrum(INDICATOR, be.Covariance([1.0]), delta, d, seed) for seed in range(seeds)]
    ours = np.array([(f.values[0], f.overlap2[0]) for f in found])
    known = be.simulate(INDICATOR, delta, d, 0, seeds, 1000, spectrum_times=(0,), eigenpairs=1)
    others = np.array([(s["eigenvalues"][0][0], s["overlap2"][0][0]) for s in known.seeds])
    error = np.hypot(ours.std(axis=0, ddof=1), others.std(axis=0, ddof=1)) / np.sqrt(seeds)
    assert np.all(np.abs(ours.mean(axis=0) - others.mean(axis=0)) < 4 * error)
    assert found[0].overlap2.sum() == pytest.approx(1, abs=1e-4)
    assert found[0].own.sum() == pytest.approx(1, abs=1e-4)


def test_the_spectrum_of_the_inputs_is_the_one_asked_for():
    """A linear neuron with squared loss has G = 1: the Hessian is the sample covariance, in two pieces."""
    few = start_spectrum(INDICATOR, be.Covariance([0.5, 1.5], [0.25, 0.75], [0, 1]), 40.0, 200, 3)
    again = start_spectrum(INDICATOR, be.Covariance([0.5, 1.5], [0.25, 0.75], [0, 1]), 40.0, 200, 3)
    assert np.array_equal(few.values, again.values)
    linear = be.Problem(lambda z, e: 0.0 * z[0] + e, be.Network(lambda v: v))
    ones = start_spectrum(linear, be.Covariance([0.5, 1.5], [0.25, 0.75], [1, 1]), 40.0, 200, 3)
    assert ones.values.mean() == pytest.approx(0.25 * 0.5 + 0.75 * 1.5, rel=0.02)
    assert np.count_nonzero(ones.values < 0.75) == 50


def test_planted_weights():
    overlap = np.array([[0.9, 0.0], [0.0, 0.0]])
    (start, later) = planted_spectra(TWO, overlap, 20.0, 120, (0, 2), pairs=3, seed=5)
    assert start[0].shape == (3,)
    assert start[1].shape == (2, 3)
    assert np.all(np.diff(start[0]) >= 0)
    assert later[0][0] != start[0][0]
    again = planted_spectra(TWO, overlap, 20.0, 120, (0,), pairs=3, seed=5)
    assert np.array_equal(again[0][0], start[0])


def test_bad_arguments():
    with pytest.raises(BadInput, match="overlap"):
        planted_spectra(TWO, np.array([[1.1, 0.0], [0.0, 0.0]]), 5.0, 50)
    with pytest.raises(BadInput, match="one direction"):
        start_spectrum(TWO, be.Covariance([1.0]), 5.0, 50, 0)
