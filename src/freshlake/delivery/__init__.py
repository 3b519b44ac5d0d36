"""Stream tables kept in tables of a PostgreSQL database, too."""
