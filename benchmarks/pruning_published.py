"""The other rival of `pruning.py`: the published protocol, written plainly for a Llama-like model.

Wanda (Sun et al. 2023) and SparseGPT (Frantar and Alistarh 2023) as their own repositories do it: blocks in order; one
forward of the dense block, row by row, with a hook and a statistic of its own on each of its seven Linear layers; all
seven pruned; a second forward for the next block's inputs. It shares no code with the package.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from pruning_job import Job, load, serve_job, token_rows
from torch import nn

COLUMNS = 128
DAMPING = 0.01


class Entered(Exception):
    """The first block has been called."""


class Norms:
    """Wanda's statistic: the mean over tokens of the squared input."""

    def __init__(self, layer: nn.Linear) -> None:
        self.total = torch.zeros(layer.in_features)
        self.tokens = 0

    def add(self, x: torch.Tensor) -> None:
        """Count a row's inputs."""
        x = x.reshape(-1, x.shape[-1]).float()
        self.total += torch.norm(x, p=2, dim=0) ** 2
        self.tokens += x.shape[0]

    def prune(self, layer: nn.Linear, sparsity: float) -> None:
        """Prune the layer in place."""
        score = layer.weight.data.abs() * torch.sqrt(self.total / self.tokens)
        order = torch.sort(score, dim=-1, stable=True)[1][:, : int(score.shape[1] * sparsity)]
        layer.weight.data[torch.zeros_like(score, dtype=torch.bool).scatter_(1, order, True)] = 0


class Hessian:
    """SparseGPT's statistic: (2/n) sum x x^T."""

    def __init__(self, layer: nn.Linear) -> None:
        self.total = torch.zeros(layer.in_features, layer.in_features)
        self.tokens = 0

    def add(self, x: torch.Tensor) -> None:
        """Count a row's inputs."""
        x = x.reshape(-1, x.shape[-1]).float()
        self.total *= self.tokens / (self.tokens + x.shape[0])
        self.tokens += x.shape[0]
        x = (2 / self.tokens) ** 0.5 * x
        self.total += x.T @ x

    def prune(self, layer: nn.Linear, sparsity: float) -> None:
        """Prune the layer in place."""
        weight, hessian = layer.weight.data.clone().float(), self.total
        dead = hessian.diagonal() == 0
        hessian[dead, dead] = 1
        weight[:, dead] = 0
        hessian.diagonal().add_(DAMPING * hessian.diagonal().mean())
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(hessian))
        upper = torch.linalg.cholesky(inverse, upper=True)
        for start in range(0, weight.shape[1], COLUMNS):
            stop = min(start + COLUMNS, weight.shape[1])
            block, inner = weight[:, start:stop].clone(), upper[start:stop, start:stop]
            errors = torch.zeros_like(block)
            score = block**2 / inner.diagonal().reshape(1, -1) ** 2
            mask = score <= torch.sort(score.flatten())[0][int(score.numel() * sparsity)]
            for column in range(stop - start):
                kept = block[:, column].clone()
                kept[mask[:, column]] = 0
                error = (block[:, column] - kept) / inner[column, column]
                block[:, column:] -= error.unsqueeze(1).matmul(inner[column, column:].unsqueeze(0))
                block[:, column] = kept
                errors[:, column] = error
            weight[:, start:stop] = block
            weight[:, stop:] -= errors.matmul(upper[start:stop, stop:])
        layer.weight.data = weight.to(layer.weight.dtype)


STATISTICS: dict[str, type[Any]] = {"wanda": Norms, "sparsegpt": Hessian}


def block_inputs(model: Any, rows: torch.Tensor) -> tuple[list[torch.Tensor], list[dict[str, Any]]]:
    """Return what enters the first block, row by row, and each block's keyword arguments, the same for every row."""
    blocks = model.model.layers
    hidden: list[torch.Tensor] = []
    keywords: list[dict[str, Any]] = []

    def enter(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden.append(args[0])
        raise Entered

    def listen(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        keywords.append(kwargs)

    handles = [block.register_forward_pre_hook(listen, with_kwargs=True) for block in blocks]
    model(rows[:1], use_cache=False)
    handles.append(blocks[0].register_forward_pre_hook(enter, with_kwargs=True))
    for row in rows:
        with suppress(Entered):
            model(row[None], use_cache=False)
    for handle in handles:
        handle.remove()
    return hidden, keywords[: len(blocks)]


def prune(model: Any, rows: torch.Tensor, method: str, sparsity: float) -> None:
    """Prune the model in place."""
    hidden, keywords = block_inputs(model, rows)
    for block, kwargs in zip(model.model.layers, keywords, strict=True):
        layers = [module for module in block.modules() if isinstance(module, nn.Linear)]
        found = [STATISTICS[method](layer) for layer in layers]
        handles = [
            layer.register_forward_hook(lambda _, args, __, s=statistic: s.add(args[0]))
            for layer, statistic in zip(layers, found, strict=True)
        ]
        for row in hidden:
            block(row, **kwargs)
        for handle in handles:
            handle.remove()
        for layer, statistic in zip(layers, found, strict=True):
            statistic.prune(layer, sparsity)
        del found
        for number, row in enumerate(hidden):
            output = block(row, **kwargs)
            hidden[number] = output[0] if isinstance(output, tuple) else output


def prepare(job: Job) -> tuple[Any, Callable[[], dict[str, Any]]]:
    """Return the model, and what prunes it."""
    model, rows = load(job), token_rows(job)

    def run() -> dict[str, Any]:
        prune(model, rows, job.method, job.sparsity)
        return {}

    return model, run


if __name__ == "__main__":
    serve_job(prepare)
