// The page /: what is live.

import { findRelay } from "../relay.js";
import { find, messageOf } from "../ui/dom.js";
import { LiveList } from "../ui/live.js";

async function main(): Promise<void> {
  const relay = await findRelay();
  find("version").textContent = relay.version;
  const live = new LiveList(relay, find("live"), find("state"), () => {});
  await live.run();
}

main().catch((error: unknown) => (find("state").textContent = messageOf(error)));
