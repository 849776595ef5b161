"""The server: moto's application with the mends around it, on a loopback port of its own."""

import argparse
import importlib.metadata
import json
import os
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import MOTO_VERSION, templateonly
from .cloudformation import obstacles


def check_version() -> None:
    """Ends the program when another moto is installed than the one that the mends were made for."""
    installed = importlib.metadata.version("moto")
    if installed != MOTO_VERSION:
        sys.exit(f"error: moto {installed} is installed, but the emulator mends {MOTO_VERSION}\nhint: make .venv/.stamp installs what requirements.txt pins")


class _Control:
    """What tests may ask the emulator itself, beside AWS's APIs."""

    def __init__(self, application: Any, functions: Any) -> None:
        self._application = application
        self._functions = functions

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/emulator/obstacles":
            return self._obstruct(environ, start_response)
        if environ["PATH_INFO"] != "/emulator/state":
            return self._application(environ, start_response)
        state = {"templateOnly": templateonly.describe(), "invocations": self._functions.invocations()}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(state).encode()]

    def _obstruct(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        wanted = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        try:
            obstacles.put(wanted["stack"], set(wanted["obstacles"]))
        except ValueError as error:
            start_response("400 Bad Request", [("Content-Type", "text/plain")])
            return [str(error).encode()]
        start_response("204 No Content", [])
        return []


def main() -> None:
    arguments = argparse.ArgumentParser(prog="emulator.server")
    arguments.add_argument("--rie", required=True)
    arguments.add_argument("--folder", required=True, type=Path)
    options = arguments.parse_args()
    check_version()

    # The port must be known before moto is loaded, and be ours before anyone is told of it.
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    port = listening.getsockname()[1]
    os.environ["MOTO_PORT"] = str(port)
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"  # AWS's own, which roles are given

    import moto.cloudformation.urls
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    from . import addresses, alarms, arns, buckets, composites, dynamodb, functions, guardian, identities, labels, metrics, permissions, provisioned, queues, recursion, streams, trail, urls, versions
    from . import resources  # noqa: F401  (which registers its handlers)
    from .accounts import Accounts
    from .cbor import Cbor
    from .cloudformation.service import Service
    from .dynamodb import DynamoDb

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            if str(code).startswith("5"):  # a fault of the emulator
                super().log_request(code, size)

    # Threads take turns fifty times as often as is usual: what is not atomic shows in tests.
    sys.setswitchinterval(0.0001)
    guardian.follow_guardian()
    accounts = Accounts(f"http://localhost:{port}")
    running = functions.Functions(accounts, options.rie, options.folder)
    functions.install(running)
    queues.install()
    buckets.install()
    alarms.install()
    composites.install()
    metrics.install()
    permissions.install()
    provisioned.install()
    recursion.install()
    urls.install()
    versions.install()
    streams.install(running)
    identities.install()
    addresses.install()
    labels.install()
    trail.install()
    dynamodb.install()
    Service.accounts = accounts
    moto.cloudformation.urls.url_paths = {"{0}/$": Service.dispatch}
    queues.Pollers(accounts).start()

    services = arns.Functions(DynamoDb(DomainDispatcherApplication(create_backend_app), accounts), accounts)
    application = _Control(urls.Urls(Cbor(services), running), running)
    server = make_server("127.0.0.1", port, application, threaded=True, fd=listening.fileno(), request_handler=Quiet)
    server.daemon_threads = True
    print(json.dumps({"url": accounts.endpoint, "templateOnly": templateonly.describe()}), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
