"""Function URLs: kept by the function's qualifier, and served.

Stock moto keeps one for each function, whatever the qualifier, and serves none. Here a request whose Host is that of a
URL goes to the function as Lambda hands it over, if the URL is open to everybody: that takes two permissions, and nobody
is judged by IAM, so that a URL for AWS_IAM lets nobody in. A stream arrives whole.

Source: AWS Lambda developer guide, invoking function URLs, control access to function URLs, response streaming.
"""

import base64
import json
import re
import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

from moto.awslambda.models import lambda_backends
from moto.awslambda.responses import LambdaResponse
from moto.core.exceptions import JsonRESTError

from . import permissions
from .arns import Application
from .functions import Functions, Throttled

_HOST = re.compile(r"(?P<id>[0-9a-f]{32})\.lambda-url\.[a-z0-9-]+\.on\.aws")
_STREAM = b"\0" * 8  # between head and body
_MODES = ("BUFFERED", "RESPONSE_STREAM")

Answer = tuple[int, list[tuple[str, str]], bytes]


@dataclass
class _Url:
    """A function's URL."""

    id: str
    account: str
    region: str
    function: str
    qualifier: str | None
    config: dict[str, Any]
    made: str

    @property
    def host(self) -> str:
        return f"{self.id}.lambda-url.{self.region}.on.aws"

    def describe(self) -> dict[str, Any]:
        suffix = f":{self.qualifier}" if self.qualifier else ""
        shown = {name: self.config[name] for name in ("AuthType", "Cors", "InvokeMode") if name in self.config}
        return {
            "FunctionUrl": f"https://{self.host}/", "CreationTime": self.made, "LastModifiedTime": self.made, **shown,
            "FunctionArn": f"arn:aws:lambda:{self.region}:{self.account}:function:{self.function}{suffix}",
        }


_lock = threading.RLock()
_urls: dict[tuple[str, str, str, str | None], _Url] = {}


def _refused(status: int, kind: str, why: str) -> JsonRESTError:
    error = JsonRESTError(kind, why)
    error.code = status
    return error


def install() -> None:
    """Keeps URLs by their qualifiers."""

    def key(self: LambdaResponse) -> tuple[str, str, str, str | None]:
        function = unquote(self.path.split("/")[-2]).rpartition(":")[2]  # of a name, or of an ARN without qualifier
        return self.current_account, self.region, function, self._get_param("Qualifier")

    def found(self: LambdaResponse) -> _Url:
        if key(self) not in _urls:
            raise _refused(404, "ResourceNotFoundException", "The resource you requested does not exist.")
        return _urls[key(self)]

    def checked(config: dict[str, Any]) -> dict[str, Any]:
        if unknown := set(config) - {"AuthType", "InvokeMode", "Qualifier"}:
            raise _refused(400, "InvalidParameterValueException", f"the emulator has no support for {sorted(unknown)} of a Function URL")
        checked = {"InvokeMode": _MODES[0], **{name: value for name, value in config.items() if name != "Qualifier"}}
        if checked["AuthType"] not in ("NONE", "AWS_IAM") or checked["InvokeMode"] not in _MODES:
            raise _refused(400, "InvalidParameterValueException", f"no such Function URL: {config}")
        return checked

    def create_function_url_config(self: LambdaResponse) -> tuple[int, dict[str, Any], str]:
        account, region, function, qualifier = key(self)
        self.backend.get_function(function, qualifier)  # which fails when there is none
        if qualifier == "$LATEST" or (qualifier or "").isdigit():
            raise _refused(400, "InvalidParameterValueException", "a Function URL is of a function or of an alias")
        with _lock:
            if key(self) in _urls:
                raise _refused(409, "ResourceConflictException", f"Failed to create function url config for {function}: it exists")
            made = time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z", time.gmtime())
            _urls[key(self)] = url = _Url(uuid.uuid4().hex, account, region, function, qualifier, checked(self.json_body), made)
        return 201, {"status": 201}, json.dumps(url.describe())

    def get_function_url_config(self: LambdaResponse) -> tuple[int, dict[str, Any], str]:
        return 200, {}, json.dumps(found(self).describe())

    def update_function_url_config(self: LambdaResponse) -> tuple[int, dict[str, Any], str]:
        found(self).config = checked({**found(self).config, **self.json_body})
        return 200, {}, json.dumps(found(self).describe())

    def delete_function_url_config(self: LambdaResponse) -> tuple[int, dict[str, Any], str]:
        found(self)
        del _urls[key(self)]
        return 204, {"status": 204}, ""

    for method in (create_function_url_config, get_function_url_config, update_function_url_config, delete_function_url_config):
        setattr(LambdaResponse, method.__name__, method)


class Urls:
    """WSGI middleware that serves the URLs, by the name that is asked for."""

    def __init__(self, application: Application, functions: Functions) -> None:
        self._application = application
        self._functions = functions

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        asked = _HOST.fullmatch(environ.get("HTTP_HOST", "").partition(":")[0])
        if asked is None:
            return self._application(environ, start_response)
        url = next((url for url in list(_urls.values()) if url.id == asked["id"]), None)
        status, headers, body = self._serve(url, environ) if url else _message(HTTPStatus.NOT_FOUND)
        start_response(f"{status} {HTTPStatus(status).phrase}", headers)
        return [body]

    def _serve(self, url: _Url, environ: dict[str, Any]) -> Answer:
        backend = lambda_backends[url.account][url.region]
        needed = (("lambda:InvokeFunctionUrl", permissions.by_url("NONE")), ("lambda:InvokeFunction", permissions.INVOKED_BY_URL))
        if url.config["AuthType"] != "NONE" or not all(
                permissions.allows(backend, url.function, url.qualifier, action, condition) for action, condition in needed):
            return _message(HTTPStatus.FORBIDDEN)
        try:
            answer, error = self._functions.run(backend.get_function(url.function, url.qualifier), _event(url, environ))
        except Throttled:
            return _message(HTTPStatus.TOO_MANY_REQUESTS)
        streamed = _STREAM in answer
        if error or streamed != (url.config["InvokeMode"] == "RESPONSE_STREAM"):
            return _message(HTTPStatus.BAD_GATEWAY)
        return _streamed(answer) if streamed else _buffered(answer)


def _message(status: HTTPStatus) -> Answer:
    return status, [("Content-Type", "application/json")], json.dumps({"Message": status.phrase}).encode()


def _event(url: _Url, environ: dict[str, Any]) -> bytes:
    """A request in payload format 2.0."""
    path, _, query = environ["RAW_URI"].partition("?")
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    headers |= {name.replace("_", "-").lower(): environ[name] for name in ("CONTENT_TYPE", "CONTENT_LENGTH") if environ.get(name)}
    cookies = headers.pop("cookie", "")
    sender, agent = environ["REMOTE_ADDR"], headers.get("user-agent", "")
    event: dict[str, Any] = {
        "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": query,
        "headers": {**headers, "host": url.host, "x-forwarded-for": sender, "x-forwarded-proto": "https", "x-forwarded-port": "443"},
        "requestContext": {
            "accountId": "anonymous", "apiId": url.id, "domainName": url.host, "domainPrefix": url.id, "requestId": str(uuid.uuid4()),
            "http": {"method": environ["REQUEST_METHOD"], "path": path, "protocol": "HTTP/1.1", "sourceIp": sender, "userAgent": agent},
            "routeKey": "$default", "stage": "$default", "timeEpoch": int(time.time() * 1000),
        },
        "isBase64Encoded": bool(body),
    }
    if cookies:
        event["cookies"] = cookies.split("; ")
    if query:
        values: dict[str, str] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            values[name] = f"{values[name]},{value}" if name in values else value
        event["queryStringParameters"] = values
    if body:
        event["body"] = base64.b64encode(body).decode()
    return json.dumps(event).encode()


def _buffered(answer: bytes) -> Answer:
    """What a function answered; without a status it is the body of a good answer in JSON."""
    document = json.loads(answer)
    if not isinstance(document, dict) or "statusCode" not in document:
        return HTTPStatus.OK, [("Content-Type", "application/json")], answer
    body = (document.get("body") or "").encode()
    return _head(document, base64.b64decode(body) if document.get("isBase64Encoded") else body)


def _streamed(answer: bytes) -> Answer:
    head, _, body = answer.partition(_STREAM)
    return _head(json.loads(head), body)


def _head(document: dict[str, Any], body: bytes) -> Answer:
    headers = {name.lower(): str(value) for name, value in document.get("headers", {}).items()}
    headers.setdefault("content-type", "application/json")
    cookies = [("set-cookie", cookie) for cookie in document.get("cookies", [])]
    headers["content-length"] = str(len(body))
    return int(document["statusCode"]), [*headers.items(), *cookies], body
