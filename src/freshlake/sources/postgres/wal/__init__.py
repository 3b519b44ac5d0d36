"""Capture from the write-ahead log: a publication, a logical slot, and what pgoutput makes of them."""
