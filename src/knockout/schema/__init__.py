"""The objects that `--json` prints: one for each command, and one for an error. docs/json.md shows them.

`python -m knockout.schema` prints their JSON Schema, which is committed as docs/schema.json. Within a version fields
are only added. A number that does not exist is null: JSON has neither NaN nor infinity.
"""

from knockout.schema.check import Arm, Check, Cost, DataFacts, Level, Outlook, Pace, PlannedRun
from knockout.schema.common import VERSION, Change, Floor, Metric, Plan, RunName, Trainer, Value, Verdict, Version
from knockout.schema.diff import ArmDifference, DesignDifference, Diff, DiffSide, Identity, VerdictMove
from knockout.schema.judged import (
    Claim,
    Compare,
    Contrast,
    FailedRun,
    FloorGap,
    Report,
    SeedDifference,
    UnpairedContrast,
)
from knockout.schema.status import ArmSeed, Coordinator, Counts, End, LostRun, RunningRun, Status
from knockout.schema.text import Document, Error, Failure, document_text, json_schema, schema_text

__all__ = [
    "VERSION",
    "Arm",
    "ArmDifference",
    "ArmSeed",
    "Change",
    "Check",
    "Claim",
    "Compare",
    "Contrast",
    "Coordinator",
    "Cost",
    "Counts",
    "DataFacts",
    "DesignDifference",
    "Diff",
    "DiffSide",
    "Document",
    "End",
    "Error",
    "FailedRun",
    "Failure",
    "Floor",
    "FloorGap",
    "Identity",
    "Level",
    "LostRun",
    "Metric",
    "Outlook",
    "Pace",
    "Plan",
    "PlannedRun",
    "Report",
    "RunName",
    "RunningRun",
    "SeedDifference",
    "Status",
    "Trainer",
    "UnpairedContrast",
    "Value",
    "Verdict",
    "VerdictMove",
    "Version",
    "document_text",
    "json_schema",
    "schema_text",
]
