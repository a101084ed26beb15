"""llama.cpp's server in embedding mode, with mean pooling; `scripts/llama-server` runs it."""

import os
import sys

import xllamacpp

# A text may have so many tokens, and so many texts are embedded at once.
TOKENS = 512
TEXTS = 4

ONLY_ERRORS = 1


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: scripts/llama-server MODEL.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.n_parallel = TEXTS
    params.n_ctx = TEXTS * TOKENS
    params.n_batch = params.n_ubatch = TOKENS
    # With a cache for each text, texts of different lengths are computed in slices, and the mean is taken over the
    # last slice only: a text's vector would depend on its neighbours.
    params.kv_unified = True
    # More threads spin while they wait for each other: on a busy machine a second of work takes a minute then.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = ONLY_ERRORS
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    # Taking the server down in order sometimes never ends.
    os._exit(0)


main()
