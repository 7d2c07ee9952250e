import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { Track } from "../src/media/catalog.js";
import { chooseInterval, Chooser, Renditions } from "../src/media/chooser.js";
import { Meter } from "../src/media/meter.js";
import type { Playback } from "../src/moqt/wire.js";

const [low, middle, high] = [700_000, 2_800_000, 5_000_000];
const sizes = [640 * 360, 1280 * 720, 1920 * 1080];
const frameTime = 40; // ms
const groupFrames = 50;
const rtt = 40;

interface Path {
  rate: (at: number) => number; // bits per second at a time in milliseconds
  spike?: (frame: number) => number; // by which a frame is late, beside the queue
  from: number; // the rendition with which it begins
  report?: (at: number, playing: number) => Partial<Playback>; // what the player says each second
}

/** play simulates a path to a player: a queue of one rate, and a publisher with groups of two seconds. It returns the
 * rendition of each group, and when the player chose another one. */
function play({ rate, spike, from, report }: Path, duration: number): { played: number[]; switches: number[] } {
  const bitrates = [low, middle, high];
  const chooser = new Chooser(bitrates.map((bitrate, i) => ({ bitrate, pixels: sizes[i]! })), from);
  const played: number[] = [];
  const switches: number[] = [];
  let arrivals: { at: number; took: number; media: number; rendition: number; bytes: number }[] = [];
  let [current, chosen, free] = [from, from, 0];
  for (let frame = 0; frame * frameTime < duration; frame++) {
    const now = frame * frameTime;
    if (frame % groupFrames === 0) played.push((current = chosen));
    const unit = (bitrates[current]! / 25 / 8) * (groupFrames / (groupFrames + 9));
    const bytes = frame % groupFrames === 0 ? 10 * unit : unit; // a key frame
    const begin = Math.max(free, now);
    free = begin + (bytes * 8000) / rate(now);
    const at = free + rtt / 2 + (spike?.(frame) ?? 0);
    arrivals.push({ at, took: free - begin, media: now, rendition: current, bytes });
    arrivals.sort((a, b) => a.at - b.at);
    for (const a of arrivals.filter((a) => a.at <= now)) chooser.arrived(a, a.rendition, a.media, a.bytes);
    arrivals = arrivals.filter((a) => a.at > now);
    if (report && now % 1000 === 0) chooser.report(now, { dropped: 0, width: 0, height: 0, ...report(now, current) });
    if (now % chooseInterval !== 0) continue;
    const next = chooser.choose(now, rtt);
    if (next !== chosen) switches.push(now);
    chosen = next;
  }
  return { played, switches };
}

const constant = (rate: number) => () => rate;

const paths: Record<string, Path & { last: number; switches?: number; settled?: number; after?: number }> = {
  "a wide path": { rate: constant(20e6), from: 2, last: 2, switches: 0 },
  "a wide path, from the least on": { rate: constant(20e6), from: 0, last: 2, switches: 2 },
  "75 % of the best": { rate: constant(0.75 * high), from: 2, last: 1, switches: 3, settled: 6000, after: 2 },
  "too little for the second": { rate: constant(1.2e6), from: 2, last: 0, switches: 4, settled: 12_000, after: 2 },
  "less than the least": { rate: constant(0.5 * low), from: 2, last: 0, switches: 4 },
  "150 %, 50 %, 150 %": {
    rate: (at) => (at > 20_000 && at < 40_000 ? 0.5 : 1.5) * high, from: 2, last: 2, switches: 5,
  },
  "a loss in each second": {
    rate: constant(20e6), spike: (frame) => (frame % 25 < 3 ? 600 : 0), from: 2, last: 2, switches: 0,
  },
};

test("the rendition that a path lets through is chosen, and stays", () => {
  for (const [name, path] of Object.entries(paths)) {
    const { played, switches } = play(path, 60_000);
    const told = `${name}: ${played.join(" ")}; ${switches.join(" ")}`;
    assert.equal(played.at(-1), path.last, told);
    assert.ok(switches.length <= (path.switches ?? Infinity), told);
    const after = switches.filter((at) => at > (path.settled ?? Infinity)).length;
    assert.ok(after <= (path.after ?? 0), told);
  }
});

test("a trial that fails makes the next one come later", () => {
  const { switches } = play({ rate: constant(1.2e6), from: 0, last: 0 } as Path, 600_000);
  const raises = switches.filter((_, i) => i % 2 === 0);
  const pauses = raises.slice(1).map((at, i) => at - raises[i]!);
  const grow = pauses.every((p, i) => i === 0 || p > pauses[i - 1]! || p > 300_000);
  assert.ok(pauses.length >= 3 && grow, pauses.join(" "));
});

/** start is what comes in the first three seconds of the best rendition on a path. */
interface Start {
  path: string;
  rtt: number; // ms
  chosen: number; // the first rendition after the best one
  arrivals: [at: number, media: number, took: number, bytes: number][]; // times in ms
}

test("what arrives at first is less than the path carries", () => {
  const starts = JSON.parse(readFileSync("test/testdata/start.json", "utf8")) as Start[];
  assert.ok(starts.length > 0);
  for (const { path, rtt, chosen, arrivals } of starts) {
    const chooser = new Chooser([400_000, 1_000_000, 2_000_000].map((bitrate) => ({ bitrate, pixels: 0 })), 2);
    let choice = 2;
    for (let now = chooseInterval; now <= 3000 && choice === 2; now += chooseInterval) {
      for (const [at, media, took, bytes] of arrivals) {
        if (at > now - chooseInterval && at <= now) chooser.arrived({ at, took }, 2, media, bytes);
      }
      choice = chooser.choose(now, rtt);
    }
    assert.equal(choice, chosen, path);
  }
});

test("what brings nothing, or is refused, is left again", () => {
  const chooser = new Chooser([{ bitrate: low, pixels: 0 }, { bitrate: high, pixels: 0 }], 0);
  let now = 0;
  const until = (end: number) => {
    let chosen = 0;
    for (; now < end; now += 20) {
      chooser.arrived({ at: now, took: 1 }, 0, now, 1000);
      chosen = chooser.choose(now, rtt);
    }
    return chosen;
  };
  assert.equal(until(7000), 1);
  chooser.refused(now, false);
  assert.equal(until(30_000), 0);
  assert.equal(until(40_000), 1);
  const stuck = now;
  for (; now < stuck + 6000; now += 500) chooser.choose(now, rtt);
  assert.equal(chooser.choose(now, rtt), 0);
});

test("what the player says of itself counts", () => {
  let [dropped, far, late] = [0, 0, 0];
  const delayed: number[] = []; // the renditions that have come, in each second
  const cases: Record<string, { report: Path["report"] & {}; played: number[] }> = {
    "nothing": { report: () => ({}), played: [2] },
    "a small display": { report: () => ({ width: 1280, height: 720 }), played: [2, 1] },
    "a tiny display gets the least": { report: () => ({ width: 1, height: 1 }), played: [2, 0] },
    "a display that grows": {
      report: (at) => (at < 20_000 ? { width: 640, height: 360 } : { width: 1920, height: 1080 }),
      played: [2, 0, 1, 2],
    },
    "a decoder that is too slow for the best": {
      report: (_, playing) => ({ dropped: playing === 2 ? (dropped += 8) : dropped }), played: [2, 1, 2, 1],
    },
    "a decoder that is far too slow for the best": {
      report: (_, playing) => ({ dropped: playing === 2 ? (far += 20) : far }), played: [2, 1, 2, 1],
    },
    "a decoder that is far too slow, and shows with a delay": {
      report: (_, playing) => {
        delayed.push(playing);
        if (delayed.at(-5) === 2) late += 20;
        return { buffered: 4000, dropped: late };
      },
      played: [2, 1, 2, 1],
    },
    "a decoder that drops now and then": { report: (at) => ({ dropped: at / 1000 }), played: [2] },
  };
  for (const [name, { report, played }] of Object.entries(cases)) {
    const groups = play({ rate: constant(20e6), from: 2, report }, 60_000).played;
    assert.deepEqual(groups.filter((r, i) => r !== groups[i - 1]), played, name);
  }
});

test("a meter begins anew when the publisher does", () => {
  const m = new Meter();
  for (let t = 0; t < 5000; t += 40) m.arrived({ at: t, took: 1 }, 1e9 + t, 1000);
  assert.equal(m.delay(5000), 0);
  assert.ok(Math.abs(m.rate(5000) - 200_000) < 12_000, `${m.rate(5000)}`);
  m.arrived({ at: 5000, took: 1 }, 0, 1000);
  assert.equal(m.delay(5040), 40);
  assert.equal(m.burst(), 0);
  for (let n = 0; n < 5; n++) m.arrived({ at: 5040 + n, took: 100 }, 40 * n, 25_000);
  assert.equal(m.burst(), 2e6);
});

test("only renditions that can follow each other are chosen from", () => {
  const track = (name: string, codec: string, more: Partial<Track> = {}): Track =>
    ({ name, role: "video", packaging: "cmaf", codec, altGroup: 1, bitrate: 1000, ...more });
  const all = [
    track("a", "avc1.1", { bitrate: 3000 }), track("b", "avc1.2"), track("c", "vp09.0"),
    track("d", "avc1.1", { altGroup: 2 }), track("e", "avc1.1", { packaging: "loc" }), { ...track("f", "avc1.1"), bitrate: 0 },
  ];
  const r = new Renditions(all[0]!, all);
  r.refused(0, false);
  assert.equal(r.choose(0, 0).name, "a");
  const names = (r as unknown as { tracks: Track[] }).tracks.map((t) => t.name);
  assert.deepEqual(names, ["b", "a"]);
});
