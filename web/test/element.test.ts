import assert from "node:assert/strict";
import { test } from "node:test";
import type { Track } from "../src/media/catalog.js";
import { ElementOutput } from "../src/media/element.js";
import type { MediaObject } from "../src/moqt/session.js";

/** FakeBuffer keeps what is appended, as text. */
class FakeBuffer extends EventTarget {
  static latest: FakeBuffer;
  readonly appended: string[] = [];
  readonly buffered = { length: 0 };
  updating = false;

  constructor() {
    super();
    FakeBuffer.latest = this;
  }

  changeType(type: string): void {
    this.appended.push(type);
  }

  appendBuffer(b: Uint8Array): void {
    this.appended.push(new TextDecoder().decode(b));
    this.dispatchEvent(new Event("updateend"));
  }
}

class FakeSource extends EventTarget {
  readonly readyState = "open";
  addSourceBuffer = () => new FakeBuffer();
}

Object.assign(globalThis, { MediaSource: FakeSource });
URL.createObjectURL = () => "";
URL.revokeObjectURL = () => {};

/** left is how many seconds the element still has to show. */
function output(left: () => number) {
  const buffered = { length: 1, start: () => 0, end: () => 10 + left() };
  const video = { buffered, currentTime: 10, paused: false, src: "" };
  return new ElementOutput(video as unknown as HTMLVideoElement, 200);
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
