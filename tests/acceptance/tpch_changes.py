"""Five rounds of changes to the TPC-H tables, each touching several of them at once.

A share of each table is chosen by its key, another one in every round and for every purpose. Updates move rows across
what the queries filter, join and group by.
"""

from __future__ import annotations

from tests.acceptance.tpc_data import Writer

ROUNDS = 5
SHARE = 997
_KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey", "customer": "c_custkey", "supplier": "s_suppkey"}
_KEYS |= {"part": "p_partkey", "partsupp": "ps_partkey"}
_NEW = 100_000_000
"""Added to the key of an order to make another one."""

_UPDATES = (
    {
        "lineitem": {
            "l_shipdate": "l_shipdate + INTERVAL '1 year'",
            "l_returnflag": "CASE l_returnflag WHEN 'R' THEN 'N' ELSE 'R' END",
        },
        "customer": {"c_mktsegment": "'BUILDING'", "c_nationkey": "(c_nationkey + 1) % 25"},
        "supplier": {"s_nationkey": "(s_nationkey + 1) % 25"},
        "partsupp": {"ps_supplycost": "ps_supplycost / 2"},
    },
    {
        "lineitem": {
            "l_receiptdate": "l_commitdate + INTERVAL '5 days'",
            "l_quantity": "l_quantity + 10",
            "l_shipmode": "'MAIL'",
        },
        "orders": {"o_orderpriority": "'1-URGENT'", "o_orderstatus": "'F'"},
        "part": {"p_brand": "'Brand#23'", "p_container": "'MED BOX'", "p_size": "15"},
        "supplier": {"s_comment": "'Customer Complaints'", "s_acctbal": "s_acctbal + 100"},
    },
    {
        "lineitem": {"l_discount": "0.06", "l_quantity": "20", "l_shipdate": "DATE '1994-06-01'"},
        "customer": {"c_acctbal": "c_acctbal - 500", "c_phone": "concat('13', substr(c_phone, 3))"},
        "part": {"p_type": "'ECONOMY ANODIZED STEEL'", "p_name": "concat('forest green ', p_name)"},
        "partsupp": {"ps_availqty": "ps_availqty * 3"},
    },
    {
        "lineitem": {"l_suppkey": "1", "l_commitdate": "l_receiptdate - INTERVAL '3 days'"},
        "orders": {"o_orderdate": "DATE '1995-03-01'", "o_totalprice": "o_totalprice * 1.5"},
        "part": {"p_type": "'PROMO BRASS'", "p_size": "15"},
        "supplier": {"s_nationkey": "20", "s_comment": "'quiet'"},
    },
    {
        "lineitem": {
            "l_linestatus": "'F'",
            "l_extendedprice": "l_extendedprice * 2",
            "l_shipinstruct": "'DELIVER IN PERSON'",
        },
        "orders": {"o_custkey": "1", "o_comment": "'special packages requests'"},
        "customer": {"c_nationkey": "24", "c_acctbal": "9999.99"},
        "partsupp": {"ps_supplycost": "0.5", "ps_availqty": "1"},
    },
)


def change(writer: Writer, number: int, share: int = SHARE) -> None:
    """Round `number`, from 0: orders come and go with their lineitems, and values change in four tables."""
    for table in ("lineitem", "orders"):
        key, moved = _KEYS[table], (number + 1) * _NEW
        copied = f"SELECT * REPLACE ({key} + {moved} AS {key}) FROM {table} WHERE {_chosen(table, number, 0, share)}"
        writer.insert(table, copied)
        writer.delete(table, _chosen(table, number, 1, share))
    for table, values in _UPDATES[number].items():
        few = share if table in ("lineitem", "orders") else max(7, share // 20)
        writer.update(table, values, _chosen(table, number, 2, few))


def _chosen(table: str, number: int, purpose: int, share: int) -> str:
    """Rows of one order are chosen together, and a round after another chooses others."""
    return f"{_KEYS[table]} % {share} = {1 + (3 * number + purpose) % (share - 1)}"
