#!/usr/bin/env bash
# Makes .venv, installs Freshlake with pinned versions, finds Java 17+, fetches the Delta jars.
# Needs no network when all of it is there already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "$*" >&2; }
fail() { say "setup: $1"; [ $# -lt 2 ] || say "  hint: $2"; exit 1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer was found" "install one and run: make setup PYTHON=/path/to/python3"
}

make_venv() {
    local python
    python=$(find_python)
    say "setup: making .venv with $("$python" --version)"
    "$python" -m venv .venv || { rm -rf .venv; fail "could not make .venv" "Debian and Ubuntu: apt install python3-venv"; }
}

# The folder is part of it: an environment that was copied or moved with its tree must be installed again.
fingerprint() { { cat pyproject.toml constraints.txt; .venv/bin/python --version; pwd; } | cksum; }

install_packages() {
    local stamp=.venv/.setup-stamp wanted
    wanted=$(fingerprint)
    [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
    say "setup: installing packages (once; again only when pyproject.toml or constraints.txt change)"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]' ||
        fail "packages could not be installed" "see pip's message above; the first setup needs a network"
    printf '%s\n' "$wanted" >"$stamp"
    quiet=
}

install_java() {
    local package
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return 1; fi
    say "setup: installing a Java runtime (openjdk-17-jre-headless)"
    apt-get update -qq || return 1
    # Newer Debian releases have no Java 17 any more; their default is newer and works as well.
    for package in openjdk-17-jre-headless default-jre-headless; do
        if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null; then return 0; fi
    done
    return 1
}

# Exit code 3 says that no usable Java was found; a JAVA_HOME that is set is the user's choice and is not overruled.
lacks_java() {
    local code=0
    .venv/bin/python -m freshlake.session java >/dev/null 2>&1 || code=$?
    [ $code = 3 ] && [ -z "${JAVA_HOME:-}" ]
}

[ -x .venv/bin/python ] || make_venv
quiet=--quiet
install_packages
if lacks_java; then install_java || true; fi
.venv/bin/python -m freshlake.session java jars $quiet
