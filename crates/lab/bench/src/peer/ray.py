"""Ray as it is used: a task that does nothing, called one by one, and many at once.

Says a line when the first call is answered and one when it is warm. Then it reads lines `one COUNT` and
`many COUNT`, and answers each with a line of JSON.
"""

import json
import logging
import sys
import time

import ray

ray.init(
    num_cpus=2,
    include_dashboard=False,
    log_to_driver=False,
    logging_level=logging.ERROR,
    configure_logging=True,
)


@ray.remote
def nothing(item):
    return item


def one(count):
    times = []
    for item in range(count):
        begun = time.perf_counter()
        ray.get(nothing.remote(item))
        times.append(time.perf_counter() - begun)
    times.sort()
    return {"milliseconds": times[len(times) // 2] * 1e3}


def many(count):
    begun = time.perf_counter()
    found = ray.get([nothing.remote(item) for item in range(count)])
    seconds = time.perf_counter() - begun
    assert found == list(range(count))
    return {"per_second": count / seconds}


many(1)
print(json.dumps({"first": True}), flush=True)
many(200)
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    what, count = line.split()
    print(json.dumps({"one": one, "many": many}[what](int(count))), flush=True)
