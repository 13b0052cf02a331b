// OpenAI's own client on the OpenAI route.
"use strict";
const assert = require("node:assert/strict");
const { test } = require("node:test");
const { OpenAI } = require("openai");
const { rig, fault } = require("./rig.js");

const client = (endpoint = "node-llm", router = rig.open, apiKey = "unused") =>
  new OpenAI({ baseURL: `${router.data}/endpoints/${endpoint}/openai/v1`, apiKey, maxRetries: 0 });

const question = { model: "emulated-node", max_tokens: 8, messages: [{ role: "user", content: "Why is the sky blue?" }] };

const ask = (of, more = {}) => of.chat.completions.create({ ...question, ...more });

test("answers", async () => {
  for (const model of ["emulated-node", "node-alias"]) {
    const answer = await ask(client(), { model });
    assert.ok(answer.choices[0].message.content);
    assert.equal(answer.usage.completion_tokens, 8);
  }
  let text = "", usage;
  for await (const chunk of await ask(client(), { stream: true, stream_options: { include_usage: true } })) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage;
  }
  assert.ok(text && usage.completion_tokens === 8);
  const models = [];
  for await (const model of client().models.list()) models.push(model.id);
  assert.deepEqual(models, ["emulated-node", "node-alias"]);
  assert.equal((await client().completions.create({ model: "emulated-node", prompt: "Once", max_tokens: 3 })).choices.length, 1);
  assert.equal((await client().embeddings.create({ model: "emulated-node", input: "x" })).data.length, 1);
});

test("an inference component", async () => {
  assert.ok((await ask(client("node-shared/inference-components/node-llm"))).choices.length);
});

test("errors", async () => {
  for (const [of, status, code, more] of [
    [client("missing"), 400, "validation_error"], [client("node-shared/inference-components/none"), 400, "validation_error"],
    [client("empty"), 503, "no_replica"], [client(), 404, null, { model: "none" }], [client(), 400, null, { messages: [] }],
    [client("node-llm", rig.closed, "another"), 401, "credentials_unknown"], [client("node-llm", rig.closed, rig.oldToken), 401, "signature_expired"],
  ]) {
    const error = await ask(of, more).then(() => assert.fail("no error"), (e) => e);
    assert.equal(error.status, status, String(error));
    if (code) assert.equal(error.code, code);
  }
});

test("streams that break", async () => {
  for (const broken of ["error-event", "reset-mid-stream"]) {
    await fault(`${broken},after=3,count=1`);
    let chunks = 0;
    await assert.rejects(async () => { for await (const _ of await ask(client(), { stream: true })) chunks++; }, undefined, broken);
    assert.ok(chunks >= 3, `${broken}: ${chunks} chunks`);
  }
});

test("keys and tokens", async () => {
  for (const key of [rig.apiKey, rig.token]) assert.ok((await ask(client("node-llm", rig.closed, key))).choices.length);
});
