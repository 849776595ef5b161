"""A function or table that is named by its ARN is looked for where the ARN says.

Stock moto looks in the caller's account and region, whatever the ARN says. On AWS a request goes to the
account and region of the ARN, where the policy of the function or table allows it.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from .accounts import Accounts

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]

_CREDENTIAL = re.compile(r"Credential=[^/]+/(?P<date>\d+)/[^/]+/")
_FUNCTION = re.compile(r"/functions/arn:aws:lambda:(?P<region>[^:/]+):(?P<account>\d{12}):function:")


def caller(environ: dict[str, Any]) -> str:
    """The credentials that a request is signed with; nothing when it is not signed."""
    found = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
    return found.group() if found else ""


def lead(environ: dict[str, Any], accounts: Accounts, account: str, region: str) -> None:
    """Makes a request one of that account's, in that region."""
    key = accounts.credentials(account)["aws_access_key_id"]
    environ["HTTP_AUTHORIZATION"] = _CREDENTIAL.sub(rf"Credential={key}/\g<date>/{region}/", environ["HTTP_AUTHORIZATION"])


class Functions:
    """WSGI middleware in front of moto's Lambda. A function's ARN stands in the path."""

    def __init__(self, application: Application, accounts: Accounts) -> None:
        self._application = application
        self._accounts = accounts

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if (named := _FUNCTION.search(environ["PATH_INFO"])) and caller(environ):
            lead(environ, self._accounts, named["account"], named["region"])
        return self._application(environ, start_response)
