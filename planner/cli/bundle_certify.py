"""`planner bundle certify`: may plans of a bundle be handed to a runtime as text or messages?"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from planner.cli.asking import app_option, key_of, open_for_app
from planner.cli.files import user_folder

if TYPE_CHECKING:
    from planner.values.certificate import CertifiedMode


@click.command("certify")
@click.argument("ref", metavar="ID|PATH")
@click.option("--url", required=True, metavar="URL", help="Base URL of the server that runs the bundle's model.")
@click.option("--mode", type=click.Choice(("text", "messages")), required=True, help="What the runtime is given.")
@click.option("--model", metavar="NAME", help="The server's name of the model, where it serves several.")
@click.option("--api-key-env", metavar="VAR", help="Environment variable that holds the server's key.")
@app_option
@click.option("--json", "as_json", is_flag=True, help="Print the certificate as JSON.")
def command(ref: str, url: str, mode: str, as_json: bool, **given: Any) -> int:
    """Compare what a runtime reads of text or messages with our plans, and keep a certificate.

    The bundle's manifest must name the runtime and its version. Small conversations of our own are planned; a
    llama.cpp server shows its ids, any other server with a chat API its count of tokens. A plan in that mode is
    refused without the certificate, in another version, and for what the server read otherwise.
    """
    from planner.bundles.certificates import certificate_fields
    from planner.bundles.records import Records
    from planner.certify import certify
    from planner.planner import Planner
    from planner.runtimes.parity import ParitySource

    key, app_version = key_of(given["api_key_env"]), given["app_version"]
    planner = Planner(open_for_app(ref, app_version), user_folder=user_folder())
    encoder = planner.encoder(app_version=app_version)
    records = Records(user_folder(), encoder.bundle.manifest.digest)
    chosen: CertifiedMode = "text" if mode == "text" else "messages"
    source = ParitySource(url, model=given["model"], api_key=key)
    found = certify(partial(planner.plan, app_version=app_version), encoder, source, chosen, records)
    if as_json:
        click.echo(json.dumps(certificate_fields(found), indent=1))
        return 0
    from planner.cli.draw import rows, say

    rows(
        ("conversation", "planned", "read", "ids"),
        [(one.name, f"{one.planned_tokens:,}", f"{one.counted_tokens:,}", _ids(one.same_ids)) for one in found.vectors],
        right=(1, 2),
    )
    say(f"certified for mode {found.mode} on {found.runtime} {', '.join(found.versions)}", "bold")
    say(f"covers {', '.join(found.covers)}; the count is {'exact' if found.exact else 'an upper bound'}")
    return 0


def _ids(same: bool | None) -> str:
    return "not shown" if same is None else "same" if same else "other"
