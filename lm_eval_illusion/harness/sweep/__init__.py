"""Many points of one or more models in one process: plan, state, the model that stays loaded, and the run of it all."""
