import assert from "node:assert/strict";
import { test } from "node:test";
import { maxWaiting, Message } from "../src/moqt/session.js";
import { Writer } from "../src/moqt/wire.js";
import { connect, FakeTransport, settle } from "./fake.js";

/** control is a control stream with SETUP and GOAWAY. */
function control(uri: string): number[] {
  const goaway = new Writer().prefixed(uri).int(0).int(0).bytes;
  return [...new Writer().int(Message.Setup).byte(0).byte(0).int(Message.Goaway).byte(0).byte(goaway.length).raw(goaway).bytes];
}

test("only a GOAWAY without a URI makes the page connect again", async () => {
  for (const [uri, times] of [["", 1], ["https://other.example/", 0]] as const) {
    const session = await connect();
    const relay = FakeTransport.latest;
    let n = 0;
    session.ongoaway = () => n++;
    relay.open(...control(uri));
    await settle();
    assert.equal(n, times, uri);
  }
});

test("few streams wait for a subscription, and not for ever", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  await connect();
  const relay = FakeTransport.latest;
  const subgroup = [0x10, 9, 1, 0];
  const streams = Array.from({ length: maxWaiting + 1 }, () => relay.open(...subgroup));
  await settle();
  assert.deepEqual(streams.map((s) => s.length), [...Array(maxWaiting).fill(0), 1]);
  t.mock.timers.tick(2000);
  await settle();
  assert.ok(streams.every((s) => s.length === 1), "they are cancelled");
  const later = relay.open(...subgroup);
  await settle();
  assert.equal(later.length, 0, "there is room again");
});
