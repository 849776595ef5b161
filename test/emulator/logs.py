"""What functions print goes to their log group, a stream per environment, as on Lambda."""

import contextlib
import time
import uuid
from typing import IO

from botocore.exceptions import ClientError

from .accounts import Accounts


class Stream:
    """A log stream of one execution environment."""

    def __init__(self, accounts: Accounts, account: str, region: str, group: str, version: str) -> None:
        self._client = accounts.client("logs", account, region)
        self._group = group
        self._stream = f"{time.strftime('%Y/%m/%d', time.gmtime())}/[{version}]{uuid.uuid4().hex}"

    def follow(self, output: IO[bytes]) -> None:
        """Writes line by line until the output ends. Without the group, as on Lambda, nothing is kept."""
        with contextlib.suppress(ClientError):
            self._client.create_log_stream(logGroupName=self._group, logStreamName=self._stream)
        for line in output:
            event = {"timestamp": int(time.time() * 1000), "message": line.decode(errors="replace").rstrip("\n") or " "}
            with contextlib.suppress(ClientError):
                self._client.put_log_events(logGroupName=self._group, logStreamName=self._stream, logEvents=[event])
