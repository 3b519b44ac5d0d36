"""Certificates and notes survive the trip through a commit's metadata."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from freshlake.storage.certificate import Certificate, Note, NoteKind

CERTIFICATE = Certificate(
    refresh_id="r-7",
    epoch=3,
    fingerprint="abc",
    version=7,
    from_frontier={"orders": {"version": 4}},
    to_frontier={"orders": {"version": 5}, "now": "2026-01-01T00:00:00Z"},
    action="FULL",
    reason="change-ratio",
    rows_inserted=10,
    rows_deleted=2,
    row_count=108,
    nodes={"n1": 6},
    base_version=None,
    engine="0.1.0",
    changes={"append_only": False, "fuse_state": None},
    decision={"sources": {}, "detail": None},
)


def test_a_certificate_reads_back_as_it_was_written() -> None:
    assert Certificate.from_json(CERTIFICATE.to_json()) == CERTIFICATE
    assert "\n" not in CERTIFICATE.to_json()


def test_a_first_certificate_has_no_from_frontier() -> None:
    first = replace(CERTIFICATE, from_frontier=None, reason=None, row_count=None)
    assert Certificate.from_json(first.to_json()) == first


def test_a_certificate_of_an_earlier_release_lacks_members() -> None:
    members = json.loads(CERTIFICATE.to_json())
    del members["changes"], members["decision"]
    assert Certificate.from_dict(members) == replace(CERTIFICATE, changes={}, decision=None)


def test_members_of_a_later_release_are_ignored() -> None:
    members = json.loads(CERTIFICATE.to_json()) | {"colour": "green"}
    assert Certificate.from_json(json.dumps(members)) == CERTIFICATE


def test_the_same_refresh_is_told_by_id_lease_and_version() -> None:
    assert CERTIFICATE.is_same_refresh(replace(CERTIFICATE, rows_inserted=0))
    for other in (
        replace(CERTIFICATE, refresh_id="r-8"),
        replace(CERTIFICATE, epoch=4),
        replace(CERTIFICATE, version=8),
    ):
        assert not CERTIFICATE.is_same_refresh(other)


@pytest.mark.parametrize("kind", list(NoteKind))
def test_a_note_reads_back_as_it_was_written(kind: NoteKind) -> None:
    for note in (Note(kind, CERTIFICATE), Note(kind, None), Note(kind, CERTIFICATE, folded_version=0, parent=3)):
        assert Note.parse(note.to_text()) == note


@pytest.mark.parametrize("text", [None, "", "hello", "[1]", "3", '{"kind": "refresh"}', "null"])
def test_what_others_write_is_no_note(text: str | None) -> None:
    assert Note.parse(text) is None
