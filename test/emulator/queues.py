"""Event source mappings deliver as Lambda's pollers do.

Stock moto invokes the function from within SendMessage, one message at a time with made-up attributes,
drops the mapping's alias, and knows neither partial failures nor a limit. Here messages are polled in
batches, at most MaximumConcurrency at once; what the function fails stays for the visibility timeout
and then the redrive policy. Stream mappings stay moto's, but off the caller's thread.
"""

import json
import threading
import time
import traceback
from collections import Counter
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from moto.awslambda.models import EventSourceMapping, LambdaBackend, lambda_backends
from moto.sqs.models import sqs_backends

from .accounts import Accounts

_PAUSE_SECONDS = 0.05
_MOST_AT_ONCE = 5  # without MaximumConcurrency: Lambda starts with five pollers
_MOST_MESSAGES = 10  # of one ReceiveMessage


def install() -> None:
    """Takes the delivery from moto, and keeps the alias that a mapping names."""
    create, update, deliver = LambdaBackend.create_event_source_mapping, LambdaBackend.update_event_source_mapping, LambdaBackend.send_dynamodb_items

    def create_event_source_mapping(self: LambdaBackend, spec: dict[str, Any]) -> EventSourceMapping:
        mapping = create(self, spec)
        mapping.function_arn = _qualified(self, spec["FunctionName"])
        for queue in sqs_backends[self.account_id][self.region_name].queues.values():
            queue.lambda_event_source_mappings.clear()
        return mapping

    def update_event_source_mapping(self: LambdaBackend, uuid: str, spec: dict[str, Any]) -> EventSourceMapping | None:
        mapping = update(self, uuid, spec)
        if mapping is not None and "FunctionName" in spec:
            mapping.function_arn = _qualified(self, spec["FunctionName"])
        return mapping

    def send_dynamodb_items(self: LambdaBackend, *arguments: Any, **named: Any) -> int:
        threading.Thread(target=deliver, args=(self, *arguments), kwargs=named, daemon=True).start()
        return 200

    LambdaBackend.create_event_source_mapping = create_event_source_mapping
    LambdaBackend.update_event_source_mapping = update_event_source_mapping
    LambdaBackend.send_dynamodb_items = send_dynamodb_items


def _qualified(backend: LambdaBackend, function: str) -> str:
    if function.startswith("arn:"):
        return function
    return f"arn:aws:lambda:{backend.region_name}:{backend.account_id}:function:{function}"


class Pollers:
    """Polls every queue that a mapping names."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    def start(self) -> None:
        threading.Thread(target=self._poll, daemon=True).start()

    def _poll(self) -> None:
        while True:
            for account, regions in list(lambda_backends.items()):
                for region, backend in list(regions.items()):
                    for mapping in list(backend._event_source_mappings.values()):
                        self._look(account, region, mapping)
            time.sleep(_PAUSE_SECONDS)

    def _look(self, account: str, region: str, mapping: EventSourceMapping) -> None:
        """Starts a batch when there are messages and the mapping's limit allows it."""
        name = mapping.event_source_arn.rpartition(":")[2]
        queue = sqs_backends[account][region].queues.get(name)
        if not mapping.enabled or queue is None or not queue.messages:
            return
        limit = int((mapping.scaling_config or {}).get("MaximumConcurrency", _MOST_AT_ONCE))
        with self._lock:
            if self._running[mapping.uuid] >= limit:
                return
            self._running[mapping.uuid] += 1
        threading.Thread(target=self._batch, args=(account, region, mapping, name), daemon=True).start()

    def _batch(self, account: str, region: str, mapping: EventSourceMapping, name: str) -> None:
        try:
            sqs = self._accounts.client("sqs", account, region)
            url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
            messages = sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=min(mapping.batch_size, _MOST_MESSAGES), WaitTimeSeconds=0,
                AttributeNames=["All"], MessageAttributeNames=["All"],
            ).get("Messages", [])
            if not messages:
                return
            records = [_record(message, mapping.event_source_arn, region) for message in messages]
            result = self._accounts.client("lambda", account, region).invoke(
                FunctionName=mapping.function_arn, Payload=json.dumps({"Records": records}))
            failed = {message["MessageId"] for message in messages}
            if "FunctionError" not in result:
                failed &= _failures(mapping, result["Payload"].read())
            for message in messages:
                if message["MessageId"] not in failed:
                    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        except (BotoCoreError, ClientError) as error:
            # Throttled, or stopping: the messages come back after their visibility timeout.
            print(f"emulator: batch of {name} was not delivered: {error}", flush=True)
        except Exception:
            traceback.print_exc()
        finally:
            with self._lock:
                self._running[mapping.uuid] -= 1


def _failures(mapping: EventSourceMapping, answer: bytes) -> set[str]:
    """The messages that the function says it failed; only heard when the mapping asks for it."""
    if "ReportBatchItemFailures" not in (mapping.function_response_types or []):
        return set()
    document = json.loads(answer or b"null") or {}
    return {item["itemIdentifier"] for item in document.get("batchItemFailures") or []}


def _record(message: dict[str, Any], arn: str, region: str) -> dict[str, Any]:
    attributes = {
        name: {key[0].lower() + key[1:]: value for key, value in attribute.items()}
        for name, attribute in message.get("MessageAttributes", {}).items()
    }
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "md5OfBody": message["MD5OfBody"],
        "attributes": message.get("Attributes", {}),
        "messageAttributes": attributes,
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": region,
    }
