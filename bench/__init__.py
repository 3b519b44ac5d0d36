"""Measures refreshes side by side with the other ways to keep a table up to date; nothing here is a test."""
