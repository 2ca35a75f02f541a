"""A Gaussian matrix that is never stored: entries become known only as far as products ask (theory 1.8).

X in R^{n x d} has iid N(0, 1) entries. Known at any time are orthonormal U (right vectors asked for) with X U, and
orthonormal Q (left vectors) with X^T Q. For a new unit vector u orthogonal to U, conditionally on all that is known,
    X u = (I - Q Q^T) g + Q (X^T Q)^T u,   g ~ N(0, I_n),
and likewise X^T q = (I - U U^T) h + U (X U)^T q. So every product has exactly the law it would have with a stored X.
Compare Y. M. Lu, "Householder Dice", arXiv:2101.07464.

The two sides mirror each other; each is a `_Side` of vectors stored in float32, a row each, and worked on in blocks.
Inner products are summed over blocks in float64, and vectors are orthogonalised twice, or more often where hardly
anything of them is new. In coordinates,
    v = sum_i c_i basis_i  =>  product(v) = sum_i c_i image_i,
which is what `right` and `left` return: nothing of size n or d is allocated beyond the two buffers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bulkedge.foundation import memory
from bulkedge.foundation.checks import integer
from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian.streams import BLOCK, fill_normal

SPANNED = 2e-6
"""A vector whose part outside the known span is below this fraction of its length counts as spanned: float32 storage
itself leaves about 1e-7."""

_SWEEPS, _ENOUGH = 6, 0.1
"""Of orthogonalisation: at most so many; enough once a sweep took no more than this share of what it left."""

Block = slice
Source = Callable[[Block, np.ndarray], None]
"""(block, out): writes entries `block` of a few vectors, one a row, into out (vectors, length of the block)."""


class _Side:
    """R^size: orthonormal basis vectors asked for here, and the images of the other side's."""

    def __init__(self, size: int, basis: int, images: int, spare: int) -> None:
        # Pages of np.empty take memory only when written: the rows of `spare` are touched only by spanned vectors.
        self.size, self.room = size, basis
        self.basis = np.empty((basis + spare, size), np.float32)
        self.images = np.empty((images, size), np.float32)
        self.count = 0

    def blocks(self) -> Iterator[Block]:
        return (slice(i, min(i + BLOCK, self.size)) for i in range(0, self.size, BLOCK))


class LazyGaussian:
    """An n x d matrix of iid N(0, 1) entries, revealed by products from both sides.

    Args:
        n, d: rows and columns.
        seed: everything is a function of it (an integer, or a sequence of them).
        left, right: how many left and right vectors there is room for; vectors already spanned need none.
        together: most vectors given in one call.
    """

    def __init__(self, n: int, d: int, seed: Any = 0, *, left: int = 32, right: int = 32, together: int = 8) -> None:
        self.n, self.d = integer("n", n, low=1), integer("d", d, low=1)
        left, right = min(integer("left", left, low=1), self.n), min(integer("right", right, low=1), self.d)
        memory.require("data", self.bytes_needed(n, d, left, right), f"a lazily revealed {n} x {d} matrix")
        entropy = [int(s) for s in np.atleast_1d(seed)]
        self._seed, self._key = entropy[0], tuple(entropy[1:])
        self._rows = _Side(self.n, basis=left, images=right, spare=together)
        self._columns = _Side(self.d, basis=right, images=left, spare=together)
        self._draws = [0, 0]
        self._branch = 0

    @staticmethod
    def bytes_needed(n: int, d: int, left: int, right: int) -> float:
        """Bytes of the buffers once `left` and `right` vectors are known."""
        return 4.0 * (left + right) * (float(n) + float(d))

    @property
    def known(self) -> tuple[int, int]:
        """How many left and right vectors are known."""
        return self._rows.count, self._columns.count

    def right(self, u: np.ndarray | Source, vectors: int | None = None) -> np.ndarray:
        """Coordinates C (vectors, known) of vectors u (vectors, d): X u_j = sum_i C_ji (X U)_i."""
        return self._reveal(self._columns, self._rows, 0, *_source(u, vectors, self.d, "u"))

    def left(self, q: np.ndarray | Source, vectors: int | None = None) -> np.ndarray:
        """Coordinates C (vectors, known) of vectors q (vectors, n): X^T q_j = sum_i C_ji (X^T Q)_i."""
        return self._reveal(self._rows, self._columns, 1, *_source(q, vectors, self.n, "q"))

    def right_image(self, coordinates: np.ndarray, block: Block) -> np.ndarray:
        """Entries `block` of X u from the coordinates of u, (vectors, length), float32."""
        return coordinates.astype(np.float32) @ self._rows.images[: coordinates.shape[1], block]

    def left_image(self, coordinates: np.ndarray) -> np.ndarray:
        """X^T q from the coordinates of q, (vectors, d), float32."""
        return coordinates.astype(np.float32) @ self._columns.images[: coordinates.shape[1]]

    def row_blocks(self) -> Iterator[Block]:
        """The blocks of rows in which all work over samples is done."""
        return self._rows.blocks()

    def times(self, u: np.ndarray) -> np.ndarray:
        """X u for u (d,) or a few u (vectors, d)."""
        u = np.asarray(u)
        out = self.right_image(self.right(np.atleast_2d(u)), slice(None))
        return out.reshape(*u.shape[:-1], self.n)

    def transposed_times(self, q: np.ndarray) -> np.ndarray:
        """X^T q for q (n,) or a few q (vectors, n)."""
        q = np.asarray(q)
        return self.left_image(self.left(np.atleast_2d(q))).reshape(*q.shape[:-1], self.d)

    @contextlib.contextmanager
    def branch(self, number: int) -> Iterator[None]:
        """Reveal on the side, and forget afterwards.

        Inside, products are exact given all that was known before, with noise of a stream of their own. What follows
        continues as if the branch had not been: its law is exact as well, and does not depend on whether one looked.
        """
        counts, draws, outer = (self._rows.count, self._columns.count), list(self._draws), self._branch
        self._branch, self._draws = 1 + number, [0, 0]
        try:
            yield
        finally:
            (self._rows.count, self._columns.count), self._draws, self._branch = counts, draws, outer

    def _reveal(self, here: _Side, there: _Side, side: int, write: Source, vectors: int) -> np.ndarray:
        """Coordinates of the vectors `write` gives in the basis of `here`, which grows by what is new in them."""
        first = here.count
        if first + vectors > here.basis.shape[0]:
            raise BadInput("together", f"must be at least {vectors}, the number of vectors given in one call")
        for block in here.blocks():
            write(block, here.basis[first : first + vectors, block])
        found = [self._settle(here, there, side, first + j) for j in range(vectors)]
        coordinates = np.zeros((vectors, here.count))
        for row, c in zip(coordinates, found, strict=True):
            row[: c.size] = c
        return coordinates

    def _settle(self, here: _Side, there: _Side, side: int, given: int) -> np.ndarray:
        """Orthogonalise row `given`, move it to the end of the basis if it is new, and reveal its product."""
        known = here.count
        v, basis, target = here.basis[given], here.basis[:known], here.basis[known]
        length2 = sum(float(v[b] @ v[b]) for b in here.blocks())
        if length2 == 0.0:
            return np.zeros(known)
        coordinates, left2 = np.zeros(known), length2
        for sweep in range(_SWEEPS):
            source = target if sweep else v
            along = np.zeros(known)
            for b in here.blocks():
                along += basis[:, b] @ source[b]
            coordinates += along
            left2 = 0.0
            for b in here.blocks():
                np.subtract(source[b], along.astype(np.float32) @ basis[:, b], out=target[b])
                left2 += float(target[b] @ target[b])
            # Twice is enough, unless the second time took most of what there was: what is new is then so small that
            # the rounding of the known vectors would be passed on to it, and grow from vector to vector.
            if sweep and np.linalg.norm(along) <= _ENOUGH * np.sqrt(left2):
                break
        length, left = np.sqrt(length2), np.sqrt(left2)
        if left <= SPANNED * length or known == here.size:
            return coordinates
        if known == here.room:
            raise BadInput("left" if side else "right", f"there is room for {known} vectors and one more is asked for")
        self._reveal_image(here, there, side, target, 1.0 / left)
        here.count += 1
        return np.append(coordinates, left)

    def _reveal_image(self, here: _Side, there: _Side, side: int, unit: np.ndarray, scale: float) -> None:
        """Normalise the new basis vector and draw its product, given the products of the other side."""
        images = here.images[: there.count]
        wanted = np.zeros(there.count)
        for b in here.blocks():
            unit[b] *= np.float32(scale)
            wanted += images[:, b] @ unit[b]
        image, basis = there.images[here.count], there.basis[: there.count]
        fill_normal(image, self._seed, *self._key, self._branch, side, self._draws[side])
        self._draws[side] += 1
        present = np.zeros(there.count)
        for b in there.blocks():
            present += basis[:, b] @ image[b]
        correction = (wanted - present).astype(np.float32)
        for b in there.blocks():
            image[b] += correction @ basis[:, b]


def _source(given: np.ndarray | Source, vectors: int | None, size: int, argument: str) -> tuple[Source, int]:
    if callable(given):
        return given, 1 if vectors is None else vectors
    array = np.asarray(given)
    if array.ndim != 2 or array.shape[1] != size:
        raise BadInput(argument, f"must have shape (vectors, {size}), not {array.shape}")

    def write(block: Block, out: np.ndarray) -> None:
        out[...] = array[:, block]

    return write, array.shape[0]
