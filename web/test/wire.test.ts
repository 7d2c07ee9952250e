import assert from "node:assert/strict";
import { test } from "node:test";
import { drafts } from "../src/moqt/draft.js";
import { StreamReader } from "../src/moqt/reader.js";
import { Parser, ProtocolError, readParameters, readProperties, writeParameters, writeProperties, Writer } from "../src/moqt/wire.js";

const hex = (b: Uint8Array) => Buffer.from(b).toString("hex");
const bytes = (h: string) => Uint8Array.from(Buffer.from(h, "hex"));

// The examples of the draft (§1.4.1), and the borders between lengths.
const ints: [number, string][] = [
  [0, "00"],
  [37, "25"],
  [127, "7f"],
  [128, "8080"],
  [15293, "bbbd"],
  [16383, "bfff"],
  [16384, "c04000"],
  [226_442_877, "ed7f3e7d"],
  [2 ** 28, "f010000000"],
  [2 ** 35, "f80800000000"],
  [2 ** 42, "fc040000000000"],
  [2 ** 49, "fe02000000000000"],
  [Number.MAX_SAFE_INTEGER, "fe1fffffffffffff"],
];

test("integers", () => {
  for (const [n, want] of ints) {
    assert.equal(hex(new Writer().int(n).bytes), want, `${n}`);
    assert.equal(new Parser(bytes(want)).int(), n, want);
  }
  assert.equal(new Parser(bytes("ff0000000000000005")).int(), 5, "in nine bytes");
  assert.throws(() => new Writer().int(-1), RangeError);
  assert.throws(() => new Writer().int(2 ** 53), RangeError);
  assert.throws(() => new Parser(bytes("c040")).int(), ProtocolError);
});

test("names", () => {
  const b = new Writer().namespace(["live", "ü"]).prefixed("1.m4s").bytes;
  assert.equal(hex(b), "02046c69766502c3bc05312e6d3473");
  const r = new Parser(b);
  assert.deepEqual(r.namespace(), ["live", "ü"]);
  assert.equal(r.string(), "1.m4s");
  assert.ok(r.empty);
});

test("parameters", () => {
  const w = new Writer();
  writeParameters(w, { token: "t", rendezvous: 300, filter: "next object", forward: true, priority: 3 }, 18);
  assert.equal(hex(w.bytes), "05" + "03" + "03030074" + "01" + "812c" + "0c01" + "1003" + "01" + "0102");
  assert.deepEqual(readParameters(new Parser(w.bytes), 18), {
    rendezvous: 300,
    filter: "next object",
    forward: true,
    priority: 3,
  });
  assert.throws(() => readParameters(new Parser(bytes("01" + "7f" + "00")), 18), /not known/);
  const start = { filter: { start: { group: 7, object: 1 } }, largest: { group: 6, object: 0 } };
  const located = new Writer();
  writeParameters(located, start, 18);
  assert.deepEqual(readParameters(new Parser(located.bytes), 18), start);
});

test("properties", () => {
  const p = new Map<number, number | Uint8Array>([
    [0x0d, bytes("0102")],
    [0x06, 1_000_000],
  ]);
  const b = writeProperties(p);
  assert.equal(hex(b), "06cf4240" + "07020102");
  assert.deepEqual([...readProperties(b)].sort((a, c) => a[0] - c[0]), [...p].sort((a, c) => a[0] - c[0]));
  assert.throws(() => readProperties(bytes("0d05")), ProtocolError);
});

// Whatever a peer sends, a parser returns or says that the peer is wrong.
test("random bytes", () => {
  let seed = 1;
  const random = (n: number) => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return (seed >>> 8) % n;
  };
  const parsers: ((b: Uint8Array) => unknown)[] = [
    ...drafts.map((d) => (b: Uint8Array) => readParameters(new Parser(b), d)),
    (b) => readProperties(b),
    (b) => new Parser(b).namespace(),
    (b) => new Parser(b).location(),
  ];
  const counts = { parsed: 0, refused: 0 };
  for (let i = 0; i < 20_000; i++) {
    const b = Uint8Array.from({ length: random(24) }, () => (random(3) === 0 ? random(256) : random(5)));
    for (const parse of parsers) {
      try {
        parse(b);
        counts.parsed++;
      } catch (error) {
        assert.ok(error instanceof ProtocolError, `${hex(b)}: ${String(error)}`);
        counts.refused++;
      }
    }
  }
  assert.ok(counts.parsed > 1000 && counts.refused > 1000, JSON.stringify(counts));
});

test("a reader has memory for bytes that have come, not for those that are claimed", async () => {
  const streaming = (parts: Uint8Array[], open = false) =>
    new ReadableStream<Uint8Array>({
      start(c) {
        for (const part of parts) c.enqueue(part);
        if (!open) c.close();
      },
    });
  for (const sizes of [[0], [5], [1, 2, 3], [70_000, 1, 200_000], [64 << 10, 1]]) {
    const parts = sizes.map((size, i) => new Uint8Array(size).fill(i + 1));
    const all = Buffer.concat(parts);
    assert.deepEqual(Buffer.from(await new StreamReader(streaming(parts)).bytes(all.length)), all);
    await assert.rejects(new StreamReader(streaming(parts)).bytes(all.length + 1), ProtocolError);
  }
  const before = process.memoryUsage().arrayBuffers;
  void new StreamReader(streaming([Uint8Array.of(1)], true)).bytes(32 << 20);
  await new Promise(setImmediate);
  assert.ok(process.memoryUsage().arrayBuffers - before < 1 << 20);
});
