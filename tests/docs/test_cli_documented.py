"""docs/cli.md names every command, every option and every exit code; docs/api.md every call."""

import re
from pathlib import Path

import click
import pytest

from daemon.cli import COMMANDS, errors, main_group

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "cli.md").read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    command = main_group.get_command(click.Context(main_group), name)
    assert command is not None
    nested = list(command.commands.values()) if isinstance(command, click.Group) else [command]
    assert f"`{name}" in DOC
    for one in nested:
        flags = [
            flag
            for option in one.params
            if isinstance(option, click.Option)
            for flag in option.opts
            if flag.startswith("--")
        ]
        assert [flag for flag in flags if flag not in DOC] == []


def test_every_exit_code_is_documented() -> None:
    codes = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", DOC, re.MULTILINE)} == codes


def test_every_call_of_the_api_is_documented() -> None:
    from daemon import api

    paths = re.findall(r'@\w+\.(?:get|post)\("([^"]+)"', Path(api.__file__).read_text())
    doc = (ROOT / "docs" / "api.md").read_text()
    assert len(paths) > 10
    assert [path for path in paths if path not in doc and path.removeprefix("/jobs/{name}") not in doc] == []
