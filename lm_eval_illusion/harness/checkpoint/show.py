"""An inspection as plain text: what the whole holds, then a line for each block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lm_eval_illusion.harness.checkpoint.zeros import AT_LEAST
from lm_eval_illusion.harness.inspect import Inspection, Share
from lm_eval_illusion.report.render.safe import inert

_TIED = {
    "tied": "yes: the head is not stored, it is {embedding}",
    "stored twice": "stored twice: {head} holds the values of {embedding}",
    "untied": "no: {head} is a matrix of its own",
    "unknown": "cannot be told: a tensor has no name known here, or is packed",
}
MOST_PATTERNS = 3


def text_of(found: Inspection) -> str:
    """Return the inspection as lines of text; names out of the files are made inert."""
    return "\n".join(inert(line, 400) for line in (*_head(found), "", *_layers(found)))


def _head(found: Inspection) -> Iterator[str]:
    form, blocks, whole = found.format, found.blocks, found.whole
    detail = f" ({form.detail})" if form.detail else ""
    architecture = ", ".join(found.architectures) or "class not named"
    tied = _TIED[found.tied.state].format(embedding=found.tied.embedding, head=found.tied.head)
    said = "" if found.tied.said is None else f" (config.json: tie_word_embeddings {str(found.tied.said).lower()})"
    rows = [
        ("checkpoint", f"{found.path}: {found.files} file(s), {found.bytes / 1e6:.1f} MB"),
        ("model", f"{found.model_type or 'type not named'}, {architecture}"),
        ("format", f"{form.name}{detail}"),
        ("read", form.reads),
        ("dtype", ", ".join(f"{kind} {100 * size / whole.weights:.1f} %" for kind, size in found.dtypes.items())),
        ("weights", f"{whole.weights:,} stored, {blocks.weights:,} in {blocks.matrices} matrices of the blocks"),
        ("tied", tied + said),
        ("sparsity", f"{_share(blocks)} of the blocks' matrices, {_share(whole)} of the whole model"),
        ("pattern", _patterns(blocks.patterns, blocks.matrices) or ("none" if blocks.counted else "not known")),
    ]
    rows += [("not counted", f"{count:,} weights: {reason}") for reason, count in found.not_counted.items()]
    if found.receipt is not None:
        rows.append(("receipt", _receipt(found)))
    for label, text in rows:
        yield f"{label:<12}{text}"


def _receipt(found: Inspection) -> str:
    receipt = found.receipt
    assert receipt is not None
    reached = "" if receipt.sparsity_reached is None else f", reached {receipt.sparsity_reached:.4f}"
    told = f"{receipt.method}, {receipt.pattern}, asked {receipt.sparsity_asked:.4f}{reached}"
    if receipt.differing:
        return (
            f"{told}; DIFFERS: {len(receipt.differing)} matrices hold other numbers of zeros than it says, first "
            f"{receipt.differing[0]}"
        )
    return f"{told}; {receipt.found} of its {receipt.matrices} matrices were found, with the zeros it says"


def _layers(found: Inspection) -> Iterator[str]:
    if not found.layers:
        yield "no blocks: no tensor's name holds the number of one"
        return
    width = max(len(f"{layer.blocks}.{layer.number}") for layer in found.layers)
    yield f"{'block':<{width}}  {'weights':>13}  sparsity  pattern (matrices)"
    for layer in found.layers:
        share = layer.share
        name, patterns = f"{layer.blocks}.{layer.number}", _patterns(share.patterns, share.matrices)
        sparsity = "-" if share.sparsity is None else f"{share.sparsity:.4f}"
        yield f"{name:<{width}}  {share.weights:>13,}  {sparsity:>8}  {patterns or '-'}"


def _share(share: Share) -> str:
    if share.sparsity is None:
        return "not known"
    part = "" if share.counted == share.weights else f" ({100 * share.counted / share.weights:.1f} % of them counted)"
    return f"{share.sparsity:.4f}{part}"


def _patterns(patterns: Mapping[str, int], matrices: int) -> str:
    """Return in how many matrices each pattern holds, and in how many of those every group keeps just so many."""
    holds: dict[str, int] = {}
    for name, count in patterns.items():
        kept = name.removesuffix(AT_LEAST)
        holds[kept] = holds.get(kept, 0) + count
    parts = []
    for kept, count in sorted(holds.items(), key=lambda pair: -pair[1])[:MOST_PATTERNS]:
        exact = patterns.get(kept, 0)
        word = " exactly" if exact == count else ""
        part = f"{kept}{word} in {count} of {matrices}"
        parts.append(part if word else f"{part} (exactly in {exact})")
    more = len(holds) - len(parts)
    return ", ".join(parts) + (f", and {more} more kinds" if more else "")
