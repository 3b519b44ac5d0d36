"""Two rounds of changes to the TPC-DS tables: facts come, go and change, and so do dimensions."""

from __future__ import annotations

from tests.acceptance.tpc_data import Writer

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
_SHARE = 23
_STOCK = f"(inv_date_sk + inv_item_sk) % {_SHARE}"


def first(writer: Writer) -> None:
    """New orders and returns, as copies of old ones, and dimensions whose rows take other values."""
    for table, order in _ORDERS.items():
        copied = f"SELECT * REPLACE ({order} + {_NEW} AS {order}) FROM {table} WHERE {order} % {_SHARE} = 1"
        writer.insert(table, copied)
    stock = "3 - inv_warehouse_sk AS inv_warehouse_sk, inv_quantity_on_hand + 100 AS inv_quantity_on_hand"
    writer.insert("inventory", f"SELECT * REPLACE ({stock}) FROM inventory WHERE {_STOCK} = 1")
    place = {"ca_state": "'GA'", "ca_gmt_offset": "-7", "ca_county": "'Williamson County'"}
    writer.update("customer_address", place, "ca_address_sk IN (3, 14, 25)")
    moved = {"c_current_addr_sk": "1 + c_current_addr_sk % 40", "c_preferred_cust_flag": "'Y'", "c_birth_month": "1"}
    writer.update("customer", moved, "c_customer_sk % 10 = 1")
    book = {"i_category": "'Books'", "i_class": "'history'", "i_manager_id": "1", "i_current_price": "75"}
    writer.update("item", book, "i_item_sk IN (5, 6, 7, 8, 26, 51)")
    writer.update("household_demographics", {"hd_dep_count": "4", "hd_vehicle_count": "2"}, "hd_demo_sk = 3")
    writer.update("store", {"s_store_name": "'ese'"}, "s_store_sk = 2")


def second(writer: Writer) -> None:
    """Orders and returns go, others change, and so do dimensions, of which some rows go."""
    for table, order in _ORDERS.items():
        writer.delete(table, f"{order} % {_SHARE} = 3")
    sold = {"ss_quantity": "ss_quantity + 5", "ss_ext_sales_price": "ss_ext_sales_price + 100"}
    sold |= {"ss_net_profit": "150", "ss_sales_price": "120"}
    writer.update("store_sales", sold, f"ss_ticket_number % {_SHARE} = 2")
    sold = {"cs_warehouse_sk": "3 - cs_warehouse_sk", "cs_ext_sales_price": "cs_ext_sales_price + 100"}
    sold |= {"cs_ship_date_sk": "cs_ship_date_sk + 30"}
    writer.update("catalog_sales", sold, f"cs_order_number % {_SHARE} = 2")
    sold = {"ws_ext_sales_price": "ws_ext_sales_price * 2", "ws_net_profit": "150", "ws_sales_price": "120"}
    writer.update("web_sales", sold, f"ws_order_number % {_SHARE} = 2")
    writer.update("inventory", {"inv_quantity_on_hand": "700"}, f"{_STOCK} = 2")
    writer.update("promotion", {"p_channel_dmail": "'Y'", "p_channel_email": "'N'"}, "p_promo_sk = 1")
    writer.update("item", {"i_category": "'Women'", "i_color": "'peach'"}, "i_item_sk IN (9, 10, 27, 52)")
    writer.delete("item", "i_item_sk IN (11, 30)")
    writer.delete("customer", "c_customer_sk % 20 = 3")
