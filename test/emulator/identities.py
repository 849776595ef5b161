"""Roles may come and go while others are used.

Every request notes when its caller's role was used last, for which stock moto walks through the account's
roles: a role that is made or deleted by another thread meanwhile ends the walk with status 500. Here it
walks through a copy.
"""

from moto.iam.models import IAMBackend, Role


def install() -> None:
    def get_roles(self: IAMBackend) -> list[Role]:
        return list(self.roles.values())

    IAMBackend.get_roles = get_roles
