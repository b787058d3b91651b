"""The published JSON schema of job files: `python -m daemon.jobfile.schema`."""

import json
import sys
from typing import Any

from daemon.jobfile.spec import JobSpec


def schema() -> dict[str, Any]:
    """Return the schema, with the short forms that people may write."""
    found = JobSpec.model_json_schema()
    words = found["properties"]
    words["budget"] = {"anyOf": [words["budget"], {"type": ["string", "number"], "examples": ["20 USD"]}]}
    words["checkpoint"] = {"anyOf": [words["checkpoint"], {"type": "string"}]}
    for word in ("after", "outputs", "secrets"):
        words[word] = {"anyOf": [words[word], {"type": "string"}]}
    words["matrix"] = {"type": "object", "additionalProperties": {"type": "array"}}
    words["num_nodes"] = {"const": 1}
    found["required"] = ["run"]
    found["title"] = "frugald job file"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=2, sort_keys=True) + "\n")
