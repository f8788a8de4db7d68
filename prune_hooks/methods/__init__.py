"""The methods, one file each; importing this package registers them all.

| name | compared within | n:m pattern | updates the rest |
|---|---|---|---|
| `none` | - | - | no |
| `random` | matrix | runs | no |
| `magnitude` | matrix | runs | no |
| `magnitude_global` | whole model | runs, which is what `magnitude` does with it | no |
| `wanda` | row | runs | no |
| `mwanda` | row | runs | no |
| `mask` | by a file | by the file | no |
| `wanda_variant` | matrix, by cumulative share of the row | runs, which is what `wanda` does with it | no |
| `ria` | matrix | runs | no |
| `dsnot` | row, refining a start mask | swaps stay in their run | no |
| `sparsegpt` | 128 columns x all rows | runs, scored after the updates before them | yes |
| `alps` | matrix | runs | yes, a re-fit |
| `obs` | matrix, by the rows' loss traces | greedy within the row, runs that are full keep the rest | yes, exact |

Every method takes "unstructured" and any n:m whose m divides the input widths. Runs are m consecutive input columns of
one output row.
"""

from prune_hooks.methods import (
    alps,
    dense,
    dsnot,
    magnitude,
    mask,
    mwanda,
    obs,
    random,
    ria,
    sparsegpt,
    wanda,
    wanda_variant,
)

__all__ = [
    "alps",
    "dense",
    "dsnot",
    "magnitude",
    "mask",
    "mwanda",
    "obs",
    "random",
    "ria",
    "sparsegpt",
    "wanda",
    "wanda_variant",
]
