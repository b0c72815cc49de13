"""Starts llama.cpp's own server on a free port of this machine and prints its address.

Argument: the model's file. It ends when its input does, so it never outlives the test.
"""

import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 2048
params.n_parallel = 1
params.model_alias = {"smollm2"}
params.warmup = False
params.cpuparams.n_threads = 2
params.cpuparams_batch.n_threads = 2
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
