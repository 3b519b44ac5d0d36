"""The sources: orders and customers as Delta tables with a change feed, and the changes that happen to them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

ORDERS_PER_CUSTOMER = 20
_ROWS_PER_FILE = 800_000
_INSERTED, _DELETED = 0.3, 0.2
_CUSTOMER_SHARE = 0.1
# Orders change while they are young: changed ones are drawn from the newest, twenty times as many as are wanted.
_WINDOW = 20
# Up to this many changed rows are picked exactly; picking more by a share of a hash spares a sort of the whole table.
_PICKED_EXACTLY = 200_000

_FEED = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
_STATUSES = "array('paid', 'paid', 'paid', 'paid', 'open', 'open', 'shipped', 'shipped', 'returned', 'cancelled')"
_COUNTRIES, _SEGMENTS = 20, 4


@dataclass(frozen=True)
class Change:
    """What one round changed, as versions of the two tables before and after."""

    rows: int
    orders: tuple[int, int]
    customers: tuple[int, int]


@dataclass
class Shop:
    """Two Delta tables in a schema of their own; the same rows in every run."""

    spark: SparkSession
    name: str
    size: int
    round: int = 0
    next_order: int = 0

    @property
    def orders(self) -> str:
        return f"{self.name}.orders"

    @property
    def customers(self) -> str:
        return f"{self.name}.customers"

    @property
    def customer_count(self) -> int:
        return max(100, self.size // ORDERS_PER_CUSTOMER)

    def build(self) -> None:
        """Orders come in files ordered by id, as a table that grew by appends has them."""
        self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {self.name}")
        files = max(2, self.size // _ROWS_PER_FILE)
        self.spark.sql(
            f"CREATE TABLE {self.customers} USING delta {_FEED} AS SELECT {self._customer('id', 0)}"
            f" FROM range(0, {self.customer_count}, 1, {max(1, self.customer_count // _ROWS_PER_FILE)})"
        )
        self.spark.sql(
            f"CREATE TABLE {self.orders} USING delta {_FEED} AS SELECT {self._order('id', 0)}"
            f" FROM range(0, {self.size}, 1, {files})"
        )
        self.next_order = self.size

    def change(self, rows: int, both: bool = False) -> Change:
        """Insert, update and delete `rows` orders in all; with `both`, one changed row in ten is a customer."""
        self.round += 1
        before = self._versions()
        moved = min(int(rows * _CUSTOMER_SHARE), self.customer_count // 2) if both else 0
        self._change_orders(rows - moved)
        if moved:
            self._change_customers(moved)
        after = self._versions()
        return Change(rows, (before[0], after[0]), (before[1], after[1]))

    def count(self) -> int:
        """Orders there are now."""
        return int(self.spark.table(self.orders).count())

    def _change_orders(self, rows: int) -> None:
        inserted, deleted = int(rows * _INSERTED), int(rows * _DELETED)
        touched = rows - inserted
        first, self.next_order = self.next_order, self.next_order + inserted
        files = max(1, inserted // _ROWS_PER_FILE)
        self.spark.sql(
            f"INSERT INTO {self.orders} SELECT {self._order('id', self.round)}"
            f" FROM range({first}, {self.next_order}, 1, {files})"
        )
        oldest = max(0, first - max(_WINDOW * touched, self.size // 50))
        among = f"SELECT order_id AS id FROM {self.orders} WHERE order_id BETWEEN {oldest} AND {first - 1}"
        self.spark.sql(f"""
            MERGE INTO {self.orders} o
            USING ({self._picked(among, touched, deleted, first - oldest)}) s
            ON o.order_id = s.id AND o.order_id BETWEEN {oldest} AND {first - 1}
            WHEN MATCHED AND s.is_deleted THEN DELETE
            WHEN MATCHED THEN UPDATE SET quantity = s.quantity, amount = s.amount, status = s.status""")

    def _picked(self, among: str, touched: int, deleted: int, window: int) -> str:
        """Distinct existing orders, some to be deleted and the others with new values."""
        drawn = f"pmod(xxhash64(id, {self.round}), 1000000000)"
        if touched <= _PICKED_EXACTLY:
            picked = f"SELECT id, row_number() OVER (ORDER BY {drawn}, id) <= {deleted} AS is_deleted FROM ({among})"
            picked += f" ORDER BY {drawn}, id LIMIT {touched}"
        else:
            limit, fatal = (int(1_000_000_000 * n / window) for n in (touched, deleted))
            picked = f"SELECT id, {drawn} < {fatal} AS is_deleted FROM ({among}) WHERE {drawn} < {limit}"
        return f"SELECT {self._order('id', self.round)}, id, is_deleted FROM ({picked})"

    def _change_customers(self, rows: int) -> None:
        drawn = f"xxhash64(id, {self.round})"
        picked = f"SELECT customer_id AS id FROM {self.customers} ORDER BY {drawn.replace('id', 'customer_id', 1)}"
        self.spark.sql(f"""
            MERGE INTO {self.customers} c
            USING (SELECT {self._customer("id", self.round)}, id FROM ({picked} LIMIT {rows})) s
            ON c.customer_id = s.id
            WHEN MATCHED THEN UPDATE SET country = s.country, segment = s.segment""")

    def _order(self, key: str, salt: int) -> str:
        def drawn(what: str, below: int) -> str:
            return f"pmod(xxhash64({key}, '{what}', {salt}), {below})"

        return f"""{key} AS order_id,
            {drawn("customer", self.customer_count)} AS customer_id,
            {drawn("product", 5000)} AS product_id,
            CAST(1 + {drawn("quantity", 5)} AS INT) AS quantity,
            CAST({drawn("amount", 50000)} / 100 AS DECIMAL(10, 2)) AS amount,
            element_at({_STATUSES}, CAST(1 + {drawn("status", 10)} AS INT)) AS status,
            date_add(DATE'2024-01-01', CAST({key} * 700 / {self.size} AS INT)) AS ordered_on"""

    def _customer(self, key: str, salt: int) -> str:
        return f"""{key} AS customer_id,
            concat('customer ', {key}) AS name,
            concat('country ', pmod(xxhash64({key}, 'country', {salt}), {_COUNTRIES})) AS country,
            concat('segment ', pmod(xxhash64({key}, 'segment', {salt}), {_SEGMENTS})) AS segment"""

    def _versions(self) -> tuple[int, int]:
        orders, customers = (self.spark.sql(f"DESCRIBE HISTORY {t} LIMIT 1") for t in (self.orders, self.customers))
        return int(orders.collect()[0]["version"]), int(customers.collect()[0]["version"])
