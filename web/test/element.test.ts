import assert from "node:assert/strict";
import { test } from "node:test";
import type { Track } from "../src/media/catalog.js";
import { ElementOutput } from "../src/media/element.js";
import type { MediaObject } from "../src/moqt/session.js";

/** FakeBuffer keeps what is appended, as text. */
class FakeBuffer extends EventTarget {
  static latest: FakeBuffer;
  readonly appended: string[] = [];
  buffered: { length: number; start?: () => number } = { length: 0 };
  readonly removed: number[][] = [];
  updating = false;
  full = false;

  constructor() {
    super();
    FakeBuffer.latest = this;
  }

  changeType(type: string): void {
    this.appended.push(type);
  }

  remove(...range: number[]): void {
    this.removed.push(range);
  }

  appendBuffer(b: Uint8Array): void {
    if (this.full) throw new DOMException("full", "QuotaExceededError");
    this.appended.push(new TextDecoder().decode(b));
    this.dispatchEvent(new Event("updateend"));
  }
}

class FakeSource extends EventTarget {
  static latest: FakeSource;
  readyState = "open";
  addSourceBuffer = () => new FakeBuffer();

  constructor() {
    super();
    FakeSource.latest = this;
  }
}

Object.assign(globalThis, { MediaSource: FakeSource });
URL.createObjectURL = () => "";
URL.revokeObjectURL = () => {};

/** left is how many seconds the element still has to show. */
function output(left: () => number) {
  const buffered = { length: 1, start: () => 0, end: () => 10 + left() };
  const video = Object.assign(new EventTarget(), { buffered, currentTime: 10, paused: false, src: "" });
  return new ElementOutput(video as unknown as HTMLVideoElement, 200, (error) => assert.fail(String(error)));
}

const bytes = (text: string) => new TextEncoder().encode(text);
const track = (name: string): Track =>
  ({ name, role: "video", packaging: "cmaf", codec: name, init: bytes(`init ${name}`) }) as Track;
const object = (name: string, group: number, object: number): MediaObject =>
  ({ group, object, subgroup: 0, status: 0, payload: bytes(`${name} ${group}.${object}`) });

test("another rendition waits until the present one has come to the same group", async () => {
  const element = output(() => 1);
  const high = await element.add(track("high"), () => assert.fail("it is the first"));
  const low = await element.add(track("low"), () => true);
  high(object("high", 1, 0));
  low(object("low", 2, 0)); // earlier than what comes before
  low(object("low", 2, 1));
  element.adjust();
  high(object("high", 1, 1));
  high(object("high", 2, 0)); // the other one has it
  high(object("high", 3, 0));
  low(object("low", 2, 2));
  assert.deepEqual(FakeBuffer.latest.appended, [
    "init high", "high 1.0", "high 1.1", 'video/mp4; codecs="low"', "init low", "low 2.0", "low 2.1",
    "low 2.2",
  ]);
});

test("another rendition does not wait if there is nothing to show", async () => {
  let left = 1;
  const element = output(() => left);
  const high = await element.add(track("high"), () => true);
  const low = await element.add(track("low"), () => true);
  high(object("high", 1, 0));
  low(object("low", 2, 0));
  element.adjust();
  assert.deepEqual(FakeBuffer.latest.appended, ["init high", "high 1.0"]);
  left = 0.05;
  element.adjust();
  assert.deepEqual(FakeBuffer.latest.appended.slice(2), ['video/mp4; codecs="low"', "init low", "low 2.0"]);
});

test("a rendition that is not wanted any more does not play", async () => {
  const element = output(() => 1);
  const high = await element.add(track("high"), () => true);
  const low = await element.add(track("low"), () => false);
  const least = await element.add(track("least"), () => true);
  high(object("high", 1, 0));
  low(object("low", 2, 0));
  high(object("high", 2, 0));
  low(object("low", 3, 0));
  least(object("least", 3, 0)); // it takes the place of the other one, which waits
  high(object("high", 2, 1));
  high(object("high", 3, 0));
  assert.deepEqual(FakeBuffer.latest.appended, [
    "init high", "high 1.0", "high 2.0", "high 2.1", 'video/mp4; codecs="least"', "init least", "least 3.0",
  ]);
});

test("media that the element cannot parse ends the session", async () => {
  const failures: string[] = [];
  const video = Object.assign(new EventTarget(), {
    buffered: { length: 0 }, src: "", currentTime: 0, error: null as { message: string } | null,
  });
  const element = new ElementOutput(video as unknown as HTMLVideoElement, 200, (e) => failures.push(String(e)));
  const take = await element.add(track("high"), () => true);
  video.dispatchEvent(new Event("error"));
  assert.deepEqual(failures, [], "that was an earlier source's");
  video.error = { message: "no frame" };
  video.dispatchEvent(new Event("error"));
  FakeSource.latest.readyState = "ended";
  take(object("high", 1, 0));
  assert.deepEqual(failures, ["Error: no frame", "Error: the browser takes no more media"]);
  element.reset();
  FakeSource.latest.readyState = "closed";
  FakeBuffer.latest.dispatchEvent(new Event("updateend"));
  assert.equal(failures.length, 2, "a buffer of an earlier session says nothing");
});

test("a full buffer loses nothing", async () => {
  const element = output(() => 1);
  const take = await element.add(track("high"), () => true);
  take(object("high", 1, 0));
  const buffer = FakeBuffer.latest;
  [buffer.full, buffer.buffered] = [true, { length: 1, start: () => 2 }];
  take(object("high", 1, 1));
  take(object("high", 1, 2));
  assert.deepEqual(buffer.removed, [[2, 9], [2, 9]], "what was played");
  [buffer.full, buffer.buffered] = [false, { length: 0 }];
  element.adjust();
  assert.deepEqual(buffer.appended, ["init high", "high 1.0", "high 1.1", "high 1.2"]);
});
