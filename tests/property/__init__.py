"""Random histories: tables, queries and rounds of changes, compared with recomputation after every refresh."""
