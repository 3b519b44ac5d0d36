"""What Spark reads out of strings: names, IDENTIFIER('totals'), and whole statements, EXECUTE IMMEDIATE '…'."""

from __future__ import annotations

from itertools import pairwise

from freshlake.errors import Unsupported
from freshlake.statements.target import words
from freshlake.statements.tokens import Kind, Token, value_of


def written_out(text: str) -> str:
    """The text with the names that stand in strings as names; raises Unsupported where only Spark would know them."""
    tokens, out, at = words(text), [], 0
    if _executes(tokens):
        raise Unsupported(
            "EXECUTE IMMEDIATE does not show which tables it reads or writes", hint="pass the statement itself"
        )
    for i, token in enumerate(tokens):
        if token.word != "IDENTIFIER" or [t.text for t in tokens[i + 1 : i + 2]] != ["("]:
            continue
        if i and tokens[i - 1].text == ".":
            continue  # a function
        if len(tokens) < i + 4 or tokens[i + 2].kind is not Kind.STRING or tokens[i + 3].text != ")":
            raise Unsupported(
                "IDENTIFIER with more than one string in it does not show which table is meant",
                hint="write the name itself",
            )
        out += [text[at : token.start], value_of(tokens[i + 2])]
        at = tokens[i + 3].end
    return "".join([*out, text[at:]])


def _executes(tokens: list[Token]) -> bool:
    """At the beginning, or somewhere in a script."""
    found = [token.word for token in tokens] if tokens and tokens[0].word == "BEGIN" else [t.word for t in tokens[:2]]
    return ("EXECUTE", "IMMEDIATE") in pairwise(found)
