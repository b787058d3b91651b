"""Every warning of the agent has a sentence, and the other way round."""

import re
from pathlib import Path

from config.reason import sentences
from runner import agent


def test_every_warning_has_a_sentence_and_is_used() -> None:
    [folder] = agent.__path__
    sources = "".join(path.read_text() for path in Path(folder).glob("*.py"))
    used = set(re.findall(r'"(agent\.[a-z_]+)"', sources)) - {"agent.pyz"}
    assert used == {code for code in sentences() if code.startswith("agent.")}
