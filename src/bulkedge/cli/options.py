"""The commands, their options, and how an argument list is read.

Read by hand and not with argparse: a value may begin with a minus sign (`--second-layer -1,1`, `--target "-z^2"`),
every error is one line that names the option, and `--help` costs nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bulkedge.cli.values import (
    figure_file,
    number,
    one_or_more,
    page_file,
    positive_numbers,
    text,
    times,
    whole,
    yes_or_no,
)
from bulkedge.foundation.errors import BadInput


@dataclass(frozen=True)
class Option:
    """An option with the name of the Python argument. read=None: a switch."""

    flag: str
    read: Callable[[str, str], Any] | None
    metavar: str
    help: str

    @property
    def name(self) -> str:
        return self.flag[2:].replace("-", "_")


@dataclass(frozen=True)
class Command:
    """name: as typed. function: of the package. several: options whose lists mean several answers."""

    name: str
    function: str
    help: str
    options: tuple[Option, ...]
    examples: tuple[str, ...]
    several: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    """options of which at least one is needed"""
    operands: str = ""
    """words that are no options, as the help shows them; collected under `words`"""


PROBLEM = (
    Option(
        "--target", text, "EXPR", "what is to be learned: an expression in z (or z1, z2, ...) and noise e, or a name"
    ),
    Option("--activation", text, "NAME", "gelu, relu, swish, tanh, erf, sigmoid, softplus, quad, he2, he3, ... (gelu)"),
    Option("--loss", text, "NAME", "squared, logistic, pseudo-huber, huber, or an expression in y and f (squared)"),
    Option("--width", whole, "M", "number of neurons (1, or as many as --second-layer or --bias list)"),
    Option("--second-layer", one_or_more, "A,..", "one number for all neurons, or one each (1)"),
    Option("--bias", one_or_more, "B,..", "one number for all neurons, or one each (0)"),
    Option("--step-size", number, "ETA", "multiplies the gradient of the mean loss (1)"),
    Option("--momentum", number, "BETA", "of the heavy ball (0)"),
    Option("--weight-decay", number, "LAMBDA", "of (lambda/2) |theta|^2 (0)"),
    Option("--batch", number, "P", "probability that a sample takes part in a step (1)"),
    Option("--latent-dim", whole, "K", "number of directions, where the target does not say"),
)
TARGET = tuple(o for o in PROBLEM if o.name in ("target", "latent_dim"))
DELTA = Option("--delta", positive_numbers, "D,..", "samples per dimension; a list gives several answers")
TIME = Option("--time", times, "T,..", "steps of training before the Hessian is looked at; a list, several answers (0)")
STEPS = Option("--steps", whole, "T", "steps of training")
DIMENSION = Option("--dimension", whole, "D", "dimension of the data")
HESSIAN = Option("--hessian", text, "KIND", "block (per neuron) or full (block)")
SEED = Option("--seed", whole, "N", "everything random is a function of it (0)")
NUMERICS = (
    Option("--paths", whole, "N", "samples of the effective process in one replica (65536)"),
    Option("--replicas", whole, "N", "repetitions from which standard errors come (8)"),
    Option("--rtol", number, "R", "relative accuracy of quadratures (1e-6)"),
)
MEASUREMENT = (
    Option("--samples", whole, "N", "number of samples, instead of --delta"),
    DIMENSION,
    STEPS,
    Option("--seeds", whole, "N", "networks to train (3; to compare, 5)"),
    SEED,
    Option("--data", text, "KIND", "auto, stored or lazy: whether the data matrix is kept in memory (auto)"),
    Option("--spectrum-times", times, "T,..", "steps at which the lowest eigenpairs are measured"),
    Option("--eigenpairs", whole, "N", "how many of them (4)"),
    HESSIAN,
)
VARYING = (
    Option("--over", text, "NAME,..", "what varies, with bounds where wanted: second_layer=0.1:5,bias,loss_scale"),
    Option("--activation-family", text, "EXPR", 'an activation with parameters named in --over: "gelu(v) + c*tanh(v)"'),
    Option("--loss-family", text, "EXPR", 'a loss with parameters named in --over: "sqrt(c^2 + (f-y)^2)"'),
)
PROOF = (
    Option("--verify", yes_or_no, "yes|no", "train the winner against the default at the same delta (yes)"),
    Option("--delta", number, "D", "where to train them (where the predicted difference is largest)"),
    Option("--dimension", whole, "D", "of that training (200)"),
    Option("--steps", whole, "T", "of that training (100)"),
    Option("--seeds", whole, "N", "networks of each kind (160)"),
)
JSON = Option("--json", None, "", "print one JSON object and nothing else")
QUIET = Option("--quiet", None, "", "no progress on standard error")
OUT = Option("--out", figure_file, "FILE", "write the figure: .png, .svg or .pdf")
PAGE_OUT = Option("--out", page_file, "FILE", "write the figure (.png, .svg, .pdf) or the whole report (.html)")
OUTPUT = (JSON, OUT, QUIET)

_INDICATOR = '--target "2*(abs(z) > 0.67449)" --step-size 0.5'
COMMANDS = {
    c.name: c
    for c in (
        Command(
            "threshold",
            "threshold",
            "samples per dimension above which the Hessian points to the features",
            (
                *PROBLEM,
                TIME,
                HESSIAN,
                *NUMERICS,
                SEED,
                *OUTPUT,
            ),
            (
                f"threshold {_INDICATOR}",
                f"threshold {_INDICATOR} --time 0,1,2 --paths 16384 --out threshold.pdf",
                'threshold --target "z^2" --loss pseudo-huber --json',
            ),
            several=("time",),
        ),
        Command(
            "spectrum",
            "spectrum",
            "limiting spectrum of the Hessian: bulk, edges, outliers",
            (
                *PROBLEM,
                DELTA,
                TIME,
                HESSIAN,
                Option("--points", whole, "N", "at which the density is given (400)"),
                *NUMERICS,
                SEED,
                *OUTPUT,
            ),
            (
                f"spectrum {_INDICATOR} --delta 10",
                f"spectrum {_INDICATOR} --delta 10 --time 0,5 --out spectrum.pdf",
            ),
            several=("delta", "time"),
            required=("delta",),
        ),
        Command(
            "trajectory",
            "trajectory",
            "losses, norm, overlap and hidden variance over training, in high dimension",
            (*PROBLEM, DELTA, STEPS, *NUMERICS, SEED, *OUTPUT),
            (
                f"trajectory {_INDICATOR} --delta 10 --steps 20",
                f"trajectory {_INDICATOR} --delta 5,10,20 --steps 20 --out curves.pdf",
            ),
            several=("delta",),
            required=("delta",),
        ),
        Command(
            "design",
            "design",
            "the network of a family that needs the least data, and whether training confirms it",
            (*PROBLEM, *VARYING, *PROOF, *NUMERICS, SEED, *OUTPUT),
            (
                'design --target "z^2" --loss pseudo-huber --over c=0:1 --activation-family "gelu(v) + c*v^2"',
                f"design {_INDICATOR} --over second_layer,bias --verify no --json",
            ),
            required=("over",),
        ),
        Command(
            "sensitivity",
            "sensitivity",
            "gradient of the threshold in the network's continuous choices",
            (
                *PROBLEM,
                *VARYING,
                Option("--time", whole, "T", "steps of training before the Hessian is looked at (0)"),
                *NUMERICS,
                SEED,
                JSON,
                QUIET,
            ),
            (
                f"sensitivity {_INDICATOR} --over second_layer,bias",
                f"sensitivity {_INDICATOR} --over step_size,bias --time 1 --json",
            ),
            required=("over",),
        ),
        Command(
            "learning-time",
            "learning_time",
            "how many steps it takes to find the features at a finite dimension",
            (*PROBLEM, DELTA, DIMENSION, STEPS, *NUMERICS, SEED, *OUTPUT),
            (
                f"learning-time {_INDICATOR} --delta 30 --dimension 500 --steps 100",
                f"learning-time {_INDICATOR} --delta 20,30,40 --dimension 500 --steps 100 --json",
            ),
            several=("delta",),
            required=("delta", "dimension"),
        ),
        Command(
            "simulate",
            "simulate",
            "train real networks and measure the same quantities",
            (*PROBLEM, DELTA, *MEASUREMENT, *OUTPUT),
            (
                f"simulate {_INDICATOR} --delta 10 --dimension 1000 --steps 20",
                f"simulate {_INDICATOR} --samples 8000 --dimension 800 --spectrum-times 0,5 --json",
            ),
            several=("delta",),
            one_of=("delta", "samples"),
        ),
        Command(
            "compare",
            "compare",
            "prediction and measurement side by side, with a verdict",
            (*PROBLEM, DELTA, *MEASUREMENT, *NUMERICS, JSON, PAGE_OUT, QUIET),
            (
                f"compare {_INDICATOR} --delta 10 --dimension 1000 --steps 10",
                f"compare {_INDICATOR} --delta 10 --spectrum-times 0,5 --out report.html",
            ),
            several=("delta",),
            one_of=("delta", "samples"),
        ),
        Command(
            "subspaces",
            "subspaces",
            "which directions of a target are easy, which hard, and what reveals which",
            (*TARGET, JSON, QUIET),
            (
                'subspaces --target "z1 + z1*z2*z3"',
                'subspaces --target "max(z1,z2)" --json',
            ),
        ),
        Command(
            "delta-alg",
            "delta_alg",
            "samples per dimension that the best efficient algorithm needs for the hard directions",
            (*TARGET, JSON, QUIET),
            (
                'delta-alg --target "z1*z2"',
                'delta-alg --target "z1^2 + sign(z1*z2*z3)" --json',
            ),
        ),
        Command(
            "delta-it",
            "delta_it",
            "samples per dimension below which no algorithm at all can succeed, or bounds on them",
            (*TARGET, JSON, QUIET),
            (
                'delta-it --target "tanh(z^2) + 0.1*e"',
                'delta-it --target "abs(z) > 0.67449" --json',
            ),
        ),
        Command(
            "exponents",
            "exponents",
            "information and generative exponents, their leaps, and the samples each implies",
            (*TARGET, JSON, QUIET),
            (
                'exponents --target "he3(z)"',
                'exponents --target "sign(z1*z2*z3)" --json',
            ),
        ),
    )
}


def flag_of(name: str) -> str:
    """A Python argument as the option that sets it; any other word as it is."""
    known = {o.name: o.flag for c in commands().values() for o in c.options}
    return known.get(name, name)


def commands() -> dict[str, Command]:
    """All commands: on one problem, and of the laboratory."""
    from bulkedge.cli.lab_options import LABORATORY

    return COMMANDS | LABORATORY


# --- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Version:
    """The version was asked for."""


@dataclass(frozen=True)
class Help:
    """Help was asked for, on a command or on all."""

    command: Command | None = None


@dataclass(frozen=True)
class Request:
    """A command, the values of its options (only those given), and the words it was read from."""

    command: Command
    values: dict[str, Any]
    words: tuple[str, ...] = ()


def read(argv: list[str]) -> Request | Help | Version:
    """What an argument list asks for."""
    known = commands()
    if not argv:
        raise BadInput("command", f"is missing: one of {', '.join(known)} (see bulkedge --help)")
    first, rest = argv[0], argv[1:]
    if first in ("-h", "--help", "help"):
        return Help(known.get(rest[0]) if rest else None)
    if first in ("--version", "version"):
        return Version()
    if first not in known:
        hint = _nearest(first, list(known)) or f"known: {', '.join(known)}"
        raise BadInput("command", f"unknown {first[:60]!r}; {hint}")
    command = known[first]
    found = _split(command, rest)
    if found is None:
        return Help(command)
    _check_needed(command, found)
    return Request(command, found, tuple(argv))


def _split(command: Command, rest: list[str]) -> dict[str, Any] | None:
    """{argument: value}; None if help was asked for."""
    options = {o.flag: o for o in command.options}
    found: dict[str, Any] = {}
    words = iter(rest)
    for word in words:
        if word in ("-h", "--help"):
            return None
        if command.operands and not word.startswith("-"):
            found.setdefault("words", []).append(word)
            continue
        flag, equals, value = word.partition("=")
        option = options.get(flag)
        if option is None:
            raise _unknown(command, word, options)
        if option.name in found:
            raise BadInput(option.name, "was given twice; a list is separated by commas")
        if option.read is None:
            if equals:
                raise BadInput(option.name, "takes no value")
            found[option.name] = True
            continue
        if not equals:
            value = next(words, "")
            if value in options or value in ("-h", "--help"):
                raise BadInput(option.name, f"needs a value ({option.metavar}) before {value}")
        if not value.strip():
            raise BadInput(option.name, f"needs a value: {option.flag} {option.metavar}")
        found[option.name] = option.read(option.name, value)
    return found


def _unknown(command: Command, word: str, options: dict[str, Option]) -> BadInput:
    flag = word.partition("=")[0]
    if not flag.startswith("-"):
        return BadInput(command.name, f"does not know what to do with {word[:60]!r}; the target is --target EXPR")
    if flag_of(flag[2:].replace("-", "_")) == flag:
        return BadInput(flag, f"is not an option of {command.name} (see bulkedge {command.name} --help)")
    hint = _nearest(flag.replace("_", "-"), list(options)) or f"see bulkedge {command.name} --help"
    return BadInput(flag[:60], f"unknown option; {hint}")


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else ""


def _check_needed(command: Command, found: dict[str, Any]) -> None:
    if "target" not in found and any(o.name == "target" for o in command.options):
        raise BadInput("target", 'is required: an expression such as "2*(abs(z) > 0.67449)", or a name')
    for name in command.required:
        if name not in found:
            raise BadInput(name, f"is required for {command.name}")
    if command.one_of and not set(command.one_of) & set(found):
        raise BadInput(command.one_of[0], f"is required for {command.name} (or {flag_of(command.one_of[1])})")
