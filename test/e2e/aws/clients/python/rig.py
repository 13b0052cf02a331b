"""What the tests share: where everything is, clients of it, and orders to the containers."""

import json
import os
import time
import unittest
import urllib.request

import boto3
from botocore.config import Config

RIG = json.loads(os.environ["WARMPATH_RIG"])
OPEN, CLOSED, ENGINE = RIG["open"], RIG["closed"], RIG["engine"]


def client(service, router=OPEN, key=RIG["lead"], **config):
    """A client of boto3 with nothing changed but its endpoint URL, and what config says."""
    url = router["control" if service == "sagemaker" else "data"]
    return boto3.client(service, endpoint_url=url, region_name=RIG["region"], aws_access_key_id=key[0], aws_secret_access_key=key[1],
                        config=Config(**config))


def order(mode="echo", **more):
    return json.dumps({"mode": mode, **more})


def chat(text, tokens):
    return json.dumps({"model": "emulated", "stream": True, "messages": [{"role": "user", "content": text}], "max_tokens": tokens})


def parts(count, size):
    """What a container sends in mode parts."""
    return "".join((f"{n} " * size)[:size] for n in range(count)).encode()


def call(url, body=None):
    """Speaks to an engine, or to the test that started this one."""
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def fault(script):
    call(ENGINE + "/emulator/faults", json.dumps(script).encode())


def ended(inference_id):
    """How an invocation ended at its engine, once it has."""
    return call(f"{RIG['hand']}/ended/{inference_id}")


def metric(series):
    """The sum of the open router's series whose line begins so."""
    lines = call(OPEN["admin"] + "/metrics").splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(series))


class Case(unittest.TestCase):
    def refused(self, name, status, call, text=""):
        """Calls, and wants the error of that name."""
        from botocore.exceptions import ClientError
        with self.assertRaises(ClientError) as raised:
            call()
        answer = raised.exception.response
        self.assertEqual((name, status), (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]), answer)
        self.assertTrue(answer["Error"]["Message"].startswith(text), answer)
        return answer

    def eventually(self, what, condition):
        over = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), over, f"it did not come about that {what}")
            time.sleep(0.02)
