"""Environments that are kept started are a record: an alias or version has so many, or none.

Stock moto has no such API. As on Lambda a record is refused of what is not published, and over what the function's
reserved concurrency leaves, and goes with its alias. No environment is started by it.

Source: AWS Lambda API, PutProvisionedConcurrencyConfig, and what that answers in the cases above.
"""

import json
import threading
from typing import Any
from urllib.parse import unquote

import moto.awslambda.urls
from moto.awslambda.models import LambdaBackend
from moto.awslambda.responses import LambdaResponse
from moto.core.exceptions import JsonRESTError

_lock = threading.RLock()
_records: dict[tuple[str, str, str, str], int] = {}  # by account, region, function and qualifier


class _NotFound(JsonRESTError):
    code = 404

    def __init__(self) -> None:
        super().__init__("ProvisionedConcurrencyConfigNotFoundException", "No Provisioned Concurrency Config found for this function")


def _refused(why: str) -> JsonRESTError:
    return JsonRESTError("InvalidParameterValueException", why)


def _of(account: str, region: str, function: str) -> dict[str, int]:
    return {key[3]: number for key, number in _records.items() if key[:3] == (account, region, function)}


def install() -> None:
    """Adds the API, and has the records go with what they are of."""
    delete_alias, delete_function = LambdaBackend.delete_alias, LambdaBackend.delete_function
    reserve = LambdaBackend.put_function_concurrency

    def key(self: LambdaResponse) -> tuple[str, str, str, str]:
        return (self.current_account, self.region, unquote(self.path.split("/")[-2]), self._get_param("Qualifier"))

    def answer(status: int, number: int) -> tuple[int, dict[str, Any], str]:
        names = (f"{kind}ProvisionedConcurrentExecutions" for kind in ("Requested", "Available", "Allocated"))
        return status, {"status": status}, json.dumps({**dict.fromkeys(names, number), "Status": "READY"})

    def put_provisioned_concurrency_config(self: LambdaResponse) -> tuple[int, dict[str, Any], str]:
        account, region, function, qualifier = key(self)
        number = int(self.json_body["ProvisionedConcurrentExecutions"])
        if self.backend.get_function(function, qualifier).version == "$LATEST":  # which fails when there is no such qualifier
            raise _refused("Provisioned Concurrency Configs cannot be applied to unpublished function versions.")
        reserved = self.backend.get_function(function).reserved_concurrency
        with _lock:
            others = sum(n for of, n in _of(account, region, function).items() if of != qualifier)
            if reserved is not None and number + others > int(reserved):
                raise _refused("Requested Provisioned Concurrency should not be greater than the reservedConcurrentExecution for function")
            _records[account, region, function, qualifier] = number
        return answer(202, number)

    def get_provisioned_concurrency_config(self: LambdaResponse) -> tuple[int, dict[str, Any], str]:
        with _lock:
            if key(self) not in _records:
                raise _NotFound
            return answer(200, _records[key(self)])

    def delete_provisioned_concurrency_config(self: LambdaResponse) -> tuple[int, dict[str, Any], str]:
        with _lock:
            _records.pop(key(self), None)
        return 204, {"status": 204}, ""

    def put_function_concurrency(self: LambdaBackend, function_name: str, reserved_concurrency: str) -> str:
        with _lock:
            if sum(_of(self.account_id, self.region_name, function_name).values()) > int(reserved_concurrency):
                raise _refused("ReservedConcurrentExecutions is less than the function's Provisioned Concurrency")
            return reserve(self, function_name, reserved_concurrency)

    def forget(account: str, region: str, function: str, *qualifiers: str) -> None:
        with _lock:
            for qualifier in qualifiers or list(_of(account, region, function)):
                _records.pop((account, region, function, qualifier), None)

    def delete_alias_and_record(self: LambdaBackend, name: str, function_name: str) -> None:
        delete_alias(self, name, function_name)
        forget(self.account_id, self.region_name, function_name, name)

    def delete_function_and_records(self: LambdaBackend, function_name: str, qualifier: str | None = None) -> None:
        delete_function(self, function_name, qualifier)
        forget(self.account_id, self.region_name, function_name, *([qualifier] if qualifier else []))

    for method in (put_provisioned_concurrency_config, get_provisioned_concurrency_config, delete_provisioned_concurrency_config):
        setattr(LambdaResponse, method.__name__, method)
    LambdaBackend.put_function_concurrency = put_function_concurrency
    LambdaBackend.delete_alias, LambdaBackend.delete_function = delete_alias_and_record, delete_function_and_records
    path = r"{0}/(?P<api_version>[^/]+)/functions/(?P<function_name>[\w_:%-]+)/provisioned-concurrency/?$"
    moto.awslambda.urls.url_paths[path] = LambdaResponse.dispatch
