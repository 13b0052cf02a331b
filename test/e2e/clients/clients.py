#!/usr/bin/env python3
"""Makes calls with clients for Python, as standard input says, and prints what they gave.

    clients.py openai|anthropic|langchain|litellm|boto3

A line in is an order, {"do", "url", "name", "request"}; a line out is what came of it, {"answer"} or {"error"}:

    call    makes the request, a stream if it says so
    begin   makes a request for a stream and reads its first events
    leave   closes that stream, long before its end
    create  makes the endpoint that the name says (boto3: url is the control plane)
    delete  deletes it
"""
import json
import os
import sys

# Enough for every client to be in the middle of the stream.
FIRST_EVENTS = 3

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network at its start


class Client:
    """What most clients have in common: one way to ask, and the answers, events and errors of OpenAI's generator of clients."""

    def plain(self, order):
        return self.stream(order).model_dump()

    def event(self, event):
        return event.model_dump()

    def whole(self, events):
        return events

    def failure(self, fault):
        return {"class": type(fault).__name__, "status": getattr(fault, "status_code", None), "body": getattr(fault, "body", None), "text": str(fault)}


class OpenAI(Client):
    def __init__(self):
        import openai

        self.new = openai.OpenAI

    def stream(self, order):
        return self.new(base_url=order["url"] + "/v1", api_key="none").chat.completions.create(**order["request"])


class Anthropic(Client):
    def __init__(self):
        import anthropic

        self.new = anthropic.Anthropic

    def stream(self, order):
        return self.new(base_url=order["url"], api_key="none").messages.create(**order["request"])


class LangChain(Client):
    def __init__(self):
        import langchain_openai

        self.new = langchain_openai.ChatOpenAI

    def model(self, order):
        r = order["request"]
        model = self.new(
            base_url=order["url"] + "/v1", api_key="none", model=r["model"], max_tokens=r["max_tokens"],
            temperature=r["temperature"], seed=r["seed"], stream_usage="stream_options" in r,
        )
        return model.bind_tools(r["tools"], tool_choice=r["tool_choice"]) if "tools" in r else model

    def plain(self, order):
        return self.model(order).invoke(order["request"]["messages"]).model_dump()

    def stream(self, order):
        return self.model(order).stream(order["request"]["messages"])


class LiteLLM(Client):
    def __init__(self):
        import litellm

        self.complete = litellm.completion

    def stream(self, order):
        request = dict(order["request"])
        return self.complete(model="openai/" + request.pop("model"), api_base=order["url"] + "/v1", api_key="none", **request)


class Boto3(Client):
    def __init__(self):
        import boto3
        from botocore.config import Config

        # Warmpath asks for no credentials here, but boto3 does not go without.
        self.service = lambda name, url: boto3.client(
            name, endpoint_url=url, region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none",
            config=Config(retries={"total_max_attempts": 1}),
        )

    def invocation(self, order):
        return {"EndpointName": order["name"], "ContentType": "application/json", "Body": json.dumps(order["request"])}

    def plain(self, order):
        got = self.service("sagemaker-runtime", order["url"]).invoke_endpoint(**self.invocation(order))
        return {"type": got["ContentType"], "body": got["Body"].read().decode()}

    def stream(self, order):
        got = self.service("sagemaker-runtime", order["url"]).invoke_endpoint_with_response_stream(**self.invocation(order))
        self.type = got["ContentType"]
        return got["Body"]

    def event(self, event):
        return event["PayloadPart"]["Bytes"]

    def whole(self, events):
        return {"type": self.type, "body": b"".join(events).decode()}

    def failure(self, fault):
        response = getattr(fault, "response", {})
        return {"status": response.get("OriginalStatusCode"), "body": response.get("OriginalMessage", str(fault))}

    def create(self, order):
        sagemaker, name = self.service("sagemaker", order["url"]), order["name"]
        variant = {"VariantName": "main", "ModelName": order["request"]["pool"], "InitialInstanceCount": 2, "InstanceType": "ml.m5.large"}
        sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
        sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
        sagemaker.get_waiter("endpoint_in_service").wait(EndpointName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
        return sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"]

    def delete(self, order):
        sagemaker, name = self.service("sagemaker", order["url"]), order["name"]
        sagemaker.delete_endpoint(EndpointName=name)
        sagemaker.get_waiter("endpoint_deleted").wait(EndpointName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
        sagemaker.delete_endpoint_config(EndpointConfigName=name)
        return [e["EndpointName"] for e in sagemaker.list_endpoints(NameContains=name)["Endpoints"]]


class Session:
    """Follows orders with one client."""

    def __init__(self, client):
        self.client, self.open = client, None

    def call(self, order):
        if not order["request"].get("stream"):
            return self.client.plain(order)
        return self.client.whole([self.client.event(event) for event in self.client.stream(order)])

    def begin(self, order):
        self.open = self.client.stream(order)
        events = iter(self.open)
        return len([next(events) for _ in range(FIRST_EVENTS)])

    def leave(self, order):
        self.open.close()
        return "left"

    def create(self, order):
        return self.client.create(order)

    def delete(self, order):
        return self.client.delete(order)

    def follow(self, order):
        try:
            return {"answer": getattr(self, order["do"])(order)}
        except Exception as fault:
            return {"error": self.client.failure(fault)}


def main():
    clients = {"openai": OpenAI, "anthropic": Anthropic, "langchain": LangChain, "litellm": LiteLLM, "boto3": Boto3}
    session = Session(clients[sys.argv[1]]())
    out, sys.stdout = sys.stdout, sys.stderr  # some clients print
    for line in sys.stdin:
        print(json.dumps(session.follow(json.loads(line)), default=str), file=out, flush=True)


main()
