"""The harness's loglikelihood requests, scored with one prefill a prompt; any task's, not only ours."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from tqdm import tqdm

from lm_eval_illusion.errors import IllusionError, one_line
from lm_eval_illusion.harness import prefix_check, scoring
from lm_eval_illusion.harness.answers import ScoredPair, is_paired
from lm_eval_illusion.harness.batching import like_length
from lm_eval_illusion.harness.fit import FitChecker
from lm_eval_illusion.harness.rope import switch_length
from lm_eval_illusion.harness.scoring_row import Scored
from lm_eval_illusion.pairs.prompts import delimiter_of
from prune_hooks.heap import Heap

log = logging.getLogger("lm_eval.illusion")  # below the harness's own logger: the only one it shows

Tokens = tuple[int, ...]
_SHARED = {"causal": "cache", "seq2seq": "encoder's states"}
"""What continuations of one prompt share."""
NOT_SCORED: dict[str, Any] = {"fits": False, "first_token_rank": None, "parting": None}


class PrefillScoring(HFLM):  # type: ignore[misc]  # lm_eval is untyped
    """HFLM whose `loglikelihood` encodes each prompt once."""

    def _ready_to_score(self) -> None:
        """Learn what this model allows; after HFLM has been set up."""
        self._fit = FitChecker(
            lambda prompt: len(self.tok_encode(prompt)),
            lambda option: len(self.tok_encode(option, add_special_tokens=False)),
            self.max_length,
        )
        self._shared_prefix = True
        """Whether prompts are encoded once; false as soon as this model turned out not to allow it."""
        self._checked = False
        """Whether what can be asked of the model beforehand has been asked."""
        self._heap = Heap(self.device, growth=None)
        """What is freed is kept for the next batch, up to a point: see `prune_hooks.heap.keep_freed`."""
        if self.softmax_dtype is not None:
            self._give_up("its softmax_dtype asks for stock arithmetic")
        elif not scoring.supports_shared_prefix(self.model):
            self._give_up("its forward takes no logits_to_keep")

    def _give_up(self, why: str) -> None:
        self._shared_prefix = False
        log.warning("%s: no shared prefill, scoring as stock hf: %s", type(self.model).__name__, why)

    def _autocast(self) -> Any:
        """Return the context in which HFLM runs its forwards (mixed_precision_dtype)."""
        wanted = self.mixed_precision_dtype
        return torch.autocast(device_type=self.device.type, dtype=wanted, enabled=wanted is not None)

    @property
    def _pad(self) -> int:
        pad = self.tokenizer.pad_token_id
        return int(pad if pad is not None else self.eot_token_id or 0)

    def _batches(self, items: Sequence[Any], lengths: Sequence[int]) -> Iterator[list[Any]]:
        return like_length(items, lengths, self.batch_size, self.max_batch_size)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Score continuations with one prefill per prompt; an item that does not fit is not scored.

        Args:
            requests: Instances whose `args` are (context, continuation).
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            For each request a `ScoredPair`: (log-probability in nats, is greedy).
        """
        if self.enable_thinking or not self._shared_prefix:
            return self._stock_loglikelihood(requests, disable_tqdm)
        log.info("rank %d of %d scores %d requests", self.rank, self.world_size, len(requests))
        results: list[ScoredPair | None] = [None] * len(requests)
        quiet = disable_tqdm or self.rank != 0
        asked, grouped = self._tokenised(tqdm(requests, desc="Tokenizing inputs", disable=quiet), results)
        self._score_long(requests, grouped, results)
        order = sorted(grouped, key=lambda tokens: (-len(tokens), tokens))
        total = sum(len(members) for members in grouped.values())
        with tqdm(total=total, desc="Running loglikelihood requests", disable=quiet) as bar:
            for batch in self._batches(order, [len(tokens) for tokens in order]):
                members = [self._distinct(requests, grouped[tokens], asked) for tokens in batch]
                prompts = [
                    scoring.Prompt(tokens, tuple(c for c, _ in of), tuple(gold for _, gold in of))
                    for tokens, of in zip(batch, members, strict=True)
                ]
                scored = self._scored_or_given_up(prompts)
                if scored is None:
                    return self._stock_loglikelihood(requests, disable_tqdm)
                for of, row in zip(members, scored, strict=True):
                    for indices, one in zip(of.values(), row, strict=True):
                        parting = vars(one.parting) if one.parting is not None else None
                        told = {"first_token_rank": one.first_token_rank, "parting": parting}
                        for index in indices:
                            pair = ScoredPair(one.logprob, one.is_greedy, fits=True, **told)
                            results[index] = pair
                            self.cache_hook.add_partial("loglikelihood", requests[index].args, pair)
                        bar.update(len(indices))
                self._heap.give_back()
        return [result for result in results if result is not None]

    def _tokenised(
        self, requests: Iterable[Instance], results: list[ScoredPair | None]
    ) -> tuple[dict[tuple[str, str], Tokens], dict[Tokens, list[tuple[int, Tokens]]]]:
        """Return every request's continuation tokens by its texts, and the requests to score by their prompt tokens."""
        asked: dict[tuple[str, str], Tokens] = {}
        grouped: dict[Tokens, list[tuple[int, Tokens]]] = {}
        for index, request in enumerate(requests):
            context, continuation = request.args[:2]
            if context and is_paired(request.doc) and not self._fit.fits(request.doc, context):
                results[index] = ScoredPair(float("nan"), False, **NOT_SCORED)
                continue
            prefix, scored = self._windowed(*self._tokens(context, continuation))
            asked[context, continuation] = scored
            grouped.setdefault(prefix, []).append((index, scored))
        return asked, grouped

    def _score_long(
        self,
        requests: list[Instance],
        grouped: dict[Tokens, list[tuple[int, Tokens]]],
        results: list[ScoredPair | None],
    ) -> None:
        """Score stock's way, one by one, and take out, prompts so long that a cached one is not what a whole one is."""
        switch = switch_length(self.model.config) if self.backend == "causal" else None
        if switch is None:
            return
        ends = {prefix: len(prefix) - 1 + max(len(scored) for _, scored in of) for prefix, of in grouped.items()}
        long = {prefix: grouped.pop(prefix) for prefix, end in ends.items() if end > switch}
        if long:
            log.warning("%d prompts end beyond %d tokens, where positions are rescaled: as stock hf", len(long), switch)
        members = [(index, prefix, scored) for prefix, of in long.items() for index, scored in of]
        for index, prefix, scored in sorted(members, key=lambda m: (-len(m[1] + m[2]), m[1] + m[2])):  # stock's order
            (answer,) = self._loglikelihood_tokens([(requests[index].args, list(prefix), list(scored))], True)
            results[index] = ScoredPair(*answer, **{**NOT_SCORED, "fits": True})

    @staticmethod
    def _distinct(
        requests: list[Instance], members: list[tuple[int, Tokens]], asked: dict[tuple[str, str], Tokens]
    ) -> dict[tuple[Tokens, Tokens | None], list[int]]:
        """Return a prompt's distinct continuations, with the gold to compare them to, and the requests for each."""
        distinct: dict[tuple[Tokens, Tokens | None], list[int]] = {}
        for index, continuation in members:
            distinct.setdefault((continuation, _gold_of(requests[index], asked)), []).append(index)
        return distinct

    def _scored_or_given_up(self, prompts: list[scoring.Prompt]) -> list[list[Scored]] | None:
        """Score a batch; None, now and from then on, where this model turns out not to allow it."""
        try:
            if not self._checked:
                with self._autocast():
                    why = prefix_check.why_not(self.model, prompts[0], pad=self._pad, device=self.device)
                if why is not None:
                    self._give_up(why)
                    return None
                self._checked = True
            return self._scored(prompts)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
            self._give_up(f"its {_SHARED[self.backend]} cannot be copied to rows ({one_line(error)})")
            return None

    def _scored(self, prompts: list[scoring.Prompt]) -> list[list[Scored]]:
        """Score a batch; where the device runs out of memory, half of it at a time."""
        try:
            with self._autocast():
                return scoring.score(self.model, prompts, pad=self._pad, device=self.device)
        except torch.OutOfMemoryError:
            if len(prompts) == 1:
                raise
        log.warning("out of memory with %d prompts at once: scoring them in two halves", len(prompts))
        torch.cuda.empty_cache()
        half = len(prompts) // 2
        return self._scored(prompts[:half]) + self._scored(prompts[half:])

    def _stock_loglikelihood(self, requests: list[Instance], disable_tqdm: bool) -> list[tuple[float, bool]]:
        """Score as HFLM does, keeping the rule that an item which does not fit is not scored."""
        kept = [r for r in requests if not (r.args[0] and is_paired(r.doc)) or self._fit.fits(r.doc, r.args[0])]
        answers = iter(super().loglikelihood(kept, disable_tqdm=disable_tqdm) if kept else [])
        chosen = {id(request) for request in kept}
        return [
            ScoredPair(*next(answers), **{**NOT_SCORED, "fits": True})
            if id(request) in chosen
            else ScoredPair(float("nan"), False, **NOT_SCORED)
            for request in requests
        ]

    def _tokens(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Tokenise a request exactly as `TemplateLM.loglikelihood` does."""
        if context:
            pair: tuple[list[int], list[int]] = self._encode_pair(context, continuation)
            return pair
        tokens = self.tok_encode(continuation, add_special_tokens=False)
        if tokens and tokens[0] == self.prefix_token_id:
            return tokens[:1], tokens[1:]
        return [self.prefix_token_id], tokens

    def _windowed(self, context: list[int], continuation: list[int]) -> tuple[Tokens, Tokens]:
        """Cut from the left as HFLM does (other tasks only: paired items that do not fit never come here)."""
        if not context or not continuation or len(continuation) > self.max_length:
            raise IllusionError(
                f"a request has {len(context)} context and {len(continuation)} continuation tokens; expected at least "
                f"one of each and at most {self.max_length} to score; mend the task or set max_length in --model_args"
            )
        if self.backend == "seq2seq":
            return tuple(context[-self.max_length :]), tuple(continuation)
        whole = (context + continuation)[-(self.max_length + 1) :]
        return tuple(whole[: len(whole) - len(continuation)]), tuple(continuation)


def _gold_of(request: Instance, asked: dict[tuple[str, str], Tokens]) -> Tokens | None:
    """Return the gold option's tokens after the request's prompt, if it is a paired item's and was asked too.

    The language says what stands between prompt and option; a chat template may take it away.
    """
    context, doc = request.args[0], request.doc
    if not context or not is_paired(doc):
        return None
    gold = doc["choices_near"][int(doc["gold_near"])]
    delimiters = (delimiter_of(doc["language"]), "", " ")
    return next((asked[context, d + gold] for d in delimiters if (context, d + gold) in asked), None)
