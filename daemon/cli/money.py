"""Commands about money."""

import csv
import io
import re
import sys

import click

from config.units import Money
from daemon.cli.errors import USAGE, Stop
from daemon.cli.table import money, table, when
from daemon.cli.talk import as_json, daemon, show

_BUDGET = re.compile(
    r"(?P<scope>all|project|user|cloud|job)(?::(?P<subject>[^/]+))?(?:/(?P<period>hour|day|week|month|total))?"
)


@click.command()
@as_json
@click.pass_context
def budgets(ctx: click.Context, as_json: bool) -> None:
    """List budgets: spent, leased, left."""
    with daemon(ctx) as client:
        found = client.get("/budgets")
    rows = [
        (
            b["id"],
            money(b["spent_micro"]),
            money(b["leased_micro"]),
            money(b["cap_micro"]),
            money(b["left_micro"]),
            b["at_cap"],
            when(b["period_end"]),
        )
        for b in found
    ]
    head = ("budget", "spent", "leased", "cap", "left", "at the cap", "starts anew")
    show(found, table(head, rows, right=("spent", "leased", "cap", "left")), as_json=as_json)


@click.group()
def budget() -> None:
    """Set a budget."""


@budget.command("set")
@click.argument("name")
@click.argument("amount")
@click.option(
    "--at-cap",
    type=click.Choice(["stop", "hold"]),
    default=None,
    help="Stop running jobs at the cap, or hold new ones before it.",
)
@as_json
@click.pass_context
def set_budget(ctx: click.Context, name: str, amount: str, at_cap: str | None, as_json: bool) -> None:
    """Set NAME, such as all/month, project:vision/day or job:digits/total, to AMOUNT, such as "20 USD"."""
    match = _BUDGET.fullmatch(name)
    if not match:
        raise Stop(
            USAGE,
            "bad_budget",
            f"{name!r} is no budget",
            "write SCOPE[:SUBJECT]/PERIOD, like all/month or project:vision/day",
        )
    scope = match["scope"]
    with daemon(ctx) as client:
        currency = client.get("/status")["currency"]
        try:
            cap = Money.parse(amount, currency)
        except ValueError as error:
            raise Stop(USAGE, "bad_amount", str(error)) from error
        if cap.currency != currency:
            raise Stop(USAGE, "bad_currency", f"budgets are in {currency} here, not {cap.currency}")
        answer = client.post(
            "/budgets",
            {
                "scope": scope,
                "subject": match["subject"] or "",
                "period": match["period"] or ("total" if scope == "job" else "month"),
                "cap_micro": cap.micro,
                "at_cap": at_cap or "",
            },
        )
    show(answer, answer["message"], as_json=as_json)


@click.command()
@click.option("--month", default="", help="Such as 2026-12 (default: this month).")
@click.option(
    "--by", type=click.Choice(["project", "user", "job", "machine", "cloud"]), default="project", show_default=True
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@as_json
@click.pass_context
def costs(ctx: click.Context, month: str, by: str, as_csv: bool, as_json: bool) -> None:
    """List what a month has cost, from the ledger."""
    with daemon(ctx) as client:
        currency = client.get("/status")["currency"]
        found = client.get("/costs", month=month, by=by)
    if as_csv:
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow([by, "amount", "currency", "native_amount", "native_currency", "fx_rate", "machines"])
        for row in found:
            amount = Money(row["amount_micro"], currency).exact().split()[0]
            writer.writerow(
                [
                    row[by],
                    amount,
                    currency,
                    row["native_amount"],
                    row["native_currency"],
                    row["fx_rate"],
                    " ".join(row["machines"]),
                ]
            )
        sys.stdout.write(text.getvalue())
        return
    rows = [(row[by], money(row["amount_micro"], currency), str(len(row["machines"]))) for row in found]
    rows.append(("total", money(sum(row["amount_micro"] for row in found), currency), ""))
    show(found, table((by, "cost", "machines"), rows, right=("cost", "machines")), as_json=as_json)
