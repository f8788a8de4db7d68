"""Calibration: texts in many languages become equally long rows of token ids."""

from prune_hooks.calibration.builtin import builtin_languages
from prune_hooks.calibration.packing import CalibrationSet
from prune_hooks.calibration.ready import label_rows
from prune_hooks.calibration.sources import load_rows

__all__ = ["CalibrationSet", "builtin_languages", "label_rows", "load_rows"]
