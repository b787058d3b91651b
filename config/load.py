"""Settings from a TOML file, the environment over it, and secrets from systemd's credentials folder; all errors at once."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_origin

from pydantic import ValidationError

from config.checks import complaints
from config.explain import dotted, explain, is_section, near, setting_keys
from config.section import Section
from config.settings import Settings
from config.toml_lines import Key, parse

SEARCH = (Path("frugald.toml"), Path("/etc/frugald/frugald.toml"))
_PREFIX = "FRUGALD_"
_STAND_INS = {"cap": "1", "name": "unnamed"}  # for required settings that are bad, so that the rest can be checked
_CREDENTIAL = re.compile(r"alerts\.(?P<alert>.+)\.(?P<field>secret|old_secret|url)")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the settings: where (`line` 0 where there is none), what, and what to write instead."""

    file: str
    line: int
    key: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """Print as `frugald.toml:12: lease.lenght: unknown setting; did you mean `length`?`."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (place, self.key, self.message) if part) + (
            f"; {self.hint}" if self.hint else ""
        )


class BadSettings(Exception):
    """The settings can't be used; `errors` holds everything that is wrong with them, in the order of the file."""

    def __init__(self, errors: list[Problem]) -> None:
        """Keep the problems, those of a file in the order of its lines."""
        self.errors = tuple(sorted(errors, key=lambda problem: (problem.file, problem.line)))
        super().__init__("\n".join(str(error) for error in self.errors))


@dataclass(frozen=True, slots=True)
class _Place:
    file: str
    line: int = 0
    name: str = ""  # how the setting is called there, where it isn't its dotted key


@dataclass(slots=True)
class _Draft:
    """Settings on their way: raw values, where each was written, and what is wrong so far."""

    data: dict[str, Any] = field(default_factory=dict)
    places: dict[Key, _Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    bad: set[Key] = field(default_factory=set)

    def place(self, key: Key) -> _Place:
        """Return where `key`, or the innermost table around it, was written."""
        around = (key[:end] for end in range(len(key), -1, -1))
        return next((self.places[each] for each in around if each in self.places), _Place("settings"))

    def complain(self, key: Key, message: str, hint: str) -> None:
        """Note a problem with `key`, once."""
        if key not in self.bad:
            self.bad.add(key)
            place = self.place(key)
            self.problems.append(Problem(place.file, place.line, place.name or dotted(key), message, hint))


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Return the settings of the file at `path`, else of the first file found, else the defaults. Raises BadSettings.

    Without `path` these are looked for: `$FRUGALD_CONFIG`, `./frugald.toml`, `/etc/frugald/frugald.toml`. Over the file go
    `$FRUGALD_<SECTION>__<KEY>`, the secrets in `$CREDENTIALS_DIRECTORY`, and `$STATE_DIRECTORY` if no `state_dir` is set.
    """
    draft = _Draft()
    if not _read_file(draft, path, environ):
        raise BadSettings(draft.problems)
    _read_environment(draft, environ)
    _read_state_directory(draft, environ)
    _read_credentials(draft, environ)
    settings = _validated(draft)
    for complaint in complaints(settings):
        if not any(_touches(bad, key) for key in (*complaint.keys, *complaint.given) for bad in draft.bad):
            written = (key for key in complaint.keys if key in draft.places)
            draft.complain(next(written, complaint.keys[0]), complaint.message, complaint.hint)
    if draft.problems:
        raise BadSettings(draft.problems)
    return settings


def check_config(path: Path | None, environ: Mapping[str, str]) -> list[Problem]:
    """Return everything that is wrong with the settings `load_settings` would load; empty when nothing is."""
    try:
        load_settings(path, environ)
    except BadSettings as bad:
        return list(bad.errors)
    return []


# ---------------------------------------------------------------- the file


def _read_file(draft: _Draft, path: Path | None, environ: Mapping[str, str]) -> bool:
    """Read the settings file, if there is one; say whether the draft is worth going on with."""
    named = path or (Path(environ["FRUGALD_CONFIG"]) if environ.get("FRUGALD_CONFIG") else None)
    for candidate in (named,) if named else SEARCH:
        try:
            raw = candidate.read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            if named:
                draft.problems.append(
                    Problem(str(candidate), 0, "", f"can't be read: {error.strerror}", "check the path")
                )
        except OSError as error:
            draft.problems.append(Problem(str(candidate), 0, "", f"can't be read: {error.strerror}"))
            return False
        else:
            return _parse(draft, str(candidate), raw)
    return not draft.problems


def _parse(draft: _Draft, file: str, raw: bytes) -> bool:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        draft.problems.append(Problem(file, line, "", "is not UTF-8 text", "save the file as UTF-8"))
        return False
    parsed = parse(text)
    draft.data = parsed.data
    draft.places = {key: _Place(file, line) for key, line in parsed.lines.items()} | {(): _Place(file)}
    draft.bad = {flaw.key for flaw in parsed.flaws if flaw.key}
    draft.problems += [Problem(file, flaw.line, dotted(flaw.key), flaw.message, flaw.hint) for flaw in parsed.flaws]
    return parsed.readable


# ---------------------------------------------------------------- around the file


def _read_environment(draft: _Draft, environ: Mapping[str, str]) -> None:
    names = {_PREFIX + "__".join(path).upper() for path in setting_keys()}
    for name, text in sorted(environ.items()):
        if not name.startswith(_PREFIX) or name == "FRUGALD_CONFIG" or not text:
            continue
        key = _setting(Settings, name.removeprefix(_PREFIX).split("__"))
        if key:
            _override(draft, key, name, text)
        elif "__" in name:
            draft.problems.append(Problem("environment", 0, name, "unknown setting", near(name, names)))
        elif alike := get_close_matches(
            name.removeprefix(_PREFIX), [each.removeprefix(_PREFIX) for each in names], 1, 0.85
        ):
            hint = f"did you mean `{_PREFIX}{alike[0]}`?"
            draft.problems.append(Problem("environment", 0, name, "unknown setting", hint))


def _setting(section: type[Section], names: list[str]) -> tuple[str, ...] | None:
    """Return the key of the setting that an environment variable names; a key of [rates] keeps its capitals."""
    name, rest = names[0].lower(), names[1:]
    if name not in section.model_fields:
        return None
    inner = section.model_fields[name].annotation
    if isinstance(inner, type) and is_section(inner):
        found = _setting(inner, rest) if rest else None
        return (name, *found) if found else None
    if not rest:
        return (name,)
    return (name, rest[0]) if get_origin(inner) is dict and len(rest) == 1 else None


def _override(draft: _Draft, key: tuple[str, ...], name: str, text: str) -> None:
    """Put a variable's text over the file's value; a list or a table is written as JSON."""
    value: Any = text
    if text.lstrip()[:1] in {"[", "{"}:
        try:
            value = json.loads(text)
        except ValueError as error:
            draft.problems.append(
                Problem("environment", 0, name, f"is not JSON: {error}", 'write lists like ["a", "b"]')
            )
            return
    table = draft.data
    for part in key[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            return  # the file has no table there, which is complained of anyway
        table = inner
    table[key[-1]] = value
    draft.places = {each: place for each, place in draft.places.items() if each[: len(key)] != key}
    draft.places[key] = _Place("environment", name=name)


def _read_state_directory(draft: _Draft, environ: Mapping[str, str]) -> None:
    folder = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if folder and "state_dir" not in draft.data:
        draft.data["state_dir"] = folder
        draft.places["state_dir",] = _Place("environment", name="STATE_DIRECTORY")


def _read_credentials(draft: _Draft, environ: Mapping[str, str]) -> None:
    folder = environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return
    try:
        files = sorted(Path(folder).iterdir())
    except OSError as error:
        draft.problems.append(
            Problem(folder, 0, "", f"can't be read: {error.strerror}", "check $CREDENTIALS_DIRECTORY")
        )
        return
    alerts = dict(_named_alerts(draft.data.get("alerts")))
    for file in files:
        match = _CREDENTIAL.fullmatch(file.name)
        if match and match["alert"] in alerts:
            _fill(draft, ("alerts", alerts[match["alert"]], match["field"]), file)
        elif match:
            hint = near(match["alert"], alerts) or "name the file `alerts.<name>.secret` after one"
            draft.problems.append(Problem(str(file), 0, "", f"no alert is called `{match['alert']}`", hint))


def _named_alerts(alerts: object) -> Iterator[tuple[str, int]]:
    for index, alert in enumerate(alerts if isinstance(alerts, list) else ()):
        if isinstance(alert, dict) and isinstance(alert.get("name"), str):
            yield alert["name"], index


def _fill(draft: _Draft, key: tuple[str, int, str], file: Path) -> None:
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        draft.problems.append(Problem(str(file), 0, "", f"can't be read: {why}"))
        draft.bad.add(key)
        return
    table, index, name = key
    draft.data[table][index][name] = text
    draft.places[key] = _Place(str(file), name=dotted(key))


# ---------------------------------------------------------------- judging


def _validated(draft: _Draft) -> Settings:
    """Note every bad value and leave it out, until what is left makes settings."""
    while True:
        try:
            return Settings.model_validate(draft.data)
        except ValidationError as invalid:
            for error in invalid.errors(include_url=False):
                draft.complain(error["loc"], *explain(error))
                _mend(draft.data, error["loc"], missing=error["type"] == "missing")


def _mend(data: dict[str, Any], key: Key, *, missing: bool) -> None:
    """Take a bad value out of `data`, with the whole list where it is an element, or put a stand-in for a missing one."""
    path = key[: max(end for end in range(1, len(key) + 1) if isinstance(key[end - 1], str))]
    table: Any = data
    for part in path[:-1]:
        try:
            table = table[part]
        except (LookupError, TypeError):  # an earlier error took it out already
            return
    if missing:
        table[path[-1]] = _STAND_INS[str(path[-1])]
    else:
        table.pop(path[-1], None)


def _touches(bad: Key, key: Key) -> bool:
    """Say whether two keys are the same setting, or one lies inside the other."""
    return bad[: len(key)] == key[: len(bad)]
