"""boto3's sagemaker-runtime: invocations and streams."""

import json
import time

from botocore.exceptions import EventStreamError

from rig import OPEN, RIG, Case, call, chat, client, ended, in_flight, order, parts

runtime = client("sagemaker-runtime")
once = client("sagemaker-runtime", retries={"total_max_attempts": 1})


def stream(body, endpoint="python", **more):
    return runtime.invoke_endpoint_with_response_stream(EndpointName=endpoint, ContentType="application/json", Body=body, **more)


def read(events):
    return b"".join(event["PayloadPart"]["Bytes"] for event in events)


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
        self.eventually("nothing is in flight", lambda: in_flight("python-llm") == 0)

    def test_breaks(self):
        for name, endpoint, body in [
            ("the engine breaks off", "python", order("break", parts=3, size=10)),
            ("the engine says no more", "python-hasty", order("mute", parts=3, size=10)),
        ]:
            with self.subTest(name):
                self.broken(stream(body, endpoint)["Body"], parts(3, 10))

    def test_engine_is_killed(self):
        events = stream(chat("Go on.", 8000), "python-victim")["Body"]
        next(iter(events))
        call(f"{RIG['hand']}/kill/python", b"")
        self.broken(events)

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
