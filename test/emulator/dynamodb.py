"""DynamoDB's conditional writes are atomic, and a table may be named by its ARN.

Stock moto checks a condition and writes in two steps that other threads come between: of 16 writers
with the same condition more than one may succeed. Here DynamoDB's requests are served one at a time.
A request whose table is named by an ARN goes where that says (arns). The replicas of a global table are
one table here, in the region of its stack: a replica's ARN leads there, at once and strongly consistent.

Stock moto does not know a transaction's token; here one that comes again is answered as the first time,
and nothing is done. It copies whole tables before each transaction, and puts the copies in their place
when it fails, which readers of their streams do not see; here only the items that a transaction touches
are put back. It takes a zero for nothing in BETWEEN, and an update that makes an item appears in the
stream twice, first without its attributes; neither does here.
"""

import copy
import io
import json
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.dynamodb.comparisons import FuncBetween, get_filter_expression
from moto.dynamodb.exceptions import (
    ConditionalCheckFailed,
    MultipleTransactionsException,
    TooManyTransactionsException,
    TransactionCanceledException,
)
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType

from . import arns
from .accounts import Accounts

_ARN = re.compile(r"^arn:aws:dynamodb:(?P<region>[^:]+):(?P<account>\d{12}):table/(?P<name>[^/]+)$")

# Where the replicas of global tables really are: the region of the table, by account, region and name.
replicas: dict[tuple[str, str, str], str] = {}


class DynamoDb:
    """WSGI middleware in front of moto's DynamoDB."""

    def __init__(self, application: arns.Application, accounts: Accounts) -> None:
        self._application = application
        self._accounts = accounts
        self._lock = threading.Lock()
        self._done: dict[tuple[str, str], tuple[str, list[Any], list[bytes]]] = {}  # by caller and token

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not environ.get("HTTP_X_AMZ_TARGET", "").startswith("DynamoDB_"):
            return self._application(environ, start_response)
        self._follow_arn(environ)
        with self._lock:
            if environ["HTTP_X_AMZ_TARGET"].endswith(".TransactWriteItems"):
                return self._transact(environ, start_response)
            return list(self._application(environ, start_response))

    def _transact(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """One transaction, unless its token came before with the same content and was written."""
        body = environ["wsgi.input"].getvalue()
        document = json.loads(body)
        token = document.pop("ClientRequestToken", "")
        key = (token, arns.caller(environ))
        content = json.dumps(document, sort_keys=True)
        if token and key in self._done:
            before, headers, answer = self._done[key]
            if before == content:
                start_response("200 OK", headers)
                return answer
            start_response("400 Bad Request", [("Content-Type", "application/x-amz-json-1.0")])
            return [json.dumps({"__type": "com.amazonaws.dynamodb.v20120810#IdempotentParameterMismatchException"}).encode()]
        said: list[Any] = []

        def start(status: str, headers: list[Any], *rest: Any) -> Any:
            said[:] = [status, headers]
            return start_response(status, headers, *rest)

        answer = list(self._application(environ, start))
        if token and said[0].startswith("200"):
            self._done[key] = (content, said[1], answer)
        return answer

    def _follow_arn(self, environ: dict[str, Any]) -> None:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if b"arn:aws:dynamodb:" in body:
            found: set[tuple[str, str]] = set()
            document = _named(json.loads(body), found)
            if len(found) == 1:  # none: ARNs of indexes or in data; several: moto shall refuse them
                (account, region), = found
                body = json.dumps(document).encode()
                arns.lead(environ, self._accounts, account, region)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))


def _named(node: Any, found: set[tuple[str, str]]) -> Any:
    """node with tables by name instead of by ARN; adds the ARNs' accounts and regions to found."""

    def name(value: Any) -> Any:
        match = _ARN.match(value) if isinstance(value, str) else None
        if match is None:
            return value
        place = (match["account"], match["region"])
        found.add((place[0], replicas.get((*place, match["name"]), place[1])))
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


def install() -> None:
    """Replaces moto's transactions, and mends its BETWEEN and its streams."""
    DynamoDBBackend.transact_write_items = _transact_write_items
    DynamoDBBackend.update_item = _told_once(DynamoDBBackend.update_item)
    FuncBetween.expr = _between


def _between(self: FuncBetween, item: Any) -> bool:
    low, value, high = self.start.expr(item), self.attr.expr(item), self.end.expr(item)
    return None not in (low, value, high) and low <= value <= high


def _told_once(update_item: Callable[..., Any]) -> Callable[..., Any]:
    """An update that leaves one record in the stream, also of an item that it makes."""

    def update(self: DynamoDBBackend, table_name: str, *args: Any, **kwargs: Any) -> Any:
        shard = self.get_table(table_name).stream_shard
        before = len(shard.items) if shard else 0
        result = update_item(self, table_name, *args, **kwargs)
        if shard and len(shard.items) == before + 2:
            del shard.items[before]
            shard.items[before].record["dynamodb"]["SequenceNumber"] = str(shard.starting_sequence_number + before)
        return result

    return update


def _transact_write_items(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
    if len(transact_items) > 100:
        raise TooManyTransactionsException()
    steps = []
    touched: set[tuple[str, str]] = set()
    for entry in transact_items:
        (kind, step), = entry.items()
        table = self.get_table(step["TableName"])
        attributes = step["Item"] if kind == "Put" else step["Key"]
        key = {name: attributes[name] for name in table.table_key_attrs}
        if (table.name, json.dumps(key, sort_keys=True)) in touched:
            raise MultipleTransactionsException()
        touched.add((table.name, json.dumps(key, sort_keys=True)))
        steps.append((kind, step, table, key))

    reasons: list[Any] = [_judge(self, step, key) for _, step, _, key in steps]
    if any(code is not None for code, _, _ in reasons):
        raise TransactionCanceledException(reasons)

    undo = []
    try:
        for kind, step, table, key in steps:
            shard = table.stream_shard
            undo.append((table, key, copy.deepcopy(self.get_item(table.name, key)), shard, len(shard.items) if shard else 0))
            names, values = step.get("ExpressionAttributeNames"), step.get("ExpressionAttributeValues")
            if kind == "Put":
                self.put_item(table.name, step["Item"])
            elif kind == "Delete":
                self.delete_item(table.name, key)
            elif kind == "Update":
                self.update_item(table.name, key, update_expression=step["UpdateExpression"], expression_attribute_names=names, expression_attribute_values=values)
    except Exception:
        for table, key, item, shard, news in reversed(undo):
            _put_back(table, key, item)
            if shard:
                del shard.items[news:]
        raise


def _judge(backend: DynamoDBBackend, step: dict[str, Any], key: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Why the step cancels its transaction, as moto writes it: code, message, item; None when it does not."""
    if "ConditionExpression" not in step:
        return None, None, None
    current = backend.get_item(step["TableName"], key)
    condition = get_filter_expression(step["ConditionExpression"], step.get("ExpressionAttributeNames"), step.get("ExpressionAttributeValues"))
    if condition.expr(current):
        return None, None, None
    shown = current.to_json()["Attributes"] if current and step.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" else None
    return "ConditionalCheckFailed", str(ConditionalCheckFailed().message), shown


def _put_back(table: Any, key: dict[str, Any], item: Any) -> None:
    hash_key, *rest = (DynamoType(key[name]) for name in table.table_key_attrs)
    if rest and item is not None:
        table.items[hash_key][rest[0]] = item
    elif rest:
        table.items[hash_key].pop(rest[0], None)
    elif item is not None:
        table.items[hash_key] = item
    else:
        table.items.pop(hash_key, None)
