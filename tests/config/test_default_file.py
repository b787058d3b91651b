"""`config/frugald.toml` is the default, shows every setting, and what it shows switched off works when switched on."""

import re
import tomllib
from pathlib import Path
from typing import Any

from config import settings
from config.load import load_settings
from config.settings import AlertSettings, BudgetSettings, Section, Settings

FILE = Path(settings.__file__).with_name("frugald.toml")
SWITCHED_ON = re.sub(r"^#(?=\S)", "", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_default_file_says_exactly_the_defaults() -> None:
    assert load_settings(FILE, {}) == Settings()


def test_it_shows_every_setting_where_it_belongs() -> None:
    def shown(section: type[Section], table: dict[str, Any]) -> None:
        for name, field in section.model_fields.items():
            assert name in table, f"{section.__name__}.{name}"
            if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
                shown(field.annotation, table[name])

    data = tomllib.loads(SWITCHED_ON)
    shown(Settings, data)
    shown(BudgetSettings, data["budgets"][0])
    shown(AlertSettings, data["alerts"][0])


def test_what_is_switched_off_shows_the_defaults_too() -> None:
    data = tomllib.loads(SWITCHED_ON)
    assert BudgetSettings(**data["budgets"][0]) == BudgetSettings(cap=data["budgets"][0]["cap"])
    alert = {name: value for name, value in data["alerts"][0].items() if name not in {"url", "secret", "old_secret"}}
    assert AlertSettings(**alert) == AlertSettings(name=alert["name"])


def test_it_works_with_everything_switched_on(tmp_path: Path) -> None:
    file = tmp_path / "frugald.toml"
    file.write_text(SWITCHED_ON.replace("whsec_...", "whsec_" + "QUJD" * 8), encoding="utf-8")
    loaded = load_settings(file, {})
    assert (len(loaded.budgets), len(loaded.alerts), loaded.rates) == (1, 1, {"CNY": 0.14})
