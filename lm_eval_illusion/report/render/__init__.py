"""Pages made from one report structure: terminal and Markdown share their tables."""
