"""Multiple-choice requests of a plain task, as both sides of the scoring benchmark get them."""

from __future__ import annotations

from typing import Any

TOKENS = (150, 400)
SOURCES = {"tydiqa": ("en", "fi", "ru", "ar", "sw"), "xquad": ("en", "de", "zh", "hi")}
Asked = list[tuple[str, list[str]]]
"""Prompts with their options."""


def questions(tokenizer: Any, data: str | None, count: int) -> Asked:
    """Return prompts of 150 to 400 tokens with four near options each."""
    from lm_eval_illusion.pairs.docs import build

    sources = SOURCES if data else {"illusion_mini": ("en", "de", "ru", "zh")}
    languages = [(name, language) for name, listed in sources.items() for language in listed]
    found: Asked = []
    for name, language in languages:
        of_this = 0
        for row in build(name, language, folder=data, seed=0, count=None).rows:
            prompt = row["prompt"] if data else _lengthened(row, tokenizer)
            if of_this == -(-count // len(languages)):
                break
            if TOKENS[0] <= len(tokenizer(prompt)["input_ids"]) <= TOKENS[1]:
                found.append((prompt, list(row["choices_near"])))
                of_this += 1
    return found[:count]


def _lengthened(row: dict[str, Any], tokenizer: Any) -> str:
    from lm_eval_illusion.pairs.prompts import build_prompt

    passage = row["passage"]
    times = max(1, 250 // len(tokenizer(passage)["input_ids"]))
    return build_prompt(" ".join([passage] * times), row["question"], row["language"])


def instances(asked: Asked) -> list[Any]:
    from lm_eval.api.instance import Instance

    made = []
    for number, (prompt, options) in enumerate(asked):
        for k, option in enumerate(options):
            meta = ("benchmark", number, 1)
            made.append(Instance("loglikelihood", {}, (prompt, f" {option}"), k, metadata=meta))
    return made


def grown(tokenizer: Any, data: str | None, kind: str, size: int) -> Asked:
    """Return requests that grow in one way: options (of at most four tokens), passage tokens, or items."""
    base = questions(tokenizer, data, size if kind == "items" else 8)
    words = [f"{chr(97 + n)}{n}" for n in range(26)]
    if kind == "options":
        return [(prompt, words[:size]) for prompt, _ in base]
    if kind == "passage":
        cut = []
        for prompt, options in base:
            ids = (tokenizer(prompt)["input_ids"] * (size // 100 + 1))[:size]
            cut.append((tokenizer.decode(ids, skip_special_tokens=True), options))
        return cut
    return [
        base[n % len(base)] if n < len(base) else (f"{n} {base[n % len(base)][0]}", base[n % len(base)][1])
        for n in range(size)
    ]
