"""The commands of the laboratory and their options."""

from __future__ import annotations

from bulkedge.cli.options import JSON, OUT, QUIET, Command, Option
from bulkedge.cli.values import text, whole
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.phenomenon import SIZES


def size(name: str, given: str) -> str:
    """One of the sizes."""
    if given not in SIZES:
        raise BadInput(name, f"must be {' or '.join(SIZES)}, not {given[:40]!r}")
    return given


def result_file(name: str, given: str) -> str:
    """A file a figure or a table can be written to."""
    from bulkedge.lab.export import EXPORTS, exportable
    from bulkedge.show.formats import FORMATS

    kind = given.lower().rpartition(".")[2]
    if kind in EXPORTS:
        exportable(given, name)
        return given
    if kind not in FORMATS:
        known = ", ".join(f".{f}" for f in (*FORMATS, *EXPORTS))
        raise BadInput(name, f"must end in one of {known}, not {given[-60:]!r}")
    return OUT.read(name, given) if OUT.read else given


def html_file(name: str, given: str) -> str:
    """A page."""
    from bulkedge.show.formats import writable

    writable(given, name, ("html",))
    return given


STORE = Option("--store", text, "DIR", "folder of the results ($BULKEDGE_STORE, or bulkedge-store)")
SIZE = Option("--size", size, "SIZE", "quick, minutes on two cores, or full, the sizes of the paper (quick)")
RESULT_OUT = Option(
    "--out", result_file, "FILE", "write the figure (.png, .svg, .pdf) or the table (.nc, .parquet, .csv)"
)

LABORATORY = {
    c.name: c
    for c in (
        Command(
            "list",
            "list",
            "the phenomena, or the knobs of one of them",
            (JSON,),
            ("list", "list phase-diagram"),
            operands="[NAME]",
        ),
        Command(
            "run",
            "run",
            "predict and measure a phenomenon; what is stored is not done again",
            (
                SIZE,
                Option("--engine", text, "ENGINE", "inline, pool, dask[:ADDRESS] or slurm[:KEY=VALUE,..] (pool)"),
                Option("--workers", whole, "N", "processes at the same time (as many as cores)"),
                STORE,
                Option("--shard", text, "I/N", "only the I-th of N parts: run the others elsewhere, on the same store"),
                JSON,
                RESULT_OUT,
                QUIET,
            ),
            (
                "run phase-diagram",
                "run phase-diagram delta=2,5,10 seeds=20 --workers 2 --out phase.pdf",
                "run phase-diagram --size full --shard 2/8 --store /shared/runs",
            ),
            operands="NAME [KNOB=VALUE ...]",
        ),
        Command(
            "status",
            "status",
            "what is stored, what is missing, what failed",
            (STORE, JSON),
            ("status", "status --store runs --json"),
        ),
        Command(
            "show",
            "show",
            "figure and table of a phenomenon, from what is stored",
            (SIZE, STORE, JSON, RESULT_OUT),
            ("show phase-diagram", "show phase-diagram --size full --out phase.pdf"),
            operands="NAME [KNOB=VALUE ...]",
        ),
        Command(
            "report",
            "report",
            "one page with everything that is stored",
            (STORE, Option("--out", html_file, "FILE", "the page (report.html)")),
            ("report", "report --store runs --out gallery.html"),
        ),
    )
}
