import assert from "node:assert/strict";
import { test } from "node:test";
import { Player, type PlayerOptions } from "../src/media/player.js";
import { msfCatalog, type Track } from "../src/media/catalog.js";
import { RequestError, type MediaObject, type Session, type Subscription, type TrackName } from "../src/moqt/session.js";
import { initSegment } from "../src/publish/mux.js";
import type { Playback } from "../src/moqt/wire.js";
import { inView } from "../src/ui/dom.js";
import { settle } from "./fake.js";

class FakeDecoder {
  static isConfigSupported = async () => ({ supported: true });
  state = "unconfigured";
  configure(): void {}
  close(): void {}
}

class FakeContext {
  createGain = () => ({ connect: () => {} });
  close = async () => {};
}

Object.assign(globalThis, {
  AudioContext: FakeContext, VideoDecoder: FakeDecoder, AudioDecoder: FakeDecoder, requestAnimationFrame: () => 0,
  document: { hidden: false }, devicePixelRatio: 2,
});

/** player makes a player that connects to what connect gives. */
function player(connect: () => Promise<Session>): { p: Player; told: string[]; played: string[] } {
  const told: string[] = [];
  const played: string[] = [];
  const canvas = { getContext: () => ({}) };
  const options = {
    connect, namespace: ["live"], canvas, video: {}, target: 200, tell: (s: string) => told.push(s), found: () => {},
    plays: (t: Track) => played.push(t.name),
  };
  return { p: new Player(options as unknown as PlayerOptions), told, played };
}

test("a player that was stopped while it connected closes its session", async () => {
  let closed = false;
  let connected!: (s: Session) => void;
  const { p, told } = player(() => new Promise((resolve) => (connected = resolve)));
  const running = p.run();
  p.stop();
  connected({
    close: () => void (closed = true),
    closed: Promise.resolve(""),
    subscribe: () => assert.fail("it subscribes"),
  } as unknown as Session);
  await running;
  assert.ok(closed);
  assert.deepEqual(told, []);
});

test("a rendition that was chosen on a session that is over blocks no later choice", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const init = initSegment({ id: 1, kind: "video", codec: "vp09.00.40.08", width: 640, height: 360 });
  const track = (name: string, height: number) =>
    ({ name, role: "video", packaging: "cmaf", codec: "vp09.00.40.08", init, height, altGroup: 1 }) as const;
  const catalog = new TextEncoder().encode(msfCatalog([track("high", 720), track("low", 360)]));
  const asked: { name: string; cancelled: boolean; answer: () => void }[] = [];
  let end!: (reason: string) => void;
  const connect = async () => {
    const closed = new Promise<string>((resolve) => (end = resolve));
    const subscribe = (name: TrackName, _: unknown, receive: (o: MediaObject) => void) =>
      new Promise<Subscription>((resolve) => {
        const a = { name: name.name, cancelled: false, answer: () => {} };
        const s = { done: new Promise(() => {}), cancel: () => void (a.cancelled = true) };
        a.answer = () => resolve(s as unknown as Subscription);
        asked.push(a);
        if (name.name === "catalog") receive({ group: 0, object: 0, subgroup: 0, status: 0, payload: catalog });
        if (name.name !== "low") a.answer();
      });
    return { closed, subscribe, report: async () => true, close: () => {}, rtt: async () => 0 } as unknown as Session;
  };
  const { p } = player(connect);
  const running = p.run();
  await settle();
  const chosen = p.choose("low");
  await settle();
  end("lost");
  await settle();
  const first = asked.find((a) => a.name === "low")!;
  first.answer();
  await chosen;
  assert.ok(first.cancelled);
  t.mock.timers.tick(1000);
  await settle();
  asked.findLast((a) => a.name === "low")!.answer(); // it is wanted now
  await settle();
  void p.choose("high");
  await settle();
  assert.deepEqual(asked.map((a) => a.name), ["catalog", "high", "low", "catalog", "low", "high"]);
  p.stop();
  end("stopped");
  t.mock.timers.tick(1000);
  await running;
});

test("counts are asked for what is seen", () => {
  const seen = [[-20, 0], [-20, 1], [0, 20], [99, 120], [100, 120]].map(([top, bottom]) =>
    inView({ top: top!, bottom: bottom! }, 100));
  assert.deepEqual(seen, [false, true, true, true, false]);
});

test("a change of rendition shows every picture once, and takes place where a group starts", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  let wall = 1000;
  t.mock.method(performance, "now", () => wall);
  let draw = () => {};
  class Decoder extends FakeDecoder {
    readonly decodeQueueSize = 0;
    private codec = "";
    constructor(private readonly init: { output: (picture: unknown) => void }) {
      super();
    }
    override configure = (config?: { codec: string }) => {
      [this.state, this.codec] = ["configured", config!.codec];
    };
    override close = () => void (this.state = "closed");
    decode = ({ timestamp }: { timestamp: number }) =>
      this.init.output({ timestamp, codec: this.codec, displayWidth: 1, displayHeight: 1, close: () => {} });
  }
  class Chunk {
    constructor(init: object) {
      Object.assign(this, init);
    }
  }
  const replaced = { VideoDecoder: globalThis.VideoDecoder, requestAnimationFrame };
  const nextFrame = (f: () => void) => ((draw = f), 0);
  Object.assign(globalThis, { VideoDecoder: Decoder, EncodedVideoChunk: Chunk, requestAnimationFrame: nextFrame });
  const shown: { timestamp: number; codec: string }[] = [];
  const drawImage = (p: { timestamp: number; codec: string }) => void shown.push(p);
  const track = (name: string, codec: string) => ({ name, role: "video", packaging: "loc", codec, altGroup: 1 }) as const;
  const catalog = new TextEncoder().encode(msfCatalog([track("high", "vp09.1"), track("low", "vp09.2")]));
  const receivers = new Map<string, (o: MediaObject) => void>();
  const subscribe = async (name: TrackName, _: unknown, receive: (o: MediaObject) => void) => {
    if (name.name === "catalog") receive({ group: 0, object: 0, subgroup: 0, status: 0, payload: catalog });
    receivers.set(name.name, receive);
    return { done: new Promise(() => {}), cancel: () => void receivers.delete(name.name) } as unknown as Subscription;
  };
  const reports: Playback[] = [];
  const report = async (_: Subscription, p: Playback) => reports.push(p) > 1; // the first is not sent
  const session = { closed: new Promise(() => {}), subscribe, report, close: () => {}, rtt: async () => 0 };
  const canvas = { getContext: () => ({ drawImage }), clientWidth: 640, clientHeight: 360 };
  const played: string[] = [];
  const p = new Player({
    connect: async () => session, namespace: ["live"], canvas, video: {}, target: 200,
    tell: () => {}, found: () => {}, plays: ({ name }: Track) => played.push(name),
  } as unknown as PlayerOptions);
  void p.run();
  await settle();
  const [frame, groupFrames] = [40, 25];
  let first = Infinity; // the group with which the other rendition begins
  const object = (n: number): MediaObject => ({
    group: Math.floor(n / groupFrames), object: n % groupFrames, subgroup: 0, status: 0,
    properties: new Map([[0x10, n * frame * 1000]]), payload: Uint8Array.of(1),
  });
  for (let n = 0; n < 4 * groupFrames; n++, wall += frame) {
    const o = object(n);
    if (o.group >= first) receivers.get("low")?.(o);
    if (n >= 2) receivers.get("high")?.(object(n - 2)); // it comes later
    if (n === 30) void p.choose("low").then(() => (first = o.group + 1));
    for (let i = 0; i < 2; i++) draw();
    t.mock.timers.tick(frame);
    await settle();
  }
  const low = shown.findIndex((s) => s.codec === "vp09.2");
  assert.equal(shown[low]?.timestamp, 2 * groupFrames * frame * 1000);
  assert.ok(shown.slice(low).every((s) => s.codec === "vp09.2"));
  assert.deepEqual(shown.map((s) => s.timestamp), shown.map((_, i) => shown[0]!.timestamp + i * frame * 1000));
  assert.ok(shown.length > 3.5 * groupFrames, `${shown.length}`);
  assert.deepEqual(played, ["high", "low"]);
  assert.ok(!receivers.has("high"), "the other subscription is over");
  assert.ok(reports.length > 0 && reports.length <= 4, `${reports.length} reports in four seconds`);
  assert.deepEqual(reports[1], reports[0], "what the session did not send is reported again");
  assert.ok(reports.every((r) => r.buffered! > 0 && r.buffered! < 400), "about the target");
  assert.deepEqual({ ...reports[0], buffered: 0 }, { buffered: 0, dropped: 0, width: 1280, height: 720 });
  p.stop();
  Object.assign(globalThis, replaced);
});

test("layers are played, and whole groups if layers do not come", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const video = { name: "1.m4s", role: "video", packaging: "loc", codec: "vp09.1", "x-layers": "1.layers.m4s" };
  const catalog = new TextEncoder().encode(JSON.stringify({ version: "draft-01", tracks: [video] }));
  for (const [what, refuses, key, wanted] of [
    ["layers", false, false, ["1.layers.m4s"]],
    ["key frames only", false, true, ["1.layers.m4s", "1.m4s"]],
    ["a refusal", true, false, ["1.layers.m4s", "1.m4s"]],
  ] as const) {
    const asked: string[] = [];
    let receive = (_: MediaObject) => {};
    const connect = async () => {
      const subscribe = async ({ name }: TrackName, _: unknown, take: (o: MediaObject) => void) => {
        if (name === "catalog") take({ group: 0, object: 0, subgroup: 0, status: 0, payload: catalog });
        else asked.push(name);
        if (name === "1.layers.m4s" && refuses) throw new RequestError(0x10, "there is no such track");
        receive = take;
        return { done: new Promise(() => {}), cancel: () => {} } as unknown as Subscription;
      };
      const session = { closed: new Promise(() => {}), subscribe, report: async () => true, close: () => {} };
      return { ...session, rtt: async () => 0 } as unknown as Session;
    };
    const { p } = player(connect);
    const running = p.run();
    await settle();
    for (let group = 1; group <= 4; group++) {
      for (let object = 0; object < (key ? 1 : 3); object++) {
        const arrival = { at: 0, took: 0 };
        receive({ group, object, subgroup: object, status: 0, payload: Uint8Array.of(1), arrival });
      }
      await settle();
      t.mock.timers.tick(1000);
      await settle();
    }
    assert.deepEqual(asked, wanted, what);
    p.stop();
    void running;
  }
});

test("a frame that the decoder refuses ends the session, and drawing goes on", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  let wall = 1000;
  t.mock.method(performance, "now", () => wall);
  let draw: (() => void) | undefined;
  class Decoder extends FakeDecoder {
    override state = "configured";
    readonly decodeQueueSize = 0;
  }
  class Chunk {
    constructor() {
      throw new TypeError("no safe integer");
    }
  }
  const replaced = { VideoDecoder: globalThis.VideoDecoder, requestAnimationFrame };
  const nextFrame = (f: () => void) => ((draw = f), 0);
  Object.assign(globalThis, { VideoDecoder: Decoder, EncodedVideoChunk: Chunk, requestAnimationFrame: nextFrame });
  const video = { name: "v", role: "video", packaging: "loc", codec: "vp09.1" } as const;
  const catalog = new TextEncoder().encode(msfCatalog([video]));
  let receive = (_: MediaObject) => {};
  let closed = 0;
  const subscribe = async (name: TrackName, _: unknown, take: (o: MediaObject) => void) => {
    if (name.name === "catalog") take({ group: 0, object: 0, subgroup: 0, status: 0, payload: catalog });
    receive = take;
    return { done: new Promise(() => {}), cancel: () => {} } as unknown as Subscription;
  };
  const session = { closed: new Promise(() => {}), subscribe, close: () => void closed++, rtt: async () => 0 };
  const { p, told } = player(async () => session as unknown as Session);
  void p.run();
  await settle();
  receive({ group: 0, object: 0, subgroup: 0, status: 0, payload: Uint8Array.of(1) });
  wall += 1000;
  const last = draw!;
  draw = undefined;
  last();
  assert.ok(draw, "it is called for the next picture");
  assert.deepEqual(told.slice(-1), ["Playback has failed: no safe integer."]);
  assert.equal(closed, 1);
  const properties = new Map([[0x06, 1], [0x08, 0]]); // a timescale of zero
  receive({ group: 0, object: 1, subgroup: 0, status: 0, payload: Uint8Array.of(1), properties });
  assert.match(told.at(-1)!, /^Playback has failed: a frame has the time Infinity/);
  assert.equal(closed, 2);
  p.stop();
  Object.assign(globalThis, replaced);
});

test("content that fails again and again is asked for less and less often", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  let wall = 0;
  t.mock.method(performance, "now", () => wall);
  const catalog = new TextEncoder().encode(
    msfCatalog([{ name: "v", role: "video", packaging: "loc", codec: "vp09.1" }]),
  );
  const subscribe = async (name: TrackName, _: unknown, take: (o: MediaObject) => void) => {
    if (name.name === "catalog") take({ group: 0, object: 0, subgroup: 0, status: 0, payload: catalog });
    return { done: new Promise(() => {}), cancel: () => {} } as unknown as Subscription;
  };
  const ends: ((reason: string) => void)[] = [];
  const connect = async () => {
    const closed = new Promise<string>((resolve) => ends.push(resolve));
    return { closed, subscribe, close: () => {}, rtt: async () => 0, report: async () => true } as unknown as Session;
  };
  const { p } = player(connect);
  void p.run();
  /** pause ends the session after it has played for a time, and returns how long the player waits. */
  const pause = async (played: number) => {
    const before = ends.length;
    await settle();
    wall += played;
    ends.at(-1)!("over");
    for (let waited = 0; ; waited += 500) {
      await settle();
      if (ends.length > before) return waited;
      t.mock.timers.tick(500);
    }
  };
  const pauses = [];
  for (const played of [0, 0, 0, 5000, 0]) pauses.push(await pause(played));
  assert.deepEqual(pauses, [500, 1000, 2000, 500, 1000]);
  p.stop();
});

test("sound that the browser cannot decode is left out", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const track = (name: string, role: "audio" | "video", codec: string) =>
    ({ name, role, packaging: "loc", codec }) as const;
  const [video, odd, wrong, opus] = [
    track("v", "video", "vp09.1"), track("odd", "audio", "ac-4"), track("wrong", "audio", ""),
    track("opus", "audio", "opus"),
  ];
  class Decoder extends FakeDecoder {
    static override isConfigSupported = async ({ codec }: { codec?: string } = {}) => {
      if (codec === "") throw new TypeError("no codec");
      return { supported: codec === "opus" };
    };
  }
  const replaced = { AudioDecoder: globalThis.AudioDecoder };
  Object.assign(globalThis, { AudioDecoder: Decoder });
  for (const [tracks, wanted] of [
    [[video, odd, wrong, opus], ["v", "opus"]],
    [[video, odd, wrong], ["v"]],
  ] as const) {
    const catalog = new TextEncoder().encode(msfCatalog([...tracks]));
    const asked: string[] = [];
    const subscribe = async (name: TrackName, _: unknown, take: (o: MediaObject) => void) => {
      if (name.name === "catalog") take({ group: 0, object: 0, subgroup: 0, status: 0, payload: catalog });
      else asked.push(name.name);
      return { done: new Promise(() => {}), cancel: () => {} } as unknown as Subscription;
    };
    const session = { closed: new Promise(() => {}), subscribe, close: () => {}, rtt: async () => 0 };
    const { p, told } = player(async () => session as unknown as Session);
    void p.run();
    await settle();
    assert.deepEqual(asked, wanted);
    assert.equal(told.at(-1), "");
    p.stop();
  }
  Object.assign(globalThis, replaced);
});
