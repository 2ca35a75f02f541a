import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bulkedge.foundation.errors import BadInput
from bulkedge.models import functions

V = np.array([-3.0, -0.7, 0.4, 2.5])


def at(f, *args):
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(f)(*(jnp.asarray(a) for a in args)))


@pytest.mark.parametrize("name", sorted(functions.ACTIVATIONS))
def test_catalogue_activations_equal_their_expressions(name):
    text = {
        "relu": "max(v, 0)",
        "leaky-relu": "where(v > 0, v, 0.01*v)",
        "quad": "v^2",
        "swish": "v*sigmoid(v)",
        "gelu": "v*(1 + erf(v/sqrt(2)))/2",
    }.get(name, f"{name}(v)")
    assert at(functions.activation(name), V) == pytest.approx(at(functions.activation(text), V), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("squared", "u^2/2"),
        ("logistic", "softplus(-y*f)"),
        ("pseudo-huber", "sqrt(1 + (f - y)^2) - 1"),
        ("huber", "where(abs(u) < 1, u^2/2, abs(u) - 0.5)"),
    ],
)
def test_catalogue_losses_equal_their_expressions(name, text):
    y, f = np.repeat([-1.0, 1.0, 0.3], 4), np.tile(V, 3)
    assert at(functions.loss(name), y, f) == pytest.approx(at(functions.loss(text), y, f), rel=1e-12)


@pytest.mark.parametrize("name", sorted(functions.ACTIVATIONS))
def test_kinks_are_found_where_they_are(name):
    jump = functions.derivative_jump(functions.activation(name), order=1)
    if name in {"relu", "leaky-relu", "abs"}:
        assert jump == pytest.approx(0, abs=1e-6)
    else:
        assert jump is None


@pytest.mark.parametrize(
    ("text", "order", "where"),
    [
        ("abs(v - 1.25)", 1, 1.25),
        ("v + 1e-3*relu(v + 2)", 1, -2.0),
        ("v > 0.5", 0, 0.5),
        ("v*abs(v)", 1, None),
        ("tanh(50*v)", 0, None),
        ("v^3", 1, None),
    ],
)
def test_jumps_of_expressions(text, order, where):
    f = functions.resolve("activation", text, {}, ("v",), 1)
    jump = functions.derivative_jump(f, order=order)
    assert jump == (None if where is None else pytest.approx(where, abs=1e-5))


def test_names_ignore_case_and_the_kind_of_dash():
    assert functions.loss("Pseudo_Huber") == functions.loss("pseudo-huber")
    assert functions.activation(" GELU ") == functions.activation("gelu")
    assert functions.activation("gelu") != functions.activation("relu")


def test_a_difference_is_not_a_name():
    assert float(functions.activation("-v")(2.0)) == -2.0
    assert float(functions.activation("v-1")(3.0)) == 2.0
    assert float(functions.loss("(y-f)^2")(1.0, 3.0)) == 4.0


def test_callables_are_equal_if_they_are_the_same():
    f = lambda v: jnp.tanh(v) ** 2  # noqa: E731
    assert functions.activation(f) == functions.activation(f)
    assert hash(functions.activation(f)) == hash(functions.activation(f))
    assert functions.activation(f) != functions.activation(lambda v: jnp.tanh(v) ** 2)
    assert functions.activation(functions.activation(f)).call is f


class Unhashable:
    __hash__ = None

    def __call__(self, *args):
        return args[0]


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (functions.activation, "gellu", "did you mean gelu"),
        (functions.activation, "3", "unknown name"),
        (functions.activation, "1 + 1", "does not depend on v"),
        (functions.activation, "v > 0", "jumps at v"),
        (functions.activation, "sign(v)*(v^2 + 1)", "jumps at v"),
        (functions.activation, "v + y", "unknown name y"),
        (functions.activation, 3, "must be a name"),
        (functions.activation, None, "must be a name"),
        (functions.activation, lambda v: jnp.stack([v, v]), "one real number"),
        (functions.activation, lambda v: v > 0, "one real number"),
        (functions.activation, lambda v: float(v), "cannot be traced"),
        (functions.activation, lambda a, b: a, "cannot be traced"),
        (functions.activation, Unhashable(), "not hashable"),
        (functions.loss, "square", "did you mean squared"),
        (functions.loss, "y^2", "does not depend on f"),
        (functions.loss, "abs(u)", "slope jumps"),
        (functions.loss, "abs(u) > 1", "it jumps"),
        (functions.loss, "(f - z)^2", "unknown name z"),
        (functions.loss, lambda y: y, "cannot be traced"),
    ],
)
def test_what_cannot_be_used_is_refused(make, given, message):
    with pytest.raises(BadInput, match=message) as caught:
        make(given)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(make.__name__)
