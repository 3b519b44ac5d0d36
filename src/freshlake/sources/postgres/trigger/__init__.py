"""Capture by triggers: old and new rows are written to a buffer in the writer's own transaction."""
