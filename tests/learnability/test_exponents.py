"""Exponents (theory 2c) against known values, histograms of samples, and delta_alg."""

import math

import numpy as np
import pytest

import bulkedge as be
from bulkedge.foundation.limits import Exponents
from bulkedge.gaussian.hermite import fixed, hermite, invariant
from bulkedge.models import latent
from bulkedge.models.target import target


@pytest.mark.parametrize(
    ("link", "information", "leap", "generative", "generative_leap"),
    [
        ("z", 1, 1, 1, 1),
        ("sign(z)", 1, 1, 1, 1),
        ("z^2", 2, 2, 2, 2),
        ("he3(z)", 3, 3, 1, 1),
        ("he4(z)", 4, 4, 2, 2),
        ("he5(z) + 0.5*e", 5, 5, 1, 1),
        ("z^2*exp(-z^2)", 4, 4, 4, 4),
        ("z^2*exp(-z^2) + 0.3*e", 4, 4, 4, 4),
        ("sign(z)*(2*(abs(z) > 1.1774100225154747) - 1)", 3, 3, 3, 3),
        ("z1*z2", 2, 2, 2, 2),
        ("z1*z2*z3", 3, 3, 2, 2),
        ("z1*z2*z3*z4", 4, 4, 2, 2),
        ("sign(z1*z2)", 2, 2, 2, 2),
        ("sign(z1*z2*z3)", 3, 3, 3, 3),
        ("sign(z1*z2*z3*z4)", 4, 4, 4, 4),
        ("z1 + z1*z2 + z1*z2*z3", 1, 1, 1, 1),
        ("z1 + z1*z2*z3", 1, 2, 1, 2),
        ("z1 + z2*z3*z4", 1, 3, 1, 2),
        ("z1 + z1*he3(z2)", 1, 3, 1, 1),
        ("sign(z1) + sign(z1*z2) + sign(z1*z2*z3)", 1, 1, 1, 1),
        ("z1^2 + sign(z1*z2*z3)", 2, 2, 2, 2),
        ("sign(z1)+sign(z2)+sign(z3)", 1, 2, 1, 2),
        ("(z1>0)*(z2>0)", 1, 2, 1, 2),
        ("max(z1,z2)", 1, 2, 1, 2),
    ],
)
def test_known_values(link, information, leap, generative, generative_leap):
    """For the third door, E[z; y] = 0 where 2 phi(a) = phi(0), that is a = sqrt(2 log 2)."""
    found = be.exponents(link)
    assert (found.information, found.leap) == (information, leap)
    assert (found.generative, found.generative_leap) == (generative, generative_leap)
    assert found.reasons == {}


def test_what_the_mean_of_the_label_never_shows():
    found = be.exponents("z*e")
    assert (found.information, found.leap, found.generative, found.generative_leap) == (None, None, 2, 2)
    assert found.reasons["information"] == "infinite: E[y | z] is constant"
    found = be.exponents("z1 + z2*sin(e)")
    assert (found.information, found.leap, found.generative, found.generative_leap) == (1, None, 1, 2)
    assert found.reasons == {"leap": "infinite: E[y | z] depends on 1 of the 2 directions only"}
    assert "no power of d" in found.samples["online"]
    assert "n of order d," in found.samples["best"]


@pytest.mark.parametrize("link", ["he3(z)", "z^2*exp(-z^2)", "max(abs(z), 1)", "z^3 - 3*z + 0.5*e", "sign(z) + z^2"])
def test_energies_of_one_direction_by_histograms(link):
    """E[E[h_d | y]^2] of the degrees looked at, by two independent halves of samples in bins of y."""
    given = target(link)
    degrees = be.exponents(link).evidence["generative_leap"][0]["degrees"]
    n, parts = 400_000, []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z, e = rng.standard_normal((n, 1)), rng.standard_normal(n)
        y = latent.evaluate(given, z, e)
        # A little noise breaks the ties of an atom without moving it out of its bin.
        label = np.searchsorted(np.quantile(y, np.linspace(0, 1, 401)[1:-1]), y)
        row = []
        for entry in degrees:
            h = hermite(z, entry["degree"])[:, 0]
            halves = []
            for part in (slice(0, None, 2), slice(1, None, 2)):
                mass = np.maximum(np.bincount(label[part], minlength=400), 1)
                halves.append(np.bincount(label[part], h[part], 400) / mass)
            row.append(float(np.sum(np.bincount(label, minlength=400) / n * halves[0] * halves[1])))
        parts.append(row)
    mean, error = np.mean(parts, axis=0), np.std(parts, axis=0, ddof=1) / math.sqrt(5)
    for entry, value, sem in zip(degrees, mean, error, strict=True):
        assert entry["energy"] == pytest.approx(value, abs=5 * sem + 0.02 * value + 1e-4)


@pytest.mark.parametrize("link", ["z^2", "z1*z2", "sign(z1*z2*z3)", "z1 + z1*z2*z3", "z^2*exp(-z^2)", "z1*z2 + 0.5*e"])
def test_delta_alg_is_infinite_where_the_generative_leap_is_above_two(link):
    found, threshold = be.exponents(link), be.delta_alg(link)
    assert (found.generative_leap > 2) == (threshold.delta is None)
    assert found.information >= found.generative


def test_rotated_coordinates():
    r = np.linalg.qr(np.random.default_rng(8).standard_normal((3, 3)))[0]

    def turned(z, e):
        w = r.astype(z.dtype) @ z
        return w[0] + w[0] * w[1] * w[2]

    found = be.exponents(turned, 3)
    assert (found.information, found.leap, found.generative, found.generative_leap) == (1, 2, 1, 2)
    np.testing.assert_allclose(np.abs(r @ np.array(found.evidence["leap"][0]["directions"])[0]), [1, 0, 0], atol=1e-7)


def test_the_sentences_and_json():
    found = be.exponents("he3(z)")
    assert found.samples == {
        "online": "Descent on fresh samples, one pass: n of order d^2, up to logarithms (leap 3).",
        "reused": "Descent that uses its samples again: n of order d, up to logarithms "
        "(generative leap 1; it acts as if the label had been transformed).",
        "best": "Best efficient algorithm known: n of order d, and low-degree methods need as many "
        "(generative leap 1).",
    }
    assert "d log d" in be.exponents("z^2").samples["online"]
    assert "d^1.5" in be.exponents("sign(z1*z2*z3)").samples["best"]
    assert Exponents.from_dict(found.to_dict()).to_dict() == found.to_dict()
    assert "damian-2025" in found.cite()
    stage = found.evidence["leap"][0]
    assert [e["degree"] for e in stage["degrees"]] == [1, 2, 3]
    assert stage["degrees"][2]["energy"] == pytest.approx(1.0, rel=1e-9)  # he3/sqrt(6) is all of the label
    assert all(e["energy"] <= e["resolution"] for e in stage["degrees"][:2])


def test_invariants_of_a_group_of_turns():
    """Degree 2, two variables, exchange of both: z1^2 + z2^2 - 2 and z1 z2; with a mirror the first alone."""
    swap, mirror = np.array([[0.0, 1], [1, 0]]), np.diag([1.0, -1])
    assert np.trace(invariant([np.eye(2), swap], 2)) == pytest.approx(2)
    only = invariant([np.eye(2), swap, mirror], 2)
    np.testing.assert_allclose(only, [[0.5, 0, 0.5], [0, 0, 0], [0.5, 0, 0.5]], atol=1e-12)
    assert not np.any(invariant([np.eye(2), -np.eye(2)], 3))
    np.testing.assert_allclose(fixed(0.5 * (np.eye(2) + mirror)), np.diag([1.0, 0]), atol=1e-12)
