"""A place in a statement: what comes next, and what was expected when it is something else."""

from __future__ import annotations

from freshlake.catalog import TableName
from freshlake.errors import InvalidStatement
from freshlake.statements.tokens import Kind, Token, tokenize, value_of


class Cursor:
    """Reads the tokens of one statement from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._ahead: list[Token] = []
        self._taken = 0

    def peek(self, distance: int = 0) -> Token:
        """The token after `distance` others, without taking it."""
        while len(self._ahead) <= distance:
            self._ahead.append(next(self._tokens))
        return self._ahead[distance]

    def take(self) -> Token:
        """The next token."""
        token = self.peek()
        self._ahead.pop(0)
        self._taken = token.end
        return token

    def at(self, *words: str) -> bool:
        """Whether these words, or symbols, come next."""
        return all(word in (self.peek(place).word, self._symbol(place)) for place, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        found = self.at(*words)
        for _ in words if found else ():
            self.take()
        return found

    def expect(self, *words: str) -> None:
        """Take these words; anything else is an error."""
        for word in words:
            if not self.accept(word):
                raise self.error(word)

    def accept_symbol(self, symbol: str) -> bool:
        """Take a symbol if it comes next."""
        found = self._at_symbol(symbol)
        if found:
            self.take()
        return found

    def expect_symbol(self, symbol: str) -> None:
        """Take a symbol; anything else is an error."""
        if not self.accept_symbol(symbol):
            raise self.error(f"'{symbol}'")

    def number(self, what: str, *, whole: bool = False) -> str:
        """Take a number without a sign."""
        if self.peek().kind is not Kind.NUMBER or (whole and "." in self.peek().text):
            raise self.error(what)
        return self.take().text

    def string(self, what: str) -> str:
        """Take a string in quotes."""
        if self.peek().kind is not Kind.STRING:
            raise self.error(what)
        return value_of(self.take())

    def choice(self, what: str, choices: tuple[str, ...]) -> str:
        """Take one of some words, in upper case."""
        if self.peek().word not in choices:
            raise self.error(f"{what}: {', '.join(choices)}")
        return self.take().word

    def identifier(self, what: str) -> str:
        """Take a name of one part, as written or in quotes."""
        token = self.peek()
        if token.kind is Kind.WORD:
            return self.take().text
        if token.kind is Kind.QUOTED or (token.kind is Kind.STRING and token.text.startswith('"')):
            return value_of(self.take())
        raise self.error(what)

    def table_name(self) -> str:
        """Take a table name; raises InvalidName when it is one that no table can have."""
        if self.at("AS"):
            raise self.error("a stream table name")
        parts = [self.identifier("a stream table name")]
        while self.accept_symbol("."):
            parts.append(self.identifier("a name after '.'"))
        TableName.of(parts)
        return ".".join(parts)

    def is_done(self) -> bool:
        """Whether the statement ends here."""
        return self.peek().kind is Kind.END or self._at_symbol(";")

    def query(self) -> str:
        """Take the rest as a query, exactly as written, without the final semicolon."""
        start = self._taken
        if self.is_done():
            raise self.error("a query")
        while self.peek().kind is not Kind.END and not self._at_symbol(";"):
            self.take()
        text = self._text[start : self.peek().start].strip()
        self.finish()
        return text

    def rest(self) -> str:
        """Take the rest as a query without reading it, up to semicolons at its end."""
        text = self._text[self._taken :].strip()
        while text.endswith(";"):
            text = text[:-1].rstrip()
        if not text:
            raise self.error("a query")
        self._tokens, self._ahead = tokenize(""), []
        return text

    def finish(self) -> None:
        """Nothing but semicolons may follow."""
        while self.accept_symbol(";"):
            pass
        if self.peek().kind is not Kind.END:
            raise self.error("the end of the statement")

    def error(self, expected: str) -> InvalidStatement:
        """What was expected at this place, and what is there."""
        token = self.peek()
        line = self._text.count("\n", 0, token.start) + 1
        begin = self._text.rfind("\n", 0, token.start) + 1
        place = f"line {line}, column {token.start - begin + 1}"
        around = self._text[begin : token.start][-60:] + ">>>" + self._text[token.start :].split("\n", 1)[0][:60]
        return InvalidStatement(
            f"syntax error at {place}: expected {expected}, found {_found(token)}",
            detail=around.strip(),
            hint="correct the statement at >>> and try again; nothing was changed",
        )

    def _at_symbol(self, symbol: str) -> bool:
        return self._symbol() == symbol

    def _symbol(self, distance: int = 0) -> str | None:
        token = self.peek(distance)
        return token.text if token.kind is Kind.SYMBOL else None


def _found(token: Token) -> str:
    if token.kind is Kind.END:
        return "the end of the statement"
    if token.kind is Kind.UNFINISHED:
        return "a string, name or comment without its end"
    return token.text if len(token.text) <= 40 else token.text[:37] + "..."
