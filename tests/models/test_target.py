import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bulkedge.foundation.errors import BadInput
from bulkedge.models.target import CATALOGUE, Target, noisy, target


def at(link, z, e=0.0):
    with jax.enable_x64(True):
        return float(link(jnp.asarray(z, float), jnp.asarray(e)))


@pytest.mark.parametrize(
    ("given", "k", "is_noisy"),
    [
        ("z^2", 1, False),
        ("z + 0.1*e", 1, True),
        ("z1*z2", 2, False),
        ("z3", 3, False),
        ("z1", 1, False),
        ("parity", 2, False),
        ("Phase_Retrieval", 1, False),
        (lambda z, e: z[0] ** 2, 1, False),
        (lambda z, e: z[0] * z[2] + e, None, True),
        (lambda z, e: jnp.array([1.0, 2.0, 3.0]) @ z, 3, False),
    ],
)
def test_the_number_of_directions_is_read_off(given, k, is_noisy):
    link = target(given, None if k is not None else 3)
    assert link.latent_dim == (k or 3)
    assert link.noisy is is_noisy
    assert target(link) is link


def test_unpacking_tells_the_number_of_directions():
    def link(z, e):
        first, second = z
        return first * second

    assert target(link).latent_dim == 2


def test_values():
    assert at(target("z1*z2 + e"), [2.0, 3.0], 0.5) == 6.5
    assert at(target("z1 + z", 2), [2.0, 3.0]) == 4.0
    assert at(target("indicator"), [0.7]) == 1.0
    assert at(target("staircase"), [1.0, 2.0, 3.0]) == 1 + 2 + 6
    assert at(target("z^2", 3), [2.0, 9.0, 9.0]) == 4.0
    assert at(target(lambda z, e: jnp.sum(z) > e, 2), [1.0, 2.0], 2.5) == 1.0


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_with_noise(name):
    clean, rough = target(name), target(noisy(name, 0.25))
    z = np.linspace(0.3, 1.9, clean.latent_dim)
    assert rough.latent_dim == clean.latent_dim
    assert rough.noisy
    assert not clean.noisy
    assert at(rough, z, 2.0) == pytest.approx(at(clean, z) + 0.5)


def test_equal_if_made_from_the_same_text():
    assert target("z^2") == target("z^2")
    assert target("z^2") != target("z^2", 2)
    assert hash(target("z^2")) == hash(target("z^2"))


def test_a_difference_is_not_a_name():
    assert at(target("-z"), [2.0]) == -2.0
    assert at(target("z-e"), [2.0], 0.5) == 1.5
    assert at(target("z1-z2"), [2.0, 0.5]) == 1.5


class Unhashable:
    __hash__ = None

    def __call__(self, z, e):
        return z[0]


@pytest.mark.parametrize(
    ("given", "k", "message"),
    [
        ("phase-retreival", None, "did you mean phase-retrieval"),
        ("tanh", None, "unknown name"),
        ("3", None, "does not depend on z"),
        ("e", None, "does not depend on z"),
        ("z + z2", None, "not both"),
        ("z3", 2, "at least 3"),
        ("z9", None, "unknown name z9"),
        ("z", 0, "latent_dim"),
        ("z", 99, "latent_dim"),
        ("", None, "empty"),
        (None, None, "must be a name"),
        (3.0, None, "must be a name"),
        (lambda z: z, None, "cannot be traced"),
        (lambda z, e: z, 2, "not an array of shape"),
        (lambda z, e: e, None, "does not depend on z"),
        (lambda z, e: 1.0, None, "does not depend on z"),
        (lambda z, e: z[0] * z[1], None, "latent_dim: cannot be read off"),
        (lambda z, e: jnp.sum(z), None, "latent_dim: cannot be read off"),
        (lambda z, e: z[0] * z[2], 2, "latent_dim: is 2, but"),
        (Unhashable(), None, "not hashable"),
    ],
)
def test_what_cannot_be_used_is_refused(given, k, message):
    with pytest.raises(BadInput, match=message) as caught:
        target(given, k)
    assert "\n" not in str(caught.value)


def test_unknown_noise_name():
    with pytest.raises(BadInput, match="did you mean cosine"):
        noisy("cosin", 0.1)


def test_a_callable_that_returns_integers_is_made_real():
    link = target(lambda z, e: z[0] > 0)
    assert isinstance(link, Target)
    assert jax.eval_shape(link, jnp.zeros(1), jnp.zeros(())).dtype == jnp.float32


def test_jitted_and_partial_callables_are_read_like_plain_ones():
    def plain(z, e, c=2.0):
        return c * jnp.tanh(z[0] ** 2)

    for given in (plain, jax.jit(plain), functools.partial(plain, c=2.0), jax.jit(lambda z, e: plain(z, e))):
        link = target(given)
        assert (link.latent_dim, link.noisy) == (1, False)
    assert target(jax.jit(lambda z, e: z[0] + 0.1 * e)).noisy
    # A compiled function clamps an index beyond the end in silence.
    pair = jax.jit(lambda z, e: z[0] * z[1])
    for given in (pair, lambda z, e: pair(z, e)):
        with pytest.raises(BadInput, match="latent_dim: is 1, but"):
            target(given, 1)
        assert target(given, 2).latent_dim == 2


@pytest.mark.parametrize(
    "given",
    [
        lambda z, e: np.tanh(z[0]),
        lambda z, e: math.tanh(z[0]),
        lambda z, e: 1.0 if z[0] > 0 else -1.0,
        lambda z, e: float(z[0]),
    ],
)
def test_plain_numpy_is_refused_with_what_to_write_instead(given):
    with pytest.raises(BadInput, match=r"target: cannot be traced by JAX: write it with jax\.numpy"):
        target(given)
