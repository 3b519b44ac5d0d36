"""TPC-DS data made denser, so that nearly all queries have rows at a scale of 0.01.

The generator spreads few rows over many values, and each query asks for its own constants: at this scale, and at ten
times this scale, a third of the queries have no rows or only NULLs. So facts refer to fewer customers, addresses and
demographics, and these dimensions and the items take the values that the queries ask for. There are three more stores
and a second warehouse, because queries compare them.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from tests.acceptance.tpc_data import generate

SCALE = 0.01
_KEPT = {"customer": 70, "addr": 40, "cdemo": 12, "hdemo": 6}
_FACTS = {
    "store_sales": ("ss_",),
    "store_returns": ("sr_",),
    "catalog_sales": ("cs_bill_", "cs_ship_"),
    "catalog_returns": ("cr_refunded_", "cr_returning_"),
    "web_sales": ("ws_bill_", "ws_ship_"),
    "web_returns": ("wr_refunded_", "wr_returning_"),
}


def generate_dense() -> duckdb.DuckDBPyConnection:
    database = generate("tpcds", SCALE)
    for statement in (*_fewer_references(), *_dimensions(), *_items(), *_places(), *_amounts()):
        database.execute(statement)
    return database


def _fewer_references() -> Iterator[str]:
    for table, prefixes in _FACTS.items():
        keys = [(f"{prefix}{kind}_sk", few) for prefix in prefixes for kind, few in _KEPT.items()]
        yield f"UPDATE {table} SET {', '.join(_folded(key, few) for key, few in keys)}"
    keys = [(f"c_current_{kind}_sk", few) for kind, few in _KEPT.items() if kind != "customer"]
    yield f"UPDATE customer SET {', '.join(_folded(key, few) for key, few in keys)}"


def _dimensions() -> Iterator[str]:
    sk = "ca_address_sk"
    yield (
        f"UPDATE customer_address SET ca_country = 'United States', ca_gmt_offset = {_one_of([-5, -6, -7], sk)}, "
        f"ca_state = {_one_of(['TX', 'OH', 'GA', 'KY', 'TN', 'IN', 'IL', 'VA', 'TX', 'GA'], sk)}, "
        f"ca_county = {_one_of(['Rush', 'Williamson', 'Toole', 'Jefferson', 'Williamson'], sk)} || ' County', "
        f"ca_zip = {_one_of(['24128', '31904', '35709', '85669'], sk)}, "
        f"ca_city = {_one_of(['Edgewood', 'Midway', 'Fairview'], sk)} WHERE {sk} <= {_KEPT['addr']}"
    )
    sk, degrees = "cd_demo_sk", ["Advanced Degree", "College", "2 yr Degree", "Unknown", "4 yr Degree"]
    yield (
        f"UPDATE customer_demographics SET cd_marital_status = {_one_of(['M', 'S', 'W', 'M', 'D', 'W'], sk)}, "
        f"cd_education_status = {_one_of([*degrees, degrees[0]], sk)}, cd_gender = {_one_of(['M', 'F'], f'{sk} // 6')} "
        f"WHERE {sk} <= {_KEPT['cdemo']}"
    )
    sk = "hd_demo_sk"
    yield (
        f"UPDATE household_demographics SET hd_income_band_sk = 5 + {sk} % 3, "
        f"hd_buy_potential = {_one_of(['Unknown', '>10000', '1001-5000', '501-1000'], sk)}, "
        f"hd_dep_count = {_one_of([3, 6, 0, 4, 7, 1], sk)}, hd_vehicle_count = {_one_of([1, 2, 3], sk)} "
        f"WHERE {sk} <= {_KEPT['hdemo']}"
    )


def _items() -> Iterator[str]:
    """Two in five; an item has several rows that follow each other in time, which five does not divide."""
    by = "i_item_sk // 5"
    yield (
        f"UPDATE item SET i_manufact_id = {_one_of([128, 977, 677, 129, 740, 350, 940, 270], by)}, "
        f"i_color = {_one_of(['peach', 'purple', 'powder', 'slate', 'floral'], by)}, "
        f"i_manager_id = {_one_of([1, 8, 28, 38], by)}, i_current_price = 70 WHERE i_item_sk % 5 < 2"
    )
    yield (
        "UPDATE item SET i_category = 'Women', i_class = 'maternity', i_color = 'powder', i_units = 'Ounce', "
        "i_size = 'medium' WHERE i_manufact_id = 740"
    )


def _places() -> Iterator[str]:
    yield "UPDATE store SET s_market_id = 8, s_zip = '24128', s_gmt_offset = -5"
    for number, name in ((2, "able"), (3, "bar"), (4, "ese")):
        yield (
            f"INSERT INTO store SELECT * REPLACE ({number} AS s_store_sk, 'AAAAAAAA{number}' AS s_store_id, "
            f"'{name}' AS s_store_name) FROM store WHERE s_store_sk = 1"
        )
    yield "INSERT INTO warehouse SELECT * REPLACE (2 AS w_warehouse_sk, 'Second' AS w_warehouse_name) FROM warehouse"
    yield "UPDATE store_sales SET ss_store_sk = 1 + ss_ticket_number % 4 WHERE ss_store_sk IS NOT NULL"
    yield "UPDATE store_returns SET sr_store_sk = 1 + sr_ticket_number % 4 WHERE sr_store_sk IS NOT NULL"
    yield "UPDATE catalog_sales SET cs_warehouse_sk = 1 + cs_item_sk % 2"
    yield "UPDATE web_sales SET ws_warehouse_sk = 1 + ws_item_sk % 2"
    yield (
        "UPDATE inventory SET inv_warehouse_sk = 1 + inv_item_sk % 2, inv_quantity_on_hand = "
        "CASE WHEN inv_item_sk % 5 = 0 AND inv_date_sk % 3 > 0 THEN 1 ELSE inv_quantity_on_hand END"
    )
    yield "UPDATE web_site SET web_company_name = 'pri'"
    yield "UPDATE call_center SET cc_county = 'Williamson County'"
    yield "UPDATE web_page SET wp_char_count = 5100"
    yield "UPDATE reason SET r_reason_desc = 'reason 28'"


def _amounts() -> Iterator[str]:
    """A query asks for returns above 10,000."""
    for table, column in (
        ("web_returns", "wr_return_amt"),
        ("catalog_returns", "cr_return_amount"),
        ("store_returns", "sr_return_amt"),
    ):
        yield f"UPDATE {table} SET {column} = least({column}::DECIMAL(9, 2) * 20, 99999)"


def _folded(key: str, few: int) -> str:
    return f"{key} = 1 + {key} % {few}"


def _one_of(values: list[str] | list[int], by: str) -> str:
    """One of the values for each row, in turns."""
    return f"{values}[1 + ({by}) % {len(values)}]"
