"""Whether Lambda stops events that come back to a function is a record of the function: nothing is stopped here.

Stock moto has no such API. As on Lambda a function has Terminate until it is told otherwise, and the record goes with the
function.

Source: AWS Lambda API, PutFunctionRecursionConfig and GetFunctionRecursionConfig.
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
_records: dict[tuple[str, str, str], str] = {}  # by account, region and function


def install() -> None:
    """Adds the API, and has the records go with what they are of."""
    delete_function = LambdaBackend.delete_function

    def key(self: LambdaResponse) -> tuple[str, str, str]:
        name = unquote(self.path.split("/")[-2])
        return (self.current_account, self.region, self.backend.get_function(name).function_name)  # which fails when there is none

    def answer(recursion: str) -> tuple[int, dict[str, Any], str]:
        return 200, {"status": 200}, json.dumps({"RecursiveLoop": recursion})

    def put_function_recursion_config(self: LambdaResponse) -> tuple[int, dict[str, Any], str]:
        recursion = self.json_body.get("RecursiveLoop")
        if recursion not in ("Allow", "Terminate"):
            raise JsonRESTError("InvalidParameterValueException", f"RecursiveLoop is {recursion}: want Allow or Terminate")
        with _lock:
            _records[key(self)] = recursion
        return answer(recursion)

    def get_function_recursion_config(self: LambdaResponse) -> tuple[int, dict[str, Any], str]:
        with _lock:
            return answer(_records.get(key(self), "Terminate"))

    def delete_function_and_record(self: LambdaBackend, function_name: str, qualifier: str | None = None) -> None:
        delete_function(self, function_name, qualifier)
        if not qualifier:
            with _lock:
                _records.pop((self.account_id, self.region_name, function_name), None)

    for method in (put_function_recursion_config, get_function_recursion_config):
        setattr(LambdaResponse, method.__name__, method)
    LambdaBackend.delete_function = delete_function_and_record
    path = r"{0}/(?P<api_version>[^/]+)/functions/(?P<function_name>[\w_:%-]+)/recursion-config/?$"
    moto.awslambda.urls.url_paths[path] = LambdaResponse.dispatch
