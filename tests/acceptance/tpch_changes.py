"""Five rounds of changes to the TPC-H tables, each touching several of them at once, in Spark SQL.

One row in `SHARE` of each table is chosen by the hash of its key, another one in every round and for every purpose.
Updates move rows across what the queries filter, join and group by.
"""

from __future__ import annotations

from collections.abc import Iterator

from freshlake.lake import Freshlake

ROUNDS = 5
SHARE = 1000
_KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey", "customer": "c_custkey", "supplier": "s_suppkey"}
_KEYS |= {"part": "p_partkey", "partsupp": "ps_partkey"}

_UPDATES = (
    {
        "lineitem": "l_shipdate = add_months(l_shipdate, 12), l_returnflag = CASE l_returnflag WHEN 'R' THEN 'N' "
        "ELSE 'R' END",
        "customer": "c_mktsegment = 'BUILDING', c_nationkey = pmod(c_nationkey + 1, 25)",
        "supplier": "s_nationkey = pmod(s_nationkey + 1, 25)",
        "partsupp": "ps_supplycost = ps_supplycost / 2",
    },
    {
        "lineitem": "l_receiptdate = date_add(l_commitdate, 5), l_quantity = l_quantity + 10, l_shipmode = 'MAIL'",
        "orders": "o_orderpriority = '1-URGENT', o_orderstatus = 'F'",
        "part": "p_brand = 'Brand#23', p_container = 'MED BOX', p_size = 15",
        "supplier": "s_comment = 'Customer Complaints', s_acctbal = s_acctbal + 100",
    },
    {
        "lineitem": "l_discount = 0.06, l_quantity = 20, l_shipdate = DATE '1994-06-01'",
        "customer": "c_acctbal = c_acctbal - 500, c_phone = concat('13', substring(c_phone, 3))",
        "part": "p_type = 'ECONOMY ANODIZED STEEL', p_name = concat('forest green ', p_name)",
        "partsupp": "ps_availqty = ps_availqty * 3",
    },
    {
        "lineitem": "l_suppkey = 1, l_commitdate = date_sub(l_receiptdate, 3)",
        "orders": "o_orderdate = DATE '1995-03-01', o_totalprice = o_totalprice * 1.5",
        "part": "p_type = 'PROMO BRASS', p_size = 15",
        "supplier": "s_nationkey = 20, s_comment = 'quiet'",
    },
    {
        "lineitem": "l_linestatus = 'F', l_extendedprice = l_extendedprice * 2, l_shipinstruct = 'DELIVER IN PERSON'",
        "orders": "o_custkey = 1, o_comment = 'special packages requests'",
        "customer": "c_nationkey = 24, c_acctbal = 9999.99",
        "partsupp": "ps_supplycost = 0.5, ps_availqty = 1",
    },
)


def change(fl: Freshlake, number: int, share: int = SHARE) -> None:
    """Round `number`, from 0: new orders, fewer orders, and values that change in four other tables."""
    for statement in _statements(fl, number, share):
        fl.sql(statement)


def _statements(fl: Freshlake, number: int, share: int) -> Iterator[str]:
    for table in ("lineitem", "orders"):
        key, moved = _KEYS[table], (number + 1) * 100_000_000
        rest = ", ".join(c for c in fl.spark.table(table).columns if c != key)
        copied = _chosen(table, number, 0, share)
        yield f"INSERT INTO {table} SELECT {key} + {moved}, {rest} FROM {table} WHERE {copied}"
        yield f"DELETE FROM {table} WHERE {_chosen(table, number, 1, share)}"
    for table, values in _UPDATES[number].items():
        few = share if table in ("lineitem", "orders") else max(2, share // 20)
        yield f"UPDATE {table} SET {values} WHERE {_chosen(table, number, 2, few)}"


def _chosen(table: str, number: int, purpose: int, share: int) -> str:
    """Rows of one order are chosen together, and a round after another chooses others."""
    return f"pmod(hash({_KEYS[table]}), {share}) = {(3 * number + purpose) % share}"
