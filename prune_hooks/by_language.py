"""Sums over tokens kept apart by language, and how many tokens activate a channel."""

from __future__ import annotations

from copy import copy

import torch


class ByLanguage:
    """Squares of a weight's inputs by language: always float32, on the weight's device.

    A token activates a channel where abs(x_j) is above the mean of abs(x) over the token's own channels: a rule
    without a scale, for inputs that follow a norm as for those that follow an activation function.
    """

    def __init__(self, width: int, languages: int, device: torch.device) -> None:
        self._squares = torch.zeros(languages, width, device=device)
        self._tokens = torch.zeros(languages, dtype=torch.int64, device=device)
        self._active = torch.zeros(width, device=device)

    def add(self, x: torch.Tensor, labels: torch.Tensor | None) -> None:
        """Adds inputs x (tokens, in) float32 with the number of each one's language (tokens,); None: the first."""
        if labels is None:
            labels = torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)
        member = torch.nn.functional.one_hot(labels, self._tokens.shape[0])
        self._squares += member.T.float() @ x.square()  # a product sums in a fixed order, on an accelerator too
        self._tokens += member.sum(dim=0)
        size = x.abs()
        self._active += (size > size.mean(dim=1, keepdim=True)).sum(dim=0)

    def norms(self) -> torch.Tensor:
        """Returns n_jl, the root mean square of x_j over a language's tokens: (languages met, in), maybe none."""
        met = self._tokens > 0
        return (self._squares[met] / self._tokens[met, None]).sqrt()

    def weights(self) -> torch.Tensor:
        """Returns each met language's share of the tokens, (languages met,), adding up to 1."""
        return self._tokens[self._tokens > 0] / max(1, int(self._tokens.sum()))

    def spread(self) -> torch.Tensor:
        """Returns the standard deviation of n_jl over languages, each weighing as many tokens as it has: (in,).

        0 with one language, or none.
        """
        norms, weights = self.norms(), self.weights()[:, None]
        mean = (weights * norms).sum(dim=0)
        return (weights * (norms - mean).square()).sum(dim=0).sqrt()

    def activity(self) -> torch.Tensor:
        """Returns p_j, the share of tokens that activate channel j: (in,); ones if there was no token."""
        tokens = int(self._tokens.sum())
        return self._active / tokens if tokens else torch.ones_like(self._active)

    def correlation(self) -> float | None:
        """Returns the mean of Pearson's correlation of n_jl over channels, over all pairs of languages.

        None with fewer than two languages, or where a language's norms are all equal.
        """
        norms = self.norms().double()
        if norms.shape[0] < 2:
            return None
        centred = norms - norms.mean(dim=1, keepdim=True)
        lengths = centred.norm(dim=1)
        if not bool((lengths > 0).all()):
            return None
        unit = centred / lengths[:, None]
        pairs = torch.triu_indices(norms.shape[0], norms.shape[0], offset=1)
        return float((unit @ unit.T)[pairs[0], pairs[1]].mean())

    def copied(self, device: torch.device) -> ByLanguage:
        """Returns an equal value on a device, sharing no memory with this one."""
        other = copy(self)
        for key, value in vars(self).items():
            setattr(other, key, value.to(device, copy=True))
        return other
