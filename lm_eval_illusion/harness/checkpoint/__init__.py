"""A checkpoint as it lies on disk: which tensors, in which format, with how many zeros; no model is built."""
