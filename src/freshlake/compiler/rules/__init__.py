"""One file per operator: RULES says which rule differentiates which operator, STORED which ones are stored nodes."""

from freshlake.compiler.rules.aggregate import AGGREGATE
from freshlake.compiler.rules.filter import FILTER
from freshlake.compiler.rules.inner_join import INNER_JOIN
from freshlake.compiler.rules.node import NODE
from freshlake.compiler.rules.project import PROJECT
from freshlake.compiler.rules.scan import SCAN
from freshlake.compiler.rules.union_all import UNION_ALL

RULES = {rule.operator: rule for rule in (SCAN, NODE, FILTER, PROJECT, UNION_ALL, INNER_JOIN)}

STORED = {rule.operator: rule for rule in (AGGREGATE,)}

__all__ = ["RULES", "STORED"]
