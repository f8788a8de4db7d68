"""From a model's responses to the one record `illusion` of an item; import the `process_*` from `pairs.results`."""
