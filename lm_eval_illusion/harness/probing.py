"""Probes that look for the answer behind the greedy one: beams, samples, the gold's ranks.

Which one is meant stands in the row's `condition`. Each prompt is run once for all probes that ask it, alone, and their
hypotheses and samples together are the batch; the end is that of open answers, the first line with text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import normalize_gen_kwargs
from tqdm import tqdm

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import scoring
from lm_eval_illusion.harness.answers import AnswerText
from lm_eval_illusion.harness.beam import beam_search
from lm_eval_illusion.harness.branch_ways import Ways
from lm_eval_illusion.harness.branching import Hypothesis, Limits
from lm_eval_illusion.harness.decoder_start import answer_start
from lm_eval_illusion.harness.generation_cache import CannotRunError
from lm_eval_illusion.harness.generation_head import turned_head
from lm_eval_illusion.harness.generation_start import is_sharded
from lm_eval_illusion.harness.generation_stop import FirstLine
from lm_eval_illusion.harness.ranks import NO_RANKS, answer_tokens, greedy, read_in_one_pass, read_ranks
from lm_eval_illusion.harness.readout import TokenReading
from lm_eval_illusion.harness.rope import switch_length
from lm_eval_illusion.harness.sampling import Draws, sample
from lm_eval_illusion.harness.together import Search, together
from lm_eval_illusion.pairs.prompts import delimiter_of
from prune_hooks.heap import Heap

log = logging.getLogger("lm_eval.illusion")

_INERT = ("until", "max_gen_toks", "do_sample", "temperature", "num_beams", "top_p", "top_k")
"""Generation arguments that may be given, as long as the answer is greedy."""

Doc = Mapping[str, Any]


@dataclass(frozen=True)
class Opened:
    """A prompt that has been run, and what ends its continuations."""

    context: str
    tokens: tuple[int, ...]
    logits: torch.Tensor
    """(1, vocabulary), those of the first new token."""
    limits: Limits


Answering = Search[AnswerText]


class ProbeAnswering(HFLM):  # type: ignore[misc]  # lm_eval is untyped
    """HFLM that searches for answers where a row's condition asks for it."""

    _ways: Ways | None = None
    _heap: Heap

    def _answer_probes(
        self, requests: list[Instance], indices: Sequence[int], results: dict[int, str], quiet: bool
    ) -> None:
        """Answer the requests of these numbers, one prompt after another, the longest first."""
        if not indices:
            return
        self._check_probes(requests[indices[0]])
        asked: dict[tuple[tuple[int, ...], str, int], list[int]] = {}
        for index in indices:
            request = requests[index]
            check_arguments(request.doc, request.args[1])
            context = request.args[0]
            ids, _ = self.tok_batch_encode([context], truncation=False)
            asked.setdefault((tuple(ids[0].tolist()), context, int(request.doc["max_gen_toks"])), []).append(index)
        order = sorted(asked, key=lambda key: (-len(key[0]), key))
        with tqdm(total=len(indices), desc="Running probes", disable=quiet or self.rank != 0) as bar:
            for tokens, context, limit in order:
                members = asked[tokens, context, limit]
                members.sort(key=lambda i: str(requests[i].doc["condition"]))  # the order of rows is no one's choice
                docs = [requests[i].doc for i in members]
                for index, answer in zip(members, self._probed(docs, tokens, context, limit), strict=True):
                    results[index] = answer
                    bar.update(1)
                self._heap.give_back()

    def _check_probes(self, request: Instance) -> None:
        condition = request.doc["condition"]
        if getattr(self.cache_hook, "dbdict", None) is not None:
            raise IllusionError(
                f"--use_cache: {condition} has the prompt and arguments of the open answer, and the harness's cache "
                "cannot tell them apart; ask beams, samples and ranks without --use_cache"
            )
        if self.think_end_token:
            raise IllusionError(
                f"--model_args think_end_token={self.think_end_token!r}: {condition} ends with the first line, which "
                "would be one of the thought; leave out think_end_token for beams, samples and ranks"
            )
        if is_sharded(self.model):
            raise IllusionError(
                f"{type(self.model).__name__}: several processes hold parts of the model, and {condition} takes other "
                "numbers of steps in each; run beams, samples and ranks with whole models, one a process"
            )

    @torch.no_grad()
    def _probed(self, docs: Sequence[Doc], tokens: tuple[int, ...], context: str, limit: int) -> list[AnswerText]:
        """Run one prompt, and every probe that asks it, in the quickest way that the model can take."""
        limits = Limits(limit, self._end_tokens)
        if self._ways is None:
            self._ways = Ways(self.model, pad=self._pad, device=self.device)
        with turned_head(self.model), self._autocast():
            while True:
                try:
                    logits, branches = self._ways.run(tokens, limit)
                    opened = Opened(context, tokens, logits, limits)
                    return together([PROBES[doc["condition"]](self, doc, opened) for doc in docs], branches)
                except torch.OutOfMemoryError:
                    if len(docs) == 1:
                        raise
                    break
                except CannotRunError as why:
                    self._ways.give_up(why)
        log.warning("out of memory with %d probes of a prompt at once: one after another", len(docs))
        torch.cuda.empty_cache()
        return [self._probed([doc], tokens, context, limit)[0] for doc in docs]

    # ------------------------------------------------------------------ what the probes need
    def _line(self) -> FirstLine:
        return FirstLine(self.tokenizer, self._bytes)

    def _text(self, tokens: Sequence[int], limits: Limits) -> str:
        """Return what new tokens say, without the one that ended them."""
        return self._line().text(tokens[:-1] if tokens[-1] in limits.ends else tokens)

    def _teacher_forced(
        self, context: Sequence[int], continuations: Sequence[tuple[int, ...]]
    ) -> list[tuple[TokenReading, ...]]:
        """Read continuations of one prompt token by token, in float32 from the last hidden states."""
        prompt = scoring.Prompt(tuple(context), tuple(continuations), token_by_token=True)
        if self.backend != "causal":  # behind the token that answers begin with, whatever labels stand behind
            start = answer_start(self.model)
            (row,) = scoring.score(self.model, [prompt], pad=self._pad, device=self.device, start=start)
            return [one.tokens for one in row]
        end = len(context) - 1 + max(len(tokens) for tokens in continuations)
        switch = switch_length(self.model.config)
        if self._shared_prefix and (switch is None or end <= switch):
            scored = self._scored_or_given_up([prompt])
            if scored is not None:
                return [one.tokens for one in scored[0]]
        return [read_in_one_pass(self.model, context, tokens, self.device) for tokens in continuations]


def check_arguments(doc: Doc, arguments: dict[str, Any]) -> None:
    """Raise where `--gen_kwargs` names what a probe would not follow."""
    given = normalize_gen_kwargs(arguments, doc["max_gen_toks"])
    bent = {name: value for name, value in given.items() if name not in _INERT}
    bent |= {"do_sample": True} if given.get("do_sample") else {}
    bent |= {"num_beams": given["num_beams"]} if (given.get("num_beams") or 1) != 1 else {}
    if bent:
        raise IllusionError(
            f"--gen_kwargs: {doc['item_id']} was given {', '.join(f'{k}={v!r}' for k, v in sorted(bent.items()))}, but "
            f"{doc['condition']} chooses its tokens in its own way; leave it out of --gen_kwargs (samples: name "
            "illusion_temperature and illusion_top_p in --metadata)"
        )


def not_fitting(doc: Doc) -> AnswerText:
    """Return the answer of an item that does not fit the model's window."""
    told: dict[str, Any] = {"fits": False, "finish": None, "non_finite": False, "tied_steps": None}
    if doc.get("condition") == "rank":
        told["ranks"] = dict(NO_RANKS)
    elif doc.get("condition") in PROBES:
        told["hypotheses"] = []
    return AnswerText("", **told)


def _several(model: ProbeAnswering, found: Sequence[Hypothesis] | None, limits: Limits) -> AnswerText:
    hypotheses: list[dict[str, Any]] = [
        {"text": model._text(one.tokens, limits), "logprob": one.logprob, "finish": one.finish} for one in found or ()
    ]
    first: dict[str, Any] = hypotheses[0] if hypotheses else {"text": "", "finish": None}
    told = {"fits": True, "finish": first["finish"], "non_finite": found is None, "tied_steps": None}
    return AnswerText(first["text"], **told, hypotheses=hypotheses)


def _beams(model: ProbeAnswering, doc: Doc, opened: Opened) -> Answering:
    found = yield from beam_search(
        opened.logits,
        width=int(doc["beams"]),
        limits=opened.limits,
        rule=model._line(),
        answer_of=lambda one: model._text(one.tokens, opened.limits).strip(),
    )
    return _several(model, found, opened.limits)


def _samples(model: ProbeAnswering, doc: Doc, opened: Opened) -> Answering:
    draws = Draws(
        item_id=str(doc["item_id"]),
        samples=int(doc["samples"]),
        temperature=float(doc["temperature"]),
        top_p=float(doc["top_p"]),
        seed=int(doc["sample_seed"]),
    )
    found = yield from sample(opened.logits, draws, limits=opened.limits, rule=model._line())
    return _several(model, found, opened.limits)


def _rank(model: ProbeAnswering, doc: Doc, opened: Opened) -> Answering:
    limits = opened.limits
    answer = yield from greedy(opened.logits, limits=limits, rule=model._line())
    blank = not str(model.tokenizer.decode([answer.tokens[-1]], skip_special_tokens=True)).strip()
    said = answer_tokens(answer, limits.ends, blank)
    # After a chat template's own words nothing stands between prompt and answer.
    between = delimiter_of(doc["language"]) if opened.context.endswith(doc["prompt"]) else ""
    context, gold = model._tokens(opened.context, between + doc["gold_text"])
    if tuple(context) == opened.tokens:
        readings = model._teacher_forced(opened.tokens, (tuple(gold), said))
    else:
        readings = [
            *model._teacher_forced(context, (tuple(gold),)),
            *model._teacher_forced(opened.tokens, (said,)),
        ]
    ranks = read_ranks(*readings)
    return AnswerText(
        model._text(answer.tokens, limits),
        fits=True,
        finish=answer.finish,
        non_finite=answer.non_finite or ranks["ranks"] is None or ranks["greedy_logprob"] is None,
        tied_steps=answer.tied_steps,
        ranks=ranks,
    )


PROBES: dict[str, Callable[[ProbeAnswering, Doc, Opened], Answering]] = {
    "beam4": _beams,
    "beam8": _beams,
    "sample": _samples,
    "rank": _rank,
}
"""Condition -> how it is answered."""
