"""What a model passes to each of its blocks, taken down without running them.

The blocks of a stack are replaced, for the time of one call of the model, by stand-ins that note their arguments and
return at once; the call is cut short at the stack's last block, so the head never runs. A look at one short real call
says beforehand which arguments are earlier blocks' outputs (T5 hands on its position bias).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from prune_hooks.errors import PruneError

Batch = dict[str, torch.Tensor]
"""Keyword arguments of the model for some rows: input_ids and, if wanted, attention_mask, decoder_input_ids, ..."""


@dataclass
class Call:
    """One call of a block: everything but the hidden states."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class Wiring:
    """How a block is fed and what it returns."""

    extras: int | None = None
    """None if it returns a tensor, else how many values follow the hidden states in its tuple."""
    threaded: dict[int | str, int] = field(default_factory=dict)
    """Arguments (position or keyword) that are the previous block's output at that index."""


class _Stop(Exception):
    """The last block of the stack has been reached."""


def call_model(model: nn.Module, batch: Batch) -> None:
    """Calls the model on a batch without a cache."""
    model(**batch, use_cache=False)


def hidden_of(output: Any) -> torch.Tensor:
    """Returns the hidden states from a block's output, a tensor or a tuple that begins with one."""
    hidden: torch.Tensor = output[0] if isinstance(output, tuple) else output
    return hidden


def with_hidden(call: Call, hidden: torch.Tensor) -> Call:
    """Returns the call with hidden states put back where they were."""
    if call.args:
        return Call((hidden, *call.args[1:]), call.kwargs)
    return Call((), call.kwargs | {"hidden_states": hidden})


def learn_wiring(model: nn.Module, stacks: Sequence[Sequence[nn.Module]], batch: Batch) -> list[list[Wiring]]:
    """Watches one real call on a short batch and returns how each block of each stack is fed.

    Raises:
        PruneError: if a block is not called, or the model changes the hidden states between its blocks.
    """
    seen: dict[int, tuple[Call, Any]] = {}
    handles = []

    def watch(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        seen[id(module)] = (Call(args, kwargs), output)
        if module is stacks[-1][-1]:
            raise _Stop

    for stack in stacks:
        handles += [block.register_forward_hook(watch, with_kwargs=True) for block in stack]
    try:
        with suppress(_Stop):
            call_model(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    return [_wiring_of(stack, seen) for stack in stacks]


def _wiring_of(stack: Sequence[nn.Module], seen: dict[int, tuple[Call, Any]]) -> list[Wiring]:
    wirings = []
    previous: Any = None
    for index, block in enumerate(stack):
        if id(block) not in seen:
            raise PruneError(
                f"block {index} ({type(block).__name__}) is not run by the model on text: expected every block of the "
                "list to be called; this architecture needs method=magnitude or random, which run nothing"
            )
        call, output = seen[id(block)]
        wiring = Wiring(extras=len(output) - 1 if isinstance(output, tuple) else None)
        if index:
            if _hidden_argument(call) is not hidden_of(previous):
                raise PruneError(
                    f"the model changes the hidden states before block {index} ({type(block).__name__}): expected "
                    "block outputs to be handed on untouched; use method=magnitude or random, which run nothing"
                )
            if isinstance(previous, tuple):
                slots: list[tuple[int | str, Any]] = [*enumerate(call.args), *call.kwargs.items()]
                for slot, value in slots:
                    for position, extra in enumerate(previous[1:], start=1):
                        if isinstance(value, torch.Tensor) and value is extra:
                            wiring.threaded[slot] = position
        wirings.append(wiring)
        previous = output
    return wirings


def _hidden_argument(call: Call) -> torch.Tensor:
    hidden: torch.Tensor = call.args[0] if call.args else call.kwargs["hidden_states"]
    return hidden


@contextmanager
def _forward_replaced(replacements: Sequence[tuple[nn.Module, Callable[..., Any]]]) -> Iterator[None]:
    """Puts other forwards on modules for a while; instance-level forwards (accelerate) are put back."""
    before = [(module, module.__dict__.get("forward")) for module, _ in replacements]
    for module, stand_in in replacements:
        module.__dict__["forward"] = stand_in
    try:
        yield
    finally:
        for module, forward in before:
            if forward is None:
                del module.__dict__["forward"]
            else:
                module.__dict__["forward"] = forward


class Pool:
    """Keeps one copy of equal tensors, so that masks and rotary tables are not held once a batch and block."""

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] = []

    def share(self, value: Any) -> Any:
        """Returns `value` with its tensors replaced by equal ones already held."""
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return tuple(self.share(item) for item in value)
        if isinstance(value, dict):
            return {key: self.share(item) for key, item in value.items()}
        if not isinstance(value, torch.Tensor):
            return value
        if any(kept is value for kept in self._kept):
            return value
        for kept in self._kept:
            same_kind = (kept.shape, kept.dtype, kept.device) == (value.shape, value.dtype, value.device)
            if same_kind and torch.equal(kept, value):
                return kept
        self._kept.append(value)
        return value


def capture_calls(
    model: nn.Module,
    stack: Sequence[nn.Module],
    wiring: Sequence[Wiring],
    finished: Sequence[tuple[nn.Module, Wiring, torch.Tensor]],
    batch: Batch,
    pool: Pool,
) -> tuple[torch.Tensor, list[Call]]:
    """Returns the hidden states that enter a stack, and every block's other arguments, for one batch.

    Args:
        model: the model.
        stack: the blocks to listen at.
        wiring: of those blocks.
        finished: blocks of earlier stacks, with what each is to return (an encoder's last hidden states).
        batch: the model's inputs.
        pool: where equal tensors are shared.
    """
    calls: list[Call] = []
    entered: list[torch.Tensor] = []

    def listen(index: int) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            call = Call(args, kwargs)
            hidden = _hidden_argument(call)
            if index == 0:
                entered.append(hidden)
            rest = with_hidden(call, None)  # type: ignore[arg-type]  # the placeholder for the hidden states
            calls.append(Call(pool.share(rest.args), pool.share(rest.kwargs)))
            if index == len(stack) - 1:
                raise _Stop
            return _shaped(hidden, wiring[index])

        return forward

    replacements = [(block, listen(index)) for index, block in enumerate(stack)]
    replacements += [(block, _returning(_shaped(hidden, wired))) for block, wired, hidden in finished]
    with _forward_replaced(replacements), suppress(_Stop):
        call_model(model, batch)
    return entered[0], calls


def _shaped(hidden: torch.Tensor, wiring: Wiring) -> Any:
    return hidden if wiring.extras is None else (hidden, *[None] * wiring.extras)


def _returning(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value
