import assert from "node:assert/strict";
import { test } from "node:test";
import { type Draft, draftOf, drafts, protocols } from "../src/moqt/draft.js";
import { type Filter, nextGroup, rangeOf, wholeGroup } from "../src/moqt/filter.js";
import type { IncomingRequest, Session } from "../src/moqt/session.js";
import { Message } from "../src/moqt/session.js";
import { Parser, ProtocolError, readParameters, writeParameters, Writer } from "../src/moqt/wire.js";
import { PublishedTrack } from "../src/publish/track.js";
import { connect, FakeTransport, settle } from "./fake.js";

const hex = (b: Iterable<number>) => Buffer.from([...b]).toString("hex");
const bytes = (h: string) => Uint8Array.from(Buffer.from(h, "hex"));

test("the relay chooses the draft", () => {
  assert.equal(protocols[0], "moqt-22");
  assert.equal(draftOf("moqt-20"), 20);
  assert.equal(draftOf(""), 22);
  assert.equal(draftOf(undefined), 22);
  assert.throws(() => draftOf("moqt-16"), /moqt-16/);
});

// A parameter list with one filter: its count, its type, and the value. Drafts 20 and 22 as in the goldens of /moqt.
const start = { group: 1, object: 2 };
const filters: [Filter, typed: string, counted: string, plain: string][] = [
  [nextGroup, "0101", "0100", "0100"],
  [{ groups: 1 }, "", "0101", "0101"],
  ["next object", "0102", "020000", "05"],
  [{ start }, "03030102", "020102", "020102"],
  [{ start, last: { group: 3, object: wholeGroup } }, "0404010202", "03010202", "03010202"],
  [{ start, last: { group: 3, object: 4 } }, "", "0401020204", "0401020204"],
];

test("location filters", () => {
  for (const [filter, typed, counted, plain] of filters) {
    for (const [draft, want] of [[18, typed], [19, typed], [20, counted], [21, counted], [22, plain]] as const) {
      const w = new Writer();
      const write = () => writeParameters(w, { filter }, draft);
      if (want === "") {
        assert.throws(write, RangeError);
        continue;
      }
      write();
      assert.equal(hex(w.bytes), "0121" + want, `${JSON.stringify(filter)} in ${draft}`);
      assert.deepEqual(readParameters(new Parser(w.bytes), draft), { filter });
    }
  }
  for (const [draft, none] of [[20, "00"], [22, "00"]] as const) {
    assert.deepEqual(readParameters(new Parser(bytes("0121" + none)), draft), {});
  }
  for (const [draft, wrong] of [[18, "0105"], [22, "06"]] as const) {
    assert.throws(() => readParameters(new Parser(bytes("0121" + wrong)), draft), ProtocolError);
  }
});

test("parameters of draft 20 that a publisher without properties and old objects may leave aside", () => {
  const fill = "23" + "04" + "01210101"; // and then INCLUDE_PROPERTIES
  assert.deepEqual(readParameters(new Parser(bytes("02" + fill + "1200")), 22), {});
});

test("ranges of a FETCH", () => {
  const largest = { group: 7, object: 3 };
  const from = (f: Filter | undefined) => rangeOf(f, largest);
  assert.deepEqual(from(undefined), { start: { group: 0, object: 0 }, last: largest });
  assert.deepEqual(from({ groups: 2 }), { start: { group: 6, object: 0 }, last: largest });
  assert.deepEqual(from({ groups: 9 }).start, { group: 0, object: 0 });
  assert.deepEqual(from("next object"), { start: { group: 7, object: 4 }, last: largest });
  assert.deepEqual(from({ start }), { start });
});

// FETCH of objects 1/0 to 1/2 of track v in namespace a, as the relay gets it.
const fetches: Record<Draft, string> = {
  18: "16" + "000c" + "02" + "01" + "010161" + "0176" + "0100" + "0103" + "00",
  19: "16" + "000c" + "02" + "01" + "010161" + "0176" + "0100" + "0103" + "00",
  20: "16" + "000d" + "02" + "010161" + "0176" + "01" + "21" + "04" + "01000002",
  21: "16" + "000d" + "02" + "010161" + "0176" + "01" + "21" + "04" + "01000002",
  22: "16" + "000d" + "02" + "010161" + "0176" + "01" + "21" + "04" + "01000002",
};

/** subscribeOK is the answer to a subscription with alias 9 and the largest object 1/2. */
const subscribeOK = bytes("04" + "0005" + "09" + "01" + "090102");

test("a late joiner fetches the beginning of the current group", async () => {
  for (const draft of drafts) {
    const session = await connect(`moqt-${draft}`);
    assert.equal(session.draft, draft);
    const relay = FakeTransport.latest;
    relay.answer = (n) => (n === 0 ? subscribeOK : new Uint8Array());
    const s = await session.subscribe({ namespace: ["a"], name: "v" }, { filter: "next object" }, () => {});
    void session.fetchBefore(s, () => {}).catch(() => {});
    await settle();
    assert.equal(hex(relay.requests[1]!), fetches[draft], `${draft}`);
  }
});

test("a publisher answers a FETCH in each draft", async () => {
  for (const draft of drafts) {
    const session = await connect(`moqt-${draft}`);
    const requests: IncomingRequest[] = [];
    session.serve = (r) => void requests.push(r);
    FakeTransport.latest.ask(bytes(fetches[draft]));
    await settle();
    const r = requests[0]!;
    assert.equal(r.type, Message.Fetch);
    const track = new PublishedTrack("v");
    for (const group of [1, 2]) for (let n = 0; n < 5; n++) track.add(group, 0, 1, Uint8Array.of(group, n));
    const sent: number[] = [];
    const streams: number[] = [];
    const stream = { send: async (_: Message, w: Writer) => void sent.push(...w.bytes), finish: async () => {} };
    const openStream = async () => new WritableStream({ write: (b: Uint8Array) => void streams.push(...b) });
    const own = { draft, openStream } as unknown as Session;
    await track.serve({ ...r, session: own, stream } as unknown as IncomingRequest);
    assert.equal(hex(sent), "00" + "01" + (draft < 20 ? "03" : "02") + "00", `${draft}`);
    assert.equal(hex(streams), "0502" + "1f0100000102" + "0100" + "1700010102" + "0101" + "1700010102" + "0102");
  }
});
