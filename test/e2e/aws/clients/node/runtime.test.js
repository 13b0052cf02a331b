// AWS's client-sagemaker-runtime: invocations, streams and signatures.
"use strict";
const assert = require("node:assert/strict");
const { mock, test } = require("node:test");
const { InvokeEndpointCommand, InvokeEndpointAsyncCommand, InvokeEndpointWithResponseStreamCommand } = require("@aws-sdk/client-sagemaker-runtime");
const { rig, runtime, order, chat, parts, call, ended, becomesIdle, refused, pause } = require("./rig.js");

const open = runtime();
const once = runtime(rig.open, rig.lead, { maxAttempts: 1 });

const invoke = (input, client = open) => client.send(new InvokeEndpointCommand({ EndpointName: "node", ContentType: "application/json", Body: order("echo"), ...input }));

const stream = (Body, input = {}, client = open, options = {}) => client.send(
  new InvokeEndpointWithResponseStreamCommand({ EndpointName: "node", ContentType: "application/json", Body, ...input }), options);

// read reads parts into pieces, to the end of the stream.
async function read(events, pieces = []) {
  for await (const event of events) if (event.PayloadPart) pieces.push(Buffer.from(event.PayloadPart.Bytes));
  return Buffer.concat(pieces).toString();
}

test("round trip", async () => {
  const answer = await invoke({
    Body: "What is warm?", ContentType: "text/x-prompt", Accept: "application/json", CustomAttributes: "trace=7; c000b4f9", InferenceId: "node-invoke",
    PrefixAwareId: "tenant-7 / doc 12", TargetModel: "adapter.tar.gz", EnableExplanations: "`false`",
  });
  const got = JSON.parse(Buffer.from(answer.Body).toString());
  assert.deepEqual([got.container, got.path, got.body], ["node-a", "/invocations", "What is warm?"]);
  for (const [name, want] of Object.entries({
    "content-type": "text/x-prompt", accept: "application/json", "x-amzn-sagemaker-custom-attributes": "trace=7; c000b4f9",
    "x-amzn-sagemaker-inference-id": "node-invoke", "x-amzn-sagemaker-prefix-aware-id": "tenant-7 / doc 12",
    "x-amzn-sagemaker-target-model": "adapter.tar.gz", "x-amzn-sagemaker-enable-explanations": "`false`",
    authorization: undefined, "x-amz-date": undefined, "x-amz-content-sha256": undefined, "user-agent": undefined,
  })) assert.equal(got.headers[name], want, name);
  assert.deepEqual([answer.ContentType, answer.InvokedProductionVariant, answer.CustomAttributes], ["application/json", "a", "answered-by=node-a"]);
  assert.ok(answer.$metadata.requestId && open.headers["x-warmpath-replica"] && open.headers["x-warmpath-decision"]);
  assert.equal(await ended("node-invoke"), "whole");
  assert.equal((await invoke({ TargetVariant: "b" })).InvokedProductionVariant, "b");
});

test("refusals", async () => {
  const long = "x".repeat(65);
  await refused(invoke({ EndpointName: "missing" }), "ValidationError", 400, "Endpoint missing not found.");
  await refused(invoke({ TargetVariant: "c" }), "ValidationError", 400);
  await refused(invoke({ PrefixAwareId: long }), "ValidationError", 400,
    `1 validation error detected: Value '${long.slice(0, 63)}' at 'prefixAwareId' failed to satisfy constraint: Member must have length less than or equal to 64`);
  await refused(invoke({ Body: Buffer.alloc(2 * rig.maxBody) }), "ValidationError", 413);
  await refused(invoke({ EndpointName: "empty" }, once), "ServiceUnavailable", 503);
  await refused(invoke({ EndpointName: "down" }, once), "ServiceUnavailable", 503);
  const failed = await refused(invoke({ Body: order("status", { status: 500, text: "out of cheese" }) }), "ModelError", 424, "Received server error (500) from ");
  assert.deepEqual([failed.OriginalStatusCode, failed.OriginalMessage], [500, "out of cheese"]);
  const silent = await refused(invoke({ EndpointName: "node-hasty", Body: order("mute") }), "ModelError", 424);
  assert.equal(silent.OriginalStatusCode, 0);
  await refused(open.send(new InvokeEndpointAsyncCommand({ EndpointName: "node", InputLocation: "s3://bucket/key" })), "ValidationError", 400,
    "asynchronous invocations are not supported");
});

test("inference components", async () => {
  for (const InferenceComponentName of ["node-a", "node-b"]) {
    const got = JSON.parse(Buffer.from((await invoke({ EndpointName: "node-shared", InferenceComponentName })).Body).toString());
    assert.equal(got.container, InferenceComponentName);
  }
  const text = await read((await stream(chat("Hello.", 3), { EndpointName: "node-shared", InferenceComponentName: "node-llm" })).Body);
  assert.ok(text.endsWith("data: [DONE]\n\n"), text);
  for (const input of [{ EndpointName: "node-shared", InferenceComponentName: "none" }, { EndpointName: "node-shared" }, { InferenceComponentName: "node-a" }])
    await refused(invoke(input), "ValidationError", 400);
});

test("streams", async () => {
  const answer = await stream(order("parts", { parts: 5, size: 100 }), { Accept: "text/plain", CustomAttributes: "trace=8", InferenceId: "node-stream" });
  assert.equal(await read(answer.Body), parts(5, 100));
  assert.deepEqual([answer.ContentType, answer.InvokedProductionVariant, answer.CustomAttributes], ["text/plain", "a", "answered-by=node-a"]);
  assert.equal(await ended("node-stream"), "whole");
  const text = await read((await stream(chat("Hello.", 20), { EndpointName: "node-llm" })).Body);
  assert.ok(text.startsWith("data: {") && text.endsWith("data: [DONE]\n\n"), text);
});

test("a slow reader", async () => {
  const [count, size, pieces] = [400, 64 << 10, []];
  for await (const event of (await stream(order("parts", { parts: count, size }))).Body) {
    if (pieces.length < 10) await pause(50);
    pieces.push(Buffer.from(event.PayloadPart.Bytes));
  }
  assert.ok(Buffer.concat(pieces).toString() === parts(count, size), `got ${pieces.length} parts`);
});

test("a client that leaves", async () => {
  for (const [body, input] of [
    [order("endless", { parts: 1, size: 1000 }), { InferenceId: "node-leaves" }], [chat("Go on for ever.", 8000), { EndpointName: "node-llm" }]]) {
    const leave = new AbortController();
    const events = (await stream(body, input, open, { abortSignal: leave.signal })).Body[Symbol.asyncIterator]();
    assert.ok((await events.next()).value.PayloadPart);
    leave.abort();
    await events.return?.();
  }
  assert.equal(await ended("node-leaves"), "cancelled");
  await becomesIdle("node-llm");
});

test("streams that cannot be completed", async () => {
  for (const [body, input, code] of [
    [order("break", { parts: 3, size: 10 }), {}, "StreamBroken"],
    [order("mute", { parts: 3, size: 10 }), { EndpointName: "node-hasty" }, "ModelInvocationTimeExceeded"]]) {
    const pieces = [];
    const error = await read((await stream(body, input)).Body, pieces).then(() => assert.fail("no error"), (e) => e);
    assert.deepEqual([error.name, error.ErrorCode], ["ModelStreamError", code], String(error));
    assert.equal(Buffer.concat(pieces).toString(), parts(3, 10));
  }
  await refused(stream(order("status", { status: 400, text: "no" })), "ModelError", 424, "Received client error (400) from ");
  await refused(stream(order("echo"), { SessionId: "NEW_SESSION" }), "ValidationError", 400);
});

const inSession = (EndpointName, SessionId, Body) => invoke({ EndpointName, SessionId, Body });

// sessionBody is what SageMaker's containers take for a session: NEW_SESSION or CLOSE.
const sessionBody = (requestType) => JSON.stringify({ requestType });

test("sessions", async () => {
  const opened = await inSession("sessions", "NEW_SESSION", sessionBody("NEW_SESSION"));
  const [session] = opened.NewSessionId.split("; Expires=");
  const replica = open.headers["x-warmpath-replica"];
  for (let n = 0; n < 8; n++) {
    assert.ok((await read((await stream(chat("Go on.", 2), { EndpointName: "sessions", SessionId: session })).Body)).includes("[DONE]"));
    assert.deepEqual([open.headers["x-warmpath-replica"], open.headers["x-warmpath-decision"]], [replica, "session"]);
  }
  assert.equal((await inSession("sessions", session, sessionBody("CLOSE"))).ClosedSessionId, session);
  for (const unknown of [session, "never-opened"]) await refused(inSession("sessions", unknown, chat("Go on.", 2)), "ValidationError", 400);
});

test("an engine that is killed", async () => {
  const events = (await stream(chat("Go on.", 8000), { EndpointName: "node-victim" })).Body[Symbol.asyncIterator]();
  await events.next();
  await call(`${rig.hand}/kill/node`, "");
  const error = await (async () => { while (!(await events.next()).done); })().then(() => assert.fail("no error"), (e) => e);
  assert.equal(error.name, "ModelStreamError", String(error));
});

test("signatures", async () => {
  const got = await invoke({ CustomAttributes: "a  b=c/d", PrefixAwareId: "tenant 7" }, runtime(rig.closed));
  assert.ok(!Buffer.from(got.Body).toString().includes("authorization"));
  assert.equal(await read((await stream(order("parts", { parts: 2, size: 10 }), {}, runtime(rig.closed))).Body), parts(2, 10));
  const altered = runtime(rig.closed);
  altered.middlewareStack.add((next) => (args) => {
    args.request.body = Buffer.alloc(args.request.body.length, "x");
    return next(args);
  }, { step: "finalizeRequest", relation: "after", toMiddleware: "httpSigningMiddleware" });
  const anonymous = runtime(rig.closed, rig.lead, { signer: { sign: async (request) => request } });
  for (const [client, name, input] of [
    [anonymous, "MissingAuthenticationTokenException"], [runtime(rig.closed, ["AKIANOBODY", rig.lead[1]]), "UnrecognizedClientException"],
    [runtime(rig.closed, [rig.lead[0], rig.guest[1]]), "InvalidSignatureException"], [altered, "InvalidSignatureException"],
    [runtime(rig.closed, rig.guest), "AccessDeniedException", { EndpointName: "node-hasty" }],
  ]) await refused(invoke(input, client), name, 403);
});

// A clock that is an hour off is refused. The SDK then takes the time from the refusal, unless it is told not to, and tries again.
test("clock skew", async () => {
  const strict = runtime(rig.closed, rig.lead, { disableClockSkewCorrection: true, maxAttempts: 1 });
  for (const hours of [-1, 1]) {
    mock.timers.enable({ apis: ["Date"], now: Date.now() + hours * 3_600_000 });
    try {
      await refused(invoke({}, strict), "InvalidSignatureException", 403, "Signature ");
      await invoke({}, runtime(rig.closed));
    } finally {
      mock.timers.reset();
    }
  }
});
