"""The start-up benchmark: the models take turns, and whether a limit is met is said."""

import sys

import pytest

from tests.benchmark_scripts import benchmark
from tests.families import save_tiny


def turns(*seconds, peak=100.0):
    return [benchmark("turn").Turn(2 * one, one, peak, None) for one in seconds]


def test_the_models_take_turns_in_either_order(monkeypatch):
    startup = benchmark("startup")
    order = []

    def once(kind, model, folder):
        order.append(kind)
        return turns(5.2 if kind == "pruned_hf" else 5.0)[0]

    monkeypatch.setattr(startup, "to_first_request", once)
    found = startup.first_request("model", 3)
    ours, stock = "pruned_hf", "hf"
    assert order == [stock, ours, stock, stock, ours, ours, stock]  # the first warms the disk's cache
    assert found["more_ms"] == pytest.approx(200.0)


@pytest.mark.parametrize(("more", "verdict"), [(0.2, "limit 300 ms met"), (0.301, "limit 300 ms not met")])
def test_a_late_first_request_is_said_and_fails_nothing(monkeypatch, capsys, tmp_path, more, verdict):
    startup = benchmark("startup")
    ours, stock = turns(5.0 + more, 4.9 + more, 6.0 + more, peak=90.0), turns(5.0, 5.0, 5.0, peak=80.0)
    found = startup.said(ours, stock)
    assert (found["met"], found["limit_ms"]) == (more < 0.3, 300.0)
    assert (found["ours_peak_mb"], found["rival_peak_mb"]) == (90.0, 80.0)
    said = capsys.readouterr().out
    assert f"{more * 1000:.0f} ms more than stock hf, median of 3 pairs" in said
    assert f"{verdict}; peak memory 90 against 80 MiB" in said
    monkeypatch.setattr(startup, "milliseconds", lambda code: 1.0)
    monkeypatch.setattr(startup, "first_request", lambda model, turns: found)
    monkeypatch.setattr(sys, "argv", ["startup.py", "--short", "--model", str(tmp_path)])
    assert startup.main() == 0
    assert "import lm_eval: median 1.00 ms of 5 (1.00 to 1.00), limit 10 ms met" in capsys.readouterr().out


@pytest.mark.parametrize("milliseconds", [0.0, 11.0])
def test_imports_beyond_their_limit_fail(monkeypatch, capsys, tmp_path, milliseconds):
    startup = benchmark("startup")
    monkeypatch.setattr(startup, "milliseconds", lambda code: milliseconds)
    monkeypatch.setattr(startup, "first_request", lambda model, turns: {})
    monkeypatch.setattr(sys, "argv", ["startup.py", "--short", "--model", str(tmp_path)])
    assert startup.main() == 1
    assert "limit 10 ms not met: FAIL" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["hf", "pruned_hf"])
def test_a_start_tells_its_seconds_and_memory(kind, tmp_path):
    startup = benchmark("startup")
    (tmp_path / "rows.jsonl").write_text('{"ctx": "one two", "end": "three"}\n')
    (tmp_path / "startup.yaml").write_text(startup.TASK.replace("ROWS", str(tmp_path / "rows.jsonl")))
    turn = startup.to_first_request(kind, str(save_tiny("llama", tmp_path / "model")), tmp_path)
    assert 0.5 < turn.cpu < 60
    assert 100 < turn.peak_mb < 4000
