"""boto3's sagemaker-runtime: invocations and streams."""

import json
import time

from botocore.exceptions import ClientError, EventStreamError

from rig import OPEN, RIG, Case, call, chat, client, ended, metric, order, parts

runtime = client("sagemaker-runtime")
once = client("sagemaker-runtime", retries={"total_max_attempts": 1})


def stream(body, endpoint="python", **more):
    return runtime.invoke_endpoint_with_response_stream(EndpointName=endpoint, ContentType="application/json", Body=body, **more)


def read(events):
    return b"".join(event["PayloadPart"]["Bytes"] for event in events)


def in_session(endpoint, session, body):
    return runtime.invoke_endpoint(EndpointName=endpoint, SessionId=session, ContentType="application/json", Body=body)


def session_body(kind):
    """What SageMaker's containers take for a session: NEW_SESSION or CLOSE."""
    return json.dumps({"requestType": kind})


def open_session(endpoint):
    """Opens a session, and returns its id and the replica that keeps it."""
    answer = in_session(endpoint, "NEW_SESSION", session_body("NEW_SESSION"))
    return answer["NewSessionId"].split("; Expires=")[0], where(answer)[0]


def where(answer):
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    return headers["x-warmpath-replica"], headers["x-warmpath-decision"]


class Invoke(Case):
    def test_round_trip(self):
        answer = runtime.invoke_endpoint(
            EndpointName="python", Body=b"What is warm?", ContentType="text/x-prompt", Accept="application/json", CustomAttributes="trace=7; c000b4f9",
            InferenceId="python-invoke", PrefixAwareId="tenant-7 / doc 12", TargetModel="adapter.tar.gz", EnableExplanations="`false`")
        got = json.load(answer["Body"])
        self.assertEqual(("python-a", "/invocations", "What is warm?"), (got["container"], got["path"], got["body"]))
        for name, want in {
            "content-type": "text/x-prompt", "accept": "application/json", "x-amzn-sagemaker-custom-attributes": "trace=7; c000b4f9",
            "x-amzn-sagemaker-inference-id": "python-invoke", "x-amzn-sagemaker-prefix-aware-id": "tenant-7 / doc 12",
            "x-amzn-sagemaker-target-model": "adapter.tar.gz", "x-amzn-sagemaker-enable-explanations": "`false`",
            "authorization": None, "x-amz-date": None, "user-agent": None,
        }.items():
            self.assertEqual(want, got["headers"].get(name), name)
        self.assertEqual(("application/json", "a", "answered-by=python-a"),
                         (answer["ContentType"], answer["InvokedProductionVariant"], answer["CustomAttributes"]))
        metadata = answer["ResponseMetadata"]
        self.assertTrue(metadata["RequestId"] and metadata["HTTPHeaders"]["x-warmpath-replica"] and metadata["HTTPHeaders"]["x-warmpath-decision"])
        self.assertEqual("whole", ended("python-invoke"))

    def test_target_variant(self):
        answer = runtime.invoke_endpoint(EndpointName="python", Body=order(), TargetVariant="b")
        self.assertEqual(("b", "python-b"), (answer["InvokedProductionVariant"], json.load(answer["Body"])["container"]))

    def test_inference_components(self):
        def answering(component, endpoint="python-shared"):
            return json.load(runtime.invoke_endpoint(EndpointName=endpoint, Body=order(), **({"InferenceComponentName": component} if component else {}))["Body"])["container"]
        self.assertEqual(["python-a", "python-b"], [answering("python-a"), answering("python-b")])
        self.assertIn(b"[DONE]", read(stream(chat("Hello.", 3), "python-shared", InferenceComponentName="python-llm")["Body"]))
        for component, endpoint in [("none", "python-shared"), (None, "python-shared"), ("python-a", "python")]:
            self.refused("ValidationError", 400, lambda: answering(component, endpoint))

    def test_refusals(self):
        long = "x" * 65
        for name, change, want, status, text in [
            ("unknown endpoint", {"EndpointName": "missing"}, "ValidationError", 400, "Endpoint missing not found."),
            ("unknown variant", {"TargetVariant": "c"}, "ValidationError", 400, ""),
            ("prefix id too long", {"PrefixAwareId": long}, "ValidationError", 400, f"1 validation error detected: Value '{long[:63]}' at 'prefixAwareId' "
             "failed to satisfy constraint: Member must have length less than or equal to 64"),
            ("body too large", {"Body": b"x" * (2 * RIG["maxBody"])}, "ValidationError", 413, ""),
            ("no replica", {"EndpointName": "empty"}, "ServiceUnavailable", 503, ""),
            ("replica that is down", {"EndpointName": "down"}, "ServiceUnavailable", 503, ""),
        ]:
            with self.subTest(name):
                self.refused(want, status, lambda: once.invoke_endpoint(**{"EndpointName": "python", "Body": order(), **change}), text)

    def test_model_errors(self):
        def failing():
            runtime.invoke_endpoint(EndpointName="python", Body=order("status", status=500, text="out of cheese"))
        with self.assertRaises(runtime.exceptions.ModelError) as raised:
            failing()
        self.assertEqual((500, "out of cheese"), (raised.exception.response["OriginalStatusCode"], raised.exception.response["OriginalMessage"]))
        self.refused("ModelError", 424, failing, "Received server error (500) from ")
        silent = self.refused("ModelError", 424, lambda: runtime.invoke_endpoint(EndpointName="python-hasty", Body=order("mute")))
        self.assertEqual(0, silent["OriginalStatusCode"])

    def test_async_is_refused(self):
        self.refused("ValidationError", 400, lambda: runtime.invoke_endpoint_async(EndpointName="python", InputLocation="s3://bucket/key"),
                     "asynchronous invocations are not supported")


class Stream(Case):
    def test_whole(self):
        answer = stream(order("parts", parts=5, size=100), Accept="text/plain", CustomAttributes="trace=8", InferenceId="python-stream")
        self.assertEqual(parts(5, 100), read(answer["Body"]))
        self.assertEqual(("text/plain", "a", "answered-by=python-a"),
                         (answer["ContentType"], answer["InvokedProductionVariant"], answer["CustomAttributes"]))
        self.assertEqual("whole", ended("python-stream"))
        text = read(stream(chat("Hello.", 20), "python-llm")["Body"])
        self.assertTrue(text.startswith(b"data: {") and text.endswith(b"data: [DONE]\n\n"), text)
        self.assertIn(b'"body":"plain"', read(stream("plain")["Body"]))

    def test_slow_reader(self):
        count, size, got = 400, 64 << 10, []
        for n, event in enumerate(stream(order("parts", parts=count, size=size))["Body"]):
            if n < 10:
                time.sleep(0.05)
            got.append(event["PayloadPart"]["Bytes"])
        self.assertTrue(parts(count, size) == b"".join(got), f"got {sum(map(len, got))} bytes, want all {count * size} as they were sent")

    def test_leaves(self):
        events = stream(order("endless", parts=1, size=1000), InferenceId="python-leaves")["Body"]
        next(iter(events))
        events.close()
        self.assertEqual("cancelled", ended("python-leaves"))
        events = stream(chat("Go on for ever.", 8000), "python-llm")["Body"]
        next(iter(events))
        events.close()
        self.eventually("nothing is in flight", lambda: metric('warmpath_in_flight{pool="python-llm"') == 0)

    def test_breaks(self):
        for name, endpoint, body in [
            ("the engine breaks off", "python", order("break", parts=3, size=10)),
            ("the engine says no more", "python-hasty", order("mute", parts=3, size=10)),
        ]:
            with self.subTest(name):
                self.broken(stream(body, endpoint)["Body"], parts(3, 10))

    def test_engine_is_killed(self):
        session = open_session("python-victim")[0]
        events = stream(chat("Go on.", 8000), "python-victim")["Body"]
        next(iter(events))
        call(f"{RIG['hand']}/kill/python", b"")
        self.broken(events)

        def gone():
            with self.assertRaises(ClientError) as raised:
                in_session("python-victim", session, chat("Go on.", 2))
            return raised.exception.response["Error"]["Code"] == "ValidationError"
        self.eventually("the session is gone", gone)

    def broken(self, events, before=None):
        got = b""
        with self.assertRaises(EventStreamError) as raised:
            for event in events:
                got += event["PayloadPart"]["Bytes"]
        self.assertEqual("ModelStreamError", raised.exception.response["Error"]["Code"])
        if before is not None:
            self.assertEqual(before, got)

    def test_refusals(self):
        self.refused("ModelError", 424, lambda: stream(order("status", status=400, text="no")), "Received client error (400) from ")
        self.refused("ValidationError", 400, lambda: stream(order(), "missing"), "Endpoint missing not found.")
        self.refused("ServiceUnavailable", 503, lambda: once.invoke_endpoint_with_response_stream(EndpointName="empty", Body=order()))
        self.refused("ValidationError", 400, lambda: stream(order(), SessionId="NEW_SESSION"),
                     "1 validation error detected: Value 'NEW_SESSION' at 'sessionId' failed to satisfy constraint")


class Sessions(Case):
    def test_life(self):
        session, replica = open_session("sessions")
        for _ in range(8):
            self.assertEqual((replica, "session"), where(in_session("sessions", session, json.dumps({"messages": [{"role": "user", "content": "Go on."}], "max_tokens": 2}))))
            answer = stream(chat("Go on.", 2), "sessions", SessionId=session)
            self.assertIn(b"[DONE]", read(answer["Body"]))
            self.assertEqual((replica, "session"), where(answer))
        self.assertEqual(session, in_session("sessions", session, session_body("CLOSE"))["ClosedSessionId"])
        for unknown in [session, "never-opened"]:
            self.refused("ValidationError", 400, lambda: in_session("sessions", unknown, chat("Go on.", 2)))
