from types import SimpleNamespace

import pytest
import torch

from prune_hooks import batches
from prune_hooks.targets import find_targets
from tests.families import build

CPU = torch.device("cpu")


def _fit(family: str, rows: int, sequential: str, attn: str = "sdpa", device: torch.device = CPU) -> int:
    model = build(family, attn=attn)
    return batches.rows_at_once(model, find_targets(model), (rows, 10), device, sequential)


def test_rows_at_once_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # llama: hidden 32, widest 48, 4 bytes: (6 * 32 + 4 * 48) * 4 = 1,536 bytes a token, 15,360 a row of ten
    monkeypatch.setattr(batches, "CPU_BUDGET", 3 * 15_360)
    assert _fit("llama", 3, "weight") == 3
    assert _fit("llama", 4, "weight") == 2  # two batches, evenly
    assert _fit("llama", 7, "block") == 3  # three batches
    # eager: 4 heads * 10 positions * 8 bytes more a token: 18,560 a row, two rows fit
    assert _fit("llama", 4, "weight", attn="eager") == 2
    assert _fit("llama", 6, "weight", attn="eager") == 2
    # mixtral: two experts a token, (6 * 32 + 4 * 48 * 2) * 4 = 2,304 bytes a token
    assert _fit("mixtral", 8, "weight") == 2


def test_forwards_halted_at_once_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CPU_BUDGET", 1)
    assert _fit("llama", 640, "weight") == 10
    assert _fit("llama", 160, "block") == 1


def test_on_cuda_the_rows_follow_the_card_and_not_what_is_free_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    held = sum(parameter.numel() * 4 for parameter in build("llama").parameters())

    def card(total: int) -> None:
        monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: SimpleNamespace(total_memory=total))

    def free(*_: object) -> tuple[int, int]:
        raise AssertionError("free memory was asked for: other processes would change the batches, and the sums")

    monkeypatch.setattr("torch.cuda.mem_get_info", free)
    cuda = torch.device("cuda")
    card(held + 4 * 3 * 15_360)  # a quarter of what the model leaves: three rows of ten tokens, as above
    assert [_fit("llama", rows, "block", device=cuda) for rows in (3, 4, 7)] == [3, 2, 3]
    card(held + 4 * 15_360)
    assert _fit("llama", 7, "block", device=cuda) == 1
    card(held // 2)  # a card that the model overfills: one row, and the model's own error
    assert _fit("llama", 7, "block", device=cuda) == 1
