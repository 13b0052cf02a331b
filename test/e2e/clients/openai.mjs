// Makes calls with OpenAI's client for Node, as standard input says, and prints what it gave: the orders are those of clients.py.
//
//     openai.mjs FOLDER_OF_NODE_MODULES
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { OpenAI } = createRequire(process.argv[2] + "/")("openai");
const firstEvents = 3; // enough to be in the middle of the stream

let open;
const make = ({ url, request }) => new OpenAI({ baseURL: url + "/v1", apiKey: "none" }).chat.completions.create(request);

const orders = {
  async call(order) {
    const answer = await make(order);
    if (!order.request.stream) return answer;
    const events = [];
    for await (const event of answer) events.push(event);
    return events;
  },
  async begin(order) {
    open = await make(order);
    const events = open[Symbol.asyncIterator]();
    for (let read = 0; read < firstEvents; read++) await events.next();
    return firstEvents;
  },
  async leave() {
    open.controller.abort();
    return "left";
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  let said;
  try {
    said = { answer: await orders[order.do](order) };
  } catch (fault) {
    said = { error: { class: fault.constructor.name, status: fault.status, body: fault.error, text: String(fault) } };
  }
  console.log(JSON.stringify(said));
}
