"""Wanda and SparseGPT written down a second time, slowly and plainly, to be compared with.

Imports nothing of the package under test and shares no idea with it: which matrices are pruned is a table by hand, a
block's inputs come from running the whole model once more, and selection is a stable sort in a loop. Follows
the published protocol: blocks in order, statistics of the dense block behind pruned ones.

Each step is a function of this module, so that a test can replace one by a faulty version.
"""

from collections.abc import Iterator

import numpy as np
import torch

LLAMA_LIKE = [
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
]
T5_SELF = [f"layer.0.SelfAttention.{name}" for name in "qkvo"]
T5_CROSS = [f"layer.1.EncDecAttention.{name}" for name in "qkvo"]

LAYOUTS: dict[str, dict[str, list[str]]] = {
    "llama": {"model.layers": LLAMA_LIKE},
    "mistral": {"model.layers": LLAMA_LIKE},
    "gemma3": {"model.layers": LLAMA_LIKE},
    "qwen3_hybrid": {"model.layers": LLAMA_LIKE},
    "phi3": {
        "model.layers": ["self_attn.qkv_proj 32 16 16", "self_attn.o_proj", "mlp.gate_up_proj 48 48", "mlp.down_proj"]
    },
    "gpt2": {"transformer.h": ["attn.c_attn 32 32 32", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"]},
    "opt": {
        "model.decoder.layers": [f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "out_proj")]
        + ["fc1", "fc2"]
    },
    "t5": {
        "encoder.block": T5_SELF + [f"layer.1.DenseReluDense.{name}" for name in ("wi_0", "wi_1", "wo")],
        "decoder.block": T5_SELF + T5_CROSS + [f"layer.2.DenseReluDense.{name}" for name in ("wi_0", "wi_1", "wo")],
    },
}
"""Family -> list of blocks -> module in a block, followed by the rows of its parts where several are fused."""


# --- steps


def read_matrix(module: torch.nn.Module) -> torch.Tensor:
    """A copy of the weight as (out, in)."""
    weight = module.weight.detach().clone()
    return weight.T.contiguous() if type(module).__name__ == "Conv1D" else weight


def write_matrix(module: torch.nn.Module, matrix: torch.Tensor) -> None:
    module.weight.data = matrix.T.contiguous() if type(module).__name__ == "Conv1D" else matrix


def mean_square(inputs: list[torch.Tensor]) -> torch.Tensor:
    """Mean over all tokens of x_j^2; `inputs` are (tokens, in), one a sequence."""
    total = torch.zeros(inputs[0].shape[1])
    for x in inputs:
        total += (x * x).sum(dim=0)
    return total / sum(x.shape[0] for x in inputs)


def wanda_score(weight: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
    return weight.abs() * squares.sqrt()


def count(total: int, sparsity: float) -> int:
    """How many of `total` go."""
    return int(total * sparsity)


def lowest(values: np.ndarray, number: int) -> np.ndarray:
    """True at the `number` lowest of a vector; of equal ones the first go."""
    mask = np.zeros(len(values), dtype=bool)
    mask[np.argsort(values, kind="stable")[:number]] = True
    return mask


def mask_rows(score: torch.Tensor, sparsity: float) -> torch.Tensor:
    rows = [lowest(row, count(len(row), sparsity)) for row in score.numpy()]
    return torch.from_numpy(np.stack(rows))


def mask_runs(score: torch.Tensor, keep: int, run: int) -> torch.Tensor:
    mask = np.zeros(tuple(score.shape), dtype=bool)
    for i, row in enumerate(score.numpy()):
        for j in range(0, len(row), run):
            mask[i, j : j + run] = lowest(row[j : j + run], run - keep)
    return torch.from_numpy(mask)


def hessian(inputs: list[torch.Tensor]) -> torch.Tensor:
    """(2/n) sum over tokens of x x^T."""
    total = torch.zeros(inputs[0].shape[1], inputs[0].shape[1])
    for x in inputs:
        total += x.T @ x
    return total * (2 / sum(x.shape[0] for x in inputs))


def inverse_factor(h: torch.Tensor, damping: float) -> torch.Tensor:
    """U, upper triangular, with H^-1 = U^T U."""
    h = h + damping * h.diagonal().mean() * torch.eye(len(h))
    return torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)), upper=True)


# --- methods: (out, in) weight and its inputs -> pruned weight


def wanda(weight, inputs, sparsity, pattern):
    score = wanda_score(weight, mean_square(inputs))
    mask = mask_runs(score, *pattern) if pattern else mask_rows(score, sparsity)
    return weight.masked_fill(mask, 0.0)


def sparsegpt(weight, inputs, sparsity, pattern, damping=0.01, block=128):
    w, h = weight.clone(), hessian(inputs)
    dead = h.diagonal() == 0
    h[dead, dead] = 1
    w[:, dead] = 0
    u = inverse_factor(h, damping)
    columns = w.shape[1]
    for start in range(0, columns, block):
        stop = min(start + block, columns)
        diagonal = u.diagonal()[start:stop]
        score = w[:, start:stop] ** 2 / diagonal**2
        mask = torch.zeros(score.shape, dtype=torch.bool)
        if not pattern:
            flat = lowest(score.numpy().reshape(-1), count(score.numel(), sparsity))
            mask = torch.from_numpy(flat).reshape(score.shape)
        errors = torch.zeros(score.shape)
        for j in range(stop - start):
            if pattern and j % pattern[1] == 0:
                run = slice(start + j, start + j + pattern[1])
                mask[:, j : j + pattern[1]] = mask_runs(w[:, run] ** 2 / u.diagonal()[run] ** 2, *pattern)
            column = w[:, start + j].clone()
            kept = torch.where(mask[:, j], torch.zeros_like(column), column)
            errors[:, j] = (column - kept) / u[start + j, start + j]
            w[:, start + j : stop] -= errors[:, j : j + 1] * u[start + j, start + j : stop]
            w[:, start + j] = kept
        w[:, stop:] -= errors @ u[start:stop, stop:]
    return w


METHODS = {"wanda": wanda, "sparsegpt": sparsegpt}


# --- the walk


def modules(model: torch.nn.Module, family: str) -> Iterator[list[tuple[str, torch.nn.Module, list[int]]]]:
    """Block by block: name, module and the rows of its parts ([] if it is one matrix)."""
    for stack, entries in LAYOUTS[family].items():
        for index in range(len(model.get_submodule(stack))):
            names = [(f"{stack}.{index}.{entry.split()[0]}", entry.split()[1:]) for entry in entries]
            yield [(name, model.get_submodule(name), [int(size) for size in sizes]) for name, sizes in names]


@torch.no_grad()
def collect(model, block, rows) -> dict[str, list[torch.Tensor]]:
    """What each module of the block reads when the model runs on each row: name -> [(tokens, in)]."""
    seen: dict[str, list[torch.Tensor]] = {name: [] for name, _, _ in block}

    def keep(name):
        return lambda module, args: seen[name].append(args[0].reshape(-1, args[0].shape[-1]).float().clone())

    handles = [module.register_forward_pre_hook(keep(name)) for name, module, _ in block]
    for row in rows:
        model(**model_inputs(model, row), use_cache=False)
    for handle in handles:
        handle.remove()
    return seen


def model_inputs(model, row: torch.Tensor) -> dict[str, torch.Tensor]:
    """One row; an encoder-decoder reads its first half, and the second half behind the decoder's start token."""
    if not model.config.is_encoder_decoder:
        return {"input_ids": row[None]}
    half = len(row) // 2
    start = torch.tensor([model.config.decoder_start_token_id])
    return {"input_ids": row[None, :half], "decoder_input_ids": torch.cat([start, row[half:-1]])[None]}


@torch.no_grad()
def prune(model, family: str, rows, method: str, sparsity: float = 0.5, pattern: tuple[int, int] | None = None) -> None:
    """Prune the model in place."""
    for block in modules(model, family):
        seen = collect(model, block, rows)
        for name, module, sizes in block:
            parts = read_matrix(module).split(sizes or [len(read_matrix(module))])
            pruned = [METHODS[method](part, seen[name], sparsity, pattern) for part in parts]
            write_matrix(module, torch.cat(pruned))


# --- the comparison


def matrices(model: torch.nn.Module, family: str) -> dict[str, torch.Tensor]:
    """Name -> (out, in) matrix of everything the table says is pruned."""
    return {name: read_matrix(module) for block in modules(model, family) for name, module, _ in block}


def differing(left: torch.nn.Module, right: torch.nn.Module, family: str) -> dict[str, float]:
    """Name -> share of entries that are zero in one model and not in the other."""
    a, b = matrices(left, family), matrices(right, family)
    return {name: ((a[name] == 0) != (b[name] == 0)).float().mean().item() for name in a}
