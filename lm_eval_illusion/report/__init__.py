"""Files of runs -> joined items -> judgement -> pages. Imports neither torch nor lm_eval."""

from lm_eval_illusion.report.build import Report, build_report
from lm_eval_illusion.report.write import write_report

__all__ = ["Report", "build_report", "write_report"]
