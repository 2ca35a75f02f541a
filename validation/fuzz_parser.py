"""A long fuzz of the expression parser: random characters, random tokens, and mutations of valid expressions.

Every text must either become an expression whose canonical form reads back as itself, or be refused with one line.
Nothing may be run, and no text may take long. Usage: python validation/fuzz_parser.py [SECONDS] (default 60).
"""

from __future__ import annotations

import builtins
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from bulkedge.foundation.errors import BadInput
from bulkedge.models.expression import MAX_LENGTH, parse
from bulkedge.models.tree import FUNCTIONS

NAMES = ("z", "z1", "z2", "e")
TOKENS = [
    *(*NAMES, *sorted(FUNCTIONS), "pi", "0", "1", "2", ".5", "1e9", "1e-9", "1e400", "0x1f", "1_0", "1j"),
    *("+ - * / ^ ** // % ( ) (( )) < <= > >= == != = := , . [ ] { } @ ~ & | ; ... # \\ ' π ² −".split()),  # noqa: SIM905
    *(
        " ",
        " and ",
        " or ",
        " not ",
        " if ",
        " else ",
        " for ",
        " in ",
        " is ",
        "lambda ",
        "lambda:",
        "await ",
        "yield ",
    ),
    *("__class__", "__import__", "eval(", "open(", "True", "None", "\n", "\t", "\x00", '"'),
]
VALID = ["2*(abs(z) > 0.67449)", "tanh(z1*z2) + 0.1*e", "where(z > 0, sqrt(max(z, 1e-9)), 0)", "he3(z)/6 - z^2/2 + -z"]


def random_text(rng: random.Random) -> str:
    """One text of one of three kinds."""
    kind = rng.random()
    if kind < 0.2:
        return "".join(chr(rng.choice([rng.randrange(128), rng.randrange(0x250)])) for _ in range(rng.randrange(60)))
    if kind < 0.6:
        return "".join(rng.choice(TOKENS) for _ in range(rng.randrange(30)))
    text = rng.choice(VALID) * rng.choice([1, 1, 1, 2, 30])
    for _ in range(rng.randrange(1, 5)):
        i, j = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        text = rng.choice(
            [
                text[:i] + rng.choice(TOKENS) + text[i:],
                text[:i] + text[j:],
                text[:j] + text[i:j] + text[j:],
                f"({text})",
            ]
        )[: 2 * MAX_LENGTH]
    return text


def check(text: str) -> bool:
    """Whether the text is an expression; AssertionError if the parser misbehaves on it."""
    start = time.perf_counter()
    message = None
    try:
        expression = parse(text, NAMES)
    except BadInput as error:
        expression, message = None, str(error)
    assert expression is None or parse(str(expression), NAMES) == expression, text
    assert message is None or ("\n" not in message and len(message) < 500), text
    assert time.perf_counter() - start < 2.0, f"slow: {text!r}"
    return message is None


def main(seconds: float) -> None:
    def forbidden(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the text was run")

    kept: dict[str, Callable[..., Any]] = {name: getattr(builtins, name) for name in ("eval", "exec", "open", "input")}
    rng = random.Random(0)
    tried = good = 0
    end = time.monotonic() + seconds
    try:
        for name in kept:
            setattr(builtins, name, forbidden)
        while time.monotonic() < end:
            text = random_text(rng)
            try:
                good += check(text)
            except BaseException:
                sys.stderr.write(f"on the text {text!r}\n")
                raise
            tried += 1
    finally:
        for name, function in kept.items():
            setattr(builtins, name, function)
    print(f"{tried} texts in {seconds:g} s: {good} expressions, {tried - good} refused with one line, none misread")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
