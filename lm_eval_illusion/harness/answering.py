"""Open answers: which request goes through the decode loop, which is a probe, and which goes HFLM's way.

Greedy requests of any task run in the loop and get stock HFLM's text; paired items keep their own end, the first line
with text, and those whose condition is a probe are searched (`probing`). Sampling, beams, arguments that bend the
logits, and a checkpoint's own bent `generation_config` are stock's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs, postprocess_generated_text
from tqdm import tqdm

from lm_eval_illusion.harness import generation, generation_stock
from lm_eval_illusion.harness.answers import AnswerText, is_paired
from lm_eval_illusion.harness.batching import LEAST_FILL, like_length
from lm_eval_illusion.harness.fit import require_budget
from lm_eval_illusion.harness.generation_cache import CannotRunError
from lm_eval_illusion.harness.generation_padding import may_be_padded
from lm_eval_illusion.harness.generation_stop import FirstLine, StopStrings
from lm_eval_illusion.harness.generation_tokens import TokenBytes
from lm_eval_illusion.harness.probing import PROBES, ProbeAnswering, not_fitting

log = logging.getLogger("lm_eval.illusion")

_INERT = ("do_sample", "temperature", "num_beams", "top_p", "top_k")
"""Generation arguments that change nothing where the answer is greedy."""

_AT_ONE = ("repetition_penalty", "encoder_repetition_penalty", "guidance_scale", "num_beams", "num_return_sequences")
"""Fields of a generation config that change nothing at 1."""

_AT_NOTHING = (
    *("sequence_bias", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "min_length"),
    *("min_new_tokens", "max_new_tokens", "max_time", "stop_strings", "forced_bos_token_id", "forced_eos_token_id"),
    *("remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens"),
    *("watermarking_config", "penalty_alpha", "dola_layers", "prompt_lookup_num_tokens", "cache_implementation"),
    *("prefill_chunk_size", "token_healing", "return_dict_in_generate", "use_mtp", "assistant_early_exit"),
)
"""Fields of a generation config that change nothing when absent, empty, zero or false."""


@dataclass
class _Asked:
    """One request on its way through the loop."""

    index: int
    """Its place among the requests."""
    request: generation.Request
    text_of: Callable[[generation.Answer], str]
    """From new tokens to the text that the harness gets."""


class GreedyAnswering(ProbeAnswering):
    """HFLM whose greedy answers come from the decode loop."""

    _loop_refused = False
    _token_bytes: TokenBytes | None = None

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Answer requests: greedy ones in the decode loop, everything else HFLM's way.

        Args:
            requests: Instances whose `args` are (context, generation arguments).
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            One text a request, in order; paired items get an `AnswerText`, probes with `hypotheses` or `ranks`.
        """
        results: dict[int, str] = {}
        ours: list[_Asked] = []
        others: list[int] = []
        probes: list[int] = []
        for index, request in enumerate(requests):
            context, arguments = request.args[:2]
            paired = is_paired(request.doc)
            if paired:
                require_budget(request.doc, arguments)
                if not self._fit.fits(request.doc, context):
                    results[index] = not_fitting(request.doc)
                    continue
                if request.doc.get("condition") in PROBES:
                    probes.append(index)
                    continue
            asked = self._asked(index, request, paired)
            if asked is None:
                others.append(index)
            else:
                ours.append(asked)
        self._answer_probes(requests, probes, results, disable_tqdm)
        left = self._loop(requests, ours, results, disable_tqdm)
        bent = [i for i in others if is_paired(requests[i].doc) and self._is_greedy(requests[i].args[1])]
        self._paired_stock(requests, [*bent, *(i for i in left if is_paired(requests[i].doc))], results, disable_tqdm)
        stock = sorted({*others, *left} - results.keys())
        texts = super().generate_until([requests[i] for i in stock], disable_tqdm=disable_tqdm) if stock else []
        for index, text in zip(stock, texts, strict=True):
            paired = is_paired(requests[index].doc)
            told = {"fits": True, "finish": None, "non_finite": None, "tied_steps": None}
            results[index] = AnswerText(text, **told) if paired else text
        return [results[index] for index in range(len(requests))]

    # ------------------------------------------------------------------ what the loop takes
    def _asked(self, index: int, request: Instance, paired: bool) -> _Asked | None:
        """Return the request as the loop wants it; None where it is not the loop's."""
        if self._loop_refused or not self._is_greedy(request.args[1]):
            return None
        arguments = normalize_gen_kwargs(request.args[1], self.max_gen_toks)
        limit, until = arguments.pop("max_gen_toks"), arguments.pop("until")
        if any(name not in _INERT for name in arguments) or (not paired and not self._is_neutral()):
            return None
        seq2seq = self.backend == "seq2seq"
        room = self.max_length if seq2seq else self.max_length - limit
        if limit < 1 or room < 1 or not all(isinstance(string, str) for string in until):
            return None
        cut: dict[str, Any] = {} if paired else {"left_truncate_len": room}
        ids, _ = self.tok_batch_encode([request.args[0]], truncation=False if paired else self.truncation, **cut)
        tokens = tuple(ids[0].tolist())
        if not tokens:
            return None
        if paired:
            rule, ends = FirstLine(self.tokenizer, self._bytes), self._end_tokens
            asked = generation.Request(tokens, limit, rule, ends=ends)
            return _Asked(index, asked, lambda answer: _line_text(rule, answer, ends))
        stops = handle_stop_sequences(until, eos=self.tok_decode(self.eot_token_id, skip_special_tokens=False))
        watch = StopStrings(self.tokenizer, stops, self._bytes)
        if seq2seq:  # stock counts the prompt's tokens as the decoder's, in the limit and in what it stops at
            asked = generation.Request(tokens, len(tokens) + limit - 1, watch, unseen=len(tokens))
        else:
            asked = generation.Request(tokens, limit, watch)
        return _Asked(index, asked, lambda answer: self._stock_text(stops, answer))

    def _is_greedy(self, arguments: dict[str, Any]) -> bool:
        asked = normalize_gen_kwargs(arguments, self.max_gen_toks)
        return not (self.think_end_token or asked.get("do_sample") or (asked.get("num_beams") or 1) != 1)

    def _is_neutral(self) -> bool:
        """Say whether the checkpoint's own generation config leaves the highest logit the choice."""
        config = self.model.generation_config
        bent = [name for name in _AT_ONE if (getattr(config, name, None) or 1) != 1]
        bent += [name for name in _AT_NOTHING if getattr(config, name, None)]
        return not bent and getattr(config, "forced_bos_token_id", None) is None

    @property
    def _bytes(self) -> TokenBytes:
        if self._token_bytes is None:
            self._token_bytes = TokenBytes(self.tokenizer)
        return self._token_bytes

    @property
    def _end_tokens(self) -> frozenset[int]:
        return generation_stock.end_tokens(self.model, self.tokenizer)

    def _stock_text(self, stops: Sequence[str], answer: generation.Answer) -> str:
        text = self.tok_decode([*answer.before, *answer.tokens])
        return str(postprocess_generated_text(generation=text, stop=list(stops), think_end_token=None))

    # ------------------------------------------------------------------ ways
    def _loop(self, requests: list[Instance], ours: list[_Asked], results: dict[int, str], quiet: bool) -> list[int]:
        """Answer in the decode loop; return the requests it could not run."""
        if not ours:
            return []
        with tqdm(total=len(ours), desc="Running generate_until requests", disable=quiet or self.rank != 0) as bar:

            def done(number: int, answer: generation.Answer) -> None:
                asked = ours[number]
                text = asked.text_of(answer)
                request = requests[asked.index]
                if is_paired(request.doc):
                    told = {"finish": answer.finish, "non_finite": answer.non_finite, "tied_steps": answer.tied_steps}
                    text = AnswerText(text, fits=True, **told)
                results[asked.index] = text
                self.cache_hook.add_partial("generate_until", request.args, text)
                bar.update(1)
                self._heap.give_back()

            try:
                with self._autocast():
                    generation.generate(
                        self.model,
                        [asked.request for asked in ours],
                        pad=self._pad,
                        batch_size=self.batch_size,
                        max_batch_size=self.max_batch_size,
                        device=self.device,
                        done=done,
                    )
            except CannotRunError as why:
                self._loop_refused = True
                log.warning("%s: no decode loop, generating as stock hf: %s", type(self.model).__name__, why)
        return [asked.index for asked in ours if asked.index not in results]

    def _may_be_padded(self, context: str) -> bool:
        ids, _ = self.tok_batch_encode([context], truncation=False)
        with self._autocast():
            return may_be_padded(self.model, ids[0].tolist(), pad=self._pad, device=self.device)

    def _paired_stock(self, requests: list[Instance], indices: list[int], results: dict[int, str], quiet: bool) -> None:
        """Answer paired items through `model.generate`, each up to its first line."""
        groups: dict[str, list[int]] = {}
        for index in indices:
            groups.setdefault(repr(sorted(requests[index].args[1].items())), []).append(index)
        for group in groups.values():
            arguments = normalize_gen_kwargs(requests[group[0]].args[1], self.max_gen_toks)
            limit = arguments.pop("max_gen_toks")
            extra = {name: value for name, value in arguments.items() if name not in (*_INERT, "until")}
            lengths = {i: len(self.tok_encode(requests[i].args[0])) for i in group}
            order = sorted(group, key=lambda i: (-lengths[i], requests[i].args[0]))
            ends = [lengths[i] + limit for i in order]
            fill = LEAST_FILL if self._may_be_padded(requests[order[0]].args[0]) else 1.0
            batches = like_length(order, ends, self.batch_size, self.max_batch_size, least_fill=fill)
            with tqdm(total=len(order), desc="Running generate_until requests", disable=quiet or self.rank != 0) as bar:
                for batch in batches:
                    ids, mask = self.tok_batch_encode([requests[i].args[0] for i in batch], truncation=False)
                    with self._autocast(), torch.no_grad():
                        answers = generation_stock.generate(
                            self.model,
                            self.tokenizer,
                            ids,
                            mask,
                            rule=lambda: FirstLine(self.tokenizer, self._bytes),
                            max_new_tokens=limit,
                            extra=extra,
                        )
                    for i, answer in zip(batch, answers, strict=True):
                        results[i] = AnswerText(
                            answer.text,
                            fits=True,
                            finish=answer.finish,
                            non_finite=answer.non_finite,
                            tied_steps=None if extra else answer.tied_steps,
                        )
                        self.cache_hook.add_partial("generate_until", requests[i].args, results[i])
                        bar.update(1)
                    self._heap.give_back()


def _line_text(rule: FirstLine, answer: generation.Answer, ends: frozenset[int]) -> str:
    """Return a paired item's text: what stands before the token that ended it."""
    tokens = answer.tokens
    return rule.text(tokens[:-1] if tokens[-1] in ends else tokens)
