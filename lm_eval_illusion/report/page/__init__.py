"""The report as one HTML file that loads nothing: figures, tables and a browser of the items."""

from lm_eval_illusion.report.page.document import render_page

__all__ = ["render_page"]
