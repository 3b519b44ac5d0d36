"""`python -m freshlake.session [java] [jars] [--quiet]`: prepare this machine, or say what is missing."""

from __future__ import annotations

import sys

from freshlake.errors import FreshlakeError, JavaNotFound
from freshlake.session.jars import delta_jars
from freshlake.session.java import find_java

# The setup script installs Java on this exit code only, not on any other failure.
NO_JAVA = 3


def main(arguments: list[str]) -> int:
    """Prepare the named parts (all when none is named); quietly: say only what takes time or fails."""
    parts = set(arguments) - {"--quiet"} or {"java", "jars"}
    tell = _nothing if "--quiet" in arguments else _say
    try:
        if "java" in parts:
            java = find_java()
            tell(f"Java {java.version} at {java.home}")
        if "jars" in parts:
            tell(f"Delta jars at {delta_jars(progress=_say)[0].parent}")
    except FreshlakeError as error:
        _say(f"{error.code}: {error}")
        return NO_JAVA if isinstance(error, JavaNotFound) else 1
    return 0


def _nothing(text: str) -> None:
    return None


def _say(text: str) -> None:
    sys.stderr.write(f"setup: {text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
