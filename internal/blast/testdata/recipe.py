"""Recipes 12.1 and 12.2 as their text has them, for BenchmarkBesidePython.

Usage: recipe.py PREFIX TENANTS SHARDS PER_TENANT KEY_HEX MODE

Counts the tenants that are fully down and degraded after every single failure and every pair, and
prints the seconds of processor time that this took and the counts, as one JSON object. MODE says how
often subsets are computed: "text" for every set of failed shards, which is what the recipe does, "once"
for all of them.
"""

import hashlib
import hmac
import itertools
import json
import sys
import time


def subset_of(tenant, n, k, key):
    limit = (1 << 64) // n * n
    members = []
    block = 0
    while len(members) < k:
        digest = hmac.new(key, tenant.encode() + b"\0" + block.to_bytes(8, "big"), hashlib.sha256).digest()
        block += 1
        for at in range(0, 32, 8):
            word = int.from_bytes(digest[at:at + 8], "big")
            if word < limit and word % n not in members and len(members) < k:
                members.append(word % n)
    return members


def fully_down(subsets, failed):
    return sum(1 for subset in subsets() if subset <= failed)


def degraded(subsets, failed):
    return sum(1 for subset in subsets() if subset & failed)


def main():
    prefix, mode = sys.argv[1], sys.argv[6]
    tenants, n, k = (int(a) for a in sys.argv[2:5])
    key = bytes.fromhex(sys.argv[5])
    ids = [f"{prefix}{i:06d}" for i in range(tenants)]
    start = time.process_time()

    def compute():
        return (set(subset_of(tenant, n, k, key)) for tenant in ids)

    subsets = compute
    if mode == "once":
        kept = list(compute())
        subsets = lambda: kept
    counts = []
    for size in (1, 2):
        for failed in itertools.combinations(range(n), size):
            failed = set(failed)
            counts.append([fully_down(subsets, failed), degraded(subsets, failed)])
    print(json.dumps({"seconds": time.process_time() - start, "counts": counts}))


main()
