"""The command line against a real daemon."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.cli.table import table, width
from tests.daemon.cli.conftest import Cli
from tests.e2e.light import light_job
from tests.e2e.test_serve import wait_until

HEAVY = ("sqlmodel", "sqlalchemy", "httpx", "fastapi", "numpy", "pydantic", "apscheduler")


@pytest.fixture(scope="session")
def finished(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job that has run to its end; its id."""
    changes = {"train.py 120": "train.py 8", "name: steady": "name: 训练任务-1"}
    folder = light_job(tmp_path_factory.mktemp("job") / "训练任务", "steady", changes)
    run = cli("submit", "--wait", "--json", str(folder))
    assert run.returncode == 0, run.stderr
    return str(json.loads(run.stdout)["id"])


def test_the_version_costs_no_imports() -> None:
    code = (
        "import sys\nfrom daemon.cli import main\nsys.argv = ['frugald', '--version']\n"
        "try:\n    main()\nexcept SystemExit as e:\n    assert not e.code\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.splitlines() == ["frugald 0.1.0", "[]"]


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "--all"],
        ["status"],
        ["offers"],
        ["machines", "--all"],
        ["events"],
        ["budgets"],
        ["costs"],
        ["alerts"],
        ["offers", "--gpu", "A100", "--market", "spot"],
        ["events", "--all"],
        ["costs", "--by", "machine"],
        ["advise"],
        ["advise", "--all"],
    ],
)
def test_lists_fit_a_terminal_and_speak_json(cli: Cli, finished: str, words: list[str]) -> None:
    assert finished
    shown = cli(*words)
    assert shown.returncode == 0, shown.stderr
    if words[0] not in {"events", "status"}:
        assert max(map(width, shown.stdout.splitlines())) <= 100
    read = cli(*words, "--json")
    for line in [read.stdout] if words[0] != "events" else read.stdout.splitlines():
        json.loads(line)


def test_a_job_is_found_by_id_beginning_and_name(cli: Cli, finished: str) -> None:
    for name in (finished, finished[:5], "训练任务-1"):
        assert json.loads(cli("job", name, "--json").stdout)["id"] == finished
    assert "succeeded" in cli("job", finished).stdout


def test_why_shows_the_winner_the_runners_up_and_the_reasons(cli: Cli, finished: str) -> None:
    shown = cli("why", finished).stdout
    assert "won: sandbox/" in shown
    assert "then: sandbox/" in shown
    assert "passed over: " in shown
    (decision,) = json.loads(cli("why", finished, "--json").stdout)["decisions"]
    assert decision["winner"]["market"] == "spot"
    assert len(decision["runners_up"]) == 3


def test_the_log_is_printed_whole(cli: Cli, finished: str) -> None:
    assert "from step 0" in cli("logs", finished).stdout
    assert "from step 0" in cli("logs", "-f", finished).stdout
    assert "from step 0" in json.loads(cli("logs", "--json", finished).stdout.splitlines()[0])["text"]


def test_costs_as_csv_name_machine_price_and_rate(cli: Cli, finished: str) -> None:
    assert finished
    (row, *_) = csv.DictReader(io.StringIO(cli("costs", "--by", "machine", "--csv").stdout))
    assert row["machine"] == row["machines"]
    assert row["currency"] == "USD"
    assert float(row["amount"]) == float(row["native_amount"]) > 0
    assert row["native_currency"] == "USD"
    assert row["fx_rate"] == "1"


def test_advice_says_that_no_offerings_are_known_and_that_nothing_is_bought(cli: Cli, finished: str) -> None:
    assert finished
    shown = cli("advise").stdout
    assert "no reserved offerings are known" in shown
    assert "never buys" in shown
    (used, *_) = json.loads(cli("advise", "--json").stdout)["used"]
    assert used["cost_micro"] > 0 < used["hours"]
    assert used["offerings"] == []


def test_a_dry_run_shows_offers_and_budgets_and_rents_nothing(cli: Cli, finished: str, tmp_path: Path) -> None:
    steady = str(light_job(tmp_path / "steady", "steady"))
    before = len(json.loads(cli("machines", "--all", "--json").stdout))
    answer = json.loads(cli("submit", "--dry-run", "--json", steady).stdout)
    assert len(answer["offers"]) == 3
    assert answer["worst_micro"] == 1_000_000  # its own budget
    assert answer["budgets"][0]["id"] == "all/month"
    assert "Nothing was rented." in cli("submit", "--dry-run", steady).stdout
    assert len(json.loads(cli("machines", "--all", "--json").stdout)) == before
    assert finished


def test_hold_release_and_cancel(cli: Cli, tmp_path: Path) -> None:
    folder = light_job(tmp_path / "long", "steady", {"name: steady": "name: long", "train.py 120": "train.py 3000"})
    job = json.loads(cli("submit", "--json", str(folder)).stdout)["id"]

    def state() -> str:
        return str(json.loads(cli("job", job, "--json").stdout)["state"])

    wait_until(lambda: state() == "running", 60)
    assert cli("release", job).returncode == 6
    assert cli("hold", "long").returncode == 0
    wait_until(lambda: state() == "held" and not json.loads(cli("machines", "--json").stdout), 60)
    held = json.loads(cli("job", job, "--json").stdout)
    assert held["checkpoint_step"] > 0
    assert "frugald release" in held["reason"]
    assert cli("release", job).returncode == 0
    wait_until(lambda: state() == "running", 60)
    assert cli("cancel", job).returncode == 0
    wait_until(lambda: state() == "cancelled", 60)
    assert cli("cancel", job).returncode == 6
    assert json.loads(cli("job", job, "--json").stdout)["runs"][1]["restored_step"] == held["checkpoint_step"]


def test_a_budget_is_set_and_a_bad_one_refused(cli: Cli, finished: str) -> None:
    assert cli("budget", "set", "project:speech/day", "12.50 USD", "--at-cap", "hold").returncode == 0
    (row,) = [b for b in json.loads(cli("budgets", "--json").stdout) if b["id"] == "project:speech/day"]
    assert (row["cap_micro"], row["at_cap"], row["origin"]) == (12_500_000, "hold", "cli")
    assert cli("budget", "set", f"job:{finished[:5]}/total", "3").returncode == 0
    for name, amount in (("nonsense", "1"), ("all/month", "lots"), ("all/month", "5 CNY"), ("project/day", "5")):
        assert cli("budget", "set", name, amount).returncode == 2, name


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["job", "nobody"], 4),
        (["logs", "nobody"], 4),
        (["cancel", "nobody"], 4),
        (["nonsense"], 2),
        (["job"], 2),
        (["--socket", "/tmp/no-such-socket", "jobs"], 5),
        (["costs", "--month", "soon"], 2),
        (["submit", "/no/such/file"], 2),
    ],
)
def test_errors_have_a_code_a_sentence_and_a_next_step(cli: Cli, words: list[str], code: int) -> None:
    run = cli(*words)
    assert run.returncode == code
    assert run.stderr.startswith("frugald: ")
    assert "Traceback" not in run.stderr
    error = json.loads(cli(*words, "--json").stderr)["error"]
    assert error["code"]
    assert error["message"]


def test_a_refused_file_says_all_that_is_wrong(cli: Cli, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("run: x\nresources:\n  use_spott: true\nbudget: lots\n")
    run = cli("submit", str(bad))
    assert run.returncode == 2
    assert "did you mean `use_spot`" in run.stderr
    assert "lots" in run.stderr


def test_bad_settings_are_told_at_once(cli: Cli) -> None:
    (cli.folder / "bad.toml").write_text('[lease]\nlenght = "5m"\n[inbox]\nevery = "soon"\n')
    run = cli("check-config", config="bad.toml")
    assert run.returncode == 78
    assert run.stdout.count("bad.toml:") == 2
    assert cli("jobs", config="bad.toml").returncode == 78
    assert cli("check-config").stdout == "ok\n"


def test_reap_lists_and_ends_machines_that_nobody_knows(cli: Cli) -> None:
    assert json.loads(cli("reap", "--json").stdout) == []


def test_a_table_is_cut_to_fit_also_in_chinese() -> None:
    text = table(("name", "why"), [("训练" * 30, "x" * 120), ("a\x1b[31mb", "短")])
    assert max(map(width, text.splitlines())) <= 100
    assert "\x1b" not in text
    assert "…" in text
