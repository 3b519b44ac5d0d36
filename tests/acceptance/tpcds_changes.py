"""Two rounds of changes to the TPC-DS tables in Spark SQL: facts come, go and change, and so do dimensions."""

from __future__ import annotations

from freshlake.lake import Freshlake

_ORDERS = {
    "store_sales": "ss_ticket_number",
    "store_returns": "sr_ticket_number",
    "catalog_sales": "cs_order_number",
    "catalog_returns": "cr_order_number",
    "web_sales": "ws_order_number",
    "web_returns": "wr_order_number",
}
_NEW = 100_000_000
"""Added to the number of an order to make another one."""

_FIRST = (
    "INSERT INTO inventory SELECT inv_date_sk, inv_item_sk, 3 - inv_warehouse_sk, inv_quantity_on_hand + 100 "
    "FROM inventory WHERE pmod(hash(inv_date_sk, inv_item_sk), 25) = 1",
    "UPDATE customer_address SET ca_state = 'GA', ca_gmt_offset = -7, ca_county = 'Williamson County' "
    "WHERE ca_address_sk IN (3, 14, 25)",
    "UPDATE customer SET c_current_addr_sk = 1 + pmod(c_current_addr_sk, 40), c_preferred_cust_flag = 'Y', "
    "c_birth_month = 1 WHERE pmod(c_customer_sk, 10) = 1",
    "UPDATE item SET i_category = 'Books', i_class = 'history', i_manager_id = 1, i_current_price = 75 "
    "WHERE i_item_sk IN (5, 6, 7, 8, 26, 51)",
    "UPDATE household_demographics SET hd_dep_count = 4, hd_vehicle_count = 2 WHERE hd_demo_sk = 3",
    "UPDATE store SET s_store_name = 'ese' WHERE s_store_sk = 2",
)
_SECOND = (
    "UPDATE store_sales SET ss_quantity = ss_quantity + 5, ss_ext_sales_price = ss_ext_sales_price + 100, "
    "ss_net_profit = 150, ss_sales_price = 120 WHERE pmod(hash(ss_ticket_number), 25) = 2",
    "UPDATE catalog_sales SET cs_warehouse_sk = 3 - cs_warehouse_sk, cs_ext_sales_price = cs_ext_sales_price + 100, "
    "cs_ship_date_sk = cs_ship_date_sk + 30 WHERE pmod(hash(cs_order_number), 25) = 2",
    "UPDATE web_sales SET ws_ext_sales_price = ws_ext_sales_price * 2, ws_net_profit = 150, ws_sales_price = 120 "
    "WHERE pmod(hash(ws_order_number), 25) = 2",
    "UPDATE inventory SET inv_quantity_on_hand = 700 WHERE pmod(hash(inv_date_sk, inv_item_sk), 25) = 2",
    "UPDATE promotion SET p_channel_dmail = 'Y', p_channel_email = 'N', p_channel_event = 'N' WHERE p_promo_sk = 1",
    "UPDATE item SET i_category = 'Women', i_color = 'peach' WHERE i_item_sk IN (9, 10, 27, 52)",
    "DELETE FROM item WHERE i_item_sk IN (11, 30)",
    "DELETE FROM customer WHERE pmod(c_customer_sk, 20) = 3",
)


def first(fl: Freshlake) -> None:
    """New orders and returns, as copies of old ones, and dimensions whose rows take other values."""
    for table, order in _ORDERS.items():
        columns = fl.spark.table(table).columns
        chosen = f"pmod(hash({order}), 25) = 1"
        copied = ", ".join(f"{order} + {_NEW}" if c == order else c for c in columns)
        fl.sql(f"INSERT INTO {table} SELECT {copied} FROM {table} WHERE {chosen}")
    for statement in _FIRST:
        fl.sql(statement)


def second(fl: Freshlake) -> None:
    """Orders and returns go, others change, and so do dimensions, of which some rows go."""
    for table, order in _ORDERS.items():
        fl.sql(f"DELETE FROM {table} WHERE pmod(hash({order}), 25) = 3")
    for statement in _SECOND:
        fl.sql(statement)
