"""How an answer was reached, as a word for programs and a sentence for people."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """The word; it equals its own text, so that it needs no conversion in JSON."""

    CONVERGED = "converged"
    NOT_CONVERGED = "not converged"
    DIVERGED = "diverged"
    NOT_SETTLED = "not settled"
    INCOMPLETE = "incomplete"

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]

    @property
    def ok(self) -> bool:
        return self is Status.CONVERGED


_SENTENCES = {
    Status.CONVERGED: "The answer meets the accuracy asked for.",
    Status.NOT_CONVERGED: "The iteration stopped before it reached the accuracy asked for; see the residual.",
    Status.DIVERGED: "The dynamics left every bound; what precedes `diverged_at` is valid.",
    Status.NOT_SETTLED: "The quantity still moves by more than its error at the largest time computed.",
    Status.INCOMPLETE: "Some of the work is missing or has failed; the same command does what is left.",
}
