#!/usr/bin/env bash
# For the tests of the PostgreSQL dialect and catalog: installs a PostgreSQL server when there is none and we may. Tests
# start their own server, in a folder of their own; no cluster is made and nothing is left running.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }

if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "tests: no PostgreSQL was found; the tests that need one will fail"
    say "  hint: install it (Debian and Ubuntu: apt install postgresql)"
    exit 0
fi
say "tests: installing a PostgreSQL server"
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null
