"""Graphs of stream tables over the shop: a chain, a fan-out, a diamond."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Names = Callable[[str], str]
"""From the name of a table in a shape to the name under which it is kept."""


@dataclass(frozen=True)
class Shape:
    """Queries by name, upstream first; `{orders}` is the source, `{other}` the table of that name."""

    name: str
    queries: Mapping[str, str]

    def sql(self, name: str, orders: str, names: Names) -> str:
        """The query of one table, over the tables that are kept under these names."""
        return self.queries[name].format(orders=orders, **{other: names(other) for other in self.queries})


def chain(length: int) -> Shape:
    """Each reads the one before; the last sums up per customer."""
    queries = {"c1": "SELECT order_id, customer_id, quantity, amount FROM {orders} WHERE status <> 'cancelled'"}
    for number in range(2, length):
        row = f"order_id, customer_id, quantity, CAST(amount + {number} AS DECIMAL(10, 2)) AS amount"
        queries[f"c{number}"] = f"SELECT {row} FROM {{c{number - 1}}} WHERE quantity <> {number}"
    total = "SELECT customer_id, count(*) AS orders, sum(amount) AS amount"
    queries[f"c{length}"] = f"{total} FROM {{c{length - 1}}} GROUP BY customer_id"
    return Shape(f"chain of {length}", queries)


def fan_out(width: int) -> Shape:
    """All read the source: half of them filter, half sum up."""
    queries = {}
    for number in range(width):
        some = f"FROM {{orders}} WHERE product_id % {width} = {number}"
        query = f"SELECT order_id, customer_id, amount {some}"
        if number % 2:
            query = f"SELECT customer_id, count(*) AS orders, sum(amount) AS amount {some} GROUP BY customer_id"
        queries[f"f{number}"] = query
    return Shape(f"fan-out of {width}", queries)


def diamond() -> Shape:
    """Two sums over the source, and a table that joins them: published at once."""
    return Shape(
        "diamond",
        {
            "spent": "SELECT customer_id, sum(amount) AS spent FROM {orders} GROUP BY customer_id",
            "bought": "SELECT customer_id, count(*) AS orders, sum(quantity) AS items"
            " FROM {orders} GROUP BY customer_id",
            "both": "SELECT s.customer_id, s.spent, b.orders, b.items FROM {spent} s JOIN {bought} b"
            " ON s.customer_id = b.customer_id",
        },
    )
