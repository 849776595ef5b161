"""Lambda invocations run the function's real binary.

Stock moto runs functions in Docker containers, or not at all. Here each invocation goes to AWS's
Lambda Runtime Interface Emulator (RIE) with the function's own zip file, in an environment that holds
the function's variables, its account's credentials and the emulator's address, and nothing else but
SSL_CERT_FILE where the emulator has that. As on Lambda, an environment serves one request at a time,
versions have environments of their own,
reserved concurrency is enforced (also 0; stock moto ignores it), and what the function prints goes to
its log group. Also kept, where stock moto forgets it: LoggingConfig.

Not as on Lambda: no account-wide concurrency, no retries of asynchronous invocations, no VPC.
"""

import io
import json
import os
import platform
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from moto.awslambda.models import LambdaFunction, lambda_backends
from moto.core.exceptions import JsonRESTError

from .accounts import Accounts
from .logs import Stream

_START_SECONDS = 10
_ARCHITECTURES = {62: "x86_64", 183: "arm64"}  # ELF e_machine
_MACHINE = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]

# What moto keeps of a function, and what it changes. The rest would be dropped in silence.
_KEPT = {
    "FunctionName", "Runtime", "Role", "Handler", "Code", "Description", "Timeout", "MemorySize", "Publish", "VpcConfig", "PackageType",
    "Environment", "TracingConfig", "Tags", "Layers", "Architectures", "EphemeralStorage", "LoggingConfig",
}
_CHANGEABLE = {"Description", "Handler", "MemorySize", "Role", "Runtime", "Timeout", "VpcConfig", "Environment", "Layers", "LoggingConfig", "FunctionName"}


class Throttled(JsonRESTError):
    """Reserved concurrency is used up."""

    code = 429

    def __init__(self) -> None:
        super().__init__("TooManyRequestsException", "Rate Exceeded.")
        self.description = json.dumps({
            "__type": "TooManyRequestsException",
            "message": "Rate Exceeded.",
            "Reason": "ReservedFunctionConcurrentInvocationLimitExceeded",
        })


class _Environment:
    """One execution environment: the RIE with the function's process behind it."""

    def __init__(self, rie: str, code: Path, handler: str, variables: dict[str, str], log: Stream) -> None:
        for _ in range(3):  # another process may take a free port first
            address, runtime_api = (f"127.0.0.1:{port}" for port in _free_ports(2))
            command = [
                rie, "--runtime-interface-emulator-address", address, "--runtime-api-address", runtime_api,
                "--log-level", "error", str(code / "bootstrap"), handler,
            ]
            self._process = subprocess.Popen(command, cwd=code, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            threading.Thread(target=log.follow, args=(self._process.stdout,), daemon=True).start()
            self._url = f"http://{address}/2015-03-31/functions/function/invocations"
            if self._listens(address):
                return
            self.stop()
        raise RuntimeError("the Lambda Runtime Interface Emulator does not start")

    def _listens(self, address: str) -> bool:
        host, _, port = address.partition(":")
        end = time.monotonic() + _START_SECONDS
        while self._process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection((host, int(port)), 1).close()
                return True
            except OSError:
                time.sleep(0.005)
        return False

    def invoke(self, payload: bytes, seconds: float) -> tuple[bytes, bool, bool]:
        """The answer, whether it is an error, and whether the environment can serve again."""
        try:
            with urllib.request.urlopen(urllib.request.Request(self._url, data=payload), timeout=seconds + 5) as response:
                answer = response.read()
        except (OSError, urllib.error.HTTPError) as error:
            return _failure("Runtime.ExitError", f"RequestId: none Error: Runtime exited: {error}"), True, False
        if answer.startswith(b"Task timed out after"):
            return _failure("Sandbox.Timedout", answer.decode(errors="replace")), True, False
        # The runtime of one that exited is started again by the emulator, and not always in time; Lambda gives the next
        # request to another environment.
        return answer, _is_error(answer), not _exited(answer)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Functions:
    """The environments of all functions, by version and configuration."""

    def __init__(self, accounts: Accounts, rie: str, folder: Path) -> None:
        self._accounts = accounts
        self._rie = rie
        self._folder = folder
        self._lock = threading.Lock()
        self._idle: dict[str, list[_Environment]] = {}
        self._running: Counter[str] = Counter()
        self._invocations: Counter[str] = Counter()

    def invocations(self) -> dict[str, int]:
        """How often each function was invoked, by ARN without version."""
        with self._lock:
            return dict(self._invocations)

    def run(self, function: LambdaFunction, payload: bytes) -> tuple[bytes, bool]:
        """Invokes the function and waits: the answer and whether it is an error. Throttled may be raised."""
        arn = f"arn:aws:lambda:{function.region}:{function.account_id}:function:{function.function_name}"
        self._enter(arn, function)
        try:
            if fault := _wrong_machine(function):
                return _failure("Runtime.InvalidEntrypoint", fault), True
            return self._serve(function, payload)
        finally:
            with self._lock:
                self._running[arn] -= 1

    def _enter(self, arn: str, function: LambdaFunction) -> None:
        latest = lambda_backends[function.account_id][function.region].get_function(function.function_name)
        limit = latest.reserved_concurrency
        with self._lock:
            if limit is not None and self._running[arn] >= int(limit):
                raise Throttled
            self._running[arn] += 1
            self._invocations[arn] += 1

    def _serve(self, function: LambdaFunction, payload: bytes) -> tuple[bytes, bool]:
        variables = self._variables(function)
        key = json.dumps([function.function_arn, function.code_sha_256, variables], sort_keys=True)
        with self._lock:
            idle = self._idle.setdefault(key, [])
            environment = idle.pop() if idle else None
        if environment is None:
            log = Stream(self._accounts, function.account_id, function.region, log_group(function), str(function.version))
            environment = _Environment(self._rie, self._code(function), function.handler, variables, log)
        answer, error, alive = environment.invoke(payload, float(function.timeout))
        if alive:
            with self._lock:
                idle.append(environment)
        else:
            environment.stop()
        return answer, error

    def _variables(self, function: LambdaFunction) -> dict[str, str]:
        return {
            **{name: str(value) for name, value in function.environment_vars.items()},
            **self._accounts.environment(function.account_id, function.region),
            "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
            "AWS_LAMBDA_FUNCTION_VERSION": str(function.version),
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(function.timeout),
            "AWS_LAMBDA_LOG_GROUP_NAME": log_group(function),
            "LANG": "en_US.UTF-8",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "TZ": ":UTC",
            # Whom TLS is believed: what stands for the certificates of Lambda's own image.
            **({"SSL_CERT_FILE": os.environ["SSL_CERT_FILE"]} if "SSL_CERT_FILE" in os.environ else {}),
        }

    def _code(self, function: LambdaFunction) -> Path:
        """The folder with the function's unpacked code; unpacked once per digest."""
        folder = self._folder / bytes(function.code_sha_256, "ascii").hex()
        with self._lock:
            if not folder.exists():
                unpacking = Path(tempfile.mkdtemp(dir=self._folder))
                zipfile.ZipFile(io.BytesIO(function.code_bytes)).extractall(unpacking)
                for file in unpacking.rglob("*"):
                    file.chmod(0o755)
                try:
                    unpacking.rename(folder)
                except OSError:
                    shutil.rmtree(unpacking)
                    raise
        return folder


def install(functions: Functions) -> None:
    """Makes moto's Lambda run functions here."""
    create, configuration, update = LambdaFunction.__init__, LambdaFunction.get_configuration, LambdaFunction.update_configuration

    def __init__(self: LambdaFunction, account_id: str, spec: dict[str, Any], region: str, version: str | int = 1) -> None:
        _refuse(set(spec) - _KEPT, "make a function with")
        create(self, account_id, spec, region, version)
        self.logging_config = spec.get("LoggingConfig") or {}

    def get_configuration(self: LambdaFunction, on_create: bool = False) -> dict[str, Any]:
        logging = {"LogFormat": "Text", "LogGroup": f"/aws/lambda/{self.function_name}", **self.logging_config}
        return {**configuration(self, on_create), "LoggingConfig": logging}

    def update_configuration(self: LambdaFunction, updates: dict[str, Any]) -> dict[str, Any]:
        _refuse(set(updates) - _CHANGEABLE, "change a function's")
        self.logging_config = updates.get("LoggingConfig", self.logging_config)
        update(self, updates)
        return self.get_configuration()

    def invoke(self: LambdaFunction, body: bytes | str, request_headers: Any, response_headers: Any) -> bytes:
        payload = body.encode() if isinstance(body, str) else body
        if request_headers.get("X-Amz-Invocation-Type") == "Event":
            threading.Thread(target=functions.run, args=(self, payload or b"{}"), daemon=True).start()
            return b""
        answer, error = functions.run(self, payload or b"{}")
        if error:
            response_headers["x-amz-function-error"] = "Unhandled"
        return answer

    LambdaFunction.__init__ = __init__
    LambdaFunction.get_configuration = get_configuration
    LambdaFunction.update_configuration = update_configuration
    LambdaFunction.invoke = invoke


def log_group(function: LambdaFunction) -> str:
    """The log group that the function writes to."""
    return function.logging_config.get("LogGroup") or f"/aws/lambda/{function.function_name}"


def _refuse(names: set[str], verb: str) -> None:
    if names:
        raise JsonRESTError("InvalidParameterValueException", f"the emulator cannot {verb} {sorted(names)}")


def _wrong_machine(function: LambdaFunction) -> str | None:
    """Why this machine, or the one that the function asks for, cannot run its code; None when both can."""
    with zipfile.ZipFile(io.BytesIO(function.code_bytes)) as archive:
        if "bootstrap" not in archive.namelist():
            return "Couldn't find valid bootstrap(s): the function's code has no file named bootstrap"
        with archive.open("bootstrap") as file:
            head = file.read(20)
    built = _ARCHITECTURES.get(int.from_bytes(head[18:20], "little")) if head.startswith(b"\x7fELF") else None
    wanted = function.architectures[0]
    if built not in (None, wanted):
        return f"fork/exec bootstrap: exec format error: the code is for {built}, the function for {wanted}"
    if built not in (None, _MACHINE):
        return f"the code is for {built}; the emulator runs functions on this machine, which is {_MACHINE}"
    return None


def _is_error(answer: bytes) -> bool:
    """The RIE answers errors with status 200, as a document of its own form."""
    return _error_type(answer) is not None


def _exited(answer: bytes) -> bool:
    return str(_error_type(answer)).startswith("Runtime.")


def _error_type(answer: bytes) -> Any:
    try:
        document = json.loads(answer)
    except ValueError:
        return None
    return document["errorType"] if isinstance(document, dict) and {"errorMessage", "errorType"} <= document.keys() else None


def _failure(kind: str, message: str) -> bytes:
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
