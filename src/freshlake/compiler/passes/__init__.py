"""Rewrites that keep the meaning of a plan and prepare it for the rules; applied in the order of PASSES."""

from freshlake.compiler.passes.complete_orders import complete_orders
from freshlake.compiler.passes.drop_sorts import drop_sorts
from freshlake.compiler.passes.find_top_k import find_top_k
from freshlake.compiler.passes.flatten_joins import flatten_joins
from freshlake.compiler.passes.prune_columns import prune_columns
from freshlake.compiler.passes.swap_right_joins import swap_right_joins

PASSES = (find_top_k, drop_sorts, swap_right_joins, flatten_joins, prune_columns, complete_orders)

__all__ = [
    "PASSES",
    "complete_orders",
    "drop_sorts",
    "find_top_k",
    "flatten_joins",
    "prune_columns",
    "swap_right_joins",
]
