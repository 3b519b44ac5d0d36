"""Orders that leave no ties: what a query's own order leaves open is decided by the rest of the row.

Without it, a row number or a top-k could come out differently each time it is computed, and rows that did not change
would be written again. The user's order comes first, so every result is one that the query may return.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from freshlake.compiler import plan as p

_UNORDERED = ("map", "variant", "interval", "geometry", "geography")
"""Types that Spark cannot sort by."""


def ties(child: p.Plan, ordered: Iterable[str]) -> tuple[p.Order, ...]:
    """An order of those rows of `child` that are equal in the columns `ordered`: by the rest of a key if there is one,
    else by all other columns. Columns of `ordered` again, if different values of them are equal in an order."""
    named = set(ordered)
    keys = unique_keys(child)
    if any(key <= named for key in keys):
        return ()
    among = min(keys, key=lambda key: (len(key), sorted(key)), default=frozenset(child.names)) | named
    parts = [(c.name, _sortable(c)) for c in child.columns if c.name in among]
    return tuple(p.Order(p.text(part, name)) for name, part in parts if name not in named or part != p.quote(name))


def unique_keys(plan: p.Plan) -> tuple[frozenset[str], ...]:
    """Sets of columns in which no two rows of a plan are equal."""
    match plan:
        case p.Aggregate():
            return (frozenset(k.name for k in plan.keys),)
        case p.Project():
            shown: dict[str, str] = {}
            for item in plan.items:
                if item.source is not None:
                    shown.setdefault(item.source, item.name)
            found = (key for key in unique_keys(plan.child) if key <= set(shown))
            return tuple(frozenset(shown[n] for n in key) for key in found)
        case p.Filter() | p.Window() | p.TopK() | p.Sort():
            return unique_keys(plan.child)
    return ()


def _sortable(column: p.Column) -> str:
    """A column as something to sort by that tells any two of its values apart; equality of floats and of collated
    strings does not."""
    name, kind = p.quote(column.name), column.type
    if kind.startswith("string ") or '"string ' in kind:
        return f"cast({name} as binary)" if kind.startswith("string ") else f"cast({name} as string)"
    if kind in ("geometry", "geography") or kind.startswith(("geometry(", "geography(")):
        return f"st_asbinary({name})"
    words = set(re.findall(r"\w+", kind))
    return f"cast({name} as string)" if words & {*_UNORDERED, "float", "double"} else name
