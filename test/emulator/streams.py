"""Functions are invoked for a stream, too. The stream arrives when it is whole, which is when the function is done.

Stock moto has no such call. A failure comes as the end of the stream, as on Lambda.

Source: AWS Lambda API, InvokeWithResponseStream; Smithy, Amazon event stream specification.
"""

import binascii
import json
import struct
from typing import Any
from urllib.parse import unquote

import moto.awslambda.urls
from moto.awslambda.responses import LambdaResponse

from .functions import Functions

_CHUNK = 64 << 10  # bytes
_TEXT = 7  # the type of a header's value


def _message(kind: str, content: str, payload: bytes) -> bytes:
    """One event: lengths with a checksum, headers, payload, and a checksum of it all."""
    headers = b""
    for name, value in ((":message-type", "event"), (":event-type", kind), (":content-type", content)):
        headers += bytes([len(name)]) + name.encode() + struct.pack("!BH", _TEXT, len(value)) + value.encode()
    prelude = struct.pack("!II", 4 + 4 + 4 + len(headers) + len(payload) + 4, len(headers))
    message = prelude + struct.pack("!I", binascii.crc32(prelude)) + headers + payload
    return message + struct.pack("!I", binascii.crc32(message))


def install(functions: Functions) -> None:
    """Adds the call."""

    def invoke_with_response_stream(self: LambdaResponse) -> tuple[int, dict[str, Any], bytes]:
        function = self.backend.get_function(unquote(self.path.split("/")[-2]), self._get_param("Qualifier"))
        payload = self.body.encode() if isinstance(self.body, str) else self.body
        answer, error = functions.run(function, payload or b"{}")
        end: dict[str, Any] = {}
        if error:
            end, answer = {"ErrorCode": "Unhandled", "ErrorDetails": answer.decode(errors="replace")}, b""
        chunks = (answer[start:start + _CHUNK] for start in range(0, len(answer), _CHUNK))
        body = b"".join(_message("PayloadChunk", "application/octet-stream", chunk) for chunk in chunks)
        body += _message("InvokeComplete", "application/json", json.dumps(end).encode())
        return 200, {"Content-Type": "application/vnd.amazon.eventstream", "X-Amz-Executed-Version": str(function.version)}, body

    LambdaResponse.invoke_with_response_stream = invoke_with_response_stream
    path = r"{0}/(?P<api_version>[^/]+)/functions/(?P<resource_arn>.+)/response-streaming-invocations/?$"
    moto.awslambda.urls.url_paths[path] = LambdaResponse.dispatch
