"""One refresh: triage, choose, run, commit, recover, verify."""
