"""CloudWatch answers the SDK for Go, whose client speaks Smithy RPC v2 CBOR.

Stock moto knows the two older protocols of CloudWatch alone. Here such a request goes to moto as AWS JSON, and what
moto answers goes back as CBOR, by botocore's own model of the API.

Source: Smithy 2.0, Smithy RPC v2 CBOR protocol.
"""

import datetime
import gzip
import io
import json
import re
from collections.abc import Iterable
from typing import Any

import botocore.session
from botocore.parsers import RpcV2CBORParser
from botocore.serialize import RpcV2CBORSerializer

from .arns import Application

_OPERATION = re.compile(r"/service/(?P<target>GraniteServiceVersion20100801)/operation/(?P<name>\w+)")


class Cbor:
    """WSGI middleware in front of moto's CloudWatch."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._model = botocore.session.get_session().get_service_model("cloudwatch")
        self._parser = RpcV2CBORParser()
        self._serializer = RpcV2CBORSerializer()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        called = _OPERATION.fullmatch(environ["PATH_INFO"])
        if called is None or environ.get("HTTP_SMITHY_PROTOCOL") != "rpc-v2-cbor":
            return self._application(environ, start_response)
        body = json.dumps(self._read(environ), default=_epoch).encode()
        environ.update({
            "PATH_INFO": "/", "RAW_URI": "/", "REQUEST_URI": "/", "CONTENT_TYPE": "application/x-amz-json-1.0", "CONTENT_LENGTH": str(len(body)),
            "HTTP_X_AMZ_TARGET": f"{called['target']}.{called['name']}", "wsgi.input": io.BytesIO(body),
        })
        for header in ("HTTP_SMITHY_PROTOCOL", "HTTP_CONTENT_ENCODING", "HTTP_ACCEPT"):
            environ.pop(header, None)
        said: list[str] = []
        answer = b"".join(self._application(environ, lambda status, headers, *rest: said.append(status)))
        written = self._write(called["name"], said[0], json.loads(answer or b"{}"))
        start_response(said[0], [("Content-Type", "application/cbor"), ("smithy-protocol", "rpc-v2-cbor"), ("Content-Length", str(len(written)))])
        return [written]

    def _read(self, environ: dict[str, Any]) -> Any:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if environ.get("HTTP_CONTENT_ENCODING") == "gzip":
            body = gzip.decompress(body)
        return self._parser.parse_data_item(self._parser.get_peekable_stream_from_bytes(body)) if body else {}

    def _write(self, operation: str, status: str, answer: dict[str, Any]) -> bytes:
        written = bytearray()
        if not status.startswith("2"):
            write = self._serializer._serialize_type_string
            written += b"\xa2"  # a map of two
            for text in ("__type", answer.get("__type", "InternalFailure"), "message", answer.get("message") or answer.get("Message") or ""):
                write(written, text, None, None)
        elif (shape := self._model.operation_model(operation).output_shape) is None:
            written += b"\xa0"
        else:
            self._serializer._serialize_data_item(written, answer, shape)
        return bytes(written)


def _epoch(value: Any) -> float:
    """A time as AWS JSON has it."""
    if not isinstance(value, datetime.datetime):
        raise TypeError(f"{type(value)} is nothing that CloudWatch takes")
    return value.timestamp()
