// The page /: what is live, and the player.

import "../ui/element.js";
import { findRelay } from "../relay.js";
import { find, messageOf } from "../ui/dom.js";
import { LiveList } from "../ui/live.js";

const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? undefined; // a hash is not sent

/** show plays a broadcast, or none. */
function show(live: LiveList, name: string | null): void {
  const section = find("watch");
  const player = find("player");
  section.hidden = name === null;
  live.mark(name ?? undefined);
  if (name === null) {
    player.removeAttribute("broadcast");
    document.title = "Sluice";
    return;
  }
  document.title = `${name} – Sluice`;
  find("name").textContent = name;
  if (token) player.setAttribute("token", token);
  player.setAttribute("broadcast", name);
  const link = new URL(location.origin);
  link.searchParams.set("broadcast", name);
  find<HTMLInputElement>("link").value = link.href;
  const frame = new URL("/embed", location.origin);
  frame.searchParams.set("broadcast", name);
  find<HTMLInputElement>("frame").value =
    `<iframe src="${frame.href}" width="640" height="440" allow="autoplay; fullscreen" title="${name.replaceAll('"', "&quot;")}"></iframe>`;
}

async function main(): Promise<void> {
  const relay = await findRelay();
  find("version").textContent = relay.version;
  const chosen = () => new URLSearchParams(location.search).get("broadcast");
  const live = new LiveList(relay, find("live"), find("state"), (name) => {
    history.pushState(null, "", `?broadcast=${encodeURIComponent(name)}${location.hash}`);
    show(live, name);
  });
  addEventListener("popstate", () => show(live, chosen()));
  show(live, chosen());
  await live.run(token);
}

main().catch((error: unknown) => (find("state").textContent = messageOf(error)));
