"""DynamoDB's conditional writes are atomic, and a table may be named by its ARN.

Stock moto checks a condition and writes in two steps that other threads come between: of 16 writers
with the same condition more than one may succeed. Here DynamoDB's requests are served one at a time.
It also looks a table up in the caller's account and region whatever the ARN says; here a request goes
to the account and region that its table's ARN names, as on AWS where the table's policy allows it.
"""

import io
import json
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any

from .accounts import Accounts

_ARN = re.compile(r"^arn:aws:dynamodb:(?P<region>[^:]+):(?P<account>\d{12}):table/(?P<name>[^/]+)$")
_CREDENTIAL = re.compile(r"Credential=[^/]+/(?P<date>\d+)/[^/]+/")

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


class DynamoDb:
    """WSGI middleware in front of moto's DynamoDB."""

    def __init__(self, application: Application, accounts: Accounts) -> None:
        self._application = application
        self._accounts = accounts
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not environ.get("HTTP_X_AMZ_TARGET", "").startswith("DynamoDB_"):
            return self._application(environ, start_response)
        self._follow_arn(environ)
        with self._lock:
            return list(self._application(environ, start_response))

    def _follow_arn(self, environ: dict[str, Any]) -> None:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if b"arn:aws:dynamodb:" in body:
            found: set[tuple[str, str]] = set()
            document = _named(json.loads(body), found)
            if len(found) == 1:  # none: ARNs of indexes or in data; several: moto shall refuse them
                (account, region), = found
                body = json.dumps(document).encode()
                key = self._accounts.credentials(account)["aws_access_key_id"]
                scope = rf"Credential={key}/\g<date>/{region}/"
                environ["HTTP_AUTHORIZATION"] = _CREDENTIAL.sub(scope, environ["HTTP_AUTHORIZATION"])
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))


def _named(node: Any, found: set[tuple[str, str]]) -> Any:
    """node with tables by name instead of by ARN; adds the ARNs' accounts and regions to found."""

    def name(value: Any) -> Any:
        match = _ARN.match(value) if isinstance(value, str) else None
        if match is None:
            return value
        found.add((match["account"], match["region"]))
        return match["name"]

    if isinstance(node, list):
        return [_named(item, found) for item in node]
    if not isinstance(node, dict):
        return node
    result = {}
    for key, value in node.items():
        if key == "TableName":
            result[key] = name(value)
        elif key == "RequestItems":  # of batches: by table
            result[key] = {name(table): item for table, item in value.items()}
        elif key == "TransactItems" or key in ("Get", "Put", "Update", "Delete", "ConditionCheck"):
            result[key] = _named(value, found)
        else:
            result[key] = value
    return result
