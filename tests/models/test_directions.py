"""Easy, hard and inert directions (theory 1.1), against what symmetry and hand calculation say."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from bulkedge.foundation.errors import BadInput
from bulkedge.models.directions import directions
from bulkedge.models.symmetries import involutions, signed_permutations
from bulkedge.models.target import target

HALF = math.sqrt(0.5)
THIRD = math.sqrt(1 / 3)
Z1, Z2, Z3 = np.eye(3)


def projection(basis):
    b = np.asarray(basis, float)
    return b @ b.T


def same_span(basis, vectors, atol=1e-9):
    vectors = np.array(vectors, float).T.reshape(basis.shape[0], -1)
    return basis.shape[1] == vectors.shape[1] and np.allclose(projection(basis), projection(vectors), atol=atol)


@pytest.mark.parametrize(
    ("link", "easy", "hard", "stages"),
    [
        ("z^2", [], [[1]], []),
        ("he3(z)", [[1]], [], [1]),
        ("z^2*exp(-z^2)", [], [[1]], []),
        ("sign(z) + 0.3*e", [[1]], [], [1]),
        ("z1*z2", [], [[1, 0], [0, 1]], []),
        ("z1 + z2^2", [[1, 0]], [[0, 1]], [1]),
        ("max(z1,z2)", [[HALF, HALF]], [[HALF, -HALF]], [1]),
        ("(z1>0)*(z2>0)", [[HALF, HALF]], [[HALF, -HALF]], [1]),
        ("relu(z1)*z2", [[1, 0], [0, 1]], [], [2]),
        ("abs(z1) - abs(z2)", [], [[1, 0], [0, 1]], []),
        ("z1 + z2*e", [[1, 0]], [[0, 1]], [1]),
        # sign(z2) shows at once; only then what it is multiplied by
        ("sign(z1 + 0.5)*sign(z2)", [[0, 1], [1, 0]], [], [1, 1]),
        ("where(z1>0, z2, z3^2)", [Z1, Z2], [Z3], [2]),
        ("sign(z1)+sign(z2)+sign(z3)", [[THIRD] * 3], [[HALF, -HALF, 0], [1 / math.sqrt(6)] * 2 + [-2 / math.sqrt(6)]],
         [1]),
        ("z1 + z1*z2*z3", [Z1], [Z2, Z3], [1]),
        ("z1 + z1*z2 + z1*z2*z3", [Z1, Z2, Z3], [], [3]),
        ("sign(z1*z2*z3)", [], [Z1, Z2, Z3], []),
        ("z1*z2*z3*z4", [], np.eye(4), []),
    ],
)  # fmt: skip
def test_classes(link, easy, hard, stages):
    found = directions(target(link))
    assert same_span(found.easy, easy)
    assert same_span(found.hard, hard)
    assert [s.shape[1] for s in found.stages] == stages
    assert found.inert.shape[1] == 0


def test_inert_directions_are_split_off():
    found = directions(target("z1 + z3^2", 4))
    assert same_span(found.easy, [[1, 0, 0, 0]])
    assert same_span(found.hard, [[0, 0, 1, 0]])
    assert same_span(found.inert, [[0, 1, 0, 0], [0, 0, 0, 1]])
    assert found.kinds == "1 easy, 1 hard, 2 inert"


def test_the_certificate_separates_a_weak_signal_from_none():
    """z^2 + c z is easy for any c; at c = 0 it is hard. The explained variance of a weak tilt is of order c^2."""
    weak = directions(target("z^2 + 0.003*z + e"))
    assert same_span(weak.easy, [[1]])
    stage = weak.certificate["stages"][0]
    # E[E[z|y]^2] by first-order perturbation: c^2 E[(d/dc E[z | y])^2], of order c^2 at unit noise.
    assert 1e-7 < stage["signal"] < 1e-5
    assert stage["signal"] > stage["resolution"] > 0
    none = directions(target("z^2 + e"))
    assert none.hard.shape[1] == 1
    assert none.certificate["stages"][-1] == {"signal": 0.0, "stderr": 0.0, "resolution": 0.0, "largest_unseen": 0.0}


def test_without_a_symmetry_hardness_is_found_from_conditional_expectations():
    """y = 1{-1 < z < b or z > 2} has E[z 1{y=1}] = phi(1) - phi(b) + phi(2) = 0 for phi(b) = phi(1) + phi(2)."""
    phi = math.exp(-0.5) + math.exp(-2.0)
    b = math.sqrt(-2.0 * math.log(phi))
    hard = directions(target(f"(z > -1)*(z < {b!r}) + (z > 2)"))
    assert same_span(hard.hard, [[1]])
    assert len(signed_permutations(target(f"(z > -1)*(z < {b!r}) + (z > 2)"))) == 1
    last = hard.certificate["stages"][-1]
    assert last["largest_unseen"] <= last["resolution"]
    easy = directions(target(f"(z > -1)*(z < {b + 1e-3!r}) + (z > 2)"))
    assert same_span(easy.easy, [[1]])


def rotated(link, k, seed=3):
    r = np.linalg.qr(np.random.default_rng(seed).standard_normal((k, k)))[0]
    inner = target(link, k)
    return target(lambda z, e: inner.call(r.astype(z.dtype) @ z, e), k), r


@pytest.mark.parametrize(
    ("link", "k"),
    [
        ("max(z1,z2)", 2),
        ("where(z1>0, z2, z3^2)", 3),
        ("sign(z1)+sign(z2)+sign(z3)", 3),
        ("z1^2 + sign(z1*z2*z3)", 3),
    ],
)
def test_rotated_coordinates_change_nothing_but_the_basis(link, k):
    """To rounding errors, because the involutions of the rotated link are found: hard directions are exact."""
    turned, r = rotated(link, k)
    found, plain = directions(turned), directions(target(link, k))
    for name in ("easy", "hard", "inert"):
        np.testing.assert_allclose(projection(r @ getattr(found, name)), projection(getattr(plain, name)), atol=1e-7)


def test_symmetries_are_symmetries_and_all_are_found_where_they_can_be_counted():
    assert len(signed_permutations(target("z1*z2*z3"))) == 24  # 6 orders, an even number of signs
    assert len(signed_permutations(target("z1 + z2^2"))) == 2
    assert len(signed_permutations(target("z1*z2 + e"))) == 4
    assert len(signed_permutations(target("z1*z2*e"))) == 8  # with e -> -e every pair of signs will do
    turned, r = rotated("z1*z2", 2)
    found = involutions(turned, np.eye(2))
    assert len(found) == 3  # both exchanges, and minus the identity
    z = np.random.default_rng(0).standard_normal((50, 2))
    for g in found:
        w, v = z @ r.T, z @ g.T @ r.T
        np.testing.assert_allclose(v[:, 0] * v[:, 1], w[:, 0] * w[:, 1], atol=1e-10)
    assert involutions(target("z1 + z1*z2"), np.eye(2)) == ()


def test_a_callable_with_a_kink_and_noise():
    found = directions(target(lambda z, e: jnp.maximum(z[0], -z[0]) + jnp.sin(z[1]) + 0.1 * e, 2))
    assert same_span(found.easy, [[0, 1]])
    assert same_span(found.hard, [[1, 0]])


@pytest.mark.parametrize("link", ["1 + 0*z", "e + 0*z"])
def test_a_label_that_is_a_constant_in_z_is_refused(link):
    with pytest.raises(BadInput, match="does not depend on z"):
        directions(target(link))
