import assert from "node:assert/strict";
import { test } from "node:test";
import { msfCatalog, parseCatalog, type Track } from "../src/media/catalog.js";
import { Clock } from "../src/media/clock.js";
import { newDemuxer } from "../src/media/demux.js";
import { endOfGroup, Sequencer } from "../src/media/sequencer.js";
import type { MediaObject } from "../src/moqt/session.js";
import { writeProperties } from "../src/moqt/wire.js";
import { chunk, initSegment } from "../src/publish/mux.js";

const object = (group: number, n: number, status = 0): MediaObject => ({
  group,
  object: n,
  subgroup: 0,
  status,
  payload: new Uint8Array([group, n]),
});

function sequencer(): { s: Sequencer; out: string[] } {
  const out: string[] = [];
  return { s: new Sequencer((o) => out.push(`${o.group}.${o.object}`)), out };
}

test("a sequencer puts objects in order", () => {
  const { s, out } = sequencer();
  for (const [g, n] of [[4, 1], [4, 0], [4, 3], [4, 2], [4, 1]] as const) s.push(object(g, n));
  s.push(object(4, 4, endOfGroup));
  s.push(object(5, 0));
  s.push(object(4, 9));
  assert.deepEqual(out, ["4.0", "4.1", "4.2", "4.3", "5.0"]);
  assert.equal(s.lost, 0);
  s.close();
});

/** layered is an object of a broadcast in layers: the key frame, those on which others depend, and disposable ones. */
const layered = (group: number, n: number, subgroup: number, status = 0): MediaObject =>
  ({ ...object(group, n, status), subgroup, arrival: { at: 0, took: 0 } });

test("a missing disposable frame costs only itself", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { s, out } = sequencer();
  for (const [n, subgroup] of [[0, 0], [1, 2], [2, 1], [3, 2], [4, 1]] as const) s.push(layered(1, n, subgroup));
  s.push(layered(1, 5, 1, endOfGroup));
  out.length = 0;
  for (const [n, subgroup] of [[0, 0], [2, 1], [4, 1], [5, 2]] as const) s.push(layered(2, n, subgroup));
  t.mock.timers.tick(99);
  assert.deepEqual(out, ["2.0"], "the disposable frames may still come");
  s.push(layered(2, 3, 2));
  t.mock.timers.tick(1);
  assert.deepEqual(out, ["2.0", "2.2", "2.3", "2.4", "2.5"]);
  s.push(layered(2, 1, 2));
  s.push(layered(2, 7, 1, endOfGroup));
  s.push(layered(3, 0, 0));
  t.mock.timers.tick(100);
  assert.deepEqual(out.slice(5), ["3.0"], "the last one is missing, and another one is too late");
  assert.equal(s.lost, 0);
  s.close();
});

test("a missing frame on which others depend costs the rest of its group", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { s, out } = sequencer();
  for (const [n, subgroup] of [[0, 0], [1, 1], [2, 2], [3, 1], [4, 2]] as const) s.push(layered(1, n, subgroup));
  s.push(layered(1, 5, 1, endOfGroup));
  out.length = 0;
  for (const [n, subgroup] of [[0, 0], [1, 1], [2, 2], [4, 2]] as const) s.push(layered(2, n, subgroup));
  t.mock.timers.tick(1000);
  assert.deepEqual(out, ["2.0", "2.1", "2.2"], "nobody knows what 3 is");
  s.push(layered(3, 0, 0));
  t.mock.timers.tick(150);
  assert.deepEqual(out.slice(3), ["3.0"]);
  assert.equal(s.lost, 1);
  s.close();
});

test("only frames of the last layer are disposable", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { s, out } = sequencer();
  const group = [[0, 0], [1, 3], [2, 2], [3, 3], [4, 1], [5, 3], [6, 2], [7, 3], [8, 1]] as const;
  for (const [n, subgroup] of group) s.push(layered(1, n, subgroup));
  s.push(layered(1, 9, 1, endOfGroup));
  for (const [n, subgroup] of group.filter(([, subgroup]) => subgroup !== 2)) s.push(layered(2, n, subgroup));
  t.mock.timers.tick(1000);
  assert.deepEqual(out.slice(9), ["2.0", "2.1"]);
  s.close();
});

test("a relay may leave out all disposable frames", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { s, out } = sequencer();
  for (const [n, subgroup] of [[0, 0], [2, 1], [2 ** 50, 1]] as const) s.push(layered(1, n, subgroup));
  t.mock.timers.tick(100);
  assert.deepEqual(out, ["1.0", "1.2", `1.${2 ** 50}`]);
  s.close();
});

test("frames with a subgroup each may depend on each other", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { s, out } = sequencer();
  for (const n of [0, 1, 3, 4, 5]) s.push(layered(1, n, n));
  t.mock.timers.tick(1000);
  assert.deepEqual(out, ["1.0", "1.1"]);
  s.close();
});

test("a fetch may bring frames later than a sequencer waits for disposable ones", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { s, out } = sequencer();
  for (const [n, subgroup] of [[4, 1], [5, 2], [6, 1], [8, 1], [9, 2]] as const) s.push(layered(1, n, subgroup));
  s.push(object(1, 0));
  t.mock.timers.tick(1000);
  assert.deepEqual(out, ["1.0"]);
  for (const [n, subgroup] of [[1, 2], [2, 1], [3, 2]] as const) s.push({ ...object(1, n), subgroup });
  assert.deepEqual(out.slice(1), ["1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.8", "1.9"]);
  s.close();
});

test("a sequencer leaves a group with a gap after a while", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { s, out } = sequencer();
  s.push(object(1, 0));
  s.push(object(1, 2));
  s.push(object(2, 0));
  assert.deepEqual(out, ["1.0"], "object 1 may still come");
  t.mock.timers.tick(149);
  assert.deepEqual(out, ["1.0"]);
  t.mock.timers.tick(1);
  assert.deepEqual(out, ["1.0", "2.0"]);
  assert.equal(s.lost, 1);
  s.push(object(1, 1));
  assert.deepEqual(out, ["1.0", "2.0"], "too late");
  s.close();
});

test("a sequencer keeps the newest groups", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { s, out } = sequencer();
  for (let group = 1; group <= 2000; group++) s.push(object(group, 1));
  s.push(object(5, 0));
  assert.deepEqual(out, [], "it is too old");
  s.push(object(2000 - 1023, 0));
  assert.deepEqual(out, ["977.0", "977.1"]);
  s.close();
});

test("a sequencer keeps a limited number of bytes behind a gap", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { s, out } = sequencer();
  const large = (group: number, n: number): MediaObject =>
    ({ ...object(group, n), payload: { length: 16 << 20 } as Uint8Array<ArrayBuffer> });
  s.push(large(1, 0));
  for (let n = 2; n < 6; n++) s.push(large(1, n));
  assert.equal(s.lost, 1);
  s.push(object(1, 1));
  s.push(object(1, 2));
  assert.deepEqual(out, ["1.0"], "the rest of the group is over");
  s.push(object(2, 0));
  assert.deepEqual(out, ["1.0", "2.0"], "the next one need not wait");
  for (let n = 2; n < 5; n++) s.push(large(2, n));
  s.push(large(3, 0));
  assert.deepEqual(out.slice(2), ["3.0"], "it follows at once");
  for (let n = 1; n < 20; n++) s.push(large(3, n));
  assert.equal(out.length, 22, "what is in order does not count");
  for (let group = 4; group < 20; group++) s.push(large(group, 1));
  s.push(object(20, 0));
  assert.equal(out.at(-1), "20.0", "groups that cannot begin are left as well");
  s.close();
});

test("a clock stays its target behind the fastest arrivals", () => {
  const c = new Clock(200);
  for (let wall = 1000; wall < 3000; wall += 40) c.arrived((wall - 950) * 1000, wall + (wall % 3) * 20);
  assert.ok(c.adjust(3000) || Math.abs(c.latency(3000) - 200) < 400);
  assert.ok(Math.abs(c.latency(3000) - 200) < 400);
  for (let wall = 3000; wall < 20_000; wall += 100) {
    c.arrived((wall - 950) * 1000, wall);
    c.adjust(wall);
    assert.ok(Math.abs(c.speed - 1) <= 0.04);
  }
  assert.ok(Math.abs(c.latency(20_000) - 200) < 15, `${c.latency(20_000)}`);
  const at = c.now(20_000);
  assert.ok(Math.abs(c.wallOf(at) - 20_000) < 0.01);
  c.target = 3000;
  assert.equal(c.adjust(20_000), true, "it jumps");
  assert.ok(Math.abs(c.latency(20_000) - 3000) < 1);
});

const init = initSegment({ id: 3, kind: "video", codec: "vp09.00.40.08", width: 640, height: 360 });

test("what is muxed is demuxed", () => {
  const demuxer = newDemuxer({ name: "v", role: "video", packaging: "cmaf", codec: "vp09.00.40.08", init });
  const time = 1_795_000_000_123_456; // a time of day
  for (let group = 0; group < 3; group++) {
    for (let n = 0; n < 3; n++) {
      const data = new Uint8Array([group, n, 7]);
      const payload = chunk(3, n + 1, { time: time + n * 33_333, duration: 33_333, key: n === 0, data });
      const frames = demuxer.frames({ ...object(group, n), payload });
      assert.equal(frames.length, 1);
      assert.equal(frames[0]!.time, time + n * 33_333);
      assert.equal(frames[0]!.duration, 33_333);
      assert.equal(frames[0]!.key, n === 0);
      assert.deepEqual([...frames[0]!.data], [...data]);
    }
  }
});

test("an object may not claim samples without end", () => {
  const demuxer = newDemuxer({ name: "v", role: "video", packaging: "cmaf", codec: "vp09.00.40.08", init });
  const payload = chunk(3, 1, { time: 1, duration: 1, key: true, data: new Uint8Array(1) });
  const trun = Buffer.from(payload).indexOf("trun");
  const claims = payload.slice();
  claims[trun + 6] = 0; // samples have no fields
  new DataView(claims.buffer).setUint32(trun + 8, 1 << 17);
  const frames = (payload: Uint8Array<ArrayBuffer>) => demuxer.frames({ ...object(1, 0), payload });
  assert.throws(() => frames(claims), /131072 samples/);
  for (const end of [4, 40, payload.length - 1]) assert.throws(() => frames(payload.slice(0, end)), /within a box/);
  assert.equal(frames(payload).length, 1, "they have left nothing");
});

test("sound has no description in vain", () => {
  const opus = initSegment({ id: 2, kind: "audio", sampleRate: 48_000, channels: 2 });
  const track = { name: "a", role: "audio", packaging: "cmaf", codec: "opus", init: opus } as const;
  assert.equal(newDemuxer(track).description, undefined);
});

test("LOC", () => {
  const track = { name: "v", role: "video", packaging: "loc", codec: "vp09.00.40.08" } as const;
  const demuxer = newDemuxer(track);
  const first = { ...object(1, 0), properties: new Map([[0x10, 5_000_000]]) };
  assert.deepEqual(demuxer.frames(first).map((f) => [f.time, f.key]), [[5_000_000, true]]);
  const second = { ...object(1, 1), properties: new Map([[0x06, 90_000], [0x08, 90_000]]) };
  assert.deepEqual(demuxer.frames(second).map((f) => [f.time, f.key]), [[1_000_000, false]]);
  // In Immutable Properties, which other ones override.
  const inside = writeProperties(new Map([[0x06, 180_000], [0x08, 90_000]]));
  const list = { ...object(1, 2), properties: new Map([[0x0b, inside]]) };
  assert.deepEqual(demuxer.frames(list).map((f) => f.time), [2_000_000]);
  const both = { ...object(1, 3), properties: new Map<number, number | Uint8Array>([[0x0b, inside], [0x08, 60_000]]) };
  assert.deepEqual(demuxer.frames(both).map((f) => f.time), [3_000_000]);
});

test("times that are no safe integers are refused", () => {
  const video = { name: "v", role: "video", packaging: "loc", codec: "vp09.00.40.08" } as const;
  const frames = (track: Track, properties: [number, number][]) =>
    newDemuxer(track).frames({ ...object(1, 0), properties: new Map(properties) });
  assert.equal(frames(video, [[0x06, 1], [0x08, 90_000]]).length, 1);
  assert.throws(() => frames(video, [[0x06, 1], [0x08, 0]]), /Infinity/);
  assert.throws(() => frames(video, [[0x06, 0], [0x08, 0]]), /NaN/);
  assert.throws(() => frames(video, [[0x06, 2 ** 53 - 1], [0x08, 1]]), /time/);
  assert.throws(() => frames({ ...video, framerate: 0 }, [[0x06, 1]]), /duration/);
  assert.throws(() => frames({ ...video, framerate: -30 }, [[0x06, 1]]), /duration/);
  const zero = init.slice();
  zero.fill(0, Buffer.from(zero).indexOf("mdhd") + 16, Buffer.from(zero).indexOf("mdhd") + 20); // the timescale
  const payload = chunk(3, 1, { time: 1, duration: 1, key: true, data: new Uint8Array(1) });
  const cmaf = (init: Uint8Array<ArrayBuffer>) =>
    newDemuxer({ ...video, packaging: "cmaf", init }).frames({ ...object(1, 0), payload });
  assert.equal(cmaf(init).length, 1);
  assert.throws(() => cmaf(zero), /Infinity/);
});

// The same bytes as in /player/loc.
test("hang's containers", () => {
  const taken = (packaging: "hang-legacy" | "hang-loc", payload: string) => {
    const demuxer = newDemuxer({ name: "v", role: "video", packaging, codec: "avc1.640028" });
    const [f] = demuxer.frames({ ...object(1, 0), payload: Uint8Array.from(Buffer.from(payload, "hex")) });
    return [f!.time, f!.key, Buffer.from(f!.data).toString("hex")];
  };
  assert.deepEqual(taken("hang-legacy", "80030d40cafe"), [200_000, true, "cafe"]);
  assert.deepEqual(taken("hang-loc", "05" + "1080030d40" + "cafe"), [200_000, true, "cafe"]);
  assert.deepEqual(taken("hang-loc", "08" + "0605" + "0219" + "05020102" + "ff"), [200_000, true, "ff"]);
  assert.deepEqual(taken("hang-loc", "00ff"), [0, true, "ff"]);
  for (const wrong of ["", "0210", "0110", "0140", "020d05"]) assert.throws(() => taken("hang-loc", wrong), wrong);
  assert.throws(() => taken("hang-legacy", ""));
});

test("hang's catalogs", () => {
  assert.deepEqual(parseCatalog(`{"video":{"renditions":{
    "video/hd":{"codec":"avc1.640028","container":{"kind":"legacy"},"codedWidth":1280,"codedHeight":720,
      "framerate":30,"bitrate":3000000,"description":"0164"},
    "video/sd":{"codec":"avc1.640028","codedWidth":640},
    "clip":{"codec":"avc1.640028","container":{"kind":"cmaf","init":"AQI="}},
    "future":{"codec":"av01","container":{"kind":"next"}}, "wrong":7,
    "elsewhere":{"codec":"av01","container":{"kind":"loc"},"broadcast":"./source"}}},
    "audio":{"renditions":{"audio":{"codec":"opus","container":{"kind":"loc"},"sampleRate":48000,"numberOfChannels":1}}},
    "chat":{}}`), [
    {
      name: "video/hd", role: "video", packaging: "hang-legacy", codec: "avc1.640028", altGroup: 1, width: 1280,
      height: 720, framerate: 30, bitrate: 3_000_000, description: Uint8Array.of(1, 0x64),
    },
    { name: "video/sd", role: "video", packaging: "hang-legacy", codec: "avc1.640028", altGroup: 1, width: 640 },
    {
      name: "clip", role: "video", packaging: "cmaf", codec: "avc1.640028", altGroup: 1, init: Uint8Array.of(1, 2),
    },
    {
      name: "audio", role: "audio", packaging: "hang-loc", codec: "opus", altGroup: 2, sampleRate: 48_000, channels: 1,
    },
  ]);
});

test("catalogs", () => {
  const tracks = [
    { name: "video", role: "video", packaging: "cmaf", codec: "avc1.42e01f", init, width: 640, height: 360, altGroup: 1 },
    { name: "audio", role: "audio", packaging: "cmaf", codec: "opus", init, sampleRate: 48_000, channels: 2 },
  ] as const;
  assert.deepEqual(parseCatalog(msfCatalog([...tracks])), tracks);
  const common = parseCatalog(`{"version":1,"streamingFormat":1,"commonTrackFields":{"namespace":"/bbb","packaging":"cmaf"},
    "tracks":[{"name":"1.m4s","initTrack":"0.mp4","selectionParams":{"codec":"avc1.640028","width":1280,"height":720}},
    {"name":"t","selectionParams":{"codec":"wvtt"}}]}`);
  assert.deepEqual(common, [
    { name: "1.m4s", role: "video", packaging: "cmaf", codec: "avc1.640028", initTrack: "0.mp4", width: 1280, height: 720 },
  ]);
  for (const wrong of ["", "[]", "{}", "null", `{"tracks":{}}`]) assert.throws(() => parseCatalog(wrong));
});
