"""The settings of Spark that decide what a query means: kept with a stream table as they were when it was created."""

from __future__ import annotations

from pyspark.sql import SparkSession

SCHEMA = "freshlake.schema"
"""The schema in which a definition's unqualified names are looked up."""

ZONE = "spark.sql.session.timeZone"

PARSED = {
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.relationPrecedence": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.legacy.bangEqualsNot": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.identifierClause": "false",
    "spark.sql.legacy.interval.enabled": "false",
    "spark.sql.legacy.parser.havingWithoutGroupByAsWhere": "false",
    "spark.sql.legacy.setopsPrecedence.enabled": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
"""How a text is read, and Spark's own way of it."""

_ANALYZED = (
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.groupByAliases",
    "spark.sql.groupByOrdinal",
    "spark.sql.orderByOrdinal",
    "spark.sql.session.collation.enabled",
    "spark.sql.analyzer.failAmbiguousSelfJoin",
    "spark.sql.analyzer.lowerEmptyGroupingSetToGlobalAggregate.enabled",
    "spark.sql.analyzer.preferColumnOverLcaInArrayIndex",
    "spark.sql.chunkBase64String.enabled",
    "spark.sql.collation.allowInMapKeys",
    "spark.sql.cteRecursionLevelLimit",
    "spark.sql.function.concatBinaryAsString",
    "spark.sql.function.eltOutputAsString",
    "spark.sql.functionResolution.sessionOrder",
    "spark.sql.lateralColumnAlias.enableImplicitResolution",
    "spark.sql.legacy.allowNegativeScaleOfDecimal",
    "spark.sql.legacy.allowNullComparisonResultInArraySort",
    "spark.sql.legacy.allowParameterlessCount",
    "spark.sql.legacy.allowStarWithSingleTableIdentifierInCount",
    "spark.sql.legacy.allowZeroIndexInFormatString",
    "spark.sql.legacy.charVarcharAsString",
    "spark.sql.legacy.createEmptyCollectionUsingStringType",
    "spark.sql.legacy.cteDuplicateAttributeNames",
    "spark.sql.legacy.ctePrecedencePolicy",
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate",
    "spark.sql.legacy.duplicateBetweenInput",
    "spark.sql.legacy.followThreeValuedLogicInArrayExists",
    "spark.sql.legacy.groupingIdWithAppendedUserGroupBy",
    "spark.sql.legacy.histogramNumericPropagateInputType",
    "spark.sql.legacy.inSubqueryNullability",
    "spark.sql.legacy.integerGroupingId",
    "spark.sql.legacy.literal.pickMinimumPrecision",
    "spark.sql.legacy.lpadRpadAlwaysReturnString",
    "spark.sql.legacy.negativeIndexInArrayInsert",
    "spark.sql.legacy.percentileDiscCalculation",
    "spark.sql.legacy.persistentCatalogFirst",
    "spark.sql.legacy.scalarSubqueryAllowGroupByNonEqualityCorrelatedPredicate",
    "spark.sql.legacy.scalarSubqueryCountBugBehavior",
    "spark.sql.legacy.sizeOfNull",
    "spark.sql.legacy.statisticalAggregate",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled",
    "spark.sql.pivotMaxValues",
    "spark.sql.preserveCharVarcharTypeInfo",
    "spark.sql.retainGroupColumns",
    "spark.sql.transposeMaxValues",
    "spark.sql.tvf.allowMultipleTableArguments.enabled",
    "spark.sql.variant.allowDuplicateKeys",
)
"""What an analyzed query holds: these have had their effect then."""

EVALUATED = (
    ZONE,
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.columnNameOfCorruptRecord",
    "spark.sql.cteRecursionRowLimit",
    "spark.sql.icu.caseMappings.enabled",
    "spark.sql.json.enableExactStringParsing",
    "spark.sql.json.enablePartialResults",
    "spark.sql.jsonGenerator.ignoreNullFields",
    "spark.sql.legacy.allowHashOnMapType",
    "spark.sql.legacy.castComplexTypesToString.enabled",
    "spark.sql.legacy.codingErrorAction",
    "spark.sql.legacy.collationAwareHashFunctions",
    "spark.sql.legacy.csv.enableDateTimeParsingFallback",
    "spark.sql.legacy.disableMapKeyNormalization",
    "spark.sql.legacy.javaCharsets",
    "spark.sql.legacy.json.allowEmptyString.enabled",
    "spark.sql.legacy.json.enableDateTimeParsingFallback",
    "spark.sql.legacy.nullInEmptyListBehavior",
    "spark.sql.legacy.raiseErrorWithoutErrorClass",
    "spark.sql.legacy.truncateForEmptyRegexSplit",
    "spark.sql.variant.validateUnicodeInJsonParsing",
)
"""What expressions look up when they run."""

PINNED_SETTINGS = (*PARSED, *_ANALYZED, *EVALUATED)


def pinned_settings(spark: SparkSession) -> dict[str, str]:
    """Those that were set, since the others are Spark's own also later; the time zone would be that of a machine."""
    found = settings_of(spark)
    pinned = {key: found[key] for key in PINNED_SETTINGS if key in found}
    return {**pinned, **zone_of(spark), SCHEMA: spark.catalog.currentDatabase()}


def zone_of(spark: SparkSession) -> dict[str, str]:
    return {ZONE: str(spark.conf.get(ZONE))}


def settings_of(spark: SparkSession) -> dict[str, str]:
    """All that is set in a session, in one call."""
    found = spark._jsparkSession.sessionState().conf().getAllConfs()
    lines = found.toSeq().mkString("\x01", "\x02\x01", "")
    pairs = (line.removeprefix("\x01(").removesuffix(")").partition(",") for line in lines.split("\x02"))
    return {key: value for key, _, value in pairs}
