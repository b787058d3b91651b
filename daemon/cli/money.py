"""Commands about money."""

import csv
import io
import re
import sys
from typing import Any

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
        bills = client.get("/bills")
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
    shown = table((by, "cost", "machines"), rows, right=("cost", "machines"))
    show(found, "\n".join([shown, *(_bill(bill, currency) for bill in bills)]), as_json=as_json)


def _bill(bill: dict[str, Any], currency: str) -> str:
    """Return the line on a cloud's own bill."""
    days = bill["since"] if bill["since"] == bill["until"] else f"{bill['since']} to {bill['until']}"
    billed, ledger = money(bill["billed_micro"], currency), money(bill["ledger_micro"], currency)
    so_far = " so far" if bill["estimated"] else ""
    return f"{bill['cloud']} billed {billed}{so_far} for {days}; the ledger has {ledger} for these days"


@click.command()
@click.option("--all", "everything", is_flag=True, help="Show every offering, not the best of each machine type only.")
@as_json
@click.pass_context
def advise(ctx: click.Context, everything: bool, as_json: bool) -> None:
    """Say which reserved capacity would have paid for what was run in the last 30 days; buy nothing."""
    with daemon(ctx) as client:
        currency = client.get("/status")["currency"]
        found = client.get("/advice")
    show(found, "\n".join(_advice(found, currency, everything=everything)), as_json=as_json)


def _advice(found: dict[str, Any], currency: str, *, everything: bool) -> list[str]:
    if not found["used"]:
        return [f"nothing was rented in the last {found['days']} days, so there is nothing to advise on"]
    rows = [
        (
            f"{used['cloud']}/{used['region']}/{used['type']}",
            f"{used['hours']:.1f}",
            money(used["cost_micro"], currency),
            *_offering(offering, currency),
        )
        for used in found["used"]
        for offering in (used["offerings"] if everything else used["offerings"][:1]) or [None]
    ]
    head = ("ran in 30 days", "hours", "cost", "reserved, upfront", "an hour", "pays from", "a month")
    lines = [table(head, rows, right=("hours", "cost", "an hour", "pays from"))]
    if not found["known"]:
        lines.append("no reserved offerings are known: no price source here lists any")
    return [*lines, "frugald never buys reserved capacity: this is advice only"]


def _offering(offering: dict[str, Any] | None, currency: str) -> tuple[str, str, str, str]:
    if offering is None:
        return "-", "-", "-", "no offering known"
    years = offering["term_hours"] // 8760
    kind = "" if offering["offering_class"] == "standard" else f" {offering['offering_class']}"
    name = f"{years}y{kind}, {offering['payment'].removesuffix(' Upfront').lower()}"
    hourly = money(offering["effective_hourly_micro"], currency)
    return name, hourly, f"{offering['hours_needed']:.0f} h", _verdict(offering, currency)


def _verdict(offering: dict[str, Any], currency: str) -> str:
    if offering["pays"]:
        return f"saves {money(offering['saved_micro'], currency)}"
    if offering["never"]:
        return "never pays"
    return f"{money(-offering['saved_micro'], currency)} dearer"
