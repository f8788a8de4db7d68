"""What is remembered of a weight's inputs: sums over tokens, always float32, on the weight's device."""

from __future__ import annotations

from copy import copy
from enum import Flag

import torch

from prune_hooks.by_language import ByLanguage
from prune_hooks.errors import PruneError
from prune_hooks.finite import all_finite

_ROWS = 8192
"""Tokens converted to float32 at a time."""
_CACHED_ROWS = 256
"""The same on the CPU where only norms are summed: squares that never leave the cache."""
_TILE = {"cpu": 128}
"""Columns of a Hessian tile by device; only tiles on and above the diagonal are multiplied."""
_WIDE_TILE = 1024
"""The same elsewhere: an accelerator wants large products."""
_SOLVED_WIDTH = 256
"""Triangular matrices up to this width are inverted by a plain solve."""


class Needs(Flag):
    """What a method wants to know of a weight's inputs; several are joined with |."""

    NOTHING = 0
    NORMS = 1
    """The mean of x_j^2."""
    MEANS = 3
    """The mean of x_j besides."""
    HESSIAN = 5
    """All products x_i x_j, the squares among them."""
    LANGUAGES = 9
    """The mean of x_j^2 over the tokens of each language besides, and the share of tokens that activate a channel."""


class Statistics:
    """Sums over the tokens that one group of weights reads."""

    def __init__(self, name: str, width: int, needs: Needs, device: torch.device, languages: int = 1) -> None:
        self.name = name
        """The first weight that reads this input, for messages."""
        self.tokens = 0
        self._squares = torch.zeros(width, device=device)
        self._sums = torch.zeros(width, device=device) if Needs.MEANS in needs else None
        self._products = torch.zeros(width, width, device=device) if Needs.HESSIAN in needs else None
        self._factor: tuple[torch.Tensor, torch.Tensor, float] | None = None
        self._languages: ByLanguage | None = None
        if Needs.LANGUAGES in needs:
            self._languages = ByLanguage(width, languages, device)

    @property
    def starved(self) -> bool:
        """True if no token ever reached the weight."""
        return self.tokens == 0

    def update(self, inputs: torch.Tensor, labels: torch.Tensor | None = None) -> None:
        """Adds a batch of inputs (..., in) of any floating dtype.

        Args:
            inputs: what the weights read.
            labels: (tokens,) int64, the number of each token's language; None: all in the first.
        """
        flat = inputs.detach().reshape(-1, self._squares.shape[0])
        self.tokens += flat.shape[0]
        step = _CACHED_ROWS if self._products is None and flat.device.type == "cpu" else _ROWS
        for start in range(0, flat.shape[0], step):
            x = flat[start : start + step].float()
            if self._products is None:
                self._squares += x.square().sum(dim=0)
            else:
                _add_gram(self._products, x)
            if self._sums is not None:
                self._sums += x.sum(dim=0)
            if self._languages is not None:
                self._languages.add(x, None if labels is None else labels[start : start + step])

    def mean(self) -> torch.Tensor:
        """Returns the mean of x_j over tokens, (in,) float32; zeros if starved."""
        assert self._sums is not None, "no means: not asked for"
        self.mean_square()  # refuses what is not finite
        return self._sums / max(self.tokens, 1)

    def mean_square(self) -> torch.Tensor:
        """Returns the mean of x_j^2 over tokens, (in,) float32; ones if starved, which leaves the weight's magnitude.

        Raises:
            PruneError: if an input was NaN or infinite.
        """
        if self.starved:
            return torch.ones_like(self._squares)
        squares = self._squares if self._products is None else self._products.diagonal().clone()
        if not all_finite(squares):
            raise PruneError(
                f"NaN or infinite activations reach {self.name}: expected finite inputs; check the checkpoint, or load "
                "it in bfloat16 or float32"
            )
        return squares / self.tokens

    @property
    def languages(self) -> ByLanguage:
        """The sums by language, checked to be finite."""
        assert self._languages is not None, "no languages: not asked for"
        self.mean_square()  # refuses what is not finite
        return self._languages

    def hessian(self) -> torch.Tensor:
        """Returns a new H = (2/n) sum x x^T, (in, in) float32, symmetric; 2 I if starved. Not after inverse_factor."""
        assert self._products is not None, "no Hessian: not asked for, or already factorised"
        self.mean_square()
        if self.starved:
            return 2 * torch.eye(self._squares.shape[0], device=self._squares.device)
        return _mirrored(self._products.clone()).mul_(2 / self.tokens)

    def inverse_factor(self, damping: float, limit: float) -> tuple[torch.Tensor, torch.Tensor, float]:
        """Returns U with H^-1 = U^T U, computed once for all weights that read this input; H itself is let go.

        Dead inputs (H_jj = 0) get H_jj := 1; then damping * mean(diag H) is added to the diagonal. Where the Cholesky
        factorisation fails, the damping grows tenfold up to `limit`.

        Returns:
            U (in, in) float32 upper triangular, the dead inputs (in,) bool, and the damping that succeeded.

        Raises:
            PruneError: if no damping up to `limit` makes H positive definite.
        """
        if self._factor is None:
            self._factor = self._factorise(damping, limit)
        return self._factor

    def copied(self, device: torch.device) -> Statistics:
        """Returns an equal statistic on a device, sharing no memory with this one."""
        other = copy(self)
        for key, value in vars(self).items():
            if isinstance(value, torch.Tensor):
                setattr(other, key, value.to(device, copy=True))
        other._factor = None
        other._languages = None if self._languages is None else self._languages.copied(device)
        other.take_factor(self, device)
        return other

    def take_factor(self, other: Statistics, device: torch.device) -> None:
        """Takes over an equal statistic's factor, if that has been asked for one and this one has not."""
        if self._factor is None and other._factor is not None:
            upper, dead, damping = other._factor
            self._factor = upper.to(device, copy=True), dead.to(device, copy=True), damping

    def _factorise(self, damping: float, limit: float) -> tuple[torch.Tensor, torch.Tensor, float]:
        self.mean_square()  # refuses what is not finite
        assert self._products is not None
        hessian, self._products = self._products, None
        self._squares = hessian.diagonal().clone()
        if self.starved:
            hessian.diagonal().fill_(2)
        else:
            hessian *= 2 / self.tokens
        diagonal = hessian.diagonal()
        dead = diagonal == 0
        diagonal[dead] = 1
        mean = diagonal.mean()
        added, used = 0.0, damping
        while used <= limit * (1 + 1e-9):
            diagonal += (used - added) * mean
            added = used
            upper = _inverse_upper(hessian)
            if upper is not None:
                return upper, dead, used
            used *= 10
        raise PruneError(
            f"the Hessian of {self.name} is not positive definite even with {limit:g} of its mean diagonal added: "
            "expected more varied calibration text; raise calibration_samples, or use method=wanda"
        )


def _inverse_upper(hessian: torch.Tensor) -> torch.Tensor | None:
    """Returns U, upper triangular, with H^-1 = U^T U, or None where H is not positive definite.

    With rows and columns reversed, H = V V^T has an upper triangular V, and U = V^-1: one factorisation and one
    triangular inverse, and H^-1 itself is never formed.

    Args:
        hessian: (n, n) float32; what lies below the diagonal is not read.
    """
    factor, failed = torch.linalg.cholesky_ex(hessian.flip(0, 1))
    if int(failed):
        return None
    _invert_lower(factor)
    return factor.flip(0, 1) if all_finite(factor) else None


def _invert_lower(matrix: torch.Tensor) -> None:
    """Inverts a lower triangular matrix in place, half by half, so that nearly all is matrix products."""
    width = matrix.shape[0]
    if width <= _SOLVED_WIDTH:
        unit = torch.eye(width, dtype=matrix.dtype, device=matrix.device)
        matrix.copy_(torch.linalg.solve_triangular(matrix, unit, upper=False))
        return
    half = width // 2
    first, last = matrix[:half, :half], matrix[half:, half:]
    _invert_lower(first)
    _invert_lower(last)
    corner = matrix[half:, :half]
    corner.copy_((last @ (corner @ first)).neg_())


def _tile(device: torch.device) -> int:
    return _TILE.get(device.type, _WIDE_TILE)


def _mirrored(total: torch.Tensor) -> torch.Tensor:
    """Copies the tiles above the diagonal below it, in place."""
    tile = _tile(total.device)
    for start in range(0, total.shape[0], tile):
        stop = start + tile
        total[stop:, start:stop] = total[start:stop, stop:].T
    return total


def _add_gram(total: torch.Tensor, x: torch.Tensor) -> None:
    """Adds x^T x to the tiles of `total` on and above the diagonal."""
    width, tile = total.shape[0], _tile(total.device)
    for start in range(0, width, tile):
        stop = min(start + tile, width)
        total[start:stop, start:].addmm_(x[:, start:stop].T, x[:, start:])
