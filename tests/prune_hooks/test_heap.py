import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from prune_hooks import PruneSpec, heap, prune
from tests.families import build, token_rows

CPU = torch.device("cpu")
BASE = 1 << 30


class _Machine:
    """A process whose resident memory is what the test says, and of which a part is free."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resident = BASE
        self.free = 0
        self.trimmed = 0
        monkeypatch.setattr(heap, "_glibc", lambda: self)
        monkeypatch.setattr(heap, "_resident", lambda: self.resident)

    def malloc_trim(self, pad: int) -> None:
        assert pad == 0
        self.trimmed += 1
        self.resident -= self.free
        self.free = 0


def test_free_memory_is_given_back_when_the_process_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _Machine(monkeypatch)
    watched = heap.Heap(CPU)
    machine.resident = BASE + heap.GROWTH
    machine.free = heap.GROWTH // 2
    watched.give_back()
    assert machine.trimmed == 0
    machine.resident += 1
    watched.give_back()
    assert machine.trimmed == 1
    # From here it is measured anew: what is in use is no reason to try again and again.
    watched.give_back()
    assert machine.trimmed == 1
    machine.resident = BASE - heap.GROWTH
    watched.give_back()
    machine.resident = BASE + 1
    watched.give_back()
    assert machine.trimmed == 2


@pytest.mark.parametrize(("held", "room"), [(heap.ROOM // 2, heap.ROOM), (3 * heap.ROOM, 3 * heap.ROOM)])
def test_while_answering_it_may_hold_as_much_again(monkeypatch: pytest.MonkeyPatch, held: int, room: int) -> None:
    machine = _Machine(monkeypatch)
    machine.resident = held
    watched = heap.Heap(CPU, growth=None)
    machine.resident = held + room
    watched.give_back()
    assert machine.trimmed == 0
    machine.resident, machine.free = held + room + 1, room
    watched.give_back()
    assert (machine.trimmed, machine.resident) == (1, held + 1)


def test_nothing_is_done_for_an_accelerator_or_where_the_system_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _Machine(monkeypatch)
    for device, resident in ((torch.device("cuda"), BASE), (CPU, None)):
        machine.resident = resident  # type: ignore[assignment]
        watched = heap.Heap(device)
        machine.resident = 4 * BASE
        watched.give_back()
    monkeypatch.setattr(heap, "_glibc", lambda: None)
    heap.Heap(CPU).give_back()
    assert machine.trimmed == 0


FAULTS = """
import resource, sys, threading
import torch
from prune_hooks.heap import keep_freed

def work(times):
    for _ in range(times):
        torch.ones(1 << 22) + 1  # 16 MiB twice

said = keep_freed(torch.device("cpu")) if sys.argv[1] == "keep" else None
for number in range(6):
    if number == 4:  # the heap is as large as it will be
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    thread = threading.Thread(target=work, args=(40 if number >= 4 else 10,))
    thread.start()
    thread.join()
print(said, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(*words: str, **environment: str) -> tuple[str, int]:
    plain = {name: value for name, value in os.environ.items() if name not in heap.SETTINGS}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**plain, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1", **environment},
    )
    said, faults = done.stdout.split()
    return said, int(faults)


@pytest.mark.skipif(heap._glibc() is None, reason="another C library")
def test_what_is_freed_is_kept_for_the_next_tensors_of_any_thread() -> None:
    fresh = 2 * 2 * 4_096 + 2_000  # both threads touch both their tensors, of 4,096 pages each, for the first time
    _, without = _faults("leave")
    if without < 3 * fresh:  # 40 times as many pages, as far as the kernel does not join them
        pytest.skip("this kernel maps a large tensor in a few faults")
    said, faults = _faults("keep")
    assert said == "True"
    assert faults <= fresh
    said, told = _faults("keep", MALLOC_TRIM_THRESHOLD_="131072")
    assert said == "False"
    assert told > fresh


def test_nothing_is_kept_on_an_accelerator_or_under_another_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not heap.keep_freed(torch.device("cuda"))
    monkeypatch.setattr(heap, "_glibc", lambda: None)
    assert not heap.keep_freed(CPU)


@pytest.mark.parametrize("batch_rows", [6, 2])
@pytest.mark.parametrize("order", ["weight", "block"])
def test_it_is_looked_at_before_every_module(monkeypatch: pytest.MonkeyPatch, batch_rows: int, order: str) -> None:
    looked: list[int] = []
    monkeypatch.setattr(heap.Heap, "give_back", lambda self: looked.append(1))
    spec = PruneSpec(calibration=token_rows(6, 8), sequential=order)
    prune(build("llama"), None, spec, progress=False, batch_rows=batch_rows)
    assert len(looked) == 3 * 7 * 6 // batch_rows


@pytest.fixture
def _fresh() -> Iterator[None]:
    heap._glibc.cache_clear()
    yield
    heap._glibc.cache_clear()


@pytest.mark.usefixtures("_fresh")
def test_the_system_is_asked_and_another_c_library_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = heap._resident()
    held = torch.ones(64 << 20, dtype=torch.uint8)
    after = heap._resident()
    assert (before is None and after is None) or after - before > held.numel() // 2  # type: ignore[operator]
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert heap._glibc() is None
