"""On a CUDA device the benchmarks take the clock, once the device is done, and the device's memory."""

import argparse
import time
from types import SimpleNamespace

import pytest

from tests.benchmark_scripts import benchmark


class Device:
    """A stand-in for `torch.cuda`, on which work takes a while after it was queued."""

    def __init__(self):
        self.queued = 0.0
        self.peak = 0

    def synchronize(self):
        time.sleep(self.queued)
        self.queued = 0.0

    def reset_peak_memory_stats(self):
        self.peak = 0

    def max_memory_allocated(self):
        return self.peak

    def work(self, seconds, peak):
        self.queued, self.peak = seconds, max(self.peak, peak)
        return {"said": "done"}


def test_what_is_queued_on_a_device_is_waited_for_and_counted():
    device = Device()
    device.work(0.3, 9 << 30)  # before the run: neither its time nor its memory is the run's
    turn = benchmark("turn").Turn(**benchmark("turn").measured(lambda: device.work(0.1, 3 << 20), device))
    assert 0.1 <= turn.wall < 0.3
    assert turn.cpu < 0.1
    assert (turn.clock, turn.seconds, turn.device_peak_mb) == ("wall", turn.wall, 3.0)
    assert turn.result == {"said": "done"}
    assert turn.memory().endswith("MiB, on the device 3 MiB")


def test_on_the_processor_its_own_seconds_count():
    turn = benchmark("turn").Turn(**benchmark("turn").measured(lambda: time.sleep(0.05) or {}, None))
    assert turn.wall >= 0.05 > turn.cpu
    assert (turn.clock, turn.seconds, turn.device_peak_mb) == ("cpu", turn.cpu, None)
    assert "device" not in turn.memory() + str(turn.figures())


def test_a_device_counts_where_this_process_has_begun_to_use_one(monkeypatch):
    turn = benchmark("turn")
    for begun in (True, False):
        cuda = SimpleNamespace(is_initialized=lambda begun=begun: begun)
        monkeypatch.setitem(turn.sys.modules, "torch", SimpleNamespace(cuda=cuda))
        assert turn.cuda_in_use() is (cuda if begun else None)
    monkeypatch.delitem(turn.sys.modules, "torch")
    assert turn.cuda_in_use() is None


def turns(*walls, device):
    return tuple(benchmark("turn").Turn(wall, 1.0, 100.0, {}, device) for wall in walls)


def test_a_comparison_on_a_device_is_by_the_clock_and_shows_its_memory():
    pair = benchmark("pair")
    summary = pair.Comparison("it", "that", turns(2.0, 4.0, device=10.0), turns(8.0, 8.0, device=40.0)).summary()
    assert (summary["clock"], summary["range"], summary["ours_seconds"]) == ("wall", [2.0, 4.0], 3.0)
    assert (summary["ours_device_peak_mb"], summary["rival_device_peak_mb"]) == (10.0, 40.0)
    assert pair.line(summary).endswith("; by the clock, on the device 10 against 40 MiB")
    plain = pair.Comparison("it", "that", turns(2.0, device=None), turns(8.0, device=None)).summary()
    assert (plain["clock"], plain["times_sooner"]) == ("cpu", 1.0)
    assert "device" not in pair.line(plain) + str(plain)


class Side:
    """A worker whose runs take 6 seconds by the clock and 1 of the processor."""

    def once(self):
        return turns(6.0, device=7.0)[0]

    def close(self):
        pass


def test_growth_of_open_answers_is_by_the_clock_on_a_device(monkeypatch, capsys):
    generation = benchmark("generation")
    monkeypatch.setattr(generation, "side_of", lambda *_, **__: Side())
    found = generation.growth(argparse.Namespace())
    assert [one["seconds"] for one in found] == [6.0] * 5
    assert {(one["clock"], one["device_peak_mb"]) for one in found} == {("wall", 7.0)}
    said = capsys.readouterr().out
    assert "50 items: 0.120 seconds by the clock each, peak 100 MiB, on the device 7 MiB" in said


@pytest.mark.parametrize("short", [True, False])
def test_multiple_choice_is_by_the_clock_on_a_device_at_every_batch_size(monkeypatch, short):
    scoring = benchmark("scoring")
    result = {"logprobs": [-1.0, -2.0, -3.0, -4.0], "items": 1, "prompt_tokens": 12}
    seconds = {"ours": 2.0, "stock": 8.0}

    def worker(options, side, **changed):
        turn = benchmark("turn").Turn(seconds[side], 1.0, 100.0, result, 5.0)
        return SimpleNamespace(name=side, once=lambda: turn, close=lambda: None)

    monkeypatch.setattr(scoring, "_worker", worker)
    summary, same = scoring.against_stock(argparse.Namespace(short=short, stock_batches=None), "float32", 1)
    assert same
    assert (summary["times_sooner"], summary["tokens_a_second"]) == (4.0, 6.0)
    if not short:
        assert (summary["at_batch_16"]["clock"], summary["at_batch_16"]["times_sooner"]) == ("wall", 4.0)


def test_pruning_is_compared_on_the_processor_wherever_it_runs(monkeypatch, tmp_path):
    module, job = benchmark("pruning_sides"), benchmark("pruning_job")
    seen = []

    class Worker:
        def __init__(self, name, command, env):
            seen.append(env)

        def once(self):
            return turns(1.0, device=None)[0]

        def close(self):
            pass

    monkeypatch.setattr(module, "Worker", Worker)
    for side in module.sides("python"):
        side.once(job.Job("model", "wanda", 0.5, "unstructured", "float32", "rows", ""), tmp_path)
    assert seen == [{"CUDA_VISIBLE_DEVICES": ""}] * 6
