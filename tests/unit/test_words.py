"""Words of fixed sets, as people write them."""

from __future__ import annotations

import pytest

from freshlake.alerts import Event
from freshlake.catalog import FoldPolicy, RefreshMode
from freshlake.dialect import Dialect
from freshlake.errors import InvalidArgument
from freshlake.schedule.state import Tier
from freshlake.words import word


def test_a_word_is_read_in_any_case() -> None:
    assert RefreshMode.parse(" differential ") is RefreshMode.DIFFERENTIAL
    assert FoldPolicy.parse("ALWAYS") is FoldPolicy.ALWAYS
    assert Event.parse("Stale_Data") is Event.STALE_DATA
    assert word(Tier, "Cold", "a tier") is Tier.COLD


def test_an_older_word_is_read_too() -> None:
    assert RefreshMode.parse("incremental") is RefreshMode.DIFFERENTIAL
    assert Dialect.parse("PostgreSQL") is Dialect.POSTGRES
    assert Dialect.parse(None) is Dialect.SPARK


def test_another_word_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidArgument, match="'tepid' is not a tier") as caught:
        word(Tier, "tepid", "a tier")
    assert caught.value.hint == "use one of hot, warm, cold, frozen"
