"""OpenAI's own client on the OpenAI route."""

import datetime

import openai

from rig import CLOSED, OPEN, RIG, Case, fault
from test_auth import token


def ask(endpoint="python-llm", router=OPEN, key="unused", model="emulated-python", content="Why is the sky blue?", **more):
    client = openai.OpenAI(base_url=f"{router['data']}/endpoints/{endpoint}/openai/v1", api_key=key, max_retries=0)
    messages = [{"role": "user", "content": content}] if content else []
    return client.chat.completions.create(model=model, messages=messages, max_tokens=8, **more)


class OpenAI(Case):
    def test_plain(self):
        for model in ["emulated-python", "python-alias"]:
            answer = ask(model=model)
            self.assertTrue(answer.choices[0].message.content)
            self.assertEqual(8, answer.usage.completion_tokens)

    def test_stream(self):
        chunks = list(ask(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(8, chunks[-1].usage.completion_tokens)
        self.assertTrue("".join(c.choices[0].delta.content or "" for c in chunks if c.choices))

    def test_others(self):
        client = openai.OpenAI(base_url=OPEN["data"] + "/endpoints/python-llm/openai/v1", api_key="unused")
        self.assertEqual(["emulated-python", "python-alias"], [m.id for m in client.models.list()])
        self.assertEqual(1, len(client.completions.create(model="emulated-python", prompt="Once", max_tokens=3).choices))
        self.assertTrue(client.embeddings.create(model="emulated-python", input="x").data[0].embedding)

    def test_inference_component(self):
        self.assertTrue(ask("python-shared/inference-components/python-llm").choices)

    def test_errors(self):
        for name, arguments, kind, code in [
            ("unknown endpoint", {"endpoint": "missing"}, openai.BadRequestError, "validation_error"),
            ("unknown component", {"endpoint": "python-shared/inference-components/none"}, openai.BadRequestError, "validation_error"),
            ("no replica", {"endpoint": "empty"}, openai.InternalServerError, "no_replica"),
            ("unknown model", {"model": "none"}, openai.NotFoundError, None),
            ("refused by the engine", {"content": None}, openai.BadRequestError, None),
            ("unknown key", {"router": CLOSED, "key": "another"}, openai.AuthenticationError, "credentials_unknown"),
            ("wrong token", {"router": CLOSED, "key": token([RIG["lead"][0], "x"])}, openai.AuthenticationError, "signature_invalid"),
            ("old token", {"router": CLOSED, "key": token(RIG["lead"], -datetime.timedelta(hours=13))}, openai.AuthenticationError, "signature_expired"),
            ("another's endpoint", {"router": CLOSED, "key": token(RIG["guest"])}, openai.PermissionDeniedError, "access_denied"),
        ]:
            with self.subTest(name), self.assertRaises(kind) as raised:
                ask(**arguments)
            if code:
                self.assertEqual(code, raised.exception.code)

    def test_broken_streams(self):
        for broken in ["error-event", "reset-mid-stream"]:
            fault(broken + ",after=3,count=1")
            chunks = 0
            with self.subTest(broken), self.assertRaises(Exception):
                for _ in ask(stream=True):
                    chunks += 1
            self.assertGreaterEqual(chunks, 3)

    def test_keys(self):
        for key in [RIG["apiKey"], token(RIG["lead"])]:
            self.assertTrue(ask(router=CLOSED, key=key).choices)
