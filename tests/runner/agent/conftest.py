from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.agent.site import Rented


@pytest.fixture
def rented(tmp_path: Path) -> Iterator[Rented]:
    machine = Rented(tmp_path)
    yield machine
    machine.close()
