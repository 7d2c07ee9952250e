import assert from "node:assert/strict";
import { test } from "node:test";
import { Message } from "../src/moqt/session.js";
import { Writer } from "../src/moqt/wire.js";
import { LiveList } from "../src/ui/live.js";
import { FakeTransport, settle } from "./fake.js";

/** Relay accepts all requests, and knows whether the page has closed the session. */
class Relay extends FakeTransport {
  static readonly all: Relay[] = [];
  isClosed = false;

  constructor() {
    super();
    Relay.all.push(this);
    this.answer = () => new Writer().int(Message.RequestOK).byte(0).byte(1).int(0).bytes;
  }

  override close(): void {
    this.isClosed = true;
    super.close();
  }
}

test("a list whose request the relay ends closes its session, and asks again after growing pauses", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  let wall = 0;
  t.mock.method(performance, "now", () => wall);
  const fetch = async () => ({ ok: true, json: async () => ({ port: 4433 }) });
  Object.assign(globalThis, { WebTransport: Relay, fetch });
  const relay = { origin: "https://relay.example", port: 4433, viewers: false, version: "" };
  const list = { replaceChildren: () => {} } as unknown as HTMLUListElement;
  const state = { textContent: "" } as HTMLElement;
  void new LiveList(relay, list, state, () => {}).run();
  const pauses = [];
  for (const [how, listed] of [["close", 0], ["error", 0], ["close", 5000], ["error", 0]] as const) {
    for (let i = 0; i < 5; i++) await settle();
    wall += listed;
    const n = Relay.all.length;
    Relay.all[n - 1]!.answers[0]![how]();
    let waited = 0;
    for (; waited < 9000; waited += 500) {
      for (let i = 0; i < 5; i++) await settle();
      if (Relay.all.length > n) break;
      t.mock.timers.tick(500);
    }
    assert.ok(Relay.all[n - 1]!.isClosed, how);
    pauses.push(waited);
  }
  assert.deepEqual(pauses, [500, 1000, 500, 1000]);
});
