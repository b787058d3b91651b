"""The published JSON schema of job files: `python -m daemon.jobfile.schema > docs/jobfile.schema.json`."""

import json
import sys
from typing import Any

from daemon.jobfile.spec import JobSpec

_SHORT: dict[str, dict[str, Any]] = {
    "budget": {"type": ["string", "number"], "examples": ["20 USD"]},
    "checkpoint": {"type": "string", "examples": ["checkpoints"]},
    "job_recovery": {"type": "string", "examples": ["EAGER_NEXT_REGION"]},
    "recover_on_exit_codes": {"type": "integer"},
    "secrets": {"type": "string"},
}


def schema() -> dict[str, Any]:
    """Return the schema, with the short forms that people may write."""
    found = JobSpec.model_json_schema()
    words = found["properties"]
    for word, short in _SHORT.items():
        default = {"default": words[word].pop("default")} if "default" in words[word] else {}
        words[word] = {"anyOf": [words[word], short], **default}
    words["matrix"] = {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"type": "array", "minItems": 1, "items": {"type": ["string", "number", "boolean"]}},
    }
    words["num_nodes"] = {"const": 1}
    found["required"] = ["run"]
    found["title"] = "frugald job file"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def schema_text() -> str:
    """Return the schema as it is published."""
    return json.dumps(schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
