// The page /embed: only the player, for frames.

import "../ui/element.js";
import { find } from "../ui/dom.js";

const query = new URLSearchParams(location.search);
const broadcast = query.get("broadcast");
const player = find("player");
if (broadcast) {
  const latency = query.get("latency");
  if (latency) player.setAttribute("latency", latency);
  player.setAttribute("broadcast", broadcast);
} else {
  find("hint").hidden = false;
}
