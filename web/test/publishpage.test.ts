import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "./fake.js";

/** FakeElement is any element of the page. */
class FakeElement extends EventTarget {
  value = "live/me";
  checked = true;
  textContent = "";
  readonly classList = { toggle: () => {} };
  append(): void {}
  setAttribute(): void {}
  replaceChildren(): void {}
}

const elements = new Map<string, FakeElement>();

/** element returns the element with an id. */
function element(id: string): FakeElement {
  const e = elements.get(id) ?? new FakeElement();
  elements.set(id, e);
  return e;
}

class FakeEncoder {
  static isConfigSupported = async () => ({ supported: true });
  readonly state = "closed";
  constructor(private readonly init: { output: () => void }) {}
  configure(): void {}
  encode = () => this.init.output();
}

class FakePicture {
  close(): void {}
}

test("a form that is sent twice asks for one camera, which can be stopped", async () => {
  const streams: ((s: unknown) => void)[] = [];
  const getUserMedia = () => new Promise((resolve) => streams.push(resolve));
  Object.defineProperty(globalThis, "navigator", { value: { mediaDevices: { getUserMedia } }, configurable: true });
  const document = { getElementById: element, createElement: () => new FakeElement(), body: new FakeElement() };
  Object.assign(globalThis, { document, VideoEncoder: FakeEncoder, VideoFrame: FakePicture });
  await import("../src/entries/publish.js");
  for (let i = 0; i < 10; i++) await settle();
  const submit = () => element("form").dispatchEvent(new Event("submit"));
  submit();
  submit();
  let stopped = 0;
  const stream = () => {
    const t = Object.assign(new EventTarget(), { stop: () => void stopped++ });
    return { getTracks: () => [t], getVideoTracks: () => [], getAudioTracks: () => [] };
  };
  assert.equal(streams.length, 1);
  for (const give of streams) give(stream());
  await settle();
  assert.equal(element("start").textContent, "Stop");
  submit();
  assert.equal(stopped, 1);
  submit();
  assert.equal(streams.length, 2, "it may be published again");
});
