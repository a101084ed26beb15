"""ONNX Runtime at its best, asked over standard input: a question a line, an answer a line.

Graphs come from graphs.py. Which of them, which batch size and which way of waiting it is best with is measured first,
by a process of its own, so that the memory of the tries is not counted.
"""

import itertools
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

FIRST_POSITION, HIDDEN = 2, 384
BATCHES = [1, 2, 4, 8, 16, 32]


def session(graph, threads, spins):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spins else "0")
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def run(session, tokenizer, texts):
    """Vectors of texts of about one length, padded to the longest."""
    encoded = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    longest = max(map(len, encoded))
    tokens = np.ones((len(encoded), longest), np.int64)
    for row, ids in zip(tokens, encoded):
        row[: len(ids)] = ids
    positions = np.broadcast_to(np.arange(longest) + FIRST_POSITION, tokens.shape)
    lengths = np.array([len(ids) for ids in encoded], np.int32)
    feeds = {"tokens": tokens, "positions": positions, "lengths": lengths}
    (vectors,) = session.run(None, feeds)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def run_all(session, tokenizer, texts, batch):
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    vectors = np.empty((len(texts), HIDDEN), np.float32)
    for start in range(0, len(texts), batch):
        places = order[start : start + batch]
        vectors[places] = run(session, tokenizer, [texts[place] for place in places])
    return vectors


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_megabytes():
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize() / 1e6


class Opponent:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self.tokenizer.encode_special_tokens = True

    def calibrate(self, texts):
        """What takes the least CPU time, and what each graph reaches at its best."""
        tries = []
        for graph, spins in itertools.product(("whole", "pruned"), (False, True)):
            tried = session(self.folder / f"{graph}.onnx", 2, spins)
            run_all(tried, self.tokenizer, texts[:8], 4)
            for batch in BATCHES:
                before = cpu_seconds()
                run_all(tried, self.tokenizer, texts, batch)
                tries.append((cpu_seconds() - before, graph, spins, batch))
        _, graph, spins, batch = min(tries)
        rates = {name: len(texts) / min(row[0] for row in tries if row[1] == name) for name in ("whole", "pruned")}
        tokens = sum(len(encoding.ids) for encoding in self.tokenizer.encode_batch(texts)) / len(texts)
        return {"graph": graph, "spins": spins, "batch": batch, "rates": rates, "tokens": tokens}

    def use(self, graph, spins, batch):
        self.graph, self.batch = self.folder / f"{graph}.onnx", batch
        self.bulk, self.for_queries = session(self.graph, 2, spins), {}
        return {}

    def embed(self, texts):
        wall, cpu = time.perf_counter(), cpu_seconds()
        vectors = run_all(self.bulk, self.tokenizer, texts, self.batch)
        spent = {"cpu": cpu_seconds() - cpu, "wall": time.perf_counter() - wall}
        return spent | {"vectors": vectors.astype(float).tolist(), "megabytes": resident_megabytes()}

    def queries(self, texts, threads):
        """Milliseconds of each query, with threads that spin while they wait, as is the default."""
        if threads not in self.for_queries:
            self.for_queries[threads] = session(self.graph, threads, True)
            run(self.for_queries[threads], self.tokenizer, texts[:1])
        milliseconds = []
        for text in texts:
            start = time.perf_counter()
            run(self.for_queries[threads], self.tokenizer, [text])
            milliseconds.append(1000 * (time.perf_counter() - start))
        return {"milliseconds": milliseconds}


opponent = Opponent(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps(getattr(opponent, asked.pop("ask"))(**asked)), flush=True)
