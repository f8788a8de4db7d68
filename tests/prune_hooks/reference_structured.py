"""Structured pruning written down a second time, slowly and plainly, to be compared with.

Nothing is cut here: what would go is set to zero, stepped over, or projected out of a whole dense model, and the choice
of what goes is made by the formulas in loops. Imports nothing of the package under test.
"""

import hashlib
import math

import numpy as np
import torch
from scipy.optimize import brentq

# family -> list of blocks, output projection of attention, of the MLP, and how many columns a head has
PLACES = {
    "llama": ("model.layers", "self_attn.o_proj", "mlp.down_proj"),
    "qwen3": ("model.layers", "self_attn.o_proj", "mlp.down_proj"),
    "qwen3_hybrid": ("model.layers", "self_attn.o_proj", "mlp.down_proj"),
    "mistral": ("model.layers", "self_attn.o_proj", "mlp.down_proj"),
    "gemma3": ("model.layers", "self_attn.o_proj", "mlp.down_proj"),
    "phi3": ("model.layers", "self_attn.o_proj", "mlp.down_proj"),
    "gpt2": ("transformer.h", "attn.c_proj", "mlp.c_proj"),
    "opt": ("model.decoder.layers", "self_attn.out_proj", "fc2"),
}
QUERIES_A_GROUP = dict.fromkeys(PLACES, 2) | {"gpt2": 1, "opt": 1}
HEAD = 8


def blocks(model, family):
    return list(model.get_submodule(PLACES[family][0]))


def columns_of(module):
    """The weight as (out, in), a view."""
    return module.weight.data.T if type(module).__name__ == "Conv1D" else module.weight.data


# --- heads and channels


def sizes(model, family):
    """Parameters that one group, one channel and a whole block hold, counted by what each family's block looks like."""
    config, d = model.config, 32
    block = sum(p.numel() for p in blocks(model, family)[0].parameters())
    if family == "gpt2":
        return 4 * HEAD * d + 3 * HEAD, 2 * d + 1, block
    if family == "opt":
        return 4 * HEAD * d + 3 * HEAD, 2 * d + 1, block
    per = config.num_attention_heads // config.num_key_value_heads
    return 2 * per * HEAD * d + 2 * HEAD * d, 3 * d, block


def counts(model, family, sparsity, heads=True, mlp=True):
    """How many groups and channels each block loses: every number is tried."""
    group, channel, block = sizes(model, family)
    groups = 4 // QUERIES_A_GROUP[family]
    channels = columns_of(blocks(model, family)[0].get_submodule(PLACES[family][2])).shape[1]
    target = sparsity * block
    if not heads:
        g = 0
    elif not mlp:
        g = min(range(groups), key=lambda n: (abs(n * group - target), n))
    else:
        g = min(range(groups), key=lambda n: (abs(n - sparsity * groups), n))
    c = min(range(channels), key=lambda n: (abs(g * group + n * channel - target), n)) if mlp else 0
    return g, c


@torch.no_grad()
def inputs_of(model, module, rows):
    """What a module reads when the model runs on each row, (tokens, in)."""
    seen = []
    handle = module.register_forward_pre_hook(lambda _, args: seen.append(args[0].reshape(-1, args[0].shape[-1])))
    for row in rows:
        model(input_ids=row[None], use_cache=False)
    handle.remove()
    return torch.cat(seen)


def unit_scores(module, x, width):
    """Score of each run of `width` columns: root of the sum over its columns of (norm of column * norm of input)^2."""
    weight = columns_of(module)
    scores = []
    for start in range(0, weight.shape[1], width):
        total = 0.0
        for j in range(start, start + width):
            total += float(weight[:, j].double().square().sum()) * float(x[:, j].double().square().mean())
        scores.append(math.sqrt(total))
    return scores


def lowest(scores, count):
    return sorted(sorted(range(len(scores)), key=lambda i: (scores[i], i))[:count])


def zero_units(module, units, width):
    for unit in units:
        columns_of(module)[:, unit * width : (unit + 1) * width] = 0


def heads(model, family, rows, sparsity, together=False, **use):
    """Zero the output columns of what goes, in place; returns (groups, channels) gone of each block."""
    g, c = counts(model, family, sparsity, **use)
    gone = []
    for block in blocks(model, family):
        attention, mlp = (block.get_submodule(name) for name in PLACES[family][1:])
        width = QUERIES_A_GROUP[family] * HEAD
        before = unit_scores(mlp, inputs_of(model, mlp, rows), 1)
        groups = lowest(unit_scores(attention, inputs_of(model, attention, rows), width), g)
        zero_units(attention, groups, width)
        after = unit_scores(mlp, inputs_of(model, mlp, rows), 1)
        channels = lowest(before if together else after, c)
        zero_units(mlp, channels, 1)
        gone.append((groups, channels))
    return gone


# --- whole blocks


@torch.no_grad()
def influence(model, blocks, rows):
    """1 - mean cosine between what enters and what leaves each block."""
    found = []
    for block in blocks:
        cosines = []

        def look(_, args, kwargs, output, cosines=cosines):
            x = (args[0] if args else kwargs["hidden_states"]).double()
            y = (output[0] if isinstance(output, tuple) else output).double()
            cosines += ((x * y).sum(-1) / x.norm(dim=-1) / y.norm(dim=-1)).flatten().tolist()

        handle = block.register_forward_hook(look, with_kwargs=True)
        for row in rows:
            model(input_ids=row[None], use_cache=False)
        handle.remove()
        found.append(1 - sum(cosines) / len(cosines))
    return found


def step_over(blocks, gone):
    """Make blocks return what they are given."""
    for number in gone:
        blocks[number].forward = lambda hidden_states, *args, **kwargs: hidden_states


# --- SliceGPT


@torch.no_grad()
def principal(signals, kept):
    """Projection onto the first right singular vectors of all tokens stacked."""
    stacked = np.concatenate([signal.reshape(-1, signal.shape[-1]).numpy() for signal in signals])
    vectors = np.linalg.svd(stacked, full_matrices=True)[2][:kept]
    return torch.from_numpy(vectors.T @ vectors)


@torch.no_grad()
def sliced_logits(model, rows, tests, kept, head=False):
    """Logits (tests, tokens, vocabulary) of a model whose stream loses its trailing directions between sub-layers.

    The model is dense and float64; the directions are taken out by projection, in the old basis.
    """

    def arguments(ids):
        seen = []
        handles = [
            block.register_forward_pre_hook(lambda _, a, k: seen.append(k), with_kwargs=True)
            for block in model.model.layers
        ]
        model(input_ids=ids[None], use_cache=False)
        for handle in handles:
            handle.remove()
        return seen

    def first_half(block, hidden, kwargs):
        return hidden + block.self_attn(hidden_states=block.input_layernorm(hidden), **kwargs)[0]

    def second_half(block, hidden):
        return hidden + block.mlp(block.post_attention_layernorm(hidden))

    everything = [*rows, *tests]
    known = [arguments(row) for row in everything]
    streams = [model.model.embed_tokens(row[None]) for row in everything]
    projection = principal(streams[: len(rows)], kept)
    streams = [stream @ projection for stream in streams]
    for number, block in enumerate(model.model.layers):
        streams = [first_half(block, stream, k[number]) for stream, k in zip(streams, known, strict=True)]
        projection = principal(streams[: len(rows)], kept)
        streams = [second_half(block, stream @ projection) for stream in streams]
        if head or number < len(model.model.layers) - 1:
            projection = principal(streams[: len(rows)], kept)
            streams = [stream @ projection for stream in streams]
    return torch.cat([model.lm_head(model.model.norm(stream)) for stream in streams[len(rows) :]])


# --- L0


def seeded(name, seed):
    number = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big") >> 1
    return torch.Generator().manual_seed(number)


def l0_locations(model, family, rows, sparsity, steps, rate, seed=0):
    """Locations of all gates after training, part by part, with Adam written out; the weights stay as they are.

    Gradients come from autograd, the common move from a root finder.
    """
    stack, *outs = PLACES[family]
    group, channel, block_size = sizes(model, family)
    total = block_size * len(blocks(model, family))
    gates = []  # [locations, module, columns a unit, size of a unit]
    for number, block in enumerate(blocks(model, family)):
        for name, width, size in zip(outs, (QUERIES_A_GROUP[family] * HEAD, 1), (group, channel), strict=True):
            module = block.get_submodule(name)
            units = columns_of(module).shape[1] // width
            noise = torch.randn(units, generator=seeded(f"{stack}.{number}.{name}", seed))
            gates.append([2.0 + 0.01 * noise, module, width, size])
    moments = [[torch.zeros_like(gate[0]), torch.zeros_like(gate[0])] for gate in gates]
    uniforms = seeded("l0", seed)

    def closing(moved):
        """Expected share behind closed gates once all have moved; the highest of a part never closes."""
        share = 0.0
        for values, _, _, size in gates:
            others = [float(value) + moved for place, value in enumerate(values) if place != int(values.argmax())]
            share += size * sum(1 / (1 + math.exp(value - 2 / 3 * math.log(0.1 / 1.1))) for value in others) / total
        return share

    entered = closing(0.0)
    for step in range(steps):
        leaves = [g[0].clone().requires_grad_() for g in gates]
        handles = []
        share = 0
        for leaf, (_, module, width, size) in zip(leaves, gates, strict=True):
            top = int(leaf.argmax())
            u = torch.rand(len(leaf), generator=uniforms).clamp(1e-6, 1 - 1e-6)
            s = 1 / (1 + torch.exp(-(torch.log(u) - torch.log(1 - u) + leaf) / (2 / 3)))
            z = torch.clamp(s * 1.2 - 0.1, 0, 1)
            z = torch.cat([z[:top], torch.ones(1), z[top + 1 :]]).repeat_interleave(width)
            handles.append(module.register_forward_pre_hook(lambda _, args, z=z: (args[0] * z,)))
            closed = 1 / (1 + torch.exp(leaf - 2 / 3 * math.log(0.1 / 1.1)))
            share = share + size * (closed.sum() - closed[top]) / total
        row = rows[step % len(rows)]
        logits = model(input_ids=row[None], use_cache=False).logits[0, :-1]
        chosen = logits.log_softmax(-1)[torch.arange(len(row) - 1), row[1:]]
        losses = torch.autograd.grad(-chosen.mean(), leaves)
        slopes = torch.autograd.grad(share, leaves)
        for handle in handles:
            handle.remove()
        price = -sum(loss.sum() for loss in losses) / sum(slope.sum() for slope in slopes)
        for gate, (first, second), loss, slope in zip(gates, moments, losses, slopes, strict=True):
            gradient = loss + price * slope
            first.mul_(0.9).add_(0.1 * gradient)
            second.mul_(0.999).add_(0.001 * gradient**2)
            gate[0] -= rate * (first / (1 - 0.9 ** (step + 1))) / ((second / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8)
        wanted = entered + (sparsity - entered) * min(1.0, 2 * (step + 1) / steps)
        moved = brentq(lambda by, wanted=wanted: closing(by) - wanted, -30, 30, xtol=1e-12)
        for gate in gates:
            gate[0] += moved
    return [g[0] for g in gates], [g[3] for g in gates], total


def l0_choice(locations, unit_sizes, target):
    """Units that go of each part: the lowest locations of all, each part keeping its highest."""
    order = []
    for part, values in enumerate(locations):
        top = max(range(len(values)), key=lambda i: float(values[i]))
        order += [(float(value), part, unit) for unit, value in enumerate(values) if unit != top]
    order.sort()
    gone, total = [[] for _ in locations], 0
    for _, part, unit in order:
        if total + unit_sizes[part] - target < min(unit_sizes) / 2:
            gone[part].append(unit)
            total += unit_sizes[part]
    return [sorted(units) for units in gone], total
