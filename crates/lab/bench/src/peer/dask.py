"""Dask as it is used: a task that does nothing, called one by one, and many at once.

Says a line when the first call is answered and one when it is warm. Then it reads lines `one COUNT` and
`many COUNT`, and answers each with a line of JSON.
"""

import json
import sys
import time

from distributed import Client, LocalCluster


def nothing(item):
    return item


def one(client, count):
    times = []
    for item in range(count):
        begun = time.perf_counter()
        client.submit(nothing, item, pure=False).result()
        times.append(time.perf_counter() - begun)
    times.sort()
    return {"milliseconds": times[len(times) // 2] * 1e3}


def many(client, count):
    begun = time.perf_counter()
    found = client.gather(client.map(nothing, range(count), pure=False))
    seconds = time.perf_counter() - begun
    assert found == list(range(count))
    return {"per_second": count / seconds}


if __name__ == "__main__":
    # In this process, workers as threads: its cheapest form on one machine.
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    )
    with cluster, Client(cluster) as client:
        many(client, 1)
        print(json.dumps({"first": True}), flush=True)
        many(client, 200)
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            what, count = line.split()
            answer = {"one": one, "many": many}[what](client, int(count))
            print(json.dumps(answer), flush=True)
