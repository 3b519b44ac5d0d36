"""What every face calls: create, alter, drop, read, run SQL, report."""
