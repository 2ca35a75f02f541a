import ast
import builtins
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulkedge.foundation.errors import BadInput
from bulkedge.models.expression import MAX_DEPTH, MAX_LENGTH, parse
from bulkedge.models.tree import FUNCTIONS

NAMES = ("z", "z1", "z2", "e")
Z = np.array([-2.3, -1.0, -0.4, 0.0, 0.3, 1.0, 1.7])


def value(text, **values):
    with jax.enable_x64(True):
        return np.asarray(parse(text, NAMES)(**values))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2*(abs(z) > 0.67449)", 2.0 * (np.abs(Z) > 0.67449)),
        ("z^3 - 2*z**2/3", Z**3 - 2 * Z**2 / 3),
        ("-z^2", -(Z**2)),
        ("2^-1*z", 0.5 * Z),
        ("z - 1 - 2 - z", Z - 1 - 2 - Z),
        ("8/2/2*z", 2 * Z),
        ("1 < z < 2", (Z > 1) & (Z < 2)),
        ("z >= 1 or not (z != -1)", (Z >= 1) | (Z == -1)),
        ("z > 0 and z", (Z > 0) & (Z != 0)),
        ("where(z > 0, 1, -1)", np.where(Z > 0, 1, -1)),
        ("max(z, 0, 1) + min(z, -1)", np.maximum(np.maximum(Z, 0), 1) + np.minimum(Z, -1)),
        ("sign(z)*relu(z)", np.sign(Z) * np.maximum(Z, 0)),
        ("erf(z) + gelu(z)", [math.erf(z) + 0.5 * z * math.erfc(-z / math.sqrt(2)) for z in Z]),
        ("swish(z) - silu(z) + sigmoid(z)", 1 / (1 + np.exp(-Z))),
        ("softplus(z)", np.log1p(np.exp(Z))),
        (
            "exp(sin(z)) + sqrt(abs(z)) + log(2 + cos(z))",
            np.exp(np.sin(Z)) + np.sqrt(np.abs(Z)) + np.log(2 + np.cos(Z)),
        ),
        (
            "tan(z) + arctan(z) + sinh(z)*cosh(z) + tanh(z)",
            np.tan(Z) + np.arctan(Z) + np.sinh(Z) * np.cosh(Z) + np.tanh(Z),
        ),
        ("expm1(z) + log1p(z^2)", np.expm1(Z) + np.log1p(Z**2)),
        ("he2(z) + he3(z)", Z**2 - 1 + Z**3 - 3 * Z),
        ("1e-3*z + 1e3*pi", 1e-3 * Z + 1e3 * np.pi),
        ("+z", Z),
        ("3", 3 + 0 * Z),
    ],
)
def test_value_against_numpy(text, expected):
    assert value(text, z=Z) == pytest.approx(np.asarray(expected, float), rel=1e-14, abs=1e-14)


@pytest.mark.parametrize("k", range(1, 7))
def test_hermite_polynomials(k):
    coefficients = np.eye(7)[k]
    assert value(f"he{k}(z)", z=Z) == pytest.approx(np.polynomial.hermite_e.hermeval(Z, coefficients), rel=1e-13)
    x, w = np.polynomial.hermite_e.hermegauss(20)
    assert w @ value(f"he{k}(z)^2", z=x) / w.sum() == pytest.approx(math.factorial(k), rel=1e-12)


@pytest.mark.parametrize(
    ("text", "derivative"),
    [
        ("z^3", 3 * Z**2),
        ("tanh(z^2)", 2 * Z / np.cosh(Z**2) ** 2),
        ("where(z > 0, sqrt(max(z, 1e-9)), 0)", np.where(Z > 0, 0.5 / np.sqrt(np.maximum(Z, 1e-9)), 0)),
        ("2*(z > 0.5)", 0 * Z),
        ("z*exp(-z/2)", (1 - Z / 2) * np.exp(-Z / 2)),
    ],
)
def test_derivatives(text, derivative):
    with jax.enable_x64(True):
        slope = jax.vmap(jax.grad(lambda z: parse(text, NAMES)(z=z)))(jnp.asarray(Z))
    assert np.asarray(slope) == pytest.approx(derivative, rel=1e-12, abs=1e-12)


def test_several_variables_broadcast_and_keep_their_dtype():
    expression = parse("z1*z2 + (e > 0)", NAMES)
    assert expression.names == {"z1", "z2", "e"}
    out = expression(z1=jnp.ones(3, jnp.float32), z2=2.0, e=jnp.zeros((2, 1), jnp.float32), z=1)
    assert out.shape == (2, 3)
    assert out.dtype == jnp.float32
    with pytest.raises(TypeError, match="needs a value for e"):
        expression(z1=1.0, z2=1.0)


BAD = [
    "",
    "   ",
    "z.__class__",
    "z.real",
    "__import__('os')",
    "().__class__",
    "open(z)",
    "eval(z)",
    "exec(z)",
    "print(z)",
    "z[0]",
    "[z]",
    "{z}",
    "(z, 1)",
    "lambda z",
    "lambda: z",
    "[z for z in z]",
    "(z for z in z)",
    "'z'",
    '"z"',
    "f'{z}'",
    "z if z else 1",
    "z := 3",
    "z = 3",
    "z; z",
    "z\\z",
    "z @ z",
    "z % 2",
    "z // 2",
    "z << 2",
    "z & z",
    "z | z",
    "~z",
    "z is z",
    "z in z",
    "await z",
    "yield z",
    "*z",
    "abs(*z)",
    "abs(x=z)",
    "abs()",
    "abs(z, z)",
    "min(z)",
    "where(z, z)",
    "abs",
    "abs + 1",
    "z(2)",
    "2(z)",
    "2z",
    "z z",
    "z +",
    "(z",
    "z)",
    "1,5*z",
    "x + 1",
    "foo(z)",
    "z^z",
    "2^z",
    "z^65",
    "z^1e9",
    "9^9^9",
    "(-8)^(1/3)*z",
    "10^64*z",
    "1/0",
    "z/0",
    "z/(1-1)",
    "log(0)",
    "sqrt(-1)",
    "exp(1000)",
    "1e400",
    "1" * 400,
    "1j*z",
    "True",
    "None",
    "...",
    "b'z'",
    "z\x00",
    "z²",
    "π",
    "1_000__0",
    "not",
    "z <> 1",
    "z and",
    "((((" * 20 + "z" + "))))" * 20,
    "abs(" * (MAX_DEPTH + 1) + "z" + ")" * (MAX_DEPTH + 1),
    "-" * 200 + "z",
    "not " * 200 + "z",
    "z" + "+z" * MAX_LENGTH,
    "(" * 5000,
    "z^" * 300 + "2",
]


@pytest.mark.parametrize("text", BAD, ids=lambda t: ascii(t)[:30])
def test_forbidden_constructs_give_one_line(text):
    with pytest.raises(BadInput) as caught:
        parse(text, NAMES, "target")
    message = str(caught.value)
    assert message.startswith("target: ")
    assert "\n" not in message
    assert len(message) < 400
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_something_that_is_not_text():
    with pytest.raises(BadInput, match="not int"):
        parse(3, NAMES)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("tanhh(z)", "tanh"),
        ("ln(z)", "log"),
        ("y + 1", "known here are z"),
        ("2*(z1", "1 opening and 0 closing"),
        ("2z", "operator missing"),
        ("z = 1", "write =="),
        ("|z|", "abs"),
    ],
)
def test_the_message_says_what_would_be_right(text, hint):
    with pytest.raises(BadInput, match=hint.replace("+", r"\+")):
        parse(text, NAMES)


def test_nothing_is_evaluated(monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError("the text was run")

    for name in ("eval", "exec", "__import__"):
        monkeypatch.setattr(builtins, name, forbidden)
    for text in [*BAD, "z + 1"]:
        try:
            parse(text, NAMES)
        except BadInput:
            continue


def test_long_sums_are_not_deep():
    text = "+".join(["z"] * 900)
    assert value(text, z=np.ones(1)) == 900
    assert str(parse(text, NAMES)) == text


def test_equal_however_typed():
    assert parse("2 * z**2", NAMES) == parse("2*(z^2)", NAMES)
    assert hash(parse("1+1+z", NAMES)) == hash(parse("2 + z", NAMES))
    assert parse("z - (1 - z)", NAMES) != parse("z - 1 - z", NAMES)


# --- fuzz -------------------------------------------------------------------------------------------------------------

ATOMS = st.sampled_from(["z", "z1", "z2", "e", "pi", "0", "1", "2.5", "1e-3", "0.67449"])


def grown(inner):
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*", "/", "<", "<=", ">", "==", "!=", " and ", " or "]), pair).map(
            lambda t: f"({t[1][0]}){t[0]}({t[1][1]})"
        ),
        st.tuples(st.sampled_from(sorted(FUNCTIONS - {"min", "max", "where"})), inner).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(st.sampled_from(["min", "max"]), pair).map(lambda t: f"{t[0]}({t[1][0]}, {t[1][1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"where({t[0]}, {t[1]}, {t[2]})"),
        st.tuples(inner, st.sampled_from(["2", "3", "-1", "0.5", "(1/2)"])).map(lambda t: f"({t[0]})^{t[1]}"),
        inner.map(lambda t: f"-({t})"),
        inner.map(lambda t: f"not ({t})"),
        st.tuples(inner, inner, inner).map(lambda t: f"{t[0]} - {t[1]}*{t[2]}"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]}) < ({t[1]}) <= ({t[2]})"),
    )


EXPRESSIONS = st.recursive(ATOMS, grown, max_leaves=12)
SCRAPS = st.lists(
    st.sampled_from(
        [
            *"z1e+-*/^()<>=!,. ",
            "**",
            "==",
            "abs",
            "where(",
            "not ",
            " and ",
            " or ",
            "lambda",
            "__",
            "if",
            "1e9",
            "z2",
            "'",
            "[",
        ]
    ),
    max_size=40,
).map("".join)


def attempt(text):
    """(expression, None) or (None, the message of the refusal)."""
    try:
        return parse(text, NAMES), None
    except BadInput as error:
        return None, str(error)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=60), SCRAPS))
def test_any_text_is_an_expression_or_one_line(text):
    expression, message = attempt(text)
    if expression is None:
        assert "\n" not in message
    else:
        assert parse(str(expression), NAMES) == expression


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS)
def test_round_trip_and_value_against_python(text):
    expression, message = attempt(text)
    if expression is None:
        assert "\n" not in message
        return
    again = parse(str(expression), NAMES)
    assert again == expression
    assert str(again) == str(expression)
    point = {"z": 0.7, "z1": -1.3, "z2": 0.2, "e": 0.5}
    with np.errstate(all="ignore"), jax.enable_x64(True):
        got = float(expression(**{name: jnp.asarray(v) for name, v in point.items()}))
        expected = float(_oracle(ast.parse(text.replace("^", "**"), mode="eval").body, point))
    if math.isfinite(got) and math.isfinite(expected) and abs(expected) < 1e12:
        assert got == pytest.approx(expected, rel=1e-6, abs=1e-6)


def _oracle(node, point):
    """A second evaluator, straight from Python's tree with NumPy."""
    run = lambda child: _oracle(child, point)  # noqa: E731
    match node:
        case ast.Constant(v):
            return np.float64(v)
        case ast.Name(name):
            return np.float64(np.pi if name == "pi" else point[name])
        case ast.UnaryOp(ast.USub(), v):
            return -run(v)
        case ast.UnaryOp(ast.Not(), v):
            return np.float64(run(v) == 0)
        case ast.BinOp(a, op, b):
            kind = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.Pow: np.power}
            return kind[type(op)](run(a), run(b))
        case ast.BoolOp(op, parts):
            truths = [run(p) != 0 for p in parts]
            return np.float64(all(truths) if isinstance(op, ast.And) else any(truths))
        case ast.Compare(first, ops, rest):
            kind = {
                ast.Lt: np.less,
                ast.LtE: np.less_equal,
                ast.Gt: np.greater,
                ast.Eq: np.equal,
                ast.NotEq: np.not_equal,
            }
            sides = [run(first), *map(run, rest)]
            return np.float64(all(kind[type(op)](a, b) for op, a, b in zip(ops, sides, sides[1:], strict=False)))
        case ast.Call(ast.Name(name), args):
            values = [run(a) for a in args]
            sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
            special = {
                "where": lambda c, a, b: a if c != 0 else b,
                "min": np.minimum,
                "max": np.maximum,
                "relu": lambda x: np.maximum(x, 0),
                "erf": math.erf,
                "gelu": lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2)),
                "sigmoid": sigmoid,
                "swish": lambda x: x * sigmoid(x),
                "silu": lambda x: x * sigmoid(x),
                "softplus": lambda x: np.logaddexp(0, x),
            }
            if name.startswith("he"):
                return np.polynomial.hermite_e.hermeval(values[0], np.eye(7)[int(name[2:])])
            return special[name](*values) if name in special else getattr(np, name)(*values)
    raise AssertionError(ast.dump(node))
