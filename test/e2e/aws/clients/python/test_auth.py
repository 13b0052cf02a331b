"""Signatures of boto3, presigned URLs, and the tokens of SageMaker's generator."""

import base64
import datetime
import json
import unittest.mock
import urllib.error

import botocore.auth
from botocore import UNSIGNED
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from rig import CLOSED, RIG, Case, call, client, order

LEAD, GUEST = RIG["lead"], RIG["guest"]


def invoke(key=LEAD, endpoint="python", change=None, **config):
    runtime = client("sagemaker-runtime", CLOSED, key, **config)
    if change:
        runtime.meta.events.register("before-send.sagemaker-runtime.*", change)
    return json.load(runtime.invoke_endpoint(EndpointName=endpoint, Body=order(), CustomAttributes="a  b=c/d", PrefixAwareId="tenant 7")["Body"])


def clock(by):
    """A clock that is wrong, for what signs."""
    now = datetime.datetime.now(datetime.timezone.utc) + by
    return unittest.mock.patch.object(botocore.auth, "get_current_datetime", lambda remove_tzinfo=True: now.replace(tzinfo=None))


def altered_body(request, **_):
    request.body = b"x" * len(request.body)


def altered_header(request, **_):
    request.headers["X-Amzn-SageMaker-Target-Variant"] = "b"


class Signatures(Case):
    def test_good(self):
        self.assertNotIn("authorization", invoke()["headers"])
        events = client("sagemaker-runtime", CLOSED).invoke_endpoint_with_response_stream(EndpointName="python", Body=order("parts", parts=2, size=10))["Body"]
        self.assertEqual(20, sum(len(event["PayloadPart"]["Bytes"]) for event in events))
        client("sagemaker", CLOSED).list_endpoints()
        for minutes in [-10, 10]:
            with clock(datetime.timedelta(minutes=minutes)):
                invoke()

    def test_bad(self):
        for name, arguments, want in [
            ("no credentials", {"signature_version": UNSIGNED}, "MissingAuthenticationTokenException"),
            ("unknown key", {"key": ["AKIANOBODY", LEAD[1]]}, "UnrecognizedClientException"),
            ("wrong secret", {"key": [LEAD[0], GUEST[1]]}, "InvalidSignatureException"),
            ("altered body", {"change": altered_body}, "InvalidSignatureException"),
            ("added header", {"change": altered_header}, "InvalidSignatureException"),
            ("another's endpoint", {"key": GUEST, "endpoint": "python-hasty"}, "AccessDeniedException"),
        ]:
            with self.subTest(name):
                self.refused(want, 403, lambda: invoke(**arguments))
        for hours in [-1, 1]:
            with self.subTest(f"clock {hours} h off"), clock(datetime.timedelta(hours=hours)):
                self.refused("InvalidSignatureException", 403, invoke, "Signature ")

    def test_control_plane(self):
        for key, want in [(GUEST, "AccessDeniedException"), ([LEAD[0], GUEST[1]], "InvalidSignatureException"), (["AKIANOBODY", "x"], "UnrecognizedClientException")]:
            with self.subTest(want):
                self.refused(want, 400, lambda: client("sagemaker", CLOSED, key).list_endpoints())

    def test_presigned(self):  # botocore puts bodies into the query, so one without
        request = AWSRequest("GET", CLOSED["data"] + "/endpoints/python-llm/openai/v1/models")
        SigV4QueryAuth(Credentials(*LEAD), "sagemaker", RIG["region"], expires=60).add_auth(request)
        self.assertIn("emulated-python", call(request.url))
        with self.assertRaises(urllib.error.HTTPError) as raised:
            call(request.url.replace("X-Amz-Expires=60", "X-Amz-Expires=61"))
        self.assertEqual(401, raised.exception.code)
        raised.exception.close()


def token(key, made=datetime.timedelta()):
    """A bearer token, as SageMaker's generator makes it."""
    request = AWSRequest("POST", "https://sagemaker.amazonaws.com/", headers={"host": "sagemaker.amazonaws.com"}, params={"Action": "CallWithBearerToken"})
    with clock(made):
        SigV4QueryAuth(Credentials(*key), "sagemaker", RIG["region"], expires=43200).add_auth(request)
    return "sagemaker-api-key-" + base64.b64encode((request.url.removeprefix("https://") + "&Version=1").encode()).decode()
