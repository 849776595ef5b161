"""Keys and secrets. A secret's value is really generated: stock moto leaves it out."""

import json
import secrets
import string
from typing import Any

from ..cloudformation.call import call
from ..cloudformation.errors import ValidationError
from ..cloudformation.handler import Handler, Made, Place, changed, resource
from .tags import without


@resource("AWS::KMS::Key")
class Key(Handler):
    _APART = ("KeyPolicy", "EnableKeyRotation", "PendingWindowInDays", "RotationPeriodInDays", "Tags")

    def create(self, at: Place, p: dict[str, Any]) -> Made:
        if _rotates(p) and p.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":  # stock moto rotates any key
            raise ValidationError(f"a key of spec {p['KeySpec']} cannot be rotated by itself")
        client = at.client("kms")
        tags = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in p.get("Tags", [])]
        key = call(client, "CreateKey", Policy=_document(p), Tags=tags, **without(p, *self._APART))["KeyMetadata"]
        self._rotate(client, key["KeyId"], p)
        return Made(key["KeyId"], {"Arn": key["Arn"], "KeyId": key["KeyId"]})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) - {"KeyPolicy", "EnableKeyRotation", "PendingWindowInDays", "Description"}:
            return None
        client = at.client("kms")
        client.put_key_policy(KeyId=made.id, PolicyName="default", Policy=_document(new))
        client.update_key_description(KeyId=made.id, Description=new.get("Description", ""))
        self._rotate(client, made.id, new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("kms").schedule_key_deletion(KeyId=made.id, PendingWindowInDays=int(p.get("PendingWindowInDays", 30)))

    def _rotate(self, client: Any, key: str, p: dict[str, Any]) -> None:
        if _rotates(p):
            call(client, "EnableKeyRotation", KeyId=key, RotationPeriodInDays=p.get("RotationPeriodInDays"))
        elif p.get("KeySpec", "SYMMETRIC_DEFAULT") == "SYMMETRIC_DEFAULT":
            client.disable_key_rotation(KeyId=key)


def _rotates(p: dict[str, Any]) -> bool:
    return str(p.get("EnableKeyRotation", False)).lower() == "true"


def _document(p: dict[str, Any]) -> str:
    return json.dumps(p["KeyPolicy"])


@resource("AWS::KMS::Alias")
class KeyAlias(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        call(at.client("kms"), "CreateAlias", **p)
        return Made(p["AliasName"])

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        if changed(old, new) - {"TargetKeyId"}:
            return None
        call(at.client("kms"), "UpdateAlias", **new)
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("kms").delete_alias(AliasName=made.id)


@resource("AWS::SecretsManager::Secret")
class Secret(Handler):
    def create(self, at: Place, p: dict[str, Any]) -> Made:
        value = generate(p["GenerateSecretString"]) if "GenerateSecretString" in p else p.get("SecretString", "")
        rest = without(p, "GenerateSecretString", "SecretString")
        arn = call(at.client("secretsmanager"), "CreateSecret", **{"Name": at.name(), **rest}, SecretString=value)["ARN"]
        return Made(arn, {"Id": arn})

    def update(self, at: Place, made: Made, old: dict[str, Any], new: dict[str, Any]) -> Made | None:
        moved = changed(old, new)
        if moved & {"Name", "Tags"}:
            return None
        # As on AWS, a changed rule for generating makes a new value.
        value = generate(new["GenerateSecretString"]) if "GenerateSecretString" in moved & set(new) else new.get("SecretString")
        call(at.client("secretsmanager"), "UpdateSecret", SecretId=made.id, SecretString=value, Description=new.get("Description"), KmsKeyId=new.get("KmsKeyId"))
        return made

    def delete(self, at: Place, made: Made, p: dict[str, Any]) -> None:
        at.client("secretsmanager").delete_secret(SecretId=made.id, ForceDeleteWithoutRecovery=True)


_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def generate(rule: dict[str, Any]) -> str:
    """A secret's value, by AWS::SecretsManager::Secret's GenerateSecretString.

    Source: AWS CloudFormation, AWS::SecretsManager::Secret GenerateSecretString.
    """
    flags = {name: str(rule.get(name, False)).lower() == "true" for name in (
        "ExcludeLowercase", "ExcludeUppercase", "ExcludeNumbers", "ExcludePunctuation", "IncludeSpace", "RequireEachIncludedType")}
    if "RequireEachIncludedType" not in rule:
        flags["RequireEachIncludedType"] = True
    known = {*flags, "PasswordLength", "ExcludeCharacters", "SecretStringTemplate", "GenerateStringKey"}
    if unknown := set(rule) - known:
        raise ValidationError(f"the emulator has no support for {sorted(unknown)} of GenerateSecretString")
    excluded = set(rule.get("ExcludeCharacters", ""))
    alphabets = [
        "".join(character for character in alphabet if character not in excluded)
        for name, alphabet in (
            ("ExcludeLowercase", string.ascii_lowercase), ("ExcludeUppercase", string.ascii_uppercase),
            ("ExcludeNumbers", string.digits), ("ExcludePunctuation", _PUNCTUATION))
        if not flags[name]
    ]
    if flags["IncludeSpace"]:
        alphabets.append(" ")
    alphabets, length = [alphabet for alphabet in alphabets if alphabet], int(rule.get("PasswordLength", 32))
    required = alphabets if flags["RequireEachIncludedType"] else []
    if not alphabets or not max(1, len(required)) <= length <= 4096:
        raise ValidationError("GenerateSecretString leaves no character to choose, or has a length out of range")
    characters = [secrets.choice(alphabet) for alphabet in required]
    characters += [secrets.choice("".join(alphabets)) for _ in range(length - len(characters))]
    secrets.SystemRandom().shuffle(characters)
    password = "".join(characters)
    if ("SecretStringTemplate" in rule) != ("GenerateStringKey" in rule):
        raise ValidationError("SecretStringTemplate and GenerateStringKey go together")
    if "GenerateStringKey" not in rule:
        return password
    return json.dumps({**json.loads(rule["SecretStringTemplate"]), rule["GenerateStringKey"]: password})
