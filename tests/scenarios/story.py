"""A scenario file as a value: the tables of one lake, rounds of changes, and the scenarios that live through them.

The format is described in README.md. Nothing is run here; a file that is not well formed is refused with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

CREATED = "created"
"""The moment before the first round."""
NO_ROWS = "(no rows)"
ACTIONS = ("DIFFERENTIAL", "FULL", "NO_DATA", "REINITIALIZE")

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TOKEN = re.compile(r"(?:'(?:[^']|'')*'|[^\s'])+")
_DURATION = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class FormatError(Exception):
    """Where a file is not well formed, and why."""


@dataclass(frozen=True)
class Statement:
    sql: str
    line: int


@dataclass(frozen=True)
class Facts:
    """What a refresh is said to have done; None is not said."""

    action: str | None = None
    reason: str | None = None
    error: str | None = None
    """The code of the error it fails with; the table then stays as it was."""
    changed: tuple[int, int] | None = None
    """Rows that a reader sees come and go."""
    unwritten: bool = False
    """Nothing was stored, not even hidden state."""


@dataclass(frozen=True)
class Expected:
    moment: str
    line: int
    facts: Facts
    rows: tuple[tuple[str, ...], ...] | None


@dataclass(frozen=True)
class Round:
    name: str
    line: int
    changes: tuple[Statement, ...] = ()
    fold: bool = False
    reopen: bool = False
    seconds: float = 0
    """How far the clock moves before the changes."""


@dataclass(frozen=True)
class Scenario:
    name: str
    line: int
    query: str
    mode: str = "DIFFERENTIAL"
    partition: str | None = None
    """The column by which the table is partitioned."""
    always: Facts = field(default_factory=Facts)
    """What is said of every refresh that has something to do, unless a round says otherwise."""
    refused: str | None = None
    """The code of the error that creating it must raise."""
    says: tuple[str, ...] = ()
    """What that error must say."""
    expected: Mapping[str, Expected] = field(default_factory=dict)
    slow: bool = False
    """Left out of the default run."""


@dataclass(frozen=True)
class Story:
    path: Path
    settings: Mapping[str, str]
    setup: tuple[Statement, ...]
    rounds: tuple[Round, ...]
    scenarios: tuple[Scenario, ...]


def read(path: Path) -> Story:
    return parse(path.read_text(encoding="utf-8"), path)


def parse(text: str, path: Path) -> Story:
    """A story, or a FormatError that names file and line."""
    try:
        return _checked(_story(text, path))
    except _At as error:
        raise FormatError(f"{path.name}:{error.line}: {error.message}") from None


class _At(Exception):
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


_Block = list[tuple[int, str]]


def _blocks(text: str) -> Iterator[_Block]:
    """Runs of lines between blank ones, without comments; each line with its number."""
    block: _Block = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            continue
        if line.strip():
            block.append((number, line.rstrip()))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _story(text: str, path: Path) -> Story:
    settings: dict[str, str] = {}
    setup: list[Statement] = []
    rounds: list[Round] = []
    scenarios: list[Scenario] = []
    slow = False
    for block in _blocks(text):
        line, head = block[0]
        keyword, *words = head.split()
        if head == "slow":
            slow = True
        elif keyword == "setting":
            name, value = _only(words, 2, line)
            settings[name] = value
        elif keyword == "statement":
            statement = _statement(block, words)
            if rounds:
                rounds[-1] = replace(rounds[-1], changes=(*rounds[-1].changes, statement))
            else:
                setup.append(statement)
        elif keyword == "round":
            rounds.append(_round(block, words))
        elif keyword in ("scenario", "refused"):
            scenarios.append(replace(_scenario(block, words, refused=keyword == "refused"), slow=slow))
        else:
            raise _At(line, f"'{keyword}' is none of slow, setting, statement, round, scenario, refused")
    return Story(path, settings, tuple(setup), tuple(rounds), tuple(scenarios))


def _statement(block: _Block, words: Sequence[str]) -> Statement:
    line = block[0][0]
    if words or len(block) == 1:
        raise _At(line, "'statement' stands alone on its line, with SQL in the lines below")
    return Statement("\n".join(text for _, text in block[1:]), line)


def _round(block: _Block, words: list[str]) -> Round:
    line = block[0][0]
    if len(block) > 1 or not words:
        raise _At(line, "a round is one line: round NAME [fold] [reopen] [clock +1h]")
    made = Round(_name(words.pop(0), line), line)
    while words:
        word = words.pop(0)
        if word in ("fold", "reopen"):
            made = replace(made, **{word: True})
        elif word == "clock" and words and (at := re.fullmatch(r"\+(\d+)([smhd])", words.pop(0))):
            made = replace(made, seconds=int(at[1]) * _DURATION[at[2]])
        else:
            raise _At(line, f"'{word}' is not one of fold, reopen, clock +1h")
    return made


def _scenario(block: _Block, words: list[str], refused: bool) -> Scenario:
    line = block[0][0]
    if not words:
        raise _At(line, "a scenario has a name")
    made = Scenario(_name(words.pop(0), line), line, "")
    if refused:
        made = replace(made, refused=_only(words, 1, line)[0])
    elif words:
        made = _modes(made, words, line)
    cut = next((i for i, (_, text) in enumerate(block) if text.startswith("----")), len(block))
    made = replace(made, query="\n".join(text for _, text in block[1:cut]))
    if not made.query:
        raise _At(line, f"scenario {made.name} has no query")
    if refused:
        return replace(made, says=tuple(text for _, text in block[cut + 1 :]))
    expected: dict[str, Expected] = {}
    for found in _moments(block[cut:]):
        if found.moment in expected:
            raise _At(found.line, f"{found.moment} is described in line {expected[found.moment].line} already")
        expected[found.moment] = found
    return replace(made, expected=expected)


def _modes(made: Scenario, words: list[str], line: int) -> Scenario:
    while words:
        match words:
            case "mode", ("AUTO" | "FULL" | "DIFFERENTIAL") as mode, *words:
                made = replace(made, mode=mode)
            case "partitioned", column, *words:
                made = replace(made, partition=column)
            case "always", *said if said:
                made, words = replace(made, always=_action(" ".join(said), line)), []
            case _:
                usage = "[mode AUTO|FULL|DIFFERENTIAL] [partitioned COLUMN] [always FULL reason]"
                raise _At(line, f"'{' '.join(words)}' is not {usage}")
    return made


def _moments(lines: _Block) -> Iterator[Expected]:
    while lines:
        line, head = lines.pop(0)
        moment, _, facts = head.removeprefix("----").partition(":")
        rows = []
        while lines and not lines[0][1].startswith("----"):
            rows.append(lines.pop(0)[1])
        made = Expected(_name(moment.strip(), line), line, _facts(facts, line), _rows(rows))
        if made.rows is None and made.facts == Facts():
            raise _At(line, f"nothing is said about {made.moment}: neither rows nor facts")
        yield made


def _rows(lines: Sequence[str]) -> tuple[tuple[str, ...], ...] | None:
    if not lines:
        return None
    return () if lines == [NO_ROWS] else tuple(tuple(_TOKEN.findall(text)) for text in lines)


def _facts(text: str, line: int) -> Facts:
    facts = Facts()
    for fact in filter(None, (part.strip() for part in text.split(","))):
        first, *rest = fact.split()
        if at := re.fullmatch(r"\+(\d+) -(\d+)", fact):
            facts = replace(facts, changed=(int(at[1]), int(at[2])))
        elif fact == "nothing written":
            facts = replace(facts, changed=(0, 0), unwritten=True)
        elif first in ACTIONS and len(rest) <= 1:
            facts = replace(facts, action=first, reason=rest[0] if rest else None)
        elif first == "error" and len(rest) == 1:
            facts = replace(facts, error=rest[0])
        else:
            raise _At(
                line,
                f"'{fact}' is none of: +1 -2, nothing written, an action of {', '.join(ACTIONS)} [reason], error CODE",
            )
    return facts


def _action(text: str, line: int) -> Facts:
    facts = _facts(text, line)
    if facts.action is None or facts != Facts(facts.action, facts.reason):
        raise _At(line, f"'always' is followed by an action of {', '.join(ACTIONS)}, with or without its reason")
    return facts


def _name(word: str, line: int) -> str:
    if not _NAME.fullmatch(word):
        raise _At(line, f"'{word}' is not a name of lower-case letters, digits and underscores")
    return word


def _only(words: Sequence[str], count: int, line: int) -> Sequence[str]:
    if len(words) != count:
        raise _At(line, f"expected {count} word{'s' if count > 1 else ''} here, found {len(words)}")
    return words


def _checked(story: Story) -> Story:
    """Names are unique, and what is expected is expected of a round that exists."""
    rounds = [CREATED, *(r.name for r in story.rounds)]
    for item in (*story.rounds, *story.scenarios):
        same = [o for o in (*story.rounds, *story.scenarios) if o.name == item.name]
        if same[0] is not item:
            raise _At(item.line, f"the name {item.name} is used in line {same[0].line} already")
    for scenario in story.scenarios:
        for expected in scenario.expected.values():
            if expected.moment not in rounds:
                raise _At(expected.line, f"there is no round {expected.moment}; there are {', '.join(rounds)}")
            if expected.moment == CREATED and expected.facts != Facts():
                raise _At(expected.line, "of the moment of creation only rows can be expected")
    return story
