"""Help texts, made from the table of options."""

from __future__ import annotations

import textwrap

from bulkedge.cli.options import COMMANDS, NUMERICS, OUTPUT, PROBLEM, Command, Option, commands

WIDTH = 100
COLUMN = 26


def text(command: Command | None = None) -> str:
    """Help on a command, or on all of them."""
    return _overview() if command is None else _command(command)


def _overview() -> str:
    known = commands()
    problem = [_row(c.name, c.help) for c in COMMANDS.values()]
    laboratory = [_row(c.name, c.help) for c in known.values() if c.name not in COMMANDS]
    examples = [f"  bulkedge {c.examples[0]}" for c in known.values()]
    return "\n".join(
        [
            "bulkedge: when, and how, does training find the features?",
            "",
            "usage: bulkedge COMMAND --target EXPR [options]",
            "       bulkedge run NAME [KNOB=VALUE ...] [options]",
            "       bulkedge COMMAND --help",
            "",
            "about one problem",
            *problem,
            "",
            "the laboratory: phenomena predicted, measured, stored and judged",
            *laboratory,
            _row("version", "print the version"),
            "",
            "examples",
            *examples,
            "",
            "Exit codes: 0 answered; 2 bad input; 3 not converged or diverged (the result is printed all the same).",
        ]
    )


def _command(command: Command) -> str:
    groups = {"the problem": PROBLEM, "accuracy": NUMERICS, "output": OUTPUT}
    flags = {o.flag for g in groups.values() for o in g}
    mine = [o for o in command.options if o.flag not in flags]
    lines = [f"bulkedge {command.name}: {command.help}", ""]
    subject = command.operands or f"--target EXPR{_needed(command)}"
    lines += [f"usage: bulkedge {command.name} {subject} [options]"]
    for title, group in {"what to compute": tuple(mine), **groups}.items():
        wanted = {o.flag for o in group}
        shown = [o for o in command.options if o.flag in wanted]
        if shown:
            lines += ["", title, *(_row(_head(o), o.help) for o in shown)]
    return "\n".join([*lines, "", "examples", *(f"  bulkedge {e}" for e in command.examples)])


def _needed(command: Command) -> str:
    by_name = {o.name: o for o in command.options}
    needed = [*command.required, *command.one_of[:1]]
    return "".join(f" {_head(by_name[name])}" for name in needed)


def _head(option: Option) -> str:
    return f"{option.flag} {option.metavar}".rstrip()


def _row(head: str, help: str) -> str:
    first, *more = textwrap.wrap(help, WIDTH - COLUMN - 2)
    start = f"  {head:<{COLUMN - 2}}"
    if len(head) > COLUMN - 3:
        start = f"  {head}\n{'':{COLUMN}}"
    return "\n".join([start + first, *(f"{'':{COLUMN}}{line}" for line in more)])
