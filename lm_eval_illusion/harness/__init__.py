"""Where lm-eval-harness meets this project: plugin, model, scoring, few-shot sampler."""
