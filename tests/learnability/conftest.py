"""Small numerics, and the table of independently computed values at t = 0."""

import pytest

import bulkedge as be

Q = 0.6744897501960817
IND, TWO, SIGNS = f"abs(z) > {Q}", f"2*(abs(z) > {Q})", f"2*(abs(z) > {Q}) - 1"


@pytest.fixture(scope="session")
def quick():
    """Enough paths for half a percent."""
    return be.Numerics(paths=16384, replicas=4)


@pytest.fixture(scope="session")
def indicator():
    """One gelu neuron on 2 * 1{|z| > median}."""
    return be.Problem(TWO, "gelu", step_size=0.5)


@pytest.fixture(scope="session")
def retrieval():
    """One gelu neuron on z^2 with a loss of bounded slope."""
    return be.Problem("z^2", "gelu", "pseudo-huber", step_size=0.5)
