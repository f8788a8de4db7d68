"""Folders to write to: made, or refused in words."""

import os

import pytest

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.folders import make_folder
from lm_eval_illusion.harness.folder_lock import alone_in
from lm_eval_illusion.harness.run_folder import mark


def test_made_with_all_above_it_and_kept(tmp_path):
    folder = tmp_path / "a" / "b"
    assert make_folder(folder) == folder
    (folder / "kept").write_text("x")
    assert (make_folder(folder) / "kept").read_text() == "x"


@pytest.mark.parametrize("below", ["", "run"])
@pytest.mark.parametrize(
    "use", [make_folder, lambda folder: mark(folder, {}, finished=False), lambda folder: alone_in(folder).__enter__()]
)
def test_a_file_in_the_way(tmp_path, below, use):
    (tmp_path / "file").write_text("x")
    folder = tmp_path / "file" / below
    with pytest.raises(IllusionError, match=r"file.*cannot be made \((File exists|Not a directory)\).*--out"):
        use(folder)


def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *told: False)  # root may write anywhere
    with pytest.raises(IllusionError, match=r"cannot be written to.*name another"):
        make_folder(tmp_path, "name another")
