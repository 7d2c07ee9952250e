import assert from "node:assert/strict";
import { test } from "node:test";
import type { IncomingRequest, Session } from "../src/moqt/session.js";
import { Message, RequestError } from "../src/moqt/session.js";
import { Broadcast } from "../src/publish/broadcast.js";
import { Capture, type Settings } from "../src/publish/capture.js";
import { Delivery, maxUnsent } from "../src/publish/delivery.js";
import { framesOf } from "../src/publish/frames.js";
import { PublishedTrack } from "../src/publish/track.js";
import { settle } from "./fake.js";

/** Sent is a stream that was opened. */
interface Sent {
  writes: number[]; // lengths
  ended: "" | "closed" | "aborted";
}

/** sessionOf opens streams that take what take lets them take. */
function sessionOf(take: (stream: number) => Promise<void>): { session: Session; streams: Sent[] } {
  const streams: Sent[] = [];
  const openStream = async () => {
    const n = streams.length;
    const sent: Sent = { writes: [], ended: "" };
    streams.push(sent);
    return new WritableStream<Uint8Array>({
      start: (c) => c.signal.addEventListener("abort", () => (sent.ended ||= "aborted")),
      write: async (bytes) => {
        await take(n);
        sent.writes.push(bytes.length);
      },
      close: () => void (sent.ended ||= "closed"),
    });
  };
  return { session: { openStream } as unknown as Session, streams };
}

const object = (group: number, n: number, size = 1) => ({
  group, object: n, subgroup: 0, priority: 1, payload: new Uint8Array(size),
});

test("a broadcast is announced when it has a catalog", async () => {
  const done: string[] = [];
  const session = {
    close: () => {},
    publishNamespace: async () => {
      done.push("announced");
      return { ended: new Promise<string>(() => {}) };
    },
    closed: new Promise<string>(() => {}),
  } as unknown as Session;
  const b = new Broadcast(["live"], async () => session, (s) => done.push(s));
  void b.run();
  await settle();
  assert.deepEqual(done, ["Starting…"]);
  b.describe([]);
  await settle();
  assert.deepEqual(done, ["Starting…", "announced", "Live."]);
});

test("a broadcast that the relay ends is announced again on another session", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const told: string[] = [];
  let closed = 0;
  let end!: (reason: string) => void;
  const ended = new Promise<string>((resolve) => (end = resolve));
  const answers = [async () => ({ ended }), () => Promise.reject(new RequestError(1, "the token has expired"))];
  const connect = async () =>
    ({
      close: () => void closed++,
      publishNamespace: () => answers.shift()!(),
      closed: new Promise<string>(() => {}),
    }) as unknown as Session;
  const b = new Broadcast(["live"], connect, (s) => told.push(s));
  b.describe([]);
  void b.run();
  await settle();
  end("the relay has ended the broadcast");
  await settle();
  assert.equal(closed, 1);
  t.mock.timers.tick(1000);
  await settle();
  assert.deepEqual(told, [
    "Starting…", "Live.", "Not live: the relay has ended the broadcast. Connecting again…",
    "Not live: the token has expired. Trying again…",
  ]);
  b.stop();
});

test("a broadcast that was stopped before it had a catalog does not connect", async () => {
  let connections = 0;
  const b = new Broadcast(["live"], () => Promise.reject(new Error(`connection ${++connections}`)), () => {});
  const running = b.run();
  await settle();
  b.stop();
  await running;
  assert.equal(connections, 0);
});

test("what went wrong is said in one sentence", async () => {
  const told: string[] = [];
  const b = new Broadcast(["live"], () => Promise.reject(new Error("Opening handshake failed.")), (s) => told.push(s));
  b.describe([]);
  const running = b.run();
  await settle();
  b.stop();
  assert.deepEqual(told, ["Starting…", "Not live: Opening handshake failed. Trying again…", ""]);
  await running;
});

test("a broadcast that was stopped while it connected closes its session", async () => {
  const done: string[] = [];
  let connected!: (s: Session) => void;
  const told: string[] = [];
  const b = new Broadcast(["live"], () => new Promise((resolve) => (connected = resolve)), (s) => told.push(s));
  b.describe([]);
  const running = b.run();
  await settle();
  b.stop();
  connected({
    close: () => void done.push("closed"),
    publishNamespace: async () => void done.push("announced"),
    closed: Promise.resolve("over"),
  } as unknown as Session);
  await running;
  assert.deepEqual(done, ["closed"]);
  assert.deepEqual(told, ["Starting…", ""]);
});

test("a stopped stream ends nothing but its group", async () => {
  const { session, streams } = sessionOf((n) => (n === 0 ? Promise.reject(new Error("stopped")) : Promise.resolve()));
  const track = new PublishedTrack("video");
  const over = new Promise<undefined>(() => {});
  const stream = { send: async () => {}, next: () => over, cancelled: over };
  void track.serve({ type: Message.Subscribe, parameters: {}, session, stream } as unknown as IncomingRequest);
  await settle();
  track.add(1, 0, 1, new Uint8Array(1));
  await settle();
  track.add(1, 0, 1, new Uint8Array(1));
  await settle();
  track.add(2, 0, 1, new Uint8Array(1));
  await settle();
  assert.deepEqual(streams.map((s) => s.writes.length), [0, 2]);
});

test("what a slow network cannot take is left out up to the next group", async () => {
  const { session, streams } = sessionOf((n) => (n < 2 ? new Promise(() => {}) : Promise.resolve()));
  const d = new Delivery(session, 1, true);
  d.send(object(1, 0, maxUnsent));
  d.endGroup();
  d.send(object(2, 0, maxUnsent)); // gives up group 1
  await settle();
  assert.equal(streams.length, 2);
  d.send(object(2, 1)); // gives up the rest of group 2
  d.send(object(2, 2));
  d.endGroup();
  d.send(object(3, 0));
  d.endGroup();
  await settle();
  assert.deepEqual(streams.map((s) => s.ended), ["aborted", "aborted", "closed"]);
  assert.equal(streams[2]!.writes.length, 2, "a header, and an object");
});

test("sound that was encoded is closed", async () => {
  let open = 0;
  class Sound {
    readonly [field: string]: unknown;
    constructor(init: object) {
      Object.assign(this, init);
      open++;
    }
    copyTo(): void {}
    close = () => void open--;
  }
  const encoded: unknown[] = [];
  class Encoder {
    state = "unconfigured";
    configure = () => void (this.state = "configured");
    encode = (sound: unknown) => void encoded.push(sound);
    close = () => void (this.state = "closed");
  }
  const sounds = Array.from({ length: 15 }, (_, i) =>
    new Sound({ timestamp: i * 10_000, numberOfChannels: 1, numberOfFrames: 480, sampleRate: 48_000 }));
  class Processor {
    readonly readable = new ReadableStream({
      start: (c) => {
        for (const s of sounds) c.enqueue(s);
        c.close();
      },
    });
  }
  const replaced = { AudioData: globalThis.AudioData, AudioEncoder: globalThis.AudioEncoder };
  Object.assign(globalThis, { AudioData: Sound, AudioEncoder: Encoder, MediaStreamTrackProcessor: Processor });
  try {
    const track = { stop: () => {} };
    const stream = { getVideoTracks: () => [], getAudioTracks: () => [track], getTracks: () => [track] };
    const broadcast = { track: () => ({}), describe: () => {} } as unknown as Broadcast;
    const settings = { audioBitrate: 64_000, group: 2000, priorities: {} } as unknown as Settings;
    const capture = new Capture(stream as unknown as MediaStream, broadcast, settings, (error) => assert.fail(error));
    capture.start();
    await settle();
    capture.stop();
    assert.equal(encoded.length, 5, "the first ones tell the time");
    assert.equal(open, 0);
  } finally {
    Object.assign(globalThis, { ...replaced, MediaStreamTrackProcessor: undefined });
  }
});

test("an element whose first picture cannot be taken gives the others", async () => {
  let take: VideoFrameRequestCallback = () => {};
  const video = { requestVideoFrameCallback: (f: VideoFrameRequestCallback) => void (take = f), play: async () => {} };
  class Picture {
    constructor(_: unknown, readonly init: { timestamp: number }) {
      if (init.timestamp === 0) throw new DOMException("not yet", "InvalidStateError");
    }
  }
  const replaced = { document: globalThis.document, MediaStream: globalThis.MediaStream, VideoFrame: globalThis.VideoFrame };
  Object.assign(globalThis, { document: { createElement: () => video }, MediaStream: class {}, VideoFrame: Picture });
  try {
    const pictures = (await framesOf<VideoFrame>({ kind: "video" } as MediaStreamTrack)).getReader();
    for (const mediaTime of [0, 0.04, 0.04, 0.08]) take(0, { mediaTime } as VideoFrameCallbackMetadata);
    const times = [await pictures.read(), await pictures.read()].map((r) => (r.value as unknown as Picture).init.timestamp);
    assert.deepEqual(times, [40_000, 80_000]);
  } finally {
    Object.assign(globalThis, replaced);
  }
});
