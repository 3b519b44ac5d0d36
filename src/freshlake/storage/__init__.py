"""Reading pinned Delta snapshots, and change-logged tables: a base, a log of weighted changes, and folds."""
