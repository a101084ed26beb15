"""llama.cpp's server, to embed texts with mean pooling or to chat; `scripts/llama-server` runs it."""

import os
import sys

import xllamacpp

# Embedding: tokens per text, and texts per batch.
TOKENS = 512
TEXTS = 4

# Chat: one answer at a time, so that a test knows that no other is being generated.
WINDOW = 2048

ONLY_ERRORS = 1


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in PURPOSES:
        sys.exit("usage: scripts/llama-server embed|chat MODEL.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[2]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    # More threads spin while they wait for each other: on a busy machine a second of work takes a minute then.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = ONLY_ERRORS
    PURPOSES[sys.argv[1]](params)
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    # Taking the server down in order sometimes never ends.
    os._exit(0)


def embed(params: xllamacpp.CommonParams) -> None:
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.n_parallel = TEXTS
    params.n_ctx = TEXTS * TOKENS
    params.n_batch = params.n_ubatch = TOKENS
    # With a cache for each text, texts of different lengths are computed in slices, and the mean is taken over the
    # last slice only: a text's vector would depend on its neighbours.
    params.kv_unified = True


def chat(params: xllamacpp.CommonParams) -> None:
    params.n_parallel = 1
    params.n_ctx = WINDOW
    params.endpoint_slots = True
    params.endpoint_metrics = True
    # What was computed for an earlier prompt differs in the last bits, and an answer could take another turn there.
    params.cache_prompt = False


PURPOSES = {"embed": embed, "chat": chat}

main()
