import base64
import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import explain, load
from config.load import BadSettings, Problem, check_config, load_settings
from config.settings import AlertSettings, BudgetSettings, Settings
from config.units import Money

Check = Callable[..., list[str]]
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings file is found by accident."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(load, "SEARCH", (Path("frugald.toml"), tmp_path / "etc.toml"))


@pytest.fixture
def problems(tmp_path: Path) -> Check:
    """Write a settings file and return what is wrong with it, without the folder's name."""

    def check(text: str, environ: dict[str, str] | None = None) -> list[str]:
        (tmp_path / "frugald.toml").write_text(text, encoding="utf-8")
        return [str(problem) for problem in check_config(Path("frugald.toml"), environ or {})]

    return check


def test_nothing_at_all_means_the_defaults() -> None:
    assert load_settings(None, {}) == Settings()


def test_the_file_is_looked_for_where_the_docs_say(tmp_path: Path) -> None:
    for name, tick in (("etc.toml", 2), ("frugald.toml", 3), ("env.toml", 4), ("arg.toml", 5)):
        (tmp_path / name).write_text(f'tick = "{tick}s"')
        environ = {"FRUGALD_CONFIG": "env.toml"} if (tmp_path / "env.toml").exists() else {}
        path = Path("arg.toml") if name == "arg.toml" else None
        assert load_settings(path, environ).tick == timedelta(seconds=tick)


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    [problem] = check_config(tmp_path / "none.toml", {})
    assert (problem.line, problem.message) == (0, "can't be read: No such file or directory")
    assert check_config(None, {"FRUGALD_CONFIG": "none.toml"})
    assert "Is a directory" in check_config(tmp_path, {})[0].message


def test_every_error_of_a_file_is_told_at_once_with_its_line(problems: Check) -> None:
    text = """\
currencyy = "USD"
timezone = "Asia/Shangai"
[lease]
lenght = "20m"
shortest = "3h"
[[budgets]]
scope = "project"
capp = "20 USD"
[[budgets]]
cap = "20 CNY"
period = "monthly"
[clouds.sandbox]
sold_out_share = 2
boot = 3
interruptions = "ja"
seed = "x"
[prices]
files = "a.csv"
runners_up = 2
every = "0s"
"""
    assert problems(text) == [
        "frugald.toml:1: currencyy: unknown setting; did you mean `currency`?",
        "frugald.toml:2: timezone: there is no time zone `Asia/Shangai`; did you mean `Asia/Shanghai`?",
        "frugald.toml:4: lease.lenght: unknown setting; did you mean `length`?",
        "frugald.toml:5: lease.shortest: 3h is longer than `length`, 20m; keep `shortest` <= `length` <= `longest`",
        'frugald.toml:6: budgets[0].cap: is missing; add `cap = "100 USD"`',
        "frugald.toml:7: budgets[0].scope: a budget of scope `project` needs a subject; say which project",
        "frugald.toml:8: budgets[0].capp: unknown setting; did you mean `cap`?",
        "frugald.toml:10: budgets[1].cap: there is no rate for CNY; say what one CNY is worth in USD: `CNY = ...` in [rates]",
        "frugald.toml:11: budgets[1].period: `monthly` is not one of hour, day, week, month, total; did you mean `month`?",
        "frugald.toml:13: clouds.sandbox.sold_out_share: `2` is out of range; it must be at most 1",
        "frugald.toml:14: clouds.sandbox.boot: 3 is not a duration; write it with its unit, like `90s`, `30m` or `1h30m`",
        "frugald.toml:15: clouds.sandbox.interruptions: `ja` is neither true nor false; write `true` or `false`, without quotes",
        "frugald.toml:16: clouds.sandbox.seed: `x` is not a whole number; write it like `3`",
        'frugald.toml:18: prices.files: `a.csv` is not a list; write `files = ["...", "..."]`',
        "frugald.toml:19: prices.runners_up: unknown setting; it belongs in [choose]",
        "frugald.toml:20: prices.every: no time at all won't do; write a duration above zero, like `1s`",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('currency = "usd"', "1: currency: `usd` can't be used; write three capital letters, like `USD`"),
        ("state_dir = 3", "1: state_dir: `3` is not text; put it in quotes"),
        ("lease = 3", "1: lease: `3` is not a table; write `[lease]` and its settings on the lines below"),
        (
            "[budgets]\ncap = 1",
            "1: budgets: is one table and should be a list of them; write `[[budgets]]`, with two brackets",
        ),
        ('default_budget = "-1 USD"', "1: default_budget: '-1 USD' is below zero; write an amount like `20 USD`"),
        ("[prices]\njump = nan", "2: prices.jump: `nan` is not a number to reckon with; write a finite number"),
        ("[rates]\nUSD = 1", "2: rates.USD: is the accounting currency itself; leave it out"),
        ("[rates]\ncny = 1", "2: rates.cny: is not a currency; write three capital letters, like `CNY`"),
        ("[rates]\nCNY = 0", "2: rates.CNY: `0` is out of range; it must be more than 0"),
        (
            "[store]\nurl = 'bucket'",
            "2: store.url: is not an address; write it like `s3://bucket/prefix` or `file:///srv/store`",
        ),
        (
            "[clouds.sandbox]\nenabled = false",
            "2: clouds.sandbox.enabled: no cloud is enabled, so no job could ever run; enable one of sandbox, local, aws",
        ),
        (
            "[clouds.aws]\nenabled = true",
            "2: clouds.aws.enabled: its machines reach no store but a bucket; set `store.url` to what `frugald setup aws` prints, like `s3://bucket/prefix`",
        ),
        (
            "[store]\nurl = 's3://bucket/p'\n[clouds.aws]\nenabled = true",
            "3: clouds.sandbox.enabled: machines on this computer get no credentials for the bucket of `store.url`; write `enabled = false` in [clouds.sandbox], or leave `store.url` out",
        ),
        (
            "[lease]\nlength = '3h'",
            "2: lease.length: 3h is longer than `longest`, 2h; keep `shortest` <= `length` <= `longest`",
        ),
        (
            '[[budgets]]\ncap = 1\nsubject = "x"',
            "3: budgets[0].subject: a budget of scope `all` has no subject; leave it out, or name another scope",
        ),
        (
            '[[budgets]]\ncap = 1\nscope = "cloud"\nsubject = "sandbx"',
            "4: budgets[0].subject: there is no cloud `sandbx`; did you mean `sandbox`?",
        ),
        (
            "[[budgets]]\ncap = 1\nthresholds = [50, 50]",
            "3: budgets[0].thresholds: 50 is there 2 times; name each once",
        ),
        (
            "[[budgets]]\ncap = 1\n[[budgets]]\ncap = 2",
            "4: budgets[1].cap: `all /month` is there already, as budgets[0]; leave one out",
        ),
        ("budgets = [3]", "1: budgets[0]: `3` is not a table; write `[[budgets]]` and its settings on the lines below"),
        ("tick = 20m", '1: tick: is not valid TOML; write `tick = "20m"`, with quotes'),
        ('tick = "1s', "1: is not valid TOML: Illegal character '\\n'"),
        ("mystery = 1", "1: mystery: unknown setting; known here: " + ", ".join(Settings.model_fields)),
    ],
)
def test_what_is_wrong_has_a_line_and_what_to_write_instead(problems: Check, text: str, problem: str) -> None:
    assert problems(text + "\n") == [f"frugald.toml:{problem}"]


@pytest.mark.parametrize(
    ("alert", "found"),
    [
        ({}, ["url: an alert of kind `webhook` needs an address", "secret: a webhook needs a secret to sign with"]),
        ({"url": "example.com", "secret": SECRET}, ["url: is not an address for an alert of kind `webhook`"]),
        ({"url": "https://[x", "secret": SECRET}, ["url: is not an address for an alert of kind `webhook`"]),
        ({"url": "https://a.example/x", "secret": "hunter2"}, ["secret: is not a webhook secret"]),
        (
            {"url": "https://a.example/x", "secret": SECRET, "old_secret": "whsec_!"},
            ["old_secret: is not a webhook secret"],
        ),
        (
            {"kind": "email", "url": "smtp://a.example"},
            ["to: an email alert needs it", "sender: an email alert needs it"],
        ),
        ({"kind": "email", "url": "https://a.example", "to": ["a@b.c"], "sender": "a@b.c"}, ["url: is not an address"]),
        ({"kind": "slack"}, ["url: an alert of kind `slack` needs an address"]),
        ({"kind": "slack", "url": "https://a.example/x"}, []),
        ({"url": "https://a.example/x", "secret": SECRET}, []),
    ],
)
def test_alerts_need_what_their_kind_needs(problems: Check, alert: dict[str, object], found: list[str]) -> None:
    lines = [f"{name} = {value!r}" for name, value in alert.items()]
    told = problems("[[alerts]]\nname = 'ops'\n" + "\n".join(lines))
    assert len(told) == len(found)
    assert all(f"alerts[0].{start}" in problem for problem, start in zip(told, found, strict=True))


def test_a_secret_is_never_shown(problems: Check) -> None:
    text = "[[alerts]]\nname = 'ops'\nurl = 'ftp://token-in-url'\nsecret = 'hunter2'\nold_secret = 77889\n"
    told = "\n".join(problems(text))
    assert told.count("frugald.toml:") == 3
    assert not any(word in told for word in ("hunter2", "77889", "token-in-url"))


def test_two_alerts_of_one_name_are_told(problems: Check) -> None:
    one = "[[alerts]]\nname = 'ops'\nkind = 'slack'\nurl = 'https://a.example'\n"
    assert problems(one * 2) == ["frugald.toml:6: alerts[1].name: `ops` is there already, as alerts[0]; leave one out"]


# ---------------------------------------------------------------- environment and credentials


def test_the_environment_goes_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "frugald.toml").write_text('tick = "5s"\n[lease]\nlength = "10m"\nend = "1m"\n[rates]\nEUR = 1.1\n')
    settings = load_settings(
        None,
        {
            "FRUGALD_LEASE__LENGTH": "15m",
            "FRUGALD_CLOUDS__SANDBOX__SEED": "7",
            "FRUGALD_CLOUDS__SANDBOX__INTERRUPTIONS": "false",
            "FRUGALD_RATES__CNY": "0.14",
            "FRUGALD_PRICES__FILES": '["a.csv", "b.json"]',
            "FRUGALD_BUDGETS": '[{"cap": "20 CNY"}]',
            "FRUGALD_CURRENCY": "",
            "FRUGALD_STORE_OPTIONS": "{}",
            "FRUGALD_CHECKPOINT_DIR": "/x",
        },
    )
    assert (settings.lease.length, settings.lease.end) == (timedelta(minutes=15), timedelta(minutes=1))
    assert settings.tick == timedelta(seconds=5)
    assert (settings.clouds.sandbox.seed, settings.clouds.sandbox.interruptions) == (7, False)
    assert settings.rates == {"EUR": 1.1, "CNY": 0.14}
    assert settings.prices.files == (Path("a.csv"), Path("b.json"))
    assert settings.budgets == (BudgetSettings(cap=Money(20_000_000, "CNY")),)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (
            "FRUGALD_LEASE__LENGHT",
            "1m",
            "FRUGALD_LEASE__LENGHT: unknown setting; did you mean `FRUGALD_LEASE__LENGTH`?",
        ),
        ("FRUGALD_CURENCY", "CNY", "FRUGALD_CURENCY: unknown setting; did you mean `FRUGALD_CURRENCY`?"),
        ("FRUGALD_PRICES__JUMP", "x", "FRUGALD_PRICES__JUMP: `x` is not a number; write it like `0.5`"),
        ("FRUGALD_PRICES__FILES", "[a", "FRUGALD_PRICES__FILES: is not JSON"),
        ("FRUGALD_LEASE__LENGTH", "5h", "FRUGALD_LEASE__LENGTH: 5h is longer than `longest`, 2h"),
        ("FRUGALD_BUDGETS", '[{"scope": "al", "cap": 1}]', "FRUGALD_BUDGETS: `al` is not one of"),
    ],
)
def test_a_bad_variable_is_told_by_its_name(name: str, value: Any, problem: str) -> None:
    [told] = check_config(None, {name: value})
    assert str(told).startswith(f"environment: {problem}")


def test_the_state_directory_is_used_where_none_is_set(tmp_path: Path) -> None:
    assert load_settings(None, {"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}).state_dir == Path("/var/lib/a")
    (tmp_path / "frugald.toml").write_text('state_dir = "mine"')
    assert load_settings(None, {"STATE_DIRECTORY": "/var/lib/a"}).state_dir == Path("mine")


def test_secrets_come_from_the_credentials_folder(tmp_path: Path) -> None:
    (tmp_path / "frugald.toml").write_text(
        "[[alerts]]\nname = 'dev'\nkind = 'slack'\n[[alerts]]\nname = 'ops'\nsecret = 'x'\n"
    )
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "alerts.ops.secret").write_text(SECRET + "\n")
    (folder / "alerts.ops.old_secret").write_text(SECRET)
    (folder / "alerts.ops.url").write_text("https://a.example/1\n")
    (folder / "alerts.dev.url").write_text("https://a.example/2")
    (folder / "aws").write_text("something else")
    dev, ops = load_settings(None, {"CREDENTIALS_DIRECTORY": str(folder)}).alerts
    assert (dev.url, ops.url) == ("https://a.example/2", "https://a.example/1")
    assert ops.secret is not None
    assert ops.secret.get_secret_value() == SECRET
    assert ops.old_secret == ops.secret


def test_a_credential_for_no_alert_is_told(tmp_path: Path) -> None:
    (tmp_path / "frugald.toml").write_text("[[alerts]]\nname = 'ops'\nkind = 'slack'\nurl = 'https://a.example'\n")
    (tmp_path / "alerts.opps.secret").write_text("x")
    (tmp_path / "alerts.ops.url").write_bytes(b"\xff")
    told = [str(problem) for problem in check_config(None, {"CREDENTIALS_DIRECTORY": str(tmp_path)})]
    assert told == [
        f"{tmp_path}/alerts.opps.secret: no alert is called `opps`; did you mean `ops`?",
        f"{tmp_path}/alerts.ops.url: can't be read: it is not UTF-8 text",
    ]
    assert "check $CREDENTIALS_DIRECTORY" in str(check_config(None, {"CREDENTIALS_DIRECTORY": "/no/such"})[0])


# ---------------------------------------------------------------- files of any kind


def test_windows_line_ends_and_a_byte_order_mark_are_fine(tmp_path: Path, problems: Check) -> None:
    (tmp_path / "frugald.toml").write_bytes(b'\xef\xbb\xbftick = "2s"\r\n[lease]\r\nend = "3m"\r\n')
    assert load_settings(None, {}).lease.end == timedelta(minutes=3)


def test_a_file_that_is_not_text_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "frugald.toml").write_bytes(b'tick = "2s"\ntimezone = "\xff"\n')
    assert [str(problem) for problem in check_config(None, {})] == [
        "frugald.toml:2: is not UTF-8 text; save the file as UTF-8"
    ]


def test_the_error_prints_all_problems() -> None:
    with pytest.raises(BadSettings, match="FRUGALD_TICK: ") as caught:
        load_settings(None, {"FRUGALD_TICK": "x", "FRUGALD_CURRENCY": "x"})
    assert len(caught.value.errors) == len(str(caught.value).splitlines()) == 2
    assert str(Problem("a.toml", 3, "b.c", "is wrong")) == "a.toml:3: b.c: is wrong"


VALUES = st.recursive(
    st.one_of(
        st.integers(-5, 5),
        st.booleans(),
        st.just(0.5),
        st.sampled_from(["", "1s", "all", "x", "10 USD", "[", "smtp://[", "../x"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["cap", "name", "scope", "sandbox", "x"]), inner)
    ),
    max_leaves=5,
)
KEYS = st.sampled_from([*explain.setting_keys(), ("lease",), ("clouds",), ("budgets",), ("alerts",), ("x",)])


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


@given(
    st.lists(st.tuples(KEYS, VALUES), max_size=6),
    st.dictionaries(KEYS, st.sampled_from(["1", "[1]", "{", "1s"]), max_size=2),
)
def test_any_values_are_loaded_or_refused_with_sentences(
    tmp_path_factory: pytest.TempPathFactory,
    written: list[tuple[tuple[str, ...], Any]],
    variables: dict[tuple[str, ...], str],
) -> None:
    text = "".join(f"{'.'.join(key)} = {_toml(value)}\n" for key, value in written)
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text(text, encoding="utf-8")
    environ = {"FRUGALD_" + "__".join(key).upper(): value for key, value in variables.items()}
    for problem in check_config(path, environ):
        assert problem.message
        assert problem.line or problem.file == "environment"


def test_every_required_setting_can_be_stood_in_for() -> None:
    required = {
        name
        for section in (BudgetSettings, AlertSettings)
        for name, field in section.model_fields.items()
        if field.is_required()
    }
    assert required == load._STAND_INS.keys()
    assert all(tomllib.loads(explain._EXAMPLES[name]) for name in required)
