"""The bill of AWS as Cost Explorer gives it; the answers are given out by moto's server."""

import http.client
import json
from collections.abc import Iterator
from datetime import date

import pytest
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

from config.aws_settings import AwsSettings
from pricing.aws.bill import AwsBill
from pricing.aws.clients import Clients
from pricing.bill import BilledDay, BillError

SINCE, UNTIL = date(2026, 12, 1), date(2026, 12, 3)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def clients(server: str, monkeypatch: pytest.MonkeyPatch) -> Clients:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    post(server, "/moto-api/reset", {})
    return Clients(AwsSettings())


@pytest.fixture
def bill(clients: Clients) -> AwsBill:
    return AwsBill(clients, "install")


def post(server: str, path: str, body: object) -> None:
    connection = http.client.HTTPConnection(server.removeprefix("http://"))
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    assert connection.getresponse().status < 300
    connection.close()


def answers(server: str, *pages: dict[str, object]) -> None:
    """Let the next questions be answered by these pages, in their order."""
    post(server, "/moto-api/static/ce/cost-and-usage-results", {"results": list(pages)})


def a_day(day: int, *groups: tuple[str, str], estimated: bool = False) -> dict[str, object]:
    return {
        "TimePeriod": {"Start": f"2026-12-{day:02}", "End": f"2026-12-{day + 1:02}"},
        "Total": {},
        "Groups": [
            {"Keys": [f"frugald:machine${machine}"], "Metrics": {"UnblendedCost": {"Amount": amount, "Unit": "USD"}}}
            for machine, amount in groups
        ],
        "Estimated": estimated,
    }


def test_each_group_is_one_machine_and_the_nameless_one_is_untagged(server: str, bill: AwsBill) -> None:
    answers(
        server,
        {"ResultsByTime": [a_day(1, ("", "0.4"), ("m1", "12.34")), a_day(2, ("m1", "1.5"), estimated=True), a_day(3)]},
    )
    assert bill.days(SINCE, UNTIL) == [
        BilledDay(date(2026, 12, 1), "", 400_000, "USD", estimated=False),
        BilledDay(date(2026, 12, 1), "m1", 12_340_000, "USD", estimated=False),
        BilledDay(date(2026, 12, 2), "m1", 1_500_000, "USD", estimated=True),
    ]


def test_every_page_is_read(server: str, bill: AwsBill) -> None:
    answers(
        server,
        {"ResultsByTime": [a_day(1, ("m1", "1"))], "NextPageToken": "second"},
        {"ResultsByTime": [a_day(1, ("m2", "2"))], "NextPageToken": "third"},
        {"ResultsByTime": [a_day(2, ("m1", "3"))]},
    )
    assert [(line.machine, line.micro) for line in bill.days(SINCE, UNTIL)] == [
        ("m1", 1_000_000),
        ("m2", 2_000_000),
        ("m1", 3_000_000),
    ]


@pytest.mark.parametrize(
    ("amount", "micro"), [("0.0000004999", 0), ("1.2345678901", 1_234_568), ("1.2E-4", 120), ("-0.5", -500_000)]
)
def test_amounts_of_any_number_of_digits_are_read(server: str, bill: AwsBill, amount: str, micro: int) -> None:
    answers(server, {"ResultsByTime": [a_day(1, ("m1", amount))]})
    assert [line.micro for line in bill.days(SINCE, UNTIL)] == [micro]


def test_one_question_asks_for_the_days_by_machine_of_this_installation_only(
    server: str, bill: AwsBill, clients: Clients
) -> None:
    asked: list[dict[str, object]] = []
    clients.home("ce").meta.events.register(
        "provide-client-params.cost-explorer.GetCostAndUsage", lambda params, **_: asked.append(dict(params))
    )
    bill.days(SINCE, UNTIL)
    assert asked == [
        {
            "TimePeriod": {"Start": "2026-12-01", "End": "2026-12-03"},
            "Granularity": "DAILY",
            "Metrics": ["UnblendedCost"],
            "GroupBy": [{"Type": "TAG", "Key": "frugald:machine"}],
            "Filter": {"Tags": {"Key": "frugald:owner", "Values": ["install"]}},
        }
    ]


@pytest.mark.parametrize(
    ("code", "says"),
    [("AccessDeniedException", "ce:GetCostAndUsage"), ("DataUnavailableException", "asked again tomorrow")],
)
def test_a_refusal_says_what_to_do(clients: Clients, bill: AwsBill, code: str, says: str) -> None:
    def refuse(**_: object) -> None:
        raise ClientError({"Error": {"Code": code}}, "GetCostAndUsage")

    clients.home("ce").meta.events.register("before-send.cost-explorer.GetCostAndUsage", refuse)
    with pytest.raises(BillError, match=says) as refused:
        bill.days(SINCE, UNTIL)
    assert code in str(refused.value)


def test_a_partition_without_cost_explorer_says_so() -> None:
    bill = AwsBill(Clients(AwsSettings(partition="aws-us-gov")), "install")
    with pytest.raises(BillError, match="Cost Explorer doesn't exist"):
        bill.days(SINCE, UNTIL)
