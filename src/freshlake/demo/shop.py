"""The shop: its tables, the stream tables above them, and what happens in it."""

from __future__ import annotations

from dataclasses import dataclass

CUSTOMERS = 50_000
PRODUCTS = 5_000


@dataclass(frozen=True)
class View:
    """A stream table of the demo: the stream table it reads (None: it reads the Delta tables), and its query."""

    name: str
    parent: str | None
    about: str
    query: str


@dataclass(frozen=True)
class Round:
    """Something that happens in the shop, as the statements that do it."""

    title: str
    statements: tuple[str, ...]


def tables(orders: int) -> dict[str, str]:
    """The three Delta tables, generated: the same rows on every machine."""
    return {
        "products": f"""
            CREATE TABLE products USING delta AS
            SELECT id AS product_id,
                   concat('product ', id) AS name,
                   element_at(array('books', 'games', 'garden', 'kitchen', 'music', 'sports'),
                              1 + pmod(hash(id, 'category'), 6)) AS category,
                   CAST(1 + pmod(hash(id, 'price'), 20000) / 100 AS DECIMAL(10, 2)) AS price
            FROM range({PRODUCTS})""",
        "customers": f"""
            CREATE TABLE customers USING delta AS
            SELECT id AS customer_id,
                   concat('customer ', id) AS name,
                   element_at(array('north', 'south', 'east', 'west'), 1 + pmod(hash(id, 'region'), 4)) AS region,
                   IF(pmod(hash(id, 'segment'), 10) = 0, 'business', 'private') AS segment
            FROM range({CUSTOMERS})""",
        "orders": f"""
            CREATE TABLE orders USING delta AS
            SELECT id AS order_id,
                   CAST(pmod(hash(id, 'customer'), {CUSTOMERS}) AS BIGINT) AS customer_id,
                   CAST(pmod(hash(id, 'product'), {PRODUCTS}) AS BIGINT) AS product_id,
                   1 + pmod(hash(id, 'quantity'), 5) AS quantity,
                   IF(pmod(hash(id, 'status'), 20) = 0, 'cancelled', 'paid') AS status,
                   date_add(DATE'2026-01-01', CAST(id * 300 / {orders} AS INT)) AS ordered_on
            FROM range({orders})""",
    }


VIEWS = (
    View(
        "sales",
        None,
        "orders with their customer and product",
        """
        SELECT o.order_id, o.customer_id, c.region, c.segment, o.product_id, p.category,
               o.quantity * p.price AS amount, o.ordered_on
        FROM orders o
        JOIN customers c ON o.customer_id = c.customer_id
        JOIN products p ON o.product_id = p.product_id
        WHERE o.status <> 'cancelled'""",
    ),
    View(
        "by_product",
        "sales",
        "per region and product",
        """
        SELECT region, product_id, category, count(*) AS orders, sum(amount) AS revenue, max(ordered_on) AS last_order
        FROM sales GROUP BY region, product_id, category""",
    ),
    View(
        "by_customer",
        "sales",
        "per customer",
        """
        SELECT customer_id, region, segment, count(*) AS orders, sum(amount) AS spent, max(amount) AS largest
        FROM sales GROUP BY customer_id, region, segment""",
    ),
    View(
        "by_category",
        "by_product",
        "per region and category, with its best product",
        """
        SELECT region, category, sum(orders) AS orders, sum(revenue) AS revenue, max(revenue) AS best_product
        FROM by_product GROUP BY region, category""",
    ),
    View(
        "best_buyers",
        "by_customer",
        "those who spend most, per region and segment",
        """
        SELECT region, segment, count(*) AS customers, sum(spent) AS spent, avg(orders) AS orders_each
        FROM by_customer WHERE spent > 8000 GROUP BY region, segment""",
    ),
)


def rounds(orders: int) -> tuple[Round, ...]:
    """What happens, round by round; the last time nothing does."""
    return (
        Round("500 new orders come in", (_new_orders(orders, 500),)),
        Round(
            "some orders are cancelled, one product becomes cheaper",
            (
                f"UPDATE orders SET status = 'cancelled' WHERE order_id BETWEEN {orders // 2} AND {orders // 2 + 199}",
                "UPDATE products SET price = price * 0.8 WHERE product_id = 42",
            ),
        ),
        Round(
            "customers move, old orders are deleted, new ones come in",
            (
                "UPDATE customers SET region = 'north' WHERE customer_id IN (7, 77, 777) AND region <> 'north'",
                "DELETE FROM orders WHERE order_id < 300",
                _new_orders(orders + 500, 200),
            ),
        ),
        Round("nothing happens", ()),
    )


def _new_orders(first: int, count: int) -> str:
    return f"""
        INSERT INTO orders
        SELECT id, id % {CUSTOMERS}, id % {PRODUCTS}, 1 + id % 5, 'paid', DATE'2026-11-01'
        FROM range({first}, {first + count})"""
