"""What belongs to the whole account: settings, prices, roles, the bucket."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from config.settings import Settings
from daemon.doctor import Finding
from daemon.doctor.aws_site import Site, bad, odd, ok, refused
from daemon.setup.aws_calls import DENIED, code_of
from daemon.setup.aws_names import SPOT_ROLE
from runner.store import StoreError, open_store

_PROBE = "doctor/probe"
_SHORTEST_S = 900  # the shortest session that STS gives
_OLD_NAMES = {None: "us-east-1", "": "us-east-1", "EU": "eu-west-1"}


def settings(given: Settings) -> Iterator[Finding]:
    """Look at what AWS has no part in."""
    if not given.clouds.aws.enabled:
        yield odd("settings", "off", "enable")
    if given.mode != "rent":
        yield ok("settings", "advises")
    elif any(budget.scope == "all" and budget.period == "month" for budget in given.budgets):
        yield ok("settings", "capped")
    else:
        yield odd("settings", "uncapped", "cap")


def prices(site: Site) -> Iterator[Finding]:
    """See that the price list answers."""
    region = site.aws.regions[0]
    try:
        pricing = site.clients.home("pricing")
    except KeyError:
        yield odd("prices", "no_price_list", "price_file")
        return
    found = pricing.get_products(
        ServiceCode="AmazonEC2",
        FormatVersion="aws_v1",
        MaxResults=1,
        Filters=[{"Type": "TERM_MATCH", "Field": "regionCode", "Value": region}],
    )["PriceList"]
    yield ok("prices", "prices") if found else bad("prices", "no_prices", "regions", region=region)


def roles(site: Site) -> Iterator[Finding]:
    """See that machines have a role, and take on the one that grants are cut from."""
    iam, names = site.clients.home("iam"), site.names
    try:
        profile = iam.get_instance_profile(InstanceProfileName=names.machine_role)["InstanceProfile"]
        has = any(role["RoleName"] == names.machine_role for role in profile["Roles"])
        yield (
            ok("roles", "role", name=names.machine_role)
            if has
            else bad("roles", "no_role", "setup", name=names.machine_role)
        )
    except iam.exceptions.NoSuchEntityException:
        yield bad("roles", "no_role", "setup", name=names.machine_role)
    yield _job_role(site)


def spot_role(site: Site) -> Iterator[Finding]:
    """See that EC2 may run spot machines here."""
    iam = site.clients.home("iam")
    try:
        iam.get_role(RoleName=SPOT_ROLE)
        yield ok("spot role", "role", name=SPOT_ROLE)
    except iam.exceptions.NoSuchEntityException:
        yield bad("spot role", "no_role", "setup", name=SPOT_ROLE)


def bucket(site: Site) -> Iterator[Finding]:
    """See where the bucket lies, and put, read and delete an object below the store's prefix as the daemon would."""
    url = site.settings.store.url
    if not url.startswith("s3://"):
        yield bad("bucket", "no_store", "store", url=url or "store", wanted=site.names.store_url)
        return
    yield from _place(site)
    profile = site.settings.store.profile or site.aws.profile
    options = {"profile": profile} if profile else {}
    try:
        store = open_store(url, options)
        store.put(_PROBE, b"probe")
        store.get(_PROBE)
        store.delete(_PROBE)
        yield ok("bucket", "bucket", url=url)
    except StoreError as error:
        yield bad("bucket", "said", "setup", why=str(error))


def _place(site: Site) -> Iterator[Finding]:
    region = site.aws.regions[0]
    try:
        told = site.clients.get("s3", region).get_bucket_location(Bucket=site.names.bucket)["LocationConstraint"]
    except ClientError as error:
        if code_of(error) in DENIED:
            yield refused("bucket", error, "s3:GetBucketLocation")
        return  # a bucket that isn't there is told of by the store
    lies = _OLD_NAMES.get(told, told)
    away = [name for name in site.aws.regions if name != lies]
    if away:
        yield odd("bucket", "bucket_away", "bucket_away", lies=lies, away=", ".join(away))


def _job_role(site: Site) -> Finding:
    name = site.names.job_role
    wanted = site.names.arn("iam", f"role/{name}")
    sts = site.clients.get("sts", site.aws.regions[0])
    try:
        sts.assume_role(RoleArn=wanted, RoleSessionName="doctor", DurationSeconds=_SHORTEST_S)
    except ClientError as error:
        if code_of(error) in DENIED:  # STS says the same of a role that isn't there
            return bad("roles", "cannot_assume", "setup_or_policy", name=name, action="sts:AssumeRole")
        if code_of(error) == "NoSuchEntity":
            return bad("roles", "no_role", "setup", name=name)
        return refused("roles", error, "sts:AssumeRole")
    return ok("roles", "role", name=name)
