"""mwanda and the allocation rules written down a second time, slowly and plainly, to be compared with.

Beside reference.py, whose selection and way of collecting inputs they use; nothing of the package under test. Labels
are lists of language names, one a token, row by row.
"""

import math

import numpy as np
import torch

from tests.prune_hooks import reference


def channel_norms(inputs, labels):
    """Language -> root mean square of each channel over its tokens, and how many tokens it has.

    Sums are float32 and a product a sequence, as in the package, so that scores may be equal to the bit.
    """
    names = sorted({name for row in labels for name in row})
    sums = torch.zeros(len(names), inputs[0].shape[1])
    for x, row in zip(inputs, labels, strict=True):
        chosen = torch.tensor([[float(label == name) for label in row] for name in names])
        sums += chosen @ (x * x)
    counts = [sum(row.count(name) for row in labels) for name in names]
    assert sum(counts) == sum(len(x) for x in inputs)
    return {name: ((total / count) ** 0.5, count) for name, total, count in zip(names, sums, counts, strict=True)}


def mwanda_score(weight, inputs, labels, lam, g):
    norms = channel_norms(inputs, labels)
    total = sum(count for _, count in norms.values())
    mean = sum(norm * (count / total) for norm, count in norms.values())
    variance = sum((norm - mean) ** 2 * (count / total) for norm, count in norms.values())
    active = torch.zeros(weight.shape[1])
    for x in inputs:
        for token in x:
            active += token.abs() > token.abs().mean()
    norm = reference.mean_square(inputs).sqrt() + lam * variance.sqrt()
    return weight.abs() * (norm * (active / total) ** g)


def mwanda(weight, inputs, labels, sparsity, pattern, lam, g):
    score = mwanda_score(weight, inputs, labels, lam, g)
    mask = reference.mask_runs(score, *pattern) if pattern else reference.mask_rows(score, sparsity)
    return weight.masked_fill(mask, 0.0)


def outliers(model, family, rows, limit):
    """Block by block the percentage of Wanda scores above `limit` times the block's mean, in the dense model."""
    found = []
    for block in reference.modules(model, family):
        seen = reference.collect(model, block, rows)
        scores = np.concatenate(
            [
                (reference.read_matrix(module).abs() * reference.mean_square(seen[name]).sqrt())
                .double()
                .numpy()
                .ravel()
                for name, module, _ in block
            ]
        )
        found.append(100 * float((scores > limit * scores.mean()).mean()))
    return found


def correlations(model, family, rows, labels):
    """Block by block the mean over inputs and pairs of languages of the correlation of their channel norms.

    Modules that read the same input count once: they have the same inputs here too.
    """
    found = []
    for block in reference.modules(model, family):
        seen = reference.collect(model, block, rows)
        distinct = []
        for name, _, _ in block:
            if not any(torch.equal(torch.cat(seen[name]), torch.cat(other)) for other in distinct):
                distinct.append(seen[name])
        means = []
        for inputs in distinct:
            norms = [norm.numpy() for norm, _ in channel_norms(inputs, labels).values()]
            pairs = [np.corrcoef(a, b)[0, 1] for i, a in enumerate(norms) for b in norms[i + 1 :]]
            means.append(sum(pairs) / len(pairs))
        found.append(sum(means) / len(means))
    return found


def spread(values, sparsity, lam):
    """OWL's map as published, for blocks of one size and sparsities that need no clipping."""
    low, high = min(values), max(values)
    d = [(value - low) / (high - low) * 2 * lam for value in values]
    mean = math.fsum(d) / len(d)
    return [1 - (one - mean + 1 - sparsity) for one in d]
