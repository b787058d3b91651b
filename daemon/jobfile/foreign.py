"""Words of others: SkyPilot's that stand elsewhere here, those that can't be honoured yet, and what frugald calls the rest."""

from collections.abc import Iterator
from typing import Any

from config.toml_lines import Key
from daemon.jobfile.problems import Problem

Values = dict[str, Any]

_NOT_YET: dict[Key, str] = {
    ("num_nodes",): "num_nodes",
    ("image",): "image",
    ("resources", "image_id"): "image",
    ("environment",): "environment",
    ("ports",): "ports",
    ("resources", "ports"): "ports",
    ("file_mounts",): "file_mounts",
    ("storage_mounts",): "file_mounts",
    ("volumes",): "file_mounts",
    ("schedule",): "schedule",
    ("idle",): "idle",
    ("resources", "autostop"): "idle",
    ("keep_on_failure",): "keep_on_failure",
    ("service",): "service",
    ("pool",): "service",
    ("config",): "config",
    ("experimental",): "config",
    ("event_callback",): "event_callback",
    ("resources", "cloud"): "place",
    ("resources", "region"): "place",
    ("resources", "zone"): "place",
    ("resources", "ordered"): "ordered",
    ("ordered",): "ordered",
    ("resources", "instance_type"): "instance_type",
    ("resources", "accelerator_args"): "machine",
    ("resources", "disk_tier"): "machine",
    ("resources", "network_tier"): "machine",
    ("resources", "local_disk"): "machine",
    ("resources", "labels"): "labels",
    ("resources", "priority"): "priority",
}
OURS = {
    "command": "run", "commands": "run", "script": "run", "init": "setup", "env": "envs", "environment_variables": "envs",
    "working_dir": "workdir", "chdir": "workdir", "repos": "workdir", "files": "workdir", "nodes": "num_nodes",
    "gpu": "resources.accelerators", "gres": "resources.accelerators", "mem": "resources.memory", "cpu": "resources.cpus",
    "disk": "resources.disk_size", "shm_size": "resources.memory", "spot_policy": "resources.use_spot",
    "max_price": "resources.max_hourly_cost", "backends": "resources.infra", "regions": "resources.infra",
    "partition": "resources.infra", "time": "max_duration", "timeout": "max_duration", "stop_duration": "checkpoint.grace",
    "stop_grace": "checkpoint.grace", "dependency": "after", "depends_on": "after", "begin": "not_before",
    "job_name": "name", "max_cost": "budget", "cap": "budget", "requeue": "retry.on_events", "restart": "retry.on_events",
}  # fmt: skip
_MOVED: tuple[tuple[Key, Key], ...] = (
    (("resources", "any_of"), ("any_of",)),
    (("resources", "job_recovery"), ("job_recovery",)),
    (("job_recovery", "recover_on_exit_codes"), ("recover_on_exit_codes",)),
)


def refuse(values: Values, lines: dict[Key, int]) -> Iterator[Problem]:
    """Take out every word that can't be honoured yet, with a problem for each. One node is what every job gets."""
    for path, code in _NOT_YET.items():
        for table, place in _tables(values, path[:-1]):
            if path[-1] in table:
                value = table.pop(path[-1])
                if code != "num_nodes" or value != 1 or isinstance(value, bool):
                    yield Problem.at((*place, path[-1]), lines, f"not_yet_{code}")


def move(values: Values, lines: dict[Key, int]) -> Iterator[Problem]:
    """Put words that SkyPilot keeps elsewhere where frugald has them; yield a problem for one that stands in both places."""
    for old, new in _MOVED:
        table = values.get(str(old[0]))
        if not isinstance(table, dict) or old[1] not in table:
            continue
        value = table.pop(old[1])
        if new[0] in values:
            yield Problem.at(old, lines, "twice", word=str(new[0]))
        else:
            values[str(new[0])] = value
            lines.update(
                {new + path[len(old) :]: line for path, line in list(lines.items()) if path[: len(old)] == old}
            )


def _tables(values: Values, above: Key) -> Iterator[tuple[Values, Key]]:
    """Yield the table at a place and where it is; the tables of `any_of` are resources like any."""
    if not above:
        yield values, ()
        return
    if isinstance(table := values.get("resources"), dict):
        yield table, ("resources",)
    choices = values.get("any_of")
    for number, choice in enumerate(choices if isinstance(choices, list) else ()):
        if isinstance(choice, dict):
            yield choice, ("any_of", number)
