"""A secret's labels move whole, and who names no value gets the one that is AWSCURRENT.

Stock moto answers GetSecretValue with the value that was last put as AWSCURRENT, wherever the label has
been moved since. It looks where a label is and moves it in two steps, so that of two who move it from the
same value both may succeed.
"""

import threading
from typing import Any

from moto.secretsmanager.models import SecretsManagerBackend

_lock = threading.RLock()


def install() -> None:
    """Has values put and labels moved one after another."""
    put, move = SecretsManagerBackend.put_secret_value, SecretsManagerBackend.update_secret_version_stage

    def put_secret_value(self: SecretsManagerBackend, *arguments: Any, **named: Any) -> str:
        with _lock:
            return put(self, *arguments, **named)

    def update_secret_version_stage(
        self: SecretsManagerBackend, secret_id: str, version_stage: str, remove_from_version_id: str, move_to_version_id: str
    ) -> tuple[str, str]:
        with _lock:
            moved = move(self, secret_id, version_stage, remove_from_version_id, move_to_version_id)
            if version_stage == "AWSCURRENT":
                self.secrets[secret_id].set_default_version_id(move_to_version_id)
            return moved

    SecretsManagerBackend.put_secret_value = put_secret_value
    SecretsManagerBackend.update_secret_version_stage = update_secret_version_stage
