"""Lambda Cloud's errors, as its document has them."""

from __future__ import annotations

from typing import Any, Final

from corral.providers.cloud.errors import Reason, Row

ROWS: Final = (
    Row(0, "instance-operations/launch/insufficient-capacity", Reason.CAPACITY,
        "no capacity for this type in this region now", "name more regions or types, or wait"),
    Row(0, "instance-operations/launch/file-system-in-wrong-region", Reason.REQUEST,
        "the file system is in another region", "take a region that has it"),
    Row(0, "global/quota-exceeded", Reason.QUOTA, "the account's quota is used up",
        "end what is not needed (corral reap), or ask Lambda for more"),
    Row(0, "global/account-inactive", Reason.MONEY, "the account is inactive",
        "verify its e-mail address and its payment method"),
    Row(0, "global/invalid-address", Reason.MONEY, "the billing address is not valid",
        "correct it on the billing page"),
    Row(0, "global/invalid-api-key", Reason.KEY, "the API key is wrong, expired or deleted",
        "make a new one at cloud.lambda.ai/api-keys and set {variable}"),
    Row(0, "global/duplicate", Reason.BUSY, "one of that name exists already", "list it again"),
    Row(0, "filesystems/filesystem-in-use", Reason.BUSY, "the file system is in use",
        "end the instances that use it first"),
    Row(0, "firewall-rulesets/firewall-ruleset-in-use", Reason.BUSY,
        "the firewall ruleset is in use", "end the instances that use it first"),
    Row(0, "global/object-does-not-exist", Reason.MISSING, "the cloud does not have it (any more)",
        "list what there is: corral offers -p lambda"),
    Row(0, "global/conflict", Reason.BUSY, "another action is under way on it", "try again soon"),
    Row(0, "global/internal-error", Reason.BROKEN, "an internal error of Lambda", "try again"),
    Row(0, "provider/", Reason.BROKEN, "Lambda's own supplier failed for a moment", "try again"),
    Row(0, "global/invalid-parameters", Reason.REQUEST, "the request is not valid",
        "correct what it names; types and regions: corral offers -p lambda"),
)  # fmt: skip


def words_of(data: Any) -> tuple[str, str]:
    """The cloud's own code and text from the JSON of an error."""
    error = data["error"]
    return str(error["code"]), str(error["message"])
