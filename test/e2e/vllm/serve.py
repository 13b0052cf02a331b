"""Runs vLLM's command line until standard input ends, and then ends it with all processes that it has started.

It must lead a process group of its own. A signal to its process id reaches the API server alone.
"""
import os
import signal
import threading


def end_with_input():
    while os.read(0, 1):  # not sys.stdin, whose lock a fork would copy
        pass
    os.killpg(0, signal.SIGKILL)


threading.Thread(target=end_with_input, daemon=True).start()

from vllm.entrypoints.cli.main import main  # noqa: E402: takes seconds, in which the input may end

main()
