"""Clients and credentials of any account.

Moto decides the account by the access key; a key that it did not issue belongs to 123456789012. So
every account is entered through sts:AssumeRole, as the tests and the CDK CLI do it, too.
"""

import threading
from typing import Any

import boto3
from botocore.config import Config

_ROLE = "emulator"


class Accounts:
    """Hands out API clients by service, account and region, and remembers them."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._session = boto3.session.Session()
        self._lock = threading.RLock()
        self._credentials: dict[str, dict[str, str]] = {}
        self._clients: dict[tuple[str, str, str], Any] = {}

    def client(self, service: str, account: str, region: str) -> Any:
        """The boto3 client of one service in one account and region."""
        key = (service, account, region)
        with self._lock:  # making clients is not safe for threads; using them is
            if key not in self._clients:
                self._clients[key] = self._make(service, region, self.credentials(account))
            return self._clients[key]

    def credentials(self, account: str) -> dict[str, str]:
        """Credentials of the account, under the names that boto3.client takes."""
        with self._lock:
            if account not in self._credentials:
                sts = self._make("sts", "us-east-1", {"aws_access_key_id": "none", "aws_secret_access_key": "none"})
                role = f"arn:aws:iam::{account}:role/{_ROLE}"
                issued = sts.assume_role(RoleArn=role, RoleSessionName=_ROLE)["Credentials"]
                self._credentials[account] = {
                    "aws_access_key_id": issued["AccessKeyId"],
                    "aws_secret_access_key": issued["SecretAccessKey"],
                    "aws_session_token": issued["SessionToken"],
                }
            return self._credentials[account]

    def environment(self, account: str, region: str) -> dict[str, str]:
        """The environment that makes any AWS SDK talk to the emulator as this account."""
        credentials = {name.upper(): value for name, value in self.credentials(account).items()}
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": region, "AWS_DEFAULT_REGION": region, **credentials}

    def _make(self, service: str, region: str, credentials: dict[str, str]) -> Any:
        config = Config(
            retries={"total_max_attempts": 1},  # an error of the emulator shall be seen, not repeated
            s3={"addressing_style": "path"},
            max_pool_connections=64,
        )
        return self._session.client(service, region_name=region, endpoint_url=self.endpoint, config=config, **credentials)
