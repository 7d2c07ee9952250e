import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { grown, largest, quantile, ratesOf, smallest } from "../src/inside/rates.js";
import { guestRow, relayRows } from "../src/inside/tables.js";
import type { Snapshot } from "../src/inside/snapshot.js";
import { bits, bytes, percent, renditionText, time } from "../src/inside/text.js";

function snapshot(second: number, n: number): Snapshot {
  return {
    time: new Date(1000 * second).toISOString(), sessions: 1, publishers: 1, viewers: 0, received_bytes: 1000 * n,
    sent: { bytes: 5000 * n, kernel_packets: 3 * n, process_packets: n, lost_packets: 0, again_packets: 0 },
    fast_path: { copy_sent: 100 * n, copy_window: 4 * n, packet_opened: n, copy_budget: 7 },
    delays: { starts_ns: [], kernel: [], process: [] }, tracks: [],
    more: { tracks: 0, subscribers: 0, on_fast_path: 0, bytes: 0 },
  };
}

test("rates are those of the time between two snapshots", () => {
  assert.deepEqual(ratesOf(snapshot(1, 10), snapshot(3, 20)), {
    inBits: 40_000, outBits: 200_000, share: 75, declined: { window: 20 },
  });
});

test("counters of a new process begin anew", () => {
  assert.deepEqual(ratesOf(snapshot(1, 10), snapshot(2, 1)), { inBits: 0, outBits: 0, share: null, declined: {} });
  assert.deepEqual(grown([5, 5], [6, 1]), [1, 0]);
});

test("quantiles are the ends of bins", () => {
  const starts = [0, 100, 200, 300];
  assert.equal(quantile(starts, [0, 0, 0, 0], 0.5), null);
  assert.equal(quantile(starts, [1, 98, 1, 0], 0.5), 200);
  assert.equal(quantile(starts, [1, 98, 1, 0], 0.01), 100);
  assert.equal(quantile(starts, [1, 98, 1, 0], 1), 300);
  assert.equal(quantile(starts, [0, 0, 0, 9], 0.5), 300, "the last bin has no end");
});

test("what is largest comes first", () => {
  assert.deepEqual(largest({ a: 1, b: 3, c: 2 }, 2), [["b", 3], ["c", 2]]);
});

test("numbers are written for people", () => {
  assert.deepEqual([1500, 2_500_000, 3e9].map(bits), ["2 kbit/s", "2.5 Mbit/s", "3.00 Gbit/s"]);
  assert.deepEqual([null, 0, 53_000, 1_690_000, 17e6, 2e9].map(time), ["–", "–", "53 µs", "1.7 ms", "17 ms", "2.0 s"]);
  assert.deepEqual([null, 0, 99.96, 100].map(percent), ["–", "0 %", "100.0 %", "100 %"]);
});

test("the smallest of nothing is nothing", () => {
  assert.equal(bytes(smallest([])), "–");
  assert.equal(bytes(smallest([30_000, 20_000])), "20 kB");
});

test("a rendition is named with the reason for it", () => {
  const rendition = { track: "live--720p", renditions: 3, switches: 0 };
  assert.equal(renditionText(undefined), "–");
  assert.equal(renditionText({ ...rendition, track: "" }), "none yet, one of 3");
  assert.equal(renditionText({ ...rendition, switches: 2, reason: "late" }),
    "live--720p, one of 3, switches: 2, the last one: late");
});

test("a guest publishes or plays, and the kernel sends a share of its packets", () => {
  const guest = {
    remote: "192.0.2.1:5000", protocol: "rtsp", carrier: "udp", publishes: false, namespace: "live-cam",
    received_bytes: 0, sent_bytes: 1_000_000, kernel_packets: 300, process_packets: 100, dropped: 2,
  };
  const before = { ...guest, sent_bytes: 500_000, kernel_packets: 210, process_packets: 90 };
  const row = {
    client: "192.0.2.1:5000", by: "rtsp, udp", does: "plays", broadcast: "live-cam", "from it": "",
    "to it": "2.0 Mbit/s", "by the kernel": "90 %", dropped: 2,
  };
  assert.deepEqual(guestRow(guest, before, 2), row);
  assert.deepEqual(
    guestRow({ ...guest, publishes: true, received_bytes: 250_000 }, { ...before, publishes: true }, 1),
    { ...row, does: "publishes", "from it": "2.0 Mbit/s", "to it": "", "by the kernel": "" },
  );
});

test("other relays are upstream, or nodes of the cluster", () => {
  const nodes = [
    { id: "fra1", region: "eu", routes: 3, load: 0.254, feeds: [{ from: "ams1", rtt_ns: 9_400_000, tracks: 1 }] },
    { id: "nyc1", routes: 0, load: 0, feeds: [{ from: "fra1", tracks: 2 }, { from: "ams1", rtt_ns: 81_000_000, tracks: 5 }] },
    { id: "ams1", region: "eu", routes: 0, load: 1 },
  ];
  const now = {
    ...snapshot(1, 1), cluster: { name: "live", node: "fra1", nodes, more_nodes: 7 },
    upstreams: [
      { url: "moqt://a.example", connected: true }, { url: "moqt://b.example", connected: false, error: "it has no route" },
      { url: "moqt://c.example", connected: false },
    ],
  };
  const upstream = { to: "this relay", RTT: "", load: "" };
  assert.deepEqual(relayRows(now), [
    { ...upstream, from: "moqt://a.example", state: "connected" },
    { ...upstream, from: "moqt://b.example", state: "it has no route" },
    { ...upstream, from: "moqt://c.example", state: "away" },
    { from: "ams1", to: "fra1, eu (this one)", state: "1 track", RTT: "9.4 ms", load: "25 %" },
    { from: "fra1", to: "nyc1", state: "2 tracks", RTT: "–", load: "0 %" },
    { from: "ams1", to: "nyc1", state: "5 tracks", RTT: "81 ms", load: "0 %" },
    { from: "–", to: "ams1, eu", state: "", RTT: "", load: "100 %" },
    { from: "7 more nodes" },
  ]);
  assert.deepEqual(relayRows(snapshot(1, 1)), []);
});

test("the page reads each field, but for those that are there for programs", () => {
  const read = (file: string): string => readFileSync(`src/inside/${file}`, "utf8");
  const page = readdirSync("src/inside").filter((file) => file.endsWith(".ts") && file !== "snapshot.ts").map(read).join();
  const fields = new Set([...read("snapshot.ts").matchAll(/^  (\w+)\??:/gm)].map(([, name]) => name!));
  const unread = [...fields].filter((name) => !new RegExp(`\\.${name}\\b`).test(page));
  assert.deepEqual(unread.sort(), ["again_packets", "held", "routes"]);
});
