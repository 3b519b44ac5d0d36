"""Tables of PostgreSQL databases as sources: what they are, and what changed in them."""
