// The page /inside: what the relay does.

import "uplot/dist/uPlot.min.css";
import "../inside/inside.css";
import { View } from "../inside/view.js";
import type { Detail, Snapshot } from "../inside/snapshot.js";
import { find } from "../ui/dom.js";

const state = find("state");
let events: EventSource | undefined;

/** open gets snapshots, and what there is to know of a track. The browser connects again when the relay goes. */
function open(track?: number): void {
  events?.close();
  events = new EventSource(track === undefined ? "/inside/events" : `/inside/events?track=${track}`);
  events.addEventListener("open", () => (state.textContent = "Live"));
  events.addEventListener("error", () => {
    state.textContent = events?.readyState === EventSource.CLOSED
      ? "The relay does not show itself: too many look, or the token is wrong. Load the page again."
      : "The relay does not answer. Trying again…";
  });
  events.addEventListener("snapshot", (e) => view.show(JSON.parse(e.data) as Snapshot));
  events.addEventListener("track", (e) => view.showTrack(JSON.parse(e.data) as Detail));
}

const view = new View(open);
open();
