import assert from "node:assert/strict";
import { test } from "node:test";
import { Dialer } from "../src/moqt/dialer.js";
import { maxWaiting, Message, RequestCode, RequestError, Subscription } from "../src/moqt/session.js";
import { ProtocolError, writeProperties, Writer } from "../src/moqt/wire.js";
import { connect, FakeTransport, settle } from "./fake.js";

/** control is a control stream with SETUP and GOAWAY. */
function control(uri: string): number[] {
  const goaway = new Writer().prefixed(uri).int(0).int(0).bytes;
  return [...new Writer().int(Message.Setup).byte(0).byte(0).int(Message.Goaway).byte(0).byte(goaway.length).raw(goaway).bytes];
}

test("after GOAWAY the page goes to the other relay if it can, and else stays until the end", async () => {
  const other = "https://other.example/";
  for (const [url, reachable] of [["", true], [other, true], [other, false]] as const) {
    const asked: (string | undefined)[] = [];
    const dialer = new Dialer((url) => {
      asked.push(url);
      return url && !reachable ? Promise.reject(new Error("refused")) : connect();
    });
    const session = await dialer.dial();
    let closed = false;
    void session.closed.then(() => (closed = true));
    FakeTransport.latest.open(...control(url));
    await settle();
    await settle();
    assert.deepEqual(asked, url ? [undefined, url] : [undefined]);
    assert.equal(closed, reachable, url);
    assert.equal(dialer.moved, reachable && url !== "");
    assert.notEqual(await dialer.dial(), session);
    assert.equal(asked.length, reachable && url ? 2 : asked.length);
    dialer.stop();
  }
});

test("a page that is left closes the session to which it was sent", async () => {
  const dialer = new Dialer(() => connect());
  await dialer.dial();
  FakeTransport.latest.open(...control("https://other.example/"));
  await settle();
  await settle();
  let closed = false;
  void FakeTransport.latest.closed.then(() => (closed = true));
  dialer.stop();
  await settle();
  assert.ok(closed);
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

test("a subscription waits until the one before to its track has ended", async (t) => {
  const session = await connect();
  const relay = FakeTransport.latest;
  const refused = new Writer().int(RequestCode.DuplicateSubscription).int(0).prefixed("").bytes;
  const accepted = new Writer().int(1).int(0).bytes; // alias 1
  const answers = [[Message.RequestError, refused], [Message.SubscribeOK, accepted], [Message.RequestError, refused]] as const;
  relay.answer = (n) => {
    const [type, body] = answers[Math.min(n, 2)]!;
    return new Writer().int(type).byte(0).byte(body.length).raw(body).bytes;
  };
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const subscribe = async () => {
    let end: unknown;
    session.subscribe({ namespace: ["a"], name: "v" }, {}, () => {}).then((s) => (end = s), (e: unknown) => (end = e));
    for (let i = 0; i < 100 && !end; i++) {
      await settle();
      t.mock.timers.tick(100);
    }
    return end;
  };
  assert.ok((await subscribe()) instanceof Subscription);
  assert.equal(relay.requests.length, 2);
  assert.ok((await subscribe()) instanceof RequestError, "not for ever");
});

test("the relay gets a report if it wants one and has answered the last one", async () => {
  for (const version of [undefined, 1, 2]) {
    const session = await connect();
    const relay = FakeTransport.latest;
    const options = version ? writeProperties(new Map([[0x511ce2, version]])) : new Uint8Array();
    relay.open(...new Writer().int(Message.Setup).byte(0).byte(options.length).raw(options).bytes);
    await settle();
    const accepted = new Writer().int(Message.SubscribeOK).byte(0).byte(2).int(1).int(0).bytes; // alias 1
    const ok = new Writer().int(Message.RequestOK).byte(0).byte(1).int(0).bytes;
    relay.answer = () => [accepted, ok][relay.requests.length - 1] ?? new Uint8Array(); // not to the second report
    const s = await session.subscribe({ namespace: ["a"], name: "v" }, {}, () => {});
    await session.report(s, { buffered: 200, dropped: 3, width: 64, height: 48 });
    await session.report(s, { dropped: 3, width: 64, height: 48 });
    await settle();
    await session.report(s, { dropped: 3, width: 64, height: 48 });
    await session.report(s, { dropped: 4, width: 64, height: 48 });
    const reports = relay.requests.slice(1).map((b) => Buffer.from(b).toString("hex"));
    const want = ["02000b0201e0511ce680c9034030", "02000a0401e0511ce600034030"];
    assert.deepEqual(reports, version === 2 ? want : []);
  }
});

test("a namespace that was announced ends when the relay ends or resets the request", async () => {
  for (const how of ["close", "error"] as const) {
    const session = await connect();
    const relay = FakeTransport.latest;
    relay.answer = () => new Writer().int(Message.RequestOK).byte(0).byte(1).int(0).bytes;
    const { ended } = await session.publishNamespace(["live"]);
    let reason = "";
    void ended.then((r) => (reason = r));
    await settle();
    assert.equal(reason, "");
    relay.answers[0]![how]();
    await settle();
    assert.equal(reason, "the relay has ended the broadcast", how);
  }
});

test("a receiver that fails ends the stream, not the session", async () => {
  const session = await connect();
  const relay = FakeTransport.latest;
  relay.answer = () => new Writer().int(Message.SubscribeOK).byte(0).byte(2).int(1).int(0).bytes; // alias 1
  let received = 0;
  const s = await session.subscribe({ namespace: ["a"], name: "v" }, {}, () => {
    received++;
    throw new ProtocolError("of the media");
  });
  let closed = false;
  void session.closed.then(() => (closed = true));
  const stream = relay.open(0x10, 1, 0, 0, 0, 1, 7);
  await settle();
  assert.deepEqual([received, stream.length, closed], [1, 1, false], "it is cancelled");
  relay.datagram(0x00, 1, 0, 0, 0, 7);
  await settle();
  relay.datagram(0x00, 1, 0, 1, 0, 7);
  await settle();
  assert.deepEqual([received, closed], [3, false]);
  s.cancel();
});

test("a fetch whose receiver fails is cancelled", async () => {
  const session = await connect();
  const relay = FakeTransport.latest;
  const answers = ["subscribed", "fetched"].map(() => new Uint8Array());
  answers[0] = new Writer().int(Message.SubscribeOK).byte(0).byte(5).raw(Uint8Array.of(1, 1, 9, 5, 2)).bytes;
  answers[1] = new Writer().int(Message.FetchOK).byte(0).byte(4).raw(Uint8Array.of(0, 5, 2, 0)).bytes;
  relay.answer = (n) => answers[n]!;
  const s = await session.subscribe({ namespace: ["a"], name: "v" }, {}, () => {});
  assert.ok(s.largest);
  let closed = false;
  void session.closed.then(() => (closed = true));
  const fetched = session.fetchBefore(s, () => {
    throw new ProtocolError("of the media");
  });
  await settle();
  const stream = relay.open(0x05, 2, 0x1c, 5, 0, 0, 1, 7);
  await fetched;
  await settle();
  assert.deepEqual([stream.length, closed], [1, false]);
  s.cancel();
});
