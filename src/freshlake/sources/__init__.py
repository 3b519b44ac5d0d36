"""Where rows come from: one protocol for Delta tables and stream tables."""
