"""The command line: parsing and printing, nothing more. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from bulkedge.foundation.errors import BadInput

ANSWERED, BAD_INPUT, NOT_CONVERGED, BROKEN_PIPE, INTERRUPTED = 0, 2, 3, 141, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Without arguments it is the process's own command.

    0 answered, 2 bad input (one line on standard error), 3 not converged or diverged (the result is printed),
    130 interrupted.
    """
    try:
        return _run(list(sys.argv[1:] if argv is None else argv), own_process=argv is None)
    except BadInput as error:
        from bulkedge.cli.options import flag_of

        return _complain(f"{flag_of(error.argument)}: {' '.join(error.message.split())}")
    except MemoryError:
        return _complain("not enough memory; a smaller --dimension, --seeds or --paths needs less")
    except KeyboardInterrupt as stop:
        return interrupted("bulkedge", own_process=argv is None, line=str(stop))
    except BrokenPipeError:
        # The reader has gone: let nothing be flushed to it when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def interrupted(program: str, *, own_process: bool, line: str = "") -> int:
    """Say so in one line. A process of its own ends here and now.

    Array programs may still be running on threads of their own, and an interpreter that shuts down under them can
    crash, which would change the exit code.
    """
    print(f"{program}: {line or 'interrupted'}", file=sys.stderr, flush=True)
    if own_process:
        os._exit(INTERRUPTED)
    return INTERRUPTED


def _run(argv: list[str], *, own_process: bool) -> int:
    from bulkedge.cli import help, options

    request = options.read(argv)
    if isinstance(request, options.Version):
        from bulkedge import __version__

        print(f"bulkedge {__version__}")
    elif isinstance(request, options.Help):
        print(help.text(request.command))
    else:
        from bulkedge.cli import startup

        if own_process:
            startup.prepare()
        if request.command.name in options.COMMANDS:
            from bulkedge.cli import commands

            return commands.run(request)
        from bulkedge.cli import laboratory

        return laboratory.run(request)
    return ANSWERED


def _complain(line: str) -> int:
    print(f"bulkedge: {line}", file=sys.stderr)
    return BAD_INPUT
