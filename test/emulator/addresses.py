"""Instances that start together get addresses of their subnet one after another.

Stock moto takes the next address from a generator that all share: two threads in it end in a ValueError,
which is status 500.
"""

import threading
from typing import Any

from moto.ec2.models.subnets import Subnet


def install() -> None:
    lock = threading.Lock()
    stock = Subnet.get_available_subnet_ip

    def get_available_subnet_ip(self: Subnet, instance: Any) -> str:
        with lock:
            return stock(self, instance)

    Subnet.get_available_subnet_ip = get_available_subnet_ip
