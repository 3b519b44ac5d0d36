"""The queries that are kept up to date, and how a good engineer would maintain each by hand with MERGE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.shop import Change, Shop

Merge = Callable[[Shop, Change, str], str]
"""The statement that brings a target table from before a change to after it."""

_PLUS = "_change_type IN ('insert', 'update_postimage')"


@dataclass(frozen=True)
class Case:
    name: str
    about: str
    query: str
    """With {orders} and {customers} for the tables."""
    merge: Merge

    def sql(self, shop: Shop) -> str:
        return self.query.format(orders=shop.orders, customers=shop.customers)


ORDERS, CUSTOMERS = "bench_orders_feed", "bench_customers_feed"


def show_feeds(shop: Shop, change: Change) -> None:
    """The change feeds of the range as views. `table_changes` does not work here: a statement that names the same table
    beside it fails to resolve the feed's columns."""
    for view, table, (first, last) in (
        (ORDERS, shop.orders, change.orders),
        (CUSTOMERS, shop.customers, change.customers),
    ):
        if first < last:
            reader = shop.spark.read.format("delta").option("readChangeFeed", "true")
            feed = reader.option("startingVersion", first + 1).option("endingVersion", last).table(table)
            feed.createOrReplaceTempView(view)


def _latest(shop: Shop, change: Change) -> str:
    """The newest image of every changed order: a key may have changed more than once."""
    return f"""
        SELECT *, _change_type = 'delete' AS is_deleted FROM (
            SELECT *, row_number() OVER (
                PARTITION BY order_id ORDER BY _commit_version DESC, _change_type DESC) AS position
            FROM {ORDERS} WHERE _change_type <> 'update_preimage')
        WHERE position = 1"""


def _merge_scan(shop: Shop, change: Change, target: str) -> str:
    return f"""
        MERGE INTO {target} t USING ({_latest(shop, change)}) s ON t.order_id = s.order_id
        WHEN MATCHED AND s.is_deleted THEN DELETE
        WHEN MATCHED THEN UPDATE SET customer_id = s.customer_id, amount = s.amount, status = s.status
        WHEN NOT MATCHED AND NOT s.is_deleted
            THEN INSERT (order_id, customer_id, amount, status) VALUES (order_id, customer_id, amount, status)"""


def _merge_filter(shop: Shop, change: Change, target: str) -> str:
    kept = "(s.status = 'paid' AND s.amount > 100)"
    return f"""
        MERGE INTO {target} t USING ({_latest(shop, change)}) s ON t.order_id = s.order_id
        WHEN MATCHED AND (s.is_deleted OR NOT {kept}) THEN DELETE
        WHEN MATCHED THEN UPDATE SET customer_id = s.customer_id, amount = s.amount, ordered_on = s.ordered_on
        WHEN NOT MATCHED AND NOT s.is_deleted AND {kept}
            THEN INSERT (order_id, customer_id, amount, ordered_on)
            VALUES (order_id, customer_id, amount, ordered_on)"""


def _merge_join(shop: Shop, change: Change, target: str) -> str:
    joined = f"""
        SELECT o.order_id, o.amount, o.status, c.name, c.country, o.is_deleted
        FROM ({_latest(shop, change)}) o JOIN {shop.customers} c ON o.customer_id = c.customer_id"""
    return f"""
        MERGE INTO {target} t USING ({joined}) s ON t.order_id = s.order_id
        WHEN MATCHED AND s.is_deleted THEN DELETE
        WHEN MATCHED THEN UPDATE SET amount = s.amount, status = s.status, name = s.name, country = s.country
        WHEN NOT MATCHED AND NOT s.is_deleted THEN
            INSERT (order_id, amount, status, name, country) VALUES (order_id, amount, status, name, country)"""


def _merge_aggregate(shop: Shop, change: Change, target: str) -> str:
    delta = f"""
        SELECT customer_id, sum(if({_PLUS}, 1, -1)) AS orders, sum(if({_PLUS}, amount, -amount)) AS revenue
        FROM {ORDERS} GROUP BY customer_id"""
    return _merge_groups(target, delta, ("customer_id",))


def _merge_join_aggregate(shop: Shop, change: Change, target: str) -> str:
    """ΔO ⋈ C₁ + O₁ ⋈ ΔC − ΔO ⋈ ΔC, each term with its sign; terms of a table that did not change are left out."""
    orders = f"(SELECT *, if({_PLUS}, 1, -1) AS w FROM {ORDERS})"
    customers = f"(SELECT *, if({_PLUS}, 1, -1) AS w FROM {CUSTOMERS})"
    terms = [_term(orders, shop.customers, "o.w")]
    if change.customers[0] != change.customers[1]:
        terms += [_term(shop.orders, customers, "c.w"), _term(orders, customers, "-o.w * c.w")]
    delta = f"""
        SELECT country, segment, sum(w) AS orders, sum(if(w > 0, amount, -amount)) AS revenue
        FROM ({" UNION ALL ".join(terms)}) GROUP BY country, segment"""
    return _merge_groups(target, delta, ("country", "segment"))


def _term(orders: str, customers: str, weight: str) -> str:
    return f"""
        SELECT c.country, c.segment, o.amount, {weight} AS w
        FROM {orders} o JOIN {customers} c ON o.customer_id = c.customer_id"""


def _merge_groups(target: str, delta: str, keys: tuple[str, ...]) -> str:
    names = ", ".join((*keys, "orders", "revenue"))
    matching = " AND ".join(f"t.{key} = s.{key}" for key in keys)
    return f"""
        MERGE INTO {target} t USING ({delta}) s ON {matching}
        WHEN MATCHED AND t.orders + s.orders = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET orders = t.orders + s.orders, revenue = t.revenue + s.revenue
        WHEN NOT MATCHED AND s.orders > 0 THEN INSERT ({names}) VALUES ({names})"""


CASES = (
    Case(
        "scan",
        "four columns of orders",
        "SELECT order_id, customer_id, amount, status FROM {orders}",
        _merge_scan,
    ),
    Case(
        "filter",
        "paid orders above an amount",
        "SELECT order_id, customer_id, amount, ordered_on FROM {orders} WHERE status = 'paid' AND amount > 100",
        _merge_filter,
    ),
    Case(
        "join",
        "orders with their customer",
        "SELECT o.order_id, o.amount, o.status, c.name, c.country"
        " FROM {orders} o JOIN {customers} c ON o.customer_id = c.customer_id",
        _merge_join,
    ),
    Case(
        "aggregate",
        "orders and revenue per customer",
        "SELECT customer_id, count(*) AS orders, sum(amount) AS revenue FROM {orders} GROUP BY customer_id",
        _merge_aggregate,
    ),
    Case(
        "join_agg",
        "orders and revenue per country and segment",
        "SELECT c.country, c.segment, count(*) AS orders, sum(o.amount) AS revenue"
        " FROM {orders} o JOIN {customers} c ON o.customer_id = c.customer_id GROUP BY c.country, c.segment",
        _merge_join_aggregate,
    ),
)
