// The page /publish: camera, microphone and screen.

import { connect, nameOf, namespaceOf } from "../relay.js";
import { Broadcast } from "../publish/broadcast.js";
import { Capture, type Settings, supportedCodecs } from "../publish/capture.js";
import { handsFrames } from "../publish/frames.js";
import { find, make, messageOf } from "../ui/dom.js";

const value = (id: string) => find<HTMLInputElement | HTMLSelectElement>(id).value;
const checked = (id: string) => find<HTMLInputElement>(id).checked;

let current: { broadcast: Broadcast; capture: Capture } | undefined;
let asking = false; // the browser asks the user for the camera or the screen

function settings(): Settings {
  return {
    codec: value("codec"),
    bitrate: Number(value("bitrate")) * 1000,
    audioBitrate: 64_000,
    second: checked("second"),
    group: Number(value("group")),
    priorities: {
      audio: Number(value("priority-audio")),
      key: Number(value("priority-key")),
      delta: Number(value("priority-delta")),
    },
  };
}

/** source asks for what is to be published. */
async function source(): Promise<MediaStream> {
  const size = { height: { ideal: Number(value("size")) } };
  switch (value("source")) {
    case "screen":
      return navigator.mediaDevices.getDisplayMedia({ video: size, audio: checked("sound") });
    case "sound":
      return navigator.mediaDevices.getUserMedia({ audio: true });
    default:
      return navigator.mediaDevices.getUserMedia({ video: size, audio: checked("sound") });
  }
}

async function start(): Promise<void> {
  const namespace = namespaceOf(value("name"));
  if (namespace.length === 0) throw new Error("the broadcast needs a name, such as live/me");
  tell("Asking for the camera or the screen…");
  asking = true;
  const stream = await source().finally(() => (asking = false));
  const preview = find<HTMLVideoElement>("preview");
  preview.srcObject = stream;
  const token = value("token");
  const broadcast = new Broadcast(
    namespace,
    (url) => connect(location.origin, token || undefined, url),
    (state, live) => {
      tell(state);
      document.body.classList.toggle("on-air", live);
    },
  );
  const capture = new Capture(stream, broadcast, settings(), (error) => {
    stop();
    tell(`Stopped: ${messageOf(error)}.`);
  });
  current = { broadcast, capture };
  for (const t of stream.getTracks()) t.addEventListener("ended", () => stop());
  toggle(true);
  const link = `/?broadcast=${encodeURIComponent(nameOf(namespace))}`;
  find("watch").replaceChildren("Watch it at ", make("a", { href: link, target: "_blank" }, link));
  capture.start();
  await broadcast.run();
}

function stop(): void {
  current?.capture.stop();
  current?.broadcast.stop();
  current = undefined;
  find<HTMLVideoElement>("preview").srcObject = null;
  find("watch").replaceChildren();
  toggle(false);
}

function toggle(live: boolean): void {
  find("start").textContent = live ? "Stop" : "Publish";
  find<HTMLFieldSetElement>("settings").disabled = live;
}

function tell(state: string): void {
  find("state").textContent = state;
}

async function main(): Promise<void> {
  find("shown").hidden = handsFrames();
  const codecs = await supportedCodecs();
  if (codecs.length === 0) throw new Error("this browser cannot encode video for a page (WebCodecs)");
  find("codec").replaceChildren(...codecs.map((c) => make("option", { value: c.codec }, c.name)));
  const form = find<HTMLFormElement>("form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (current) return stop();
    if (asking) return; // a second capture would take the place of the first, which nothing could stop then
    start().catch((error: unknown) => {
      stop();
      tell(`Not published: ${messageOf(error)}.`);
    });
  });
  find<HTMLButtonElement>("start").disabled = false;
}

main().catch((error: unknown) => tell(messageOf(error)));
