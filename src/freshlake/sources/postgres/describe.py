"""Tables as the database's catalog has them, read with plain queries so that all of it belongs to one snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from freshlake.errors import TableNotFound
from freshlake.sources.postgres.server import Server
from freshlake.sources.postgres.tables import Column, Identity, Partition, Table, TableKind
from freshlake.sources.postgres.types import SourceType

if TYPE_CHECKING:
    import psycopg

_OWN_SCHEMAS = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND n.nspname !~ '^freshlake_'"

_NAMES = f"""
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE {_OWN_SCHEMAS} AND (%(schemas)s::text[] IS NULL OR n.nspname = ANY (%(schemas)s::text[]))
  AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND NOT c.relispartition
ORDER BY 1
"""

_OIDS = """
SELECT n.nspname::text, c.relname::text, c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN unnest(%(schemas)s::text[], %(names)s::text[]) AS w (schema, name) ON w.schema = n.nspname AND w.name = c.relname
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""

# The policies count as text of their parse trees: enough to tell that something changed.
_TABLES = """
SELECT c.oid::bigint AS oid, n.nspname::text AS schema, c.relname::text AS name, c.relkind::text AS kind,
       c.relreplident::text AS identity, pg_get_userbyid(c.relowner)::text AS owner,
       c.relpersistence::text AS persistence, c.relfilenode::bigint AS storage,
       EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid AND NOT i.inhdetachpending) AS has_parent,
       c.relkind <> 'p' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid) AS has_children,
       CASE WHEN c.relrowsecurity THEN md5(c.relforcerowsecurity || coalesce((
           SELECT string_agg(concat_ws(',', p.polname, p.polcmd, p.polpermissive, p.polroles, p.polqual,
                                       p.polwithcheck), ';' ORDER BY p.polname)
           FROM pg_policy p WHERE p.polrelid = c.oid), '')) ELSE '' END AS row_security,
       c.relrowsecurity AND row_security_active(c.oid) AS hides_rows,
       pg_has_role(c.relowner, 'USAGE') AS is_owned
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (%(oids)s::oid[])
ORDER BY c.oid
"""

_COLUMNS = """
SELECT attrelid::bigint, attnum::int, attname::text, atttypid::bigint, atttypmod, format_type(atttypid, atttypmod),
       a.xmin::text::bigint, attnotnull, attgenerated::text
FROM pg_attribute a WHERE attrelid = ANY (%(oids)s::oid[]) AND attnum > 0 AND NOT attisdropped ORDER BY attrelid, attnum
"""

# The primary key, or else the first unique index over columns that are never NULL.
_KEYS = """
SELECT DISTINCT ON (i.indrelid) i.indrelid::bigint, array(
    SELECT a.attname::text FROM unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k (number, at)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.at)
FROM pg_index i
WHERE i.indrelid = ANY (%(oids)s::oid[]) AND i.indisunique AND i.indimmediate AND i.indisvalid
  AND i.indpred IS NULL AND i.indexprs IS NULL
  AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = i.indrelid AND NOT a.attnotnull
                  AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]))
ORDER BY i.indrelid, i.indisprimary DESC, i.indexrelid
"""

_PARTITIONS = """
WITH RECURSIVE tree (root, oid) AS (
    SELECT c.oid, c.oid FROM pg_class c WHERE c.oid = ANY (%(oids)s::oid[]) AND c.relkind = 'p'
    UNION ALL
    SELECT t.root, i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid AND NOT i.inhdetachpending
)
SELECT t.root::bigint, c.oid::bigint, n.nspname::text, c.relname::text, c.relfilenode::bigint, c.relreplident::text
FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind <> 'p' ORDER BY t.root, c.oid
"""

_TYPES = """
WITH RECURSIVE used (oid) AS (
    SELECT unnest(%(types)s::oid[])
    UNION
    SELECT unnest(ARRAY[t.typbasetype, t.typelem]) FROM used u JOIN pg_type t ON t.oid = u.oid
)
SELECT t.oid::bigint, n.nspname::text, t.typname::text, t.typtype::text, t.typbasetype::bigint, t.typtypmod,
       coalesce(e.oid, 0)::bigint, coalesce(e.typdelim, ',')::text,
       array(SELECT l.enumlabel::text FROM pg_enum l WHERE l.enumtypid = t.oid ORDER BY l.enumsortorder)
FROM used u JOIN pg_type t ON t.oid = u.oid JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
"""

_SUBSCRIBED = "SELECT srrelid::bigint FROM pg_subscription_rel WHERE srrelid = ANY (%(family)s::oid[])"

Row = tuple[Any, ...]


def table_names(cursor: psycopg.Cursor[Any], schemas: Sequence[str] | None = None) -> list[str]:
    """The tables of the given schemas (all but the server's and Freshlake's own); partitions belong to their parent."""
    return [str(row[0]) for row in _rows(cursor, _NAMES, schemas=list(schemas) if schemas is not None else None)]


def describe(cursor: psycopg.Cursor[Any], server: Server, names: Iterable[str]) -> dict[str, Table]:
    """Tables by their names `schema.table`; raises TableNotFound."""
    wanted = [_split(name) for name in names]
    found = {
        (schema, name): oid
        for schema, name, oid in _rows(
            cursor, _OIDS, schemas=[schema for schema, _ in wanted], names=[name for _, name in wanted]
        )
    }
    for schema, name in wanted:
        if (schema, name) not in found:
            raise TableNotFound(
                f"there is no table {schema}.{name} in database {server.database}",
                hint="names are schema.table, in the case that the database shows",
            )
    tables = describe_oids(cursor, server, found.values())
    return {table.full_name: table for table in tables.values()}


def describe_oids(cursor: psycopg.Cursor[Any], server: Server, oids: Iterable[int]) -> dict[int, Table]:
    """Tables by their numbers, whatever they are called now; those that are gone are left out."""
    wanted = list(oids)
    columns = _grouped(_rows(cursor, _COLUMNS, oids=wanted))
    keys = {oid: tuple(names) for oid, names in _rows(cursor, _KEYS, oids=wanted)}
    partitions = _grouped(_rows(cursor, _PARTITIONS, oids=wanted))
    types = _types(cursor, {row[2] for rows in columns.values() for row in rows})
    family = [*wanted, *(row[0] for rows in partitions.values() for row in rows)]
    subscribed = {oid for (oid,) in _rows(cursor, _SUBSCRIBED, family=family)}
    tables = {}
    for facts in _named(cursor, _TABLES, oids=wanted):
        oid = facts["oid"]
        tables[oid] = Table(
            **{**facts, "kind": TableKind(facts["kind"]), "identity": Identity(facts["identity"])},
            columns=tuple(_column(row, types) for row in columns[oid]),
            key=keys.get(oid, ()),
            partitions=tuple(Partition(o, s, n, f, Identity(i)) for o, s, n, f, i in partitions[oid]),
            is_subscribed=not subscribed.isdisjoint({oid, *(row[0] for row in partitions[oid])}),
            money_digits=server.money_digits,
        )
    return tables


def _column(row: Row, types: Mapping[int, Row]) -> Column:
    number, name, type_oid, modifier, written, made, not_null, generated = row
    return Column(number, name, _type(types, type_oid, modifier), written, made, not_null, generated)


def _type(types: Mapping[int, Row], oid: int, modifier: int) -> SourceType:
    _, schema, name, kind, base, base_modifier, element, delimiter, labels = types[oid]
    return SourceType(
        oid,
        schema,
        name,
        kind,
        modifier,
        base=_type(types, base, base_modifier) if kind == "d" else None,
        # what a column adds to an array type, it adds to the elements
        element=_type(types, element, modifier) if element else None,
        delimiter=delimiter,
        labels=tuple(labels),
    )


def _types(cursor: psycopg.Cursor[Any], oids: Iterable[int]) -> dict[int, Row]:
    return {row[0]: row for row in _rows(cursor, _TYPES, types=sorted(oids))}


def _grouped(rows: Iterable[Row]) -> defaultdict[int, list[Row]]:
    groups: defaultdict[int, list[Row]] = defaultdict(list)
    for first, *rest in rows:
        groups[first].append(tuple(rest))
    return groups


def _rows(cursor: psycopg.Cursor[Any], query: str, **parameters: object) -> list[Row]:
    return cursor.execute(query, parameters).fetchall()


def _named(cursor: psycopg.Cursor[Any], query: str, **parameters: object) -> list[dict[str, Any]]:
    rows = _rows(cursor, query, **parameters)
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _split(name: str) -> tuple[str, str]:
    schema, dot, table = name.partition(".")
    if not dot or not schema or not table:
        raise TableNotFound(f"{name} is not a table of a database", hint="write schema.table")
    return schema, table
