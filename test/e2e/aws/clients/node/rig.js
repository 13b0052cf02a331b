// What the tests share: where everything is, clients of it, and orders to the containers.
"use strict";
const assert = require("node:assert/strict");
const { setTimeout: pause } = require("node:timers/promises");
const { SageMakerRuntimeClient } = require("@aws-sdk/client-sagemaker-runtime");

const rig = JSON.parse(process.env.WARMPATH_RIG);

// runtime is AWS's client with nothing changed but its endpoint URL, and what more says. It keeps the headers of its last answer.
function runtime(router = rig.open, [accessKeyId, secretAccessKey] = rig.lead, more = {}) {
  const client = new SageMakerRuntimeClient({ endpoint: router.data, region: rig.region, credentials: { accessKeyId, secretAccessKey }, ...more });
  client.middlewareStack.add((next) => async (args) => {
    const result = await next(args);
    client.headers = result.response.headers;
    return result;
  }, { step: "deserialize", priority: "low" });
  return client;
}

const order = (mode, more = {}) => JSON.stringify({ mode, ...more });

const chat = (text, tokens) => JSON.stringify({ model: "emulated", stream: true, messages: [{ role: "user", content: text }], max_tokens: tokens });

// parts is what a container sends in mode parts.
const parts = (count, size) => Array.from({ length: count }, (_, n) => `${n} `.repeat(size).slice(0, size)).join("");

// call speaks to an engine, or to the test that started this one.
async function call(url, body) {
  const answer = await fetch(url, body === undefined ? {} : { method: "POST", body, headers: { "Content-Type": "application/json" } });
  assert.ok(answer.ok, `${url}: ${answer.status}`);
  return answer.text();
}

const fault = (script) => call(`${rig.engine}/emulator/faults`, JSON.stringify(script));

// ended is how an invocation ended at its engine, once it has.
const ended = (id) => call(`${rig.hand}/ended/${id}`);

async function becomesIdle(pool) {
  const over = Date.now() + 30_000;
  for (;;) {
    const lines = (await call(`${rig.open.admin}/metrics`)).split("\n").filter((line) => line.startsWith(`warmpath_in_flight{pool="${pool}"`));
    if (lines.every((line) => line.endsWith(" 0"))) return;
    assert.ok(Date.now() < over, `${pool} does not become idle: ${lines}`);
    await pause(20);
  }
}

// refused wants a call to end in the error of that name.
async function refused(promise, name, status, text = "") {
  const error = await promise.then(() => assert.fail(`no ${name}`), (e) => e);
  assert.deepEqual([error.name, error.$metadata?.httpStatusCode], [name, status], String(error));
  assert.ok(error.message.startsWith(text), error.message);
  return error;
}

module.exports = { rig, runtime, order, chat, parts, call, fault, ended, becomesIdle, refused, pause };
