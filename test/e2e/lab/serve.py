#!/usr/bin/env python3
"""Serves a GGUF model with llama.cpp's HTTP server on loopback until standard input ends.

The server is the one in the wheel xllamacpp. One line on standard output, "ready URL", says that it listens.
"""
import argparse
import sys

import xllamacpp


def parameters(options: argparse.Namespace) -> "xllamacpp.CommonParams":
    p = xllamacpp.CommonParams()
    p.model.path = options.model
    p.model_alias = {options.alias} if isinstance(p.model_alias, (set, frozenset)) else options.alias
    p.hostnames = ["127.0.0.1"] if isinstance(p.hostnames, (list, tuple)) else "127.0.0.1"
    p.port = options.port
    p.offline = True
    p.ui = False
    p.n_ctx = options.context
    p.n_parallel = options.slots
    # Every slot has its own share of the context: prompts do not take room from one another.
    p.kv_unified = False
    # Small batches let /health and /metrics answer between two of them.
    p.n_batch = p.n_ubatch = 512
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    p.cache_ram_mib = options.cache_ram
    p.n_gpu_layers = 0
    p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    p.endpoint_metrics = p.endpoint_slots = True
    p.verbosity = 1
    return p


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--alias", default="tiny", help="name of the model in answers")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--context", type=int, default=8192, help="tokens, shared out among the slots")
    parser.add_argument("--slots", type=int, default=2, help="sequences at a time")
    parser.add_argument("--cache-ram", type=int, default=13, help="MiB of idle sequences kept beside the slots")
    server = xllamacpp.Server(parameters(parser.parse_args()))
    print("ready", server.listening_address, flush=True)
    # Ends with the process that started this one, however that ends.
    sys.stdin.read()


main()
