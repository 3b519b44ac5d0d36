"""Daemons under load, killed all the time: what readers see stays right. `make soak`."""
