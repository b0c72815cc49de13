"""Starts llama.cpp's own server on a free port of this machine and writes its address to a file.

Arguments: the model's file, the file for the address, the number of threads.
"""

import sys
import threading

import xllamacpp

model, told, threads = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path = model
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 2048
params.n_parallel = 1
params.warmup = True
params.cpuparams.n_threads = int(threads)
params.cpuparams_batch.n_threads = int(threads)
server = xllamacpp.Server(params)
with open(told, "w", encoding="utf-8") as file:
    file.write(server.listening_address + "\n")
threading.Event().wait()
