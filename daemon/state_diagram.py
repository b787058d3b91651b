"""Draw the tables of moves as the diagram that the docs show."""

from daemon.states import ATTEMPT_MOVES, JOB_MOVES, MACHINE_MOVES, Moves


def diagram() -> str:
    """Return docs/states.md: every state and every move, as Mermaid diagrams."""
    parts = ["# States\n", "Drawn from `daemon/states.py`; `tests/docs/test_states_drawn.py` compares.\n"]
    for title, table in (("Job", JOB_MOVES), ("Attempt", ATTEMPT_MOVES), ("Machine", MACHINE_MOVES)):
        parts += [f"## {title}\n", "```mermaid", "stateDiagram-v2", *_lines(table), "```\n"]
    return "\n".join(parts)


def _lines(table: Moves) -> list[str]:
    kind = type(next(iter(table)))
    lines = [f"    [*] --> {next(iter(kind))}"]
    lines += [f"    {old} --> {new}" for old in kind for new in kind if new in table.get(old, ())]
    return lines + [f"    {state} --> [*]" for state in kind if state not in table]
