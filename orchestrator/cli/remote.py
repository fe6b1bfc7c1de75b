"""Commands for a contest's site: `sparring login`, `logout`, and `submit --to`, `status --from` and `board --from`."""

import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

import typer
from pydantic import TypeAdapter, ValidationError
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from orchestrator.bundles import receipts
from orchestrator.cli import console, results_output
from orchestrator.cli.console import Json, err, out, safe_text
from orchestrator.cli.submission_package import pack_folder
from orchestrator.domain.submissions import Side
from orchestrator.errors import Problem, Rejected, ServiceUnavailable, UsageError
from orchestrator.files import write_whole
from orchestrator.intake.ignored_paths import PACKAGE_SUFFIX
from orchestrator.intake.manifest import read_manifest
from orchestrator.remote import client as client_module
from orchestrator.remote.client import ServiceClient, ServiceRefused
from orchestrator.remote.token_store import TokenStore
from orchestrator.remote.upload import upload_file
from orchestrator.scoring.results_file import Results

_FIRST_LOOK, _LONGEST_LOOK = 1.0, 15.0
"""Seconds between two requests for the state of an admission: at first, and at most."""
_results: TypeAdapter[list[Results]] = TypeAdapter(list[Results])

Address = Annotated[str, typer.Argument(help="The contest's site.", metavar="URL")]


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """Options for a site instead of a contest's folder."""

    to: Annotated[
        str | None, typer.Option("--to", help="The site of a contest in place of DIR: https://cup.example.org.")
    ] = None
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="With --to: end when the submission has arrived, before it is admitted.")
    ] = False
    receipt: Annotated[
        Path | None, typer.Option("--receipt", help="With --to: where the receipt is kept; default: ID.receipt.json.")
    ] = None


@dataclass(frozen=True, slots=True)
class RemoteSubmission:
    """A submission to a site: a path or an image, and its description."""

    submission: str
    team: str
    task: str
    name: str
    side: Side | None

    def words(self) -> dict[str, str]:
        """Returns the description's fields as texts."""
        side = self.side.value if self.side else ""
        return {"team": self.team, "task": self.task, "name": self.name, "side": side}


@console.command
def login(
    url: Address,
    scope: Annotated[
        Literal["submit", "read"], typer.Option("--scope", help="What the token allows: submit, or only read.")
    ] = "submit",
    name: Annotated[
        str, typer.Option("--name", help="What the token is called on the site; default: this machine's name.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Get a token for a contest's site: approve this machine in the browser. Only you can read its file.

    The variable SPARRING_TOKEN can hold the token instead, for programs that run unattended.
    """
    address = client_module.service_address(url)
    client_module.require_private(address)
    client = ServiceClient(address)
    begun = client.post("/device", {"name": name or platform.node() or "sparring", "scope": scope}).json()
    err.print(f"open     {safe_text(begun['verification_uri'])}", soft_wrap=True)
    err.print(f"code     {safe_text(begun['user_code'])}: type it there, within 10 minutes", soft_wrap=True)
    token = _poll_for_token(client, begun)
    store = TokenStore()
    store.keep(address, token)
    account = ServiceClient(address, token).get("/me")
    if as_json:
        console.print_json({"site": address, "account": account, "file": str(store.path)})
        return
    out.print(f"site     {address}", soft_wrap=True)
    out.print(f"you are  {safe_text(account['name'])}, of {safe_text(', '.join(account['teams']) or 'no team yet')}")
    out.print(f"token    until {safe_text(account['expires'])}, in {safe_text(str(store.path))}", soft_wrap=True)


@console.command
def logout(url: Address, as_json: Json = False) -> None:
    """Revoke the token for a contest's site, and forget it."""
    address, store = client_module.service_address(url), TokenStore()
    try:
        ServiceClient(address, store.require(address)).request("DELETE", "/token")
    finally:
        store.forget(address)
    if as_json:
        console.print_json({"site": address})
        return
    out.print(f"site     {address}: its token is revoked", soft_wrap=True)


def print_status(source: str, *, as_json: bool) -> None:
    """Prints the state of a site's contest, and the latest submissions of the user's teams.

    Raises UsageError, ServiceUnavailable.
    """
    client = _client(source, TokenStore().find(client_module.service_address(source)))
    found = client.get("/status")
    own = client.get("/arrivals") if TokenStore().find(client.address) else []
    if as_json:
        console.print_json({**found, "arrivals": own})
        return
    out.print(f"contest  {safe_text(found['title'])}, {safe_text(found['state'])}")
    if found["closes"]:
        why = f" ({safe_text(found['close_reason'], 300)})" if found["close_reason"] else ""
        by = f", by the organizers{why}" if found["closed_by_organizers"] else ""
        out.print(
            f"closes   {safe_text(found['closes'])}{by}; its clock says {safe_text(found['time'])}", soft_wrap=True
        )
    for each in found["rounds"]:
        why = f": {safe_text(each['blocked'])}" if each["blocked"] else ""
        out.print(f"round    {safe_text(each['task'])} {safe_text(each['round'])} {safe_text(each['state'])}{why}")
    out.print(f"waiting  {found['waiting_arrivals']} arrivals of all teams")
    for each in own[-20:]:
        called = each["submission"] or each["name"] or each["file_name"] or each["image"]
        out.print(f"yours    {safe_text(called)} of {safe_text(each['team'])}: {safe_text(each['state'])}")


def print_boards(source: str, phase: str | None, task: str | None, *, as_json: bool) -> None:
    """Prints the public boards of a site's contest. Raises UsageError, ServiceUnavailable."""
    client = _client(source, "")
    query = urlencode({"round": phase or "", "task": task or ""})
    document = client.get(f"/boards?{query}")
    if as_json:
        console.print_json(document)
        return
    try:
        results = _results.validate_python(document)
    except ValidationError as error:
        raise ServiceUnavailable(f"{client.address} shows boards of another version: update sparring") from error
    if not results:
        raise UsageError(f"no round has results at {client.address} yet; see `sparring status --from {client.address}`")
    results_output.print_season(results, as_json=False)


def submit(what: RemoteSubmission, to: str, options: RemoteOptions, *, as_json: bool) -> None:
    """Submits to a site, shows the admission, and keeps the receipt.

    Raises:
        Rejected: with all reasons.
        UsageError, ServiceUnavailable: like `ServiceClient.request`.
    """
    if options.no_wait:
        why = "a submission has a receipt once it is admitted; leave --no-wait out, or fetch the receipt on the site"
        console.refuse_ignored({"--receipt": options.receipt}, why)
    address = client_module.service_address(to)
    client = ServiceClient(address, TokenStore().require(address))
    arrival = _send(client, what, as_json=as_json)
    known = client.get(f"/arrivals/{arrival}")
    if not as_json:
        counts = "this time counts, however long its admission takes"
        out.print(f"arrived  {safe_text(arrival)} at {safe_text(known['time'])}: {counts}", soft_wrap=True)
    if options.no_wait:
        if as_json:
            console.print_json({"arrival": known})
        return
    found = _watch_admission(client, arrival, as_json=as_json)
    if found["state"] == "refused":
        raise Rejected(f"submission {what.submission}", [_problem(text) for text in found["problems"]])
    path = _keep_receipt(client, found["submission"], options.receipt)
    receipt = receipts.verify_receipt(path, client.get("/contest")["key"]).receipt
    if as_json:
        console.print_json({"arrival": found, "receipt": receipt.document(), "file": str(path)})
        return
    out.print(f"received {safe_text(receipt.submission)} for {safe_text(receipt.team)} on {safe_text(receipt.task)}")
    out.print(f"digest   {receipt.digest}", soft_wrap=True)
    out.print(f"time     {receipt.received}; attempt {receipt.attempt}")
    out.print(f"receipt  {safe_text(str(path))}", soft_wrap=True)
    for warning in receipt.warnings:
        console.print_warning(warning)


def _client(url: str, token: str) -> ServiceClient:
    return ServiceClient(client_module.service_address(url), token)


def _poll_for_token(client: ServiceClient, begun: dict[str, Any], sleep: Callable[[float], object] = time.sleep) -> str:
    """Waits for a token's approval and returns the token. Raises UsageError if it is denied or not approved."""
    interval = max(1, int(begun["interval"]))
    while True:
        sleep(interval)
        try:
            return str(client.post("/device/token", {"device_code": begun["device_code"]}).json()["token"])
        except ServiceRefused as refused:
            if refused.reason == "slow_down":
                interval += 5
            elif refused.reason != "authorization_pending":
                raise UsageError("; ".join(f"{each.what}; {each.remedy}" for each in refused.problems)) from None


def _send(client: ServiceClient, what: RemoteSubmission, *, as_json: bool) -> str:
    """Sends a folder, a file or an image to the site, and returns the arrival's id."""
    path = Path(what.submission)
    if path.is_dir():
        with tempfile.TemporaryDirectory(prefix="sparring-submit-") as place:
            package = Path(place) / f"{read_manifest(path).name}{PACKAGE_SUFFIX}"
            _, warnings = pack_folder(path, package)
            for warning in warnings:
                console.print_warning(warning, err)
            return _upload(client, package, what, as_json=as_json)
    if path.is_file():
        return _upload(client, path, what, as_json=as_json)
    if "@sha256:" not in what.submission:
        raise UsageError(f"there is no {what.submission}; an image is submitted by its digest, as NAME@sha256:...")
    if not what.name or what.side is None:
        raise UsageError("an image has no manifest: give --name and --side")
    answer = client.post("/submissions", {**what.words(), "image": what.submission})
    return str(answer.json()["arrival"])


def _upload(client: ServiceClient, path: Path, what: RemoteSubmission, *, as_json: bool) -> str:
    with _upload_bar(path.stat().st_size, visible=err.is_terminal and not as_json) as watch:
        return upload_file(client, path, what.words(), watch)


@contextmanager
def _upload_bar(size: int, *, visible: bool) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn("sent"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, disable=not visible) as progress:
        task = progress.add_task("sent", total=size)
        yield lambda done: progress.update(task, completed=done)


def _watch_admission(client: ServiceClient, arrival: str, *, as_json: bool) -> dict[str, Any]:
    """Prints the steps of an arrival's admission while they happen, and returns the arrival once it has an outcome."""
    printed, wait = 0, _FIRST_LOOK
    while True:
        found: dict[str, Any] = client.get(f"/arrivals/{quote(arrival)}")
        if printed > len(found["steps"]):
            printed = 0  # the admission was tried again
        if not as_json:
            for step in found["steps"][printed:]:
                _print_step(step)
        if found["state"] in ("received", "refused"):
            return found
        wait = _FIRST_LOOK if len(found["steps"]) > printed else min(_LONGEST_LOOK, 1.5 * wait)
        printed = len(found["steps"])
        time.sleep(wait)


def _print_step(step: dict[str, Any]) -> None:
    text = step["problem"] or step["detail"]
    said = f": {safe_text(text, 1000)}" if text else ""
    remedy = f"; {safe_text(step['remedy'], 1000)}" if step["remedy"] else ""
    sign = {True: "[green]passed[/]  ", False: "[red]failed[/]  "}.get(step["passed"], "         ")
    err.print(f"{sign} {safe_text(step['step'])}{said}{remedy}", soft_wrap=True)


def _problem(text: str) -> Problem:
    """Parses a problem that is written as `place: what; remedy`."""
    place, _, rest = text.partition(": ")
    what, _, remedy = rest.partition("; ")
    return Problem(place, what, remedy)


def _keep_receipt(client: ServiceClient, submission: str, target: Path | None) -> Path:
    if not submission.replace("-", "").replace("_", "").isalnum():
        raise ServiceUnavailable(f"the service names a submission {submission[:80]!r}, which is no name")
    path = target or Path(f"{submission}.receipt.json")
    write_whole(path, client.request("GET", f"/submissions/{submission}/receipt").body)
    return path
