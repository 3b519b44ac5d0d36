"""Split a script into its statements, at semicolons outside of strings, names and comments."""

from __future__ import annotations

from freshlake.statements.tokens import Kind, tokenize


def statements(script: str) -> list[str]:
    """The statements in order, each as it was written; comments alone are no statement."""
    found: list[str] = []
    begin: int | None = None
    end = 0
    for token in tokenize(script):
        if begin is None and token.word == "BEGIN":
            # A compound statement of Spark's scripting language has semicolons of its own.
            return [*found, script[token.start :].strip()]
        if token.kind is Kind.END or token.text == ";":
            found += [script[begin:end]] if begin is not None else []
            begin = None
            if token.kind is Kind.END:
                break
            continue
        begin, end = token.start if begin is None else begin, token.end
    return found
